"""What a node may return, raise and swallow, and what its run makes of it."""

import asyncio
import functools
import signal
import threading
from contextlib import suppress
from dataclasses import dataclass

import pytest

from fastdur import (
    Chain,
    InterruptError,
    InterruptSignal,
    InterruptSwallowed,
    NodeCancelled,
    NodeIsAsync,
    NodeResultError,
    NodeTimeout,
    NotStorable,
    Resume,
    RunInProgress,
    ScopeEnded,
    idempotent,
    interrupt,
    observe,
)
from fastdur._invoke import error_text, is_pause
from tests.unit.running import WAIT, Gate, at, attempts, flow, kinds, last, turn

# -- what a node returns -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fn", "state", "output"),
    [
        (lambda state: None, {"n": 1}, {}),
        (lambda state: {"n": 2, "m": 3}, {"n": 2, "m": 3}, {"n": 2, "m": 3}),
        (lambda state: {}, {"n": 1}, {}),
        (lambda state: state.update(m=2), {"n": 1, "m": 2}, {"m": 2}),
        (lambda state: state.update(n=5, m=2) or {"n": 7}, {"n": 7, "m": 2}, {"n": 7, "m": 2}),
        (lambda state: state.pop("n") and None, {}, {}),
        (lambda state: state, {"n": 1}, {"n": 1}),
    ],
)
def test_what_a_node_returns_and_what_it_changes_both_count(store, go, fn, state, output):
    fn.__name__ = "a"
    result = go(flow(store, fn).execute, {"n": 1})
    assert (result.final_state, result.output) == (state, output)


@pytest.mark.parametrize("value", [None, 5, "text", [1], {"x": 1}])
def test_with_an_output_key_whatever_is_returned_is_stored_under_it(store, go, value):
    result = go(flow(store, functools.wraps(last)(lambda state: value), output_key="k").execute, {"n": 1})
    assert (result.final_state, result.output) == ({"n": 1, "k": value}, value)


@pytest.mark.case("S27")
@pytest.mark.parametrize("value", [5, "text", [("n", 1)], (), False])
def test_a_result_that_cannot_be_merged_fails_the_run_at_its_node_without_a_retry(store, go, value):
    seen = []

    def a(state):
        seen.append(1)
        return value if len(seen) == 1 else {"n": 1}

    made = flow(store, a, last, retry=3)
    with pytest.raises(NodeResultError, match="output_key"):
        go(made.execute, execution_id="r")
    assert (seen, kinds(store)) == ([1], [("run_end", "failed")])
    assert go(made.resume, "r").final_state == {"n": 1}


@pytest.mark.case("S35")
def test_a_value_that_cannot_be_stored_fails_the_run_naming_it(store, go):
    def a(state):
        return {"lock": threading.Lock()}

    with pytest.raises(NotStorable, match=r"state\['lock'\]: .*lock"):
        go(flow(store, a).execute, execution_id="r")
    assert kinds(store) == [("run_end", "failed")]


def test_an_input_function_must_return_a_dict(store, go):
    made = Chain("c", store).add_node("b", flow(False, last), input=lambda state: 5)
    with pytest.raises(NodeResultError, match="input= of node 'b' returned int"):
        go(made.execute, execution_id="r")
    assert store.get_last("r").error.startswith("NodeResultError")


def test_an_input_function_makes_what_a_nested_chain_starts_from(store, go):
    def x(state):
        return {"seen": dict(state)}

    made = Chain("c", store).add_node("b", flow(False, x), input=lambda state: {"n": state["n"] + 1}, output_key="k")
    assert go(made.execute, {"n": 1}).final_state == {"n": 1, "k": {"n": 2, "seen": {"n": 2}}}


def test_what_a_route_changes_in_the_state_does_not_count(store, go):
    made = Chain("c", store).add_node("a", last).add_node("b", last)
    made.connect("a", "b", when=lambda state: state.update(n=9) or True)
    assert go(made.execute, {"n": 1}).final_state == {"n": 1}


# -- async functions -----------------------------------------------------------------------------------------------------


async def later(state):
    return {"n": 1}


class Later:
    async def __call__(self, state):
        return {"n": 1}

    async def method(self, state):
        return {"n": 1}


def sneaky(state):
    return later(state)


ASYNC = [later, functools.partial(later), Later(), Later().method, functools.partial(Later().method)]


