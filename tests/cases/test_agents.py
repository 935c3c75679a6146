"""Agents in processes that die: what was done is not done again, what was decided stays decided."""

from __future__ import annotations

from itertools import pairwise

import pytest

from fastdur import Resume
from fastdur.boundaries import observe
from tests.cases import _agents
from tests.cases._opened import on_files
from tests.cases.conftest import RUN
from tests.cases.test_growth import bytes_stored

YES = Resume(approved=True, metadata={"by": "ada"})
NO = Resume(approved=False)
GIVEN = {"input": "hi"}


@pytest.fixture
def agents(play):
    """Stories of agents, played by fresh processes."""
    play.module = _agents.__name__
    return play


@pytest.mark.case("S14")
def test_a_completed_run_of_an_agent_is_not_resumed(agents):
    assert agents.start("charging_agent", GIVEN).output == "done"
    marks, before = agents.marks, agents.dump()
    assert "AlreadyResumed" in agents.resume().bases
    assert (agents.marks, agents.dump()) == (marks, before)


@pytest.mark.case("S15")
def test_an_output_check_that_raises_is_resumed_after_the_loop(agents):
    """Wrong: the failure is outside of what is stored, and a resume starts the loop again."""
    agents.world.shatter("check")
    assert agents.start("checked_agent", GIVEN).error == "Broken"
    assert agents.head().status == "failed"
    assert agents.rows()[-1].step_type == "run_end"
    agents.world.mend("check")
    assert agents.resume().final_state["output"] == {"amount": 5}
    assert agents.world.count("charge") == agents.world.count("paid 5") == 1


@pytest.mark.parametrize(
    ("die", "models", "charges"),
    [
        ("before model turn:0", 2, 1),
        ("after model turn:0", 3, 1),
        ("before append turn:0/tool:charge", 3, 1),
        ("after append turn:0/tool:charge", 2, 1),
        ("after effect begin charge@turn:0/tool:charge", 2, 2),
        ("after tool turn:0/tool:charge", 2, 2),
        ("after append turn:1", 2, 1),
        ("after append turn:2", 2, 1),
    ],
)
def test_a_kill_repeats_what_was_under_way_and_nothing_else(agents, die, models, charges):
    agents.start("charging_agent", GIVEN, die=die)
    assert agents.resume().output == "done"
    assert agents.world.count("model") == models
    assert agents.world.count("charge") == charges
    assert agents.world.count("paid 5") == 1


@pytest.mark.case("S20")
@pytest.mark.case("S42")
@pytest.mark.parametrize("answer", [YES, NO])
def test_a_refused_tool_never_runs_and_every_call_has_its_answer(agents, answer):
    agents.start("approving_agent", GIVEN)
    assert [each.reason for each in agents.pending()] == ["approve_charge"]
    agents.resume(answer, die="after append turn:1")
    done = agents.resume()
    assert agents.world.count("charge") == int(answer.approved)
    assert (agents.world.count("note a"), agents.world.count("note b")) == (1, 0)
    assert [each["tool_call_id"] for each in done.tool_calls] == ["1", "2", "3"]
    assert done.tool_calls[1]["status"] == ("ok" if answer.approved else "refused")


@pytest.mark.case("S24")
def test_the_bound_of_turns_trips_where_it_would_have_without_crashes(agents):
    agents.start("looping_agent", GIVEN, die="after append turn:2/tool:note")
    agents.resume(die="after append turn:3/tool:note")
    assert agents.resume().error == "AgentLimitError"
    assert agents.world.count("model") == 5
    assert agents.world.count("note x") == 5


@pytest.mark.case("S26")
def test_after_a_crash_in_turn_two_the_later_turns_all_run(agents):
    agents.start("four_turns", GIVEN, die="before tool turn:1/tool:note")
    done = agents.resume()
    assert [each["output"] for each in done.tool_calls] == ["0", "1", "2", "3"]
    assert [agents.world.count(f"note {n}") for n in range(4)] == [1] * 4


