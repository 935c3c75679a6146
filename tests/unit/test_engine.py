"""The engine, driven by hand: each effect it asks for, in order, and what it makes of the answers."""

import pytest

from fastdur import (
    AlreadyResumed,
    Chain,
    GraphChanged,
    NotStorable,
    Resume,
    RunCancelled,
    RunNotFound,
    StoreCorrupt,
    UnknownInterrupt,
)
from fastdur._ending import cancel
from fastdur._engine import decide_only, due_step, read, resume, start, walk
from fastdur._reentry import Request, newest_frame
from fastdur._steps import Asked, Done, Failed, Return
from tests.unit.by_hand import NO, RUN, YES, chain, done, frame, kept, play, question, reading, row


def yes(state):
    return True


def broken(*, retryable=True, text="ValueError: no"):
    return Failed(ValueError("no"), text, retryable)


def asked(interrupt_id="b#1/1", reason="ok?", context=None):
    return Asked(question(interrupt_id, reason, context))


def rows(effects):
    """What was appended: node, step type, status of the row, status of the run."""
    return [
        (each.row.node_id, each.row.step_type, each.row.status, each.status)
        for each in effects
        if each.name.startswith(("append", "pause"))
    ]


# -- a run from its start ------------------------------------------------------------------------------------------------


def test_a_run_starts_does_each_node_and_then_its_row_and_ends_with_the_marker():
    ended, effects = play(
        start(chain("a", "b"), RUN, {"n": 0}),
        ("start", None), ("node a", done(n=1)), ("append a", None), ("node b", done(m=2)), ("append b", None),
        ("append run_end", None),
    )  # fmt: skip
    assert (ended.error, ended.result.status, ended.result.final_state) == (None, "completed", {"n": 1, "m": 2})
    assert ended.result.output == {"m": 2}
    assert rows(effects) == [
        ("a", "node", "completed", "running"),
        ("b", "node", "completed", "running"),
        ("run_end", "run_end", "completed", "completed"),
    ]
    assert (effects[0].execution_id, effects[0].runner, effects[0].kind) == (RUN, "c", "chain")
    assert effects[0].input == {"n": 0}
    assert effects[0].graph["nodes"] == {"a": "node", "b": "node"}
    assert [effects[1].path, effects[1].address, effects[1].attempt] == ["a#1", "a", 0]
    assert effects[3].call.data == {"n": 1}


def test_what_the_node_noted_is_in_its_row():
    _, effects = play(
        start(chain("a"), RUN, {}),
        ("start", None), ("node a", Done({}, value=[], notes={"hits": ["f"]})), ("append a", None),
        ("append run_end", None),
    )  # fmt: skip
    assert effects[2].row.extra == {"hits": ["f"]}
    assert (effects[2].row.node_index, effects[2].row.agent_path, effects[3].row.node_index) == (0, "chain:c", -1)


def test_a_node_that_goes_round_is_entered_as_another_visit():
    machine = chain("a", "b", edges=[("a", "a", yes, 2), ("a", "b")])
    _, effects = play(
        start(machine, RUN, {}),
        ("start", None), ("node a", done()), ("route a", Done({}, value=[0])), ("append a", None),
        ("node a", done()), ("route a", Done({}, value=[1])), ("append a", None), ("node b", done()),
        ("append b", None), ("append run_end", None),
    )  # fmt: skip
    assert [each.path for each in effects if hasattr(each, "path")] == ["a#1", "a#1", "a#2", "a#2", "b#1"]
    assert effects[-1].row.frames.state["loops"] == {"a->a": 1}


# -- routes --------------------------------------------------------------------------------------------------------------


def test_the_row_of_a_node_waits_until_its_way_out_is_decided():
    machine = chain("a", "b", edges=[("a", "b", yes)])
    _, effects = play(
        start(machine, RUN, {}),
        ("start", None),
        ("node a", Done({}, value=[], notes={"hits": ["f"], "keyed": ["f"]})),
        ("route a", Done({}, value=[0], notes={"hits": ["g"]})),
        ("append a", None), ("node b", done()), ("append b", None), ("append run_end", None),
    )  # fmt: skip
    assert effects[3].row.extra == {"hits": ["g"], "keyed": ["f"]}
    assert "route" not in effects[3].row.frames.state
    assert effects[3].row.frames.state["due"] == ["b"]


