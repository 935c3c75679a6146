"""What the terminal says of conformance suites. Imports only the standard library: reports with properties load it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pytest

SUITE: Final = "fastdur.suite"
CLAUSE: Final = "fastdur.clause"
RULE: Final = "fastdur.rule"
LEFT_OUT: Final = "fastdur.not-implemented"
NOT_IMPLEMENTED: Final = "not-implemented"


def status(report: pytest.TestReport | pytest.CollectReport) -> tuple[str, str, str] | None:
    """A clause that is not claimed has not passed."""
    if getattr(report, "when", None) == "call" and report.passed and LEFT_OUT in _said(report):
        return NOT_IMPLEMENTED, "n", "NOT-IMPLEMENTED"
    return None


def summarize(terminalreporter: pytest.TerminalReporter) -> None:
    """One table for each suite."""
    suites: dict[str, dict[str, tuple[str, str, str, str]]] = defaultdict(dict)
    for reports in terminalreporter.stats.values():
        for report in reports:
            said = _said(report)
            if CLAUSE in said and (report.when == "call" or report.failed):
                name = f"{report.nodeid.partition('::')[0]}::{said[SUITE]}"
                outcome = "failed" if report.failed else NOT_IMPLEMENTED if LEFT_OUT in said else "passed"
                line = (said[CLAUSE], outcome, said[RULE], said.get(LEFT_OUT, ""))
                suites[name][line[0]] = line
    if suites:
        terminalreporter.section("fastdur conformance")
    for name in sorted(suites):
        for text in table_lines(name, suites[name].values(), short=terminalreporter.verbosity < 0):
            terminalreporter.write_line(text)


def _said(report: object) -> dict[str, str]:
    return {name: str(value) for name, value in getattr(report, "user_properties", ())}


def table_lines(suite: str, lines: Iterable[tuple[str, str, str, str]], *, short: bool = False) -> Iterator[str]:
    """Return the table of one suite, from (clause, outcome, rule, reason) each."""
    known = sorted(lines)
    counts = {outcome: sum(line[1] == outcome for line in known) for outcome in ("passed", "failed", NOT_IMPLEMENTED)}
    yield f"{suite}: " + ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
    groups: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for clause, outcome, _, reason in known:
        group, _, number = clause.partition("-")
        said = f"{outcome} ({reason})" if outcome == NOT_IMPLEMENTED else outcome
        groups[group][said].append(number)
    if not short:
        for group, outcomes in groups.items():
            parts = (f"{_runs(numbers)} {said}" for said, numbers in outcomes.items())
            yield f"  {group:<9} {'; '.join(parts)}"
    for clause, outcome, rule, reason in known:
        if outcome == "failed":
            yield f"  {clause} FAILED: {rule}"
            if reason:
                yield f"    {reason.splitlines()[0]}"


def _runs(numbers: list[str]) -> str:
    """`01-04 06` for the numbers 01, 02, 03, 04 and 06."""
    runs: list[list[str]] = []
    for number in numbers:
        if runs and int(runs[-1][-1]) + 1 == int(number):
            runs[-1].append(number)
        else:
            runs.append([number])
    return " ".join(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
