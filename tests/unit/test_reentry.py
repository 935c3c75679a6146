"""The re-entry table: how a stored run may be entered again, as data."""

from dataclasses import replace

import pytest

from fastdur import (
    AlreadyResumed,
    AmbiguousResume,
    ChainResumeError,
    Resume,
    RunCancelled,
    RunInProgress,
    UnknownInterrupt,
)
from fastdur._reentry import (
    Entry,
    Request,
    answered_before,
    asked_in,
    decide,
    status_of,
    with_answer,
    without_open_questions,
)
from tests.unit.by_hand import NO, RUN, YES, frame, question, reading, row

OPEN = question("a#1/1")
SETTLED = question("a#1/1", answer=YES)


def at(interrupt_id, answer=YES):
    return Resume(answer.approved, answer.metadata, interrupt_id)


def side(place, *questions, **state):
    return frame(place=place, visit=1, questions=questions, **state)


IDLE = frame()
ASKING = frame(questions=[OPEN])
ANSWERED = frame(questions=[SETTLED])
SECOND = frame(questions=[SETTLED, question("a#1/2")])
LATER = frame(visits={"a": 2}, questions=[question("a#3/1")])
TWO = frame(children=[side("x", question("x#1/q#1/1")), side("y", question("y#1/q#1/1"))])
HALF = frame(children=[side("x", question("x#1/q#1/1", answer=YES)), side("y", question("y#1/q#1/1"))])
WORKING = frame(children=[side("x"), side("y", question("y#1/q#1/1"))])

SIDE = {"kind": "chain", "name": "side", "nodes": {"q": "node"}}
GRAPH = {"kind": "chain", "name": "c", "nodes": {"x": SIDE, "y": {**SIDE, "name": "other"}, "a": "node"}}

GO_ON, CLAIM = "go on", "claim"


def entered(tree, status="running", *, alive=False, **request):
    return decide(reading(tree, status, alive=alive, graph=GRAPH), Request(RUN, **request), tree)


