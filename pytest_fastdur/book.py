"""What came of the histories of one sweep, written into its report: marks, findings by cause, what was reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_fastdur.control import names_of
from pytest_fastdur.report.data import Finding, cell_key
from pytest_fastdur.world import address_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_fastdur.control import Control
    from pytest_fastdur.history import Outcome
    from pytest_fastdur.observers import Event
    from pytest_fastdur.report.data import SweepReport


class Book:
    """The report of one sweep, being written."""

    def __init__(self, control: Control, report: SweepReport) -> None:
        self._control, self._report = control, report
        self._good: list[str] = []
        self._causes: dict[tuple[str, str], Finding] = {}
        self._reached: set[str] = set()
        self._lines: set[str] = set()
        run = control.state.run
        self._runner = "" if run is None else run.head.runner
        self.cover(control.events.values())

    def cover(self, events: Iterable[Event]) -> None:
        """Note which nodes were entered and which lines were executed."""
        for event in events:
            if event.kind == "Invoke" and event.path is not None and not event.run:
                self._reached |= {f"{self._runner}/{name}" for name in names_of(address_of(event.path))}
            elif event.kind == "Line":
                self._lines.add(event.name.partition(" [")[0].removeprefix("line "))

    def close(self) -> None:
        """What was reached, into the report."""
        self._report.reached, self._report.lines = sorted(self._reached), sorted(self._lines)

    def enter(self, outcome: Outcome) -> None:
        """Into the matrix, at the first fault: the worst that came of it; and among the findings."""
        step = outcome.plan.steps[0]
        key = cell_key(step.point.lifetime, step.point.name, f"{step.fault.value} {step.point.when}")
        self._report.cells[key] = _worse(self._report.cells.get(key), outcome.mark)
        if outcome.violation is None:
            self._good = outcome.struck.lines
            return
        verdict = outcome.violation.verdict
        place = str(outcome.plan)
        if any(place in finding.points for finding in self._report.findings):
            return  # it was played first
        # One cause: the same was durable when the fault struck, or the same was seen in the end.
        signs = ((verdict.code, outcome.struck.digest), (verdict.code, outcome.violation.what))
        known = next((self._causes[sign] for sign in signs if sign in self._causes), None)
        if known is not None:
            known.points.append(place)
            self._causes.update(dict.fromkeys(signs, known))
            return
        finding = Finding(
            verdict.code,
            verdict.name,
            outcome.violation.what,
            outcome.plan.token(self._control.digest),
            [place],
            [str(lifetime) for lifetime in outcome.lifetimes],
            change(self._good, outcome.struck.lines),
            verdict.cause,
            verdict.cure,
        )
        self._causes.update(dict.fromkeys(signs, finding))
        self._report.findings.append(finding)
        self._report.findings.sort(key=lambda each: each.code)


def _worse(known: str | None, mark: str) -> str:
    """Of two marks of one cell the one that counts: a code before `ask` before `alt` before `ok`, low codes first."""
    rank = {"ok": "z", "alt": "y", "ask": "x"}
    marks = [mark] if known is None else [known, mark]
    return min(marks, key=lambda each: rank.get(each, each))


def change(before: Sequence[str], now: Sequence[str]) -> list[str]:
    """What is gone and what is new, a line each."""
    gone = [f"- {line}" for line in before if line not in now]
    new = [f"+ {line}" for line in now if line not in before]
    return gone + new
