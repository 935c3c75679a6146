"""The effects that touch the store, each as one call of the store under the claim of a lifetime."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fastdur import _owner
from fastdur._effects import (
    Answer,
    Append,
    BeginEffect,
    Cancel,
    Decide,
    EndEffect,
    History,
    Look,
    Reading,
    Recorded,
    Release,
    Resolve,
    Start,
    Take,
    Unknown,
)
from fastdur._run_effects import Children, Delete, Fence, Fork, OneRow, Prune
from fastdur._sealed import Sealed
from fastdur.checkpointers.protocol import Start as StartOf
from fastdur.errors import OtherStore, RunNotFound, StaleRun, StoreCorrupt
from fastdur.records import Checkpoint, Claim, PendingInterrupt

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdur._drivers import Lifetime
    from fastdur._effects import Row
    from fastdur._pruned import Pruned
    from fastdur.checkpointers.protocol import Checkpointer
    from fastdur.records import Execution


def _checkpoint(execution_id: str, row: Row, seq: int, before: str, parent: str | None = None) -> Checkpoint:
    """The row with its own random id, which stands after `before`."""
    return Checkpoint(
        execution_id,
        seq,
        f"{before}{os.urandom(8).hex()}",
        row.node_id,
        row.node_index,
        row.step_type,
        row.status,
        row.frames,
        row.agent_path,
        row.extra,
        parent,
        time.time(),
    )


def _next(row: Row, seen: Execution | Claim) -> Checkpoint:
    seq = seen.seq + 1
    return _checkpoint(seen.execution_id, row, seq, f"{seen.run}-{seq}-")


def _look(life: Lifetime, effect: Look) -> Reading:
    """The head and the newest rows of one moment: read again while a writer comes between."""
    before = (0, 0)
    while True:
        head = life.store.get_execution(effect.execution_id)
        if head is None:
            message = f"No run {effect.execution_id!r} in {life.store.location}; check the id and the store."
            raise RunNotFound(message)
        rows = _newest(life.store, effect)
        last = rows[-1] if rows else None
        if effect.rows == 0 or _fits(head, last):
            return Reading(head, last, _owner.at_work(head), tuple(rows))
        if (head.run, head.seq) == before:
            message = (
                f"Row {head.seq} of run {effect.execution_id!r} is missing from {life.store.location}, which something "
                "else has changed; restore it from a backup."
            )
            raise StoreCorrupt(message)
        before = head.run, head.seq


def _newest(store: Checkpointer, effect: Look) -> list[Checkpoint]:
    if effect.rows == 1:  # a store remembers what it has read so, and goes on from there
        last = store.get_last(effect.execution_id)
        return [] if last is None else [last]
    return store.list(effect.execution_id, limit=effect.rows) if effect.rows else []


def _fits(head: Execution, last: Checkpoint | None) -> bool:
    """Whether a row is the newest of this very run, and not of one that has its id by now."""
    if last is None:
        return head.seq == 0
    return head.seq == last.seq and last.checkpoint_id.startswith(f"{head.run}-")


def _history(life: Lifetime, effect: History) -> list[Checkpoint]:
    return life.store.list(effect.execution_id, limit=effect.limit)


def _one_row(life: Lifetime, effect: OneRow) -> Checkpoint | None:
    return life.store.get_by_id(effect.execution_id, effect.checkpoint_id)


def _children(life: Lifetime, effect: Children) -> list[Execution]:
    found = life.store.list_executions(parent=effect.execution_id)
    return [head for head in reversed(found) if head.is_child]


def _start(life: Lifetime, effect: Start) -> None:
    if life.parent_store is not None and life.parent_store is not life.store:
        _check_one_database(life, life.parent_store, effect)
    below = {"parent_id": effect.parent_id, "parent_address": effect.parent_address}
    _started(life, effect, **below, parent_token=effect.parent_token)


def _check_one_database(life: Lifetime, other: Checkpointer, effect: Start) -> None:
    """Refuse a child run in another database than its parent's, by which nothing of it could be found again."""
    of = str(effect.parent_id)

    def held(store: Checkpointer) -> bool:
        head = store.get_execution(of)
        return head is not None and head.token == effect.parent_token

    if held(life.store):
        return
    if held(other):
        message = (
            f"The {effect.kind} {effect.runner!r} keeps its runs in {life.store.location}, and run {of!r}, a node of "
            f"which starts it, is in {other.location}; nothing was started. Give both the same store, or start it "
            "outside of the node."
        )
        raise OtherStore(message)
    message = f"Run {of!r} was taken over, cancelled or deleted; nothing was started for its node."
    raise StaleRun(message)


def _fork(life: Lifetime, effect: Fork) -> None:
    source = None if effect.source is None else effect.source.checkpoint_id
    origin = _checkpoint(effect.execution_id, effect.row, 1, "", source)
    beside = {"parent_id": effect.seen.execution_id, "parent_run": effect.seen.run}
    _started(life, effect, **beside, parent_checkpoint_id=source, origin=origin)


