"""From the report of a test to the end of a run: what was swept, and what is said about it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pytest_fastdur import clauses

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_fastdur.report.data import SweepReport

_SWEEPS = pytest.StashKey[list["SweepReport"]]()
_CARRIER = "fastdur-carrier"


class _Carrier:
    """Hands what was swept to whoever prints: the report of a test is what crosses from an xdist worker."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Write the sweeps of a test into the report of its call."""
        report = yield
        sweeps = item.stash.get(_SWEEPS, None)
        if call.when == "call" and sweeps:
            vars(report)["fastdur"] = json.dumps([sweep.plain() for sweep in sweeps])
        return report


def keep(item: pytest.Item, report: SweepReport) -> None:
    """Let the report of this test tell of a sweep. Nothing listens to the reports of tests before the first sweep."""
    item.stash.setdefault(_SWEEPS, []).append(report)
    plugins = item.config.pluginmanager
    if not plugins.has_plugin(_CARRIER):
        plugins.register(_Carrier(), _CARRIER)


def _swept(config: pytest.Config) -> list[str]:
    """What was swept in this run, as it came with the reports of tests, whichever process has run them."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    reports = [report for known in reporter.stats.values() for report in known] if reporter is not None else []
    return list({id(report): report.fastdur for report in reports if hasattr(report, "fastdur")}.values())


def fail_under(session: pytest.Session) -> None:
    """Fail a run that covers less than is wanted."""
    if hasattr(session.config, "workerinput"):
        return
    from pytest_fastdur.report.section import covers_enough

    if session.exitstatus == pytest.ExitCode.OK and not covers_enough(session.config, _swept(session.config)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def summarize(terminalreporter: pytest.TerminalReporter) -> None:
    """The crash matrix of every story that was swept, the lines that replay what was found, and tables of suites."""
    config = terminalreporter.config
    if swept := _swept(config):
        from pytest_fastdur.report.section import write_section

        write_section(terminalreporter, swept, patch=bool(config.getoption("fastdur_write_regressions")))
    clauses.summarize(terminalreporter)
