"""`interrupt()`: where it may be called, which answer it gets, and what it returns."""

import asyncio
import contextvars
import threading

import pytest

from fastdur import (
    Chain,
    InterruptMismatch,
    InterruptNotAllowed,
    NotStorable,
    PendingInterrupt,
    Resume,
    ScopeEnded,
    SimulatedCrash,
    idempotent,
    interrupt,
)
from tests.unit.running import at, flow, kinds, last, raising


def asks(state):
    answer = interrupt("ok?", {"sum": 5})
    return {
        "approved": answer.approved,
        "metadata": answer.metadata,
        "context": answer.context,
        "id": answer.interrupt_id,
    }


@pytest.mark.case("S10")
@pytest.mark.parametrize("metadata", [{}, None, 0, "", [], {"deep": [{"er": (1, b"x")}]}])
@pytest.mark.parametrize("approved", [True, False])
def test_a_node_gets_exactly_the_answer_and_what_was_shown(store, go, approved, metadata):
    made = flow(store, asks)
    go(made.execute, execution_id="r")
    result = go(made.resume, "r", Resume(approved, metadata))
    assert result.output == {"approved": approved, "metadata": metadata, "context": {"sum": 5}, "id": "asks#1/1"}


@pytest.mark.case("S38")
def test_the_question_that_is_returned_is_the_one_that_is_listed(store, go):
    result = go(flow(store, last, asks).execute, execution_id="r")
    assert list(result.pending_interrupts) == store.list_pending_interrupts() == [result.pending_interrupt]
    pending = result.pending_interrupt
    assert pending == PendingInterrupt("r", "asks#1/1", "c", "asks", "ok?", {"sum": 5}, "chain:c", pending.created_at)


@pytest.mark.case("S51")
def test_a_node_may_ask_several_times_and_each_call_gets_its_own_answer(store, go):
    runs = []

    def a(state):
        runs.append(1)
        return {"answers": [interrupt(f"question {number}").metadata for number in range(3)]}

    made = flow(store, a)
    result = go(made.execute, execution_id="r")
    for number in range(3):
        assert result.pending_interrupt["interrupt_id"] == f"a#1/{number + 1}"
        assert result.pending_interrupt["reason"] == f"question {number}"
        result = go(made.resume, "r", Resume(True, number))
    assert (result.output, len(runs)) == ({"answers": [0, 1, 2]}, 4)


def test_each_visit_of_a_node_asks_for_itself(store, go):
    def a(state):
        return {"answers": [*state.get("answers", []), interrupt("ok?").metadata]}

    made = Chain("c", store).add_node("a", a).add_node("z", last)
    made.connect("a", "a", when=lambda state: len(state["answers"]) < 2, max_iterations=2).connect("a", "z")
    assert go(made.execute, execution_id="r").pending_interrupt.interrupt_id == "a#1/1"
    assert go(made.resume, "r", Resume(True, 1)).pending_interrupt.interrupt_id == "a#2/1"
    assert go(made.resume, "r", Resume(True, 2)).final_state == {"answers": [1, 2]}


@pytest.mark.case("S92")
def test_an_answer_stays_when_the_node_fails_after_it(store, go):
    runs = []

    def a(state):
        answer = interrupt("ok?")
        runs.append(1)
        if len(runs) < 3:
            raise ValueError("network")
        return {"answer": answer.approved}

    made = flow(store, a, retry=1)
    go(made.execute, execution_id="r")
    with pytest.raises(ValueError, match="network"):
        go(made.resume, "r", Resume(True))
    assert go(made.resume, "r").output == {"answer": True}


# -- another question than before ----------------------------------------------------------------------------------------


def changing(**options):
    """A node whose question is another one each time it runs."""
    shown = []

    def a(state):
        shown.append(1)
        reason = f"ok {len(shown)}?" if options.get("reason") else "ok?"
        answer = interrupt(reason, len(shown), **options.get("say", {}))
        return {"context": answer.context}

    return a


def test_another_reason_than_the_one_that_was_answered_is_refused(store, go):
    made = flow(store, changing(reason=True))
    go(made.execute, execution_id="r")
    with pytest.raises(InterruptMismatch, match=r"'a#1/1'.*'ok 1\?'.*'ok 2\?'"):
        go(made.resume, "r", Resume(True))
    assert kinds(store)[-1] == ("run_end", "failed")


