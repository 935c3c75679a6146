"""What a step costs on Postgres, counted: the same on every run and every disk."""

from __future__ import annotations

import os
from contextlib import closing

import psycopg
import pytest

from fastdur.checkpointers.postgres import PostgresCheckpointer
from pytest_fastdur.postgres import start_for
from pytest_fastdur.wire import Wire
from tests.checkpointers.agents import talker
from tests.checkpointers.stores import effect, frame, head, row, start

STEPS = 200


@pytest.fixture(scope="module")
def alone():
    """A server that nobody else writes on: its log is counted."""
    server = start_for(os.getpid())
    yield server
    server.remove()


@pytest.fixture
def wire(alone):
    with Wire(alone.dsn) as proxy:
        yield proxy


@pytest.fixture
def admin(alone):
    with psycopg.connect(alone.dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def wired(wire, admin):
    with closing(PostgresCheckpointer(wire.dsn, "counted", 1, 1)) as store:
        store.setup()
        yield store
    admin.execute("DROP SCHEMA counted CASCADE")


@pytest.fixture
def counted(wire, admin):
    """Run `work` and tell its round trips, and the bytes of log on the server, for each of `STEPS`."""

    def count(work):
        work(0)
        admin.execute("CHECKPOINT")  # after it a page is logged whole once, so touch those first
        for number in range(1, 30):
            work(number)
        wire.requests.clear()
        before = logged(admin)
        for number in range(100, 100 + STEPS):
            work(number)
        after = logged(admin)
        return len(wire.requests) / STEPS, (after - before) / STEPS

    return count


def logged(admin):
    (bytes_,) = admin.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()
    return int(bytes_)


def test_a_step_of_two_hundred_bytes_is_one_round_trip_one_commit_and_little_log(wired, wire, counted):
    claim = start(wired)

    def step(number):
        wired.put(claim, row(claim, frames=frame({"pad": "x" * 180, "n": number}, pad="")), "running")

    trips, log = counted(step)
    assert trips == 1
    assert not any(text.startswith(("BEGIN", "COMMIT", "SET")) for text in wire.requests)
    assert log <= 450


@pytest.mark.parametrize(("replay", "trips"), [(False, 2), (True, 4)])
def test_a_turn_of_an_agent_is_a_round_trip_for_each_of_its_rows(wired, wire, replay, trips):
    turns = 50
    talker(wired, turns, wire.requests.clear, replay_model=replay).run("hi")
    # Behind the turns: the row of the answer, its question, the end.
    rest = 3 if not replay else 5
    assert turns * trips <= len(wire.requests) <= turns * trips + rest
    assert not any(text.startswith(("BEGIN", "COMMIT", "SET")) for text in wire.requests)


def test_an_effect_is_two_round_trips_and_a_renewal_one(wired, counted):
    claim = start(wired)

    def one(number):
        wired.begin_idempotent(claim, effect(f"k{number}"))
        wired.put_idempotent(claim, effect(f"k{number}", status="done"))

    assert counted(one)[0] == 2
    assert counted(lambda _: wired.renew([claim]))[0] == 1
    assert counted(lambda _: head(wired))[0] == 1


def test_a_run_from_start_to_end_holds_no_transaction_open(wired, wire, admin):
    wire.requests.clear()
    claim = start(wired)
    wired.put(claim, row(claim), "completed")
    assert len(wire.requests) == 3
    held = admin.execute("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'").fetchone()
    assert held == (0,)
