"""A branch goes on from a row of another run: with its state, without its decisions, and without touching it."""

from __future__ import annotations

import pytest

from fastdur import ForkRefused, Resume
from tests.cases.conftest import RUN

YES = Resume(approved=True, metadata={"by": "ada"})
NO = Resume(approved=False)


def of_run(dumped, run=RUN):
    """What every table holds of one run."""
    at = int("sqlite_sequence" in dumped)  # a file's dump begins with the number of the row
    key = next(row[at] for row in dumped["executions"] if row[at + 1] == run)
    where = {"executions": at, "starts": at, "pending_interrupts": at + 1, "idempotency_cache": at + 1}
    held = {table: [row for row in dumped[table] if row[column] == key] for table, column in where.items()}
    return held | {"checkpoints": [row for row in dumped["checkpoints"] if row[at] >> 32 == key]}


def forked(play, *args, to="f", run=RUN, **keywords):
    return play("fork", run, *args, new_execution_id=to, **keywords)


def row_of(play, node, run=RUN, kind="node"):
    """The id of the newest row of a node."""
    return [row.checkpoint_id for row in play.rows(run) if (row.node_id, row.step_type) == (node, kind)][-1]


# -- S53: what can be forked -------------------------------------------------------------------------------------------


def completed(play):
    play.start("three")
    return "completed", ["a", "b", "c"]


def failed(play):
    play.world.shatter("b")
    play.start("three")
    play.world.mend("b")
    return "completed", ["a", "b", "c"]


def failed_at_once(play):
    play.world.shatter("a")
    play.start("three")
    play.world.mend("a")
    return "completed", ["a", "b", "c"]


def paused(play):
    play.start("asking")
    return "paused", ["a"]


def crashed(play):
    play.start("three", die="before append b")
    return "completed", ["a", "b", "c"]


def crashed_before_its_first_row(play):
    play.start("three", die="after start")
    return "completed", ["a", "b", "c"]


def cancelled(play):
    paused(play)
    play("cancel", RUN)
    return "paused", ["a"]


def decided(play):
    paused(play)
    play("decide", RUN, YES)
    return "paused", ["a"]


STATES = [completed, failed, failed_at_once, paused, crashed, crashed_before_its_first_row, cancelled, decided]


@pytest.mark.case("S53")
@pytest.mark.case("S58")
@pytest.mark.parametrize("effects", ["live", "recorded"])
@pytest.mark.parametrize("state", STATES)
def test_a_run_in_any_state_can_be_forked_and_not_one_byte_of_it_changes(play, state, effects):
    """Wrong: claiming the source, taking its question along, or a branch that starts past a gate."""
    status, path = state(play)
    before = of_run(play.dump())
    # Where the effect has not been recorded, a branch that runs none has no way past it.
    recorded = effects == "recorded" and state in (completed, paused, cancelled, decided, crashed)
    came = forked(play, effects="recorded" if recorded else "live")
    assert (came.error, came.status) == (None, status), came.text
    assert came.final_state["path"] == path
    assert of_run(play.dump()) == before
    head, source = play.head("f"), play.head()
    newest = [row.checkpoint_id for row in play.rows() if row.step_type != "run_end"]
    assert (head.parent_id, head.parent_address) == (RUN, None)
    assert head.parent_checkpoint_id == (newest[-1] if newest else None)
    first = play.rows("f")[0]
    assert (first.seq, first.step_type, first.parent_checkpoint_id) == (1, "fork_origin", head.parent_checkpoint_id)
    assert [each.execution_id for each in play.read("list_executions", parent=RUN)] == ["f"]
    assert source.run != head.run


@pytest.mark.case("S53")
@pytest.mark.parametrize("state", [completed, failed, cancelled])
def test_an_end_marker_is_refused_and_what_the_refusal_names_works(play, state):
    state(play)
    before, marks = play.dump(), play.marks
    came = forked(play, play.rows()[-1].checkpoint_id)
    assert came.error == "ForkRefused"
    assert "ChainResumeError" in came.bases
    assert "is an end marker" in came.text
    assert (play.dump(), play.marks) == (before, marks)
    assert forked(play, play.rows()[-2].checkpoint_id).error is None
    assert forked(play, to="g").error is None


def test_a_run_that_is_being_worked_on_can_be_forked_and_goes_on(play):
    with play.held("three", "b") as held:
        assert forked(play).final_state["path"] == ["a", "b", "c"]
    assert held.came.status == "completed"
    assert play.path() == ["a", "b", "c"]
    assert play.path("f") == ["b", "c"]


# -- S54: the branch is a run like any other ---------------------------------------------------------------------------


