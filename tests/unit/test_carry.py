"""Threads: what knows its run, what is refused because it does not, and what runs plainly on purpose."""

import asyncio
import contextvars
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fastdur import (
    Chain,
    InterruptNotAllowed,
    Resume,
    ScopeEnded,
    ScopeError,
    ScopeLost,
    SimulatedCrash,
    carry,
    effect_key,
    execution_id,
    idempotent,
    interrupt,
    run_context,
    scope,
)
from tests.unit.running import WAIT, Gate, at, attempts, flow, last, raising


@idempotent(name="pay")
def pay(amount):
    return amount


@idempotent(name="apay")
async def apay(amount):
    return amount


@pytest.fixture
def pool():
    with ThreadPoolExecutor(2) as made:
        yield made


def thread(fn):
    """Run `fn` in a thread of its own; what it returned or raised."""
    came = []

    def call():
        try:
            came.append(fn())
        except Exception as error:
            came.append(error)

    started = threading.Thread(target=call)
    started.start()
    started.join(WAIT)
    return came[0]


# -- without a scope -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "says"),
    [
        (lambda: pay(1), r"pay\(\) .*carry.*pay\.plain"),
        (lambda: asyncio.run(apay(1)), r"apay\(\) .*carry.*apay\.plain"),
        (lambda: interrupt("ok?"), r"interrupt\('ok\?'\) .*carry"),
        (effect_key, r"effect_key\(\) .*carry"),
        (execution_id, r"execution_id\(\) .*carry"),
    ],
)
def test_in_a_thread_without_a_scope_it_is_refused_while_a_run_is_active(store, go, what, says):
    came = []

    def a(state):
        came.append(thread(what))

    go(flow(store, a).execute, execution_id="r")
    with pytest.raises(ScopeLost, match=says):
        raise came[0]
    assert attempts(store) == []


def test_the_runs_of_a_chain_without_a_store_count_too(go):
    came = []

    def a(state):
        came.append(thread(lambda: pay(1)))

    go(Chain("c", False).add_node("a", a).execute)
    assert type(came[0]) is ScopeLost


@pytest.mark.parametrize("ending", ["completed", "failed", "paused", "crashed", "interrupted"])
def test_once_no_run_is_active_it_runs_plainly(store, go, ending):
    def a(state):
        if ending == "failed":
            raise ValueError
        if ending == "paused":
            interrupt("ok?")
        if ending == "interrupted":
            raise KeyboardInterrupt

    raised = {"failed": ValueError, "crashed": SimulatedCrash, "interrupted": KeyboardInterrupt}.get(ending)
    made = flow(store, a)
    if ending == "crashed":
        with at("before append a", raising(SimulatedCrash())), pytest.raises(SimulatedCrash):
            go(made.execute)
    elif raised is not None:
        with pytest.raises(raised):
            go(made.execute)
    else:
        go(made.execute)
    assert scope.active == set()
    assert thread(lambda: pay(7)) == 7
    with pytest.raises(InterruptNotAllowed):
        raise thread(lambda: interrupt("ok?"))


def test_a_run_in_one_thread_does_not_hinder_a_run_in_another(store):
    gate = Gate()

    def slow(state):
        gate()

    def quick(state):
        return {"paid": pay(3)}

    with ThreadPoolExecutor(1) as other:
        first = other.submit(flow(store, slow, name="slow").execute)
        assert gate.reached.wait(WAIT)
        assert flow(store, quick, name="quick").execute().output == {"paid": 3}
        gate.opened.set()
        first.result(WAIT)


def test_a_run_stays_active_until_the_last_call_under_it_has_returned(store):
    gate, refused = Gate(), []

    def a(state):
        gate()

    with pytest.raises(TimeoutError):
        flow(store, a, timeout=0.01).execute()
    refused.append(thread(lambda: pay(1)))
    late = next(each for each in threading.enumerate() if each.name == "fastdur a#1")
    gate.opened.set()
    late.join(WAIT)
    assert (type(refused[0]), scope.active) == (ScopeLost, set())


