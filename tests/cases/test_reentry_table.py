"""The re-entry table, row by row, on a real store: who may enter a stored run, with what, and what a refusal leaves."""

from __future__ import annotations

import pytest

from fastdur import Resume, RunInProgress
from tests.cases._dump import copy
from tests.cases._opened import on_postgres, place
from tests.cases.conftest import RUN, Play

YES = Resume(approved=True, metadata={"by": "ada"})
NO = Resume(approved=False, metadata={"by": "ada"})


def to(interrupt_id, answer=YES):
    """An answer to a named question."""
    return Resume(answer.approved, answer.metadata, interrupt_id)


# -- how a run came to where it is: each made by processes that are gone -------------------------------------------------


def completed(play):
    play.start("three")


def completed_with_an_answer(play):
    paused(play)
    play.resume(YES)


def cancelled_while_paused(play):
    paused(play)
    play("cancel", RUN)


def cancelled_after_a_crash(play):
    crashed(play)
    play("cancel", RUN)


def crashed_before_its_first_row(play):
    play.start("three", die="after start")


def crashed(play):
    play.start("three", die="before append b")


def failed(play):
    play.world.shatter("b")
    play.start("three")
    play.world.mend("b")


def paused(play):
    play.start("asking")


def paused_at_its_second_question(play):
    play.start("asking_twice")
    play.resume(YES)


def answered_and_dead_at_once(play):
    paused(play)
    play.resume(YES, die="after claim interrupt b")


def decided(play):
    paused(play)
    play("decide", RUN, YES)


def answered_and_failed(play):
    play.world.shatter("b")
    paused(play)
    play.world.mend("b")
    play.world.shatter("b")
    play.resume(YES)
    play.world.mend("b")


def answered_and_failed_later(play):
    play.world.shatter("c")
    paused(play)
    play.resume(YES)
    play.world.mend("c")


def answered_and_crashed_later(play):
    paused(play)
    play.resume(YES, die="before node c")


CALLS = {
    "nothing": ((), {}),
    "an answer": ((YES,), {}),
    "another answer": ((NO,), {}),
    "an answer to b#1/1": ((to("b#1/1"),), {}),
    "another answer to b#1/1": ((to("b#1/1", NO),), {}),
    "an answer to b#1/2": ((to("b#1/2"),), {}),
    "an answer to b#2/1": ((to("b#2/1"),), {}),
    "an answer to z#1/1": ((to("z#1/1"),), {}),
    "an answer to nonsense": ((to("no such id"),), {}),
    "an answer under b": ((YES,), {"agent_path_prefix": "b"}),
    "an answer under b#1": ((YES,), {"agent_path_prefix": "b#1"}),
    "an answer under z": ((YES,), {"agent_path_prefix": "z"}),
    "an answer, taking over": ((YES,), {"takeover": True}),
    "nothing, taking over": ((), {"takeover": True}),
    "nothing, reopening": ((), {"reopen": True}),
    "an answer, reopening": ((YES,), {"reopen": True}),
}

TAKEN = {"completed", "paused"}
ANY = list(CALLS)
ANSWERS = [name for name in CALLS if "nothing" not in name]
BARE = ["nothing", "nothing, taking over", "nothing, reopening"]
NAMED = {
    "an answer to b#1/2": "UnknownInterrupt",
    "an answer to b#2/1": "UnknownInterrupt",
    "an answer to z#1/1": "UnknownInterrupt",
    "an answer to nonsense": "UnknownInterrupt",
    "an answer under z": "UnknownInterrupt",
}
NO_QUESTION = {
    **dict.fromkeys(BARE, "completed"),
    **dict.fromkeys(
        ["an answer", "another answer", "an answer, taking over", "an answer, reopening"], "AlreadyResumed"
    ),
    **NAMED,
    "an answer to b#1/1": "UnknownInterrupt",
    "another answer to b#1/1": "UnknownInterrupt",
    "an answer under b": "UnknownInterrupt",
    "an answer under b#1": "UnknownInterrupt",
}
B_IS_BEHIND = {
    **NO_QUESTION,
    "an answer to b#1/1": "AlreadyResumed",
    "another answer to b#1/1": "AlreadyResumed",
    "an answer to b#1/2": "AlreadyResumed",
}
ANSWER_RECORDED = {
    **dict.fromkeys(ANY, "completed"),
    **NAMED,
    "another answer": "AlreadyResumed",
    "another answer to b#1/1": "AlreadyResumed",
}
CANCELLED = {name: "completed" if name == "nothing, reopening" else "RunCancelled" for name in ANY}

