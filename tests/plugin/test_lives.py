"""Sweeps over how runs branch off and leave: forks, and a run that cancels, deletes and prunes others."""

from __future__ import annotations

import re
from contextlib import closing, nullcontext, suppress
from datetime import timedelta

import pytest

from fastdur import (
    Agent,
    AlreadyResumed,
    Chain,
    Resume,
    RunNotFound,
    SimulatedCrash,
    SQLiteCheckpointer,
    Supervisor,
    Swarm,
    Worker,
    cancel,
    delete_execution,
    interrupt,
    observe,
    prune,
    tool,
)
from pytest_fastdur.backends import Files, Schemas
from pytest_fastdur.retention import assert_prune_safe
from pytest_fastdur.sweep import Story, explore
from tests.plugin import stories
from tests.unit.teams import called, scripted

FAULTS = ["crash", "raise", "kill"]
ANSWER = Resume(approved=True, metadata={"by": "ada"})


@pytest.fixture(params=["sqlite", "postgres"])
def backend(request):
    return Files() if request.param == "sqlite" else Schemas(request.getfixturevalue("fastdur_postgres"))


def refund(ledger, store, send=stories.send):
    return stories.chain(
        store,
        ("check", stories.check),
        ("review", stories.review),
        ("pay", stories.charging(ledger)),
        ("send", send),
    )


def unsent(state):
    raise OSError


def left_alone(boundary):
    if (boundary.when, boundary.name) == ("before", "append send"):
        raise SimulatedCrash


def bring(ledger, store, state):
    """A run that has got to `state`."""
    chain = refund(ledger, store, unsent if state == "failed" else stories.send)
    chain.execute(dict(stories.INPUT), "source")
    if state == "cancelled":
        chain.cancel("source")
    elif state != "paused":
        with observe(left_alone, store) if state == "running" else nullcontext(), suppress(OSError, SimulatedCrash):
            chain.resume("source", stories.ANSWERS["approve"])
    assert store.get_execution("source").status == state


def forks(ledger, state, node=None, **options):
    """The story of a branch of a run that has got to `state`, from the row of a node or the newest."""

    def before(store):
        bring(ledger, store, state)

    def enter(runner, execution_id):
        rows = [row.checkpoint_id for row in runner.checkpointer.list("source") if row.node_id == node]
        return runner.fork("source", rows[-1] if rows else None, new_execution_id=execution_id, **options)

    return Story(
        f"fork of a {state} run",
        lambda store: refund(ledger, store),
        answers=stories.ANSWERS,
        effects={} if options.get("effects") == "recorded" else {"charge": "exactly-once"},
        ledger=ledger,
        before=before,
        enter=enter,
    )


@pytest.mark.case("S54")
@pytest.mark.parametrize("faults", FAULTS)
@pytest.mark.parametrize(
    ("state", "node", "options"),
    [
        ("paused", None, {}),
        ("completed", "check", {"modified_state": {"amount": 7}}),
        ("completed", "review", {}),
        ("completed", "review", {"effects": "recorded"}),
    ],
)
def test_a_fork_holds_through_every_fault_and_its_source_is_the_same_byte_for_byte(
    ledger, backend, faults, state, node, options
):
    report = explore(forks(ledger, state, node, **options), faults, backend=backend)
    assert report.ok, report.render()
    assert report.points == len(report.boundaries) >= 16
    assert ("start", "fork") in report.rows


@pytest.mark.case("S54")
@pytest.mark.parametrize("faults", ["crash", *(pytest.param(each, marks=pytest.mark.sweep) for each in FAULTS[1:])])
@pytest.mark.parametrize(("state", "node"), [("failed", "check"), ("running", "check"), ("cancelled", None)])
def test_so_does_a_fork_of_a_run_that_nobody_works_on(ledger, backend, faults, state, node):
    report = explore(forks(ledger, state, node), faults, backend=backend)
    assert report.ok, report.render()
    assert report.points == len(report.boundaries) >= 16
    assert ("start", "fork") in report.rows