@pytest.mark.parametrize(
    ("status", "alive", "tree", "request_", "expected"),
    [
        # completed
        ("completed", False, IDLE, {}, AlreadyResumed),
        ("completed", False, IDLE, {"value": YES}, AlreadyResumed),
        ("completed", True, IDLE, {"takeover": True, "reopen": True}, AlreadyResumed),
        # cancelled by somebody
        ("cancelled", False, IDLE, {}, RunCancelled),
        ("cancelled", False, IDLE, {"value": YES}, RunCancelled),
        ("cancelled", True, IDLE, {"takeover": True}, RunCancelled),
        ("cancelled", False, IDLE, {"reopen": True}, GO_ON),
        ("cancelled", True, IDLE, {"reopen": True}, RunInProgress),
        ("cancelled", False, ASKING, {"reopen": True}, GO_ON),
        ("cancelled", False, ASKING, {"reopen": True, "value": YES}, ChainResumeError),
        # a live owner
        ("running", True, IDLE, {}, RunInProgress),
        ("running", True, ASKING, {"value": YES}, RunInProgress),
        ("failed", True, IDLE, {"reopen": True}, RunInProgress),
        ("running", True, IDLE, {"takeover": True}, GO_ON),
        ("running", True, ASKING, {"takeover": True, "value": YES}, CLAIM),
        # no answer
        ("running", False, IDLE, {}, GO_ON),
        ("failed", False, IDLE, {}, GO_ON),
        ("failed", False, IDLE, {"reopen": True}, GO_ON),
        ("running", False, ANSWERED, {}, GO_ON),
        ("running", False, WORKING, {}, GO_ON),
        ("paused", False, ASKING, {}, ChainResumeError),
        ("paused", False, SECOND, {}, ChainResumeError),
        ("paused", False, TWO, {}, ChainResumeError),
        # an answer to an open question
        ("paused", False, ASKING, {"value": YES}, CLAIM),
        ("paused", False, ASKING, {"value": at("a#1/1")}, CLAIM),
        ("paused", False, SECOND, {"value": YES}, CLAIM),
        ("paused", False, SECOND, {"value": at("a#1/2")}, CLAIM),
        ("failed", False, LATER, {"value": YES}, CLAIM),
        ("paused", False, TWO, {"value": at("y#1/q#1/1")}, CLAIM),
        ("paused", False, TWO, {"value": YES, "prefix": "y"}, CLAIM),
        ("paused", False, TWO, {"value": YES, "prefix": "y#1"}, CLAIM),
        ("paused", False, TWO, {"value": YES, "prefix": "x/q"}, CLAIM),
        ("paused", False, TWO, {"value": YES, "prefix": "x#1/q#1"}, CLAIM),
        ("paused", False, TWO, {"value": YES, "prefix": "chain:c/chain:other"}, CLAIM),
        ("running", False, WORKING, {"value": YES}, CLAIM),
        # the answer that is recorded
        ("running", False, ANSWERED, {"value": YES}, GO_ON),
        ("running", False, ANSWERED, {"value": at("a#1/1")}, GO_ON),
        ("failed", False, ANSWERED, {"value": YES}, GO_ON),
        ("running", False, HALF, {"value": at("x#1/q#1/1")}, GO_ON),
        # another answer, or nothing is open
        ("running", False, ANSWERED, {"value": NO}, AlreadyResumed),
        ("running", False, IDLE, {"value": YES}, AlreadyResumed),
        ("paused", False, SECOND, {"value": at("a#1/1")}, AlreadyResumed),
        ("paused", False, LATER, {"value": at("a#1/1")}, AlreadyResumed),
        ("paused", False, LATER, {"value": at("a#2/7")}, AlreadyResumed),
        ("running", False, frame(visits={"x": 1}), {"value": at("x#1/q#4/1")}, AlreadyResumed),
        ("running", False, frame(children=[side("x", visits={"q": 1})]), {"value": at("x#1/q#1/1")}, AlreadyResumed),
        # an answer that fits several or none
        ("paused", False, TWO, {"value": YES}, AmbiguousResume),
        ("running", False, HALF, {"value": YES}, AmbiguousResume),
        ("paused", False, ASKING, {"value": at("b#1/1")}, UnknownInterrupt),
        ("running", False, ANSWERED, {"value": at("b#1/1")}, UnknownInterrupt),
        ("paused", False, ASKING, {"value": at("a#2/1")}, UnknownInterrupt),
        ("paused", False, ASKING, {"value": at("a#1/2")}, UnknownInterrupt),
        ("paused", False, ASKING, {"value": at("nonsense")}, UnknownInterrupt),
        ("paused", False, ASKING, {"value": at("a#x/1")}, UnknownInterrupt),
        ("paused", False, ASKING, {"value": at("a/1")}, UnknownInterrupt),
        ("paused", False, ASKING, {"value": YES, "prefix": "b"}, UnknownInterrupt),
        ("paused", False, TWO, {"value": YES, "prefix": "xy"}, UnknownInterrupt),
        ("paused", False, TWO, {"value": YES, "prefix": "chain:c"}, AmbiguousResume),
        ("paused", False, TWO, {"value": YES, "prefix": "chain:c/chain:o"}, UnknownInterrupt),
        ("running", False, IDLE, {"value": YES, "prefix": "b"}, UnknownInterrupt),
        ("running", False, IDLE, {"value": at("a#1/1")}, UnknownInterrupt),
        ("paused", False, TWO, {"value": at("z#1/q#1/1")}, UnknownInterrupt),
        ("paused", False, TWO, {"value": at("x#1/q#2/1")}, UnknownInterrupt),
        ("paused", False, TWO, {"value": at("x#2/q#1/1")}, UnknownInterrupt),
    ],
)
def test_each_row_of_the_table(status, alive, tree, request_, expected):
    if isinstance(expected, str):
        entry = entered(tree, status, alive=alive, **request_)
        assert (entry.question is None) == (entry.trail is None) == (expected == GO_ON)
        return
    with pytest.raises(expected) as refused:
        entered(tree, status, alive=alive, **request_)
    assert type(refused.value) is expected
    assert RUN in str(refused.value)