def test_a_route_that_fails_leaves_the_node_committed_and_its_way_out_open():
    machine = chain("a", "b", edges=[("a", "b", yes)])
    ended, effects = play(
        start(machine, RUN, {}),
        ("start", None), ("node a", done()), ("route a", broken()), ("append a", None), ("append run_end", None),
    )  # fmt: skip
    assert rows(effects)[1:] == [("run_end", "run_end", "failed", "failed")]
    assert effects[3].row.frames.state["route"] == "a"
    assert effects[4].clear_failed == "a#1"
    assert isinstance(ended.error, ValueError)


def test_an_open_route_is_decided_first_when_the_run_goes_on_and_stored_once_it_is():
    machine = chain("a", "b", edges=[("a", "b", yes)])
    open_route = frame(visits={"a": 1}, due=[], route="a", out=[])
    _, effects = play(
        walk(machine, RUN, open_route),
        ("route a", Done({}, value=[0])), ("append a", None), ("node b", done()), ("append b", None),
        ("append run_end", None),
    )  # fmt: skip
    assert effects[0].path == "a#1"


def test_an_open_route_that_fails_again_leaves_a_marker_of_its_own_and_no_row():
    machine = chain("a", "b", edges=[("a", "b", yes)])
    open_route = frame(visits={"a": 1}, due=[], route="a", out=[])
    _, effects = play(walk(machine, RUN, open_route), ("route a", broken()), ("append run_end", None))
    assert effects[1].row.frames == open_route


# -- failures and retries ------------------------------------------------------------------------------------------------


def retrying(times):
    made = Chain("c", False).add_node("a", yes, retry=times)
    made.validate()
    return made


def test_a_node_that_fails_ends_the_run_with_a_marker_that_tells_why_and_takes_its_failed_effects_along():
    ended, effects = play(
        start(chain("a", "b"), RUN, {"n": 1}),
        ("start", None), ("node a", broken(text="ValueError: no")), ("append run_end", None),
    )  # fmt: skip
    marker = effects[2]
    assert (marker.row.status, marker.status, marker.clear_failed) == ("failed", "failed", "a#1")
    assert marker.row.extra == {"error": "ValueError: no", "error_type": "ValueError", "node": "a"}
    assert marker.row.frames == frame({"n": 1})
    assert (ended.result.status, ended.result.error, str(ended.error)) == ("failed", "ValueError: no", "no")


def test_a_node_is_tried_again_as_often_as_its_retry_says_with_the_same_state():
    ended, effects = play(
        walk(retrying(2), RUN, frame({"n": 1})),
        ("node a", broken()), ("node a", broken()), ("node a", broken()), ("append run_end", None),
    )  # fmt: skip
    assert [each.attempt for each in effects[:3]] == [0, 1, 2]
    assert {id(each.call) for each in effects[:3]} == {id(effects[0].call)}
    assert isinstance(ended.error, ValueError)


def test_a_retry_that_works_is_the_end_of_trying():
    ended, _ = play(
        walk(retrying(2), RUN, frame()),
        ("node a", broken()), ("node a", done()), ("append a", None), ("append run_end", None),
    )  # fmt: skip
    assert ended.error is None


def test_what_is_not_the_users_own_error_is_not_tried_again():
    play(walk(retrying(2), RUN, frame()), ("node a", broken(retryable=False)), ("append run_end", None))


def test_a_pause_costs_no_retry():
    play(walk(retrying(2), RUN, frame()), ("node a", asked("a#1/1")), ("pause a", kept))


# -- what the store cannot take --------------------------------------------------------------------------------------------

TOO_BIG = NotStorable("longer than the store takes")


