"""Faults that strike a process which lives on: each really happens, holds on the right story, and finds a broken store."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing
from datetime import UTC, datetime

import pytest

from fastdur import StaleRun
from fastdur.errors import StoreUnavailable
from pytest_fastdur import leaks, strikes
from pytest_fastdur.backends import Files, Memory, Schemas
from pytest_fastdur.faults import SweepError
from pytest_fastdur.sweep import Story, explore
from tests.plugin import stories
from tests.plugin.broken import Generous, Undying


def codes(report):
    assert report.stopped is None, report.stopped
    return {finding.code for finding in report.findings}


def awaited(ledger, **more):
    """An async story with an effect and a question."""
    provider = ledger.wrap("charge", lambda key: None)

    @stories.idempotent
    async def charge():
        provider(stories.effect_key())

    async def pay(state):
        await charge()
        return {"charged": True}

    return Story(
        "async",
        lambda store: stories.chain(store, ("check", stories.check), ("pay", pay), ("review", stories.review)),
        input=stories.INPUT,
        answers=stories.ANSWERS,
        effects={"charge": "exactly-once"},
        ledger=ledger,
        **more,
    )


@pytest.mark.parametrize(
    "fault",
    ["zombie", "tick+", "tick-", "clock+", "clock-", "locked", "full", "io", "locked!", "full!", "io!"],
)
def test_the_right_story_holds(ledger, fault):
    report = explore(stories.refund(ledger, store=None), fault)
    assert report.ok, report.render()
    assert set(report.cells.values()) == {"ok"}


@pytest.mark.parametrize("fault", ["zombie", "cancel", "clock+", "locked!"])
def test_an_async_story_holds(ledger, fault):
    report = explore(awaited(ledger), fault)
    assert report.ok, report.render()


@pytest.mark.parametrize("fault", ["zombie", "tick+", "clock+", "clock-"])
def test_the_right_story_holds_on_postgres(ledger, fault, fastdur_postgres):
    report = explore(stories.refund(ledger, store=None), fault, backend=Schemas(fastdur_postgres))
    assert report.ok, report.render()


# -- they really happen ------------------------------------------------------------------------------------------------


def seen_by(fault, monkeypatch):
    """The errors that SQLite gave while a fault of the file was met."""
    errors = []
    execute = strikes.Faulty.execute

    def watched(self, sql, *values):
        armed = self.trouble.kind
        try:
            return execute(self, sql, *values)
        except sqlite3.Error as error:
            errors.append((armed, error.sqlite_errorname))
            raise

    monkeypatch.setattr(strikes.Faulty, "execute", watched)
    return errors


@pytest.mark.parametrize(
    ("fault", "error"), [("locked", "SQLITE_BUSY"), ("full", "SQLITE_FULL"), ("io", "SQLITE_IOERR_WRITE")]
)
def test_a_fault_of_the_file_is_an_error_of_sqlite_itself_once_at_every_write(ledger, monkeypatch, fault, error):
    errors = seen_by(fault, monkeypatch)
    report = explore(stories.refund(ledger, store=None), fault)
    assert report.ok, report.render()
    assert errors == [(fault, error)] * report.points
    written = {name for _, name, cells in report.matrix if cells}
    assert {"start", "append check", "pause review", "claim interrupt review", "effect begin charge@pay"} <= written
    assert not {name for name in written if name.startswith(("node", "look", "effect charge"))}


@pytest.mark.parametrize(
    ("fault", "error"), [("locked!", "SQLITE_BUSY"), ("full!", "SQLITE_FULL"), ("io!", "SQLITE_IOERR_WRITE")]
)
def test_a_fault_that_lasts_is_met_until_the_call_gives_up_and_says_so(ledger, monkeypatch, fault, error):
    errors = seen_by(fault, monkeypatch)
    report = explore(stories.refund(ledger, store=None), fault, at="start/before append check")
    assert report.ok, report.render()
    assert len(errors) > 1
    assert set(errors) == {(fault.rstrip("!"), error)}
    assert report.lifetimes == 3  # one that met it and ended, one up to the question, one with the answer


def test_the_clock_of_the_process_jumps_alone(ledger):
    told = []

    def send(state):
        told.append((time.time(), datetime.now(UTC).timestamp()))
        return {"sent": True}

    story = stories.refund(ledger, store=None, nodes={"send": send})
    for fault, least, most in (("clock+", 3599, 3700), ("clock-", -3601, -3500)):
        told.clear()
        began = time.time()
        report = explore(story, fault, at="resume#1/before node send")
        assert report.ok, report.render()
        assert [least < moved - began < most for moved, _ in told] == [False, False, True]
        assert all(abs(one - other) < 1 for one, other in told)
        assert abs(time.time() - began) < 60  # it has been put back


def test_without_freezegun_the_clock_of_the_process_is_left_alone(ledger, monkeypatch):
    monkeypatch.setattr("pytest_fastdur.applicable.find_spec", lambda name: None)
    with pytest.raises(SweepError, match="freezegun, which moves it, is not installed; pip install freezegun"):
        explore(stories.refund(ledger, store=None), "clock+")


def test_a_store_that_goes_by_the_clock_of_its_process_is_found(ledger):
    class Clocked(stories.SQLiteCheckpointer):
        """Orders its rows by Python's time."""

        last = 0.0

        def put(self, claim, row, status, **kwargs):
            if time.time() < Clocked.last:
                raise StaleRun(claim.execution_id)
            Clocked.last = time.time()
            return super().put(claim, row, status, **kwargs)

    story = stories.refund(ledger, store=Clocked, fresh=lambda: setattr(Clocked, "last", 0.0))
    report = explore(story, "clock-", at="before append pay")
    assert codes(report) == {"FD12"}, report.render()


