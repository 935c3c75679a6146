"""What clauses are made of: runs, rows, questions and effects, and all that a store holds of a run."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any, Final

from fastdur._codec import dumps
from fastdur.checkpointers.protocol import Start
from fastdur.records import Checkpoint, Claim, EffectRecord, Execution, Frame, PendingInterrupt

if TYPE_CHECKING:
    from fastdur.checkpointers.protocol import Checkpointer

ODD: Final = "k'\"\\%_\u0000\ud800\u00e9\U0001f600 "
"""A text that few databases keep by themselves: quotes, a NUL, half a surrogate pair, a blank at the end."""

_PAD: Final = "p" * 1200  # a store may keep small states in another form than big ones
_numbers = itertools.count(1)


def start(store: Checkpointer, execution_id: str = "r", token: str = "first", **fields: Any) -> Claim:
    """Start a run."""
    known: dict[str, Any] = {
        "runner": "flow",
        "kind": "chain",
        "owner": "me",
        "graph": {"nodes": {}},
        "input": {"n": 1},
        **fields,
    }
    return store.start_execution(Start(execution_id=execution_id, token=token, **known))


def row(at: Claim | Execution, data: Any = ..., *, nonce: str | None = None, **fields: Any) -> Checkpoint:
    """The row that comes after `at`, with an id of its own."""
    seq = fields.pop("seq", at.seq + 1)
    nonce = nonce or f"{os.getpid():x}x{next(_numbers):x}"
    state = {"data": {"n": seq} if data is ... else data, "pad": _PAD}
    known: dict[str, Any] = {
        "node_id": "work",
        "node_index": seq,
        "step_type": "node",
        "status": "completed",
        "frames": Frame("", 1, state),
        **fields,
    }
    return Checkpoint(at.execution_id, seq, f"{at.run}-{seq}-{nonce}", **known)


def copy_of(claim: Claim) -> Claim:
    """The same claim as another holder has it."""
    return Claim(claim.execution_id, claim.run, claim.epoch, claim.token, claim.seq)


def pause(at: Claim | Execution, **fields: Any) -> Checkpoint:
    """The row of a pause."""
    return row(at, step_type="hitl_pause", status="interrupted", **fields)


def answer(at: Claim | Execution, data: Any = ..., **fields: Any) -> Checkpoint:
    """The row of a decision."""
    return row(at, data, step_type="resumed", status="resumed", **fields)


def ending(at: Claim | Execution, **fields: Any) -> Checkpoint:
    """The end marker."""
    return row(at, step_type="run_end", status="failed", **fields)


def question(at: Claim | Execution, interrupt_id: str = "ask#1/1", **fields: Any) -> PendingInterrupt:
    """An open question."""
    known: dict[str, Any] = {
        "runner": "flow",
        "node_id": "ask",
        "reason": "why?",
        "context": {"sum": 5},
        "agent_path": "",
        "created_at": 1.5,
        **fields,
    }
    return PendingInterrupt(at.execution_id, interrupt_id, **known)


def effect(key: str = "k", attempt: str = "a1", status: Any = "started", **fields: Any) -> EffectRecord:
    """An effect record."""
    known: dict[str, Any] = {"name": "charge", "args": "digest", "path": "work#1", **fields}
    return EffectRecord(key, status=status, attempt=attempt, **known)


def head(store: Checkpointer, execution_id: str = "r") -> Execution:
    """The head of a run that is there."""
    found = store.get_execution(execution_id)
    assert found is not None, f"run {execution_id!r} is not there"
    return found


def paused(store: Checkpointer, execution_id: str = "r", *ids: str, **fields: Any) -> Execution:
    """A run that waits for the answers to the questions `ids`, by default one."""
    claim = start(store, execution_id)
    asked = [question(claim, each, **fields) for each in ids or ("ask#1/1",)]
    store.record_interrupt(claim, pause(claim), asked, "paused")
    return head(store, execution_id)


def shown(checkpoint: Checkpoint | None) -> tuple[object, ...]:
    """A row such that two of them are equal only with equal types."""
    assert checkpoint is not None, "the row is not there"
    return (
        checkpoint.execution_id,
        checkpoint.seq,
        checkpoint.checkpoint_id,
        checkpoint.node_id,
        checkpoint.node_index,
        checkpoint.step_type,
        checkpoint.status,
        dumps(checkpoint.frames.tree()),
        checkpoint.agent_path,
        dumps(dict(checkpoint.extra)),
        checkpoint.parent_checkpoint_id,
        checkpoint.created_at,
        checkpoint.format,
    )


def everything(store: Checkpointer, execution_id: str = "r") -> dict[str, object]:
    """All that a store holds of a run."""
    return {
        "head": store.get_execution(execution_id),
        "rows": [shown(each) for each in store.list(execution_id)],
        "questions": store.list_pending_interrupts(execution_id),
        "effects": store.list_idempotent(execution_id),
    }


def states(store: Checkpointer, execution_id: str = "r") -> list[Any]:
    """The user's state after each row."""
    return [each.state_snapshot for each in store.list(execution_id)]
