"""The store object on Postgres: what it is made from, its threads, its processes, its end."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import subprocess
import sys
import threading
import weakref
from contextlib import closing
from itertools import chain

import psycopg
import pytest

import fastdur
from fastdur.checkpointers import _postgres_server, postgres
from fastdur.checkpointers.postgres import PostgresCheckpointer, _Session
from fastdur.errors import StoreClosed
from tests.checkpointers.stores import ROOT, effect, head, process, question, row, start


def test_where_it_is_is_told_without_a_password():
    for given in (
        "postgresql://me:se-cret@db.example:6543/app",
        "host=db.example port=6543 dbname=app user=me password=se-cret",
    ):
        store = PostgresCheckpointer(given, "flows")
        assert store.location == "db.example:6543/app/flows"
        assert repr(store) == "PostgresCheckpointer('db.example:6543/app/flows')"


def test_what_the_string_leaves_open_comes_from_the_environment(monkeypatch):
    for name in ("PGHOST", "PGPORT", "PGDATABASE", "PGUSER", "PGHOSTADDR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PGUSER", "me")
    assert PostgresCheckpointer("").location == "localhost:5432/me/fastdur"
    assert PostgresCheckpointer("hostaddr=10.0.0.1").location == "10.0.0.1:5432/me/fastdur"
    monkeypatch.setenv("PGHOST", "/run/pg")
    monkeypatch.setenv("PGDATABASE", "app")
    assert PostgresCheckpointer("connect_timeout=3").location == "/run/pg:5432/app/fastdur"


@pytest.mark.parametrize("given", ["no string at all", "postgresql://[", "hist=x"])
def test_a_string_that_is_none_is_refused_without_repeating_it(given):
    with pytest.raises(ValueError, match="connection_string is not understood") as refused:
        PostgresCheckpointer(given + " password=se-cret" if "=" in given else given)
    assert "se-cret" not in str(refused.value)


def test_what_is_no_string_is_refused_where_it_is_given():
    with pytest.raises(TypeError, match="connection_string is a NoneType; give 'postgresql://"):
        PostgresCheckpointer(os.environ.get("NO_SUCH_VARIABLE"))


@pytest.mark.parametrize("sizes", [(2, 1), (-1, 1), (0, 0)])
def test_a_pool_that_holds_nothing_is_refused(sizes):
    with pytest.raises(ValueError, match="pool"):
        PostgresCheckpointer("", "s", *sizes)


def test_a_missing_driver_is_named_with_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg_pool", None)
    spec = importlib.util.find_spec(_postgres_server.__name__)
    with pytest.raises(ImportError, match=r"pip install 'fastdur\[postgres\]'"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def test_the_name_is_there_without_the_driver_being_loaded():
    program = "import fastdur, sys; assert 'psycopg' not in sys.modules; print(fastdur.PostgresCheckpointer.__name__)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "PostgresCheckpointer\n"
    assert fastdur.PostgresCheckpointer is PostgresCheckpointer
    with pytest.raises(AttributeError, match="'Postgres'"):
        _ = fastdur.Postgres


def kept(store):
    """The statements that the server keeps for the one session of a store."""
    with store._kept.pool.connection() as connection:
        return connection.execute("SELECT statement FROM pg_prepared_statements").fetchall()


def steps(store, claim, count=5):
    for _ in range(count):
        store.put(claim, row(claim), "running")


def test_the_server_keeps_the_statements_of_a_session_that_is_the_stores_own(wired, wire):
    claim = start(wired)
    steps(wired, claim)
    assert any("INSERT INTO" in text for (text,) in kept(wired))
    wire.requests.clear()
    wire.prepared.clear()
    steps(wired, claim)
    assert (len(wire.requests), wire.prepared) == (5, [])
    assert len(wired.list("r")) == 10


def test_it_keeps_none_where_that_was_not_wanted(fastdur_postgres):
    with (
        fastdur_postgres.schemas() as fresh,
        closing(PostgresCheckpointer(fastdur_postgres.dsn, fresh(), 1, 1, prepared=False)) as store,
    ):
        steps(store, start(store))
        assert kept(store) == []


@pytest.mark.parametrize("odd", ["DEALLOCATE ALL", None], ids=["gone", "there already"])
def test_a_session_that_turns_out_to_be_another_one_is_the_last_in_which_statements_are_kept(
    fastdur_postgres, monkeypatch, odd
):
    """Wrong: an error for what any pooler may do, a write that is lost or done twice, the same surprise at each step."""
    with (
        fastdur_postgres.schemas() as fresh,
        closing(PostgresCheckpointer(fastdur_postgres.dsn, fresh(), 1, 1)) as store,
    ):
        claim = start(store)
        steps(store, claim)
        with store._kept.pool.connection() as connection:
            if odd:
                connection.pgconn.exec_(odd.encode())  # as a pooler does, behind the driver's back
            else:
                connection._prepared._names.clear()
                connection._prepared._prepared_idx = 0
        tries = []
        monkeypatch.setattr(store, "_waiting", tries.append)
        steps(store, claim)
        assert tries == [1]
        assert kept(store) == []
        assert [each.seq for each in store.list("r")] == list(range(1, 11))


def test_a_closed_store_refuses_and_closing_again_is_nothing(postgres_checkpointer):
    store = postgres_checkpointer
    claim = start(store)
    assert not store.closed
    store.close()
    store.close()
    assert store.closed
    for call in (lambda: start(store), lambda: store.list("r"), lambda: store.put(claim, row(claim), "running")):
        with pytest.raises(StoreClosed, match="make a new store object"):
            call()


def test_a_store_that_rests_makes_fresh_connections(postgres_checkpointer, admin):
    store = postgres_checkpointer
    start(store)
    store.rest()
    assert head(store).status == "running"


def test_a_close_waits_for_the_calls_under_way(wired, wire):
    claim = start(wired)
    wire.arm("hold", "UPDATE")
    done = []
    writer = threading.Thread(target=lambda: done.append(wired.put(claim, row(claim), "running")))
    closer = threading.Thread(target=wired.close)
    writer.start()
    wire.held.wait()
    closer.start()
    wired._closing.wait()
    assert closer.is_alive()
    wire.release()
    for thread in (writer, closer):
        thread.join()
    assert len(done) == 1


def test_a_store_that_is_collected_leaves_no_connection(fastdur_postgres, wire):
    with fastdur_postgres.schemas() as fresh:
        store = PostgresCheckpointer(wire.dsn, fresh())
        start(store)
        assert wire.connections
        gone = weakref.ref(store)
        del store
        gc.collect()
        assert gone() is None
        while wire.connections:
            os.sched_yield()


CLOSER = """
import sys, threading
from fastdur.checkpointers.postgres import PostgresCheckpointer, _Session
from fastdur.errors import StoreClosed
from tests.checkpointers.stores import row, start
for round_ in range(20):
    store = PostgresCheckpointer(sys.argv[1], sys.argv[2])
    claims = [start(store, f"{round_}-{n}") for n in range(8)]
    barrier = threading.Barrier(9)
    odd = []
    def work(claim):
        barrier.wait()
        try:
            while True:
                store.put(claim, row(claim), "running")
                store.get_last(claim.execution_id)
        except StoreClosed:
            pass
        except BaseException as error:
            odd.append(error)
    threads = [threading.Thread(target=work, args=(claim,)) for claim in claims]
    for thread in threads: thread.start()
    barrier.wait()
    store.close()
    for thread in threads: thread.join()
    assert not odd, odd
