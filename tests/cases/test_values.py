"""A value comes back as it was stored, or is refused by name when it is written."""

from __future__ import annotations

import math
import threading
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from fastdur import (
    Chain,
    NotStorable,
    Resume,
    SimulatedCrash,
    _registry,
    decide,
    idempotent,
    interrupt,
    result,
    storable,
)
from tests.cases import _values
from tests.cases.conftest import RUN

YES = Resume(approved=True)
MODULE = _values.__name__


@pytest.mark.case("S32")
def test_enums_come_back_in_another_process_as_the_members_they_were(play):
    """Wrong: a StrEnum that comes back as its text, an IntEnum as its number, a nested class as None."""
    play.module = MODULE
    play.start("kept", die="after append put")
    done = play.resume()
    assert done.final_state["equal"] == dict.fromkeys(_values.KEPT, True)
    assert done.final_state["types"] == ["Order.State", "Colour", "Level"]
    assert done.final_state["members"] is True


@pytest.mark.case("S32")
@pytest.mark.case("S35")
@pytest.mark.parametrize("name", _values.REFUSED)
def test_a_value_that_cannot_be_kept_fails_the_node_by_name_and_the_run_goes_on_after_a_fix(play, name):
    """Wrong: str() or None in its place, an error without the key, a run that hangs or cannot be resumed."""
    play.module = MODULE
    play.world.shatter("value")
    came = play.start(f"no_good_{name}")
    assert (came.error, "TypeError" in came.bases) == ("NotStorable", True)
    assert "state['bad']" in came.text
    assert type(_values.REFUSED[name]).__name__ in came.text or name == "deep"
    assert [(row.node_id, row.status) for row in play.rows()] == [("run_end", "failed")]
    assert play.marks == ["put"]
    play.world.mend("value")
    assert play.resume().final_state["path"] == ["put", "look"]


@pytest.mark.case("S34")
def test_a_run_that_failed_with_a_class_nobody_else_knows_is_read_listed_and_resumed(play):
    """Wrong: pickled exceptions, or a class that is imported by its stored name."""
    play.module = MODULE
    play.world.shatter("value")
    assert play.start("odd_error").error == "Odd"
    found = play("result", RUN).result
    assert (found.status, found.error) == ("failed", "Odd: 7: no funds")
    assert found.history[-1].extra["error_type"] == "Odd"
    assert [head.status for head in play.read("list_executions", unfinished=True)] == ["failed"]
    play.world.mend("value")
    assert play.resume().status == "completed"


@pytest.mark.case("S35")
def test_a_question_whose_context_cannot_be_kept_leaves_no_half_pause(play):
    """Wrong: the interrupted row without its pending row, or the reverse."""
    play.module = MODULE
    play.world.shatter("context")
    came = play.start("bad_context")
    assert (came.error, "context['shown']['lock']" in came.text, "lock" in came.text) == ("NotStorable", True, True)
    assert play.pending() == []
    assert [(row.step_type, row.status) for row in play.rows()] == [("run_end", "failed")]
    play.world.mend("context")
    assert play.resume().status == "paused"
    assert play.resume(YES).final_state["path"] == ["after"]


@pytest.mark.case("S35")
def test_an_answer_that_holds_an_object_is_refused_and_the_question_stays(here):
    """Wrong: the object's repr as the decision, or a question that is gone."""
    here.build("asking")
    here("execute", {}, RUN)
    before = here.dump()
    for bad in (object(), threading.Lock(), (n for n in range(2)), [{"k": object()}]):
        with pytest.raises(TypeError, match="metadata"):
            here("resume", RUN, Resume(approved=True, metadata={"x": bad}))
        with pytest.raises(TypeError, match="metadata"):
            here("decide", RUN, Resume(approved=True, metadata={"x": bad}))
    assert here.dump() == before
    assert here("resume", RUN, YES).status == "completed"


@pytest.mark.case("S37")
@pytest.mark.parametrize("approved", [True, False])
@pytest.mark.parametrize(
    "metadata",
    [{}, None, 0, 0.0, -0.0, "", [], (), False, b"", {"k": None}, {"k": {}}, {0: ""}, datetime(2024, 1, 1, tzinfo=UTC)],
    ids=repr,
)
def test_a_decision_comes_back_as_it_was_given_however_empty(play, approved, metadata):
    """Wrong: `if metadata:` and `or {}`, which turn one empty thing into another."""
    play.start("asking")
    done = play.resume(Resume(approved, metadata))
    assert done.status == "completed"
    ((said, kept),) = done.final_state["b said"]
    assert (said, kept, type(kept)) == (approved, metadata, type(metadata))
    assert not isinstance(metadata, float) or math.copysign(1, kept) == math.copysign(1, metadata)
    assert repr(kept) == repr(metadata)


@pytest.mark.case("S37")
def test_a_decision_without_metadata_says_so(play):
    play.start("asking")
    assert play.resume(Resume(approved=False)).final_state["b said"] == [[False, {}]]


