"""Stores side by side: one world for each, with what the callers of that store hold, and what they send."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fastdur.records import Checkpoint, Claim, EffectRecord, Execution, Frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdur.checkpointers.protocol import Checkpointer


@dataclass
class World:
    """One store, and what its callers hold of it. The n-th claim or reading is the same in every world."""

    name: str
    store: Checkpointer
    claims: list[Claim] = field(default_factory=list[Claim])
    readings: list[Execution] = field(default_factory=list[Execution])

    def claim(self, which: int) -> Claim:
        """A claim that somebody holds."""
        return self.claims[-1 - which % len(self.claims)]

    def reading(self, which: int) -> Execution:
        """A head as somebody has read it."""
        return self.readings[-1 - which % len(self.readings)]


def got(world: World, claim: Claim | None) -> Claim | None:
    """Keep a claim that was taken."""
    world.claims += [] if claim is None else [claim]
    return claim


def read(read: Callable[[Checkpointer], object], world: World) -> object:
    """Read from the store of a world."""
    return read(world.store)


def found(run: str, seq: int, nonce: str, store: Checkpointer) -> Checkpoint | None:
    """The row of this id; the store's own key is taken from the head."""
    head = store.get_execution(run)
    return store.get_by_id(run, f"{head.run if head else 1}-{seq}-{nonce}")


def effect(run: str, key: str, store: Checkpointer) -> EffectRecord | None:
    """One effect record."""
    return store.get_idempotent(run, key)


def listed(limit: int | None, asked: dict[str, Any], store: Checkpointer) -> list[Execution]:
    """The heads of some runs."""
    return store.list_executions(limit=limit, **asked)


def copy_of(claim: Claim) -> Claim:
    """The same claim as another holder has it."""
    return Claim(claim.execution_id, claim.run, claim.epoch, claim.token, claim.seq)


def row(at: Claim | Execution, data: Any, nonce: str, **kind: Any) -> Checkpoint:
    """The row that comes after `at`."""
    known: dict[str, Any] = {"node_id": "work", "node_index": 1, "step_type": "node", "status": "completed", **kind}
    frames = Frame("", 1, {"data": data, "pad": "p" * 1200}, (), (Frame("part", 2, {"data": data}),))
    seq, number = at.seq + 1, int(nonce[1:])
    known |= {"parent_checkpoint_id": f"1-2-{nonce}", "created_at": 1000.0 - number, "agent_path": "part"}
    return Checkpoint(at.execution_id, seq, f"{at.run}-{seq}-{nonce}", frames=frames, **known)