"""


@pytest.mark.case("S64")
def test_threads_at_work_while_another_closes_the_store_get_a_clear_error(fastdur_postgres):
    with fastdur_postgres.schemas() as fresh:
        child = process(CLOSER, fastdur_postgres.dsn, fresh())
        child.communicate()
        assert child.returncode == 0


def in_child(work):
    """Run `work` in a child made by fork; return its exit status."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_made_by_fork_has_connections_of_its_own_and_the_parents_live_on(postgres_checkpointer, admin):
    store = postgres_checkpointer
    claim = start(store)
    sessions = "SELECT pid FROM pg_stat_activity WHERE application_name = 'fastdur' AND datname = current_database() ORDER BY 1"
    before = admin.execute(sessions).fetchall()

    def work():
        taken = store.claim_execution(head(store), "child", "child")
        store.put(taken, row(taken, {"by": "child"}), "running")
        store.close()
        gc.collect()

    assert in_child(work) == 0
    assert store.get_last("r").state_snapshot == {"by": "child"}
    assert set(before) <= set(admin.execute(sessions).fetchall())
    store.release(claim)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_store_closed_before_the_fork_is_closed_in_the_child(postgres_checkpointer):
    store = postgres_checkpointer
    start(store)
    store.close()

    def work():
        with pytest.raises(StoreClosed):
            head(store)

    assert in_child(work) == 0


def test_what_a_child_inherits_is_left_as_it_is(postgres_checkpointer, monkeypatch):
    store = postgres_checkpointer
    start(store)
    mine = store._kept.pool
    postgres._after_fork_in_child()
    assert head(store).status == "running"
    assert store._kept.pool is not mine
    assert mine in postgres._inherited
    monkeypatch.setattr(mine, "_made_by", 0)
    mine.__del__()
    assert not mine.closed
    with mine.connection() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    mine.close()


FORKER = """
import os, sys, threading
from fastdur.checkpointers.postgres import PostgresCheckpointer, _Session
from tests.checkpointers.stores import head, row, start
store = PostgresCheckpointer(sys.argv[1], sys.argv[2])
claim = start(store)
pid = os.fork()
if pid == 0:
    assert head(store).status == "running"
    sys.exit(0)     # the whole end of an interpreter, with what was inherited
assert os.waitpid(pid, 0)[1] == 0
store.put(claim, row(claim), "completed")
"""