def ended_as_too_big(ended, effects, node):
    marker = effects[-1]
    assert (ended.error, ended.result.status) == (TOO_BIG, "failed")
    assert (marker.row.extra["node"], marker.row.extra["error_type"]) == (node, "NotStorable")
    assert ended.result.error == marker.row.extra["error"] == "NotStorable: longer than the store takes"
    return marker.row.frames


def test_a_row_that_is_too_big_fails_its_node_and_the_run_goes_on_there():
    played = play(
        walk(chain("a", "b"), RUN, frame({"n": 0})), ("node a", done(n=1)), ("append a", kept), ("node b", done(n=2)),
        ("append b", TOO_BIG), ("append run_end", kept),
    )  # fmt: skip
    frames = ended_as_too_big(*played, "b")
    assert (frames.state["data"], frames.state["due"]) == ({"n": 1}, ["b"])


def test_a_question_that_is_too_big_fails_its_node_and_is_not_open():
    played = play(
        walk(chain("a"), RUN, frame()), ("node a", asked("a#1/1")), ("pause a", TOO_BIG), ("append run_end", kept)
    )
    assert ended_as_too_big(*played, "a").questions == ()


def test_a_row_that_is_too_big_after_its_way_out_was_decided_fails_its_node():
    made = chain("a", "b", edges=[("a", "b", yes)])
    played = play(
        walk(made, RUN, frame()), ("node a", done(n=1)), ("route a", Done({}, value=[0])), ("append a", TOO_BIG),
        ("append run_end", kept),
    )  # fmt: skip
    assert "due" not in ended_as_too_big(*played, "a").state


def test_a_row_that_is_too_big_before_its_way_out_failed_is_what_the_run_fails_with():
    made = chain("a", "b", edges=[("a", "b", yes)])
    played = play(
        walk(made, RUN, frame()), ("node a", done(n=1)), ("route a", broken(retryable=False)), ("append a", TOO_BIG),
        ("append run_end", kept),
    )  # fmt: skip
    ended_as_too_big(*played, "a")


def test_what_a_nested_chain_gives_back_and_is_too_big_fails_the_node_it_stands_at():
    made = chain(("p", chain("x")))
    played = play(
        walk(made, RUN, frame()), ("node p/x", done(n=1)), ("append p/x", kept), ("append p", TOO_BIG),
        ("append run_end", kept),
    )  # fmt: skip
    assert len(ended_as_too_big(*played, "p").children) == 1


# -- pauses --------------------------------------------------------------------------------------------------------------


def test_a_pause_is_one_row_with_its_question_and_the_run_is_what_the_store_says_waits():
    ended, effects = play(
        start(chain("b", "c"), RUN, {}),
        ("start", None), ("node b", asked(context={"sum": 5})), ("pause b", kept),
    )  # fmt: skip
    pause = effects[2]
    assert (pause.row.step_type, pause.row.status, pause.status) == ("hitl_pause", "interrupted", "paused")
    assert pause.row.extra == {"reason": "ok?", "context": {"sum": 5}}
    assert pause.asked == question("b#1/1", "ok?", {"sum": 5}) == pause.row.frames.questions[0]
    assert ended.result.status == "paused"
    (asks,) = ended.result.pending_interrupts
    assert dict(asks) == {
        "execution_id": RUN, "interrupt_id": "b#1/1", "runner": "c", "node_id": "b", "reason": "ok?",
        "context": {"sum": 5}, "agent_path": "chain:c", "created_at": 0.0,
    }  # fmt: skip


def test_a_pause_leaves_the_other_branches_due():
    inner = chain("x")
    machine = chain(("p", inner), ("q", inner), edges=[])
    tree = frame(due=["p", "q"], children=[frame(place="p", visit=1), frame(place="q", visit=1)])
    pauses = []

    def keep(effect):
        pauses.append(kept(effect))
        return pauses[-1]

    ended, effects = play(
        walk(machine, RUN, tree),
        ("node p/x", asked("p#1/x#1/1")), ("pause p/x", keep),
        ("node q/x", asked("q#1/x#1/1")), ("pause q/x", keep), ("history", lambda _: pauses),
    )  # fmt: skip
    assert [each[3] for each in rows(effects)] == ["running", "paused"]
    assert [each.interrupt_id for each in ended.result.pending_interrupts] == ["p#1/x#1/1", "q#1/x#1/1"]


