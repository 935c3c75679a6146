"""Every writing method once, prepared on a run of its own and ready to be called, again too."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fastdur._codec import dumps
from pytest_fastdur.conformance._made import (
    answer,
    copy_of,
    effect,
    ending,
    head,
    pause,
    paused,
    question,
    row,
    start,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fastdur.checkpointers.protocol import Checkpointer
    from fastdur.records import Checkpoint, Claim

    Prepared: TypeAlias = Callable[[Checkpointer], object]
    """A write. It may be called again, with another store object too: its ids stay the same."""


def _claimed(claim: Claim | None) -> object:
    return claim and (claim.epoch, claim.token, claim.seq)


def _number(row: Checkpoint) -> object:
    return row.seq, row.node_id


def _start(_: Checkpointer, name: str) -> Prepared:
    return lambda store: _claimed(start(store, name))


def _fork(store: Checkpointer, name: str) -> Prepared:
    source = start(store, f"{name} source")
    store.begin_idempotent(source, effect())
    store.put_idempotent(source, effect(status="done", result={"paid": 1}))
    first = replace(row(replace(source, execution_id=name, seq=0), step_type="fork_origin"), checkpoint_id="0f")
    fields: dict[str, Any] = {
        "parent_id": f"{name} source",
        "origin": first,
        "recorded": True,
        "parent_run": source.run,
    }
    return lambda store: _claimed(start(store, name, **fields))


def _claim(store: Checkpointer, name: str) -> Prepared:
    start(store, name)
    seen = head(store, name)
    edited = row(seen, "edited", nonce="claim")
    return lambda store: _claimed(store.claim_execution(seen, "second", "you", edited, {"nodes": 2}))


def _bare_claim(store: Checkpointer, name: str) -> Prepared:
    start(store, name)
    seen = head(store, name)
    return lambda store: _claimed(store.claim_execution(seen, "second", "you"))


def _answer(store: Checkpointer, name: str) -> Prepared:
    seen = paused(store, name)
    decision = answer(seen, nonce="answer")
    return lambda store: _claimed(
        store.delete_pending_interrupt_atomic(seen, "second", "you", "ask#1/1", decision, {"nodes": 2})
    )


def _decide(store: Checkpointer, name: str) -> Prepared:
    seen = paused(store, name)
    decision = answer(seen, nonce="decision")
    return lambda store: store.decide(seen, "ask#1/1", decision, "running")


def _cancel(store: Checkpointer, name: str) -> Prepared:
    seen = paused(store, name, "a#1/1", "b#1/1")
    marker = ending(seen, nonce="end")
    return lambda store: store.cancel(seen, marker)


def _release(store: Checkpointer, name: str) -> Prepared:
    claim = start(store, name)
    return lambda store: store.release(claim)


def _delete(store: Checkpointer, name: str) -> Prepared:
    claim = start(store, name)
    store.begin_idempotent(claim, effect())
    store.record_interrupt(claim, pause(claim), [question(claim)], "paused")
    seen = [head(store, name)]
    return lambda store: store.delete_execution(seen)


def _put(store: Checkpointer, name: str) -> Prepared:
    claim = start(store, name)
    for key in ("a", "b"):
        store.begin_idempotent(claim, effect(key))
        store.put_idempotent(claim, effect(key, status="failed"))
    written = row(claim, nonce="put")
    return lambda store: _number(store.put(copy_of(claim), written, "failed", clear_failed="work#1"))


def _pause(store: Checkpointer, name: str) -> Prepared:
    claim = start(store, name)
    written, asked = pause(claim, nonce="pause"), [question(claim, "a#1/1"), question(claim, "b#1/1")]
    return lambda store: _number(store.record_interrupt(copy_of(claim), written, asked, "paused"))


def _begin(store: Checkpointer, name: str) -> Prepared:
    claim = start(store, name)
    return lambda store: store.begin_idempotent(claim, effect())


def _end(store: Checkpointer, name: str) -> Prepared:
    claim = start(store, name)
    store.begin_idempotent(claim, effect())
    return lambda store: store.put_idempotent(claim, effect(status="done", result={"paid": 1}))


WRITES: Final[Mapping[str, Callable[[Checkpointer, str], Prepared]]] = {
    "start_execution": _start,
    "start_execution with an origin": _fork,
    "delete_execution": _delete,
    "claim_execution": _bare_claim,
    "claim_execution with a row": _claim,
    "delete_pending_interrupt_atomic": _answer,
    "decide": _decide,
    "cancel": _cancel,
    "release": _release,
    "put": _put,
    "record_interrupt": _pause,
    "begin_idempotent": _begin,
    "put_idempotent": _end,
}


def told(store: Checkpointer, execution_id: str) -> object:
    """All that is stored of a run, but for what differs from one run to another: ids, keys, times."""
    found: Any = store.get_execution(execution_id)
    same: dict[str, Any] = {"execution_id": "", "run": 0, "created_at": 0.0, "updated_at": 0.0}
    if found is not None and found.parent_id is not None:
        same |= {"parent_id": "source", "parent_run": None if found.parent_run is None else 0}
    return (
        found and replace(found, **same),
        [(each.seq, each.node_id, each.step_type, dumps(each.frames.tree())) for each in store.list(execution_id)],
        [replace(each, execution_id="") for each in store.list_pending_interrupts(execution_id)],
        store.list_idempotent(execution_id),
    )
