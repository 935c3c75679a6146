"""Calls in threads: what may outlive its node, and what is awaited to its end."""

import asyncio
import os
import threading

import pytest

from fastdur import _threads
from fastdur._threads import Detached, Landing, in_thread
from tests.unit.running import WAIT, Gate, raising, turn


class Keeper:
    def __init__(self):
        self.kept, self.back = [], threading.Event()

    def linger(self, call):
        self.kept.append(call)

    def returned(self, call):
        self.kept.remove(call)
        self.back.set()


@pytest.fixture
def keeper():
    return Keeper()


def test_a_call_leaves_its_outcome(keeper):
    call = Detached(keeper, lambda: ("value", None))
    assert call.outcome == (None, None)
    call()
    assert (call.outcome, call.ended.is_set(), keeper.kept) == (("value", None), True, [])


def test_a_call_that_is_abandoned_lingers_until_it_returns(keeper):
    gate = Gate()
    call = Detached(keeper, gate)
    thread = threading.Thread(target=call)
    thread.start()
    assert gate.reached.wait(WAIT)
    call.abandon()
    assert keeper.kept == [call]
    gate.opened.set()
    assert keeper.back.wait(WAIT)
    thread.join(WAIT)
    assert keeper.kept == []


def test_a_call_that_is_abandoned_after_it_returned_does_not_linger(keeper):
    call = Detached(keeper, lambda: ("value", None))
    call()
    call.abandon()
    assert keeper.kept == []


def test_a_call_that_is_abandoned_before_it_began_never_runs_and_does_not_linger(keeper):
    ran = []
    call = Detached(keeper, lambda: ran.append(1))
    call.abandon()
    call()
    assert (ran, keeper.kept) == ([], [])


def test_the_return_of_a_call_is_awaited_on_the_event_loop(keeper):
    gate = Gate()
    call = Detached(keeper, gate)
    threading.Thread(target=call, daemon=True).start()

    async def main():
        waiting = asyncio.ensure_future(call.landing())
        await turn()
        assert not waiting.done()
        gate.opened.set()
        await waiting
        await call.landing()

    asyncio.run(main())
    assert call.ended.is_set()


def test_telling_a_loop_that_is_closed_does_nothing():
    async def main():
        return Landing()

    landing = asyncio.run(main())
    landing.tell()


def test_a_store_call_runs_beside_the_loop_and_gives_its_result_or_raises_its_error():
    async def main():
        assert await in_thread(lambda a, b: (a + b, threading.current_thread() is threading.main_thread()), 1, 2) == (
            3, False,
        )  # fmt: skip
        with pytest.raises(OSError, match="disk"):
            await in_thread(raising(OSError("disk")))

    asyncio.run(main())


@pytest.mark.parametrize("fails", [False, True])
def test_a_store_call_that_has_begun_is_awaited_however_often_its_caller_is_cancelled(fails):
    gate = Gate()

    def call():
        gate()
        if fails:
            raise OSError("disk")

    async def main():
        task = asyncio.ensure_future(in_thread(call))
        assert await asyncio.to_thread(gate.reached.wait, WAIT)
        for _ in range(3):
            task.cancel()
            await turn()
        assert not task.done()
        gate.opened.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_store_calls_go_on_while_every_thread_of_user_code_is_blocked():
    gate = Gate()

    async def main():
        blocked = [asyncio.ensure_future(asyncio.to_thread(gate)) for _ in range(40)]
        assert await in_thread(lambda: "stored") == "stored"
        gate.opened.set()
        await asyncio.gather(*blocked)

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_made_by_fork_makes_threads_of_its_own():
    asyncio.run(in_thread(lambda: None))
    assert _threads._Pool.executor is not None
    pid = os.fork()
    if pid == 0:
        made = _threads._Pool.executor is None and asyncio.run(in_thread(lambda: 7)) == 7
        os._exit(0 if made else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_what_is_forgotten_in_a_child_is_the_threads():
    asyncio.run(in_thread(lambda: None))
    _threads._forget()
    assert _threads._Pool.executor is None
    assert asyncio.run(in_thread(lambda: 7)) == 7
