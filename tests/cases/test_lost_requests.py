"""No question and no run gets lost: everything is checked before it is consumed, whatever was claimed can be recovered."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from itertools import count

import pytest

from fastdur import Chain, NodeIsAsync, Resume, StoreUnavailable, decide, interrupt, observe
from tests.cases import _story
from tests.cases._opened import another
from tests.cases._server import attempt
from tests.cases.conftest import RUN

YES = Resume(approved=True, metadata={"by": "ada"})
NESTED = {"by": {"name": "ada", "roles": ["a", ("b", 1.0)], "at": datetime(2024, 1, 2, tzinfo=UTC)}, "": None, "n": 0}


def failing_at(store, method, number):
    """The same store; the k-th call of one of its methods fails."""
    failing = another(store)
    whole = getattr(failing, method)
    calls = count(1)

    def fails(*args, **keywords):
        if next(calls) == number:
            raise StoreUnavailable("the store does not answer")
        return whole(*args, **keywords)

    setattr(failing, method, fails)
    return failing


@pytest.mark.case("S08")
@pytest.mark.parametrize("method", ["get_execution", "get_last"])
def test_a_store_that_cannot_be_read_loses_no_question(here, method):
    """Wrong: taking the question first and reading afterwards."""
    here.build("asking")
    here("execute", {}, RUN)
    before = here.dump()
    failing = failing_at(here.store, method, 1)
    came = attempt(_story.asking(here.world, failing), "resume", here.flavour, RUN, YES)
    failing.close()
    assert came.error == "StoreUnavailable"
    assert here.dump() == before
    assert len(here.store.list_pending_interrupts(RUN)) == 1
    assert here("resume", RUN, YES).status == "completed"


@pytest.mark.case("S08")
@pytest.mark.parametrize("method", ["list_idempotent", "record_interrupt"])
def test_a_store_that_fails_after_the_claim_has_kept_the_decision(here, method):
    """Wrong: the decision is only in the memory of the process that claimed the question."""
    here.build("asking_twice")
    here("execute", {}, RUN)
    failing = failing_at(here.store, method, 1)
    first = attempt(_story.asking_twice(here.world, failing), "resume", here.flavour, RUN, YES)
    failing.close()
    assert first.error == "StoreUnavailable"
    assert here("resume", RUN, *([YES] if method == "list_idempotent" else [])).status == "paused"
    assert [one.reason for one in here.store.list_pending_interrupts(RUN)] == ["second?"]
    done = here("resume", RUN, Resume(approved=False))
    assert done.final_state["b said"] == [[True, {"by": "ada"}], [False, {}]]


@pytest.mark.case("S08")
@pytest.mark.parametrize(
    ("args", "keywords", "names"),
    [
        ((Resume(approved=True, metadata={"k": threading.Lock()}),), {}, "metadata['k']"),
        ((YES,), {"modified_state": {"k": threading.Lock()}}, "modified_state['k']"),
        ((YES,), {"modified_state": [("k", 1)]}, "modified_state"),
        (({"approved": True},), {}, "Resume("),
        ((True,), {}, "Resume("),
    ],
)
def test_an_answer_or_a_change_that_cannot_be_kept_is_refused_before_the_question_is_taken(here, args, keywords, names):
    """Wrong: claiming first, so that the question is gone when the value turns out to be no good."""
    here.build("asking")
    here("execute", {}, RUN)
    before = here.dump()
    came = attempt(here.chain, "resume", here.flavour, RUN, *args, **keywords)
    assert "TypeError" in came.bases
    assert names in came.text
    assert here.dump() == before
    assert here("resume", RUN, YES).status == "completed"


@pytest.mark.case("S08")
def test_a_sync_resume_of_an_async_chain_is_refused_before_the_question_is_taken(server, store, tmp_path):
    """Wrong: finding out only when the node is called."""

    async def ask(_state):
        interrupt("ok?")

    chain = Chain("c", checkpointer=store).add_node("ask", ask)
    attempt(chain, "execute", "async", {}, RUN)
    with pytest.raises(NodeIsAsync, match="aresume"):
        chain.resume(RUN, YES)
    assert len(store.list_pending_interrupts(RUN)) == 1
    assert attempt(chain, "resume", "async", RUN, YES).status == "completed"


@pytest.mark.case("S09")
@pytest.mark.parametrize("die", ["after claim interrupt b", "before node b", "b#2", "before append b"])
@pytest.mark.parametrize("way", ["resume", "resume with the same answer", "recover", "cancel"])
def test_a_question_whose_answerer_has_died_is_no_dead_end(play, die, way):
    """Wrong: the question is deleted and the decision with it, so that both kinds of resume are refused for ever."""
    play.start("asking")
    play.resume(YES, die=die)
    assert play.pending() == []
    assert [head.execution_id for head in play.read("list_executions", unfinished=True)] == [RUN]
    assert (play.head().status, play("result", RUN).status) == ("running", "running")
    if way == "cancel":
        play("cancel", RUN)
        assert play.head().status == "cancelled"
        return
    if way == "recover":
        (recovered,) = play("recover").result
        done = recovered.result
    else:
        done = play.resume(*([YES] if "same" in way else []))
    assert (done.status, done.final_state["b said"]) == ("completed", [[True, {"by": "ada"}]])


@pytest.mark.case("S10")
@pytest.mark.parametrize("way", ["resume", "by keyword", "by id", "by address", "decide", "recover", "of the package"])
@pytest.mark.parametrize("approved", [True, False])
def test_every_way_to_answer_gives_interrupt_exactly_that_decision(play, way, approved):
    """Wrong: an entry point that drops the metadata, turns it into text, or restarts the node without it."""
    answer = Resume(approved=approved, metadata=NESTED)
    (asked,) = play.start("asking").pending_interrupts
    if way == "resume":
        done = play.resume(answer)
    elif way == "by keyword":
        done = play.resume(resume_value=answer)
    elif way == "by id":
        done = play.resume(Resume(approved, NESTED, asked.interrupt_id))
    elif way == "by address":
        done = play.resume(answer, agent_path_prefix=asked.node_id)
    elif way == "recover":
        play("decide", RUN, answer)
        done = play("recover").result[0].result
    else:
        play("decide", RUN, answer, **({"story": "package"} if way == "of the package" else {}))
        assert play.marks == ["a", "b"]
        done = play.resume()
    assert done.status == "completed"
    assert done.final_state["b said"] == [[approved, NESTED]]
    assert play.marks == ["a", "b", "b", "c", "pay c"]


@pytest.mark.case("S11")
def test_an_answer_to_a_question_that_is_not_there_names_it_and_lists_those_that_are(play):
    """Wrong: consuming the only open question, whatever the id says."""
    play.start("each_level", run="other")
    other = [play.resume(YES, run="other").pending_interrupt.interrupt_id for _ in range(2)][-1]
    play.start("asking_twice")
    play.resume(YES)
    before, marks = play.dump(), play.marks
    for wanted, error in [("zzz#9/9", "UnknownInterrupt"), (other, "UnknownInterrupt"), ("b#1/1", "AlreadyResumed")]:
        for method in ("resume", "decide"):
            came = play(method, RUN, Resume(approved=True, interrupt_id=wanted))
            assert came.error == error
            assert repr(wanted) in came.text
            assert error == "AlreadyResumed" or "'b#1/2'" in came.text
    assert (play.dump(), play.marks) == (before, marks)


@pytest.mark.case("S12")
@pytest.mark.parametrize("die", ["b", "pay b", "before append b"])
def test_a_run_killed_in_its_second_node_is_listed_as_unfinished_with_the_first_as_its_last_step(play, die):
    """Wrong: nothing is stored before a node ends, or killed looks like paused, failed or completed."""
    play.start("three", die=die)
    play.start("asking", run="paused")
    play.start("three", run="completed")
    play.world.shatter("b")
    play.start("three", run="failed")
    unfinished = {head.execution_id: head.status for head in play.read("list_executions", unfinished=True)}
    assert unfinished == {RUN: "running", "paused": "paused", "failed": "failed"}
    assert [row.node_id for row in play.rows()] == ["a"]
    assert [head.execution_id for head in play.read("list_executions", status="running", runner="three")] == [RUN]


@pytest.mark.case("S100")
@pytest.mark.parametrize("die", ["after start", "before append b"])
def test_a_run_with_a_generated_id_is_found_by_its_runner_with_its_input_and_can_go_on(play, die):
    """Wrong: the id is known only to the process that made it up."""
    play.start("three", {"order": "A-1"}, run=None, die=die)
    play.start("asking", run="of another runner")
    (head,) = play.read("list_executions", runner="three", unfinished=True)
    assert head.input == {"order": "A-1"}
    last = play.read("get_last", head.execution_id)
    assert (last.node_id if last else None) == (None if die == "after start" else "a")
    play.story = "three"
    assert play.resume(run=head.execution_id).final_state["path"] == ["a", "b", "c"]


@pytest.mark.case("S03")
def test_a_pause_comes_with_its_question_although_somebody_answers_at_once(store):
    """Wrong: reading what waits after the pause was stored, and finding that nothing does."""
    chain = Chain("c", checkpointer=store).add_node("ask", lambda _: {"ok": interrupt("ok?", {"sum": 5}).approved})

    def answer(boundary):
        if (boundary.when, boundary.name) == ("after", "pause ask"):
            decide(RUN, YES, store)

    with observe(answer, store):
        paused = chain.execute({}, RUN)
    asked = paused.pending_interrupt
    assert (paused.status, asked.interrupt_id, asked.context) == ("paused", "ask#1/1", {"sum": 5})
    assert (asked.node_id, asked.runner, asked.agent_path) == ("ask", "c", "chain:c")
    assert asked.created_at == chain.result(RUN).history[0].created_at
    assert chain.resume(RUN).output == {"ok": True}


@pytest.mark.case("S03")
def test_what_is_read_of_a_run_is_of_one_moment(store):
    """Wrong: a status from before an answer beside questions and rows from after it."""
    chain = Chain("c", checkpointer=store).add_node("ask", lambda _: {"ok": interrupt("ok?").approved})
    chain.execute({}, RUN)

    def answer(boundary):
        if (boundary.when, boundary.name) == ("before", "history"):
            chain.resume(RUN, YES)

    with observe(answer, store):
        found = chain.result(RUN)
    assert (found.status, len(found.pending_interrupts), len(found.history)) == ("paused", 1, 1)
    assert chain.result(RUN).status == "completed"
