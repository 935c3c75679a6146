"""Waiting for an effect in flight: circles are refused wherever they close, and a waiter that is cancelled just leaves."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fastdur import EffectDeadlock, carry, idempotent
from fastdur.scope import current
from tests.unit.running import WAIT, attempts, flow, turn


def elsewhere(fn, *args):
    """Call it in a thread that knows the run, and wait for it."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(carry(fn), *args).result(WAIT)


def here(fn, *args):
    return fn(*args)


def ring(size, call):
    """Effects that call one another in a ring, each by `call`."""
    effects = []

    def member(number):
        @idempotent(name=f"effect {number}")
        def body():
            return call(effects[(number + 1) % size])

        return body

    effects += [member(number) for number in range(size)]
    return effects


@pytest.mark.parametrize("call", [here, elsewhere])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_ring_of_effects_is_refused_where_it_closes(store, go, size, call):
    effects = ring(size, call)

    def a(state):
        effects[0]()

    with pytest.raises(EffectDeadlock, match=r"effect 0\(\) is in flight"):
        go(flow(store, a).execute, execution_id="r")
    assert current.get() is None


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("how", [lambda effect: effect(), lambda effect: asyncio.ensure_future(effect())])
def test_an_async_ring_is_refused_where_it_closes(store, size, how):
    effects = []

    def member(number):
        @idempotent(name=f"effect {number}")
        async def body():
            return await how(effects[(number + 1) % size])

        return body

    effects += [member(number) for number in range(size)]

    async def a(state):
        await effects[0]()

    with pytest.raises(EffectDeadlock, match=r"effect 0\(\) is in flight"):
        asyncio.run(flow(store, a).aexecute())


def test_other_arguments_are_no_ring(store, go):
    @idempotent(name="sum")
    def total(number):
        return number + total(number - 1) if number else 0

    def a(state):
        return {"sum": total(4)}

    assert go(flow(store, a).execute).output == {"sum": 10}


def test_a_task_that_is_cancelled_while_it_waits_leaves_the_flight_and_the_others_alone(store):
    calls, signs = [], {}

    @idempotent(name="pay")
    async def pay():
        calls.append(1)
        signs["begun"].set()
        await signs["gate"].wait()
        return 5

    async def a(state):
        signs.update(begun=asyncio.Event(), gate=asyncio.Event())
        first = asyncio.ensure_future(pay())
        await signs["begun"].wait()
        second, third = asyncio.ensure_future(pay()), asyncio.ensure_future(pay())
        await turn()
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        signs["gate"].set()
        flights.append(current.get().node.host.memory._flights)
        return {"paid": [await first, await third, await pay()]}

    flights = []
    assert asyncio.run(flow(store, a).aexecute(execution_id="r")).output == {"paid": [5, 5, 5]}
    assert (calls, flights, attempts(store)) == ([1], [{}], [("pay", "done")])


def test_when_the_task_in_flight_is_cancelled_the_next_in_line_runs_the_body(store):
    calls, signs = [], {}

    @idempotent(name="pay")
    async def pay():
        calls.append(1)
        signs["begun"].set()
        if len(calls) == 1:
            await asyncio.Event().wait()
        return len(calls)

    async def a(state):
        signs.update(begun=asyncio.Event())
        first = asyncio.ensure_future(pay())
        await signs["begun"].wait()
        second, third = asyncio.ensure_future(pay()), asyncio.ensure_future(pay())
        await turn()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        return {"paid": [await second, await third]}

    assert asyncio.run(flow(store, a).aexecute(execution_id="r")).output == {"paid": [2, 2]}
    assert (len(calls), attempts(store)) == (2, [("pay", "done")])


def test_a_run_that_is_cancelled_while_a_node_waits_for_a_flight_keeps_what_the_flight_brings(store):
    """The body is in a thread, which nobody can stop: it records its result, and the next life takes it."""
    inside, opened = threading.Event(), threading.Event()
    calls = []

    @idempotent(name="pay")
    def pay():
        calls.append(1)
        inside.set()
        assert opened.wait(WAIT)
        return 5

    async def a(state):
        return {"paid": await asyncio.gather(asyncio.to_thread(pay), asyncio.to_thread(pay))}

    made = flow(store, a)

    async def cut():
        task = asyncio.ensure_future(made.aexecute(execution_id="r"))
        await asyncio.to_thread(inside.wait, WAIT)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        opened.set()

    asyncio.run(cut())
    assert asyncio.run(made.aresume("r")).output == {"paid": [5, 5]}
    assert (calls, attempts(store)) == ([1], [("pay", "done")])


def test_a_body_that_calls_its_own_effect_as_the_node_has_carried_it_is_refused(store, go):
    """It comes from the node then, as far as the scope can tell, and would wait for the call below it for ever."""
    effects = []

    @idempotent(name="pay")
    def pay():
        return effects[0]()

    def a(state):
        effects.append(carry(pay))
        pay()

    with pytest.raises(EffectDeadlock, match=r"pay\(\) is in flight"):
        go(flow(store, a).execute, execution_id="r")


@pytest.mark.parametrize("inner", [lambda effect: effect(), lambda effect: asyncio.wait_for(effect(), WAIT)])
def test_so_is_an_async_one(store, inner):
    effects = []

    @idempotent(name="pay")
    async def pay():
        return await effects[0]()

    async def a(state):
        effects.append(carry(pay))
        await inner(pay)

    with pytest.raises(EffectDeadlock, match=r"pay\(\) is in flight"):
        asyncio.run(flow(store, a).aexecute(execution_id="r"))