def test_the_answers_of_a_visit_are_given_to_it_and_leave_with_it():
    answered = frame(due=["b"], visits={"a": 1}, questions=[question("b#1/1", answer=YES)])
    _, effects = play(
        walk(chain("a", "b"), RUN, answered), ("node b", done()), ("append b", None), ("append run_end", None)
    )
    assert effects[0].questions == answered.questions
    assert effects[1].row.frames.questions == ()


def test_a_second_question_stands_behind_the_first():
    answered = frame(questions=[question("a#1/1", answer=YES)])
    _, effects = play(walk(chain("a"), RUN, answered), ("node a", asked("a#1/2")), ("pause a", kept))
    assert [each.id for each in effects[1].row.frames.questions] == ["a#1/1", "a#1/2"]


def test_a_failure_keeps_the_answers_for_the_next_try():
    answered = frame(questions=[question("a#1/1", answer=YES)])
    _, effects = play(walk(chain("a"), RUN, answered), ("node a", broken()), ("append run_end", None))
    assert effects[1].row.frames == answered


# -- nested frames -------------------------------------------------------------------------------------------------------


def test_a_nested_chain_is_a_frame_whose_rows_name_the_way_to_it():
    machine = chain("a", ("b", chain("x", "y", name="inner")), name="outer")
    ended, effects = play(
        start(machine, RUN, {"n": 1}),
        ("start", None), ("node a", done()), ("append a", None), ("node b/x", done(m=2)), ("append b/x", None),
        ("node b/y", done()), ("append b/y", None), ("append b", None), ("append run_end", None),
    )  # fmt: skip
    inside = effects[4].row
    assert inside.agent_path == "chain:outer/chain:inner"
    assert [(each.place, each.visit) for each in inside.frames.children] == [("b", 1)]
    assert effects[3].path == "b#1/x#1"
    back = effects[7].row
    assert (back.node_id, back.node_index, back.agent_path, back.frames.children) == ("b", 1, "chain:outer", ())
    assert ended.result.final_state == {"n": 1, "m": 2}


def test_a_nested_chain_that_changed_only_the_route_above_it_waits_for_that_route_too():
    machine = chain(("b", chain("x")), "c", edges=[("b", "c", yes)])
    _, effects = play(
        start(machine, RUN, {}),
        ("start", None), ("node b/x", done()), ("append b/x", None), ("route b", Done({}, value=[0], notes={"n": [1]})),
        ("append b", None), ("node c", done()), ("append c", None), ("append run_end", None),
    )  # fmt: skip
    assert effects[4].row.extra == {"n": [1]}
    assert effects[4].row.step_type == "node"


def test_the_input_of_a_nested_chain_is_called_first_and_has_no_row():
    machine = Chain("c", False).add_node("b", chain("x"), input=yes)
    machine.validate()
    _, effects = play(
        start(machine, RUN, {"n": 1}),
        ("start", None), ("input b", Done({}, value={"given": 5})), ("node b/x", done()), ("append b/x", None),
        ("append b", None), ("append run_end", None),
    )  # fmt: skip
    assert effects[2].call.data == {"given": 5}
    assert "given" not in effects[4].row.frames.state


def test_an_input_that_fails_fails_at_its_node():
    machine = Chain("c", False).add_node("b", chain("x"), input=yes)
    machine.validate()
    _, effects = play(walk(machine, RUN, frame()), ("input b", broken()), ("append run_end", None))
    assert (effects[1].row.extra["node"], effects[1].clear_failed) == ("b", "b#1")


