"""A lifetime: boundaries, ordered errors, crashes, cancellation, and what becomes of the claim."""

import asyncio
import itertools
import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest

from fastdur import (
    AlreadyResumed,
    Chain,
    ChainResumeError,
    Inject,
    Resume,
    RunCancelled,
    RunInProgress,
    ScopeEnded,
    SimulatedCrash,
    SQLiteCheckpointer,
    StaleRun,
    StoreCorrupt,
    StoreUnavailable,
    idempotent,
    interrupt,
    observe,
)
from fastdur._drivers import Lifetime, arun, run
from fastdur._effects import Look, Release, Start
from tests.unit.running import WAIT, Gate, at, attempts, dump, flow, kinds, last, raising, turn

# -- the loops -----------------------------------------------------------------------------------------------------------


def steps(log):
    try:
        log.append((yield Look("a")))
        log.append((yield Look("b")))
    except ValueError as error:
        log.append(error)
    return "end"


def in_place(made, perform):
    return run(made, perform)


def on_a_loop(made, perform):
    async def aperform(effect):
        return perform(effect)

    return asyncio.run(arun(made, aperform))


@pytest.mark.parametrize("drive", [in_place, on_a_loop])
def test_each_effect_is_performed_and_answered_until_the_steps_return(drive):
    log = []
    assert drive(steps(log), lambda effect: effect.execution_id) == "end"
    assert log == ["a", "b"]


@pytest.mark.parametrize("drive", [in_place, on_a_loop])
def test_an_error_is_thrown_into_the_steps_and_what_ends_a_process_is_not(drive):
    log, error = [], ValueError()
    assert drive(steps(log), raising(error)) == "end"
    assert log == [error]
    log.clear()
    for death in (KeyboardInterrupt, SimulatedCrash, GeneratorExit):
        with pytest.raises(death):
            drive(steps(log), raising(death()))
    assert log == []


@pytest.mark.parametrize("drive", [in_place, on_a_loop])
def test_an_error_that_the_steps_do_not_take_comes_out(drive):
    with pytest.raises(OSError, match="disk"):
        drive(steps([]), raising(OSError("disk")))


# -- a story with everything in it ---------------------------------------------------------------------------------------


def later(node):
    """The node as an `async def`."""

    async def anode(state):
        await turn()
        return node(state)

    return anode


class Story:
    """A node with an effect, a node that asks, a node that fails once and is tried again; and a ledger."""

    def __init__(self, store, flavour="sync"):
        self.store, self.flavour, self.ledger, self.after_death = store, flavour, [], []

        @idempotent(name="pay")
        def pay(amount):
            self.ledger.append("pay")
            return {"paid": amount}

        @idempotent(name="pay")
        async def apay(amount):
            self.ledger.append("pay")
            return {"paid": amount}

        def first(state):
            try:
                return pay(state["n"])
            finally:
                self.try_to_write(pay)

        def asks(state):
            try:
                return {"answer": interrupt("ok?").approved}
            finally:
                self.try_to_write(pay)

        def shaky(state):
            if self.ledger.count("shaky") == 0:
                self.ledger.append("shaky")
                raise ValueError("once")
            return {"done": True}

        async def afirst(state):
            try:
                return await apay(state["n"])
            finally:
                self.try_to_write(pay)

        self.chain = Chain("c", store)
        self.chain.add_node("first", afirst if flavour == "async" else first)
        self.chain.add_node("asks", later(asks) if flavour == "async" else asks)
        self.chain.add_node("shaky", later(shaky) if flavour == "async" else shaky, retry=1)
        self.chain.connect("first", "asks").connect("asks", "shaky", when=lambda state: state["answer"])

    def try_to_write(self, pay):
        """What a `finally` of the user's may try while its process is dying."""
        for call in (lambda: pay(99), lambda: interrupt("last words")) if self.dead else ():
            with pytest.raises((SimulatedCrash, ScopeEnded)) as refused:
                call()
            self.after_death.append(refused.type)

    dead = False

    def call(self, method, *args, **options):
        if self.flavour == "sync":
            return getattr(self.chain, method)(*args, **options)
        return asyncio.run(getattr(self.chain, f"a{method}")(*args, **options))

    def to_the_end(self, lifetimes=6):
        """Start, or go on, and answer, until it has completed; whatever was ordered may come in between."""
        for _ in range(lifetimes):
            head = self.store.get_execution("r")
            if head is None:
                result = self.call("execute", {"n": 5}, "r")
            elif head.status == "completed":
                return self.chain.result("r")
            else:
                result = self.call("resume", "r", Resume(True) if head.status == "paused" else None)
            if result.status == "completed":
                return result
        raise AssertionError("it does not end")