def test_a_zombie_is_replaced_while_it_stands_still_and_then_refused(ledger):
    report = explore(stories.refund(ledger, store=None), "zombie", at="start/after append check")
    assert (report.ok, report.points, report.lifetimes) == (True, 1, 3)


def test_an_hour_of_the_stores_clock_shows_in_its_leases(ledger):
    leases = []

    class Clocked(stories.SQLiteCheckpointer):
        def put(self, claim, row, status, **kwargs):
            stored = super().put(claim, row, status, **kwargs)
            sql = "SELECT coalesce(lease_until, 0) - (julianday('now') - 2440587.5) * 86400.0 FROM executions"
            leases.append(self._read(lambda session: session.rows(sql, ()))[0][0])
            return stored

    for fault, low, high in (("tick+", 3600, 3700), ("tick-", -3600, -3500)):
        leases.clear()
        story = stories.refund(ledger, store=Clocked)
        assert explore(story, fault, at="start/before append check").ok
        jumped = [left for left in leases if low < left < high]
        assert jumped


def test_a_cancellation_is_one(ledger):
    report = explore(awaited(ledger), "cancel", at="start/before node pay")
    assert (report.ok, report.points, report.lifetimes) == (True, 1, 3)  # an uninterrupted run takes two


# -- they find what is broken ------------------------------------------------------------------------------------------


class Rude(stories.SQLiteCheckpointer):
    """Tells an owner that was replaced in words of its own."""

    def put(self, claim, row, status, **kwargs):
        try:
            return super().put(claim, row, status, **kwargs)
        except StaleRun:
            raise KeyError(claim.run) from None


@pytest.mark.parametrize(
    ("store", "code", "said"),
    [
        (Undying, "FD05", "which had been replaced, changed the store: effect note: done"),
        (Rude, "FD12", "which had been replaced, raised KeyError"),
    ],
)
def test_a_zombie_that_is_not_held_is_found_and_replayed(ledger, store, code, said):
    story = stories.refund(ledger, store=store)
    report = explore(story, "zombie", at="start/after append check")
    assert report.ok  # its next row is the pause, which these do not touch
    report = explore(story, "zombie", at="resume#1/after node send")
    assert codes(report) == {code}, report.render()
    assert said in report.findings[0].what
    assert codes(explore(story, replay=report.findings[0].token)) == {code}


def test_two_owners_that_both_complete_are_two_winners(ledger):
    report = explore(stories.refund(ledger, store=Generous), "zombie", at="resume#1/before append run_end")
    assert codes(report) == {"FD04"}, report.render()
    assert "which had been replaced, ended completed all the same" in report.findings[0].what


def test_an_owner_that_cannot_be_replaced_strands_its_run(ledger):
    class Eternal(stories.SQLiteCheckpointer):
        """Sees no lease run out."""

        def get_execution(self, execution_id):
            head = super().get_execution(execution_id)
            return head and stories.dataclasses.replace(head, lease_live=True)

    report = explore(stories.refund(ledger, store=Eternal), "zombie", at="resume#1/after append review")
    assert codes(report) == {"FD12"}
    assert "RunInProgress" in report.findings[0].what


def test_a_store_that_gives_up_where_it_should_wait_is_found(ledger):
    class Impatient(stories.SQLiteCheckpointer):
        busy_bound = 0.0

    report = explore(stories.refund(ledger, store=Impatient), "locked", at="append check")
    assert codes(report) == {"FD12"}, report.render()
    assert "StoreUnavailable" in report.findings[0].what


def test_an_error_of_the_driver_that_comes_out_is_found(ledger):
    class Raw(stories.SQLiteCheckpointer):
        def put(self, *args, **kwargs):
            try:
                return super().put(*args, **kwargs)
            except StoreUnavailable as error:
                raise error.__cause__ from None

    report = explore(stories.refund(ledger, store=Raw), "full", at="start/before append check")
    assert codes(report) == {"FD12"}, report.render()
    assert "OperationalError: database or disk is full, which is not documented" in report.findings[0].what


def test_a_fault_that_is_armed_where_nothing_is_written_is_a_finding(ledger):
    story = stories.refund(ledger, store=None)
    report = explore(story, replay="fd1:resume#1/append run_end=locked after")
    assert codes(report) == {"FD16"}