def test_a_failure_inside_a_nested_chain_keeps_its_frame():
    machine = chain(("b", chain("x")))
    _, effects = play(walk(machine, RUN, frame()), ("node b/x", broken()), ("append run_end", None))
    assert effects[1].row.frames.children == (frame(place="b", visit=1),)
    assert (effects[1].clear_failed, effects[1].row.extra["node"]) == ("b#1/x#1", "b/x")


def test_branches_that_wait_leave_nothing_due():
    assert due_step(chain("a"), frame(questions=[question()])) == (None, None)
    trail, step = due_step(chain("a"), frame(due=[]))
    assert (trail, type(step)) == ((frame(due=[]),), Return)


# -- errors of the store go straight through -----------------------------------------------------------------------------


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_an_error_of_an_effect_ends_the_engine_without_another_effect(turns):
    script = [("start", None), ("node a", done()), ("append a", None)][: turns - 1]
    names = ["start", "node a", "append a"]
    with pytest.raises(OSError, match="disk"):
        play(start(chain("a"), RUN, {}), *script, (names[turns - 1], OSError("disk")))


# -- resuming ------------------------------------------------------------------------------------------------------------

CRASHED = frame({"n": 1}, visits={"a": 1}, due=["b"], out=["n"])
PAUSED = frame({"n": 1}, visits={"a": 1}, due=["b"], out=["n"], questions=[question("b#1/1")])
AB = chain("a", "b")


def stands(tree, status="running", **fields):
    return reading(tree, status, graph=AB.graph(), **fields)


def test_a_crashed_run_is_looked_at_taken_and_walked_on():
    seen = stands(CRASHED)
    ended, effects = play(
        resume(AB, Request(RUN)),
        ("look", seen), ("claim", True), ("node b", done(m=1)), ("append b", None), ("append run_end", None),
    )  # fmt: skip
    assert (effects[1].seen, effects[1].row, effects[1].graph) == (seen.head, None, None)
    assert ended.result.final_state == {"n": 1, "m": 1}


def test_a_run_without_a_row_begins_at_its_start():
    seen = reading(status="running", graph=AB.graph(), input={"n": 7})
    _, effects = play(
        resume(AB, Request(RUN)),
        ("look", seen), ("claim", True), ("node a", done()), ("append a", None), ("node b", done()),
        ("append b", None), ("append run_end", None),
    )  # fmt: skip
    assert effects[2].call.data == {"n": 7}
    assert newest_frame(seen, None) == frame({"n": 7})


def test_a_claim_that_comes_too_late_reads_and_decides_again():
    _, effects = play(
        resume(AB, Request(RUN)),
        ("look", stands(CRASHED)), ("claim", False), ("look", stands(CRASHED, epoch=2)), ("claim", True), ("node b", done()),
        ("append b", None), ("append run_end", None),
    )  # fmt: skip
    assert effects[1].seen is not effects[3].seen


def test_a_claim_that_comes_too_late_for_good_is_refused_by_the_table():
    turns = [("look", stands(CRASHED)), ("claim", False)]
    with pytest.raises(AlreadyResumed):
        play(resume(AB, Request(RUN)), *turns, ("look", stands(frame(due=[]), "completed", epoch=2)))
    with pytest.raises(RunCancelled):
        play(resume(AB, Request(RUN)), *turns, ("look", stands(CRASHED, "cancelled", epoch=2)))


def test_a_graph_that_does_not_fit_is_refused_before_the_claim_and_a_new_one_that_does_is_stored_with_it():
    longer = chain("a", "b", "c")
    with pytest.raises(GraphChanged):
        play(resume(chain("b", "a"), Request(RUN)), ("look", stands(CRASHED)))
    _, effects = play(
        resume(longer, Request(RUN)),
        ("look", stands(CRASHED)), ("claim", True), ("node b", broken()), ("append run_end", None),
    )  # fmt: skip
    assert effects[1].graph == longer.graph()


