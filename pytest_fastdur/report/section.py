"""The section at the end of a test run: what was swept, what was found, what was covered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_fastdur.options import report_folder
from pytest_fastdur.plugin import PATCH, option
from pytest_fastdur.report.coverage import CrashCoverage
from pytest_fastdur.report.data import SweepReport
from pytest_fastdur.report.terminal import summary_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest


def write_section(terminalreporter: pytest.TerminalReporter, texts: Iterable[str], *, patch: bool) -> None:
    """Write it; `texts` are the reports that came with those of tests."""
    config = terminalreporter.config
    if option(config, "report") is not None:
        from pytest_fastdur.report.page import write_page

        terminalreporter.write_line(f"fastdur: the histories are in {write_page(report_folder(config))}")
    if patch:
        _write_regressions(terminalreporter)
    tw: Any = getattr(terminalreporter, "_tw")  # noqa: B009 - the one way to its width and colours
    terminalreporter.section("fastdur")
    reports = reports_in(texts)
    short = terminalreporter.verbosity < 0
    for report in reports:
        for line in summary_lines(report, min(tw.fullwidth, 120), color=tw.hasmarkup, short=short):
            terminalreporter.write_line(line)
    covered = CrashCoverage.of(reports)
    wanted = option(config, "fail_under")
    if wanted is not None or covered.never or covered.missed_lines:
        for line in covered.text(None if wanted is None else float(wanted)):
            terminalreporter.write_line(line, red=wanted is not None and covered.percent < float(wanted))


def reports_in(texts: Iterable[str]) -> list[SweepReport]:
    """The sweeps of a run."""
    return [SweepReport.of(plain) for text in texts for plain in json.loads(text)]


def covers_enough(config: pytest.Config, texts: Iterable[str]) -> bool:
    """Whether as much is covered as `--fastdur-fail-under` wants."""
    wanted = option(config, "fail_under")
    return wanted is None or CrashCoverage.of(reports_in(texts)).percent >= float(wanted)


def _write_regressions(terminalreporter: pytest.TerminalReporter) -> None:
    """The findings of this run, as marks on the tests that have found them."""
    from pytest_fastdur.report.regressions import patch_of

    config = terminalreporter.config
    found = [
        (report.location[0], report.location[1], finding["token"])
        for reports in terminalreporter.stats.values()
        for report in reports
        if hasattr(report, "fastdur")
        for sweep in json.loads(report.fastdur)
        for finding in sweep["findings"]
    ]
    patch = patch_of(config.rootpath, found)
    if patch:
        (config.invocation_params.dir / PATCH).write_text(patch, encoding="utf-8")
        terminalreporter.write_line(f"fastdur: {PATCH} marks the tests with what they found; git apply {PATCH}")
