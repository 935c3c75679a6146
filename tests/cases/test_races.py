"""Many at once on one run: one winner, the others are told so, every effect once."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from fastdur import AlreadyResumed, Resume, RunResult
from tests.cases._opened import place
from tests.cases._racers import racing
from tests.cases._server import Came, Order, attempt
from tests.cases.conftest import Play, together

YES = Resume(approved=True, metadata={"by": "ada"})
LOST = {"AlreadyResumed", "RunInProgress"}
RACERS = 8


def race_of(play, race, run, *args, method="resume"):
    """What came of one round for every racer."""
    return race(Order(str(play.folder), play.story, method, (run, *args), {}, play.flavour))


def rounds_of(play):
    """200 on each backend: shared by two flavours on files, all for one on Postgres."""
    return 200 if place(play.folder) is not None else 100


def judge(came, effects):
    """One winner, typed losers, one effect."""
    outcomes = Counter("won" if one.error is None else one.error for one in came)
    assert outcomes.pop("won", 0) == 1, came
    assert set(outcomes) <= LOST, came
    assert effects == 1
    assert [one.status for one in came if one.error is None] == ["completed"]


@pytest.mark.case("S03")
@pytest.mark.case("S01")
def test_of_eight_processes_with_one_answer_exactly_one_resumes_the_paused_run(play):
    """Wrong: read-then-delete, so that two win; a driver's "locked" or IntegrityError for a loser; a second effect."""
    rounds = [f"r-{number}" for number in range(rounds_of(play))]
    play.story = "asking"
    with play.store() as store:
        chain = play.here(store)
        for run in rounds:
            assert attempt(chain, "execute", play.flavour, {}, run).status == "paused"
    with racing(RACERS) as race:
        for number, run in enumerate(rounds, 1):
            came = race_of(play, race, run, YES)
            judge(came, play.world.count("pay c") - number + 1)
    assert play.world.count("b") == 2 * len(rounds)
    assert not play.pending(None)


@pytest.mark.case("S01")
def test_of_eight_processes_exactly_one_carries_the_crashed_run_on(play):
    """Wrong: a resume without an answer that claims nothing, so that all of them run the rest."""
    rounds = [f"r-{number}" for number in range(rounds_of(play))]
    for run in rounds:
        play.start("three", run=run, die="after append a")
    with racing(RACERS) as race:
        for number, run in enumerate(rounds, 1):
            came = race_of(play, race, run)
            judge(came, play.world.count("pay b") - number + 1)
    assert Counter(play.marks) == dict.fromkeys(["a", "b", "pay b", "c"], len(rounds))


def test_of_eight_processes_that_start_one_id_exactly_one_runs_it(play):
    """Wrong: two histories under one id, or a driver's IntegrityError for the second."""
    play.story = "three"
    with racing(RACERS) as race:
        for number in range(1, rounds_of(play) + 1):
            came = race(Order(str(play.folder), "three", "execute", ({}, f"r-{number}"), {}, play.flavour))
            assert Counter(one.error for one in came) == {None: 1, "RunExists": RACERS - 1}
            assert play.marks == ["a", "b", "pay b", "c"] * number


@pytest.mark.case("S03")
@pytest.mark.parametrize("story", ["asking", "three"])
def test_of_four_threads_of_one_process_exactly_one_resumes(play, story):
    """Wrong: taking every call of this process for the owner, or the winner losing its claim to a sibling."""
    args = (YES,) if story == "asking" else ()
    rounds = [f"r-{number}" for number in range(25)]
    for run in rounds:
        play.start(story, run=run, die=None if story == "asking" else "after append a")
    effects = f"pay {'c' if story == 'asking' else 'b'}"
    with play.store() as store:
        chain = play.here(store)
        for number, run in enumerate(rounds, 1):
            came = together(*[lambda run=run: attempt(chain, "resume", play.flavour, run, *args)] * 4)
            judge(came, play.world.count(effects) - number + 1)


@pytest.mark.case("S03")
@pytest.mark.parametrize("story", ["asking", "three"])
def test_of_four_tasks_of_one_loop_exactly_one_resumes(server, tmp_path, story):
    """Wrong: tasks of one loop that take each other for the owner."""
    play = Play(server, tmp_path, "async")
    play.story = story
    for number in range(1, 26):
        run = f"r-{number}"
        play.start(story, run=run, die=None if story == "asking" else "after append a")

    async def main(chain, run):
        calls = [chain.aresume(run, *([YES] if story == "asking" else [])) for _ in range(4)]
        return await asyncio.gather(*calls, return_exceptions=True)

    with play.store() as store:
        chain = play.here(store)
        for number in range(1, 26):
            came = asyncio.run(main(chain, f"r-{number}"))
            judge([Came(one) if isinstance(one, RunResult) else Came(error=type(one).__name__) for one in came], 1)
            assert play.world.count("pay c" if story == "asking" else "pay b") == number


@pytest.mark.case("S03")
def test_a_handler_another_process_and_a_sweep_with_one_decision_complete_the_run_once(play):
    """Wrong: an entry point that does not claim, so that the effect behind the pause runs for each of them."""
    play.story = "asking"
    with play.store() as store:
        chain = play.here(store)
        for number in range(1, 51):
            run = f"r-{number}"
            assert attempt(chain, "execute", play.flavour, {}, run).status == "paused"
            came = together(
                lambda run=run: attempt(chain, "resume", play.flavour, run, YES),
                lambda run=run: play.resume(YES, run=run),
                lambda run=run: sweep(chain, play.flavour, run),
            )
            won = [one for one in came if one.error is None]
            assert {one.error for one in came if one.error} <= LOST, came
            assert [one.status for one in won] == ["completed"], came
            assert play.world.count("pay c") == number


def sweep(chain, flavour, run):
    """Decide, then carry on whatever is left alone."""
    decided = attempt(chain, "decide", flavour, run, YES)
    recovered = attempt(chain, "recover", flavour).result
    mine = [one for one in recovered if one.execution_id == run and one.error is None]
    assert all(isinstance(one.error, AlreadyResumed) for one in recovered if one.error is not None), recovered
    if mine:
        return Came(mine[0].result)
    return decided if decided.error else Came(error="AlreadyResumed")
