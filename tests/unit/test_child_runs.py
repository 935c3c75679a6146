"""A run that a node starts, driven by hand: begun, or gone on with, as far as it got."""

from contextlib import closing

import pytest

from fastdur import Chain, OtherStore, RunExists, SQLiteCheckpointer, StaleRun, interrupt
from fastdur._engine import start_child
from fastdur.scope import Parent
from tests.unit.by_hand import RUN, chain, done, frame, play, question, reading, row
from tests.unit.running import flow

AB = chain("a", "b")
TAKEN = ("start", RunExists("taken"))
OURS = {"parent_id": "p", "parent_address": "call#1", "graph": AB.graph(), "input": {"n": 0}}


def child():
    return start_child(AB, RUN, {"n": 0}, Parent("p", "call#1", "held", False, RUN))


def test_a_child_that_is_new_begins_like_any_run_and_its_head_names_the_parent():
    ended, effects = play(
        child(), ("start", None), ("node a", done()), ("append a", None), ("node b", done()), ("append b", None),
        ("append run_end", None),
    )  # fmt: skip
    assert ended.result.status == "completed"
    assert (effects[0].parent_id, effects[0].parent_address, effects[0].parent_token) == ("p", "call#1", "held")


@pytest.mark.parametrize(("parent_id", "parent_address"), [("p", "call#2"), ("q", "call#1"), (None, None)])
def test_an_id_that_another_node_has_given_out_is_refused(parent_id, parent_address):
    theirs = {**OURS, "parent_id": parent_id, "parent_address": parent_address}
    with pytest.raises(RunExists, match="taken"):
        play(child(), TAKEN, ("look", reading(frame(due=["b"]), **theirs)))


def test_a_child_that_has_ended_gives_its_recorded_result():
    stands = reading(frame({"n": 7}, due=[], out=["n"]), "completed", **OURS)
    ended, _ = play(child(), TAKEN, ("look", stands))
    assert (ended.result.status, ended.result.final_state) == ("completed", {"n": 7})


def test_a_child_that_waits_gives_its_question_again():
    pause = row(frame(due=["b"], questions=[question("b#1/1")]), 2, "b", "hitl_pause", "interrupted")
    ended, _ = play(child(), TAKEN, ("look", reading(pause.frames, "paused", last=pause, **OURS)))
    assert (ended.result.status, ended.result.pending_interrupt.interrupt_id) == ("paused", "b#1/1")


@pytest.mark.parametrize("status", ["running", "failed"])
def test_a_child_that_crashed_or_failed_is_carried_on(status):
    stands = reading(frame(ran=[["a"]], due=["b"]), status, **OURS)
    ended, _ = play(
        child(), TAKEN, ("look", stands), ("look", stands), ("claim", True), ("node b", done(n=1)), ("append b", None),
        ("append run_end", None),
    )  # fmt: skip
    assert ended.result.final_state == {"n": 1}


def test_a_node_that_catches_the_refusal_of_its_question_fails_with_it(store):
    def careless(state):
        try:
            interrupt("ok?", object())
        except TypeError:
            return {"went": "on"}

    with pytest.raises(TypeError, match="context"):
        flow(store, careless).execute({}, "r")
    assert store.get_execution("r").status == "failed"


def test_a_run_inside_a_node_that_is_stored_nowhere_is_nobodys_child(store):
    inner = flow(store, lambda state: None, name="inner")
    outer = flow(False, lambda state: {"id": inner.execute({}).execution_id})
    assert len(outer.execute({}).final_state["id"]) == 32


@pytest.mark.parametrize(
    ("other", "says"),
    [({"input": {"n": 1}}, "another input"), ({"runner": "ship"}, "chain 'ship'"), ({"kind": "agent"}, "agent")],
)
@pytest.mark.parametrize("status", ["running", "paused", "completed", "failed"])
def test_another_start_of_the_same_node_is_not_answered_by_this_one(other, says, status):
    theirs = {**OURS, **other}
    with pytest.raises(RunExists, match=says):
        play(child(), TAKEN, ("look", reading(frame(due=["b"]), status, **theirs)))


# -- a store that is not that of the parent ------------------------------------------------------------------------------


def inner(store, value):
    return Chain("inner", store).add_node("a", lambda state: {"n": value})


def outer(store, child):
    return Chain("outer", store).add_node("call", lambda state: {"is": child.execute({}).output})


@pytest.fixture(params=["sqlite", "postgres"])
def other(request):
    """Another store than the one that is under test."""
    if request.param == "postgres":
        yield request.getfixturevalue("postgres_checkpointer")
        return
    made = SQLiteCheckpointer(":memory:")
    yield made
    made.close()


@pytest.mark.parametrize("known_there", [False, True])
def test_a_child_in_another_store_is_refused_and_the_run_can_go_on(store, other, go, known_there):
    """Wrong: the result of a run of the other store that happens to have the same name."""
    if known_there:
        outer(other, inner(other, 1)).execute({}, "p")
    before = len(other.list_executions())
    with pytest.raises(OtherStore, match="Give both the same store"):
        go(outer(store, inner(other, 2)).execute, {}, "p")
    assert (store.get_execution("p").status, len(other.list_executions())) == ("failed", before)
    assert go(outer(store, inner(store, 3)).resume, "p").output == {"is": {"n": 3}}


def test_a_child_through_another_store_object_of_the_same_database_is_a_child(tmp_path, go):
    with closing(SQLiteCheckpointer(tmp_path / "s.db")) as one, closing(SQLiteCheckpointer(tmp_path / "s.db")) as two:
        assert go(outer(one, inner(two, 1)).execute, {}, "p").output == {"is": {"n": 1}}
        assert one.get_execution("p/call#1/inner").parent_id == "p"


def test_a_parent_that_was_taken_over_starts_nothing_in_whatever_store(store, other, go):
    child = inner(other, 1)

    def call(state):
        store.claim_execution(store.get_execution("p"), "second", "you")
        return {"is": child.execute({}).output}

    with pytest.raises(StaleRun, match="taken over"):
        go(Chain("outer", store).add_node("call", call).execute, {}, "p")
    assert other.list_executions() == []