def test_an_answer_claims_its_question_in_a_row_that_holds_the_decision():
    _, effects = play(
        resume(AB, Request(RUN, YES)),
        ("look", stands(PAUSED, "paused")), ("claim interrupt b", True), ("node b", done()), ("append b", None),
        ("append run_end", None),
    )  # fmt: skip
    claim = effects[1]
    assert claim.interrupt_id == "b#1/1"
    assert (claim.row.node_id, claim.row.step_type, claim.row.status) == ("b", "resumed", "resumed")
    assert claim.row.extra == {"answers": "b#1/1", "answer": [True, {"by": "ada"}]}
    assert claim.row.frames.questions == (question("b#1/1", answer=YES),) == effects[2].questions


def test_a_claim_that_fails_although_nothing_has_moved_is_not_tried_for_ever():
    paused = [("look", stands(PAUSED, "paused")), ("claim interrupt b", False), ("look", stands(PAUSED, "paused"))]
    with pytest.raises(StoreCorrupt, match="reopen=True"):
        play(resume(AB, Request(RUN, YES)), *paused)
    paused[1] = ("decide b", False)
    with pytest.raises(StoreCorrupt):
        play(decide_only(RUN, YES), *paused)


@pytest.mark.parametrize("moved", [{"epoch": 2}, {"token": "t"}])
def test_a_decision_that_comes_too_late_for_its_reading_is_made_again(moved):
    seen = stands(PAUSED, "paused")
    again = stands(PAUSED, "paused", **moved)
    _, effects = play(decide_only(RUN, YES), ("look", seen), ("decide b", False), ("look", again), ("decide b", True))
    assert effects[3].seen is again.head


@pytest.mark.parametrize(
    ("then", "refusal"),
    [
        (frame(visits={"a": 1, "b": 1}, due=["c"], questions=[question("c#1/1")]), AlreadyResumed),
        (frame(visits={"a": 1}, due=["b"], questions=[question("b#1/1", answer=NO)]), AlreadyResumed),
        (
            frame(visits={"a": 1}, due=["b"], questions=[question("b#1/1", answer=YES), question("b#1/2")]),
            AlreadyResumed,
        ),
        (frame(visits={"a": 1}, due=["b"], questions=[question("b#9/1")]), UnknownInterrupt),
    ],
)
def test_an_answer_is_pinned_to_its_question_and_never_drifts_to_the_next_one(then, refusal):
    abc = chain("a", "b", "c")
    turns = [
        ("look", stands(PAUSED, "paused")),
        ("claim interrupt b", False),
        ("look", stands(then, "paused", epoch=2)),
    ]
    if refusal is UnknownInterrupt:
        turns.append(("history", []))
    for call in (resume(abc, Request(RUN, YES)), decide_only(RUN, YES)):
        turns[1] = ("claim interrupt b" if call.__name__ == "resume" else "decide b", False)
        with pytest.raises(refusal):
            play(call, *turns)


def test_an_answer_that_comes_too_late_but_is_the_one_recorded_goes_on():
    answered = frame({"n": 1}, visits={"a": 1}, due=["b"], out=["n"], questions=[question("b#1/1", answer=YES)])
    play(
        resume(AB, Request(RUN, YES)),
        ("look", stands(PAUSED, "paused")), ("claim interrupt b", False), ("look", stands(answered, epoch=2)), ("claim", True),
        ("node b", done()), ("append b", None), ("append run_end", None),
    )  # fmt: skip


def test_a_question_that_the_frames_do_not_know_is_looked_up_in_the_history():
    aimed = Request(RUN, Resume(True, interrupt_id="x#1/y#1/1"))
    seen = stands(CRASHED)
    old = row(CRASHED, 1, "x/y", "resumed", "resumed", answers="x#1/y#1/1")
    with pytest.raises(AlreadyResumed, match="x#1/y#1/1"):
        play(resume(AB, aimed), ("look", seen), ("history", [old]))
    with pytest.raises(UnknownInterrupt):
        play(resume(AB, aimed), ("look", seen), ("history", []))


def test_an_answer_aimed_by_a_prefix_is_not_looked_up():
    with pytest.raises(UnknownInterrupt):
        play(resume(AB, Request(RUN, YES, prefix="zz")), ("look", stands(PAUSED, "paused")))