FLAVOURS = ["sync", "async", "threads"]
END = {"n": 5, "paid": 5, "answer": True, "done": True}


def every_boundary():
    """The boundaries of the story without faults, as people say them."""
    store, seen = SQLiteCheckpointer(":memory:"), []
    with observe(lambda boundary: seen.append(str(boundary)), store):
        assert Story(store).to_the_end().final_state == END
    store.close()
    return seen


BOUNDARIES = every_boundary()


def numbered(names):
    return list(enumerate(names))


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_the_boundaries_are_the_same_in_every_flavour_and_come_in_pairs(store, flavour):
    seen = []
    with observe(lambda boundary: seen.append(str(boundary)), store):
        Story(store, flavour).to_the_end()
    assert seen == BOUNDARIES
    assert BOUNDARIES[:4] == ["before start", "after start", "before node first", "before effect begin pay@first"]
    counts = Counter(name.partition(" ")[0] for name in BOUNDARIES)
    assert counts["before"] == counts["after"] > 15
    assert "before node shaky (2)" in BOUNDARIES


class Order:
    """Do something at the n-th boundary of all lifetimes together."""

    def __init__(self, number, do):
        self.number, self.do, self.seen, self.given = number, do, itertools.count(), False

    def __call__(self, boundary):
        if next(self.seen) == self.number:
            self.given = True
            self.do(boundary)


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize(("number", "name"), numbered(BOUNDARIES))
def test_a_crash_at_any_boundary_writes_nothing_more_and_the_run_goes_on_in_this_process(store, flavour, number, name):
    story, at_death = Story(store, flavour), []

    def die(boundary):
        assert str(boundary) == name
        story.dead = True
        at_death.append(dump(store))
        raise SimulatedCrash(name)

    order = Order(number, die)
    with observe(order, store):
        with pytest.raises(SimulatedCrash):
            story.to_the_end()
        story.dead = False
        assert at_death == [dump(store)]
        assert set(story.after_death) <= {SimulatedCrash}
        assert story.to_the_end().final_state == END
    assert story.ledger.count("pay") == (2 if name in ("after effect pay@first", "before effect end pay@first") else 1)
    assert [each for each in kinds(store) if each[0] != "asks"] == [
        ("first", "completed"), ("shaky", "completed"), ("run_end", "completed"),
    ]  # fmt: skip


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize(("number", "name"), numbered(BOUNDARIES))
def test_a_store_that_fails_at_any_boundary_is_never_a_failure_of_a_node(store, flavour, number, name):
    story = Story(store, flavour)
    order = Order(number, raising(Inject(StoreUnavailable("down"))))
    of_the_user = any(kind in name for kind in ("node", "route", "effect pay@first"))
    may_repeat = of_the_user or name == "before effect end pay@first"
    with observe(order, store), suppress(StoreUnavailable):
        story.to_the_end()
    assert order.given
    if not of_the_user:
        assert ("run_end", "failed") not in kinds(store)
    assert story.to_the_end().final_state == END
    assert story.ledger.count("pay") <= 1 + may_repeat


@pytest.mark.parametrize(("number", "name"), numbered(BOUNDARIES))
def test_a_cancellation_at_any_boundary_keeps_what_is_done_and_gives_up_the_claim(store, number, name):
    story = Story(store, "async")
    order = Order(number, lambda boundary: asyncio.current_task().cancel())
    with observe(order, store):
        try:
            story.to_the_end()
        except asyncio.CancelledError:
            head = store.get_execution("r")
            assert head is None or (head.token is None and head.status != "failed")
    assert order.given
    assert story.to_the_end().final_state == END
    assert story.ledger.count("pay") <= 2
    assert ("run_end", "failed") not in kinds(store)


# -- observers -----------------------------------------------------------------------------------------------------------


