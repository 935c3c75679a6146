"""FENCE: whoever no longer owns a run writes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from fastdur.errors import StaleRun
from fastdur.records import Claim
from pytest_fastdur.conformance._bench import Bench
from pytest_fastdur.conformance._clause import Group, clause
from pytest_fastdur.conformance._made import (
    answer,
    copy_of,
    effect,
    ending,
    everything,
    head,
    pause,
    question,
    row,
    start,
)

if TYPE_CHECKING:
    from fastdur.checkpointers.protocol import Checkpointer

_PARTS: Final = ("epoch", "token", "seq")


def _taken_over(store: Checkpointer) -> Claim:
    """A claim that another has replaced."""
    zombie = start(store)
    store.put(zombie, row(zombie), "running")
    store.begin_idempotent(zombie, effect("mine"))
    owner = store.claim_execution(head(store), "second", "me")
    assert owner is not None
    return zombie


class Fencing(Group):
    """The clauses that hold for every write."""

    @clause("claims", "rows")
    def test_fence_01_a_replaced_owner_appends_nothing(self, bench: Bench) -> None:
        """`put` under a claim that another has replaced is `StaleRun` and writes nothing."""
        zombie = _taken_over(bench.store)
        before = everything(bench.store)
        with pytest.raises(StaleRun):
            bench.store.put(zombie, row(zombie), "running")
        with pytest.raises(StaleRun):
            bench.store.put(zombie, ending(zombie), "failed")
        assert everything(bench.store) == before

    @clause("claims", "rows", "interrupts")
    def test_fence_02_a_replaced_owner_asks_nothing(self, bench: Bench) -> None:
        """`record_interrupt` under a claim that another has replaced is `StaleRun` and leaves no row and no question."""
        zombie = _taken_over(bench.store)
        before = everything(bench.store)
        with pytest.raises(StaleRun):
            bench.store.record_interrupt(zombie, pause(zombie), [question(zombie)], "paused")
        assert everything(bench.store) == before

    @clause("claims", "rows", "effects")
    def test_fence_03_a_replaced_owner_begins_no_effect(self, bench: Bench) -> None:
        """`begin_idempotent` under a claim that another has replaced is `StaleRun`, for a new key and a known one."""
        zombie = _taken_over(bench.store)
        before = everything(bench.store)
        for key in ("mine", "new"):
            with pytest.raises(StaleRun):
                bench.store.begin_idempotent(zombie, effect(key, attempt="a2"))
        assert everything(bench.store) == before

    @clause("claims", "rows", "effects")
    def test_fence_04_a_replaced_owner_ends_no_effect(self, bench: Bench) -> None:
        """`put_idempotent` under a claim that another has replaced is `StaleRun` and leaves the record started."""
        zombie = _taken_over(bench.store)
        before = everything(bench.store)
        with pytest.raises(StaleRun):
            bench.store.put_idempotent(zombie, effect("mine", status="done", result=1))
        assert everything(bench.store) == before

    @clause("claims", "rows")
    def test_fence_05_a_claim_is_its_token_not_its_owner(self, bench: Bench) -> None:
        """The same owner that claims its run again is fenced in its earlier claim, even at the newest seq."""
        first = start(bench.store, owner="me")
        second = bench.store.claim_execution(head(bench.store), "second", "me")
        assert second is not None
        bench.store.put(second, row(second, {"by": "second"}), "running")
        first.seq = second.seq
        before = everything(bench.store)
        with pytest.raises(StaleRun):
            bench.store.put(first, row(first), "completed")
        bench.store.release(first)
        bench.store.renew([first])
        assert everything(bench.store) == before
        bench.store.put(second, row(second), "completed")

    @clause("claims", "rows")
    def test_fence_06_two_that_record_one_step_write_one_row(self, bench: Bench) -> None:
        """Of two holders of one claim that append at the same seq the second gets `StaleRun`; one row is there."""
        claim = start(bench.store)
        other = copy_of(claim)
        bench.store.put(claim, row(claim, {"by": "winner"}), "running")
        before = everything(bench.store)
        with pytest.raises(StaleRun):
            bench.store.put(other, row(other, {"by": "loser"}), "failed")
        assert everything(bench.store) == before

    @clause("claims", "rows", "interrupts", "effects")
    def test_fence_07_an_ended_run_is_written_by_nobody(self, bench: Bench) -> None:
        """After a row that gave up the claim the claim writes no row, question or effect."""
        claim = start(bench.store)
        bench.store.begin_idempotent(claim, effect())
        bench.store.put(claim, row(claim), "completed")
        before = everything(bench.store)
        with pytest.raises(StaleRun):
            bench.store.put(claim, row(claim), "running")
        with pytest.raises(StaleRun):
            bench.store.record_interrupt(claim, pause(claim), [question(claim)], "paused")
        with pytest.raises(StaleRun):
            bench.store.begin_idempotent(claim, effect("new"))
        with pytest.raises(StaleRun):
            bench.store.put_idempotent(claim, effect(status="done"))
        bench.store.renew([claim])
        assert everything(bench.store) == before

    @clause("claims", "rows", "interrupts", "effects")
    def test_fence_08_each_part_of_the_head_is_looked_at(self, bench: Bench) -> None:
        """A claim or reading that differs from the head in epoch, token or seq alone writes nothing, by any method."""
        store = bench.store
        claim = start(store)
        store.put(claim, row(claim), "running")
        store.record_interrupt(claim, pause(claim), [question(claim)], "paused", keep=True)
        before = everything(store)
        for part in _PARTS:
            moved: Any = {"epoch": claim.epoch + 1, "token": "another", "seq": claim.seq - 1}[part]
            seen = replace(head(store), **{part: moved})
            assert store.claim_execution(seen, "mine", "you") is None, part
            assert store.claim_execution(seen, "mine", "you", row(seen)) is None, part
            assert store.delete_pending_interrupt_atomic(seen, "mine", "you", "ask#1/1", answer(seen)) is None, part
            assert store.decide(seen, "ask#1/1", answer(seen), "running") is False, part
            assert store.cancel(seen, ending(seen)) is False, part
            zombie = Claim("r", claim.run, seen.epoch, seen.token or "", seen.seq)
            with pytest.raises(StaleRun):
                store.put(zombie, row(zombie), "running")
            with pytest.raises(StaleRun):
                store.record_interrupt(zombie, pause(zombie), [question(zombie, "new")], "paused")
            if part != "seq":  # effects do not move the head
                with pytest.raises(StaleRun):
                    store.begin_idempotent(zombie, effect())
            assert everything(store) == before, part

    @clause("claims", "rows", "interrupts")
    def test_fence_09_a_cancel_fences_the_owner(self, bench: Bench) -> None:
        """After a cancel the owner that was at work writes nothing."""
        claim = start(bench.store)
        assert bench.store.cancel(head(bench.store), ending(claim))
        before = everything(bench.store)
        for seq in (0, 1):
            zombie = Claim("r", claim.run, claim.epoch, claim.token, seq)
            with pytest.raises(StaleRun):
                bench.store.put(zombie, row(zombie), "completed")
        assert everything(bench.store) == before

    @clause("claims", "rows", "interrupts")
    def test_fence_10_a_fence_stands_between_runs(self, bench: Bench) -> None:
        """A write of one run touches no other run."""
        claims = [start(bench.store, each, token=f"t-{each}") for each in "abc"]
        for claim in claims:
            bench.store.put(claim, row(claim), "running")
        before = everything(bench.store, "a"), everything(bench.store, "c")
        owner = claims[1]
        bench.store.record_interrupt(owner, pause(owner), [question(owner)], "paused")
        assert bench.store.cancel(head(bench.store, "b"), ending(owner))
        assert (everything(bench.store, "a"), everything(bench.store, "c")) == before
