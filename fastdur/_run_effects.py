"""What the engine may ask of a driver about whole runs: how they branch off, and how they leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastdur._effects import Effect
from fastdur._pruned import Pruned
from fastdur.records import Checkpoint

if TYPE_CHECKING:
    from collections.abc import Generator
    from datetime import timedelta

    from fastdur._codec import Frozen
    from fastdur._effects import Row
    from fastdur.records import Execution


_TRIES = 3
"""How often a run is taken from an owner as of a reading, before that owner is fenced first."""


@dataclass(slots=True, eq=False)
class OneRow(Effect[Checkpoint | None]):
    """Read one row of a run."""

    execution_id: str
    checkpoint_id: str

    @property
    def name(self) -> str:
        """The boundary."""
        return "row"


@dataclass(slots=True, eq=False)
class Children(Effect[list["Execution"]]):
    """Read the heads of the runs that the nodes of a run have started."""

    execution_id: str

    @property
    def name(self) -> str:
        """The boundary."""
        return "children"


@dataclass(slots=True, eq=False)
class Fork(Effect[None]):
    """Write the head and first row of a run that goes on from a row of another, and own it. Raises `RunExists`."""

    execution_id: str
    seen: Execution
    source: Checkpoint | None
    """The row it goes on from; None where it begins like its source."""
    runner: str
    kind: str
    graph: Frozen
    input: Frozen
    row: Row
    recorded: bool

    @property
    def name(self) -> str:
        """The boundary."""
        return "fork"


@dataclass(slots=True, eq=False)
class Fence(Effect[None]):
    """Take a claim from its owner, and give it to nobody."""

    seen: Execution

    @property
    def name(self) -> str:
        """The boundary."""
        return "fence"


def outrun(head: Execution, tries: int) -> Generator[Effect[Any], Any, bool]:
    """Whether this was tried in vain too often, and the owner, which writes faster than its run is read, is fenced.

    Then nobody writes any more, and what is read next is the newest.
    """
    fenced = tries > _TRIES and head.owned
    if fenced:
        yield from Fence(head)
    return fenced


@dataclass(slots=True, eq=False)
class Delete(Effect[bool]):
    """Remove runs, all or none, as of these readings. False where a head has moved."""

    seen: tuple[Execution, ...]

    @property
    def name(self) -> str:
        """The boundary."""
        return "delete"


@dataclass(slots=True, eq=False)
class Prune(Effect[Pruned]):
    """Remove the next batch of runs that ended long enough ago."""

    older_than: timedelta
    failed: timedelta | None
    dry_run: bool
    after: int
    limit: int

    @property
    def name(self) -> str:
        """The boundary."""
        return "prune"
