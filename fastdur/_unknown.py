"""Effects whose outcome nobody recorded: which they are, and how they are settled from outside. No I/O."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fastdur._codec import dumps, freeze
from fastdur._effects import Look, Recorded, Resolve, Unknown
from fastdur._failures import failure_text, frozen_failure
from fastdur._functions import shown
from fastdur.errors import IdempotencyError, NotHappened, RunInProgress
from fastdur.records import Happened, UnknownEffect, provider_key

if TYPE_CHECKING:
    from collections.abc import Generator

    from fastdur._effects import Effect
    from fastdur.records import EffectRecord, Execution

Outcome = Happened | NotHappened | type[NotHappened]


def is_unknown(record: EffectRecord, head: Execution, *, alive: bool) -> bool:
    """Whether a record has no outcome and its attempt is over.

    The head is read before the record: a claim that came after it has a higher epoch than this one.
    """
    over = record.epoch < head.epoch or (record.epoch == head.epoch and not alive)
    return record.status == "unknown" or (record.status == "started" and over)


def listed(execution_id: str) -> Generator[Effect[Any], Any, list[UnknownEffect]]:
    """The unknown effects of a run, in the order in which they were begun."""
    reading = yield from Look(execution_id)
    records = yield from Unknown(execution_id)
    return [
        UnknownEffect(
            execution_id,
            record.key,
            provider_key(execution_id, record.key),
            record.name,
            record.path,
            None if record.error is None else failure_text(record),
        )
        for record in records
        if is_unknown(record, reading.head, alive=reading.alive)
    ]


def resolved(execution_id: str, key: str, outcome: Outcome) -> Generator[Effect[Any], Any, None]:
    """Settle an unknown effect. The same outcome again is the same as once."""
    said = _fields(outcome)
    while True:
        reading = yield from Look(execution_id)
        record = yield from Recorded(execution_id, key)
        if record is None:
            message = f"Run {execution_id!r} has no effect with the key {key!r}; list_unknown() gives the keys."
            raise IdempotencyError(message)
        wanted: EffectRecord = replace(record, **said)
        if is_unknown(record, reading.head, alive=reading.alive):
            if (yield from Resolve(reading.head, record, wanted)):
                return
        elif record.status == "started":
            if reading.alive:
                message = f"{record.name}() of run {execution_id!r} is being run right now; nothing was changed."
                raise RunInProgress(message)
        elif (record.status, dumps(record.result)) == (wanted.status, dumps(wanted.result)):
            return
        else:
            message = (
                f"What came of {record.name}() of run {execution_id!r} is recorded as {record.status!r}; "
                "nothing was changed."
            )
            raise IdempotencyError(message)


def _fields(outcome: Outcome) -> dict[str, Any]:
    """What a record says after an outcome. A failure from outside belongs to no visit: it is not replayed."""
    if isinstance(outcome, Happened):
        return {"status": "done", "result": freeze(outcome.result, "the result"), "error": None}
    if outcome is NotHappened or isinstance(outcome, NotHappened):
        error = outcome if isinstance(outcome, NotHappened) else NotHappened()
        return {"status": "failed", "result": None, "error": frozen_failure(error), "path": ""}
    message = f"the outcome is {shown(outcome)}; give Happened(result) or NotHappened"
    raise TypeError(message)
