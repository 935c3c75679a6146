"""Runs that are ended and removed from outside, with the runs that their nodes have started."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from fastdur import (
    AlreadyResumed,
    Chain,
    ChainResumeError,
    Pruned,
    Resume,
    RunCancelled,
    RunInProgress,
    RunNotFound,
    SimulatedCrash,
    StaleRun,
    acancel,
    adelete_execution,
    aprune,
    cancel,
    delete_execution,
    interrupt,
    observe,
    prune,
)
from fastdur._ending import cancel as cancelling
from fastdur._ending import delete as deleting
from fastdur._ending import prune as pruning
from tests.unit.by_hand import frame, play, reading
from tests.unit.running import WAIT, flow
from tests.unit.teams import FORMS, Ledger


@pytest.fixture
def ledger():
    return Ledger()


NOW, DAY = timedelta(0), timedelta(days=1)
BELOW = {"parent_id": "r", "parent_address": "call#1"}


def at(execution_id="c", status="running", *, alive=False, **fields):
    seen = reading(frame(), status)
    seen.head, seen.alive = replace(seen.head, execution_id=execution_id, **fields), alive
    return seen


def head(execution_id="c", status="running"):
    return at(execution_id, status).head


def ask(state):
    return {"ok": interrupt("ok?").approved}


def nested(store):
    """A run whose node has started one that waits, and has failed since."""
    child = flow(store, ask, name="child")

    def call(state):
        child.execute({})
        raise OSError

    with pytest.raises(OSError):
        flow(store, call).execute({}, "r")
    return "r/call#1/child"


# -- by hand -----------------------------------------------------------------------------------------------------------


def test_a_cancel_goes_down_from_parent_to_child_and_past_what_has_ended():
    below, done = head("c"), head("d", "completed")
    _, effects = play(
        cancelling("r"),
        ("look", at("r")), ("cancel", True), ("children", [below, done]),
        ("look", at("c")), ("cancel", True), ("children", []),
        ("children", [head("e", "paused")]),
        ("look", at("e", "completed")), ("children", [head("f")]),
        ("look", RunNotFound("gone")), ("children", []),
    )  # fmt: skip
    assert [each.row.extra.get("cancelled_with") for each in effects if each.name == "cancel"] == [None, "r"]


def test_a_delete_fences_every_owner_and_reads_the_tree_again_before_it_removes_it():
    owned = {"token": "t", "owner": "o"}
    parent, child = at("r", "failed", **owned), at("c", "paused", **owned)
    free = at("r", "failed"), at("c", "paused")
    _, effects = play(
        deleting("r", takeover=False),
        ("look", parent), ("children", [child.head]), ("look", child), ("children", []),
        ("fence", None), ("fence", None),
        ("look", free[0]), ("children", [free[1].head]), ("look", free[1]), ("children", []), ("delete", False),
        ("look", free[0]), ("children", [free[1].head]), ("look", RunNotFound("gone")), ("delete", True),
    )  # fmt: skip
    assert effects[-1].seen == (free[0].head,)
    assert effects[10].seen == (free[0].head, free[1].head)


def test_a_live_owner_anywhere_in_the_tree_is_respected_unless_it_is_taken_over():
    child = at("c", token="t", alive=True)
    turns = ("look", at("r", "failed")), ("children", [child.head]), ("look", child), ("children", [])
    with pytest.raises(RunInProgress, match="Run 'c' is being worked on by a live owner"):
        play(deleting("r", takeover=False), *turns)
    play(deleting("r", takeover=True), *turns, ("fence", None), ("look", at("r")), ("children", []), ("delete", True))


@pytest.mark.parametrize("status", ["running", "paused", "failed", "cancelled"])
def test_a_child_of_a_run_that_can_go_on_is_not_removed_alone(status):
    """A cancelled parent can be reopened."""
    with pytest.raises(ChainResumeError, match=f"{status} and would start it again; delete 'r'"):
        play(deleting("c", takeover=True), ("look", at("c", **BELOW)), ("look", at("r", status)))


def test_a_child_of_a_run_that_has_completed_or_is_gone_is_removed_alone():
    for parent in (at("r", "completed"), RunNotFound("gone")):
        play(
            deleting("c", takeover=False),
            ("look", at("c", **BELOW)), ("look", parent), ("children", []), ("delete", True),
        )  # fmt: skip


def test_a_prune_goes_on_batch_by_batch_and_adds_up():
    total, effects = play(
        pruning(DAY, None, dry_run=False),
        ("prune", Pruned({"a": 99}, after=120)), ("prune", Pruned({"a": 1, "b": 2}, after=300)), ("prune", Pruned()),
    )  # fmt: skip
    assert (total.runs, total.total, total.after) == ({"a": 100, "b": 2}, 102, None)
    assert [each.after for each in effects] == [0, 120, 300]


# -- on a store --------------------------------------------------------------------------------------------------------


def test_a_cancel_takes_the_child_runs_along_and_again_is_the_same_as_once(store):
    child = nested(store)
    for _ in range(2):
        cancel("r", store)
        assert {each.status for each in store.list_executions()} == {"cancelled"}
        assert store.list_pending_interrupts() == []
    assert store.get_last(child).extra["cancelled_with"] == "r"


def test_a_delete_leaves_nothing_and_its_boundaries_have_names(store):
    nested(store)
    seen = []
    with observe(lambda boundary: seen.append(str(boundary))):
        delete_execution("r", store)
    assert store.list_executions() == []
    assert seen[-1] == "after delete"
    assert {"before look", "before children"} <= set(seen)
    with pytest.raises(RunNotFound):
        delete_execution("r", store)


def test_an_owner_that_is_deleted_writes_and_starts_nothing_more(store):
    child = flow(store, ask, name="child")

    def call(state):
        delete_execution("r", store, takeover=True)
        return {"child": child.execute({}).status}

    with pytest.raises(RunInProgress):
        flow(store, _refused(store)).execute({}, "q")
    seen = []
    with observe(lambda boundary: seen.append(boundary.name)), pytest.raises(StaleRun):
        flow(store, call).execute({}, "r")
    assert "fence" in seen
    assert store.get_execution("r") is None
    assert store.get_execution("r/call#1/child") is None


def _refused(store):
    def refused(state):
        delete_execution("q", store)

    return refused


def test_a_prune_counts_and_removes(store):
    flow(store, _done()).execute({}, "r")
    flow(store, ask).execute({}, "waits")
    seen = []
    with observe(lambda boundary: seen.append(str(boundary))):
        assert prune(NOW, store, dry_run=True).runs == {"c": 1}
    assert seen == ["before prune", "after prune"]
    assert prune(DAY, store).total == 0
    assert prune(NOW, store, failed=NOW).runs == {"c": 1}
    assert [each.execution_id for each in store.list_executions()] == ["waits"]


def _done():
    def done(state):
        return {"done": True}

    return done


@pytest.mark.asyncio
async def test_each_has_an_async_form(store):
    flow(store, _done()).execute({}, "r")
    flow(store, ask).execute({}, "waits")
    with pytest.raises(AlreadyResumed):
        await acancel("r", store)
    await acancel("waits", store)
    await adelete_execution("waits", store)
    assert (await aprune(NOW, store)).runs == {"c": 1}
    assert store.list_executions() == []


def test_a_child_that_was_cancelled_with_its_parent_is_reopened_with_it(store):
    child = flow(store, ask, name="child")
    tries = []

    def call(state):
        tries.append(1)
        result = child.execute({})
        if len(tries) == 1:
            raise OSError
        return {"child": result.status}

    parent = Chain("parent", store).add_node("call", call)
    with pytest.raises(OSError):
        parent.execute({}, "r")
    cancel("r", store)
    assert parent.resume("r", reopen=True).final_state == {"child": "paused"}


@pytest.mark.parametrize("form", FORMS)
def test_a_run_that_is_cancelled_before_its_first_row_begins_when_it_is_reopened(store, go, ledger, form):
    """Wrong: what only its machine knows of the beginning is missing for ever, and no call leads on."""
    runner = FORMS[form][0](ledger, store)

    def die(boundary):
        if (boundary.when, boundary.name) == ("after", "start"):
            raise SimulatedCrash

    with observe(die), pytest.raises(SimulatedCrash):
        go(runner.execute, {"input": "pay 5"}, "r")
    go(runner.cancel, "r")
    assert (go(runner.result, "r").status, go(runner.result, "r").pending_interrupts) == ("cancelled", ())
    assert go(runner.resume, "r", reopen=True, modified_state={"input": "pay 6"}).status == "paused"
    assert store.get_last("r").frames.state["data"]["input"] == "pay 6"
    go(runner.cancel, "r")
    assert go(runner.resume, "r", reopen=True).status == "paused"
    assert go(runner.resume, "r", Resume(approved=True)).status == "completed"
    assert ledger == [("charge", 5)]


# -- an owner that is quicker than whoever reads its run ---------------------------------------------------------------


def test_after_some_tries_in_vain_an_owner_is_fenced_first():
    owned = [at("r", token="t", owner="o", alive=True, seq=seq) for seq in range(1, 5)]
    free = at("r", seq=5)
    for withdrawn in (True, False):
        again = () if withdrawn else (("look", free), ("cancel", True))
        turns = [turn for each in owned[:3] for turn in (("look", each), ("cancel", False))]
        _, effects = play(
            cancelling("r"), *turns,
            ("look", owned[3]), ("fence", None), ("look", free), ("cancel", withdrawn), *again, ("children", []),
        )  # fmt: skip
        assert next(each.seen for each in effects if each.name == "fence") == owned[3].head


@pytest.mark.parametrize("way", ["cancel", "resume"])
def test_a_run_is_taken_from_an_owner_that_writes_whenever_somebody_else_is_about_to(store, go, way):
    """Wrong: each try is in vain, until the run has ended by itself."""
    owners, rounds, most = [], threading.Semaphore(0), 40
    stored = threading.Semaphore(0)

    def turn(state):
        if threading.current_thread() in owners:
            rounds.acquire(timeout=WAIT)
        return {"n": state["n"] + 1}

    chain = Chain("ring", store).add_node("turn", turn)
    chain.connect("turn", "turn", when=lambda state: state["n"] < most, max_iterations=most)
    came = []

    def owner():
        try:
            chain.execute({"n": 0}, "r")
        except (StaleRun, RunCancelled) as error:
            came.append(error)
        finally:
            stored.release()

    tried = []

    def watch(boundary):
        mine = threading.current_thread() in owners
        if mine and boundary.when == "after" and boundary.name.startswith("append"):
            stored.release()
        if not mine and not came and boundary.when == "before" and boundary.name.startswith(("cancel", "claim")):
            tried.append(boundary.name)
            rounds.release()
            stored.acquire(timeout=WAIT)

    owners.append(threading.Thread(target=owner))
    with observe(watch):
        owners[0].start()
        rounds.release()
        stored.acquire(timeout=WAIT)
        if way == "cancel":
            go(chain.cancel, "r")
        else:
            assert go(chain.resume, "r", takeover=True).final_state == {"n": most}
        rounds.release(most)
        owners[0].join(WAIT)
    assert len(came) == 1
    assert len(tried) == 4
    assert store.get_execution("r").status == ("cancelled" if way == "cancel" else "completed")
    assert chain.resume("r", reopen=True).final_state == {"n": most} if way == "cancel" else True