@pytest.mark.parametrize(
    ("fault", "backend", "said"),
    [
        ("cancel", None, "cancel strike the task that awaits a run, and a sync story has none; write its nodes"),
        ("locked", "memory", "locked strike an SQLite file, and this store has none; sweep on SQLite"),
        ("kill", "memory", "kill strike a child process, and a store in memory stays in its own"),
        ("drop", "memory", "drop strike a connection to a server, and a store on files has none"),
        ("power", "memory", "power strike an SQLite file, and this store has none; sweep on SQLite"),
        ("io!", "memory", "io! strike an SQLite file, and this store has none; sweep on SQLite"),
        ("server", None, "server strike a Postgres server, and a store on files has none; sweep on Postgres"),
        ("abort", None, "abort strike a Postgres server, and a store on files has none; sweep on Postgres"),
    ],
)
def test_a_fault_that_there_cannot_be_is_refused_and_left_out_beside_others(ledger, fault, backend, said):
    place = Memory() if backend else None
    with pytest.raises(SweepError, match=f"^{said}"):
        explore(stories.refund(ledger, store=None), fault, backend=place)
    report = explore(stories.refund(ledger, store=None), f"raise,{fault}", at="append check", backend=place)
    assert report.ok
    assert f"not {fault} (" in report.render()


# -- leaks -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def kept():
    """What a broken store does not let go of; it is let go of at the end."""
    held = []
    yield held
    for let_go in held:
        let_go()


def leaking(leave):
    """A store that leaves something when it ends a run that was carried on."""

    class Leaving(stories.SQLiteCheckpointer):
        def put(self, claim, row, status, **kwargs):
            stored = super().put(claim, row, status, **kwargs)
            if status == "completed" and claim.epoch > 2:
                leave(self)
            return stored

    return Leaving


def test_a_thread_that_is_left_is_a_leak(ledger, kept):
    def leave(store):
        end = threading.Event()
        thread = threading.Thread(target=end.wait, name="forgotten", daemon=True)
        thread.start()
        kept.append(lambda: (end.set(), thread.join()))

    report = explore(stories.refund(ledger, store=leaking(leave)), at="resume#1/after append pay")
    assert codes(report) == {"FD13"}, report.render()
    assert "left this open: thread forgotten" in report.findings[0].what


def test_a_file_that_is_left_is_a_leak(ledger, kept, tmp_path):
    def leave(store):
        file = (tmp_path / "forgotten").open("w")
        kept.append(file.close)

    report = explore(stories.refund(ledger, store=leaking(leave)), at="resume#1/after append pay")
    assert codes(report) == {"FD13"}, report.render()
    assert f"left this open: file {tmp_path / 'forgotten'}" in report.findings[0].what


def test_a_transaction_that_is_left_is_a_leak(ledger, kept):
    def leave(store):
        other = sqlite3.connect(store.location, isolation_level=None)
        kept.append(other.close)
        other.execute("BEGIN IMMEDIATE")

    report = explore(stories.refund(ledger, store=leaking(leave)), at="resume#1/after append pay")
    assert codes(report) == {"FD13"}, report.render()
    assert "left this open: transaction: the write lock of the file is held" in report.findings[0].what


def test_a_transaction_that_is_left_on_postgres_is_seen(fastdur_postgres, kept):
    import psycopg

    with fastdur_postgres.stores() as fresh:
        store = fresh()
        store.setup()
        assert leaks.left_locked(store) is None
        with psycopg.connect(fastdur_postgres.dsn) as other:
            other.execute("SELECT 1")
            assert leaks.left_locked(store) == "transaction: SELECT 1"


def test_what_the_story_itself_leaves_open_is_named_and_no_finding(ledger, kept, tmp_path):
    def check(state):
        kept.append((tmp_path / "log").open("a").close)
        return {}

    report = explore(stories.refund(ledger, store=None, nodes={"check": check}), at="append check")
    assert report.ok, report.render()
    assert "leaves files open at the end of a lifetime" in report.notes[0]


def test_what_only_waits_to_be_collected_is_no_leak(tmp_path):
    with closing(Files(str(tmp_path)).open(str(tmp_path / "x.db"))) as store:
        before = leaks.Held.now(store.location)
        cycle = [(tmp_path / "f").open("w")]
        cycle.append(cycle)
        assert leaks.Held.now(store.location) != before
        cycle[0].close()
        del cycle
        assert before.left(store.location, frozenset()) == []


@pytest.mark.parametrize(("name", "left"), [("fastdur-store_7", []), ("worker", ["thread worker"])])
def test_a_thread_of_the_pool_by_which_stores_are_reached_is_no_leak(name, left, tmp_path, monkeypatch):
    monkeypatch.setattr(leaks, "_PATIENCE", 0.01)
    ended = threading.Event()
    before = leaks.Held.now("x")
    thread = threading.Thread(target=ended.wait, name=name)
    thread.start()
    found = before.left("x", frozenset({"file"}))
    ended.set()
    thread.join()
    assert found == left
