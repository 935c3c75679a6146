"""Runs that are cancelled, deleted or pruned: what goes, what stays, and that nothing of them can be met again."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from freezegun import freeze_time

from fastdur import Chain, Resume, SQLiteCheckpointer, StaleRun, carry, idempotent, prune
from fastdur.records import Claim
from tests.cases._opened import on_files
from tests.cases._world import WAIT
from tests.cases.conftest import RUN
from tests.cases.test_forks import of_run

YES = Resume(approved=True)
CHILD = f"{RUN}/call#1/child"
NOW = timedelta(0)
DAY = timedelta(days=1)


def package(play, method, *args, **keywords):
    return play(method, *args, story="package", **keywords)


def nothing_of(play, *keys):
    """No row of any table belongs to a run with one of these keys."""
    dumped = play.dump()
    at = int("sqlite_sequence" in dumped)
    where = {"executions": at, "starts": at, "pending_interrupts": at + 1, "idempotency_cache": at + 1}
    left = [(table, row) for table, column in where.items() for row in dumped[table] if row[column] in keys]
    return not left and not [row for row in dumped["checkpoints"] if row[at] >> 32 in keys]


# -- delete ------------------------------------------------------------------------------------------------------------


@pytest.mark.case("S59")
def test_a_deleted_run_leaves_no_row_in_any_table_and_others_are_untouched(play):
    """Wrong: an effect record or a question that stays, or a fork that goes with its source."""
    play.start("paying_and_asking", run="other")
    play.start("paying_inside")
    play("fork", RUN, new_execution_id="f", effects="recorded")
    key = play.head().run
    assert len(play.read("list_idempotent", RUN)) == len(play.read("list_idempotent", "f")) == 2
    before = {run: of_run(play.dump(), run) for run in ("f", "other")}
    assert package(play, "delete_execution", RUN).error is None
    assert play.head() is None
    assert nothing_of(play, key)
    assert {run: of_run(play.dump(), run) for run in ("f", "other")} == before
    assert package(play, "delete_execution", RUN).error == "RunNotFound"
    play.story = "paying_inside"
    assert play.resume(YES, run="f").error == "EffectForbidden"


@pytest.mark.case("S59")
def test_a_run_goes_with_the_runs_that_its_nodes_have_started_and_its_id_begins_anew(play):
    """Wrong: the child stays, and the next run under this id takes its result for its own."""
    play.start("calling")
    keys = play.head().run, play.head(CHILD).run
    assert play.head(CHILD).status == "paused"
    package(play, "delete_execution", RUN)
    assert nothing_of(play, *keys)
    assert play.pending(None) == []
    play.start("calling")
    assert play.world.count("pay x") == 2
    assert {play.head().run, play.head(CHILD).run}.isdisjoint(keys)


def test_a_child_run_of_an_unfinished_run_is_not_deleted_alone(play):
    """Wrong: its node would start it again, and pay again."""
    play.start("calling")
    before = play.dump()
    came = package(play, "delete_execution", CHILD)
    assert came.error == "ChainResumeError"
    assert f"delete {RUN!r}" in came.text
    assert play.dump() == before
    play.resume(YES)
    assert package(play, "delete_execution", CHILD).error is None
    assert play.head(CHILD) is None
    assert play.head().status == "completed"


@pytest.mark.parametrize("story", ["three", "calling"])
def test_a_run_with_a_live_owner_is_not_deleted(play, story):
    with play.held(story, "b" if story == "three" else "x") as held:
        before = play.dump()
        came = package(play, "delete_execution", RUN)
        assert (came.error, play.dump()) == ("RunInProgress", before)
    assert held.came.status in ("completed", "paused")


@pytest.mark.parametrize("story", ["three", "calling"])
def test_a_takeover_deletes_a_run_under_its_owner_who_writes_nothing_more(play, story):
    """Wrong: an effect, a row or a child run that the old owner still writes."""
    with play.held(story, "b" if story == "three" else "call") as held:
        key = play.head().run
        assert package(play, "delete_execution", RUN, takeover=True).error is None
        assert nothing_of(play, key)
        after = play.dump()
    assert held.came.error == "StaleRun"
    assert play.dump() == after
    assert play.head(CHILD) is None


@pytest.mark.case("S09")
@pytest.mark.parametrize("way", ["cancel", "delete_execution", "resume"])
def test_a_run_whose_worker_died_with_the_request_in_its_hands_can_be_ended_or_carried_on(play, way):
    play.start("asking")
    play.resume(YES, die="after claim interrupt b")
    assert (play.pending(), play.head().status, play.head().owned) == ([], "running", True)
    assert [head.execution_id for head in play.read("list_executions", unfinished=True)] == [RUN]
    came = play.resume() if way == "resume" else package(play, way, RUN)
    assert came.error is None, came.text
    head = play.head()
    assert (head and head.status) == {"cancel": "cancelled", "delete_execution": None, "resume": "completed"}[way]


@pytest.mark.parametrize("die", ["before fence", "after fence", "before delete", "after delete"])
def test_a_delete_that_dies_leaves_all_or_nothing_and_the_next_one_ends_it(play, die):
    play.start("calling", die="after start")
    package(play, "delete_execution", RUN, die=die)
    assert (play.head() is None) == (die == "after delete")
    if die != "after delete":
        assert package(play, "delete_execution", RUN).error is None
    assert play.read("list_executions") == []


def test_a_run_that_ended_while_a_call_of_it_went_on_goes_once_nobody_renews_its_lease(store):
    """Wrong: the token of a killed process keeps it for ever; or it goes while its owner lives."""
    entered, gate, late = threading.Event(), threading.Event(), []

    @idempotent(name="slow")
    def slow():
        entered.set()
        gate.wait(WAIT)

    def outlives():
        try:
            slow()
        except StaleRun as error:
            late.append(error)

    def node(_state):
        threads.append(threading.Thread(target=carry(outlives)))
        threads[0].start()
        entered.wait(WAIT)

    threads = []
    Chain("c", store).add_node("a", node).execute({}, RUN)
    head = store.get_execution(RUN)
    assert (head.status, head.owned) == ("completed", True)
    assert prune(NOW, store).total == 0
    store.clock_offset = 1_000
    store.renew([Claim(RUN, head.run, head.epoch, head.token, head.seq)])
    assert prune(NOW, store).total == 0
    store.clock_offset = 2_000
    assert prune(NOW, store).total == 1
    gate.set()
    threads[0].join(WAIT)
    assert (len(late), store.list_executions(), store.list_idempotent(RUN)) == (1, [], [])


# -- cancel ------------------------------------------------------------------------------------------------------------


@pytest.mark.case("S60")
@pytest.mark.parametrize("way", ["cancel", "delete_execution"])
@pytest.mark.parametrize("die", [None, "before", "after"])
def test_a_question_that_goes_unanswered_goes_together_with_the_status_of_its_run(play, way, die):
    play.start("asking")
    boundary = {"cancel": "cancel", "delete_execution": "delete"}[way]
    package(play, way, RUN, die=die and f"{die} {boundary}")
    head = play.head()
    status = None if head is None else head.status
    assert (status, len(play.pending())) == (("paused", 1) if die == "before" else (status, 0))
    assert status in (("paused",) if die == "before" else ("cancelled", None))


def test_a_cancel_takes_the_child_runs_along_and_a_reopening_brings_them_back(play):
    """Wrong: a child that goes on asking, or one that the reopened node cannot go on with."""
    play.start("calling", die="before append call")
    assert (play.head().status, play.head(CHILD).status) == ("running", "paused")
    package(play, "cancel", RUN)
    assert (play.head().status, play.head(CHILD).status) == ("cancelled", "cancelled")
    assert play.pending(None) == []
    assert play.resume().error == "RunCancelled"
    came = play.resume(reopen=True)
    assert (came.error, came.status, came.final_state["child"]) == (None, "paused", "paused"), came.text
    assert [each.interrupt_id for each in play.pending(CHILD)] == ["y#1/1"]
    assert play.world.count("pay x") == 1


def test_a_child_that_was_cancelled_by_itself_is_not_reopened_with_its_parent(play):
    play.start("calling", die="before append call")
    package(play, "cancel", CHILD)
    assert play.resume().error == "RunCancelled"
    play.story = "called"
    assert play.resume(run=CHILD, reopen=True).status == "paused"
    play.story = "calling"
    assert play.resume().final_state["child"] == "paused"


@pytest.mark.parametrize("die", ["after cancel", "before cancel (2)", "after cancel (2)"])
def test_a_cancel_that_dies_on_its_way_down_is_ended_by_the_next(play, die):
    play.start("calling", die="before append call")
    package(play, "cancel", RUN, die=die)
    assert play.head().status == "cancelled"
    package(play, "cancel", RUN)
    assert play.head(CHILD).status == "cancelled"
    assert play.pending(None) == []


def test_a_cancelled_owner_starts_no_more_child_runs(play):
    with play.held("calling", "call") as held:
        package(play, "cancel", RUN)
    assert held.came.error == "RunCancelled"
    assert play.head(CHILD) is None


# -- prune -------------------------------------------------------------------------------------------------------------


def some_of_each(play):
    """One run in each state, each with an effect record where it got that far."""
    play.start("three", run="completed")
    play.world.shatter("c")
    play.start("three", run="failed")
    play.world.mend("c")
    play.start("paying_and_asking", run="paused")
    play.start("three", run="crashed", die="before append c")
    play.start("asking", run="cancelled")
    package(play, "cancel", "cancelled")


def test_a_prune_takes_what_has_ended_and_nothing_that_can_go_on(play):
    some_of_each(play)
    before = {run: of_run(play.dump(), run) for run in ("failed", "paused", "crashed")}
    counted = package(play, "prune", NOW, dry_run=True)
    assert (counted.runs, counted.total) == ({"asking": 1, "three": 1}, 2)
    assert package(play, "prune", DAY).total == 0
    assert package(play, "prune", NOW).result.runs == counted.runs
    assert {head.execution_id for head in play.read("list_executions")} == {"failed", "paused", "crashed"}
    assert {run: of_run(play.dump(), run) for run in before} == before
    assert package(play, "prune", NOW, failed=DAY).total == 0
    assert package(play, "prune", NOW, failed=NOW).runs == {"three": 1}
    assert play.resume(YES, run="paused", story="paying_and_asking").status == "completed"


def test_a_run_stays_as_long_as_a_run_that_its_node_started_is_unfinished(play):
    """Wrong: the paused child goes, or stays alone and is met by the next run under this id."""
    play.start("calling")
    play.resume(YES)
    assert (play.head().status, play.head(CHILD).status) == ("completed", "paused")
    assert package(play, "prune", NOW).total == 0
    play.resume(YES, run=CHILD, story="called")
    assert package(play, "prune", NOW).runs == {"calling": 1, "child": 1}
    assert play.read("list_executions") == []


def test_a_child_run_never_goes_before_its_parent(play):
    """Wrong: its record goes, and the node of the parent starts it anew and pays again."""
    play.start("calling", die="before append call")
    play.resume(YES, run=CHILD, story="called")
    assert play.head(CHILD).status == "completed"
    assert package(play, "prune", NOW).total == 0
    assert play.resume().final_state["child"] == "completed"
    assert play.world.count("pay x") == 1


def test_an_age_is_judged_by_the_clock_of_the_database(store):
    Chain("c", store).add_node("a", lambda state: None).execute({}, RUN)
    with freeze_time("2500-01-01"):
        assert prune(DAY, store).total == 0
    with freeze_time("1980-01-01"):
        assert prune(NOW, store, dry_run=True).total == 1
    store.clock_offset = 86_400
    assert prune(DAY, store).total == 1


@pytest.mark.parametrize("wrong", [30, "30 days", None])
def test_what_is_no_age_is_refused(store, wrong):
    with pytest.raises(TypeError, match=r"datetime\.timedelta"):
        prune(wrong, store)
    with pytest.raises(ValueError, match="lies in the future"):
        prune(NOW, store, failed=-DAY)


@pytest.mark.case("S89")
@on_files
def test_a_megabyte_that_goes_through_a_hundred_nodes_is_stored_few_times_and_given_back(backend, tmp_path):
    """Wrong: one copy for each node; a file that keeps its size for ever."""
    path = tmp_path / "grows.db"
    store = SQLiteCheckpointer(path, "normal")
    store.setup()
    chain = Chain("long", store)
    for number in range(100):
        chain.add_node(f"n{number}", lambda state, number=number: {"n": number})
        if number:
            chain.connect(f"n{number - 1}", f"n{number}")
    store.rest()
    empty = path.stat().st_size
    chain.execute({"constant": "x" * 1_000_000}, RUN)
    store.rest()
    full = path.stat().st_size
    assert 1_000_000 < full < 3_000_000
    assert prune(NOW, store).total == 1
    store.close()
    assert path.stat().st_size <= empty + 50_000
