"""Crashing at one named boundary leaves what a dead process leaves, and says so if it did not happen."""

from __future__ import annotations

import pytest

from fastdur import AlreadyResumed, Chain, RunInProgress, SQLiteCheckpointer
from pytest_fastdur.faults import SweepError
from tests.plugin import stories


@pytest.fixture
def build(effects):
    charge = stories.charging(effects)
    return lambda store: stories.chain(store, ("check", stories.check), ("pay", charge), ("review", stories.review))


@pytest.mark.case("S12")
@pytest.mark.parametrize("fault", ["crash", "kill"])
def test_a_run_killed_in_its_second_node_is_unfinished_with_the_first_committed(crash, effects, build, fault):
    crashed = crash(build, at="after effect charge@pay", input=stories.INPUT, fault=fault)
    assert crashed.names[-1] == "start/after effect charge@pay"
    store = crashed.open()
    (head,) = store.list_executions(unfinished=True)
    assert (head.execution_id, head.status) == (crashed.execution_id, "running")
    assert store.get_last(head.execution_id).node_id == "check"
    paused = crashed.resume()
    assert paused.status == "paused"
    assert crashed.resume(stories.ANSWERS["approve"]).status == "completed"
    assert effects.count("charge") == 1
    assert effects.calls("charge") == 2


@pytest.mark.case("S10")
def test_a_decision_given_after_a_kill_arrives_whole(crash, build):
    crashed = crash(build, at="after pause review", input=stories.INPUT, fault="kill")
    done = crashed.resume(stories.ANSWERS["approve"])
    assert done.final_state["by"] == stories.ANSWERS["approve"].metadata


def test_a_crash_behind_a_question_is_reached_with_an_answer(crash, build):
    crashed = crash(build, at="resume#1/after append review", input=stories.INPUT, answers=stories.ANSWERS)
    assert crashed.resume().status == "completed"


def test_a_crash_that_is_not_reached_says_how_the_run_ended_and_what_was_passed(crash, build):
    with pytest.raises(SweepError, match=r"'after append nowhere' did not fire \(start +start: paused\)") as error:
        crash(build, at="after append nowhere", input=stories.INPUT)
    assert "start/after pause review" in str(error.value)


@pytest.mark.parametrize(
    ("at", "fault", "said"),
    [
        ("append review", "crash", "say before or after which boundary"),
        ("after append review", "raise", "crash\\(\\) kills"),
        ("after append review", "flood", "there is no fault 'flood'"),
        ("after append review", "power", "crash\\(\\) kills; to have power"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused(crash, build, at, fault, said):
    with pytest.raises(SweepError, match=said):
        crash(build, at=at, fault=fault)


def test_inside_a_block_the_first_run_that_passes_dies(crash, build, sqlite_checkpointer, tmp_path):
    other = SQLiteCheckpointer(tmp_path / "other.db")
    with crash.at("after append check", store=sqlite_checkpointer) as fired:
        assert build(other).execute(stories.INPUT).status == "paused"
        build(sqlite_checkpointer).execute(stories.INPUT, execution_id="r")
    assert fired.execution_id == "r"
    assert fired.names[-1] == "after append check"
    assert build(sqlite_checkpointer).resume("r").status == "paused"
    other.close()


@pytest.mark.asyncio
async def test_inside_a_block_an_async_run_dies_alike(crash, sqlite_checkpointer):
    async def check(state):
        return {"checked": True}

    chain = Chain("c", sqlite_checkpointer).add_node("check", check)
    with crash.at("before append check"):
        await chain.aexecute({}, execution_id="r")
    assert (await chain.aresume("r")).status == "completed"


def test_a_block_without_the_instant_fails(crash, build, sqlite_checkpointer):
    with (
        pytest.raises(SweepError, match=r"did not fire\. These instants were passed:\n  before start"),
        crash.at("after append nowhere"),
    ):
        build(sqlite_checkpointer).execute(stories.INPUT)
    with pytest.raises(SweepError, match="none: no run passed a boundary"), crash.at("after start"):
        pass


def test_a_block_that_swallows_the_crash_fails(crash, build, sqlite_checkpointer):
    def swallowing():
        try:
            build(sqlite_checkpointer).execute(stories.INPUT)
        except BaseException:
            return

    with pytest.raises(SweepError, match="something swallowed it"), crash.at("after append check"):
        swallowing()


def test_an_error_of_the_block_comes_out(crash):
    with pytest.raises(ZeroDivisionError), crash.at("after start"):
        1 / 0  # noqa: B018 - the error is wanted


def test_a_crashed_run_counts_as_left_and_a_live_one_does_not(crash, build, sqlite_checkpointer):
    refused = []

    def nosy(state):
        with pytest.raises(RunInProgress) as error:
            stories.chain(sqlite_checkpointer, ("check", nosy)).resume("r")
        refused.append(error.value)

    chain = stories.chain(sqlite_checkpointer, ("check", nosy))
    with crash.at("before append check"):
        chain.execute({}, execution_id="r")
    assert chain.resume("r").status == "completed"
    assert len(refused) == 2
    with pytest.raises(AlreadyResumed):
        chain.resume("r")