@pytest.mark.case("S44")
@pytest.mark.case("S50")
@pytest.mark.case("S51")
def test_three_questions_three_levels_down_are_answered_by_three_processes(agents):
    asked = agents.start("levels", GIVEN)
    for number in range(3):
        assert asked.pending_interrupts[0].reason == f"{number}?"
        asked = agents.resume(Resume(approved=True, metadata={"by": str(number)}))
    assert (asked.status, asked.final_state["said"]) == ("completed", "all done")
    assert agents.world.count("first") == agents.world.count("last") == 1
    assert agents.world.count("model") == 4


# -- from outside --------------------------------------------------------------------------------------------------------


@pytest.mark.case("S53")
@pytest.mark.case("S60")
def test_a_waiting_agent_is_read_forked_cancelled_reopened_and_answered_by_any_process(agents):
    """Wrong: a call that knows chains alone, an answer that is lost, or a branch that starts past the gate."""
    agents.start("approving_agent", GIVEN)
    assert agents("result", RUN).status == "paused"
    assert agents("fork", RUN, new_execution_id="f").status == "paused"
    agents("cancel", RUN)
    assert (agents.pending(), len(agents.pending("f"))) == ([], 1)
    assert (agents("result", RUN).status, agents.resume(YES).error) == ("cancelled", "RunCancelled")
    assert agents.resume(reopen=True).status == "paused"
    for run in (RUN, "f"):
        agents("decide", run, YES)
        assert (agents.pending(run), agents.world.count("charge")) == ([], int(run == "f"))
        assert agents.resume(run=run).status == "completed"
        assert agents("result", run).output == "done"
        assert agents("cancel", run).error == "AlreadyResumed"
    assert agents.world.count("charge") == agents.world.count("paid 5") == 2


@pytest.mark.case("S09")
@pytest.mark.parametrize("story", ["approving_agent", "levels"])
def test_one_that_died_before_its_first_row_and_was_cancelled_can_be_reopened(agents, story):
    """Wrong: a run that no call leads on, because nobody had begun its conversation."""
    agents.start(story, GIVEN, die="after start")
    assert agents("cancel", RUN).error is None
    assert agents("result", RUN).status == "cancelled"
    came = agents.resume(reopen=True)
    assert (came.error, came.status) == (None, "paused"), came.text
    assert len(agents.pending()) == 1


@pytest.mark.case("S54")
def test_an_agent_that_is_being_worked_on_is_cancelled_from_another_process_and_can_be_reopened(agents):
    """Wrong: its owner goes on, or what it had done is done again."""
    with agents.held("charging_agent", "paid 5", given=GIVEN) as held:
        assert agents("result", RUN).status == "running"
        assert agents("cancel", RUN).error is None
        after = agents.dump()
    assert held.came.error == "RunCancelled"
    assert agents.dump() == after
    done = agents.resume(reopen=True)
    assert (done.output, done.tool_calls[0]["status"]) == ("done", "ok")


# -- growth --------------------------------------------------------------------------------------------------------------


def grown(here, turns, size, run):
    agent = _agents.many_turns(here.store, turns, size)
    appended = []
    with observe(lambda at: at.name.startswith("append") and appended.append(at.when), here.store):
        assert agent.run("hi", run).status == "completed"
    return bytes_stored(here.file)[0], appended.count("after")


@on_files
@pytest.mark.case("S88")
def test_twice_the_turns_are_twice_the_bytes(here):
    totals = [grown(here, turns, 10_000, str(turns))[0] for turns in (50, 100, 200)]
    sizes = [now - before for before, now in pairwise([0, *totals])]
    assert all(more <= 2.6 * less for less, more in pairwise(sizes)), sizes
    assert sizes[-1] < 1.2 * 200 * 10_000


@on_files
@pytest.mark.case("S88")
def test_a_turn_of_one_tool_is_two_rows_and_a_thousand_of_a_kilobyte_store_little_more_than_what_was_said(here):
    """Wrong: the messages so far in every row: 500 MB."""
    few, few_rows = grown(here, 100, 1_000, "few")
    many, many_rows = grown(here, 1_000, 1_000, "many")
    assert (few_rows, many_rows) == (2 * 100 + 3, 2 * 1_000 + 3)
    assert many - few <= 12 * few
    assert many - few <= 2 * 1_000 * 1_000