@pytest.mark.case("S84")
@pytest.mark.parametrize("fn", ASYNC)
def test_an_async_node_is_refused_by_a_sync_call_before_anything_is_stored(store, fn):
    made = Chain("c", store).add_node("a", fn)
    with pytest.raises(NodeIsAsync, match=r"'a'.*aexecute\(\)"):
        made.execute(execution_id="r")
    assert store.get_execution("r") is None


@pytest.mark.parametrize("fn", [*ASYNC, sneaky])
@pytest.mark.parametrize("options", [{}, {"timeout": WAIT}])
def test_an_async_node_is_awaited_by_an_async_call_whatever_it_looks_like(store, fn, options):
    made = Chain("c", store).add_node("a", fn, **options)
    assert asyncio.run(made.aexecute()).final_state == {"n": 1}


def test_an_async_node_is_refused_by_a_sync_resume_before_the_claim(store):
    made = flow(store, later)
    with at("after start", lambda: asyncio.current_task().cancel()), pytest.raises(asyncio.CancelledError):
        asyncio.run(made.aexecute(execution_id="r"))
    before = store.get_execution("r")
    with pytest.raises(NodeIsAsync, match=r"aresume\(\)"):
        made.resume("r")
    assert store.get_execution("r") == before
    assert made.recover()[0].error.args[0].endswith("call arecover() instead.")
    assert [each.result.final_state for each in asyncio.run(made.arecover())] == [{"n": 1}]


def test_a_node_deep_inside_is_named_with_its_place(store):
    made = Chain("c", store).add_node("b", flow(False, later))
    with pytest.raises(NodeIsAsync, match="'b/later'"):
        made.execute()


def test_an_async_input_is_refused_by_a_sync_call_and_awaited_by_an_async_one(store):
    made = Chain("c", store).add_node("b", flow(False, last), input=later)
    with pytest.raises(NodeIsAsync, match="'b'"):
        made.execute()
    assert asyncio.run(made.aexecute()).status == "completed"


def test_a_sync_function_that_returns_a_coroutine_fails_a_sync_run_and_nothing_is_left_unawaited(store):
    made = flow(store, sneaky, retry=3)
    with pytest.raises(NodeIsAsync, match="'sneaky' returned a coroutine"):
        made.execute(execution_id="r")
    assert kinds(store) == [("run_end", "failed")]
    assert asyncio.run(made.aresume("r")).final_state == {"n": 1}


def test_an_awaitable_that_is_no_coroutine_is_awaited_too(store):
    class Soon:
        def __await__(self):
            yield
            return {"n": 3}

    made = Chain("c", store).add_node("a", lambda state: Soon())
    assert asyncio.run(made.aexecute()).final_state == {"n": 3}
    with pytest.raises(NodeIsAsync):
        made.execute()


@pytest.mark.case("S52")
def test_a_sync_call_works_inside_a_running_loop(store):
    async def main():
        return flow(store, last).execute({"n": 1})

    assert asyncio.run(main()).final_state == {"n": 1}


# -- failing -------------------------------------------------------------------------------------------------------------


def test_a_failed_attempt_leaves_no_mark_on_the_state_of_its_retry(store, go):
    seen = []

    def a(state):
        seen.append(list(state["items"]))
        state["items"].append(1)
        state["n"] = 1
        if len(seen) < 3:
            raise ValueError
        return {"tries": len(seen)}

    assert go(flow(store, a, retry=2).execute, {"items": []}).final_state == {"items": [1], "n": 1, "tries": 3}
    assert seen == [[], [], []]


@pytest.mark.case("S23")
def test_the_budget_of_retries_is_whole_again_after_a_resume(store, go):
    tries = []

    def a(state):
        tries.append(1)
        raise ValueError("no")

    made = flow(store, a, retry=1)
    for call in (lambda: go(made.execute, execution_id="r"), lambda: go(made.resume, "r")):
        with pytest.raises(ValueError, match="no"):
            call()
    assert (len(tries), kinds(store)) == (4, [("run_end", "failed")] * 2)


def test_the_exception_of_a_node_is_raised_as_it_is_with_a_note_on_the_way_out(store, go):
    error = ValueError("no")

    def a(state):
        raise error

    with pytest.raises(ValueError, match="no") as raised:
        go(flow(store, a).execute, execution_id="r")
    assert raised.value is error
    assert raised.value.__notes__ == ["Run 'r' failed here and can go on: resume('r') after the cause is mended."]


