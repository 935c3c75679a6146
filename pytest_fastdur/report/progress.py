"""How far a long sweep has come: one line of a terminal, written over and over, and gone at the end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pytest_fastdur.report.terminal import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_fastdur.report.data import SweepReport

_FIRST, _EVERY = 1.0, 0.2
"""After how many seconds the line is there, and how often it is written anew."""
_LENGTH = 24


class Bar:
    """The line. `write` puts text on the terminal."""

    def __init__(self, write: Callable[[str], object], clock: Callable[[], float] = time.monotonic) -> None:
        self._write, self._clock = write, clock
        self._due = clock() + _FIRST
        self._shown = False

    def __call__(self, report: SweepReport) -> None:
        """Say how far a sweep has come, if it was not said just now."""
        if self._clock() < self._due:
            return
        self._due = self._clock() + _EVERY
        self._shown = True
        self._write(f"\r\x1b[K{line_of(report)}")

    def close(self) -> None:
        """Take the line away."""
        if self._shown:
            self._write("\r\x1b[K")


def line_of(report: SweepReport) -> str:
    """How far a sweep has come."""
    share = report.points / report.ordered if report.ordered else 0.0
    full = int(_LENGTH * share)
    more = f", {counted(report.lifetimes, 'lifetime')}"
    if report.findings:
        more += f", {counted(len(report.findings), 'finding')}"
    bar = "#" * full + "." * (_LENGTH - full)
    return f"{report.story} [{bar}] {report.points:,} of {counted(report.ordered, 'point')}{more}"
