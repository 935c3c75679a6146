"""The result of a sweep as plain data: it crosses from an xdist worker to its controller as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Finding:
    """One cause of failure, and every point that shows it."""

    code: str
    name: str
    what: str
    token: str
    points: list[str]
    """Where it shows; the first is the one that is described."""
    lifetimes: list[str]
    change: list[str]
    """What is durable now that was not in the last good history, `+` and `-`."""
    cause: str
    cure: str

    @property
    def verdict(self) -> str:
        """`FD07 EFFECT_REPEATED`."""
        return f"{self.code} {self.name}"


@dataclass
class SweepReport:
    """What was ordered, what was tried, and what came of it.

    `matrix` has a row for each boundary of the uninterrupted run, in order: its lifetime, its name, and its cells by
    `<fault> <before|after>`: `ok`, a code, `alt` (the story itself dealt with a raised error and went another way),
    `ask` (the run stopped with `EffectUnknown`, and held once somebody had said what happened), or no cell where
    nothing was tried.
    """

    story: str
    faults: list[str]
    digest: str = ""
    boundaries: list[str] = field(default_factory=list[str])
    """Every instant of the uninterrupted run, in order."""
    rows: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    cells: dict[str, str] = field(default_factory=dict[str, str])
    findings: list[Finding] = field(default_factory=list[Finding])
    points: int = 0
    """How many faulted histories were tried."""
    ordered: int = 0
    """How many there are."""
    pairs: int = 0
    """How many of those tried had a second fault, in the recovery."""
    lifetimes: int = 0
    states: int = 0
    """How many durable states were carried on, where crashes went to any depth."""
    instants: int = 0
    """How many instants of recoveries were looked at: each is a crash of one."""
    replayed: int = 0
    """How many histories that were kept, or found last time, were played first."""
    sampled: int = 0
    """How many real kills were compared with the crashes that were played."""
    images: int = 0
    """How many images of a file, such as a power cut may leave, were looked at."""
    deepest: int = 0
    """The most faults in one history."""
    closed: bool = True
    """Whether no state is left that nobody has carried on."""
    notes: list[str] = field(default_factory=list[str])
    """What the sweep cannot show, because the story does not go there."""
    stopped: str | None = None
    """Why the sweep ended before it began."""
    restricted: str | None = None
    """What left points out: a pattern, a replay token."""
    inapplicable: list[str] = field(default_factory=list[str])
    """The faults that were ordered and do not exist on this store."""
    possible: dict[str, int] = field(default_factory=dict[str, int])
    """At how many instants of the uninterrupted run a fault can strike, by `<fault> <before|after>`."""
    nodes: list[str] = field(default_factory=list[str])
    """The nodes of the runner, `refund/review`, those of runners inside of it too."""
    reached: list[str] = field(default_factory=list[str])
    """Those that were entered, in any lifetime."""
    known_lines: list[str] = field(default_factory=list[str])
    """The lines of the nodes, where they are boundaries."""
    lines: list[str] = field(default_factory=list[str])
    """Those that were executed, in any lifetime, killed ones included."""
    store: str = "sqlite"
    """Where the histories were kept."""
    nodeid: str | None = None

    @property
    def ok(self) -> bool:
        """Whether everything that was ordered was tried and nothing was found."""
        return not self.findings and self.stopped is None and self.complete

    @property
    def complete(self) -> bool:
        """Whether no budget cut the sweep off."""
        return self.points == self.ordered and self.points > 0 and self.closed

    @property
    def matrix(self) -> list[tuple[str, str, dict[str, str]]]:
        """The crash matrix."""
        columns = [f"{fault} {when}" for fault in self.faults for when in ("before", "after")]
        return [
            (
                lifetime,
                name,
                {
                    column: self.cells[cell_key(lifetime, name, column)]
                    for column in columns
                    if cell_key(lifetime, name, column) in self.cells
                },
            )
            for lifetime, name in self.rows
        ]

    def replay(self, finding: Finding) -> str:
        """The line that plays a finding again."""
        where = f'"{self.nodeid}" ' if self.nodeid else ""
        return f"pytest {where}--fastdur-replay='{finding.token}'"

    def plain(self) -> dict[str, Any]:
        """As JSON keeps it."""
        return asdict(self)

    @staticmethod
    def of(plain: dict[str, Any]) -> SweepReport:
        """The report that `plain` was made from."""
        known = dict(plain)
        known["findings"] = [Finding(**finding) for finding in plain["findings"]]
        known["rows"] = [(lifetime, name) for lifetime, name in plain["rows"]]
        return SweepReport(**known)

    def render(self, width: int = 100, *, color: bool = False) -> str:
        """The matrix and the findings as text."""
        from pytest_fastdur.report.terminal import render

        return render(self, width, color=color)


def cell_key(lifetime: str, name: str, column: str) -> str:
    """The key of a cell."""
    return f"{lifetime}/{name}={column}"
