"""Animals that do things twice, or never."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fastdur import _memory
from fastdur.checkpointers._store import Store
from pytest_fastdur.zoo._animal import Change, animal, raw

if TYPE_CHECKING:
    from fastdur.records import Claim


@animal("FD07")
def takes_none_for_no_record(change: Change) -> None:
    """Runs an effect again whose recorded result is None."""

    def begin(real: Any, self: Any, claim: Claim, record: Any) -> Any:
        found = real(self, claim, record)
        if found is not None and found.result is None:
            raw(self, "DELETE FROM {t}idempotency_cache WHERE run = ?", claim.run)
            return real(self, claim, record)
        return found

    def load(real: Any, self: Any, records: Any) -> None:
        real(self, [each for each in records if each.result is not None])

    change(Store, "begin_idempotent", begin)
    change(_memory.Memory, "load", load)


@animal("FD08")
def records_before_the_body(change: Change) -> None:
    """Notes that an effect is done, and then does it."""

    def begin(real: Any, self: Any, claim: Claim, record: Any) -> Any:
        found = real(self, claim, record)
        if found is None:
            self.put_idempotent(claim, replace(record, status="done"))
            raw(self, "UPDATE {t}idempotency_cache SET status = 'done' WHERE run = ?", claim.run)
        return found

    def end(real: Any, self: Any, claim: Claim, record: Any) -> None:
        raw(
            self,
            "UPDATE {t}idempotency_cache SET status = 'started' WHERE run = ? AND key = ?",
            claim.run,
            _key(record),
        )
        real(self, claim, record)

    change(Store, "begin_idempotent", begin)
    change(Store, "put_idempotent", end)


def _key(record: Any) -> str:
    from fastdur.checkpointers._values import plain

    return plain(record.key)


@animal("FD07", story="once")
def never_records_an_effect(change: Change) -> None:
    """Forgets every effect as soon as its body has returned."""

    def end(real: Any, self: Any, claim: Claim, record: Any) -> None:
        real(self, claim, record)
        raw(self, "DELETE FROM {t}idempotency_cache WHERE run = ?", claim.run)

    change(Store, "put_idempotent", end)


@animal("FD07")
def records_effects_by_lifetime(change: Change) -> None:
    """Keeps the records of effects until the run is carried on by somebody else."""

    def claim(real: Any, self: Any, seen: Any, *args: Any, **kwargs: Any) -> Any:
        raw(self, "DELETE FROM {t}idempotency_cache WHERE run = ?", seen.run)
        return real(self, seen, *args, **kwargs)

    change(Store, "claim_execution", claim)


@animal("FD08")
def takes_begun_for_done(change: Change) -> None:
    """Does not run an effect again that was begun and has no outcome."""

    def begin(real: Any, self: Any, claim: Claim, record: Any) -> Any:
        known = self.get_idempotent(claim.execution_id, record.key)
        begun = known is not None and known.status == "started"
        return replace(known, status="done") if known is not None and begun else real(self, claim, record)

    change(Store, "begin_idempotent", begin)


@animal("FD09", story="result")
def hands_out_another_result_on_replay(change: Change) -> None:
    """Answers a replay of an effect with the text of its result."""

    def load(real: Any, self: Any, records: Any) -> None:
        real(self, [replace(each, result=str(each.result)) for each in records])

    change(_memory.Memory, "load", load)
