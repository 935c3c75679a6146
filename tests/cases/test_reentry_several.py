"""The re-entry table where several questions are open at once, in two nested chains side by side."""

from __future__ import annotations

import pytest

from fastdur import Chain, Checkpoint, PendingInterrupt, Resume
from fastdur.checkpointers.protocol import Start
from fastdur.records import Frame, Question
from tests.cases._server import attempt
from tests.cases.conftest import RUN

YES = Resume(approved=True, metadata={"by": "ada"})
IDS = ["s1#1/b#1/1", "s2#1/b#1/1"]


def to(interrupt_id, approved=True):
    return Resume(approved, {"by": "ada"}, interrupt_id)


@pytest.fixture
def two_open(here):
    """A run that waits in both of its nested chains, written as a process that runs branches would write it."""

    def sub(name):
        return Chain(name).add_node("b", here.world.step("b", asks=("ok?",)))

    store = here.store
    here.chain = Chain("two", checkpointer=store).add_node("s1", sub("one"), output_key="r1")
    here.chain.add_node("s2", sub("two"), output_key="r2")
    here.chain.validate()
    claim = store.start_execution(Start(RUN, "two", "chain", here.chain.graph(), {}, "token", "gone"))
    children = tuple(
        Frame(name, 1, {"data": {}}, (Question(f"{name}#1/b#1/1", "ok?", {"asked by": "b"}),)) for name in ("s1", "s2")
    )
    asked = [PendingInterrupt(RUN, one, "two", one[:2] + "/b", "ok?", {"asked by": "b"}, "", 0.0) for one in IDS]
    frame = Frame("", 0, {"data": {}}, (), children)
    row = Checkpoint(RUN, 1, f"{claim.run}-1-x", "s2/b", 0, "hitl_pause", "interrupted", frame)
    store.record_interrupt(claim, row, asked, "paused")
    return here


def pending(here):
    return [one.interrupt_id for one in here.store.list_pending_interrupts(RUN)]


@pytest.mark.case("S40")
@pytest.mark.parametrize("method", ["resume", "decide"])
def test_a_bare_answer_that_fits_several_questions_is_refused_and_lists_them(two_open, method):
    """Wrong: the oldest, the newest or every open question is answered."""
    before = two_open.dump()
    came = attempt(two_open.chain, method, two_open.flavour, RUN, YES)
    assert came.error == "AmbiguousResume"
    assert all(repr(one) in came.text for one in IDS)
    assert (two_open.dump(), two_open.marks) == (before, [])


def test_an_answer_that_fits_none_of_several_questions_is_refused_and_lists_them(two_open):
    before = two_open.dump()
    for value, keywords in [
        (to("s3#1/b#1/1"), {}),
        (YES, {"agent_path_prefix": "s3"}),
        (to(IDS[0]), {"agent_path_prefix": "s2"}),
    ]:
        came = attempt(two_open.chain, "resume", two_open.flavour, RUN, value, **keywords)
        assert came.error == "UnknownInterrupt"
        assert all(repr(one) in came.text for one in IDS)
    came = attempt(two_open.chain, "resume", two_open.flavour, RUN)
    assert (came.error, all(one in came.text for one in IDS)) == ("ChainResumeError", True)
    assert two_open.dump() == before


@pytest.mark.parametrize("aim", ["by id", "by address"])
def test_an_aimed_answer_goes_to_its_question_and_the_run_pauses_at_the_other(two_open, aim):
    """Wrong: the other question is withdrawn, or the run ends although it is open."""
    args, keywords = ((to(IDS[0]),), {}) if aim == "by id" else ((YES,), {"agent_path_prefix": "s1"})
    came = two_open("resume", RUN, *args, **keywords)
    assert (came.status, came.pending_interrupt.interrupt_id) == ("paused", IDS[1])
    assert pending(two_open) == IDS[1:]
    again = attempt(two_open.chain, "resume", two_open.flavour, RUN, to(IDS[0]))
    assert again.error == "AlreadyResumed"
    done = two_open("resume", RUN, Resume(approved=False))
    assert done.final_state["r1"]["b said"] == [[True, {"by": "ada"}]]
    assert done.final_state["r2"]["b said"] == [[False, {}]]


def test_what_is_due_goes_on_without_an_answer_and_ends_paused_where_questions_are_left(two_open):
    """Wrong: refusing to go on because something is asked, or asking again what is open."""
    two_open("decide", RUN, to(IDS[0]))
    assert pending(two_open) == IDS[1:]
    assert two_open.store.get_execution(RUN).status == "running"
    assert two_open("resume", RUN).status == "paused"
    assert two_open.marks == ["b"]
    assert pending(two_open) == IDS[1:]


def test_an_answer_recorded_for_one_question_beside_an_open_one(two_open):
    """Wrong: an answer that equals the recorded one and fits the open one as well is given to either."""
    two_open("decide", RUN, to(IDS[0]))
    before = two_open.dump()
    assert attempt(two_open.chain, "resume", two_open.flavour, RUN, YES).error == "AmbiguousResume"
    assert (
        attempt(two_open.chain, "resume", two_open.flavour, RUN, to(IDS[0], approved=False)).error == "AlreadyResumed"
    )
    assert two_open.dump() == before
    assert two_open("resume", RUN, to(IDS[0])).pending_interrupt.interrupt_id == IDS[1]
