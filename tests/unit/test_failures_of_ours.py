"""Errors of fastdur in the body of an effect: a failure of its own like any other, but for what the engine does here."""

import threading

import pytest

from fastdur import (
    AlreadyResumed,
    EffectUnknown,
    FastdurError,
    InterruptNotAllowed,
    NodeIsAsync,
    NodeTimeout,
    Resume,
    RunNotFound,
    SimulatedCrash,
    SQLiteCheckpointer,
    StaleRun,
    StoreClosed,
    idempotent,
    interrupt,
    list_unknown,
    resolve_unknown,
    result,
    transaction,
)
from fastdur.boundaries import Inject
from fastdur.errors import NotHappened, StoreUnavailable
from tests.unit.running import WAIT, at, attempts, flow, last, raising

DIE = raising(SimulatedCrash())


def too_slow(store, other):
    held = threading.Event()

    def slow(state):
        assert held.wait(WAIT)

    try:
        flow(store, slow, timeout=0.001, name="slow").execute()
    finally:
        held.set()


def no_run(store, other):
    result("nobody", other)


def closed(store, other):
    other.close()
    other.get_last("r")


def ended(store, other):
    done = flow(store, last, name="done")
    done.execute(execution_id="e")
    done.resume("e")


def not_sync(store, other):
    async def later(state):
        """Nothing."""

    flow(store, later).execute()


def a_result(store, other):
    return threading.Lock()


OURS = {
    too_slow: NodeTimeout,
    no_run: RunNotFound,
    closed: StoreClosed,
    ended: AlreadyResumed,
    not_sync: NodeIsAsync,
    raising(StoreUnavailable("another store")): StoreUnavailable,
    raising(StaleRun("another run")): StaleRun,
}


@pytest.fixture
def other():
    store = SQLiteCheckpointer(":memory:")
    yield store
    store.close()


@pytest.mark.parametrize(("body", "kind"), OURS.items())
def test_an_error_of_fastdur_that_a_body_raises_is_its_failure_and_comes_back_as_itself(store, go, other, body, kind):
    calls, caught = [], []

    @idempotent(name="pay")
    def pay():
        calls.append(1)
        body(store, other)

    def a(state):
        with pytest.raises(kind) as raised:
            pay()
        caught.append(raised.value)
        return {"ok": interrupt("ok?").approved}

    made = flow(store, a)
    go(made.execute, execution_id="r")
    assert attempts(store) == [("pay", "failed")]
    assert go(made.resume, "r", Resume(True)).output == {"ok": True}
    assert len(calls) == 1
    assert [type(error) for error in caught] == [type(caught[0])] * 2
    assert str(caught[0]) == str(caught[1])
    assert getattr(caught[1], "result", None) is None


@pytest.mark.parametrize("body", [raising(NodeTimeout("late")), no_run, a_result])
def test_so_it_is_of_a_transactional_one(store, go, other, body):
    calls, caught = [], []

    @idempotent(name="pay", transactional=True)
    def pay():
        calls.append(1)
        transaction()
        return body(store, other)

    def a(state):
        with pytest.raises(FastdurError) as raised:
            pay()
        caught.append(type(raised.value))
        return {"ok": interrupt("ok?").approved}

    made = flow(store, a)
    go(made.execute, execution_id="r")
    assert attempts(store) == [("pay", "failed")]
    assert go(made.resume, "r", Resume(True)).output == {"ok": True}
    assert (len(calls), caught) == (1, [caught[0]] * 2)


@pytest.mark.parametrize("policy", ["raise", lambda key: NotHappened])
def test_under_another_policy_it_leaves_the_effect_unknown_with_its_text(store, go, policy):
    @idempotent(name="pay", on_unknown=policy)
    def pay():
        raise RunNotFound("nobody")

    def a(state):
        pay()

    with pytest.raises(RunNotFound):
        go(flow(store, a).execute, execution_id="r")
    assert attempts(store) == [("pay", "unknown")]
    assert [each.error for each in list_unknown("r", store)] == ["RunNotFound: nobody"]


def test_an_effect_in_it_that_is_unknown_is_no_failure_of_its_own(store, go):
    calls = []

    @idempotent(name="inner", on_unknown="raise")
    def inner():
        calls.append("inner")

    @idempotent(name="outer")
    def outer():
        calls.append("outer")
        inner()

    def a(state):
        outer()
        return {"paid": True}

    made = flow(store, a)
    with at("before effect end inner@a", DIE), pytest.raises(SimulatedCrash):
        go(made.execute, execution_id="r")
    with pytest.raises(EffectUnknown), at("after effect begin outer@a", lambda: None):
        go(made.resume, "r")
    assert attempts(store) == [("outer", "started"), ("inner", "started")]
    (unknown,) = [each for each in list_unknown("r", store) if each.name == "inner"]
    resolve_unknown("r", unknown.key, NotHappened, store)
    assert go(made.resume, "r").output == {"paid": True}
    assert calls == ["outer", "inner", "outer", "outer", "inner"]


def test_a_question_in_it_is_no_failure_of_its_own_and_fails_the_run_whoever_catches_it(store):
    @idempotent(name="pay")
    def pay():
        interrupt("may I?")

    def a(state):
        with pytest.raises(InterruptNotAllowed):
            pay()

    made = flow(store, a)
    for again in (lambda: made.execute(execution_id="r"), lambda: made.resume("r")):
        with pytest.raises(InterruptNotAllowed):
            again()
    assert attempts(store) == [("pay", "started")]


@pytest.mark.parametrize("kind", [StaleRun, StoreUnavailable])
def test_what_its_own_run_is_fenced_or_refused_with_is_no_failure_of_its_own(store, go, kind):
    @idempotent(name="inner")
    def inner():
        """Nothing."""

    @idempotent(name="outer")
    def outer():
        try:
            inner()
        except kind as error:
            raise kind("again") from error

    def a(state):
        outer()
        return {"paid": True}

    made = flow(store, a)
    with at("before effect begin inner@a", raising(Inject(kind("now")))), pytest.raises(kind):
        go(made.execute, execution_id="r")
    assert attempts(store) == [("outer", "started")]
    assert go(made.resume, "r").output == {"paid": True}


def test_the_end_of_its_node_is_no_failure_of_its_own(store):
    held, gone, began = threading.Event(), threading.Event(), []

    @idempotent(name="inner")
    def inner():
        """Nothing."""

    @idempotent(name="outer")
    def outer():
        if not began:
            began.append(1)
            assert held.wait(WAIT)
        inner()

    def a(state):
        try:
            outer()
        finally:
            gone.set()

    made = flow(store, a, timeout=0.05)
    with pytest.raises(NodeTimeout):
        made.execute(execution_id="r")
    held.set()
    assert gone.wait(WAIT)
    assert attempts(store) == [("outer", "started")]