# -- changing the state on the way in ------------------------------------------------------------------------------------


def test_a_modified_state_is_a_row_of_its_own_written_with_the_claim():
    _, effects = play(
        resume(AB, Request(RUN, modified={"n": 2, "m": 3})),
        ("look", stands(CRASHED)), ("claim", True), ("node b", done()), ("append b", None), ("append run_end", None),
    )  # fmt: skip
    opened = effects[1].row
    assert (opened.node_id, opened.step_type, opened.status, opened.agent_path) == (
        "b",
        "resumed",
        "resumed",
        "chain:c",
    )
    assert opened.extra == {"changes": ["n", "m"]}
    assert opened.frames.state["data"] == effects[2].call.data == {"n": 2, "m": 3}


@pytest.mark.case("S25")
def test_an_empty_change_is_no_change():
    _, effects = play(
        resume(AB, Request(RUN, modified={})),
        ("look", stands(CRASHED)), ("claim", True), ("node b", done()), ("append b", None), ("append run_end", None),
    )  # fmt: skip
    assert effects[1].row is None
    assert effects[2].call.data == {"n": 1}


def test_an_answer_and_the_correction_that_comes_with_it_are_one_row():
    _, effects = play(
        resume(AB, Request(RUN, YES, modified={"n": 2})),
        ("look", stands(PAUSED, "paused")), ("claim interrupt b", True), ("node b", done()),
        ("append b", None), ("append run_end", None),
    )  # fmt: skip
    assert effects[1].row.frames.state["data"] == {"n": 2}
    assert effects[1].row.extra["changes"] == ["n"]
    assert effects[2].call.data == {"n": 2}


def test_a_modified_state_reaches_the_innermost_frame_that_is_due():
    inner = frame({"n": 1}, place="b", visit=1, due=["x"])
    tree = frame({"n": 0}, visits={"a": 1}, due=["b"], children=[inner])
    machine = chain("a", ("b", chain("x")))
    _, effects = play(
        resume(machine, Request(RUN, modified={"n": 5})),
        ("look", reading(tree, graph=machine.graph())), ("claim", True), ("node b/x", broken()),
        ("append run_end", None),
    )  # fmt: skip
    assert effects[1].row.node_id == "b/x"
    assert effects[1].row.frames.state["data"] == {"n": 0}
    assert effects[2].call.data == {"n": 5}


def test_a_modified_state_at_the_very_end_is_what_the_run_ends_with():
    ended, effects = play(
        resume(AB, Request(RUN, modified={"n": 5})),
        ("look", stands(frame({"n": 1}, visits={"a": 1, "b": 1}, due=[], out=["n"]))), ("claim", True),
        ("append run_end", None),
    )  # fmt: skip
    assert effects[1].row.node_id == "run_end"
    assert ended.result.output == {"n": 5}


def test_a_cancelled_run_is_reopened_in_a_row_that_says_so_and_asks_again():
    _, effects = play(
        resume(AB, Request(RUN, reopen=True)),
        ("look", stands(PAUSED, "cancelled")), ("claim", True), ("node b", asked()), ("pause b", kept),
    )  # fmt: skip
    assert effects[1].row.extra == {"changes": [], "reopened": True}
    assert effects[1].row.frames.questions == effects[2].questions == ()


# -- without a runner ----------------------------------------------------------------------------------------------------


def test_a_decision_is_recorded_without_running_anything():
    seen = reading(PAUSED, "paused", graph=chain("a", "b").graph())
    result, effects = play(decide_only(RUN, YES), ("look", seen), ("decide b", True))
    assert result is None
    assert (effects[1].interrupt_id, effects[1].status, effects[1].seen) == ("b#1/1", "running", seen.head)
    assert effects[1].row.frames.questions == (question("b#1/1", answer=YES),)
    assert effects[1].row.agent_path == "chain:c"


