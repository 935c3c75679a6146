"""A caller who cancels gets no completed result, no hang, and keeps what was finished."""

from __future__ import annotations

import asyncio
import threading

import pytest

from fastdur import Chain, Resume, ScopeEnded, observe
from tests.cases import _story
from tests.cases._server import attempt
from tests.cases._world import WAIT, World
from tests.cases.conftest import RUN

YES = Resume(approved=True, metadata={"by": "ada"})


def lets_it_go(entered):
    async def node(_state):
        entered.set()
        await asyncio.Event().wait()

    return node


def returns(entered):
    async def node(_state):
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return {"path": ["swallowed"]}

    return node


def raises(entered):
    async def node(_state):
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ZeroDivisionError from None

    return node


def waits_once_more(entered):
    async def node(_state):
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.wait_for(asyncio.get_running_loop().run_in_executor(None, int), WAIT)
        return {"path": ["swallowed"]}

    return node


def around(world, store, node, **keywords):
    """A node between two others."""
    chain = Chain("c", checkpointer=store).add_node("a", world.step("a")).add_node("b", node, **keywords)
    return chain.add_node("c", world.step("c", pays=True)).connect("a", "b").connect("b", "c")


@pytest.mark.case("S68")
@pytest.mark.parametrize("node", [lets_it_go, returns, raises, waits_once_more])
@pytest.mark.parametrize("keywords", [{}, {"timeout": WAIT}, {"retry": 3}])
def test_a_cancelled_run_reports_nothing_but_the_cancellation_whatever_the_node_does_with_it(
    store, world, node, keywords
):
    """Wrong: completed, because the node returned a value; failed, because it raised another; or a retry."""

    async def main():
        entered = asyncio.Event()
        running = asyncio.create_task(around(world, store, node(entered), **keywords).aexecute({}, RUN))
        await asyncio.wait_for(entered.wait(), WAIT)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    assert world.marks() == ["a"]
    assert [row.node_id for row in store.list(RUN)] == ["a"]
    head = store.get_execution(RUN)
    assert (head.status, head.owned) == ("running", False)
    mended = around(world, store, world.step("b"))
    assert mended.resume(RUN).final_state["path"] == ["a", "b", "c"]
    assert world.marks() == ["a", "b", "c", "pay c"]


@pytest.mark.case("S68")
def test_a_run_under_a_timeout_of_its_caller_ends_with_the_timeout(store, world):
    """Wrong: a result, because the node swallowed the cancellation that the timeout is made of."""

    async def main():
        entered = asyncio.Event()
        async with asyncio.timeout(None) as scope:
            first = asyncio.create_task(entered.wait())
            first.add_done_callback(lambda _: scope.reschedule(0))
            await around(world, store, returns(entered)).aexecute({}, RUN)

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert store.get_execution(RUN).status == "running"


@pytest.mark.case("S68")
@pytest.mark.parametrize("flavour", ["async", "threads"])
@pytest.mark.parametrize("story", ["five", "two_levels", "fanned"])
def test_a_cancellation_at_any_boundary_keeps_what_was_finished_and_a_resume_completes_the_run(
    store, tmp_path, flavour, story
):
    """Wrong: a store call that is left behind half done, an effect that runs twice, or a claim that is never given up."""

    async def main(chain, run, number):
        left = number
        task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        names = []

        def cancel(boundary):
            nonlocal left
            left -= 1
            if left == 0:
                names.append(str(boundary))
                loop.call_soon_threadsafe(task.cancel)

        with observe(cancel):
            try:
                await chain.aexecute({}, run)
            except asyncio.CancelledError:
                return names
        return names if left <= 0 else None

    for number in range(1, 200):
        run = f"r-{number}"
        world = World(tmp_path, flavour)
        past = len(world.marks())
        chain = getattr(_story, story)(world, store)
        names = asyncio.run(main(chain, run, number))
        if names is None:
            break
        head = store.get_execution(run)
        if head is None:
            continue
        assert not head.owned, names
        assert head.status in ("running", "completed"), names
        done = attempt(chain, "resume", "async", run)
        assert done.error == ("AlreadyResumed" if head.status == "completed" else None), (names, done)
        found = chain.result(run)
        assert found.status == "completed"
        marks = world.marks()[past:]
        paid = [mark for mark in marks if mark.startswith("pay")]
        assert len(paid) - len(set(paid)) == 0, (names, marks)
        assert len(found.final_state["path"]) == 5
    assert number > 20


@pytest.mark.case("S68")
def test_a_sync_node_that_outlives_its_cancelled_run_keeps_the_claim_until_it_returns(store, world):
    """Wrong: a second body beside the first, which nobody can stop; or a claim that outlives it."""
    inside, go, refused = threading.Event(), threading.Event(), []

    def slow(_state):
        inside.set()
        assert go.wait(WAIT)
        try:
            world.pay("late")
        except ScopeEnded as error:
            refused.append(error)

    async def main():
        chain = around(world, store, slow)
        running = asyncio.create_task(chain.aexecute({}, RUN))
        await asyncio.get_running_loop().run_in_executor(None, inside.wait)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert attempt(chain, "resume", "sync", RUN).error == "RunInProgress"
        go.set()

    asyncio.run(main())
    assert world.count("pay late") == 0
    assert len(refused) == 1
    assert not store.get_execution(RUN).owned
    assert around(world, store, world.step("b")).resume(RUN).status == "completed"


@pytest.mark.case("S68")
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interrupted_sync_run_is_no_failure_and_goes_on(store, world, error):
    """Wrong: a failed marker for Ctrl-C, or a claim that stays."""

    def stops(_state):
        raise error

    with pytest.raises(error):
        around(world, store, stops, retry=2).execute({}, RUN)
    assert [row.node_id for row in store.list(RUN)] == ["a"]
    head = store.get_execution(RUN)
    assert (head.status, head.owned) == ("running", False)
    assert around(world, store, world.step("b")).resume(RUN).final_state["path"] == ["a", "b", "c"]
