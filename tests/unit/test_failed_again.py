"""An effect that fails several times in one visit: a replay goes the same way, failure by failure."""

from contextlib import suppress
from itertools import pairwise

import pytest

from fastdur import (
    IdempotencyMismatch,
    Resume,
    SimulatedCrash,
    effect_key,
    idempotent,
    interrupt,
    list_unknown,
    observe,
    resolve_unknown,
)
from fastdur.errors import NotHappened
from tests.unit.books import Books
from tests.unit.running import at, attempts, flow, raising

DIE = raising(SimulatedCrash())


class World:
    """A provider that is busy a number of times; it is told the key of each call."""

    def __init__(self, busy):
        self.busy, self.told = busy, []

    def effect(self, **options):
        @idempotent(name="pay", raises=TimeoutError, **options)
        def pay():
            self.told.append(effect_key())
            if len(self.told) <= self.busy:
                raise TimeoutError(f"busy {len(self.told)}")
            return len(self.told)

        return pay


def stubborn(pay, tries):
    """A node that tries several times and says which way it has gone."""

    def a(state):
        seen = []
        for _ in range(tries):
            try:
                return {"seen": seen, "paid": pay()}
            except TimeoutError as error:
                seen.append(str(error))
        return {"seen": seen, "paid": None}

    return a


def pausing(node):
    def a(state):
        return {**node(state), "ok": interrupt("ok?").approved}

    return a


@pytest.fixture(params=[False, True])
def options(request):
    return {"transactional": request.param}


def test_a_node_that_gave_up_gives_up_again_after_a_pause(store, go, options):
    world = World(busy=3)
    made = flow(store, pausing(stubborn(world.effect(**options), tries=3)))
    go(made.execute, execution_id="r")
    assert go(made.resume, "r", Resume(True)).output == {
        "seen": ["busy 1", "busy 2", "busy 3"],
        "paid": None,
        "ok": True,
    }
    assert len(world.told) == 3
    assert len(set(world.told)) == 1


def test_a_node_that_was_lucky_in_the_end_meets_the_same_failures_before(store, go, options):
    world = World(busy=2)
    made = flow(store, pausing(stubborn(world.effect(**options), tries=5)))
    go(made.execute, execution_id="r")
    ended = go(made.resume, "r", Resume(True))
    assert ended.output == {"seen": ["busy 1", "busy 2"], "paid": 3, "ok": True}
    assert attempts(store) == [("pay", "failed"), ("pay", "failed"), ("pay", "done")]
    assert len(world.told) == 3


def healed(store, made, go, run_id):
    """What the run returns in the end, None where it had not begun."""
    head = store.get_execution(run_id)
    if head is None:
        return None
    if head.status == "running":
        go(made.resume, run_id)
    return go(made.resume, run_id, Resume(True)).output


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("busy", [2, 4])
def test_after_a_crash_at_any_boundary_the_node_meets_again_what_it_has_met(store, go, options, when, busy):
    def run(run_id, die=None):
        """The boundaries, what the node met in each lifetime, what it returned, and what the provider was told."""
        world, names, lives = World(busy), [], []
        pay = world.effect(**options)

        def a(state):
            lives.append([])
            for _ in range(3):
                try:
                    return {"paid": pay(), "ok": interrupt("ok?").approved}
                except TimeoutError as error:
                    lives[-1].append(str(error))
            return {"paid": None, "ok": interrupt("ok?").approved}

        def look(boundary):
            names.append(str(boundary))
            if die is not None and len(names) == die:
                raise SimulatedCrash

        made = flow(store, a)
        with observe(look), suppress(SimulatedCrash):
            go(made.execute, execution_id=run_id)
        return names, lives, healed(store, made, go, run_id), world.told

    names, lives, output, _ = run("whole")
    assert lives == [[f"busy {n}" for n in range(1, min(busy, 3) + 1)]] * 2
    assert output == {"paid": 3 if busy == 2 else None, "ok": True}
    for die in [n for n, name in enumerate(names, 1) if name.startswith(f"{when} ")]:
        _, lives, output, told = run(f"{when} {die}", die)
        for before, after in pairwise(lives):
            assert after[: len(before)] == before, names[die - 1]
        assert output is None or output["ok"]
        assert len(set(told)) <= 1


