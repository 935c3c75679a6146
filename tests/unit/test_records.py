"""The records: what is stored and handed out, and how it is read."""

import pickle
from dataclasses import FrozenInstanceError, replace

import pytest

from fastdur import AlreadyResumed, NotStorable, PendingInterrupt, Resume, RunFailed, RunResult
from fastdur._sealed import Sealed
from fastdur.errors import EffectFailed, InterruptSignal
from fastdur.records import (
    Frame,
    frozen_answer,
    frozen_context,
    output_of,
    stored_result,
    thawed_answer,
)
from tests.unit.by_hand import NO, YES, frame, head, question, row

# -- answers -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("approved", [1, 0, None, "yes", [], "False"])
def test_an_approval_that_is_not_true_or_false_is_refused(approved):
    with pytest.raises(TypeError, match="approved"):
        Resume(approved)


@pytest.mark.case("S85")
def test_an_unknown_field_of_an_answer_is_refused_naming_it():
    with pytest.raises(TypeError, match="aproved"):
        Resume(aproved=True)
    with pytest.raises(TypeError, match="context"):
        Resume(True, context={})


@pytest.mark.case("S37")
@pytest.mark.parametrize("metadata", [{}, None, 0, "", [], False, {"a": (1, b"x")}])
@pytest.mark.parametrize("approved", [True, False])
def test_an_answer_comes_back_as_it_was_given_with_what_was_shown(approved, metadata):
    given = Resume(approved, metadata)
    back = thawed_answer(frozen_answer(given), {"sum": 5}, "a#1/1")
    assert (back, back.context, back.interrupt_id) == (given, {"sum": 5}, "a#1/1")
    assert type(back.metadata) is type(metadata)


def test_answers_are_equal_when_the_decision_is_whatever_they_aim_at():
    assert Resume(True, {}, "a#1/1") == Resume(True)
    assert Resume(True) != NO
    assert Resume(True).metadata is not Resume(True).metadata


# -- frames --------------------------------------------------------------------------------------------------------------


def test_a_frame_comes_back_from_its_stored_tree():
    tree = frame(
        {"n": 1},
        due=["b"],
        questions=[question("a#1/1", "ok?", [1], YES), question("a#1/2")],
        children=[frame(place="b", visit=2, children=[frame(place="c", visit=1)])],
    )
    assert Frame.of(tree.tree()) == tree
    assert set(frame().tree()) == {"p", "v", "s"}


# -- pending questions ---------------------------------------------------------------------------------------------------

PENDING = PendingInterrupt("r", "a#1/1", "c", "a", "ok?", {"sum": 5}, "chain:c", 1.5)


def test_a_pending_question_is_read_by_attribute_and_like_a_mapping():
    assert PENDING["reason"] == PENDING.reason == "ok?"
    assert dict(PENDING)["interrupt_id"] == "a#1/1"
    assert list(PENDING) == list(PENDING.keys())
    for unknown in ("keys", "reasons", "__class__"):
        with pytest.raises(KeyError, match=unknown):
            PENDING[unknown]


# -- rows ----------------------------------------------------------------------------------------------------------------


def test_a_row_of_a_node_shows_its_state_and_what_the_node_put_there():
    stored = row(frame({"n": 1, "m": 2}, out=["m", "gone"], loops={"a->a": 2}))
    assert stored.state_snapshot == {"n": 1, "m": 2}
    assert stored.node_output == {"m": 2}
    assert stored.iteration_counters == {"a->a": 2}
    assert (stored.node_input, stored.interrupt_reason, stored.interrupt_context, stored.error) == (None,) * 4


def test_a_row_inside_a_nested_chain_shows_the_state_there():
    tree = frame({"n": 1}, out=[], children=[frame({"m": 2}, place="b", visit=1, out="m")])
    inside = row(tree, node_id="b/x")
    assert (inside.state_snapshot, inside.node_output) == ({"m": 2}, 2)
    assert row(tree, node_id="gone/x").state_snapshot == {"n": 1}


def test_a_row_that_is_no_nodes_has_no_output_but_shows_what_it_is_about():
    pause = row(frame({"n": 1}, out=["n"]), step_type="hitl_pause", reason="ok?", context=[1])
    assert (pause.node_output, pause.interrupt_reason, pause.interrupt_context) == (None, "ok?", [1])
    assert row(frame(), step_type="tool_call", input={"x": 1}).node_input == {"x": 1}
    assert row(frame(), step_type="run_end", error="ValueError: no").error == "ValueError: no"


def test_what_a_row_shows_is_a_fresh_copy():
    stored = row(frame({"n": [1]}))
    stored.state_snapshot["n"].append(2)
    assert stored.state_snapshot == {"n": [1]}