def test_an_injected_error_is_answered_by_a_node_as_its_own_and_costs_a_retry(store, go):
    runs = []

    def a(state):
        runs.append(1)
        return {"n": len(runs)}

    with at("before node a", raising(Inject(ValueError("ordered")))):
        assert go(flow(store, a, retry=1).execute).final_state == {"n": 1}
    with at("after node a", raising(Inject(ValueError("ordered")))), pytest.raises(ValueError, match="ordered"):
        go(flow(store, a).execute)


def test_an_injected_error_of_a_body_is_recorded_as_its_failure(store, go):
    @idempotent
    def pay():
        return 1

    def a(state):
        try:
            return {"paid": pay()}
        except ValueError:
            return {"paid": 0}

    with at("before effect pay@a", raising(Inject(ValueError("ordered")))):
        assert go(flow(store, a).execute, execution_id="r").final_state == {"paid": 0}
    assert attempts(store) == [("pay", "failed")]


def test_an_injected_error_at_a_write_is_raised_and_the_run_stays_resumable(store, go):
    made = flow(store, last)
    calls = {
        "before append last": lambda: go(made.execute, execution_id="r"),
        "after append last": lambda: go(made.resume, "r"),
    }
    for where, call in calls.items():
        with at(where, raising(Inject(OSError("ordered")))), pytest.raises(OSError, match="ordered"):
            call()
    assert go(made.resume, "r").status == "completed"
    assert kinds(store) == [("last", "completed"), ("run_end", "completed")]


def test_an_observer_that_breaks_is_detached_for_the_rest_of_the_call_and_changes_nothing(store, go):
    seen = []

    def broken(boundary):
        seen.append(boundary)
        raise RuntimeError("oops")

    with observe(broken, store), pytest.warns(RuntimeWarning, match="oops"):
        assert go(flow(store, last).execute).status == "completed"
    assert len(seen) == 1


def test_an_observer_sees_the_run_and_the_effect(store):
    seen = []
    with observe(seen.append, store):
        flow(store, last).execute({"n": 1}, "r")
    assert {boundary.execution_id for boundary in seen} == {"r"}
    assert seen[0].effect.input == {"n": 1}


# -- poison --------------------------------------------------------------------------------------------------------------


def test_a_crash_inside_a_node_poisons_it_even_where_user_code_goes_on(store, go):
    @idempotent
    def pay():
        return 1

    def a(state):
        for _ in range(2):
            with pytest.raises(SimulatedCrash):
                pay()
        return {"n": 1}

    made = flow(store, a)
    with at("before effect begin pay@a", raising(SimulatedCrash())), pytest.raises(SimulatedCrash):
        go(made.execute, execution_id="r")
    assert (kinds(store), attempts(store)) == ([], [])
    assert store.get_execution("r").token is not None


def test_a_crash_in_another_thread_of_the_run_is_the_death_of_its_node(store, go):
    life = []

    def a(state):
        life[0].crash()
        return {"n": 1}

    made = flow(store, a)
    own = Lifetime.own
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lifetime, "own", lambda self, claim: (life.append(self), own(self, claim))[1])
        with pytest.raises(SimulatedCrash, match="on purpose"):
            go(made.execute, execution_id="r")
    assert kinds(store) == []


def test_a_crash_of_a_run_inside_a_node_is_the_death_of_the_run_around_it(store, go):
    inner = flow(store, last, name="inner")

    def a(state):
        inner.execute(execution_id="within")

    seen = []
    watched = observe(lambda boundary: seen.append(f"{boundary} of {boundary.execution_id}"), store)
    with watched, at("before append last", raising(SimulatedCrash())), pytest.raises(SimulatedCrash):
        go(flow(store, a).execute, execution_id="r")
    assert seen[-1] == "before append last of within"
    assert store.get_execution("r").token is not None
    assert [type(each.result).__name__ for each in flow(store, last, name="inner").recover()] == ["RunResult"]


def test_a_crash_raised_in_a_node_poisons_the_run(store, go):
    def a(state):
        raise SimulatedCrash("here")

    with pytest.raises(SimulatedCrash, match="here"):
        go(flow(store, a).execute, execution_id="r")
    assert store.get_execution("r").token is not None


def test_a_boundary_after_the_crash_crashes_again(store):
    life = Lifetime("r", "c", store, durable=True, context=None)
    life.crash()
    with observe(lambda boundary: None, store):
        again = Lifetime("r", "c", store, durable=True, context=None)
        again.crash()
        with pytest.raises(SimulatedCrash):
            again.perform(Look("r"))