@pytest.mark.case("S54")
def test_a_branch_that_completes_has_a_completed_marker_and_is_not_resumed(play):
    completed(play)
    forked(play, row_of(play, "a"))
    last = play.rows("f")[-1]
    assert (last.step_type, last.status) == ("run_end", "completed")
    assert play.resume(run="f").error == "AlreadyResumed"
    assert play.path("f") == ["b", "c"]


@pytest.mark.case("S54")
def test_a_branch_that_fails_has_a_failed_marker_and_is_resumed(play):
    completed(play)
    play.world.shatter("c")
    came = forked(play, row_of(play, "b"))
    assert came.error == "Broken"
    last = play.rows("f")[-1]
    assert (last.step_type, last.status, play.head("f").status) == ("run_end", "failed", "failed")
    play.world.mend("c")
    assert play.resume(run="f").status == "completed"


@pytest.mark.case("S54")
def test_a_branch_that_pauses_has_no_marker_and_is_resumed_with_a_decision(play):
    paused(play)
    play.resume(YES)
    came = forked(play, row_of(play, "a"))
    assert came.status == "paused"
    assert [row.step_type for row in play.rows("f")] == ["fork_origin", "hitl_pause"]
    assert play.resume(run="f").error == "ChainResumeError"
    done = play.resume(NO, run="f")
    assert done.final_state["b said"] == [[False, {}]]
    assert play.resume(YES).error == "AlreadyResumed"


def test_a_branch_from_an_answered_question_asks_again_and_passes_no_gate(play):
    """Wrong: an answer that was given to the source counts for its branch."""
    play.start("asking_twice")
    play.resume(YES)
    for number, row in enumerate(play.rows()):
        if row.step_type in ("resumed", "hitl_pause"):
            came = forked(play, row.checkpoint_id, to=f"f{number}")
            assert [each.interrupt_id for each in came.pending_interrupts] == ["b#1/1"]
            assert play.world.count("pay c") == 0


@pytest.mark.case("S55")
def test_a_branch_inside_a_nested_chain_runs_only_what_comes_after(play):
    play.start("two_levels")
    before = len(play.marks)
    came = forked(play, row_of(play, "child/y"))
    assert came.final_state["path"] == ["p", "x", "y", "z", "q"]
    assert play.marks[before:] == ["z", "q", "pay q"]
    assert play.path("f") == ["child/z", "child", "q"]


@pytest.mark.case("S56")
def test_a_paused_branch_goes_on_from_its_own_rows_after_its_source_has_moved_on(play):
    paused(play)
    forked(play, modified_state={"from": "branch"})
    assert play.resume(YES).status == "completed"
    done = play.resume(NO, run="f")
    assert done.final_state["from"] == "branch"
    assert done.final_state["b said"] == [[False, {}]]
    assert "from" not in play.rows()[-1].state_snapshot


@pytest.mark.case("S57")
def test_each_branch_names_the_row_it_came_from_and_can_be_forked_again(play):
    completed(play)
    a, b = row_of(play, "a"), row_of(play, "b")
    forked(play, a, to="B")
    forked(play, b, to="C")
    forked(play, row_of(play, "b", "B"), run="B", to="D")
    forked(play, run="D", to="E")
    parents = {name: (play.head(name).parent_id, play.head(name).parent_checkpoint_id) for name in "BCDE"}
    assert parents["B"] == (RUN, a)
    assert parents["C"] == (RUN, b)
    assert parents["D"] == ("B", row_of(play, "b", "B"))
    assert parents["E"][0] == "D"
    assert [each.execution_id for each in play.read("list_executions", parent=RUN)] == ["C", "B"]
    assert play.rows("E")[-1].state_snapshot["path"] == ["a", "b", "c"]


@pytest.mark.case("S58")
@pytest.mark.parametrize("state", [completed, paused])
def test_a_changed_state_is_the_branch_s_alone(play, state):
    state(play)
    before = of_run(play.dump())
    came = forked(play, modified_state={"n": 7}, input={"given": {"deep": [1]}})
    assert (came.final_state["n"], came.final_state["given"]) == (7, {"deep": [1]})
    assert of_run(play.dump()) == before
    assert play.head("f").input == {"given": {"deep": [1]}}
    assert "n" not in play.rows()[-1].state_snapshot
    if state is paused:
        assert play.resume(YES).status == "completed"


@pytest.mark.case("S96")
def test_the_newest_row_of_seven_hundred_is_the_one_that_is_forked(play):
    play.world.shatter("last")
    play.start("seven_hundred")
    play.world.mend("last")
    rounds = play.world.count("round")
    came = forked(play)
    assert came.final_state["path"] == ["last"]
    assert (play.world.count("round"), play.head("f").seq) == (rounds, 3)
    assert play.head("f").parent_checkpoint_id == play.rows()[-2].checkpoint_id


