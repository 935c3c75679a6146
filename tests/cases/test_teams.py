"""Teams in processes that die: each continues exactly where it was, and nobody who has finished is asked again."""

from __future__ import annotations

import pytest

from fastdur import Resume
from tests.cases import _teams

YES = Resume(approved=True, metadata={"by": "ada"})
NO = Resume(approved=False, metadata={"reason": "no money"})
GIVEN = {"input": "hi"}

# Where each form asks, what its path is, how often its models are asked in all, what is noted.
FORMS = {
    "alone": ("turn:{}/tool:charge", "agent:payer/tool:charge", 3, []),
    "supervised": (
        "turn:1/tool:delegate_to_money/turn:{}/tool:charge",
        "supervisor:boss/worker:money/tool:charge",
        8,
        ["note w"],
    ),
    "swarmed": ("payer/turn:{}/tool:charge", "swarm:desk/agent:payer/tool:charge", 4, ["note w"]),
    "as_a_tool": ("turn:0/tool:payer/turn:{}/tool:charge", "agent:outer/agent:payer/tool:charge", 5, []),
    "third_level": (
        "team/turn:0/tool:delegate_to_desk/payer/turn:{}/tool:charge",
        "chain:flow/supervisor:boss/worker:desk/agent:payer/tool:charge",
        6,
        ["note w"],
    ),
}


@pytest.fixture
def teams(play):
    """Stories of teams, played by fresh processes."""
    play.module = _teams.__name__
    return play


def paid(teams):
    return [mark for mark in teams.marks if mark.startswith("paid")]


def noted(teams):
    return [mark for mark in teams.marks if mark.startswith("note")]


@pytest.mark.case("S20")
@pytest.mark.case("S21")
@pytest.mark.case("S42")
@pytest.mark.case("S44")
@pytest.mark.case("S49")
@pytest.mark.case("S50")
@pytest.mark.parametrize("form", FORMS)
def test_two_approvals_are_asked_and_answered_by_a_process_each_wherever_the_agent_stands(teams, form):
    place, path, models, notes = FORMS[form]
    came = teams.start(form, GIVEN)
    for turn, answer in enumerate((YES, NO)):
        (question,) = came.pending_interrupts
        assert (question.node_id, question.agent_path) == (place.format(turn), path)
        assert teams.pending() == [question]
        # An answer that was meant for another question is refused, and nothing is consumed.
        stray = Resume(approved=True, interrupt_id=question.interrupt_id + "0")
        assert "UnknownInterrupt" in teams.resume(stray).bases
        assert paid(teams) == ["paid 1"] * turn
        came = teams.resume(Resume(answer.approved, answer.metadata, question.interrupt_id))
    assert came.status == "completed"
    assert (paid(teams), noted(teams)) == (["paid 1"], notes)
    assert teams.world.count("model") == models
    assert "refused by the provider" not in teams.marks
    charges = [(call["status"], call["output"]) for call in came.tool_calls if call["name"] == "charge"]
    assert charges[0] == ("ok", "charged 1")
    assert charges[1][0] == "refused"
    assert "no money" in charges[1][1]
    assert "AlreadyResumed" in teams.resume(NO).bases