def team(ledger, store, kind):
    """A supervisor whose worker pays, or a swarm that hands over to it; each charge needs an approval."""
    pay = stories.charging(ledger)

    @tool(needs_approval=True)
    def charge(amount: int) -> str:
        return str(pay({"amount": amount}))

    payer = Agent("payer", scripted(called(0, "charge", amount=120), "paid"), [charge])
    if kind == "supervisor":
        asks = scripted(called(0, "delegate_to_money", task="pay"), "all done")
        return Supervisor("boss", asks, [Worker(payer, "money", "Pays.")], checkpointer=store)
    front = Agent("front", scripted(called(9, "handoff_to_payer", reason="money"), "bye"))
    return Swarm("desk", [front, payer], checkpointer=store)


@pytest.mark.case("S53")
@pytest.mark.parametrize("kind", ["supervisor", "swarm"])
def test_a_fork_of_a_team_that_has_ended_asks_again_and_pays_once_whatever_crashes(ledger, kind):
    report = explore(forks_of_a_team(ledger, kind), "crash", backend=Files())
    assert report.ok, report.render()
    assert ("start", "fork") in report.rows


@pytest.mark.case("S53")
@pytest.mark.sweep
@pytest.mark.parametrize("kind", ["supervisor", "swarm"])
@pytest.mark.parametrize("faults", FAULTS)
def test_a_fork_of_a_team_holds_through_every_fault_on_every_store(ledger, backend, kind, faults):
    report = explore(forks_of_a_team(ledger, kind), faults, backend=backend)
    assert report.ok, report.render()
    assert ("start", "fork") in report.rows


def forks_of_a_team(ledger, kind):
    """The story of a branch from the row before the gate, which the source has passed."""

    def before(store):
        runner = team(ledger, store, kind)
        runner.run("pay", "source")
        runner.resume("source", ANSWER)

    def enter(runner, execution_id):
        first = next(row for row in runner.checkpointer.list("source") if row.step_type == "tool_call")
        return runner.fork("source", first.checkpoint_id, new_execution_id=execution_id)

    return Story(
        f"fork of a {kind}",
        lambda store: team(ledger, store, kind),
        answers={"approve_charge": ANSWER},
        effects={"charge": "exactly-once"},
        ledger=ledger,
        before=before,
        enter=enter,
    )


def housekeeping(store):
    """A run whose nodes cancel, delete and prune others; done again each of them changes nothing."""

    def stop(state):
        for name in ("cancelled", "parent"):
            with suppress(RunNotFound, AlreadyResumed):
                cancel(name, store)

    def remove(state):
        for name in ("deleted", "old parent"):
            with suppress(RunNotFound):
                delete_execution(name, store)

    def old(state):
        prune(timedelta(0), store)

    return stories.chain(store, ("stop", stop), ("remove", remove), ("old", old))


def retention(ledger):
    """Others to keep house among: ended, waiting, and two whose node failed after it had started a run."""

    def before(store):
        chain = refund(ledger, store)
        for name in ("done", "cancelled", "deleted", "waits"):
            chain.execute(dict(stories.INPUT), name)
        chain.resume("done", ANSWER)
        inner = Chain("inner", store).add_node("ask", lambda state: {"ok": interrupt("inner?").approved})

        def call(state):
            inner.execute({})
            raise OSError

        for name in ("parent", "old parent"):
            with suppress(OSError):
                Chain("outer", store).add_node("call", call).execute({}, name)

    return Story("retention", housekeeping, ledger=ledger, before=before)


@pytest.mark.case("S60")
@pytest.mark.parametrize("faults", FAULTS)
def test_cancel_delete_and_prune_hold_through_every_fault(ledger, backend, faults):
    report = explore(retention(ledger), faults, backend=backend)
    assert report.ok, report.render()
    assert report.points == len(report.boundaries) > 40
    names = {name.partition(": ")[2] or name for _, name in report.rows}
    assert {"cancel", "delete", "prune", "children"} <= names