def test_a_decision_beside_other_questions_leaves_the_run_as_the_frames_say():
    tree = frame(children=[frame(place=place, visit=1, questions=[question(f"{place}#1/q#1/1")]) for place in "xy"])
    aimed = Resume(True, interrupt_id="x#1/q#1/1")
    graph = chain(("x", chain("q", name="left")), ("y", chain("q"))).graph()
    _, effects = play(decide_only(RUN, aimed), ("look", reading(tree, "paused", graph=graph)), ("decide x/q", True))
    assert (effects[1].status, effects[1].row.agent_path) == ("running", "chain:c/chain:left")


def test_the_same_decision_again_changes_nothing():
    play(decide_only(RUN, YES), ("look", reading(frame(questions=[question("b#1/1", answer=YES)]))))


def test_a_run_is_cancelled_with_a_marker_and_cancelled_once():
    seen = stands(PAUSED, "paused")
    result, effects = play(
        cancel(RUN), ("look", seen), ("cancel", False), ("look", seen), ("cancel", True), ("children", [])
    )
    assert result is None
    marker = effects[3].row
    assert (marker.node_id, marker.step_type, marker.status) == ("run_end", "run_end", "failed")
    assert marker.extra == {"reason": "cancelled", "error": "cancelled"}
    assert (marker.frames, marker.agent_path) == (PAUSED, "chain:c")
    play(cancel(RUN), ("look", stands(PAUSED, "cancelled")), ("children", []))


def test_a_run_without_a_row_can_be_cancelled():
    _, effects = play(cancel(RUN), ("look", reading(input={"n": 1})), ("cancel", True), ("children", []))
    assert (effects[1].row.frames, effects[1].row.agent_path) == (frame({"n": 1}), "")


def test_a_completed_run_is_not_cancelled_and_the_refusal_carries_its_result():
    with pytest.raises(AlreadyResumed) as refused:
        play(cancel(RUN), ("look", reading(frame({"n": 1}), "completed")))
    assert refused.value.result.final_state == {"n": 1}


def test_reading_a_run_gives_its_state_its_questions_its_error_and_its_history():
    rows_ = [row(CRASHED, 1), row(CRASHED, 2, "run_end", "run_end", "failed", error="ValueError: no")]
    seen = reading(CRASHED, "failed", last=rows_[1])
    result, _ = play(read(RUN), ("look", seen), ("history", rows_))
    assert (result.status, result.error, result.history) == ("failed", "ValueError: no", tuple(rows_))
    assert (result.pending_interrupts, result.final_state) == ((), {"n": 1})


def test_reading_a_run_shows_the_moment_of_its_head_whatever_comes_in_between():
    rows_ = [row(frame(), 1), row(PAUSED, 2, "b", "hitl_pause", "interrupted"), row(CRASHED, 3)]
    result, _ = play(read(RUN), ("look", reading(PAUSED, "paused", last=rows_[1])), ("history", rows_))
    assert ([each.seq for each in result.history], result.pending_interrupt.interrupt_id) == ([1, 2], "b#1/1")


def test_a_run_that_is_removed_while_it_is_read_is_looked_for_again():
    seen = reading(PAUSED, "paused", last=row(PAUSED, 2, "b", "hitl_pause", "interrupted"))
    with pytest.raises(RunNotFound):
        play(read(RUN), ("look", seen), ("history", []), ("look", RunNotFound("gone")))


def test_a_cancelled_run_has_no_question_although_its_frames_do():
    rows_ = [row(PAUSED, 1, "b", "hitl_pause", "interrupted"), row(PAUSED, 2, "run_end", "run_end", "failed")]
    result, _ = play(read(RUN), ("look", reading(PAUSED, "cancelled", last=rows_[1])), ("history", rows_))
    assert result.pending_interrupts == ()


def test_reading_a_run_without_a_row_gives_its_input():
    result, _ = play(read(RUN), ("look", reading(input={"n": 1})), ("history", []))
    assert (result.status, result.error, result.final_state, result.output) == ("running", None, {"n": 1}, None)