TABLE = {
    completed: dict.fromkeys(ANY, "AlreadyResumed"),
    completed_with_an_answer: dict.fromkeys(ANY, "AlreadyResumed"),
    cancelled_after_a_crash: {**CANCELLED, "an answer, reopening": "ChainResumeError"},
    cancelled_while_paused: {
        **CANCELLED,
        "nothing, reopening": "paused",
        "an answer, reopening": "ChainResumeError",
    },
    crashed_before_its_first_row: NO_QUESTION,
    crashed: NO_QUESTION,
    failed: NO_QUESTION,
    paused: {**dict.fromkeys(ANY, "completed"), **NAMED, **dict.fromkeys(BARE, "ChainResumeError")},
    paused_at_its_second_question: {
        **dict.fromkeys(ANY, "completed"),
        **NAMED,
        **dict.fromkeys(BARE, "ChainResumeError"),
        "an answer to b#1/1": "AlreadyResumed",
        "another answer to b#1/1": "AlreadyResumed",
        "an answer to b#1/2": "completed",
    },
    answered_and_dead_at_once: ANSWER_RECORDED,
    decided: ANSWER_RECORDED,
    answered_and_failed: ANSWER_RECORDED,
    answered_and_failed_later: B_IS_BEHIND,
    answered_and_crashed_later: B_IS_BEHIND,
}
ROWS = [(state, called, result) for state, row in TABLE.items() for called, result in row.items()]


@pytest.fixture(scope="module")
def reached(server, tmp_path_factory, request):
    """Brings a run to a state: played once, then copied. No process has it open by then."""
    made = {}

    def bring(state, play):
        which = state, play.flavour, place(play.folder) is None
        known = made.get(which)
        if known is None:
            known = made[which] = Play(server, tmp_path_factory.mktemp(state.__name__), play.flavour)
            if place(play.folder) is not None:
                database = request.getfixturevalue("fastdur_postgres")
                on_postgres(known.folder, database.dsn, database.take())
            state(known)
        copy(known.folder, play.folder)
        play.story = known.story

    return bring


@pytest.mark.parametrize(
    ("state", "called", "result"), ROWS, ids=[f"{state.__name__}-{called}" for state, called, _ in ROWS]
)
def test_each_row_of_the_table_gives_its_result_and_a_refusal_changes_nothing(play, reached, state, called, result):
    """Wrong: a refusal that claims first (epoch moves), consumes the question, or runs a node; an entry that is
    refused; an answer given to the wrong question."""
    reached(state, play)
    before, marks = play.dump(), play.marks
    args, keywords = CALLS[called]
    came = play.resume(*args, **keywords)
    if result in TAKEN:
        assert (came.error, came.status) == (None, result), came.text
        return
    assert came.error == result
    assert play.dump() == before
    assert play.marks == marks


def test_every_state_is_tried_with_every_call():
    assert all(set(row) == set(CALLS) for row in TABLE.values())


@pytest.mark.parametrize("called", ANY)
def test_a_run_that_nobody_started_is_not_found_and_the_store_is_named(play, called):
    """Wrong: starting it, or an error that does not say where it looked."""
    play.start("three")
    before = play.dump()
    args, keywords = CALLS[called]
    came = play.resume(*args, run="another", **keywords)
    assert came.error == "RunNotFound"
    with play.store() as store:
        assert store.location in came.text
    assert play.dump() == before


@pytest.mark.parametrize("called", [name for name in ANY if "taking over" not in name])
def test_a_run_with_a_live_owner_in_another_process_is_refused_to_all(play, called):
    """Wrong: judging the owner by anything but its process, or looking at the question before the owner."""
    args, keywords = CALLS[called]
    with play.held("asking_first", "b") as held:
        before, marks = play.dump(), play.marks
        came = play.resume(*args, **keywords)
        assert (came.error, "AlreadyResumed" in came.bases) == ("RunInProgress", True)
        assert_only_renewed(before, play.dump())
        assert play.marks == marks
    assert held.came.status == "paused"


@pytest.mark.parametrize("called", [name for name in ANY if "taking over" not in name])
def test_a_run_with_a_live_owner_in_the_same_process_is_refused_to_all(here, called):
    """Wrong: taking this process for the owner because it is the same process."""
    args, keywords = CALLS[called]
    with here.held("asking_first", "b") as held:
        before, marks = here.dump(), here.marks
        with pytest.raises(RunInProgress):
            here("resume", RUN, *args, **keywords)
        assert_only_renewed(before, here.dump())
        assert here.marks == marks
    assert held.came.status == "paused"


LEASE = 15
"""The column of a head that its living owner renews at any moment."""


def assert_only_renewed(before, after):
    """Nothing has changed but a lease, which its owner may have renewed meanwhile."""
    assert unleased(after) == unleased(before)
    assert leases(after) >= leases(before)


def leases(tables):
    return [row[LEASE] for row in tables["executions"]]


def unleased(tables):
    heads = [(*row[:LEASE], *row[LEASE + 1 :]) for row in tables["executions"]]
    return {**tables, "executions": heads}


def test_taking_over_from_a_live_owner_fences_it(play):
    """Wrong: the old owner's pause is stored after all, or two rows of one node."""
    with play.held("three", "b") as held:
        assert play.resume(takeover=True).status == "completed"
        after = play.dump()
    assert held.came.error == "StaleRun"
    assert play.dump() == after
    assert play.path() == ["a", "b", "c"]
