"""What is durable of a story: read through a store object of its own, as any other process would read it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from fastdur.records import output_of
from pytest_fastdur.observers import row_fact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastdur.checkpointers.protocol import Checkpointer
    from fastdur.records import Checkpoint, EffectRecord, Execution, Frame, PendingInterrupt


@dataclass(frozen=True)
class RunState:
    """One run: its head, its rows, its open questions, its effect records."""

    head: Execution
    rows: tuple[Checkpoint, ...]
    pending: tuple[PendingInterrupt, ...]
    effects: tuple[EffectRecord, ...]

    @cached_property
    def facts(self) -> list[tuple[str, ...]]:
        """The content of each row."""
        return [row_fact(row) for row in self.rows]

    @property
    def frames(self) -> Frame | None:
        """The newest frames."""
        return self.rows[-1].frames if self.rows else None

    @property
    def values(self) -> Any:
        """The user's state, in frozen form."""
        return self.head.input if self.frames is None else self.frames.state.get("data")

    @property
    def output(self) -> Any:
        """What the last node put into the state."""
        return None if self.frames is None else output_of(self.frames.state)

    def recorded(self) -> frozenset[str]:
        """The keys of the effects that must not run again."""
        return frozenset(record.key for record in self.effects if record.status in ("done", "unstorable"))

    def lines(self) -> Iterator[str]:
        """What is stored, one thing a line, without ids, times, epochs and owners."""
        owned = ", claimed" if self.head.owned else ""
        yield f"run: {self.head.status}{owned}"
        for row, fact in zip(self.rows, self.facts, strict=True):
            yield f"row {row.seq}: {row.node_id} {row.step_type} {row.status} [{fact[3][:6]}]"
        for pending in self.pending:
            yield f"open question: {pending.interrupt_id} ({pending.reason})"
        for record in self.effects:
            yield f"effect {record.name.rpartition('.')[2]}: {record.status}"

    @cached_property
    def canonical(self) -> tuple[object, ...]:
        """What a process that finds this run can tell it from another by: equal where the same will come of it.

        No ids, times, epochs, owners and numbers of rows. A lease is live or has run out; of the end markers of
        failures, which a run steps over, there is one or none, and of rows that repeat the one before there are none.
        """
        steps = [fact for fact in self.facts if fact[1:3] != ("run_end", "failed")]
        way = tuple(fact for place, fact in enumerate(steps) if place == 0 or fact != steps[place - 1])
        return (
            self.head.status,
            self.head.owned and ("held" if self.head.lease_live else "expired"),
            self.head.parent_address,
            way,
            bool(self.facts) and self.facts[-1][1:3] == ("run_end", "failed"),
            tuple((pending.interrupt_id, pending.reason) for pending in self.pending),
            tuple(sorted((record.key, record.status, record.path) for record in self.effects)),
        )


@dataclass(frozen=True)
class DurableState:
    """Every run in a store; the story's own is `run`, the others follow in the order of their start."""

    run: RunState | None
    others: tuple[RunState, ...] = ()

    @staticmethod
    def read(store: Checkpointer, execution_id: str) -> DurableState:
        """Read it. Raises `StoreError`."""
        heads = sorted(store.list_executions(), key=lambda head: head.run)
        found = {head.execution_id: _run(store, head) for head in heads}
        own = found.pop(execution_id, None)
        return DurableState(own, tuple(found.values()))

    @property
    def runs(self) -> tuple[RunState, ...]:
        """All of them, the story's own first."""
        return self.others if self.run is None else (self.run, *self.others)

    @cached_property
    def lines(self) -> list[str]:
        """What is stored, in canonical form."""
        if not self.runs:
            return ["nothing"]
        mine = [] if self.run is None else list(self.run.lines())
        return [*mine, *(f"run {n}: {line}" for n, other in enumerate(self.others, 2) for line in other.lines())]

    @cached_property
    def canonical(self) -> tuple[object, ...]:
        """Equal where the same will come of it."""
        return tuple(run.canonical for run in self.runs)

    @cached_property
    def digest(self) -> str:
        """Equal where the content is, row by row."""
        return sha256("\n".join(self.lines).encode("utf-8", "surrogatepass")).hexdigest()


def _run(store: Checkpointer, head: Execution) -> RunState:
    return RunState(
        head,
        tuple(store.list(head.execution_id)),
        tuple(store.list_pending_interrupts(head.execution_id)),
        tuple(store.list_idempotent(head.execution_id)),
    )