@pytest.mark.parametrize(
    ("state", "output"),
    [
        ({"data": {"n": 1}}, None),
        ({"data": {"n": 1}, "out": []}, {}),
        ({"data": {"n": 1, "m": 2}, "out": ["n", "gone"]}, {"n": 1}),
        ({"data": {"k": [1]}, "out": "k"}, [1]),
        ({"data": {}, "out": "gone"}, None),
    ],
)
def test_the_output_is_what_the_last_node_put_into_the_state(state, output):
    assert output_of(state) == output


# -- runs ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "unfinished"),
    [("running", True), ("paused", True), ("failed", True), ("completed", False), ("cancelled", False)],
)
def test_a_run_is_unfinished_unless_it_completed_or_was_cancelled(status, unfinished):
    assert head(status).unfinished is unfinished


def test_a_run_is_owned_while_a_claim_stands():
    assert head(token="t").owned
    assert not head().owned


def test_a_result_knows_its_first_question_and_whether_it_failed():
    assert RunResult("r", "paused", pending_interrupts=(PENDING, None)).pending_interrupt is PENDING
    completed = RunResult("r", "completed")
    assert completed.pending_interrupt is None
    assert completed.raise_for_status() is completed
    with pytest.raises(RunFailed, match="ValueError: no"):
        RunResult("r", "failed", error="ValueError: no").raise_for_status()
    with pytest.raises(RunFailed, match="failed"):
        RunResult("r", "failed").raise_for_status()


def test_a_stored_result_is_read_from_the_newest_frames():
    result = stored_result("r", "failed", frame({"n": 1}, out=["n"]), (PENDING,), "no")
    assert result == RunResult("r", "failed", {"n": 1}, {"n": 1}, (PENDING,), "no")


# -- errors that carry more than text ------------------------------------------------------------------------------------


def test_errors_keep_what_they_carry():
    assert AlreadyResumed("over", RunResult("r", "completed")).result == RunResult("r", "completed")
    assert AlreadyResumed("over").result is None
    assert EffectFailed("text", "shop.Declined").type_name == "shop.Declined"
    signal = InterruptSignal("ok?", {"sum": 5})
    assert (signal.reason, signal.context, str(signal)) == ("ok?", {"sum": 5}, "ok?")


def test_an_answer_and_a_result_can_be_sent_to_another_process():
    for value in (YES, PENDING, RunResult("r", "completed", {"n": 1})):
        assert pickle.loads(pickle.dumps(value)) == value


# -- values that nobody has asked for ------------------------------------------------------------------------------------

FOREIGN = {"$": ["enum", "nobody.Knows", "ONE"]}


def pending(context):
    return PendingInterrupt("r", "a#1/1", "c", "a", "ok?", context, "chain:c", 1.0)


def test_a_question_with_a_value_nobody_here_knows_can_be_read_but_for_that_value():
    asked = pending(Sealed(FOREIGN))
    assert (asked.reason, asked["node_id"], [*asked][5]) == ("ok?", "a", "context")
    assert "nobody.Knows" in repr(asked)
    with pytest.raises(NotStorable, match="not registered"):
        _ = asked.context
    with pytest.raises(NotStorable, match="not registered"):
        dict(asked)


def test_a_result_with_a_value_nobody_here_knows_can_be_read_but_for_that_value():
    result = stored_result("r", "completed", frame({"n": FOREIGN, "m": 1}, out=["m"]))
    assert (result.status, result.output) == ("completed", {"m": 1})
    assert "nobody.Knows" in repr(result)
    with pytest.raises(NotStorable, match="not registered"):
        _ = result.final_state


def test_what_is_read_is_the_same_object_every_time_and_shares_nothing_with_the_row():
    state = {"n": [1]}
    one, other = (stored_result("r", "completed", frame(state)) for _ in range(2))
    one.final_state["n"].append(2)
    assert (one.final_state, other.final_state, state) == ({"n": [1, 2]}, {"n": [1]}, {"n": [1]})


def test_sealed_and_given_values_make_equal_records_that_can_be_copied_and_pickled():
    sealed, given = pending(Sealed({"k": [1]})), pending({"k": [1]})
    assert pickle.loads(pickle.dumps(sealed)) == replace(sealed) == sealed == given
    assert "context={'k': [1]}" in repr(given)
    assert frozen_context(pending(Sealed({"k": [1]}))) == frozen_context(given) == {"k": [1]}


def test_a_field_without_a_default_has_to_be_given():
    with pytest.raises(TypeError, match="context"):
        PendingInterrupt("r", "a#1/1", "c", "a", "ok?")
    assert (RunResult("r", "running").output, RunResult("r", "running").final_state) == (None, None)


def test_a_record_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        pending(1).context = 2


def test_the_field_itself_is_found_on_the_class():
    assert type(PendingInterrupt.context).__name__ == "Opened"
