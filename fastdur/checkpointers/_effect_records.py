"""The effect records of a store on an SQL database: written under the claim, each in its own statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastdur._codec import dumps
from fastdur.checkpointers._cursor import UndoneError, inside
from fastdur.checkpointers._patience import Again, Patient
from fastdur.checkpointers._values import effect, effect_values, plain
from fastdur.errors import StaleRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdur.checkpointers._cursor import TransactionCursor
    from fastdur.checkpointers._patience import Session
    from fastdur.checkpointers._sql import Sql
    from fastdur.records import Claim, EffectRecord, Execution


class EffectRecords(Patient):
    """The methods of `Checkpointer` about effects."""

    _sql: Sql

    def begin_idempotent(self, claim: Claim, record: EffectRecord) -> EffectRecord | None:
        """Write a `started` record under `record.attempt`."""
        sql = self._sql
        fence = (claim.run, claim.epoch, claim.token)
        values = (*effect_values(record), *fence)

        def work(session: Session) -> EffectRecord | None:
            if session.change(sql.begin_effect, values):
                return None
            if not session.rows(sql.effect_fence, fence):
                raise stale(claim)
            return effect(session.rows(sql.effect_of_run, (claim.run, plain(record.key)))[0])

        return self._write(work)

    def put_idempotent(self, claim: Claim, record: EffectRecord) -> None:
        """Replace the `started` record of the same attempt by `record`."""
        sql, key, stored = self._sql, plain(record.key), effect_values(record)
        fence = (claim.run, claim.epoch, claim.token)
        values = (record.status, dumps(record.result), dumps(record.error), claim.run, key, record.attempt, *fence)

        def work(session: Session) -> None:
            if session.change(sql.end_effect, values):
                return
            if [row[:-1] for row in session.rows(sql.effect_of_run, (claim.run, key))] != [stored]:
                raise stale(claim)

        self._write(work)

    def transact_idempotent(
        self, claim: Claim, record: EffectRecord, body: Callable[[Any], EffectRecord]
    ) -> tuple[EffectRecord | None, BaseException | None]:
        """Run `body` on a cursor of a transaction and commit what it wrote together with the record that it returns.

        The fence is checked before the body, so that a zombie does not run it, and again by the statement that writes
        the record, which holds it until the commit. A record that is `done` or `unstorable` is returned and the body
        does not run: that is also how a commit is found whose answer was lost. What the body raises is returned, and
        nothing is written. Raises `StaleRun` where the claim is no longer the run's.
        """
        sql = self._sql
        fence = (claim.run, claim.epoch, claim.token)

        def work(session: Session) -> EffectRecord:
            seen = session.rows(sql.effect_under, (plain(record.key), *fence))
            if not seen:
                raise stale(claim)
            if seen[0][0] is not None and effect(seen[0]).status in ("done", "unstorable"):
                return effect(seen[0])
            ended = _ended(session.cursor(), record.name, body)
            session.tidy()
            if not session.change(sql.begin_effect, (*effect_values(ended), *fence)):
                message = "the run, or the effect, has moved on meanwhile"
                raise Again(message, unclear=False)
            return ended

        try:
            return self._write_alone(work), None
        except UndoneError as undone:
            return None, undone.error

    def get_idempotent(self, execution_id: str, key: str) -> EffectRecord | None:
        """One effect record."""
        values = (plain(execution_id), plain(key))
        rows = self._read(lambda session: session.rows(self._sql.effect, values))
        return effect(rows[0]) if rows else None

    def list_idempotent(self, execution_id: str) -> list[EffectRecord]:
        """Every effect record of the run, in the order of their begin."""
        rows = self._read(lambda session: session.rows(self._sql.effects, (plain(execution_id),)))
        return [effect(row) for row in rows]

    def list_unknown(self, execution_id: str) -> list[EffectRecord]:
        """The records of the run that are `started` or `unknown`, in the order of their begin."""
        rows = self._read(lambda session: session.rows(self._sql.unknown_effects, (plain(execution_id),)))
        return [effect(row) for row in rows]

    def resolve_unknown(self, seen: Execution, record: EffectRecord, outcome: EffectRecord) -> bool:
        """Write the outcome of an effect over its record."""
        sql, key, stored = self._sql, plain(record.key), effect_values(outcome)
        said = (outcome.status, plain(outcome.path), dumps(outcome.result), dumps(outcome.error))
        values = (*said, seen.run, key, record.attempt, seen.run, seen.epoch, seen.token)

        def work(session: Session) -> bool:
            if session.change(sql.resolve_effect, values):
                return True
            return [row[:-1] for row in session.rows(sql.effect_of_run, (seen.run, key))] == [stored]

        return self._write(work)


def _ended(cursor: TransactionCursor, name: str, body: Callable[[Any], EffectRecord]) -> EffectRecord:
    """The record that the body returns. Raises what makes a commit impossible, and what it raised itself as undone."""
    cursor.name = name
    try:
        inside.set(cursor)
        ended = body(cursor)
        cursor.end()
        cursor.whole()
    except Exception as error:
        if cursor.fault is not None:
            raise cursor.fault from error
        raise UndoneError(error) from error
    finally:
        inside.set(None)
        cursor.end()
    return ended


def stale(claim: Claim) -> StaleRun:
    """The error of a write whose claim is no longer the run's."""
    message = (
        f"Run {claim.execution_id!r} no longer belongs to this call: it was taken over, cancelled or has moved on. "
        "Nothing was written; its new owner goes on with it."
    )
    return StaleRun(message)