def test_a_completed_run_is_refused_with_its_stored_result():
    with pytest.raises(AlreadyResumed) as refused:
        entered(frame({"n": 1}, out=["n"]), "completed")
    assert (refused.value.result.output, refused.value.result.status) == ({"n": 1}, "completed")


def test_a_run_in_progress_names_its_owner():
    with pytest.raises(RunInProgress, match="boot:ns:7:1"):
        decide(reading(IDLE, owner="boot:ns:7:1", alive=True), Request(RUN), IDLE)


@pytest.mark.parametrize(
    ("tree", "request_", "names"),
    [
        (TWO, {}, ["x#1/q#1/1", "y#1/q#1/1", "ok?"]),
        (TWO, {"value": YES}, ["x#1/q#1/1", "y#1/q#1/1"]),
        (TWO, {"value": YES, "prefix": "z"}, ["'z'", "x#1/q#1/1", "y#1/q#1/1"]),
        (ASKING, {"value": at("b#1/1")}, ["b#1/1", "a#1/1"]),
        (IDLE, {"value": at("b#1/1")}, ["b#1/1", "no question is open"]),
    ],
)
def test_a_refusal_lists_the_questions_that_are_open(tree, request_, names):
    with pytest.raises(ChainResumeError) as refused:
        entered(tree, "paused", **request_)
    assert [name for name in names if name not in str(refused.value)] == []


def test_the_entry_holds_the_question_that_the_answer_fits_and_the_way_to_it():
    entry = entered(TWO, "paused", value=at("y#1/q#1/1"))
    assert entry.question.id == "y#1/q#1/1"
    assert entry.trail == (TWO, TWO.children[1])
    assert entry.frame is TWO


def test_the_same_answer_again_still_leaves_what_is_asked_beside_it():
    only_questions = frame(children=[side("x", question("x#1/q#1/1", answer=YES), question("x#1/q#1/2"))])
    with pytest.raises(AlreadyResumed):
        entered(only_questions, "paused", value=at("x#1/q#1/1"))


def test_a_reopened_run_asks_its_open_questions_again_and_keeps_its_answers():
    assert entered(SECOND, "cancelled", reopen=True) == Entry(frame(questions=[SETTLED]))
    assert without_open_questions(TWO) == frame(children=[side("x"), side("y")])
    assert without_open_questions(ANSWERED) == ANSWERED


@pytest.mark.parametrize(
    ("tree", "status"),
    [(IDLE, "running"), (ASKING, "paused"), (ANSWERED, "running"), (TWO, "paused"), (HALF, "running")],
)
def test_the_status_of_a_tree_is_paused_only_where_nothing_but_questions_is_left(tree, status):
    assert status_of(tree) == status


def test_an_answer_settles_the_newest_question_of_its_leaf_and_no_other():
    answered = with_answer((SECOND,), NO)
    assert answered.questions == (SETTLED, question("a#1/2", answer=NO))


def test_an_answer_is_looked_up_in_the_rows_that_hold_answers():
    rows = [
        row(IDLE, 1, reason="a#1/1"),
        row(IDLE, 2, step_type="resumed", changes=["n"]),
        row(IDLE, 3, step_type="resumed", answers="a#1/1"),
        row(IDLE, 4, step_type="node", answers="b#1/1"),
    ]
    assert answered_before(rows, "a#1/1")
    assert not answered_before(rows, "b#1/1")
    assert not answered_before([], "a#1/1")


def test_an_answer_that_only_aims_elsewhere_is_the_same_answer():
    entry = entered(ANSWERED, value=replace(YES, interrupt_id="a#1/1"))
    assert entry == Entry(ANSWERED)


def test_of_two_open_questions_each_is_told_from_the_row_that_asked_it():
    asked = [row(TWO, seq, place, "hitl_pause", "interrupted") for seq, place in enumerate(("x/q", "y/q"), 1)]
    told = [(each.interrupt_id, each.node_id) for each in asked_in(asked, "c", TWO)]
    assert told == [("x#1/q#1/1", "x/q"), ("y#1/q#1/1", "y/q")]
    assert [each.interrupt_id for each in asked_in(asked[1:], "c", TWO)] == ["y#1/q#1/1"]