def _started(life: Lifetime, effect: Start | Fork, **place: Any) -> None:
    """Begin a run and own it; `place` is where it comes from."""
    what = effect.execution_id, effect.runner, effect.kind, effect.graph, effect.input
    start = StartOf(*what, life.claiming(), _owner.me(), **place, recorded=effect.recorded)
    _owned(life, life.store.start_execution(start), recorded=effect.recorded, known=effect.recorded)


def _owned(life: Lifetime, claim: Claim, *, recorded: bool, known: bool) -> None:
    """Own the run from here on, with what is `known` of its effects: a run that has just begun may have none."""
    life.own(claim)
    life.recorded = recorded
    if known:
        life.memory.load(life.store.list_idempotent(claim.execution_id))


def _take(life: Lifetime, effect: Take) -> bool:
    life.read_ahead(effect.frame)
    row = None if effect.row is None else _next(effect.row, effect.seen)
    claim = life.store.claim_execution(effect.seen, life.claiming(), _owner.me(), row, effect.graph)
    return _taken(life, effect, claim)


def _answer(life: Lifetime, effect: Answer) -> bool:
    life.read_ahead(effect.row.frames)
    row = _next(effect.row, effect.seen)
    claim = life.store.delete_pending_interrupt_atomic(
        effect.seen, life.claiming(), _owner.me(), effect.interrupt_id, row, effect.graph
    )
    return _taken(life, effect, claim)


def _taken(life: Lifetime, effect: Take | Answer, claim: Claim | None) -> bool:
    if claim is None:
        return False
    _owned(life, claim, recorded=effect.seen.recorded, known=True)
    return True


def _decide(life: Lifetime, effect: Decide) -> bool:
    return life.store.decide(effect.seen, effect.interrupt_id, _next(effect.row, effect.seen), effect.status)


def _cancel(life: Lifetime, effect: Cancel) -> bool:
    return life.store.cancel(effect.seen, _next(effect.row, effect.seen))


def _fence(life: Lifetime, effect: Fence) -> None:
    seen = effect.seen
    life.store.release(Claim(seen.execution_id, seen.run, seen.epoch, seen.token or "", seen.seq))


def _delete(life: Lifetime, effect: Delete) -> bool:
    return life.store.delete_execution(effect.seen)


def _prune(life: Lifetime, effect: Prune) -> Pruned:
    return life.store.prune(
        effect.older_than, effect.failed, dry_run=effect.dry_run, after=effect.after, limit=effect.limit
    )


def _append(life: Lifetime, effect: Append) -> Checkpoint:
    claim, keep = life.owned(), life.at_work()
    row = _next(effect.row, claim)
    if effect.asked is not None:
        void = life.memory.left_behind(effect.asked.id.rpartition("/")[0])
        if void is not None:
            life.store.begin_idempotent(claim, void)
        row = life.store.record_interrupt(claim, row, [_pending(life, effect, row)], effect.status, keep=keep)
    else:
        if effect.clear_failed is not None:
            life.memory.end(effect.clear_failed)
        row = life.store.put(claim, row, effect.status, keep=keep, clear_failed=effect.clear_failed)
    if effect.status != "running" and not keep:
        life.forget()
    return row


def _pending(life: Lifetime, effect: Append, row: Checkpoint) -> PendingInterrupt:
    asked = effect.asked
    assert asked is not None
    return PendingInterrupt(
        life.execution_id,
        asked.id,
        life.runner,
        row.node_id,
        asked.reason,
        Sealed(asked.context),
        row.agent_path,
        row.created_at,
    )


def _release(life: Lifetime, _: Release) -> None:
    claim = life.forget()
    if claim is not None:
        life.store.release(claim)


def _begin(life: Lifetime, effect: BeginEffect) -> Any:
    record = effect.record
    if record.status != "failed":
        return life.store.begin_idempotent(life.owned(), record)
    with life.memory.failing(record.path) as belongs:
        return life.store.begin_idempotent(life.owned(), record if belongs else replace(record, path=""))


def _end(life: Lifetime, effect: EndEffect) -> None:
    record = effect.record
    if record.status != "failed":
        life.store.put_idempotent(life.owned(), record)
        return
    with life.memory.failing(record.path) as belongs:
        if belongs:
            life.store.put_idempotent(life.owned(), record)
        else:  # a thread that has outlived its node: nobody meets this failure again
            life.store.begin_idempotent(life.owned(), replace(record, path=""))


def _unknown(life: Lifetime, effect: Unknown) -> Any:
    return life.store.list_unknown(effect.execution_id)


def _recorded(life: Lifetime, effect: Recorded) -> Any:
    return life.store.get_idempotent(effect.execution_id, effect.key)


def _resolve(life: Lifetime, effect: Resolve) -> bool:
    return life.store.resolve_unknown(effect.seen, effect.record, effect.outcome)


STORED: dict[type, Callable[[Lifetime, Any], Any]] = {
    Look: _look,
    History: _history,
    OneRow: _one_row,
    Children: _children,
    Start: _start,
    Fork: _fork,
    Take: _take,
    Answer: _answer,
    Decide: _decide,
    Cancel: _cancel,
    Fence: _fence,
    Delete: _delete,
    Prune: _prune,
    Append: _append,
    Release: _release,
    BeginEffect: _begin,
    EndEffect: _end,
    Unknown: _unknown,
    Recorded: _recorded,
    Resolve: _resolve,
}
