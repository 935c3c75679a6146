"""Animals that do not know whose a run is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fastdur import _drivers, _engine, _owner
from fastdur.checkpointers._store import Store
from fastdur.errors import StaleRun
from fastdur.records import Claim
from pytest_fastdur.zoo._animal import Change, animal, raw

_TWO = ("FD01", "FD03", "FD04", "FD05", "FD07", "FD09", "FD10", "FD11", "FD12")


def _as_it_is_now(store: Any, seen: Any) -> Any:
    """The head that is there, in place of the one that the checks have read."""
    return store.get_execution(seen.execution_id) or seen


@animal(*_TWO, tool="interleave resume resume")
def claims_by_read_then_delete(change: Change) -> None:
    """Looks whether the question is there, deletes it, and then takes the run as it is."""

    def broken(
        _: Any, self: Any, seen: Any, token: str, owner: str, interrupt_id: str, row: Any, graph: Any = None
    ) -> Any:
        if not [each for each in self.list_pending_interrupts(seen.execution_id) if each.interrupt_id == interrupt_id]:
            return None
        raw(self, "DELETE FROM {t}pending_interrupts WHERE run = ?", seen.run)
        now = _as_it_is_now(self, seen)
        after = replace(row, seq=now.seq + 1, checkpoint_id=f"{now.run}-{now.seq + 1}-{token[:16]}")
        return self.claim_execution(now, token, owner, after, graph)

    change(Store, "delete_pending_interrupt_atomic", broken)


@animal(*_TWO, tool="interleave resume resume", story="died")
def claims_without_looking(change: Change) -> None:
    """Takes a crashed run as it is, whoever has taken it since it was read."""

    def broken(real: Any, self: Any, seen: Any, token: str, owner: str, row: Any = None, graph: Any = None) -> Any:
        return real(self, _as_it_is_now(self, seen) if row is None else seen, token, owner, row, graph)

    change(Store, "claim_execution", broken)


def _unfenced(change: Change) -> None:
    """Rows and effects are written under whatever claim the run has now, after whatever row is there."""

    def put(real: Any, self: Any, claim: Claim, row: Any, status: Any, **more: Any) -> Any:
        now = _as_it_is_now(self, claim)
        row = replace(row, seq=now.seq + 1, checkpoint_id=f"{now.run}-{now.seq + 1}-{row.checkpoint_id[-16:]}")
        stored = real(self, _under(claim, now), row, status, **more)
        claim.seq, claim.tail = row.seq, None
        return stored

    def effect(real: Any, self: Any, claim: Claim, record: Any) -> Any:
        return real(self, _under(claim, _as_it_is_now(self, claim)), record)

    change(Store, "put", put)
    change(Store, "begin_idempotent", effect)
    change(Store, "put_idempotent", effect)


def _under(claim: Claim, now: Any) -> Claim:
    return Claim(claim.execution_id, claim.run, now.epoch, now.token, now.seq)


@animal(*_TWO, tool="interleave resume resume", story="died")
def resumes_a_crash_without_a_claim(change: Change) -> None:
    """Carries a crashed run on and takes nothing: who has read that it is free goes on."""

    def broken(real: Any, self: Any, seen: Any, token: str, owner: str, row: Any = None, graph: Any = None) -> Any:
        if row is not None:
            return real(self, seen, token, owner, row, graph)
        return Claim(seen.execution_id, seen.run, seen.epoch, token, seen.seq)

    change(Store, "claim_execution", broken)
    _unfenced(change)


@animal("FD01", "FD03", "FD04", "FD05", "FD09", tool="sweep zombie")
def has_a_lease_and_no_fence(change: Change) -> None:
    """Writes under whatever claim the run has now."""
    _unfenced(change)


@animal("FD05", "FD04", "FD07", tool="interleave resume resume ticks=1", story="alone", budget=3000)
def lets_zombies_begin_effects(change: Change) -> None:
    """Begins an effect under whatever claim the run has now."""

    def broken(real: Any, self: Any, claim: Claim, record: Any) -> Any:
        return real(self, _under(claim, _as_it_is_now(self, claim)), record)

    change(Store, "begin_idempotent", broken)


@animal("FD06", "FD12")
def never_sees_that_an_owner_is_gone(change: Change) -> None:
    """Takes every run that has a claim for one that is being worked on."""

    def broken(_: Any, head: Any) -> bool:
        return head.token is not None

    change(_owner, "at_work", broken)


@animal("FD04", tool="interleave resume recover", story="died")
def takes_live_runs_over(change: Change) -> None:
    """Takes every owner for gone."""
    change(_owner, "at_work", lambda *_: False)


@animal("FD12", "FD06", "FD04", tool="interleave resume lost=1")
def takes_a_lost_answer_for_a_refusal(change: Change) -> None:
    """Does not look for its own row after an unclear commit."""
    change(Store, "_landed", lambda *_: None)


@animal("FD01", "FD03", "FD09", "FD10", "FD12", tool="interleave resume lost=1")
def writes_again_blindly(change: Change) -> None:
    """Writes a row once more, under another id, where it does not know whether it is stored."""

    def again(real: Any, self: Any, claim: Claim, row: Any, status: Any, **kwargs: Any) -> Any:
        try:
            return real(self, claim, row, status, **kwargs)
        except StaleRun:
            now = _as_it_is_now(self, claim)
            claim.seq, claim.tail = now.seq, None
            once_more = replace(row, seq=now.seq + 1, checkpoint_id=f"{now.run}-{now.seq + 1}-{'f' * 16}")
            return real(self, claim, once_more, status, **kwargs)

    change(Store, "_landed", lambda *_: None)
    change(Store, "put", again)


@animal("FD17", tool="sweep crash sampled")
def gives_up_its_claim_as_it_dies(change: Change) -> None:
    """Has a `finally` that writes: a process that is killed does not run it."""

    def broken(real: Any, self: Any) -> None:
        claim = self.claim
        real(self)
        if claim is not None:
            self.store.release(claim)

    change(_drivers.Lifetime, "crash", broken)


@animal("FD04", "FD01", "FD10", "FD02", tool="interleave resume resume", story="order")
def resumes_what_has_completed(change: Change) -> None:
    """Carries a completed run on as if it were not."""

    def broken(real: Any, reading: Any, request: Any, frame: Any) -> Any:
        if reading.head.status == "completed":
            reading = replace(reading, head=replace(reading.head, status="running"), alive=False)
            request = replace(request, value=None)
        return real(reading, request, frame)

    change(_engine, "decide", broken)


@animal("FD02", "FD04", "FD12", tool="interleave start start", story="unborn")
def starts_over_what_is_there(change: Change) -> None:
    """Removes the run whose id it is given."""

    def broken(real: Any, self: Any, start: Any) -> Any:
        there = self.get_execution(start.execution_id)
        if there is not None:
            raw(self, "DELETE FROM {t}executions WHERE run = ?", there.run)
        return real(self, start)

    change(Store, "start_execution", broken)


@animal("control")
def keeps_its_claim_to_the_end(change: Change) -> None:
    """Ends a run and stays its owner."""

    def broken(real: Any, self: Any, claim: Claim, row: Any, status: Any, *, keep: bool = False, **more: Any) -> Any:
        return real(self, claim, row, status, keep=keep or status == "completed", **more)

    change(Store, "put", broken)
