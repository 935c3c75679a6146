"""Texts that any database keeps, and the records that are stored column by column."""

from __future__ import annotations

from json.encoder import encode_basestring_ascii
from operator import index
from typing import TYPE_CHECKING, Final, cast

from fastdur._codec import dumps, loads
from fastdur._sealed import Sealed
from fastdur.errors import NotStorable
from fastdur.records import EffectRecord, Execution, PendingInterrupt, frozen_context

if TYPE_CHECKING:
    from fastdur.checkpointers._patience import Stored


def plain(text: str) -> str:
    """Return `text` in ASCII, escaped as in JSON: lone surrogates and NUL survive in any database."""
    return encode_basestring_ascii(text)[1:-1]


_ALL_OF_THEM: Final = 1 << 62
"""More than any table has."""

_LONGEST_INDEXED: Final = 2000
"""Characters as they are stored. An index of Postgres takes some 2,700, after a compression that may gain nothing."""


def indexed(text: str, what: str) -> str:
    """Return `plain(text)` for a text that is looked up by. Raises `NotStorable` where it is too long for any index."""
    stored = plain(text)
    if len(stored) > _LONGEST_INDEXED:
        message = (
            f"{what} {text[:40]!r}... has {len(stored):,} characters as it is stored, where one beyond ASCII counts 6 "
            f"or 12; it may have {_LONGEST_INDEXED:,}. Nothing was written. Give a shorter one, such as a hash of it."
        )
        raise NotStorable(message)
    return stored


def unplain(stored: str) -> str:
    """Return the text that `plain` was given."""
    return cast("str", loads(f'"{stored}"')) if "\\" in stored else stored


def at_most(limit: int) -> int:
    """Return `limit` as any database takes it: below 0 it is 0. Raises `TypeError` for what is no whole number."""
    return min(max(int(index(limit)), 0), _ALL_OF_THEM)


def plain_or_none(text: str | None) -> str | None:
    """Return `plain(text)`, None for None."""
    return None if text is None else plain(text)


def unplain_or_none(stored: str | None) -> str | None:
    """Return `unplain(stored)`, None for None."""
    return None if stored is None else unplain(stored)


def question_values(run: int, pending: PendingInterrupt) -> tuple[object, ...]:
    """Return the columns of an open question."""
    return (
        run,
        indexed(pending.interrupt_id, "The id of the question"),
        plain(pending.runner),
        plain(pending.node_id),
        plain(pending.reason),
        dumps(frozen_context(pending)),
        plain(pending.agent_path),
        pending.created_at,
    )


def question(stored: Stored) -> PendingInterrupt:
    """Return the open question of these columns, its run's id first."""
    execution_id, interrupt_id, runner, node_id, reason, context, path, created = stored
    return PendingInterrupt(
        unplain(execution_id),
        unplain(interrupt_id),
        unplain(runner),
        unplain(node_id),
        unplain(reason),
        Sealed(loads(context)),
        unplain(path),
        created,
    )


def effect_values(record: EffectRecord) -> tuple[object, ...]:
    """Return the columns of an effect record, without the epoch, which the store knows."""
    return (
        indexed(record.key, "The key of the effect"),
        plain(record.name),
        plain(record.args),
        record.status,
        record.attempt,
        plain(record.path),
        dumps(record.result),
        dumps(record.error),
    )


def effect(stored: Stored) -> EffectRecord:
    """Return the effect record of these columns."""
    key, name, args, status, attempt, path, result, error, epoch = stored
    return EffectRecord(
        unplain(key), unplain(name), unplain(args), status, attempt, unplain(path), loads(result), loads(error), epoch
    )


def execution(stored: Stored) -> Execution:
    """Return the head of these columns."""
    execution_id, run, runner, kind, status, seq, epoch, token, owner, live, graph, start_input, *rest = stored
    attempts, parent_id, parent_address, parent_checkpoint_id, created, updated, recorded, parent_run = rest
    return Execution(
        unplain(execution_id),
        run,
        unplain(runner),
        unplain(kind),
        status,
        seq,
        epoch,
        token,
        unplain_or_none(owner),
        bool(live),
        loads(graph),
        loads(start_input),
        attempts,
        unplain_or_none(parent_id),
        unplain_or_none(parent_address),
        unplain_or_none(parent_checkpoint_id),
        created,
        updated,
        bool(recorded),
        parent_run,
    )
