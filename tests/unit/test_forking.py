"""A branch: what it begins with, what it refuses, and what stands in the store before it runs anything."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fastdur import (
    Chain,
    ChainResumeError,
    CheckpointNotFound,
    EffectForbidden,
    ForkRefused,
    GraphChanged,
    NodeIsAsync,
    NotStorable,
    Resume,
    RunExists,
    RunNotFound,
    delete_execution,
    idempotent,
    interrupt,
    observe,
    prune,
)
from fastdur._reentry import latest_forkable, without_questions
from tests.unit.by_hand import frame, question, row
from tests.unit.running import dump, flow, kinds

YES = Resume(approved=True)


def a(state):
    return {"a": state.get("n", 0)}


def ask(state):
    return {"ok": interrupt("ok?").approved}


def b(state):
    return {"b": state["a"]}


def test_every_question_leaves_the_frames_of_a_branch():
    nested = frame(questions=[question("n#1/x#1/1", answer=YES), question("n#1/x#1/2")], place="n", visit=1)
    whole = frame({"n": 1}, questions=[question("y#1/1", answer=YES)], children=[nested])
    assert without_questions(whole) == frame({"n": 1}, children=[frame(place="n", visit=1)])


def test_the_newest_row_to_branch_off_is_the_newest_that_is_no_marker():
    marker = {"step_type": "run_end", "status": "failed"}
    rows = [row(frame(), 1), row(frame(), 2, **marker), row(frame(), 3), row(frame(), 4, **marker)]
    assert latest_forkable(rows).seq == 3
    assert latest_forkable(rows[1:2]) is None


def test_a_branch_passes_its_boundaries_in_order(store, go):
    chain = flow(store, a, b)
    chain.execute({}, "r")
    seen = []
    with observe(lambda boundary: seen.append(str(boundary))):
        go(chain.fork, "r", store.list("r")[0].checkpoint_id)
    assert seen[::2] == [
        "before look", "before row", "before fork", "before node b", "before append b", "before append run_end",
    ]  # fmt: skip


def test_the_marker_is_stepped_over_however_many_there_are(store, go):
    tries = []

    def fails(state):
        tries.append(1)
        if len(tries) < 8:
            raise OSError
        return {"tries": len(tries)}

    chain = flow(store, a, fails)
    with pytest.raises(OSError):
        chain.execute({}, "r")
    for _ in range(6):
        with pytest.raises(OSError):
            chain.resume("r")
    assert len(store.list("r")) == 8
    assert go(chain.fork, "r").final_state["tries"] == 8
    assert store.list_executions(parent="r")[0].parent_checkpoint_id == store.list("r")[0].checkpoint_id


def test_a_run_that_has_only_markers_is_branched_off_at_its_start(store, go):
    tries = []

    def fails(state):
        tries.append(1)
        if len(tries) == 1:
            raise OSError
        return {"n": state["n"] + 1}

    chain = flow(store, fails)
    with pytest.raises(OSError):
        chain.execute({"n": 1, "m": 1}, "r")
    assert go(chain.fork, "r", input={"n": 5}).final_state == {"n": 6, "m": 1}
    (head,) = store.list_executions(parent="r")
    assert (head.is_fork, head.parent_checkpoint_id, head.input) == (True, None, {"n": 5, "m": 1})


def test_input_changes_the_state_of_the_run_and_modified_state_that_of_the_next_step(store):
    inner = Chain("inner").add_node("x", lambda state: {"x": 1}).add_node("y", lambda state: {"y": state["n"]})
    outer = Chain("outer", store).add_node("in", inner.connect("x", "y"), input=lambda state: {"n": 1})
    outer.add_node("end", lambda state: {"end": state.get("m")}).connect("in", "end")
    outer.execute({"m": 1}, "r")
    done = outer.fork("r", store.list("r")[0].checkpoint_id, input={"m": 7}, modified_state={"n": 9})
    assert (done.final_state["end"], done.final_state["y"], done.final_state["m"]) == (7, 9, 7)


def test_the_row_of_a_branch_says_what_was_changed_and_that_no_effect_runs(store):
    chain = flow(store, a, ask)
    chain.execute({}, "r")
    chain.fork("r", input={"n": 1}, modified_state={"k": 2}, effects="recorded", new_execution_id="f")
    first = store.list("f")[0]
    assert (first.node_id, first.extra) == ("fork_origin", {"changes": ["k", "n"], "effects": "recorded"})
    assert first.state_snapshot == {"a": 0, "n": 1, "k": 2}
    assert store.get_execution("f").recorded
    chain.fork("r", new_execution_id="g")
    assert store.list("g")[0].extra == {"changes": []}


def test_what_cannot_be_branched_off_is_refused_and_nothing_is_written(store, go):
    chain = flow(store, a, ask)
    chain.execute({}, "r")
    other = flow(store, a, ask)
    other.execute({}, "other")
    before = dump(store), len(store.list_executions())
    refused = [
        (RunNotFound, ("nobody",), {}),
        (CheckpointNotFound, ("r", "1-9-x"), {}),
        (CheckpointNotFound, ("r", store.list("other")[0].checkpoint_id), {}),
        (RunExists, ("r",), {"new_execution_id": "other"}),
        (NotStorable, ("r",), {"input": {"a": object()}}),
        (TypeError, ("r",), {"modified_state": 3}),
        (TypeError, ("r", 3), {}),
        (ValueError, ("r",), {"effects": "all"}),
    ]
    for error, args, options in refused:
        with pytest.raises(error):
            go(chain.fork, *args, **options)
    with pytest.raises(GraphChanged, match="does not fit"):
        go(flow(store, b).fork, "r")
    with pytest.raises(ChainResumeError, match="checkpointer=False"):
        go(flow(False, a).fork, "r")
    assert (dump(store), len(store.list_executions())) == before


def test_a_marker_is_refused(store, go):
    chain = flow(store, a)
    chain.execute({}, "r")
    with pytest.raises(ForkRefused, match="is an end marker"):
        go(chain.fork, "r", store.get_last("r").checkpoint_id)


def test_a_sync_fork_that_would_meet_an_async_node_is_refused(store):
    async def node(state):
        return {}

    with pytest.raises(NodeIsAsync, match="call afork"):
        flow(store, node).fork("r")


def test_a_node_begins_no_branch_but_one_of_a_run_that_is_kept_nowhere_may(store):
    chain = flow(store, a)
    chain.execute({}, "r")

    def forks(state):
        return {"id": chain.fork("r").execution_id}

    with pytest.raises(ForkRefused, match="inside a node"):
        flow(store, forks).execute({}, "o")
    assert store.list_executions(parent="r") == []
    assert flow(False, forks).execute({}).final_state["id"] == store.list_executions(parent="r")[0].execution_id


def test_a_changed_graph_is_taken_where_that_is_said_and_is_the_branch_s_own(store, go):
    flow(store, a, ask).execute({}, "r")
    changed = flow(store, a, ask, b, name="changed")
    with pytest.raises(GraphChanged, match="accept_graph=True"):
        go(changed.fork, "r")
    assert go(changed.fork, "r", accept_graph=True, new_execution_id="f").status == "paused"
    assert store.get_execution("f").runner == "changed"
    assert "b" not in store.get_execution("r").graph["nodes"]
    assert changed.resume("f", YES).final_state == {"a": 0, "ok": True, "b": 0}


@pytest.mark.parametrize("transactional", [False, True])
def test_a_recorded_branch_runs_no_effect_and_catching_the_refusal_does_not_help(store, transactional):
    happened = []

    @idempotent(name="pay", transactional=transactional)
    def pay(n):
        happened.append(n)
        return n

    def pays(state):
        try:
            return {"paid": pay(state["n"])}
        except EffectForbidden:
            return {"paid": "caught"}

    chain = flow(store, a, pays)
    chain.execute({"n": 1}, "r")
    first = store.list("r")[0].checkpoint_id
    assert chain.fork("r", first, effects="recorded").final_state["paid"] == 1
    with pytest.raises(EffectForbidden, match="runs no effects"):
        chain.fork("r", first, effects="recorded", modified_state={"n": 2}, new_execution_id="f")
    assert (happened, kinds(store, "f")[-1]) == ([1], ("run_end", "failed"))
    assert chain.fork("r", first, modified_state={"n": 2}).final_state["paid"] == 2
    assert happened == [1, 2]


def test_the_runs_that_a_recorded_branch_starts_have_the_records_of_those_of_its_source_and_run_no_effect(store):
    """Wrong: nothing is known of what the child runs have done, or it is lost when the source is deleted."""
    happened = []

    @idempotent(name="pay")
    def pay(n):
        happened.append(n)
        return 10 * n

    grand = Chain("grand", store).add_node("g", lambda state: {"g": pay(state["n"] + 1)})
    child = Chain("child", store).add_node("pays", lambda state: {"c": pay(state["n"]), **calls(grand, state)})
    ask = interrupts_if(lambda state: state.get("gate"))
    parent = (
        Chain("parent", store).add_node("a", ask).add_node("calls", lambda state: {**calls(child, state), "p": pay(5)})
    )
    parent.connect("a", "calls")
    done = parent.execute({"n": 1}, "r")
    assert (happened, done.final_state) == ([1, 2, 5], {"n": 1, "c": 10, "g": 20, "p": 50})
    first = store.list("r")[0].checkpoint_id
    assert parent.fork("r", first, effects="recorded", new_execution_id="f").final_state == done.final_state
    assert parent.fork("f", store.list("f")[0].checkpoint_id, effects="recorded").final_state == done.final_state
    assert store.get_execution("f/calls#1/child/pays#1/grand").recorded
    delete_execution("r", store)
    again = parent.fork("f", store.list("f")[0].checkpoint_id, effects="recorded", new_execution_id="g")
    assert (again.final_state, happened) == (done.final_state, [1, 2, 5])
    with pytest.raises(EffectForbidden):
        parent.fork("g", store.list("g")[0].checkpoint_id, effects="recorded", modified_state={"n": 7})
    assert happened == [1, 2, 5]


def calls(runner, state):
    """What a child run comes to."""
    done = runner.execute({"n": state["n"]}).final_state
    return {key: value for key, value in done.items() if key != "n"}


def interrupts_if(asks):
    return lambda state: {"ok": interrupt("ok?").approved} if asks(state) else None


def test_a_recorded_branch_that_waits_before_its_child_run_needs_nothing_of_its_source(store):
    happened = []

    @idempotent(name="pay")
    def pay():
        happened.append(1)
        return 7

    child = Chain("child", store).add_node("pays", lambda state: {"c": pay()})
    parent = flow(store, a, ask, lambda state: {"c": child.execute({}).final_state["c"]})
    parent.execute({}, "r")
    parent.resume("r", YES)
    assert (
        parent.fork("r", store.list("r")[0].checkpoint_id, effects="recorded", new_execution_id="f").status == "paused"
    )
    delete_execution("r", store)
    assert parent.resume("f", YES).final_state["c"] == 7
    assert happened == [1]


def test_a_recorded_branch_meets_each_failure_in_the_turn_of_the_cycle_that_it_came_in(store):
    """Wrong: only the newest failure is known, and an earlier turn is refused or goes another way."""
    happened = []

    @idempotent(name="pay", raises=OSError)
    def pay():
        happened.append(1)
        if len(happened) < 4:
            raise OSError
        return "paid"

    def turn(state):
        said = []
        for _ in range(1 + (len(state["log"]) == 1)):
            try:
                said.append(pay())
            except OSError:
                said.append(f"caught {len(happened)}")
        return {"log": [*state["log"], *said]}

    loop = Chain("loop", store).add_node("a", a).add_node("turn", turn).connect("a", "turn")
    loop.connect("turn", "turn", when=lambda state: len(state["log"]) < 5, max_iterations=9)
    done = loop.execute({"log": []}, "r")
    assert [each.split()[0] for each in done.final_state["log"]] == ["caught", "caught", "caught", "paid", "paid"]
    for each_row in store.list("r")[:-1]:
        came = loop.fork("r", each_row.checkpoint_id, effects="recorded")
        assert [each.split()[0] for each in came.final_state["log"]] == ["caught", "caught", "caught", "paid", "paid"]
    assert len(happened) == 4


def meanwhile(instant, do):
    """Do something, once, at an instant of a call."""
    waiting = [do]

    def strike(boundary):
        if str(boundary) == instant and waiting:
            waiting.pop()()

    return observe(strike)


@pytest.mark.parametrize(
    "instant", ["after look", "before row", "after row", "before history", "after history", "before fork"]
)
@pytest.mark.parametrize("how", ["deleted", "pruned", "deleted and begun anew"])
def test_a_source_that_leaves_while_it_is_forked_is_one_error_and_nothing_is_left(store, go, instant, how):
    """Wrong: a branch of nothing, of the run that has the id by now, or of the start of a run that had got further."""
    chain = flow(store, a, b)
    fails = flow(store, a, breaks)

    def begin():
        if "history" not in instant:
            chain.execute({}, "r")
            return (store.list("r")[0].checkpoint_id,)
        with pytest.raises(OSError):
            fails.execute({}, "r")
        for _ in range(5):  # more end markers than are looked at first
            with pytest.raises(OSError):
                fails.resume("r")
        return ()

    def leave():
        if how == "pruned":
            assert prune(timedelta(0), store, failed=timedelta(0)).total == 1
        else:
            delete_execution("r", store)
        if how == "deleted and begun anew":
            begin()
        left.append(everything_in(store))

    for effects in ("live", "recorded"):
        if store.get_execution("r") is not None:
            delete_execution("r", store)
        left, named = [], begin()
        forking = fails if "history" in instant else chain
        with meanwhile(instant, leave), pytest.raises(RunNotFound):
            go(forking.fork, "r", *named, effects=effects, new_execution_id="f")
        assert left == [everything_in(store)]


def breaks(state):
    raise OSError


def everything_in(store):
    return [(head, store.list(head.execution_id)) for head in store.list_executions()]


@pytest.mark.parametrize("instant", ["after look", "before fork"])
@pytest.mark.parametrize("what", ["cancel", "resume"])
def test_a_source_that_moves_on_while_it_is_forked_makes_no_difference(store, go, instant, what):
    chain = flow(store, a, ask)
    chain.execute({}, "r")
    row = store.list("r")[-1]
    with meanwhile(instant, lambda: chain.cancel("r") if what == "cancel" else chain.resume("r", YES)):
        assert go(chain.fork, "r", new_execution_id="f").status == "paused"
    assert store.get_execution("f").parent_checkpoint_id == row.checkpoint_id
    assert chain.resume("f", YES).status == "completed"