# -- the fence -----------------------------------------------------------------------------------------------------------


def test_a_run_that_was_cancelled_outside_ends_its_call_with_that_and_writes_nothing(store, go):
    def a(state):
        made.cancel("r")

    made = flow(store, a, last)
    with pytest.raises(RunCancelled, match="outside"):
        go(made.execute, execution_id="r")
    assert kinds(store) == [("run_end", "failed")]


def test_a_run_that_was_taken_over_ends_its_call_as_stale_and_writes_nothing(store, go):
    def a(state):
        if store.get_execution("r").epoch == 1:
            flow(store, a, last).resume("r", takeover=True)
        return {"n": 1}

    with pytest.raises(StaleRun):
        go(flow(store, a, last).execute, execution_id="r")
    assert kinds(store) == [("a", "completed"), ("last", "completed"), ("run_end", "completed")]


def test_a_stale_run_is_what_it_is_even_if_the_node_swallows_it(store, go):
    @idempotent
    def pay():
        return 1

    def a(state):
        store.cancel(store.get_execution("r"), marker(store))
        with pytest.raises(StaleRun):
            pay()
        raise ValueError("mine")

    def marker(store):
        done = flow(store, last, name="other")
        done.execute(execution_id="x")
        head = store.get_execution("r")
        row = store.get_last("x")
        return row.__class__("r", head.seq + 1, f"{head.run}-1-x", "run_end", -1, "run_end", "failed", row.frames)

    with pytest.raises(RunCancelled):
        go(flow(store, a).execute, execution_id="r")


def test_a_run_that_is_gone_from_the_store_is_stale(store):
    life = Lifetime("gone", "c", store, durable=True, context=None)
    assert life.status() is None


# -- giving up the claim -------------------------------------------------------------------------------------------------


def test_a_claim_that_cannot_be_given_up_is_left_to_its_lease_and_is_not_held_here(store, go):
    def a(state):
        if not state.get("n"):
            raise KeyboardInterrupt

    made = Chain("c", store).add_node("a", a)
    with at("before release", raising(Inject(StoreUnavailable("down")))), pytest.raises(KeyboardInterrupt):
        go(made.execute, execution_id="r")
    assert store.get_execution("r").token is not None
    assert made.resume("r", modified_state={"n": 1}).status == "completed"


def test_a_claim_is_given_up_once_however_many_give_it_up(store):
    life = Lifetime("r", "c", store, durable=True, context=None)
    life.perform(Start("r", "c", "chain", {}, {}))
    released = []
    store.release = released.append
    life.perform(Release())
    life.perform(Release())
    life.leave()
    assert len(released) == 1


def test_a_claim_that_comes_too_late_takes_nothing(store, go):
    made = flow(store, asks_once)
    for where, answers in (
        ("before claim", (None, None)),
        ("before claim interrupt asks_once", (Resume(True), Resume(False))),
        ("before claim interrupt asks_once", (Resume(True), Resume(True))),
    ):
        run = f"{where} {answers}"
        if where == "before claim":
            with at("before node asks_once", raising(SimulatedCrash())), pytest.raises(SimulatedCrash):
                made.execute(execution_id=run)
        else:
            made.execute(execution_id=run)
        first = partial(made.resume, run, answers[0])
        with at(where, first), pytest.raises(ChainResumeError if answers[0] is None else AlreadyResumed):
            go(made.resume, run, answers[1])


def asks_once(state):
    return {"answer": interrupt("ok?").approved}


def test_a_run_at_work_refuses_everybody_else(store, go):
    refused = []

    def a(state):
        for call in (lambda: made.resume("r"), lambda: made.resume("r", Resume(True))):
            with pytest.raises(RunInProgress) as error:
                call()
            refused.append(error)
        assert made.recover() == []

    made = flow(store, a)
    assert go(made.execute, execution_id="r").status == "completed"
    assert len(refused) == 2


def test_a_reading_between_two_writes_is_read_again(store):
    made = flow(store, last, last_of_all)
    get_last, seen = store.get_last, []

    def get_late(run):
        if not seen:
            seen.append(1)
            made.cancel(run)
        return get_last(run)

    with pytest.raises(KeyboardInterrupt):
        flow(store, raising_node).execute(execution_id="r")
    store.get_last = get_late
    assert made.result("r").status == "cancelled"


