"""Questions inside nested chains, several of them, in several runs: each answer goes to its own."""

from __future__ import annotations

import asyncio

import pytest

from fastdur import Resume
from tests.cases import _story
from tests.cases._server import attempt
from tests.cases.conftest import RUN, Here, Play, together

YES = Resume(approved=True, metadata={"by": "ada"})


def answer(number, interrupt_id=None):
    return Resume(approved=True, metadata={"answer": number}, interrupt_id=interrupt_id)


@pytest.mark.case("S45")
@pytest.mark.parametrize("at_once", [False, True])
def test_two_runs_of_one_chain_resumed_side_by_side_get_their_own_decisions(here, at_once):
    """Wrong: an answer, or a state, that is kept on the chain object or in the process."""
    here.build("asking_twice")
    runs = ["one", "two"]
    for run in runs:
        assert here("execute", {"run": run}, run).status == "paused"
    for step in ("first", "second"):
        resumes = [
            lambda run=run, step=step: attempt(
                here.chain, "resume", here.flavour, run, Resume(run == "one", f"{run} {step}")
            )
            for run in runs
        ]
        came = together(*resumes) if at_once else [resume() for resume in resumes]
        assert {one.error for one in came} == {None}
    for run in runs:
        found = here.chain.result(run)
        assert (found.status, found.final_state["run"]) == ("completed", run)
        assert found.final_state["b said"] == [[run == "one", f"{run} first"], [run == "one", f"{run} second"]]


OPTIONS = {
    "modified_state": {"more": 1},
    "agent_path_prefix": "mid/in/y",
    "context": "a context",
    "takeover": True,
    "accept_graph": True,
    "reopen": True,
}


@pytest.mark.case("S46")
@pytest.mark.parametrize("options", [{}, *({name: value} for name, value in OPTIONS.items()), OPTIONS], ids=list)
def test_the_decision_is_honoured_with_each_option_and_with_all_of_them(play, options):
    """Wrong: a branch for an option that forgets the answer."""
    play.start("asking_thrice")
    for number in range(3):
        done = play.resume(answer(number), **options)
    assert done.status == "completed"
    assert done.final_state["y said"] == [[True, {"answer": number}] for number in range(3)]
    assert ("more" in done.final_state) == ("modified_state" in options)


@pytest.mark.case("S47")
@pytest.mark.parametrize(
    "die",
    ["after claim interrupt child/c1", "before node child/c1", "before append child/c1", "after append child/c1"],
)
@pytest.mark.parametrize("again", [(), (YES,)])
def test_after_a_crash_behind_the_first_answer_only_the_second_question_is_pending(play, die, again):
    """Wrong: the first question comes back, or its answer is given to the second."""
    play.start("child_asks_twice")
    play.resume(YES, die=die)
    if again and die == "after append child/c1":
        assert play.resume(*again).error == "AlreadyResumed"
        again = ()
    assert play.resume(*again).status == "paused"
    assert [one.interrupt_id for one in play.pending()] == ["child#1/c2#1/1"]
    done = play.resume(answer(2))
    assert (done.final_state["c1 said"], done.final_state["c2 said"]) == (
        [[True, {"by": "ada"}]],
        [[True, {"answer": 2}]],
    )
    assert done.status == "completed"
    assert play.marks.count("p") == play.marks.count("pay q") == 1


@pytest.mark.case("S48")
def test_at_each_level_of_a_nesting_the_listed_id_is_the_one_that_resume_accepts(play):
    """Wrong: an id in the list that lacks a level, or that only the process that asked knows."""
    play.start("each_level")
    places = []
    for number in range(3):
        (listed,) = play.pending()
        places.append((listed.node_id, listed.agent_path))
        wrong = listed.interrupt_id.rpartition("/")[2]
        assert play.resume(answer(number, wrong)).error == "UnknownInterrupt"
        done = play.resume(answer(number, listed.interrupt_id))
    assert places == [
        ("t", "chain:top"),
        ("mid/m", "chain:top/chain:middle"),
        ("mid/low/l", "chain:top/chain:middle/chain:low"),
    ]
    assert done.status == "completed"
    assert [done.final_state[f"{node} said"] for node in "tml"] == [[[True, {"answer": n}]] for n in range(3)]


@pytest.mark.case("S48")
@pytest.mark.parametrize("prefix", ["mid", "mid#1", "mid/in", "mid/in/y", "mid#1/in#1/y#1"])
def test_an_answer_is_aimed_by_any_address_above_its_question(play, prefix):
    play.start("asking_thrice")
    assert play.resume(YES, agent_path_prefix="mi").error == "UnknownInterrupt"
    assert play.resume(YES, agent_path_prefix=prefix).pending_interrupt.reason == "2?"