@pytest.mark.case("S38")
@pytest.mark.parametrize("story", ["asking", "child_asks_twice"])
def test_the_question_that_a_run_returns_is_the_one_that_another_process_lists(play, story):
    """Wrong: an object of another class, with a live context here and a stored one there, or other ids."""
    paused = play.start(story)
    (listed,) = play.pending()
    (of_all,) = play.pending(None)
    assert paused.pending_interrupt == listed == of_all == paused.pending_interrupts[0]
    assert type(paused.pending_interrupt) is type(listed)
    assert dict(listed) == dict(paused.pending_interrupt)
    assert listed["reason"] == listed.reason
    assert play("result", RUN).pending_interrupts == (listed,)
    again = play.resume(YES)
    if story == "child_asks_twice":
        assert again.pending_interrupt == play.pending()[0] != listed


@storable(name="shop.Order")
@dataclass
class Order:
    """An order that some processes know."""

    id: int


@pytest.mark.case("S32")
def test_a_value_nobody_here_knows_hides_no_question_and_no_run(store):
    """Wrong: one context of a class that this process has not registered makes every list of questions raise."""

    for name, context, reason in (("plain", 1, "fine?"), ("odd", Order(7), "ok?")):
        chain = Chain(name, checkpointer=store).add_node("ask", lambda state: interrupt(state["why"], state["shown"]))
        chain.execute({"why": reason, "shown": context}, name)
    known = _registry._BY_NAME.pop("shop.Order"), _registry._BY_CLASS.pop(Order)
    try:
        odd, plain = sorted(store.list_pending_interrupts(), key=lambda asked: asked.execution_id)
        assert (odd.reason, plain.reason, plain.context) == ("ok?", "fine?", 1)
        assert (result("odd", store).status, result("odd", store).pending_interrupt.node_id) == ("paused", "ask")
        with pytest.raises(NotStorable, match=r"shop\.Order.*not registered"):
            _ = odd.context
        with pytest.raises(NotStorable, match=r"shop\.Order.*not registered"):
            _ = result("odd", store).final_state
        decide("odd", YES, store)
        assert result("odd", store).pending_interrupts == ()
    finally:
        _registry._BY_NAME["shop.Order"], _registry._BY_CLASS[Order] = known


PAIR = "\ud83d\ude00"
SMILE = "\N{GRINNING FACE}"


@pytest.mark.parametrize(
    ("said", "kept"),
    [(PAIR, SMILE), (f"\ud83d{PAIR}\ude00", f"\ud83d{SMILE}\ude00"), ("\ude00\ud83d", "\ude00\ud83d")],
    ids=["a pair", "a pair between halves", "no pair"],
)
def test_a_reason_and_an_error_are_the_same_text_for_who_asked_and_for_who_reads(store, said, kept):
    """Wrong: two surrogates in a row are another text once they have been stored, and the reason no longer fits."""

    def ask(_):
        assert interrupt(said).approved
        raise ValueError(said)

    chain = Chain("c", checkpointer=store).add_node("ask", ask)
    asked = chain.execute({}, RUN).pending_interrupt
    assert asked == store.list_pending_interrupts(RUN)[0] == chain.result(RUN).pending_interrupt
    assert asked.reason == kept
    with pytest.raises(ValueError, match=r"[^:]"):
        chain.resume(RUN, YES)
    assert chain.result(RUN).error == f"ValueError: {kept}"


def test_a_name_that_a_store_would_not_give_back_is_refused_before_anything_is_stored(store):
    """Wrong: two ids, nodes, runners or effects that are one in the store."""
    chain = Chain("c", checkpointer=store).add_node("a", lambda _: None)
    refused = [
        lambda: chain.execute({}, PAIR),
        lambda: chain.resume(PAIR),
        lambda: result(PAIR, store),
        lambda: Chain(PAIR, checkpointer=store),
        lambda: Chain("c", checkpointer=store).add_node(PAIR, lambda _: None),
        lambda: idempotent(name=PAIR)(lambda: 1),
    ]
    for call in refused:
        with pytest.raises(ValueError, match="surrogates"):
            call()
    assert store.list_executions() == []


@pytest.mark.parametrize("answered", [True, False])
def test_a_process_that_cannot_read_the_state_is_refused_before_anything_is_taken(store, answered):
    """Wrong: the answer and the claim are gone when the class turns out to be unknown, and tries run out by it."""
    step = {"die": True}

    def ask(state):
        if answered:
            assert interrupt("ok?", state["order"]).context == Order(7)
        elif step.pop("die", None):
            raise SimulatedCrash
        return {"id": state["order"].id}

    chain = Chain("c", checkpointer=store).add_node("ask", ask)
    with nullcontext() if answered else pytest.raises(SimulatedCrash):
        chain.execute({"order": Order(7)}, RUN)
    before = dump_of(store)
    known = _registry._BY_NAME.pop("shop.Order"), _registry._BY_CLASS.pop(Order)
    try:
        for _ in range(5):
            with pytest.raises(NotStorable, match=r"shop\.Order.*not registered"):
                chain.resume(RUN, *([YES] if answered else []))
            came = chain.recover()
            assert [type(each.error) for each in came] == ([] if answered else [NotStorable])
    finally:
        _registry._BY_NAME["shop.Order"], _registry._BY_CLASS[Order] = known
    assert dump_of(store) == before
    assert chain.resume(RUN, *([YES] if answered else [])).output == {"id": 7}


def dump_of(store):
    head = store.get_execution(RUN)
    return head.seq, head.epoch, head.attempts, head.status, store.list(RUN), store.list_pending_interrupts()
