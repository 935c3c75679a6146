"""Failures that an effect has recorded in a try of its node that was given up are met by nobody again."""

import threading

import pytest

from fastdur import NodeTimeout, Resume, SimulatedCrash, idempotent, interrupt
from fastdur._memory import Memory
from tests.unit.running import WAIT, at, attempts, flow, last, raising

DIE = raising(SimulatedCrash())


class Busy(Exception):
    """Some provider is busy."""


class World:
    """Providers that are busy at the first calls, and what was asked of them."""

    def __init__(self, **busy):
        self.busy, self.told = busy, []

    def effect(self, name, **options):
        @idempotent(name=name, raises=Busy, **options)
        def pay():
            self.told.append(name)
            if self.told.count(name) <= self.busy.get(name, 0):
                raise Busy(name)
            return name

        return pay


@pytest.fixture(params=[False, True])
def options(request):
    return {"transactional": request.param}


def tried(pay):
    try:
        return pay()
    except Busy:
        return None


def test_a_replay_of_a_retry_meets_no_failure_of_the_try_before_it(store, go, options):
    world = World(first=1, second=1)
    first, second = (world.effect(name, **options) for name in ("first", "second"))

    def a(state):
        one = tried(first)
        try:
            return {"paid": (one, second())}
        except Busy:
            if one is not None:
                return {"paid": (one, None)}
            raise

    made = flow(store, a, retry=1)
    # The retry has paid the first and dies before it has asked the second, which failed in the try before.
    name = "after effect transaction first@a (2)" if options["transactional"] else "after effect end first@a (2)"
    with at(name, DIE), pytest.raises(SimulatedCrash):
        go(made.execute, execution_id="r")
    assert go(made.resume, "r").output == {"paid": ("first", "second")}
    assert world.told == ["first", "second", "first", "second"]


def test_a_failure_of_the_retry_itself_is_met_again_in_any_later_lifetime(store, go, options):
    world = World(first=9, second=1)
    first, second = (world.effect(name, **options) for name in ("first", "second"))
    lives = []

    def a(state):
        lives.append(tried(first))
        if len(lives) == 1:
            raise ValueError
        return {"paid": [tried(first), tried(second), interrupt("ok?").approved, interrupt("sure?").approved]}

    made = flow(store, a, retry=1)
    go(made.execute, execution_id="r")
    assert world.told == ["first", "first", "first", "second"]
    go(made.resume, "r", Resume(True))
    assert go(made.resume, "r", Resume(True)).output == {"paid": [None, None, True, True]}
    assert world.told == ["first", "first", "first", "second"]


def test_a_retry_that_pauses_before_it_has_begun_an_effect_leaves_the_failures_before_it_behind(store, go, options):
    world, up = World(pay=1), [True, False]
    pay = world.effect("pay", **options)

    def a(state):
        if up and not up.pop(0):
            interrupt("the provider is down; go on?")
        paid = tried(pay)
        if up:
            raise ValueError
        return {"paid": paid}

    made = flow(store, a, retry=1)
    assert go(made.execute, execution_id="r").status == "paused"
    assert attempts(store) == [("pay", "failed")]
    assert go(made.resume, "r", Resume(True)).output == {"paid": "pay"}
    assert world.told == ["pay", "pay"]


def test_so_does_a_retry_in_a_later_lifetime(store, go):
    world, tries = World(pay=1), []
    pay = world.effect("pay")

    def a(state):
        tries.append(1)
        early = tried(pay) if len(tries) <= 2 else "not asked"
        interrupt("ok?")
        if len(tries) == 2:
            raise ValueError
        interrupt("sure?")
        return {"paid": [early, tried(pay)]}

    made = flow(store, a, retry=1)
    go(made.execute, execution_id="r")
    assert go(made.resume, "r", Resume(True)).pending_interrupt.reason == "sure?"
    assert world.told == ["pay"]
    assert go(made.resume, "r", Resume(True)).output == {"paid": ["not asked", "pay"]}
    assert world.told == ["pay", "pay"]


def test_a_retry_without_failures_before_it_pauses_as_any(store, go):
    tries = []

    def a(state):
        tries.append(1)
        if len(tries) == 1:
            raise ValueError
        return {"ok": interrupt("ok?").approved}

    made = flow(store, a, retry=1)
    go(made.execute, execution_id="r")
    assert store.list_idempotent("r") == []
    assert go(made.resume, "r", Resume(True)).output == {"ok": True}


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_thread_that_has_outlived_its_node_leaves_no_failure_behind_whenever_it_fails(store, when):
    """Before or after the end marker; in between is the next test."""
    held, calls, caught = threading.Event(), [], []

    @idempotent(name="pay", raises=Busy)
    def pay():
        calls.append(1)
        if len(calls) == 1:
            assert held.wait(WAIT)
            raise Busy
        return len(calls)

    def a(state):
        try:
            return {"paid": pay()}
        except Busy as error:
            caught.append(error)
            return {"paid": None}

    made = flow(store, a, timeout=0.05)
    ended = threading.Event()
    fail = at(f"{when} append run_end", lambda: [held.set(), ended.wait(WAIT)])
    with at("after effect end pay@a", ended.set), fail, pytest.raises(NodeTimeout):
        made.execute(execution_id="r")
    made.chain = None
    assert [status for _, status in attempts(store)] in ([], ["failed"])
    again = flow(store, a)
    assert again.resume("r", accept_graph=True).output == {"paid": 2}


def test_a_failure_that_is_being_written_when_its_visit_fails_is_waited_for():
    memory, order = Memory(), []
    with memory.failing("a#1") as belongs:
        assert belongs
        waiting = threading.Thread(target=lambda: [memory.end("a#1"), order.append("ended")])
        waiting.start()
        with memory.failing("b#1") as other:
            assert other
        order.append("written")
    waiting.join(WAIT)
    assert order == ["written", "ended"]
    with memory.failing("a#1") as belongs:
        assert not belongs
    assert last({}) is None