def test_what_a_fork_does_to_its_source_is_seen(ledger):
    """Wrong: a fork that writes into the run it came from."""
    story = forks(ledger, "completed", "check")

    def enter(runner, execution_id):
        result = story.enter(runner, execution_id)
        store = runner.checkpointer
        with store._turns, suppress(AttributeError):
            store._kept.writer.execute("UPDATE executions SET runner = 'touched' WHERE execution_id = 'source'")
        return result

    report = explore(Story("touches", story.build, answers=story.answers, before=story.before, enter=enter))
    assert "REWRITTEN: run 'source' was forked, and is not what it was before" in report.stopped


def test_a_row_of_another_run_that_is_rewritten_is_seen(ledger):
    def touch(state):
        return {}

    def build(store):
        def rewrites(state):
            with store._turns:
                store._kept.writer.execute(
                    "UPDATE checkpoints SET node_id = 'x' WHERE id >> 32 = 1 AND node_id = 'check'"
                )
            return {}

        return stories.chain(store, ("touch", touch), ("rewrites", rewrites))

    def before(store):
        refund(ledger, store).execute(dict(stories.INPUT), "source")

    report = explore(Story("rewrites", build, before=before), backend=Files())
    assert "REWRITTEN: the rows of run 'source'" in report.stopped


def test_the_fixture_sweeps_a_fork(crash_sweep, ledger):
    story = forks(ledger, "paused")
    report = crash_sweep(
        story.build, answers=story.answers, before=story.before, enter=story.enter, effects={}, name="a fork"
    )
    assert ("start", "fork") in report.rows


# -- a retention job ---------------------------------------------------------------------------------------------------


def some(store):
    """A run that waits inside a node's run, one that failed, one that is done."""
    chain = refund_plain(store)
    for name in ("waits", "failed", "done"):
        chain.execute({"n": 1}, name)
    chain.resume("done", ANSWER)
    with suppress(OSError):
        chain.resume("failed", Resume(approved=False))


def refund_plain(store):
    def last(state):
        if not state["ok"]:
            raise OSError
        return {"paid": stories.idempotent(name="pay")(lambda: 1)()}

    chain = Chain("plain", store).add_node("pay", lambda state: {"p": stories.idempotent(name="one")(lambda: 1)()})
    chain.add_node("ask", lambda state: {"ok": interrupt("ok?").approved}).add_node("last", last)
    return chain.connect("pay", "ask").connect("ask", "last")


def statement(text):
    def job(store):
        with store._turns:
            store._kept.writer.execute(text)

    return job


@pytest.mark.parametrize(
    ("job", "told"),
    [
        (lambda store: delete_execution("waits", store), "'waits' (paused) is gone"),
        (lambda store: prune(timedelta(0), store, failed=timedelta(0)), "'failed' (failed) is gone"),
        (statement("DELETE FROM checkpoints WHERE id >> 32 = 1 AND id % 2 = 0"), "'waits' (paused) has lost rows"),
        (statement("DELETE FROM idempotency_cache WHERE run = 1"), "'waits' (paused) has lost effect records"),
        (statement("DELETE FROM pending_interrupts"), "'waits' (paused) has lost questions"),
        (
            statement("UPDATE executions SET parent_id = 'x', parent_address = 'n#1' WHERE execution_id = 'done'"),
            "'done' (completed) was left behind by its parent 'x'",
        ),
    ],
    ids=["paused", "failed", "rows", "records", "questions", "child"],
)
def test_a_job_that_touches_what_can_go_on_is_told_what(tmp_path, job, told):
    with closing(SQLiteCheckpointer(tmp_path / "runs.db")) as store:
        some(store)
        with pytest.raises(AssertionError, match=re.escape(told)), assert_prune_safe(store):
            job(store)


def test_a_job_that_touches_nothing_of_them_passes_and_runs_may_go_on_meanwhile(tmp_path):
    with closing(SQLiteCheckpointer(tmp_path / "runs.db")) as store:
        some(store)
        with assert_prune_safe(store, failed=True):
            assert prune(timedelta(0), store, failed=timedelta(0)).total == 2
            refund_plain(store).resume("waits", ANSWER)
        assert [each.status for each in store.list_executions()] == ["completed"]
