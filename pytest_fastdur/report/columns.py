"""A race as text: the counts, and each finding with one column for each actor and its deviations marked."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_fastdur.interleave import RaceFinding, RaceReport
    from pytest_fastdur.schedules import Moment

_WIDTH = 44


def render(report: RaceReport) -> str:
    """The whole report."""
    return "\n".join(_lines(report))


def _lines(report: RaceReport) -> Iterator[str]:
    bound = "all schedules" if report.bound is None else f"at most {report.bound} preemptions"
    extras = f", {report.extras}" if report.extras else ""
    yield f"{report.story} on {report.store}: {', '.join(report.actors)} on a run that is {report.situation}"
    end = "complete" if report.complete else "CUT OFF by the budget, which is no pass"
    yield f"{bound}{extras}: {report.schedules:,} schedules, {report.states:,} states, {end}"
    for outcomes, times in sorted(report.ends.items()):
        yield f"  {' | '.join(outcomes)}: {times}"
    for finding in report.findings:
        yield ""
        yield from _finding(finding)


def _finding(finding: RaceFinding) -> Iterator[str]:
    yield f"{finding.violation.verdict}: {finding.violation.what}"
    heads = [f"{number} {name}" for number, name in enumerate(finding.actors)]
    yield "  " + "".join(f"{head:<{_WIDTH}}" for head in heads).rstrip()
    for line in _steps(finding.moments):
        yield f"  {line}"
    yield "  " + "".join(f"{'= ' + outcome:<{_WIDTH}}" for outcome in finding.outcomes).rstrip()
    yield f"  cause:   {finding.violation.verdict.cause}"
    yield f"  cure:    {finding.violation.verdict.cure}"
    yield f"  replay:  --fastdur-replay='{finding.token}', or interleave(..., replay={finding.token!r})"


def _steps(moments: Sequence[Moment]) -> Iterator[str]:
    """The steps in columns; those of one actor in one thing it does stand in one line."""

    def kind(moment: Moment) -> tuple[int, str, str, int | None]:
        return moment.choice.actor, moment.doing, moment.choice.what, moment.preempts

    for key, same in groupby(moments, key=kind):
        actor, doing, what, preempts = key
        if what == "tick":
            yield f"{'-' * 12} {doing}, and whoever stands still is a zombie {'-' * 12}"
            continue
        gates = " ".join(moment.gate for moment in same)
        marks = {"kill": "  KILLED", "lose": "  ANSWER LOST"}.get(what, "")
        text = f"{doing}: {gates}{marks}"
        if preempts is not None:
            text += f"  <- preempts {preempts}"
        yield f"{' ' * (_WIDTH * actor)}{text}"
