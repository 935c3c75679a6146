"""What a Postgres server does by itself: it aborts a transaction, it dies. Each really happens, and the store copes."""

from __future__ import annotations

import psycopg
import pytest

from fastdur.errors import StoreUnavailable
from pytest_fastdur import aborts
from pytest_fastdur.backends import Schemas
from pytest_fastdur.faults import SweepError
from pytest_fastdur.postgres import Server
from pytest_fastdur.sweep import explore
from tests.plugin import stories

WRITES = ["start", "append check", "pause review", "claim interrupt review", "effect begin charge@pay"]


def swept(ledger, fault, backend, **more):
    return explore(stories.refund(ledger, store=None), fault, backend=backend, **more)


def codes(report):
    assert report.stopped is None, report.stopped
    return {finding.code for finding in report.findings}


# -- abort -------------------------------------------------------------------------------------------------------------


def test_the_server_aborts_every_write_twice_and_the_third_try_holds(ledger, fastdur_postgres, monkeypatch):
    refused = []
    disarm = aborts.disarm

    def noted(store):
        refused.append(disarm(store))
        return refused[-1]

    monkeypatch.setattr(aborts, "disarm", noted)
    report = swept(ledger, "abort", Schemas(fastdur_postgres))
    assert report.ok, report.render()
    assert refused == [2] * report.points
    struck = {name for _, name, cells in report.matrix if cells == {"abort before": "ok"}}
    assert struck >= set(WRITES)


def test_the_two_errors_are_those_of_the_server(fastdur_postgres):
    with fastdur_postgres.stores() as fresh:
        store = fresh()
        store.setup()
        aborts.arm(store)
        told = []
        with psycopg.connect(fastdur_postgres.dsn, autocommit=True) as connection:
            for _ in range(3):
                try:
                    connection.execute(f"DELETE FROM {store._schema}.executions")
                except psycopg.Error as error:
                    told.append(error.sqlstate)
        assert told == ["40001", "40P01"]
        assert aborts.disarm(store) == 2
        assert store.list_executions() == []


def test_a_store_that_does_not_try_again_is_found(ledger, fastdur_postgres):
    def gives_up(_perform, _work, again):
        raise StoreUnavailable(str(again))

    class Impatient(Schemas):
        def open(self, place, wire=None):
            store = super().open(place, wire)
            store._try_again = gives_up
            return store

    report = swept(ledger, "abort", Impatient(fastdur_postgres), at="append check")
    assert codes(report) == {"FD12"}, report.render()
    assert "a conflict with another transaction" in report.findings[0].what


def test_an_abort_where_nothing_is_written_is_a_finding(ledger, fastdur_postgres):
    report = swept(ledger, ("crash",), Schemas(fastdur_postgres), replay="fd1:start/node check=abort before")
    assert codes(report) == {"FD16"}


# -- server ------------------------------------------------------------------------------------------------------------


def test_a_server_that_dies_before_and_after_a_write_and_comes_up_again_is_not_noticed(
    ledger, fastdur_killable_postgres, monkeypatch
):
    backend = fastdur_killable_postgres
    pids = []
    kill = Server.kill

    def noted(server):
        pids.append(int((server.folder / "data/postmaster.pid").read_text().split()[0]))
        kill(server)

    monkeypatch.setattr(Server, "kill", noted)
    report = swept(ledger, "server", backend, at="append check")
    assert report.ok, report.render()
    assert report.points == 2
    assert len(set(pids)) == 2  # each has killed another postmaster
    assert backend.server.up
    told = (backend.server.folder / "server.log").read_text()
    assert "database system was not properly shut down; automatic recovery in progress" in told


def test_a_shared_server_is_never_killed(ledger, fastdur_postgres):
    with pytest.raises(SweepError, match="this one may be somebody else's"):
        swept(ledger, "server", Schemas(fastdur_postgres))


def test_a_store_that_acknowledges_what_a_dying_server_forgets_is_found(ledger, fastdur_killable_postgres):
    backend = fastdur_killable_postgres

    class Hasty(Schemas):
        """Lets the server answer before a commit is on its disk."""

        def open(self, place, wire=None):
            store = self._stores.open(
                place, f"{self._stores.dsn} options='-c synchronous_commit=off'", durability="normal"
            )
            store.setup()
            return store

    with psycopg.connect(backend.server.dsn, autocommit=True) as connection:  # so that nobody writes it down meanwhile
        connection.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
        connection.execute("SELECT pg_reload_conf()")
    hasty = Hasty(backend._stores, backend.server)
    report = swept(ledger, ("crash",), hasty, replay="fd1:resume#1/append pay=server after")
    assert codes(report) == {"FD02"}, report.render()


def test_a_sweep_that_kills_servers_brings_one_of_its_own(suite):
    text = """
def test_refund(crash_sweep, right):
    crash_sweep(right, input=stories.INPUT, answers=stories.ANSWERS, at="before append check")
"""
    result = suite(text).runpytest_subprocess("--fastdur-backends=postgres", "--fastdur-faults=abort,server")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["test_refund?postgres?: * abort+server before and after, *: 2 points, *"])
