"""How runs leave the stores, and stores that were made before they could."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta

import psycopg
import pytest

from fastdur import Chain, Resume, SQLiteCheckpointer, delete_execution, interrupt
from fastdur.checkpointers import _retention
from fastdur.checkpointers._postgres_sql import ddl, grants
from fastdur.checkpointers._sql import SCHEMA
from fastdur.checkpointers.postgres import PostgresCheckpointer
from fastdur.errors import StaleRun, StoreUnavailable
from tests.checkpointers.stores import corrupt, effect, head, paused, question, row, start, tables

NOW = timedelta(0)


def ended(store, name, status="completed", **fields):
    claim = start(store, name, **fields)
    store.begin_idempotent(claim, effect())
    store.put(claim, row(claim), status)
    return head(store, name)


def names(store):
    return sorted(each.execution_id for each in store.list_executions())


def test_a_batch_in_which_one_run_has_moved_goes_without_that_one(store):
    """Wrong: the whole batch stays, or the run goes that somebody has just taken up."""
    for name in "abc":
        ended(store, name, "failed")
    read = store._read

    def taken_up_meanwhile(work):
        found = read(work)
        if store._read is not read:
            store._read = read
            assert store.claim_execution(head(store, "b"), "second", "me")
        return found

    store._read = taken_up_meanwhile
    assert store.prune(NOW, NOW).total == 2
    assert names(store) == ["b"]
    assert len(store.list("b")) == len(store.list_idempotent("b")) == 1


def test_a_batch_of_more_runs_than_go_at_once_goes_tree_by_tree(store, monkeypatch):
    monkeypatch.setattr(_retention, "_AT_ONCE", 4)
    for name in "pq":
        ended(store, name)
        for number in range(5):
            ended(store, f"{name}{number}", parent_id=name, parent_address="n#1")
    seen = []
    removed = store._removed
    store._removed = lambda places: seen.append(len(places)) or removed(places)
    assert store.prune(NOW).total == 12
    assert seen == [6, 6]
    assert names(store) == []


def test_more_runs_than_a_batch_go_in_several(store, monkeypatch):
    monkeypatch.setattr(_retention, "_BATCH", 2)
    for number in range(5):
        ended(store, f"r{number}")
    ended(store, "stays", "paused")
    assert store.prune(NOW, dry_run=True).total == 5
    assert (store.prune(NOW).total, names(store)) == (5, ["stays"])


def test_an_owner_is_fenced_before_anything_is_removed(store):
    claim = start(store)
    store.record_interrupt(claim, row(claim), [question(claim)], "running", keep=True)
    seen = head(store)
    other = ended(store, "other", "failed")
    assert store.claim_execution(other, "taken", "me")
    assert store.delete_execution([seen, other]) is False
    assert (head(store).owned, names(store)) == (False, ["other", "r"])
    with pytest.raises(StaleRun):
        store.put(claim, row(claim), "running")
    assert store.delete_execution([head(store)]) is True
    assert store.list_pending_interrupts() == []


def test_a_child_starts_below_a_parent_that_is_held_only(store):
    start(store, "p", token="held")
    assert start(store, "c", parent_id="p", parent_address="n#1", parent_token="held").run
    with pytest.raises(StaleRun, match="'d' was not started"):
        start(store, "d", parent_id="p", parent_address="n#1", parent_token="other")


@pytest.mark.parametrize("after", [3, 300])
def test_a_file_gets_shorter_a_few_pages_at_a_time(path, after, monkeypatch):
    with closing(SQLiteCheckpointer(path, "normal")) as store:
        for number in range(after):
            claim = start(store, f"r{number}")
            store.put(claim, row(claim, "x" * 5000), "completed")
        store.prune(NOW)
        (free,) = store._kept.writer.execute("PRAGMA freelist_count").fetchone()
        (pages,) = store._kept.writer.execute("PRAGMA page_count").fetchone()
    assert free == 0
    assert pages < 40


def test_space_is_given_back_in_few_commits(path):
    """Wrong: a commit, and so a sync, for each page; others at work wait for all of them."""
    with closing(SQLiteCheckpointer(path, "normal")) as store:
        for number in range(300):
            claim = start(store, f"r{number}")
            store.put(claim, row(claim, "x" * 5000), "completed")
        commits = []
        driver = store._kept.writer.driver
        (before,) = driver.execute("PRAGMA page_count").fetchone()
        driver.set_trace_callback(lambda text: commits.append(text) if text == "COMMIT" else None)
        assert store.prune(NOW).total == 300
        driver.set_trace_callback(None)
        (pages,) = driver.execute("PRAGMA page_count").fetchone()
    assert pages < 40
    assert len(commits) <= 3 * 2 + (before - pages) / 400 + 1


def before_branches(path):
    """Make a file what an earlier version has left: no branches, and no map of its pages."""
    with closing(SQLiteCheckpointer(path)) as store:
        chain = asking(store)
        for name in ("waits", "goes"):
            chain.execute({"n": "x" * 20_000}, name)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP INDEX executions_by_parent_run")
        connection.execute("ALTER TABLE executions DROP COLUMN parent_run")
        connection.execute("ALTER TABLE starts DROP COLUMN recorded")
        connection.execute("UPDATE schema_version SET version = 1")
        connection.commit()
        connection.execute("PRAGMA auto_vacuum = NONE")
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("VACUUM")


def asking(store):
    return Chain("asks", store).add_node("ask", lambda state: {"ok": interrupt("ok?").approved})


@pytest.mark.case("S71")
@pytest.mark.case("S72")
def test_a_run_from_an_older_file_can_be_deleted_and_stays_deleted_and_the_others_go_on(path):
    """Wrong: a migration that is done again, or a run whose missing field makes it something else."""
    before_branches(path)
    with closing(SQLiteCheckpointer(path)) as store:
        assert head(store, "waits").recorded is False
        delete_execution("goes", store)
    for _ in range(2):
        with closing(SQLiteCheckpointer(path)) as store:
            store.setup()
            assert names(store) == ["waits"]
    with closing(SQLiteCheckpointer(path)) as store:
        assert asking(store).fork("waits", new_execution_id="f").status == "paused"
        assert asking(store).resume("waits", Resume(approved=True)).status == "completed"
        assert store.prune(NOW).total == 1
        assert names(store) == ["f"]
    assert tables(path)["schema_version"] == [(SCHEMA,)]


def older(dsn, schema):
    """Make a schema what an earlier version has left: no branches."""
    with closing(PostgresCheckpointer(dsn, schema)) as store:
        for name in ("waits", "goes"):
            paused(store, name)
    with psycopg.connect(dsn) as connection:
        connection.execute(f"DROP INDEX {schema}.executions_by_parent_run")
        connection.execute(f"ALTER TABLE {schema}.executions DROP COLUMN parent_run")
        connection.execute(f"ALTER TABLE {schema}.starts DROP COLUMN recorded")
        connection.execute(f"UPDATE {schema}.schema_version SET version = 1")


@pytest.mark.case("S71")
def test_a_run_from_an_older_schema_can_be_deleted_and_stays_deleted(dsn, nothing):
    older(dsn, nothing)
    with closing(PostgresCheckpointer(dsn, nothing)) as store:
        delete_execution("goes", store)
    with closing(PostgresCheckpointer(dsn, nothing)) as store:
        store.setup()
        assert (names(store), head(store, "waits").recorded) == (["waits"], False)


@pytest.mark.case("S70")
def test_eight_who_upgrade_one_schema_at_once_all_succeed(dsn, nothing):
    """Wrong: all but one fail with a column that exists."""
    older(dsn, nothing)
    gate = threading.Barrier(8)

    def upgrade():
        with closing(PostgresCheckpointer(dsn, nothing, 0, 1)) as store:
            gate.wait(30)
            store.setup()
            return names(store)

    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(upgrade) for _ in range(8)]
        assert [future.result() for future in futures] == [["goes", "waits"]] * 8


@pytest.mark.case("S69")
def test_a_user_who_may_not_upgrade_is_told_what_leads_on_and_it_does(dsn, admin, nothing, worker_id):
    older(dsn, nothing)
    role = f"reader_{worker_id}"
    admin.execute(f"CREATE ROLE {role} LOGIN")
    for statement in grants(nothing, role):
        admin.execute(statement)
    theirs = psycopg.conninfo.make_conninfo(dsn, user=role)
    with closing(PostgresCheckpointer(theirs, nothing)) as store:
        with pytest.raises(
            StoreUnavailable, match=r"has schema 1 of 3, .*`fastdur schema --postgres --upgrade-from 1`"
        ):
            store.setup()
        for statement in ddl(nothing, 1):
            admin.execute(statement)
        assert names(store) == ["goes", "waits"]
    admin.execute(f"DROP OWNED BY {role}")
    admin.execute(f"DROP ROLE {role}")


def test_a_file_that_was_made_without_a_map_of_its_pages_keeps_them_for_what_comes_next(path):
    before_branches(path)
    with closing(SQLiteCheckpointer(path)) as store:
        delete_execution("goes", store)
        (free,) = store._kept.writer.execute("PRAGMA freelist_count").fetchone()
        assert free > 0
        (pages,) = store._kept.writer.execute("PRAGMA page_count").fetchone()
        ended(store, "next")
        assert store._kept.writer.execute("PRAGMA page_count").fetchone() == (pages,)
    corrupt(path, "VACUUM")


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_what_is_old_is_looked_for_along_the_key(kind, path, request):
    """Wrong: every batch sorts all runs, and the time grows with their square."""
    if kind == "sqlite":
        with closing(SQLiteCheckpointer(path)) as store:
            store.setup()
            plan = store._kept.writer.execute(
                "EXPLAIN QUERY PLAN " + store._sql.trees, [0] * store._sql.trees.count("?")
            ).fetchall()
        said = [step[3] for step in plan]
        assert any(step.startswith("SEARCH e USING INTEGER PRIMARY KEY (rowid>?") for step in said), said
        assert any("executions_by_parent_run" in step for step in said)
        return
    store = request.getfixturevalue("postgres_checkpointer")
    for number in range(3):
        ended(store, f"r{number}")
    assert store.prune(NOW, limit=2).total == 2


@pytest.mark.parametrize("ages", [(30, None), (NOW, "30 days"), (None, None)])
def test_what_is_no_age_is_refused(store, ages):
    ended(store, "r")
    with pytest.raises(TypeError, match=r"give a datetime\.timedelta"):
        store.prune(*ages)
    with pytest.raises(ValueError, match="lies in the future"):
        store.prune(NOW, -timedelta(days=1))
    assert names(store) == ["r"]