def test_a_branch_from_a_route_that_is_open_decides_it_and_one_from_a_route_that_was_taken_does_not(play):
    play.world.shatter("route")
    play.start("routed_breakable")
    play.world.mend("route")
    assert forked(play).final_state["path"] == ["judge", "refuse"]
    play.start("routed", run="other")
    assert forked(play, row_of(play, "judge", "other"), run="other", to="g").final_state["path"] == ["judge", "refuse"]
    assert play.world.count("route") == 1


@pytest.mark.case("S57")
@pytest.mark.parametrize("state", [completed, paused, crashed_before_its_first_row])
def test_a_run_that_has_the_id_of_a_deleted_one_has_none_of_its_branches(play, state):
    """Wrong: lineage by name, so that a branch seems to come from a run that began after it."""
    state(play)
    story = play.story
    forked(play)
    before = of_run(play.dump(), "f")
    play("delete_execution", RUN, story="package", takeover=True)
    assert play.read("list_executions", parent=RUN) == []
    play.start(story)
    assert play.read("list_executions", parent=RUN) == []
    assert (play.head("f").parent_id, play.head("f").parent_run == play.head().run) == (RUN, False)
    forked(play, to="g")
    assert [each.execution_id for each in play.read("list_executions", parent=RUN)] == ["g"]
    assert play.head("g").parent_run == play.head().run
    assert of_run(play.dump(), "f") == before


# -- effects -----------------------------------------------------------------------------------------------------------


def test_a_live_branch_does_its_effects_anew_and_a_recorded_one_never(play):
    completed(play)
    assert play.world.count("pay b") == 1
    forked(play, row_of(play, "a"))
    assert play.world.count("pay b") == 2
    came = forked(play, row_of(play, "a"), to="g", effects="recorded")
    assert (came.status, play.world.count("pay b")) == ("completed", 2)
    assert [each.status for each in play.read("list_idempotent", "g")] == ["done"]


def test_a_recorded_branch_refuses_what_has_no_record_in_every_later_process_too(play):
    """Wrong: the refusal is forgotten when the branch is resumed, and the effect happens."""
    play.start("asking")
    forked(play, effects="recorded")
    for answer in ((YES,), ()):
        came = play.resume(*answer, run="f")
        assert came.error == "EffectForbidden"
        assert "IdempotencyError" in came.bases
    assert play.world.count("pay c") == 0
    assert forked(play, run="f", to="g").status == "completed"
    assert play.world.count("pay c") == 1


def test_a_recorded_branch_goes_the_way_of_a_failure_that_its_source_had_dealt_with(play):
    play.world.shatter("pay b")
    play.start("catching")
    play.world.mend("pay b")
    came = forked(play, row_of(play, "a"), effects="recorded")
    assert came.status == "completed"
    assert came.final_state["paid"].endswith("Broken: pay b")
    assert play.world.count("pay b") == 0


def test_an_effect_of_which_nothing_is_known_is_not_inherited(play):
    play.start("three", die="pay b")
    assert [each.status for each in play.read("list_idempotent", RUN)] == ["started"]
    assert forked(play, effects="recorded").error == "EffectForbidden"
    assert play.read("list_idempotent", "f") == []
    assert forked(play, to="g").status == "completed"
    assert [each.status for each in play.read("list_idempotent", RUN)] == ["started"]


# -- a source that is gone ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [completed, paused])
def test_a_branch_needs_nothing_of_its_source(play, state):
    state(play)
    play.story = "three" if state is completed else "asking"
    assert forked(play, row_of(play, "a"), effects="recorded" if state is completed else "live").error is None
    play("delete_execution", RUN, story="package")
    assert play.head() is None
    if state is paused:
        assert play.resume(YES, run="f").final_state["path"] == ["a", "b", "c"]
    else:
        assert forked(play, run="f", to="g").final_state["path"] == ["a", "b", "c"]


def test_a_branch_that_dies_at_once_is_a_run_that_goes_on(play):
    completed(play)
    forked(play, row_of(play, "a"), die="after fork")
    assert [(row.node_id, row.seq) for row in play.rows("f")] == [("fork_origin", 1)]
    assert play.resume(run="f").final_state["path"] == ["a", "b", "c"]
    forked(play, row_of(play, "a"), die="before fork", to="g")
    assert play.head("g") is None


def test_a_node_may_not_fork(here):
    chain = here.build("three")
    here("execute", {}, RUN)
    if here.flavour == "async":

        async def forks(_state):
            return await chain.afork(RUN)
    else:

        def forks(_state):
            return chain.fork(RUN)

    outer = type(chain)("outer", checkpointer=here.store).add_node("forks", forks)
    before = len(here.store.list_executions())
    here.chain = outer
    with pytest.raises(ForkRefused, match="inside a node"):
        here("execute", {}, "o")
    assert len(here.store.list_executions()) == before + 1