# -- carried -------------------------------------------------------------------------------------------------------------


def by_submit(pool, fn):
    return pool.submit(carry(fn), 5).result(WAIT)


def by_map(pool, fn):
    return next(iter(pool.map(carry(fn), [5])))


def by_thread(pool, fn):
    came = []
    started = threading.Thread(target=carry(lambda: came.append(fn(5))))
    started.start()
    started.join(WAIT)
    return came[0]


def by_executor(pool, fn):
    async def wait():
        return await asyncio.get_running_loop().run_in_executor(pool, carry(fn), 5)

    return asyncio.run(wait())


def by_another_loop(pool, fn):
    async def afn(amount):
        return fn(amount)

    carried = carry(afn)
    assert asyncio.iscoroutinefunction(carried)
    return pool.submit(lambda: asyncio.run(carried(5))).result(WAIT)


WAYS = [by_submit, by_map, by_thread, by_executor, by_another_loop]


@pytest.mark.parametrize("way", WAYS)
def test_a_carried_function_knows_its_run_and_its_effects_are_recorded(store, way, pool):
    def work(amount):
        return [pay(amount), execution_id(), run_context()]

    def a(state):
        return {"came": way(pool, work), "answer": interrupt("ok?").approved}

    made = flow(store, a)
    assert made.execute(execution_id="r", context="c").status == "paused"
    assert attempts(store) == [("pay", "done")]
    assert made.resume("r", Resume(True), context="c").output == {"came": [5, "r", "c"], "answer": True}
    assert attempts(store) == [("pay", "done")]


def test_an_async_effect_is_carried_as_it_is(store, pool):
    def a(state):
        carried = carry(apay)
        return {"came": pool.submit(lambda: asyncio.run(carried(5))).result(WAIT)}

    assert flow(store, a).execute(execution_id="r").output == {"came": 5}
    assert attempts(store) == [("apay", "done")]


def test_equal_calls_in_eight_carried_threads_run_the_body_once(store, go):
    calls, everyone = [], threading.Barrier(8)

    @idempotent
    def once():
        calls.append(1)
        return len(calls)

    def call(_):
        everyone.wait(WAIT)
        return once()

    def a(state):
        with ThreadPoolExecutor(8) as threads:
            return {"paid": list(threads.map(carry(call), range(8)))}

    assert go(flow(store, a).execute).output == {"paid": [1] * 8}
    assert calls == [1]


def test_the_key_of_an_effect_is_the_same_in_a_thread_of_its_body(store, pool):
    @idempotent
    def keys():
        return [effect_key(), pool.submit(carry(effect_key)).result(WAIT)]

    def a(state):
        return {"keys": keys()}

    first, second = flow(store, a).execute().output["keys"]
    assert first == second


def test_a_question_in_a_carried_thread_pauses_the_run_once_it_reaches_the_node(store, pool):
    def a(state):
        return {"answer": pool.submit(carry(interrupt), "ok?").result(WAIT).approved}

    made = flow(store, a)
    assert made.execute(execution_id="r").status == "paused"
    assert made.resume("r", Resume(True)).output == {"answer": True}


def test_after_the_end_of_its_node_a_carried_function_begins_nothing(store, pool):
    kept = []

    def a(state):
        kept.append(carry(pay))

    flow(store, a, last).execute(execution_id="r")
    with pytest.raises(ScopeEnded, match="'a'"):
        pool.submit(kept[0], 1).result(WAIT)
    assert attempts(store) == []


def test_a_child_made_by_fork_has_neither_scope_nor_claim(tmp_path):
    from fastdur import SQLiteCheckpointer

    store = SQLiteCheckpointer(tmp_path / "runs.db")

    def a(state):
        carried = carry(pay)
        child = os.fork()
        if child == 0:
            answers = []
            for call in (lambda: carried(1), lambda: pay(1)):
                try:
                    call()
                except ScopeEnded:
                    answers.append(True)
            active = len(scope.active)
            os._exit(0 if (answers, active) == ([True, True], 0) else 1)
        return {"code": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}

    assert flow(store, a).execute(execution_id="r").output == {"code": 0}
    assert attempts(store) == []
    store.close()


