"""Several workers on one store: a live run is left alone, a lost one is taken, a replaced owner writes nothing."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from fastdur import Chain, Resume
from tests.cases import _story
from tests.cases._opened import another
from tests.cases._server import attempt
from tests.cases._world import WAIT
from tests.cases.conftest import RUN

YES = Resume(approved=True, metadata={"by": "ada"})


@pytest.mark.case("S01")
@pytest.mark.parametrize("stands_in", ["b", "pay b", "c"])
def test_two_workers_that_finish_one_node_end_with_one_row_of_it(play, stands_in):
    """Wrong: the second insert collides in the driver, or marks the run failed, or both rows are stored."""
    with play.held("three", stands_in) as held:
        winner = play.resume(takeover=True)
        after = play.dump()
    assert winner.status == "completed"
    assert held.came.error == "StaleRun"
    assert play.dump() == after
    assert play.path() == ["a", "b", "c"]


@pytest.mark.parametrize("stands_in", ["b", "pay b", "c"])
def test_a_run_that_is_cancelled_from_another_process_stops_its_owner_at_the_next_write(play, stands_in):
    """Wrong: the owner goes on, or ends as if it had only been replaced."""
    with play.held("three", stands_in) as held:
        assert play("cancel", RUN).error is None
        after = play.dump()
    assert held.came.error == "RunCancelled"
    assert play.dump() == after
    assert play.head().status == "cancelled"
    assert play.resume(reopen=True).final_state["path"] == ["a", "b", "c"]


@pytest.mark.case("S02")
def test_an_attempt_that_lost_its_claim_to_a_later_one_of_the_same_worker_changes_nothing(here):
    """Wrong: ownership by host, pid or name, under which the first attempt still writes, releases and finishes."""
    with here.held("five", "b") as first:
        here.store.clock_offset = 1_000  # the first attempt has stalled past its lease
        with here.holding("d", "resume", RUN) as second:
            before = here.dump()
            first.gate.opened.set()
            first.join()
            assert first.came.error == "StaleRun"
            assert here.dump() == before
    assert second.came.status == "completed"
    assert [row.node_id for row in here.store.list(RUN)] == ["a", "b", "c", "d", "e", "run_end"]
    assert here.world.count("pay b") == 1


@pytest.mark.case("S05")
@pytest.mark.case("S06")
def test_a_worker_that_boots_rescues_what_is_lost_and_leaves_a_live_run_alone(play):
    """Wrong: a start-up clean-up that adopts, or marks failed, whatever is unfinished."""
    play.start("three", run="lost", die="before append b")
    with play.held("three", "a") as held:
        before = play.dump()
        rescued = play("recover").result
        assert [(one.execution_id, one.result.status) for one in rescued] == [("lost", "completed")]
        for table, rows in play.dump().items():
            assert [row for row in before[table] if "r-1" in row] == [row for row in rows if "r-1" in row]
        assert play("recover").result == []
    assert held.came.status == "completed"
    assert play.world.count("a") == 2
    assert play.path() == ["a", "b", "c"]


@pytest.mark.case("S05")
def test_recovery_in_the_process_of_the_owner_leaves_its_run_alone(here):
    """Wrong: this process is mine, so whatever is unfinished in it is lost."""
    with here.held("three", "a") as held:
        before = here.dump()
        assert here("recover") == []
        assert here.dump() == before
    assert held.came.status == "completed"
    assert here.marks == ["a", "b", "pay b", "c"]


def test_a_run_that_has_been_claimed_is_not_taken_for_lost_before_its_owner_knows_of_the_claim(here):
    """Wrong: the process learns of its own claim after the store has it, so that a sibling reads an owner at work
    nowhere and takes the run from under it."""

    class Looked:
        looking = True

        def look(self):
            if self.looking:
                self.looking = False
                came.append(attempt(here.chain, "resume", here.flavour, RUN).error)

        def claim_execution(self, *args, **keywords):
            claim = super().claim_execution(*args, **keywords)
            self.look()
            return claim

        def start_execution(self, start):
            claim = super().start_execution(start)
            self.look()
            return claim

    came = []
    here.store = another(here.store, Looked)
    here.build("three")
    here.world.shatter("b")
    assert attempt(here.chain, "execute", here.flavour, {}, RUN).error == "Broken"
    here.world.mend("b")
    here.store.looking = True
    assert here("resume", RUN).status == "completed"
    assert came == ["RunInProgress"] * 2
    here.store.close()


class Ticking:
    """In front of a store: its clock moves by a third of a lease at each renewal, and otherwise not."""

    lease = 0.03  # what the engine goes by; the leases that are written are of 30 s
    renewals = 0

    def renew(self, claims):
        super().renew(claims)
        self.renewals += bool(claims)
        for clock in self.clocks:
            clock.clock_offset += 10
        if self.renewals >= 15:
            self.enough.set()


def ticking(store, *clocks):
    made = another(store, Ticking, lease=30)
    made.clocks, made.enough = [made, *clocks], threading.Event()
    return made


def awaits(enough):
    async def node(_state):
        assert await asyncio.to_thread(enough.wait, WAIT)

    return node


def blocks_the_loop(enough):
    async def node(_state):
        assert enough.wait(WAIT)

    return node


def spins(enough):
    def node(_state):
        until = time.monotonic() + WAIT
        while not enough.is_set() and time.monotonic() < until:
            sum(range(1_000))

    return node


@pytest.mark.case("S07")
@pytest.mark.parametrize("slow", [awaits, blocks_the_loop, spins])
def test_a_run_whose_node_takes_five_leases_is_never_handed_out(store, slow):
    """Wrong: a lease that nobody renews, or one that the event loop has to be free for."""
    owner = ticking(store, store)
    chain = Chain("slow", checkpointer=owner).add_node("slow", slow(owner.enough))
    poller = Chain("slow", checkpointer=store).add_node("slow", lambda _state: None)
    came = []
    worker = threading.Thread(target=lambda: came.append(attempt(chain, "execute", "async", {}, RUN)))
    worker.start()
    polls = []
    while worker.is_alive() and not owner.enough.is_set() and polls in ([], [[]]):
        if store.get_execution(RUN) is not None:
            polls = [poller.recover()]
    owner.enough.set()
    worker.join(WAIT)
    assert (polls, came[0].error) == ([[]], None)
    assert owner.renewals >= 15
    owner.close()


@pytest.mark.case("S07")
def test_a_short_lease_is_renewed_in_time_although_a_long_one_came_first(store):
    """Wrong: one renewal interval for all, or one that was chosen before the short lease came."""
    longer, shorter = another(store, lease=7), ticking(store)
    assert longer.lease == 7
    inside = threading.Event()

    def first(_state):
        inside.set()
        assert shorter.enough.wait(9)

    worker = threading.Thread(target=lambda: Chain("long", checkpointer=longer).add_node("n", first).execute())
    worker.start()
    assert inside.wait(WAIT)
    Chain("short", checkpointer=shorter).add_node("n", lambda _: None if shorter.enough.wait(5) else 1 / 0).execute()
    worker.join(WAIT)
    longer.close()
    shorter.close()


@pytest.mark.case("S07")
def test_an_owner_whose_lease_has_run_out_is_replaced_and_its_writes_are_refused(here):
    """Wrong: a lapsed lease that counts for nothing, or that is no fence."""
    with here.held("three", "b") as held:
        other = another(here.store)
        assert attempt(_story.three(here.world, other), "resume", here.flavour, RUN).error == "RunInProgress"
        other.clock_offset = 31
        rescued = attempt(_story.three(here.world, other), "recover", here.flavour).result
        assert [one.result.status for one in rescued] == ["completed"]
        after = here.dump()
        other.close()
    assert held.came.error == "StaleRun"
    assert here.dump() == after


@pytest.mark.case("S13")
def test_a_recovery_that_dies_half_way_leaves_the_rest_to_the_next_one(play):
    """Wrong: a lock of the recovery that outlives it, or runs it has claimed that nobody looks at again."""
    runs = [f"r-{number}" for number in range(5)]
    for run in runs:
        play.start("three", run=run, die="before append b")
    play("recover", die="c#3")
    finished = [run for run in runs if play.head(run).status == "completed"]
    rescued = play("recover").result
    assert sorted(finished + [one.execution_id for one in rescued]) == runs
    assert [one.result.status for one in rescued] == ["completed"] * 3
    assert play.world.count("pay b") == 5
    assert play("recover").result == []


def test_a_run_that_kills_every_process_that_recovers_it_is_given_up_after_three(play):
    """Wrong: a poisonous run that takes one worker after another with it, for ever."""
    play.start("three", die="c")
    play.start("three", run="healthy", die="after append a")
    for _ in range(3):
        play("recover", die="c")
    given_up, healthy = play("recover").result
    assert (given_up.execution_id, healthy.execution_id) == (RUN, "healthy")
    assert "left alone" in str(given_up.error)
    assert healthy.result.status == "completed"
    assert play.resume().status == "completed"
