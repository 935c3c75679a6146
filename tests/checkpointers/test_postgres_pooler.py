"""Behind a pooler in transaction mode each statement may go to another session: nothing of a session is needed."""

from __future__ import annotations

import os
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest

from fastdur import Chain, InTransaction, Resume, StaleRun, carry, idempotent, interrupt, transaction
from fastdur.checkpointers.postgres import PostgresCheckpointer
from pytest_fastdur.pooler import pooler, program
from tests.checkpointers.stores import effect, paused, row, start
from tests.unit.books import Books


@pytest.fixture(scope="module")
def pooled(fastdur_postgres):
    """A pooler with two sessions for everybody; installed where that can be done."""
    if program() is None and os.getuid() == 0:
        subprocess.run(["apt-get", "install", "-y", "-q", "pgbouncer"], check=False, capture_output=True)
    with pooler(fastdur_postgres.dsn) as dsn:
        yield dsn


@pytest.mark.case("S69")
def test_setup_and_every_kind_of_write_work_through_it(pooled, nothing):
    with closing(PostgresCheckpointer(pooled, nothing)) as store:
        store.setup()
        store.setup()
        claim = start(store)
        store.begin_idempotent(claim, effect())
        store.put_idempotent(claim, effect(status="done"))
        store.put(claim, row(claim), "completed")
        seen = paused(store, "asked")
        assert store.delete_pending_interrupt_atomic(seen, "second", "you", "ask#1/1", row(seen)) is not None
        assert len(store.list("asked")) == 2


def test_no_statement_is_kept_in_a_session_that_the_next_one_may_not_meet(pooled, nothing):
    """Wrong: a statement under a name that means another one in another session."""
    with closing(PostgresCheckpointer(pooled, nothing, 1, 1)) as store:
        claim = start(store)
        for _ in range(5):
            store.put(claim, row(claim), "running")
        with store._kept.pool.connection() as connection:
            assert connection.prepare_threshold is None
            for _ in range(4):
                assert connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)


def test_sixteen_threads_share_two_sessions_and_each_run_is_whole(pooled, nothing):
    with closing(PostgresCheckpointer(pooled, nothing, 1, 16)) as store:
        claims = [start(store, f"r{n}") for n in range(16)]

        def work(claim):
            for _ in range(20):
                store.put(claim, row(claim), "running")

        threads = [threading.Thread(target=work, args=(claim,)) for claim in claims]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [len(store.list(f"r{n}")) for n in range(16)] == [20] * 16


def test_transactional_effects_work_through_it(pooled, nothing):
    with closing(PostgresCheckpointer(pooled, nothing, 1, 4)) as store:
        books = Books(store)

        def many():
            cursor = transaction()
            cursor.executemany(f"INSERT INTO {books.table} (amount) VALUES (%s)", [(n,) for n in range(50)])

        book = books.booking(after=many)

        def a(state):
            with ThreadPoolExecutor(4) as pool:
                return {"ids": len(list(pool.map(carry(book), range(4))))}

        assert Chain("c", store).add_node("a", a).execute({}).output == {"ids": 4}
        assert len(books.amounts()) == 4 * 51


def test_one_that_its_body_leaves_alone_for_a_lease_is_ended_through_it_too(pooled, nothing):
    with closing(PostgresCheckpointer(pooled, nothing, 1, 1, lease=0.2)) as store:
        books, runs = Books(store), []

        def wait():
            runs.append(1)
            (session,) = transaction().execute("SELECT pg_backend_pid()").fetchone()
            with psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as admin:
                while admin.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [session]).fetchone():
                    pass
            transaction().execute("SELECT 1")

        made = Chain("c", store).add_node("a", lambda state: {"id": books.booking(after=wait)(5)})
        with pytest.raises((InTransaction, StaleRun)):
            made.execute({}, "r")
        assert (runs, books.amounts()) == ([1], [])


def test_a_run_pauses_and_is_answered_through_it(pooled, nothing):
    paid = []

    @idempotent(name="pay")
    def pay(amount):
        paid.append(amount)

    def node(state):
        pay(state["amount"])
        return {"said": interrupt("really?").approved}

    with closing(PostgresCheckpointer(pooled, nothing)) as store:
        chain = Chain("c", checkpointer=store).add_node("n", node)
        assert chain.execute({"amount": 3}, "r").status == "paused"
    with closing(PostgresCheckpointer(pooled, nothing)) as store:
        chain = Chain("c", checkpointer=store).add_node("n", node)
        assert chain.resume("r", Resume(approved=True)).final_state["said"] is True
    assert paid == [3]
