"""The effect records of a store on an SQL database: written under the claim, each in its own statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastdur._codec import dumps
from fastdur.checkpointers._patience import Patient
from fastdur.checkpointers._values import effect, effect_values, plain
from fastdur.errors import FastdurError, StaleRun

if TYPE_CHECKING:
    from collections.abc import Callable

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

        The fence is checked last, by the statement that writes the record. A record that is `done` or `unstorable` is
        returned and the body does not run: that is also how the answer of a commit is found that was lost. What the
        body raises is returned, and nothing is written. Raises `StaleRun` where the claim is no longer the run's.
        """
        sql = self._sql
        fence = (claim.run, claim.epoch, claim.token)

        def work(session: Session) -> EffectRecord:
            for row in session.rows(sql.effect_of_run, (claim.run, plain(record.key))):
                known = effect(row)
                if known.status in ("done", "unstorable"):
                    return known
            cursor = session.cursor()
            try:
                ended = body(cursor)
                cursor.whole()
            except Exception as error:
                raise _Undone(error) from error
            finally:
                cursor.end()
            if not session.change(sql.begin_effect, (*effect_values(ended), *fence)):
                raise stale(claim)
            return ended

        try:
            return self._write_alone(work), None
        except _Undone as undone:
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


class _Undone(FastdurError):
    """The body of a transactional effect raised: its transaction is rolled back."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


def stale(claim: Claim) -> StaleRun:
    """The error of a write whose claim is no longer the run's."""
    message = (
        f"Run {claim.execution_id!r} no longer belongs to this call: it was taken over, cancelled or has moved on. "
        "Nothing was written; its new owner goes on with it."
    )
    return StaleRun(message)
