"""Crash coverage: at how many of the instants at which a fault can strike one has struck, for each store and fault.

A node that no story enters has a before and an after at which nothing strikes. Nodes, and lines where they are
boundaries, count as reached when any story reaches them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_fastdur.report.data import SweepReport

UNSTRUCK = ("FD15", "FD16")
"""Marks of points at which nothing has struck."""


@dataclass
class CrashCoverage:
    """What several sweeps have covered together."""

    struck: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """By store, and fault with before or after."""
    possible: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    reached: set[str] = field(default_factory=set[str])
    known: set[str] = field(default_factory=set[str])
    """Nodes of all runners that were swept, by the runner's name and theirs."""
    lines: set[str] = field(default_factory=set[str])
    known_lines: set[str] = field(default_factory=set[str])

    @staticmethod
    def of(reports: Iterable[SweepReport]) -> CrashCoverage:
        """What these have covered."""
        found = CrashCoverage()
        for report in reports:
            for column, number in report.possible.items():
                key = report.store, column
                found.possible[key] = found.possible.get(key, 0) + number
                cells = [mark for cell, mark in report.cells.items() if cell.endswith(f"={column}")]
                found.struck[key] = found.struck.get(key, 0) + sum(mark not in UNSTRUCK for mark in cells)
            found.reached |= set(report.reached)
            found.known |= set(report.nodes)
            found.lines |= set(report.lines)
            found.known_lines |= set(report.known_lines)
        return found

    @property
    def never(self) -> list[str]:
        """The nodes that no story has entered."""
        return sorted(self.known - self.reached)

    @property
    def missed_lines(self) -> list[str]:
        """The lines of nodes that were not executed in any lifetime, killed ones included."""
        return sorted(self.known_lines - self.lines)

    @property
    def percent(self) -> float:
        """How much of it all is covered; all of nothing is all."""
        whole = sum(self.possible.values()) + 2 * len(self.never) + len(self.missed_lines)
        return 100.0 * sum(self.struck.values()) / whole if whole else 100.0

    def text(self, wanted: float | None) -> Iterator[str]:
        """The lines of a terminal."""
        yield f"crash coverage: {self.percent:.4g} %" + ("" if wanted is None else f" ({wanted:g} % are wanted)")
        for store, fault in sorted({(store, column.rpartition(" ")[0]) for store, column in self.possible}):
            parts = [
                f"{when} {self.struck[store, f'{fault} {when}']} of {self.possible[store, f'{fault} {when}']}"
                for when in ("before", "after")
                if (store, f"{fault} {when}") in self.possible
            ]
            yield f"  {store:<9} {fault:<12} {', '.join(parts)}"
        if self.known_lines:
            yield f"  lines of nodes: {len(self.known_lines & self.lines)} of {len(self.known_lines)}"
        for kind, names in (("node", self.never), ("line", self.missed_lines)):
            if names:
                yield f"  never reached: {', '.join(f'{kind} {name}' for name in names)}"
