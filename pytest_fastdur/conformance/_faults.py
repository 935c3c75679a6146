"""FAULT, CLOSE: what a store does when its writes fail, and when it is closed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from fastdur.errors import StoreClosed, StoreUnavailable
from pytest_fastdur.conformance._bench import Bench
from pytest_fastdur.conformance._clause import Group, StoreFault, clause
from pytest_fastdur.conformance._made import effect, everything, head, row, start
from pytest_fastdur.conformance._writes import WRITES, told

if TYPE_CHECKING:
    from collections.abc import Callable


class Faults(Group):
    """The clauses of stores that fail."""

    @clause("claims", "rows", "interrupts", "effects", "faults")
    def test_fault_01_a_lost_answer_is_settled(self, bench: Bench) -> None:
        """A write that was stored but not acknowledged is reported as done, by every method, and is there once."""
        self._each_write_meets(bench, "lost-answer")

    @clause("claims", "rows", "interrupts", "effects", "faults")
    def test_fault_02_a_lost_commit_is_sent_again(self, bench: Bench) -> None:
        """A write that failed with an unclear outcome and was not stored is sent again, by every method."""
        self._each_write_meets(bench, "lost-commit")

    def _each_write_meets(self, bench: Bench, fault: StoreFault) -> None:
        for name, write in WRITES.items():
            untroubled, troubled = f"{name}-untroubled", f"{name}-troubled"
            expected = write(bench.store, untroubled)(bench.store)
            call = write(bench.store, troubled)
            self.arm(bench.store, fault)
            assert call(bench.store) == expected, name
            self.arm(bench.store, None)
            assert told(bench.store, troubled) == told(bench.store, untroubled), name

    @clause("claims", "rows", "interrupts", "effects", "faults")
    def test_fault_03_a_store_that_stays_down_says_so(self, bench: Bench) -> None:
        """While every write fails each method raises `StoreUnavailable`, and nothing of its write is stored."""
        for name, write in WRITES.items():
            call = write(bench.store, name)
            before = everything(bench.store, name)
            self.arm(bench.store, "down")
            with pytest.raises(StoreUnavailable):
                call(bench.store)
            self.arm(bench.store, None)
            assert everything(bench.store, name) == before, name

    @clause("claims", "rows", "interrupts", "effects", "faults")
    def test_fault_04_a_store_that_is_back_takes_the_write(self, bench: Bench) -> None:
        """The write that `StoreUnavailable` refused is taken by the same store object once it is back."""
        for name, write in WRITES.items():
            untroubled, troubled = f"{name}-untroubled", f"{name}-troubled"
            expected = write(bench.store, untroubled)(bench.store)
            call = write(bench.store, troubled)
            self.arm(bench.store, "down")
            with pytest.raises(StoreUnavailable):
                call(bench.store)
            self.arm(bench.store, None)
            assert call(bench.store) == expected, name
            assert told(bench.store, troubled) == told(bench.store, untroubled), name

    @clause("claims", "rows", "faults")
    def test_fault_05_a_lost_answer_is_settled_though_the_run_has_moved_on(self, bench: Bench) -> None:
        """A row sent again after its answer was lost is done though another owner has appended since."""
        claim = start(bench.store)
        written = row(claim)
        self.arm(bench.store, "lost-answer")
        bench.store.put(claim, written, "running")
        self.arm(bench.store, None)
        owner = bench.store.claim_execution(head(bench.store), "second", "you")
        assert owner is not None
        bench.store.put(owner, row(owner), "running")
        claim.seq = 0
        bench.store.put(claim, written, "running")
        assert len(bench.store.list("r")) == 2

    @clause("claims", "rows", "interrupts", "effects")
    def test_close_01_a_closed_store_says_so(self, bench: Bench) -> None:
        """After `close` every method raises `StoreClosed`, and `close` again does nothing."""
        store = bench.store
        claim = start(store)
        seen = head(store)
        store.close()
        store.close()
        calls: list[Callable[[], Any]] = [
            store.setup,
            partial(start, store, "new"),
            partial(store.claim_execution, seen, "b", "you"),
            partial(store.decide, seen, "ask#1/1", row(seen), "running"),
            partial(store.cancel, seen, row(seen)),
            partial(store.delete_pending_interrupt_atomic, seen, "b", "you", "ask#1/1", row(seen)),
            partial(store.renew, [claim]),
            partial(store.release, claim),
            partial(store.put, claim, row(claim), "running"),
            partial(store.record_interrupt, claim, row(claim), [], "paused"),
            partial(store.get_last, "r"),
            partial(store.get_by_id, "r", "1-1-x"),
            store.list_pending_interrupts,
            partial(store.begin_idempotent, claim, effect()),
            partial(store.put_idempotent, claim, effect(status="done")),
            partial(store.get_idempotent, "r", "k"),
            partial(store.list_idempotent, "r"),
            partial(store.get_execution, "r"),
            store.list_executions,
            partial(store.list, "r"),
        ]
        for call in calls:
            with pytest.raises(StoreClosed):
                call()

    @clause("claims", "rows", "interrupts", "effects", "instances")
    def test_close_02_what_was_stored_is_there_afterwards(self, bench: Bench) -> None:
        """A store that is closed and opened again holds all that it held."""
        for name, write in WRITES.items():
            write(bench.store, name)(bench.store)
        before = [everything(bench.store, name) for name in WRITES]
        bench.reopen()
        assert [everything(bench.store, name) for name in WRITES] == before