def test_outside_a_run_there_is_nothing_to_carry():
    assert carry(last) is last
    assert asyncio.run(carry(apay)(2)) == 2


def test_what_a_carried_function_sets_does_not_stay_in_its_thread(store):
    def a(state):
        with ThreadPoolExecutor(1) as one:
            return {"came": [one.submit(carry(pay), 1).result(WAIT), type(one.submit(pay, 2).exception(WAIT)).__name__]}

    assert flow(store, a).execute().output == {"came": [1, "ScopeLost"]}


# -- plainly, on purpose -------------------------------------------------------------------------------------------------


def test_a_plain_call_runs_the_body_and_records_nothing_anywhere(store, go, pool):
    calls = []

    @idempotent(required=True)
    def once(amount, tip=0):
        calls.append(amount + tip)
        return len(calls)

    def a(state):
        return {
            "came": [once.plain(1), once.plain(1, tip=1), pool.submit(once.plain, 1).result(WAIT), once(1), once(1)]
        }

    assert go(flow(store, a).execute, execution_id="r").output == {"came": [1, 2, 3, 4, 4]}
    assert attempts(store) == [("once", "done")]
    assert once.plain(1) == 5


def test_a_plain_call_of_an_async_effect_is_awaited(store):
    async def a(state):
        return {"came": [await apay.plain(1), await apay.plain(1)]}

    assert asyncio.run(flow(store, a).aexecute(execution_id="r")).output == {"came": [1, 1]}
    assert attempts(store) == []


def test_what_a_plain_body_calls_is_outside_of_every_run(store, go):
    @idempotent
    def outer():
        with pytest.raises(InterruptNotAllowed):
            interrupt("ok?")
        with pytest.raises(ScopeLost, match="no run here"):
            execution_id()
        inside = Chain("inner", store).add_node("n", lambda state: {"paid": pay(2)}).execute(execution_id="own")
        carried = carry(effect_key)
        return [pay(1), inside.output["paid"], effect_key() != effect_key(), len(thread(carried)), run_context()]

    def a(state):
        return {"came": outer.plain()}

    made = flow(store, a)
    assert go(made.execute, execution_id="r", context="c").output == {"came": [1, 2, True, 32, None]}
    assert (attempts(store), attempts(store, "own")) == ([], [("pay", "done")])
    assert store.get_execution("own").parent_id is None


def test_a_body_outside_every_run_stays_outside_when_a_run_begins_meanwhile(store):
    gate = Gate()

    @idempotent
    def slow():
        gate()
        return len(effect_key())

    def a(state):
        gate.opened.set()
        return {"came": outside.result(WAIT)}

    with ThreadPoolExecutor(1) as other:
        outside = other.submit(slow)
        assert gate.reached.wait(WAIT)
        assert flow(store, a).execute().output == {"came": 32}


class Account:
    owner = "ada"

    @idempotent(key_fn=lambda self, amount: amount)
    def charge(self, amount):
        return [self.owner, amount]


def test_a_method_is_called_plainly_on_its_class(store):
    def a(state):
        return {"came": [Account.charge.plain(Account(), 5), Account().charge(5)]}

    assert flow(store, a).execute().output == {"came": [["ada", 5], ["ada", 5]]}


def test_a_node_outside_an_effect_still_has_no_key_in_a_carried_thread(store, pool):
    def a(state):
        return {"came": type(pool.submit(carry(effect_key)).exception(WAIT)).__name__}

    assert flow(store, a).execute().output == {"came": ScopeError.__name__}


def test_a_context_carried_by_hand_works_as_before(store, pool):
    def a(state):
        return {"came": pool.submit(contextvars.copy_context().run, pay, 1).result(WAIT)}

    assert flow(store, a).execute().output == {"came": 1}