@dataclass(frozen=True)
class Frozen(Exception):
    code: int


def test_an_exception_that_takes_no_note_is_raised_all_the_same(store, go):
    def a(state):
        raise Frozen(5)

    with pytest.raises(Frozen) as raised:
        go(flow(store, a).execute, execution_id="r")
    assert raised.value.code == 5
    assert kinds(store) == [("run_end", "failed")]


def test_an_exception_that_is_raised_again_and_again_does_not_collect_notes(store, go):
    error = ValueError("no")

    def a(state):
        raise error

    made = flow(store, a)
    for call in (lambda: go(made.execute, execution_id="r"), lambda: go(made.resume, "r")):
        with pytest.raises(ValueError, match="no"):
            call()
    assert len(error.__notes__) == 1


class Mute(Exception):
    def __init__(self, code, detail):
        super().__init__(code, detail)

    def __str__(self):
        raise TypeError("no words")


@pytest.mark.case("S34")
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Mute(1, 2), "Mute: (its text cannot be read)"),
        (ValueError(), "ValueError"),
        (KeyError("k"), "KeyError: 'k'"),
        (ValueError("\ud800\0"), "ValueError: \ud800\0"),
    ],
)
def test_the_reason_of_a_failure_is_stored_as_readable_text_with_its_class(store, go, error, text):
    def a(state):
        raise error

    made = flow(store, a)
    with pytest.raises(type(error)):
        go(made.execute, execution_id="r")
    assert error_text(error) == text
    assert go(made.result, "r").error == text


@pytest.mark.parametrize("options", [{}, {"timeout": WAIT}])
@pytest.mark.parametrize("death", [KeyboardInterrupt, SystemExit])
def test_an_async_node_that_raises_what_ends_a_process_gives_up_the_claim_too(store, death, options):
    async def a(state):
        raise death

    with pytest.raises(death):
        asyncio.run(flow(store, a, **options).aexecute(execution_id="r"))
    head = store.get_execution("r")
    assert (kinds(store), head.status, head.token) == ([], "running", None)