@pytest.mark.parametrize("say", [{}, {"on_changed_context": "ignore"}])
def test_a_changed_context_is_noted_and_the_one_that_was_shown_counts(store, go, say):
    made = flow(store, changing(say=say))
    go(made.execute, execution_id="r")
    assert go(made.resume, "r", Resume(True)).output == {"context": 1}
    assert store.list("r")[-2].extra == {"changed_context": ["a#1/1"]}


def test_a_changed_context_is_refused_where_that_is_asked_for(store, go):
    made = flow(store, changing(say={"on_changed_context": "raise"}))
    go(made.execute, execution_id="r")
    with pytest.raises(InterruptMismatch, match="context"):
        go(made.resume, "r", Resume(True))


def test_an_unchanged_context_is_not_noted(store, go):
    made = flow(store, asks)
    go(made.execute, execution_id="r")
    go(made.resume, "r", Resume(True))
    assert store.list("r")[-2].extra == {}


# -- where it cannot be asked --------------------------------------------------------------------------------------------


def test_outside_a_run_nobody_could_answer():
    with pytest.raises(InterruptNotAllowed, match=r"interrupt\('ok\?'\) outside a run"):
        interrupt("ok?")


def place_of(store, place):
    """A chain that asks where it may not."""
    made = Chain("c", store)

    def ask(*_):
        return interrupt("ok?")

    if place == "route":
        return made.add_node("a", last).add_node("b", last).connect("a", "b", when=ask)
    if place == "input":
        return made.add_node("a", flow(False, last), input=ask)
    effect = {"effect": idempotent(ask), "key_fn": idempotent(key_fn=ask)(lambda: 1)}[place]
    return made.add_node("a", lambda state: effect())


@pytest.mark.parametrize(
    ("place", "says"), [("route", "route"), ("input", "input"), ("effect", "@idempotent"), ("key_fn", "key_fn")]
)
def test_where_nobody_could_answer_a_question_is_refused_and_the_run_fails_there(store, go, place, says):
    with pytest.raises(InterruptNotAllowed, match=says):
        go(place_of(store, place).execute, execution_id="r")
    assert kinds(store)[-1] == ("run_end", "failed")
    assert store.list_pending_interrupts() == []


def test_after_the_effect_a_question_may_be_asked(store, go):
    @idempotent(key_fn=lambda: 1)
    def pay():
        return 1

    def a(state):
        return {"paid": pay(), "answer": interrupt("ok?").approved}

    assert go(flow(store, a).execute).status == "paused"


@pytest.mark.parametrize("reason", [None, 5, b"ok?", ["ok?"]])
def test_a_reason_is_text(store, go, reason):
    def a(state):
        interrupt(reason)

    with pytest.raises(TypeError, match="reason"):
        go(flow(store, a).execute)


@pytest.mark.case("S35")
def test_a_context_that_cannot_be_stored_fails_the_run_and_asks_nothing(store, go):
    def a(state):
        interrupt("ok?", {"lock": threading.Lock()})

    with pytest.raises(NotStorable, match=r"context\['lock'\]"):
        go(flow(store, a).execute, execution_id="r")
    assert (kinds(store), store.list_pending_interrupts()) == ([("run_end", "failed")], [])


def test_a_question_of_a_crashed_process_is_refused(store):
    @idempotent
    def pay():
        return 1

    def a(state):
        try:
            pay()
        except SimulatedCrash:
            interrupt("last words")

    with at("before effect pay@a", raising(SimulatedCrash())), pytest.raises(SimulatedCrash):
        flow(store, a).execute(execution_id="r")
    assert kinds(store) == []


def test_a_question_in_a_thread_with_the_scope_pauses_once_it_reaches_the_node(store):
    async def a(state):
        return {"answer": (await asyncio.to_thread(interrupt, "ok?")).approved}

    made = flow(store, a)
    assert asyncio.run(made.aexecute(execution_id="r")).status == "paused"
    assert asyncio.run(made.aresume("r", Resume(True))).output == {"answer": True}


def test_a_question_after_the_end_of_its_node_is_refused(store, go):
    kept = []

    def a(state):
        kept.append(contextvars.copy_context())

    go(flow(store, a).execute)
    with pytest.raises(ScopeEnded, match="'a'"):
        kept[0].run(interrupt, "ok?")