def test_a_row_that_is_missing_is_told_and_not_waited_for(store):
    flow(store, last, last_of_all).execute(execution_id="r")
    newest = store.get_last("r")
    store.get_last = lambda run: replace(newest, seq=newest.seq - 1)
    with pytest.raises(StoreCorrupt, match=f"Row {newest.seq} of run 'r' is missing from :memory:"):
        flow(store, last, last_of_all).result("r")


def last_of_all(state):
    """Another node that does nothing."""


def raising_node(state):
    raise KeyboardInterrupt


# -- cancellation --------------------------------------------------------------------------------------------------------


@pytest.mark.case("S68")
@pytest.mark.parametrize("options", [{}, {"timeout": WAIT}])
def test_a_node_that_swallows_its_cancellation_does_not_make_the_run_completed(store, options):
    async def main():
        entered = asyncio.Event()

        async def a(state):
            entered.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return {"n": 1}

        made = Chain("c", store).add_node("last", last).add_node("a", a, **options).connect("last", "a")
        task = asyncio.ensure_future(made.aexecute(execution_id="r"))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert kinds(store) == [("last", "completed")]
    head = store.get_execution("r")
    assert (head.status, head.token) == ("running", None)


class Held(SQLiteCheckpointer):
    """A store whose next row waits at a gate."""

    gate = None

    def put(self, *args, **options):
        if self.gate is not None:
            self.gate()
        return super().put(*args, **options)


def test_a_write_that_has_begun_is_awaited_however_often_the_call_is_cancelled():
    store = Held(":memory:")
    store.gate = gate = Gate()

    async def main():
        task = asyncio.ensure_future(flow(store, last, last_of_all).aexecute(execution_id="r"))
        assert await asyncio.to_thread(gate.reached.wait, WAIT)
        for _ in range(3):
            task.cancel()
            await turn()
            await turn()
        assert not task.done()
        gate.opened.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert kinds(store) == [("last", "completed")]
    assert store.get_execution("r").token is None
    assert flow(store, last, last_of_all).resume("r").status == "completed"
    store.close()


def test_a_write_that_fails_while_the_call_is_cancelled_ends_it_as_cancelled():
    store = Held(":memory:")
    gate = Gate()

    def fail_late(*_):
        gate()
        raise StoreUnavailable("down")

    store.gate = fail_late

    async def main():
        task = asyncio.ensure_future(flow(store, last).aexecute(execution_id="r"))
        assert await asyncio.to_thread(gate.reached.wait, WAIT)
        task.cancel()
        await turn()
        gate.opened.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    store.close()


def test_a_sync_node_of_a_cancelled_run_keeps_the_claim_until_it_returns(store):
    gate, released = Gate(), threading.Event()

    def a(state):
        gate()
        return {"n": 1}

    made = flow(store, a, last)

    async def main():
        task = asyncio.ensure_future(made.aexecute(execution_id="r"))
        assert await asyncio.to_thread(gate.reached.wait, WAIT)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(RunInProgress):
            await made.aresume("r")
        gate.opened.set()
        assert await asyncio.to_thread(released.wait, WAIT)

    with at("after release", released.set):
        asyncio.run(main())
    assert (kinds(store), store.get_execution("r").token) == ([], None)
    assert made.resume("r").final_state == {"n": 1}


def test_a_node_whose_run_was_cancelled_before_it_began_does_not_begin(store):
    began, gate = [], Gate()

    def a(state):
        began.append(1)

    async def main():
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        blocker = loop.run_in_executor(None, gate)
        task = asyncio.ensure_future(flow(store, a).aexecute(execution_id="r"))
        waiting = asyncio.Event()
        with at("before node a", waiting.set):
            await waiting.wait()
        await turn()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.opened.set()
        await blocker
        await loop.run_in_executor(None, last, {})

    asyncio.run(main())
    assert began == []
    assert store.get_execution("r").token is None


def test_a_body_that_runs_when_its_node_is_cancelled_keeps_the_claim_and_records_itself(store):
    body, released, calls = Gate(), threading.Event(), []

    @idempotent
    def pay():
        calls.append(1)
        body()
        return "paid"

    async def a(state):
        return {"paid": await asyncio.to_thread(pay)}

    made = flow(store, a)

    async def main():
        task = asyncio.ensure_future(made.aexecute(execution_id="r"))
        assert await asyncio.to_thread(body.reached.wait, WAIT)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(RunInProgress):
            await made.aresume("r")
        body.opened.set()
        assert await asyncio.to_thread(released.wait, WAIT)

    with at("after release", released.set):
        asyncio.run(main())
    assert (attempts(store), store.get_execution("r").token) == ([("pay", "done")], None)
    assert asyncio.run(made.aresume("r")).final_state == {"paid": "paid"}
    assert calls == [1]


