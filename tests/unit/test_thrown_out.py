"""What a signal, or a store that takes less than it is given, leaves behind: nothing that stays in the way."""

import sqlite3
from threading import get_ident

import pytest

from fastdur import IdempotencyError, NotStorable, Resume, SQLiteCheckpointer, idempotent, interrupt
from fastdur._drivers import Lifetime
from fastdur.errors import CheckpointExists
from tests.checkpointers.stores import row, start
from tests.unit.running import flow


def test_a_thread_that_was_thrown_out_of_an_effect_is_not_inside_it_when_its_call_ends(store):
    life = Lifetime("r", "c", store, durable=True, context=None)
    life._inside["thrown out of this one"] = get_ident()
    life._inside["another thread is in this one"] = -1
    assert life.at_work()
    life.end()
    assert list(life._inside) == ["another thread is in this one"]


class Interrupted(SQLiteCheckpointer):
    """The claim is stored, and the signal comes before anybody hears of it."""

    def start_execution(self, start):
        super().start_execution(start)
        raise KeyboardInterrupt

    def claim_execution(self, *seen):
        super().claim_execution(*seen)
        raise KeyboardInterrupt

    def delete_pending_interrupt_atomic(self, *seen):
        super().delete_pending_interrupt_atomic(*seen)
        raise KeyboardInterrupt


def ask(state):
    return {"ok": interrupt("ok?").approved}


@pytest.mark.parametrize("answer", [None, Resume(approved=True)])
def test_a_claim_that_a_signal_cut_off_counts_as_given_up_in_the_process_that_goes_on(tmp_path, answer):
    """Wrong: the process takes the claim for one that it is about to enter, for as long as it lives."""
    store, cut = (kind(tmp_path / "s.db") for kind in (SQLiteCheckpointer, Interrupted))
    with pytest.raises(KeyboardInterrupt):
        flow(cut, ask).execute({}, "r")
    assert flow(store, ask).resume("r").status == "paused"
    if answer is None:
        flow(store, ask).decide("r", Resume(approved=True))
    with pytest.raises(KeyboardInterrupt):
        flow(cut, ask).resume("r", answer)
    assert flow(store, ask).resume("r").output == {"ok": True}
    store.close()
    cut.close()


class Short(SQLiteCheckpointer):
    """Takes no result of an effect: each is too long for it."""

    def put_idempotent(self, claim, record):
        if record.status == "done":
            raise NotStorable("the result is longer than this store takes")
        super().put_idempotent(claim, record)


def test_a_result_that_is_too_long_for_the_store_is_recorded_as_such_and_the_body_is_not_repeated():
    store, ran = Short(":memory:"), []

    @idempotent(name="long")
    def long():
        ran.append(1)
        return "x"

    def node(state):
        long()

    with pytest.raises(IdempotencyError, match="longer than this store takes"):
        flow(store, node).execute({}, "r")
    with pytest.raises(IdempotencyError, match="longer than this store takes"):
        flow(store, node).resume("r")
    assert ran == [1]
    assert [record.status for record in store.list_idempotent("r")] == ["unstorable"]
    store.close()


class Stubborn(sqlite3.Connection):
    """Does not roll back."""

    def execute(self, sql, *values):
        if sql == "ROLLBACK":
            raise sqlite3.OperationalError("no")
        return super().execute(sql, *values)


def test_a_transaction_that_cannot_be_rolled_back_goes_with_its_connection(tmp_path):
    store = SQLiteCheckpointer(tmp_path / "s.db")
    store.driver = Stubborn
    claim = start(store)
    first = row(claim)
    store.put(claim, first, "running")
    claim.seq = 0
    with pytest.raises(CheckpointExists):
        store.put(claim, row(claim, {"other": "content"}, nonce=first.checkpoint_id.rpartition("-")[2]), "running")
    assert [each.seq for each in store.list("r")] == [1]
    store.close()