@pytest.mark.parametrize("death", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_a_process_gives_up_the_claim_and_leaves_the_run_where_it_was(store, death):
    broken = [True]

    def a(state):
        if broken:
            raise death
        return {"n": 1}

    made = flow(store, last, a)
    with pytest.raises(death):
        made.execute(execution_id="r")
    assert kinds(store) == [("last", "completed")]
    head = store.get_execution("r")
    assert (head.status, head.token) == ("running", None)
    broken.clear()
    assert made.resume("r").final_state == {"n": 1}


# -- pauses, and what may become of one ----------------------------------------------------------------------------------


def test_a_pause_is_told_by_the_signal_and_nothing_else():
    signal = InterruptSignal("ok?")
    assert is_pause(signal)
    assert is_pause(BaseExceptionGroup("all", [signal, BaseExceptionGroup("inner", [signal])]))
    assert not is_pause(ValueError())
    assert not is_pause(BaseExceptionGroup("all", [signal, ValueError()]))
    assert not is_pause(ExceptionGroup("all", [ValueError()]))


@pytest.mark.case("S16")
def test_except_exception_does_not_catch_a_pause_and_a_finally_may_run(store, go):
    cleaned = []

    def a(state):
        try:
            return {"answer": interrupt("ok?").approved}
        except Exception:
            return {"answer": "eaten"}
        finally:
            cleaned.append(1)

    made = flow(store, a)
    assert go(made.execute, execution_id="r").status == "paused"
    assert go(made.resume, "r", Resume(True)).final_state == {"answer": True}
    assert cleaned == [1, 1]


def swallow_and_return(state):
    with suppress(BaseException):
        interrupt("ok?")
    return {"approved": True}


def swallow_and_raise(state):
    try:
        interrupt("ok?")
    except BaseException as error:
        raise ValueError("mine") from error


def swallow_in_finally(state):
    try:
        interrupt("ok?")
    finally:
        return {"approved": True}  # noqa: B012 - what is to be caught


def swallow_by_hand(state):
    try:
        interrupt("ok?")
    except InterruptSignal:
        return {"approved": True}


@pytest.mark.case("S16")
@pytest.mark.parametrize("node", [swallow_and_return, swallow_and_raise, swallow_in_finally, swallow_by_hand])
def test_a_pause_that_was_swallowed_fails_the_run_and_is_never_an_approval(store, go, node):
    made = flow(store, node, last, retry=3)
    with pytest.raises(InterruptSwallowed, match=r"'ok\?'") as swallowed:
        go(made.execute, execution_id="r")
    assert kinds(store) == [("run_end", "failed")]
    assert store.list_pending_interrupts("r") == []
    assert isinstance(swallowed.value.__cause__, ValueError) == (node is swallow_and_raise)
    assert ("ValueError: mine" in str(swallowed.value)) == (node is swallow_and_raise)


def test_a_signal_raised_by_hand_is_no_pause(store, go):
    def a(state):
        raise InterruptSignal("ok?")

    with pytest.raises(InterruptError, match="by itself"):
        go(flow(store, a).execute, execution_id="r")
    assert kinds(store) == [("run_end", "failed")]


def test_a_second_question_while_the_first_is_being_asked_is_an_error(store, go):
    seen = []

    def a(state):
        try:
            interrupt("first")
        except InterruptSignal:
            with pytest.raises(InterruptError, match=r"'second'.*'first'"):
                interrupt("second")
            seen.append(1)
            raise

    result = go(flow(store, a).execute)
    assert (result.pending_interrupt.reason, seen) == ("first", [1])


async def ask(reason):
    return interrupt(reason).approved


def test_of_questions_asked_side_by_side_one_is_asked_at_a_time(store):
    async def a(state):
        return {"answers": await asyncio.gather(ask("one"), ask("two"))}

    made = flow(store, a)
    assert asyncio.run(made.aexecute(execution_id="r")).pending_interrupt.interrupt_id == "a#1/1"
    assert asyncio.run(made.aresume("r", Resume(True))).pending_interrupt.reason == "two"
    assert asyncio.run(made.aresume("r", Resume(False))).final_state == {"answers": [True, False]}


def test_a_pause_alone_in_a_task_group_pauses(store):
    async def a(state):
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(ask("ok?"))
            group.create_task(asyncio.Event().wait() if not state.get("answered") else turn())
            if state.get("answered"):
                await asked
        return {"answer": asked.result()}

    made = flow(store, a)
    assert asyncio.run(made.aexecute(execution_id="r")).status == "paused"
    assert asyncio.run(made.aresume("r", Resume(True), modified_state={"answered": True})).output == {"answer": True}


def test_a_pause_beside_an_error_in_a_task_group_is_lost_and_fails_the_run_without_a_retry(store):
    runs = []

    async def a(state):
        runs.append(1)
        async with asyncio.TaskGroup() as group:
            group.create_task(ask("ok?"))
            group.create_task(asyncio.to_thread(int, "no number"))
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise ValueError("mine") from None

    made = flow(store, a, retry=3)
    with pytest.raises(InterruptSwallowed, match="lost to ExceptionGroup") as swallowed:
        asyncio.run(made.aexecute(execution_id="r"))
    assert isinstance(swallowed.value.__cause__, ExceptionGroup)
    assert (runs, kinds(store)) == ([1], [("run_end", "failed")])


async def waits_for_a_cancelled_task(state):
    task = asyncio.create_task(asyncio.Event().wait())
    task.cancel()
    await task


async def cancels_itself(state):
    asyncio.current_task().cancel()
    await turn()


async def raises_a_group(state):
    raise BaseExceptionGroup("several", [asyncio.CancelledError(), ValueError("no")])


def runs_a_loop_of_its_own(state):
    asyncio.run(waits_for_a_cancelled_task(state))


@pytest.mark.parametrize(
    "fn",
    [
        waits_for_a_cancelled_task,
        raises_a_group,
        runs_a_loop_of_its_own,
        functools.partial(waits_for_a_cancelled_task),
    ],
)
@pytest.mark.parametrize("timeout", [None, WAIT])
def test_a_node_in_which_something_was_cancelled_fails_after_its_retries_and_the_run_goes_on(store, fn, timeout):
    tries = []

    def count(state):
        tries.append(1)
        return {}

    made = Chain("c", store).add_node("a", count).add_node("b", fn, retry=1, timeout=timeout).connect("a", "b")
    with pytest.raises(NodeCancelled, match="'b'") as failed:
        asyncio.run(made.aexecute(execution_id="r"))
    assert failed.value.__cause__ is not None
    assert kinds(store)[-1] == ("run_end", "failed")
    mended = Chain("c", store).add_node("a", count).add_node("b", lambda _: {"ok": True}).connect("a", "b")
    assert asyncio.run(mended.aresume("r")).final_state == {"ok": True}
    assert tries == [1]


def test_a_node_that_cancels_the_task_it_runs_in_ends_the_call_and_not_the_run(store):
    made = Chain("c", store).add_node("a", cancels_itself, retry=3)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(made.aexecute(execution_id="r"))
    assert (kinds(store), store.get_execution("r").token) == ([], None)


def test_a_sync_node_in_which_something_was_cancelled_fails_a_sync_call_too(store):
    made = Chain("c", store).add_node("b", runs_a_loop_of_its_own)
    with pytest.raises(NodeCancelled, match="'b'"):
        made.execute(execution_id="r")
    assert kinds(store) == [("run_end", "failed")]


def test_a_pause_that_is_lost_to_a_cancellation_is_a_swallowed_one(store):
    async def a(state):
        try:
            interrupt("ok?")
        except InterruptSignal:
            raise asyncio.CancelledError from None

    with pytest.raises(InterruptSwallowed, match="NodeCancelled"):
        asyncio.run(Chain("c", store).add_node("a", a).aexecute())


def test_a_group_that_holds_what_ends_a_process_ends_it(store):
    def a(state):
        try:
            interrupt("ok?")
        except InterruptSignal as pause:
            raise BaseExceptionGroup("all", [pause, KeyboardInterrupt()]) from None

    with pytest.raises(BaseExceptionGroup):
        flow(store, a).execute(execution_id="r")
    assert kinds(store) == []


def test_a_group_of_plain_errors_is_a_failure_that_is_tried_again(store, go):
    tries = []

    def a(state):
        tries.append(1)
        raise ExceptionGroup("all", [ValueError(), TypeError()])

    with pytest.raises(ExceptionGroup):
        go(flow(store, a, retry=1).execute)
    assert len(tries) == 2


def test_a_pause_in_a_task_that_nobody_awaits_is_a_swallowed_one(store):
    async def a(state):
        task = asyncio.ensure_future(ask("ok?"))
        await asyncio.wait((task,))

    with pytest.raises(InterruptSwallowed):
        asyncio.run(flow(store, a).aexecute())


# -- time limits in threads ----------------------------------------------------------------------------------------------

SHORT = 0.005


def test_a_node_within_its_time_returns_fails_and_pauses_as_without_one(store, go):
    def a(state):
        if not interrupt("ok?").approved:
            raise ValueError("no")
        return {"n": 1}

    for run, answer in (("yes", True), ("no", False)):
        made = flow(store, a, timeout=WAIT)
        assert go(made.execute, execution_id=run).status == "paused"
        if answer:
            assert go(made.resume, run, Resume(True)).final_state == {"n": 1}
        else:
            with pytest.raises(ValueError, match="no"):
                go(made.resume, run, Resume(False))


def test_a_thread_that_outlives_its_node_keeps_the_claim_until_it_returns(store, go):
    gate, released = Gate(), threading.Event()

    def a(state):
        gate()
        return {"late": True}

    made = flow(store, a, timeout=SHORT)
    with at("after release", released.set):
        with pytest.raises(NodeTimeout, match=r"'a' ran longer than its timeout of 0\.005 s"):
            made.execute(execution_id="r")
        assert kinds(store) == [("run_end", "failed")]
        for refused in (made.resume, lambda run: go(made.resume, run)):
            with pytest.raises(RunInProgress):
                refused("r")
        assert gate.reached.is_set()
        gate.opened.set()
        assert released.wait(WAIT)
    assert store.get_execution("r").token is None
    longer = flow(store, a, timeout=WAIT)
    assert go(longer.resume, "r").final_state == {"late": True}


def test_a_thread_of_an_async_run_that_outlives_its_node_keeps_the_claim_too(store):
    gate, released = Gate(), threading.Event()

    def a(state):
        gate()

    made = flow(store, a, timeout=SHORT)

    async def main():
        with pytest.raises(NodeTimeout):
            await made.aexecute(execution_id="r")
        with pytest.raises(RunInProgress):
            await made.aresume("r")
        gate.opened.set()

    with at("after release", released.set):
        asyncio.run(main())
        assert released.wait(WAIT)
    assert store.get_execution("r").token is None


def test_a_retry_begins_only_after_the_call_that_timed_out_has_returned_and_owns_the_run_still(store, go):
    gate, log = Gate(), []

    def a(state):
        number = len(log)
        log.append(f"begin {number}")
        if number == 0:
            gate()
            log.append("end 0")
        return {"n": number}

    def let_it_return(boundary):
        if str(boundary) == "before node a (2)":
            boundary.effect.call.timeout = WAIT
            gate.opened.set()

    made = flow(store, a, last, timeout=SHORT, retry=1)
    with observe(let_it_return, store):
        assert go(made.execute, execution_id="r").final_state == {"n": 2}
    assert log == ["begin 0", "end 0", "begin 2"]
    assert kinds(store) == [("a", "completed"), ("last", "completed"), ("run_end", "completed")]


def test_a_call_that_returns_while_the_failure_is_stored_leaves_no_claim_behind(store, go):
    gate, back = Gate(), threading.Event()

    def a(state):
        gate()

    put = store.put

    def put_slowly(*args, **options):
        thread = next(each for each in threading.enumerate() if each.name == "fastdur a#1")
        gate.opened.set()
        stored = put(*args, **options)
        thread.join(WAIT)
        back.set()
        return stored

    store.put = put_slowly
    made = flow(store, a, timeout=SHORT)
    with pytest.raises(NodeTimeout):
        made.execute(execution_id="r")
    assert back.is_set()
    assert store.get_execution("r").token is None


def test_a_call_out_of_time_can_begin_nothing_but_records_what_it_was_doing(store, go):
    gate, released, refused = Gate(), threading.Event(), []

    @idempotent
    def pay():
        gate()
        return "paid"

    def a(state):
        paid = pay()
        try:
            pay()
        except ScopeEnded as error:
            refused.append(error)
        return {"paid": paid}

    made = flow(store, a, timeout=SHORT)
    with at("after release", released.set):
        with pytest.raises(NodeTimeout):
            made.execute(execution_id="r")
        gate.opened.set()
        assert released.wait(WAIT)
    assert (attempts(store), len(refused)) == ([("pay", "done")], 1)
    assert go(flow(store, a, timeout=WAIT).resume, "r").final_state == {"paid": "paid"}


def test_an_interrupted_wait_for_a_node_leaves_it_to_itself(store):
    gate, released = Gate(), threading.Event()

    def a(state):
        if not gate.reached.is_set():
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # wakes a thread that waits, too
        gate()

    made = flow(store, a, timeout=WAIT)
    with at("after release", released.set):
        with pytest.raises(KeyboardInterrupt):
            made.execute(execution_id="r")
        assert store.get_execution("r").token is not None
        with pytest.raises(RunInProgress):
            made.resume("r")
        gate.opened.set()
        assert released.wait(WAIT)
    assert made.resume("r").status == "completed"


# -- time limits on the event loop ---------------------------------------------------------------------------------------


def test_an_async_node_out_of_time_is_cancelled_and_the_run_fails_there(store):
    cleaned = []

    async def a(state):
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(1)

    with pytest.raises(NodeTimeout):
        asyncio.run(flow(store, a, timeout=SHORT, retry=1).aexecute(execution_id="r"))
    assert (cleaned, kinds(store)) == ([1, 1], [("run_end", "failed")])
    assert store.get_execution("r").token is None


def test_an_async_node_that_swallows_the_cancellation_of_its_time_limit_is_out_of_time_all_the_same(store):
    refused = []

    @idempotent
    async def pay():
        return 1

    async def a(state):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            with pytest.raises(ScopeEnded) as error:
                await pay()
            refused.append(error)
            return {"n": 1}

    with pytest.raises(NodeTimeout):
        asyncio.run(flow(store, a, timeout=SHORT).aexecute(execution_id="r"))
    assert (len(refused), kinds(store), attempts(store)) == (1, [("run_end", "failed")], [])


def test_an_async_node_with_a_time_limit_of_its_own_is_no_cancelled_one(store):
    async def a(state):
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            return {"n": 1}

    for options in ({}, {"timeout": WAIT}):
        assert asyncio.run(flow(store, a, **options).aexecute()).final_state == {"n": 1}


def test_a_cancellation_while_a_node_out_of_time_goes_on_is_what_the_call_ends_with(store):
    async def main():
        late = asyncio.Event()

        async def a(state):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                late.set()
            await asyncio.Event().wait()

        task = asyncio.ensure_future(flow(store, a, timeout=SHORT).aexecute(execution_id="r"))
        await late.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert (kinds(store), store.get_execution("r").token) == ([], None)
