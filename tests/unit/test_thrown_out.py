"""What a signal, or a store that takes less than it is given, leaves behind: nothing that stays in the way."""

import asyncio
import sqlite3
from contextlib import suppress
from itertools import count
from sys import modules
from threading import get_ident

import pytest

from fastdur import (
    IdempotencyError,
    NotStorable,
    Resume,
    SQLiteCheckpointer,
    _effect_call,
    _invoke,
    carry,
    idempotent,
    interrupt,
    transaction,
)
from fastdur import scope as scope_module
from fastdur._drivers import Lifetime
from fastdur.checkpointers import _effect_records
from fastdur.checkpointers._cursor import inside
from fastdur.errors import CheckpointExists
from fastdur.scope import current
from tests.checkpointers.stores import row, start
from tests.unit.running import flow

idempotent_module = modules["fastdur.idempotent"]


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


class Signal(BaseException):
    """What a handler of signals raises, wherever the code happens to be."""


class Cut:
    """The context variables, with a signal right after one change of them."""

    def __init__(self, patch, number):
        self.left = number
        for module in (_invoke, _effect_call, idempotent_module, scope_module):
            patch.setattr(module, "current", Watched(current, self))
        for module in (_effect_records, scope_module):
            patch.setattr(module, "inside", Watched(inside, self))


class Watched:
    def __init__(self, real, cut):
        self.real, self.cut, self.get, self.reset = real, cut, real.get, real.reset

    def set(self, value):
        token = self.real.set(value)
        self.cut.left -= 1
        if self.cut.left == 0:
            raise Signal
        return token


def where():
    return current.get(), inside.get()


@idempotent(name="paid", transactional=True)
def paid():
    transaction().execute("SELECT 1")


@idempotent(name="sent", key_fn=lambda: "k")
def sent():
    return 1


@idempotent(name="asent")
async def asent():
    return 1


async def aplain():
    return 1


def node(state):
    """Everything that sets a context variable, and whatever a signal does to it is caught here."""
    for call in (sent, paid, sent.plain, carry(str)):
        here = where()
        with suppress(Signal):
            call()
        assert where() == here


async def anode(state):
    for call in (asent, asent.plain, carry(aplain)):
        here = where()
        with suppress(Signal):
            await call()
        assert where() == here


def test_a_thread_that_a_signal_has_thrown_out_stays_in_no_run_effect_or_transaction(store):
    """Wrong: what the thread starts from now on are child runs of the dead one, and its effects are refused."""
    for number in count(1):
        with pytest.MonkeyPatch.context() as patch:
            cut = Cut(patch, number)
            with suppress(Signal):
                flow(store, node).execute({}, f"r{number}")
        assert where() == (None, None)
        if cut.left > 0:
            break
        if store.get_execution(f"r{number}").status != "completed":
            assert flow(store, node).resume(f"r{number}").status == "completed"
    assert number > 12
    assert {head.parent_id for head in store.list_executions()} == {None}


def test_a_task_that_a_signal_has_thrown_out_stays_in_no_effect(store):
    for number in count(1):
        with pytest.MonkeyPatch.context() as patch:
            cut = Cut(patch, number)
            with suppress(Signal):
                asyncio.run(flow(store, anode).aexecute({}, f"r{number}"))
        assert where() == (None, None)
        if cut.left > 0:
            break
        if store.get_execution(f"r{number}").status != "completed":
            assert asyncio.run(flow(store, anode).aresume(f"r{number}")).status == "completed"
    assert number > 9
