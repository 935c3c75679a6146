"""The effects that touch the store, each as one call of the store under the claim of a lifetime."""

from __future__ import annotations

import os
import time
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
from fastdur._sealed import Sealed
from fastdur.checkpointers.protocol import Start as StartOf
from fastdur.errors import RunNotFound, StoreCorrupt
from fastdur.records import Checkpoint, PendingInterrupt

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdur._drivers import Lifetime
    from fastdur._effects import Row
    from fastdur.records import Claim, Execution


def _checkpoint(life: Lifetime, row: Row, run: int, seq: int) -> Checkpoint:
    checkpoint_id = f"{run}-{seq}-{os.urandom(8).hex()}"
    return Checkpoint(
        life.execution_id,
        seq,
        checkpoint_id,
        row.node_id,
        row.node_index,
        row.step_type,
        row.status,
        row.frames,
        row.agent_path,
        row.extra,
        None,
        time.time(),
    )


def _next(life: Lifetime, row: Row, seen: Execution) -> Checkpoint:
    return _checkpoint(life, row, seen.run, seen.seq + 1)


def _look(life: Lifetime, effect: Look) -> Reading:
    """The head and the newest row of one moment: read again while a writer comes between."""
    before = -1
    while True:
        head = life.store.get_execution(effect.execution_id)
        if head is None:
            message = f"No run {effect.execution_id!r} in {life.store.location}; check the id and the store."
            raise RunNotFound(message)
        last = life.store.get_last(effect.execution_id)
        if head.seq == (last.seq if last is not None else 0):
            return Reading(head, last, _owner.at_work(head))
        if head.seq == before:
            message = (
                f"Row {head.seq} of run {effect.execution_id!r} is missing from {life.store.location}, which something "
                "else has changed; restore it from a backup."
            )
            raise StoreCorrupt(message)
        before = head.seq


def _history(life: Lifetime, effect: History) -> list[Checkpoint]:
    return life.store.list(effect.execution_id)


def _start(life: Lifetime, effect: Start) -> None:
    with _owner.calls.expected(_token()) as token:
        start = StartOf(
            effect.execution_id,
            effect.runner,
            effect.kind,
            effect.graph,
            effect.input,
            token,
            _owner.me(),
            effect.parent_id,
            effect.parent_address,
        )
        life.own(life.store.start_execution(start))


def _take(life: Lifetime, effect: Take) -> bool:
    row = None if effect.row is None else _next(life, effect.row, effect.seen)
    with _owner.calls.expected(_token()) as token:
        return _taken(life, life.store.claim_execution(effect.seen, token, _owner.me(), row, effect.graph))


def _answer(life: Lifetime, effect: Answer) -> bool:
    row = _next(life, effect.row, effect.seen)
    with _owner.calls.expected(_token()) as token:
        claim = life.store.delete_pending_interrupt_atomic(
            effect.seen, token, _owner.me(), effect.interrupt_id, row, effect.graph
        )
        return _taken(life, claim)


def _taken(life: Lifetime, claim: Claim | None) -> bool:
    if claim is None:
        return False
    life.own(claim)
    life.memory.load(life.store.list_idempotent(life.execution_id))
    return True


def _decide(life: Lifetime, effect: Decide) -> bool:
    return life.store.decide(effect.seen, effect.interrupt_id, _next(life, effect.row, effect.seen), effect.status)


def _cancel(life: Lifetime, effect: Cancel) -> bool:
    return life.store.cancel(effect.seen, _next(life, effect.row, effect.seen))


def _append(life: Lifetime, effect: Append) -> Checkpoint:
    claim, keep = life.owned(), life.at_work()
    row = _checkpoint(life, effect.row, claim.run, claim.seq + 1)
    if effect.asked is not None:
        row = life.store.record_interrupt(claim, row, [_pending(life, effect, row)], effect.status, keep=keep)
    else:
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
    return life.store.begin_idempotent(life.owned(), effect.record)


def _end(life: Lifetime, effect: EndEffect) -> None:
    life.store.put_idempotent(life.owned(), effect.record)


def _unknown(life: Lifetime, effect: Unknown) -> Any:
    return life.store.list_unknown(effect.execution_id)


def _recorded(life: Lifetime, effect: Recorded) -> Any:
    return life.store.get_idempotent(effect.execution_id, effect.key)


def _resolve(life: Lifetime, effect: Resolve) -> bool:
    return life.store.resolve_unknown(effect.seen, effect.record, effect.outcome)


STORED: dict[type, Callable[[Lifetime, Any], Any]] = {
    Look: _look,
    History: _history,
    Start: _start,
    Take: _take,
    Answer: _answer,
    Decide: _decide,
    Cancel: _cancel,
    Append: _append,
    Release: _release,
    BeginEffect: _begin,
    EndEffect: _end,
    Unknown: _unknown,
    Recorded: _recorded,
    Resolve: _resolve,
}


def _token() -> str:
    return os.urandom(16).hex()