def test_a_child_that_ends_like_any_program_leaves_the_parents_session_alone(fastdur_postgres, wire):
    with fastdur_postgres.schemas() as fresh:
        parent = subprocess.run(
            [sys.executable, "-W", "ignore:.*multi-threaded", "-c", FORKER, wire.dsn, fresh()],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (parent.returncode, parent.stderr) == (0, "")


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_that_is_killed_leaves_the_parents_session_alone(postgres_checkpointer):
    store = postgres_checkpointer
    claim = start(store)
    store._waiting = pytest.fail
    pid = os.fork()
    if pid == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    store.put(claim, row(claim), "completed")


def test_eight_threads_share_the_pool_and_each_run_is_whole(postgres_checkpointer):
    store = postgres_checkpointer
    claims = [start(store, f"r{n}") for n in range(8)]

    def work(claim):
        for _ in range(20):
            store.put(claim, row(claim), "running")

    threads = [threading.Thread(target=work, args=(claim,)) for claim in claims]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(store.list(f"r{n}")) for n in range(8)] == [20] * 8


def filled(admin, rows):
    """Rows, questions and effects of other runs."""
    texts = {
        "executions (execution_id, runner, kind, start_token, created_at, status, epoch, seq, attempts, updated_at)": (
            "'other ' || n, 'o', 'chain', '', 1, 'completed', 1, 1, 0, 1 FROM generate_series(1, %s) AS n"
        ),
        "starts": "run, '{}', 'null' FROM executions WHERE runner = 'o'",
        "checkpoints": "run << 32 | 1, '', 'n', 1, '', '', '', 1, 2, '{}', NULL, NULL, 1, 1 FROM executions WHERE runner = 'o'",
        "pending_interrupts (run, interrupt_id, runner, node_id, reason, context, agent_path, created_at)": (
            "run, 'a', 'r', 'n', '', 'null', '', 1 FROM executions WHERE runner = 'o'"
        ),
        "idempotency_cache (run, key, name, args, status, attempt, path, result, error, epoch)": (
            "run, 'k', '', '', 'done', '', '', 'null', 'null', 1 FROM executions WHERE runner = 'o'"
        ),
    }
    for into, chosen in texts.items():
        admin.execute(f"INSERT INTO {into} SELECT {chosen}", [rows] if "%s" in chosen else None)
    admin.execute("ANALYZE")


def plan(admin, text, values, *, generic):
    """How the server does a statement, with these values or with any."""
    parts = text.split("%s")
    numbered = "".join(f"{part}${number}" for number, part in enumerate(parts[:-1], 1)) + parts[-1]
    admin.execute(f"PREPARE asked AS {numbered}".encode())
    admin.execute(f"SET plan_cache_mode = force_{'generic' if generic else 'custom'}_plan")
    given = ", ".join(psycopg.sql.Literal(value).as_string(admin).partition("::")[0] for value in values)
    lines = admin.execute(f"EXPLAIN EXECUTE asked{f'({given})' if given else ''}").fetchall()
    admin.execute("DEALLOCATE asked")
    return "\n".join(line for (line,) in lines)


@pytest.mark.case("S90")
def test_what_is_looked_up_or_written_is_found_through_an_index_whatever_else_is_there(postgres_checkpointer, admin):
    """Wrong: a plan that reads a whole table, with the values at hand or as it is kept for any values."""
    store = postgres_checkpointer
    claim = start(store)
    said = []

    class Told(_Session):
        def move(self, pieces):
            texts, values = zip(*pieces, strict=True)
            said.append((postgres._move(texts).decode(), [*chain.from_iterable(values[:1] + values[2:] + values[1:2])]))
            return super().move(pieces)

        def change(self, sql, values):
            said.append((sql, values))
            return super().change(sql, values)

        def rows(self, sql, values):
            said.append((sql, values))
            return super().rows(sql, values)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postgres, "_Session", Told)
        store.put(claim, row(claim), "running")
        store.begin_idempotent(claim, effect())
        store.put_idempotent(claim, effect(status="failed"))
        store.put(claim, row(claim), "failed", keep=True, clear_failed="work#1")
        asked = row(claim, step_type="hitl_pause", status="interrupted")
        store.record_interrupt(claim, asked, [question(claim)], "paused")
        seen = head(store)
        taken = store.delete_pending_interrupt_atomic(seen, "second", "you", "ask#1/1", row(seen), {"nodes": 2})
        store.renew([taken])
        store.release(taken)
        store.cancel(head(store), row(head(store)))
        store.get_last("r")
        store.get_by_id("r", asked.checkpoint_id)
        store.list("r")
        store.get_idempotent("r", "k")
        store.list_idempotent("r")
        store.list_unknown("r")
        store.list_pending_interrupts("r")
        store.list_pending_interrupts(limit=5)
        store.list_executions(limit=5)
        store.list_executions(unfinished=True, limit=5)
        store.list_executions(unfinished=True, runner="flow")
    admin.execute(f"SET search_path = {store.location.rpartition('/')[2]}")
    filled(admin, 20_000)
    known = dict(said)
    assert len(known) >= 18
    for text, values in known.items():
        for generic in (False, True):
            found = plan(admin, text, values, generic=generic)
            assert "Seq Scan" not in found, f"{text}\n{found}"