@pytest.mark.case("S42")
@pytest.mark.parametrize("form", ["supervised", "swarmed", "third_level"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_in_the_recovery_repeats_what_was_under_way_and_no_finished_worker_agent_or_tool(teams, form, when):
    place = FORMS[form][0]
    teams.start(form, GIVEN)
    teams.resume(YES, die=f"{when} tool {place.format(0)}")
    died = teams.resume(die=f"after append {place.format(1).removesuffix('/tool:charge')}")
    assert died.result is None
    came = teams.resume()
    assert came.pending_interrupts[0].node_id == place.format(1)
    came = teams.resume(YES)
    assert came.status == "completed"
    assert (paid(teams), noted(teams)) == (["paid 1", "paid 2"], FORMS[form][3])
    assert "refused by the provider" not in teams.marks


@pytest.mark.parametrize(
    ("die", "notes"),
    [
        ("after tool front/turn:0/tool:note", 2),
        ("before append handoff:1", 2),
        ("after append handoff:1", 1),
        ("before model payer/turn:0", 1),
    ],
)
def test_a_kill_around_a_handoff_leads_to_the_agent_that_was_at_work(teams, die, notes):
    """Before the row of the handoff that of the tool is the newest: the tool runs again, and its model is not asked."""
    teams.start("swarmed", GIVEN, die=die)
    assert teams.resume().pending_interrupts[0].node_id == "payer/turn:0/tool:charge"
    assert len(noted(teams)) == notes
    assert teams.world.count("model") == 2


@pytest.mark.case("S45")
def test_two_runs_of_one_team_are_resumed_interleaved_with_different_decisions(teams):
    for run in ("a", "b"):
        teams.start("supervised", GIVEN, run)
    for answers in ({"a": YES, "b": NO}, {"a": NO, "b": YES}):
        came = {run: teams.resume(answer, run=run) for run, answer in answers.items()}
    found = {
        run: [call["status"] for call in each.tool_calls if call["name"] == "charge"] for run, each in came.items()
    }
    assert found == {"a": ["ok", "refused"], "b": ["refused", "ok"]}
    assert sorted(paid(teams)) == ["paid 1", "paid 2"]


@pytest.mark.case("S95")
@pytest.mark.parametrize("form", ["two_tasks", "two_tasks_unstored"])
def test_tasks_for_one_worker_are_all_done_and_told_apart_with_a_store_and_without(teams, form):
    came = teams.start(form, GIVEN)
    assert came.status == "completed"
    own = [call for call in came.tool_calls if not call["place"]]
    assert [call["arguments"]["task"] for call in own] == ["task 0", "task 1", "task 2"]
    inside = [call["place"] for call in came.tool_calls if call["place"]]
    assert inside == [
        "turn:0/tool:delegate_to_writer",
        "turn:0/tool:delegate_to_writer#2",
        "turn:1/tool:delegate_to_writer",
    ]
    assert teams.world.count("echo") == 3


@pytest.mark.case("S27")
def test_a_team_that_fails_inside_a_chain_fails_the_run_there_and_goes_on_there(teams):
    teams.world.shatter("line")
    assert teams.start("failing", GIVEN).error == "Broken"
    assert teams.rows()[-1].extra["node"] == "team/turn:0/tool:delegate_to_w/turn:0"
    assert (teams.head().status, teams.world.count("last")) == ("failed", 0)
    teams.world.mend("line")
    came = teams.resume()
    assert (came.status, came.final_state["said"]) == ("completed", "all done")
    assert (teams.world.count("first"), teams.world.count("last")) == (1, 1)


@pytest.mark.case("S36")
def test_bytes_are_refused_before_a_model_is_called_and_so_is_a_tool_that_returns_them(teams):
    assert "NodeResultError" in teams.start("supervised", {"input": b"x"}).bases
    assert teams.world.count("model") == 0
    teams.world.shatter("bytes")
    assert "NodeResultError" in teams.start("bytes_from_a_tool", GIVEN, "other").bases
    teams.world.mend("bytes")
    assert teams.resume(run="other").status == "completed"
    assert teams.world.count("look") == 2


def test_decide_cancel_fork_and_result_of_a_team_are_done_by_processes_that_know_only_the_store(teams):
    teams.start("third_level", GIVEN)
    branch = teams("fork", "r-1", new_execution_id="branch")
    assert branch.pending_interrupts[0].node_id == FORMS["third_level"][0].format(0)
    teams("cancel", "branch")
    assert "RunCancelled" in teams.resume(YES, run="branch").bases
    assert teams.resume(run="branch", reopen=True).status == "paused"
    teams("decide", "r-1", YES)
    assert paid(teams) == []
    assert teams.resume().pending_interrupts[0].node_id == FORMS["third_level"][0].format(1)
    done = teams.resume(YES)
    read = teams("result", "r-1")
    assert (read.status, read.tool_calls, read.tokens) == ("completed", done.tool_calls, done.tokens)
    assert paid(teams) == ["paid 1", "paid 2"]
