"""`pytest --fastdur-lint`: the linter, once for each session, as a section at the end that fails the run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fastdur.lint import _output
from fastdur.lint._check import lint
from fastdur.lint._config import load
from fastdur.lint._findings import UsageError

if TYPE_CHECKING:
    from fastdur.lint._config import Config
    from fastdur.lint._findings import Report


def register(config: pytest.Config) -> None:
    """Lint at the end of this session; a worker of xdist leaves it to the process that started it."""
    if hasattr(config, "workerinput"):
        return
    pyproject = config.rootpath / "pyproject.toml"
    try:
        chosen = load(pyproject if pyproject.is_file() else None)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None
    config.pluginmanager.register(_Linting(chosen), "fastdur-lint")


class _Linting:
    """The linter as a plugin of its own."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._report: Report | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Lint what pytest was given, and what `paths` of the configuration names."""
        if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
            return
        root = self._config.root or session.config.rootpath
        given = [Path(session.config.invocation_params.dir, arg.partition("::")[0]) for arg in session.config.args]
        given += [root / path for path in self._config.paths]
        self._report = lint([path for path in given if path.exists()], self._config)
        if self._report.exit_code:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show the findings."""
        if self._report is None:
            return
        terminalreporter.section("fastdur lint")
        for problem in self._report.problems:
            terminalreporter.write_line(f"{problem.path}:{problem.line}: {problem.message}")
        for line in _output.text(self._report).splitlines():
            terminalreporter.write_line(line)