def test_a_body_that_a_node_left_behind_is_recorded_and_the_claim_given_up_after_it(store):
    async def main():
        begun, later, left = asyncio.Event(), asyncio.Event(), []

        @idempotent
        async def pay():
            begun.set()
            await later.wait()
            return "paid"

        async def a(state):
            left.append(asyncio.ensure_future(pay()))
            await begun.wait()

        result = await flow(store, a).aexecute(execution_id="r")
        assert store.get_execution("r").token is not None
        later.set()
        assert await left[0] == "paid"
        return result

    assert asyncio.run(main()).status == "completed"
    assert (attempts(store), store.get_execution("r").token) == ([("pay", "done")], None)


# -- after the end of a node ---------------------------------------------------------------------------------------------


def test_a_task_that_a_node_left_behind_can_begin_nothing(store):
    @idempotent
    async def pay():
        return 1

    async def main():
        later, left = asyncio.Event(), []

        async def straggler():
            await later.wait()
            for call in (pay, ask):
                with pytest.raises(ScopeEnded, match="'a' of run 'r' has ended"):
                    await call()
            return "refused"

        async def ask():
            interrupt("ok?")

        async def a(state):
            left.append(asyncio.ensure_future(straggler()))

        result = await flow(store, a, last).aexecute(execution_id="r")
        later.set()
        assert await left[0] == "refused"
        return result

    assert asyncio.run(main()).status == "completed"
    assert attempts(store) == []


# -- fork ----------------------------------------------------------------------------------------------------------------


def in_a_child(body):
    """Run `body` in a child made by fork; what it returns as text, or what it raised."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = str(body())
        except BaseException as error:
            said = type(error).__name__
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    return said


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_neither_scope_nor_claim_crosses_a_fork(tmp_path):
    store, said = SQLiteCheckpointer(tmp_path / "runs.db"), []

    @idempotent
    def pay():
        return 1

    @idempotent
    def forks():
        said.append(in_a_child(lambda: next(life).owned()))
        return 1

    def a(state):
        said.append(in_a_child(pay))
        said.append(in_a_child(lambda: interrupt("ok?")))
        forks()

    lives = []
    life = iter(lives)
    own = Lifetime.own
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lifetime, "own", lambda self, claim: (lives.append(self), own(self, claim))[1])
        assert flow(store, a, last).execute(execution_id="r").status == "completed"
    assert said == ["ScopeEnded", "ScopeEnded", "StaleRun"]
    assert attempts(store) == [("forks", "done")]
    store.close()


def test_a_lifetime_that_belongs_to_another_process_owns_nothing_and_gives_nothing_up(store):
    life = Lifetime("r", "c", store, durable=True, context=None)
    life.perform(Start("r", "c", "chain", {}, {}))
    life._born -= 1
    with pytest.raises(StaleRun, match="fork"):
        life.owned()
    life.leave()
    assert store.get_execution("r").token == life.claim.token
    life.forget()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_that_returns_from_the_node_of_its_parent_writes_nothing(tmp_path):
    store = SQLiteCheckpointer(tmp_path / "runs.db")
    parent, children = os.getpid(), []

    def a(state):
        children.append(os.fork())
        return {"by": os.getpid()}

    try:
        result = flow(store, a, last).execute(execution_id="r")
    except BaseException as error:
        os._exit(3 if isinstance(error, StaleRun) and os.getpid() != parent else 4)
    assert os.getpid() == parent
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 3
    assert result.final_state == {"by": parent}
    assert kinds(store) == [("a", "completed"), ("last", "completed"), ("run_end", "completed")]
    store.close()


def test_a_second_answer_to_the_same_question_is_refused(store, go):
    def a(state):
        return {"answer": interrupt("ok?").approved}

    made = flow(store, a)
    go(made.execute, execution_id="r")
    assert go(made.resume, "r", Resume(False)).output == {"answer": False}
    with pytest.raises(AlreadyResumed):
        go(made.resume, "r", Resume(True))