@pytest.mark.case("S48")
@pytest.mark.parametrize("levels", [1, 2, 3])
def test_an_answer_is_aimed_by_the_agent_path_of_its_question_or_of_any_level_above(play, levels):
    """Wrong: `pending.agent_path` shows one way to name a place, and `agent_path_prefix` takes only another."""
    whole = play.start("asking_thrice").pending_interrupt.agent_path
    prefix = "/".join(whole.split("/")[:levels])
    assert whole.count("/") == 2
    assert play.resume(YES, agent_path_prefix=prefix[:-1]).error == "UnknownInterrupt"
    assert play.resume(YES, agent_path_prefix=f"{whole}/more").error == "UnknownInterrupt"
    assert play.resume(YES, agent_path_prefix=prefix).pending_interrupt.reason == "2?"


@pytest.mark.case("S50")
def test_a_nested_chain_that_asks_three_times_needs_three_resumes_from_three_processes(play):
    """Wrong: a second pause that is lost inside the resume of the first, or outer levels that start again."""
    reasons = [play.start("asking_thrice").pending_interrupt.reason]
    for number in range(3):
        done = play.resume(answer(number))
        reasons += [done.pending_interrupt.reason] if done.pending_interrupt else []
    assert reasons == ["1?", "2?", "3?"]
    assert done.status == "completed"
    assert done.final_state["path"] == ["o", "m", "x", "y", "z", "end"]
    assert play.marks == ["o", "m", "x", "y", "y", "y", "y", "z", "pay z", "end"]
    assert play.path() == ["o", "mid/m", "mid/in/x", "mid/in/y", "mid/in/z", "mid/in", "mid", "end"]


@pytest.mark.case("S51")
def test_two_nodes_of_a_nested_chain_pause_each_on_its_own(play):
    """Wrong: the answer to c1 is taken by c2 as well, so that nobody is asked there."""
    assert play.start("child_asks_twice").pending_interrupt.interrupt_id == "child#1/c1#1/1"
    assert play.resume(answer(1)).pending_interrupt.interrupt_id == "child#1/c2#1/1"
    done = play.resume(Resume(approved=False))
    assert (done.final_state["c1 said"], done.final_state["c2 said"]) == ([[True, {"answer": 1}]], [[False, {}]])


@pytest.mark.case("S51")
def test_two_questions_of_one_node_keep_their_answers_on_every_later_run_of_it(play):
    """Wrong: the last answer for every call, or the first answer asked for again when the node fails and runs again."""
    play.start("asking_twice")
    play.world.shatter("b")
    assert play.resume(answer(1)).pending_interrupt.reason == "second?"
    assert play.resume(answer(2)).error == "Broken"
    play.resume(die="b#4")
    play.world.mend("b")
    done = play.resume()
    assert done.final_state["b said"] == [[True, {"answer": 1}], [True, {"answer": 2}]]
    assert play.marks == ["a", "b", "b", "b", "b", "b", "c", "pay c"]


@pytest.mark.case("S51")
def test_a_question_of_a_later_round_is_another_question(play):
    """Wrong: the answer of round one answers round two, because the node is the same."""
    (first,) = play.start("asking_each_round").pending_interrupts
    (second,) = play.resume(answer(1)).pending_interrupts
    assert (first.interrupt_id, second.interrupt_id) == ("work#1/1", "work#2/1")
    assert play.resume(answer(9, first.interrupt_id)).error == "AlreadyResumed"
    done = play.resume(answer(2))
    assert done.status == "completed"
    assert done.final_state["work said"] == [[True, {"answer": 2}]]


@pytest.mark.case("S52")
@pytest.mark.asyncio
async def test_sync_calls_inside_a_running_loop_work_as_they_do_outside(store, world):
    """Wrong: "loop is already running", or a coroutine that nobody awaits."""
    chain = _story.asking(world, store)
    assert chain.execute({}, RUN).status == "paused"
    assert chain.resume(RUN, YES).final_state["b said"] == [[True, {"by": "ada"}]]
    assert world.marks() == ["a", "b", "b", "c", "pay c"]
    assert chain.result(RUN).status == (await chain.aresult(RUN)).status == "completed"


@pytest.mark.case("S52")
@pytest.mark.parametrize("inside", [False, True])
def test_a_sync_call_that_would_meet_an_async_node_names_the_async_call_and_starts_nothing(store, tmp_path, inside):
    """Wrong: a coroutine stored as the node's result, or a hidden loop."""
    here = Here(store, tmp_path, "async")
    here.build("asking")

    def refused(method, *args):
        async def main():
            return attempt(here.chain, method, "sync", *args)

        came = asyncio.run(main()) if inside else attempt(here.chain, method, "sync", *args)
        assert (came.error, f"a{method}" in came.text) == ("NodeIsAsync", True)

    refused("execute", {}, RUN)
    assert store.get_execution(RUN) is None
    here("execute", {}, RUN)
    before = here.dump()
    refused("resume", RUN, YES)
    assert here.dump() == before


@pytest.mark.case("S52")
def test_effects_and_questions_in_sync_nodes_of_an_async_run_know_their_run(server, tmp_path):
    """Wrong: a context variable that does not reach the thread of a sync node."""
    play = Play(server, tmp_path, "threads")
    assert play.start("asking").status == "paused"
    assert play.resume(YES).status == "completed"
    assert play.marks == ["a", "b", "b", "c", "pay c"]