def test_a_retry_begins_to_count_anew_and_what_is_left_of_the_attempt_before_is_not_met(store, go):
    world = World(busy=3)
    pay = world.effect()
    entered, seen = [], []

    def a(state):
        entered.append(1)
        for _ in range(2 if len(entered) == 1 else 1):
            try:
                pay()
            except TimeoutError as error:
                seen.append(str(error))
        if len(entered) == 1:
            raise ValueError
        ok = interrupt("ok?").approved
        return {"ok": ok, "paid": pay()}

    made = flow(store, a, retry=1)
    go(made.execute, execution_id="r")
    assert go(made.resume, "r", Resume(True)).output == {"ok": True, "paid": 4}
    assert seen == ["busy 1", "busy 2", "busy 3", "busy 3"]
    assert attempts(store) == [("pay", "failed"), ("pay", "done")]


def test_what_is_unknown_after_failures_is_settled_under_its_own_record(store, go):
    told = []

    @idempotent(name="pay", on_unknown="raise")
    def pay():
        told.append(effect_key())
        if len(told) < 3:
            raise NotHappened
        return len(told)

    def a(state):
        for _ in range(3):
            try:
                return {"paid": pay()}
            except NotHappened:
                continue
        return None

    made = flow(store, a)
    with at("after effect pay@a (3)", DIE), pytest.raises(SimulatedCrash):
        go(made.execute, execution_id="r")
    (unknown,) = list_unknown("r", store)
    assert unknown.key.endswith("/3")
    assert [unknown.effect_key] * 3 == told
    resolve_unknown("r", unknown.key, NotHappened, store)
    assert list_unknown("r", store) == []
    assert go(made.resume, "r").output == {"paid": 4}
    assert set(told) == {unknown.effect_key}


def test_what_is_unknown_is_settled_by_a_call_that_comes_another_way(store, go):
    """The retry counts anew, and would leave the record of the second call behind, which nobody could explain."""
    told, lives = [], []

    @idempotent(name="pay", raises=TimeoutError)
    def pay():
        told.append(1)
        if len(told) <= 2:
            raise [TimeoutError, KeyboardInterrupt][len(told) - 1]
        return len(told)

    def a(state):
        lives.append(1)
        try:
            return {"paid": pay()}
        except TimeoutError:
            if len(lives) == 1:
                return {"paid": pay()}
            raise

    made = flow(store, a, retry=1)
    with pytest.raises(KeyboardInterrupt):
        go(made.execute, execution_id="r")
    assert len(list_unknown("r", store)) == 1
    assert go(made.resume, "r").output == {"paid": 3}
    assert (list_unknown("r", store), len(lives)) == ([], 3)


def test_the_next_visit_has_no_part_in_the_failures_of_this_one(store, go):
    world = World(busy=2)
    pay = world.effect()
    made = flow(store, stubborn(pay, tries=2), name="c")

    def b(state):
        return {"second": pay()}

    made.add_node("b", b).connect("a", "b")
    with at("before append b", DIE), pytest.raises(SimulatedCrash):
        go(made.execute, execution_id="r")
    assert go(made.resume, "r").output == {"second": 3}
    assert attempts(store) == [("pay", "failed"), ("pay", "failed"), ("pay", "done")]


@pytest.mark.parametrize("policy", ["rerun", "raise", lambda key, *_: NotHappened])
def test_one_key_for_two_calls_is_noticed_while_the_first_is_unknown(store, go, policy):
    @idempotent(name="pay", key_fn=lambda amount: "one", on_unknown=policy)
    def pay(amount):
        return amount

    def a(state):
        return {"paid": pay(state["amount"])}

    made = flow(store, a)
    with at("after effect pay@a", DIE), pytest.raises(SimulatedCrash):
        go(made.execute, {"amount": 5}, execution_id="r")
    with pytest.raises(IdempotencyMismatch, match=r"pay\(\)"):
        go(made.resume, "r", modified_state={"amount": 6})
    assert [record.status for record in store.list_idempotent("r")] == ["started"]


def test_on_postgres_too(postgres_checkpointer):
    books = Books(postgres_checkpointer)
    world = World(busy=2)
    made = flow(books.store, pausing(stubborn(world.effect(transactional=True), tries=5)))
    made.execute(execution_id="r")
    assert made.resume("r", Resume(True)).output == {"seen": ["busy 1", "busy 2"], "paid": 3, "ok": True}
    assert len(world.told) == 3
