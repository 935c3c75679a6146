"""An effect that is recorded is not run again; what is not a result is never taken for one."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from fastdur import Chain, Resume, SimulatedCrash, idempotent, observe, run_context
from tests.cases._server import attempt
from tests.cases.conftest import RUN, Here

YES = Resume(approved=True, metadata={"by": "ada"})


@pytest.mark.case("S14")
@pytest.mark.parametrize("story", ["three", "asking", "two_levels", "four_rounds", "fanned"])
@pytest.mark.parametrize("args", [(), (YES,)])
def test_a_completed_run_is_not_resumed(play, story, args):
    """Wrong: running it once more from its last node, or storing a claim or a row for the refusal."""
    play.start(story)
    if story == "asking":
        play.resume(YES)
    before, marks = play.dump(), play.marks
    came = play.resume(*args)
    assert came.error == "AlreadyResumed"
    assert (play.dump(), play.marks) == (before, marks)


@idempotent
def pay(amount, currency="EUR"):
    run_context().append((amount, currency))
    return [amount, currency]


@idempotent
async def apay(amount, currency="EUR"):
    run_context().append((amount, currency))
    return [amount, currency]


@dataclass
class Account:
    """An object with a state, of which one method is an effect."""

    number: int

    @idempotent
    def charge(self):
        run_context().append(self.number)
        return self.number


class Plain:
    @idempotent
    def charge(self):
        run_context().append(self)


def named(module, qualname):
    """An effect of a made-up module."""

    def effect(amount):
        run_context().append((module, amount))
        return f"{module} {amount}"

    effect.__module__, effect.__qualname__ = module, qualname
    return idempotent(effect)


@idempotent(key_fn=lambda order, amount: order)
def by_order(order, amount):
    run_context().append(amount)
    return amount


def in_two_lifetimes(here, effects):
    """What a node gets from its effects, and what has run: in a process that dies before the node's row, and in the
    next one."""
    got, ran = [], []

    def plain(_state):
        got.append(effects())

    async def awaited(_state):
        found = effects()
        got.append(await found if hasattr(found, "__await__") else found)

    def die(boundary):
        if str(boundary) == "before append n":
            raise SimulatedCrash

    for lifetime in range(2):
        here.chain = Chain("n", checkpointer=here.store).add_node("n", awaited if here.flavour == "async" else plain)
        ran.append([])
        if lifetime == 0:
            with observe(die), pytest.raises(SimulatedCrash):
                here("execute", {}, RUN, context=ran[0])
        else:
            assert here("resume", RUN, context=ran[1]).status == "completed"
    assert got[0] == got[1], "a replay gives what the first call gave"
    assert ran[1] == [], "what is recorded does not run"
    return got[0], ran[0]


def refused(here, effects):
    """The error of a node with these effects, and what has run."""
    ran = []
    here.chain = Chain("n", checkpointer=here.store).add_node("n", lambda _: effects() and None)
    came = attempt(here.chain, "execute", here.flavour, {}, RUN, context=ran)
    assert came.error is not None
    return came, ran


@pytest.mark.case("S17")
def test_two_functions_of_one_name_in_two_modules_are_two_effects(here):
    """Wrong: a key of the bare name, under which the second is answered with the record of the first."""
    got, ran = in_two_lifetimes(here, lambda: [named("one", "f")(1), named("two", "f")(1)])
    assert got == ["one 1", "two 1"]
    assert ran == [("one", 1), ("two", 1)]


@pytest.mark.case("S17")
def test_two_functions_of_one_module_and_name_are_refused(here):
    """Wrong: two functions that share one key."""
    first, second = named("one", "f"), named("one", "f")
    chain = Chain("c", checkpointer=here.store).add_node("a", lambda _: first(1) and None)
    chain.add_node("b", lambda _: second(1) and None).connect("a", "b")
    ran = []
    came = attempt(chain, "execute", here.flavour, {}, RUN, context=ran)
    assert (came.error, "name=" in came.text) == ("IdempotencyError", True)
    assert ran == [("one", 1)]


@pytest.mark.case("S17")
def test_a_method_of_two_objects_with_different_states_is_two_effects(here):
    """Wrong: a key without `self`, or with its address."""
    got, ran = in_two_lifetimes(here, lambda: [Account(1).charge(), Account(2).charge(), Account(1).charge()])
    assert got == [1, 2, 1]
    assert ran == [1, 2]


@pytest.mark.case("S17")
def test_a_method_of_an_object_without_a_storable_form_is_refused_at_the_call(here):
    """Wrong: an address in the key, so that no replay ever finds its record."""
    came, ran = refused(here, lambda: Plain().charge())
    assert (came.error, "key_fn" in came.text) == ("IdempotencyError", True)
    assert ran == []


@pytest.mark.case("S17")
def test_one_1_0_true_and_the_text_1_are_four_effects(here):
    """Wrong: keys that compare with ==, or of str()."""
    got, ran = in_two_lifetimes(here, lambda: [pay(1), pay(1.0), pay(True), pay("1")])
    assert [repr(amount) for amount, _ in got] == ["1", "1.0", "True", "'1'"]
    assert len(ran) == 4


@pytest.mark.case("S17")
def test_one_call_written_in_several_ways_is_one_effect(here):
    """Wrong: a key of *args and **kwargs as they were written."""
    ways = lambda: [pay(5), pay(amount=5), pay(5, "EUR"), pay(currency="EUR", amount=5)]  # noqa: E731
    got, ran = in_two_lifetimes(here, ways)
    assert got == [[5, "EUR"]] * 4
    assert ran == [(5, "EUR")]


@pytest.mark.case("S17")
def test_an_async_effect_is_awaited_and_its_value_recorded(store, tmp_path):
    """Wrong: recording the coroutine, or the task."""

    async def ways():
        return [await apay(5), await apay(amount=5), await apay(5.0)]

    got, ran = in_two_lifetimes(Here(store, tmp_path, "async"), ways)
    assert got == [[5, "EUR"], [5, "EUR"], [5.0, "EUR"]]
    assert len(ran) == 2


@pytest.mark.case("S18")
def test_an_effect_that_raised_runs_again_after_the_cause_is_mended_and_then_never_more(play):
    """Wrong: the exception is stored as the result, or the success of the second try is not."""
    play.world.shatter("pay b")
    assert play.start("three").error == "Broken"
    assert play.read("list_idempotent", RUN) == []
    play.world.mend("pay b")
    play.resume(die="before append b")
    (record,) = play.read("list_idempotent", RUN)
    assert (record.status, record.result) == ("done", "paid b")
    assert play.resume().status == "completed"
    assert play.marks == ["a", "b", "b", "pay b", "b", "c"]


@pytest.mark.case("S18")
def test_an_effect_that_raised_before_a_crash_fails_the_node_again_and_runs_after_the_failed_ending(play):
    """Wrong: a replay of the same visit that meets another outcome than the first time; or a failure for ever."""
    play.world.shatter("pay b")
    play.start("three", die="before append run_end")
    play.world.mend("pay b")
    replayed = play.resume()
    assert (replayed.error, "Broken" in replayed.text) == ("EffectFailed", True)
    assert play.world.count("pay b") == 0
    assert play.resume().status == "completed"
    assert play.world.count("pay b") == 1


@pytest.mark.case("S19")
def test_one_key_for_two_calls_is_refused_and_the_second_neither_runs_nor_gets_the_first_result(here):
    """Wrong: the second payment is answered with the first one's receipt."""
    got = []
    came, ran = refused(here, lambda: got.append(by_order("A-1", 10)) or got.append(by_order("A-1", 20)))
    assert came.error == "IdempotencyMismatch"
    assert (store_key := here.store.list_idempotent(RUN)[0].key)[:12] in came.text, store_key
    assert "by_order" in came.text
    assert (got, ran) == ([10], [10])


@pytest.mark.case("S19")
def test_one_key_for_two_calls_is_refused_in_the_next_process_too(here):
    """Wrong: comparing the arguments only within one lifetime."""
    amounts = iter([10, 20])
    seen = []

    def node(_state):
        seen.append(by_order("A-1", next(amounts)))

    def die(boundary):
        if str(boundary) == "before append n":
            raise SimulatedCrash

    chain = Chain("n", checkpointer=here.store).add_node("n", node)
    ran = []
    with observe(die), pytest.raises(SimulatedCrash):
        chain.execute({}, RUN, context=ran)
    assert attempt(chain, "resume", here.flavour, RUN, context=ran).error == "IdempotencyMismatch"
    assert (seen, ran) == ([10], [10])
