"""What the body of a transactional effect changes of the connection is gone when its transaction is."""

import sqlite3
from contextlib import closing

import psycopg
import pytest

from fastdur import InTransaction, PostgresCheckpointer, SQLiteCheckpointer, idempotent, transaction
from tests.unit.books import Books
from tests.unit.running import flow, raising

SETTING = "SELECT current_setting('work_mem'), current_setting('synchronous_commit'), current_setting('search_path')"
ROLE = "SELECT current_user, session_user"
TEMPORARY = "SELECT count(*) FROM pg_class WHERE relpersistence = 't' AND relname LIKE 'mine%%'"
LOCKS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
PREPARED = "SELECT count(*) FROM pg_prepared_statements WHERE from_sql"
HEARS = "SELECT count(*) FROM pg_listening_channels()"
HELD = "SELECT count(*) FROM pg_cursors WHERE name = 'mine'"

POSTGRES = {
    "set_config": (["SELECT set_config('work_mem', '7MB', false)"], SETTING),
    "set_config of what a commit is": (["SELECT set_config('synchronous_commit', 'off', false)"], SETTING),
    "DO that sets": (["DO $$ BEGIN SET work_mem = '9MB'; SET search_path = 'pg_catalog'; END $$"], SETTING),
    "DO that takes a role": (["DO $$ BEGIN SET ROLE pg_monitor; END $$"], ROLE),
    "temporary table": (["CREATE TEMP TABLE mine (a int)", "INSERT INTO mine VALUES (1)"], TEMPORARY),
    "temporary view": (["CREATE TEMP VIEW mine AS SELECT 1"], TEMPORARY),
    "select into": (["SELECT 1 AS a INTO TEMP mine"], TEMPORARY),
    "lock": (["SELECT pg_advisory_lock(71)"], LOCKS),
    "shared lock": (["SELECT pg_advisory_lock_shared(71)"], LOCKS),
    "DO that prepares": (["DO $$ BEGIN EXECUTE 'PREPARE \"mi ne\" AS SELECT 1'; END $$"], PREPARED),
    "DO that listens": (["DO $$ BEGIN EXECUTE 'LISTEN mine'; END $$"], HEARS),
    "cursor": (["DECLARE mine CURSOR WITH HOLD FOR SELECT 1"], HELD),
}


@pytest.fixture(params=["kept", "prepared by name"])
def big(request, postgres_checkpointer):
    """A store whose calls all meet one connection, which has served before."""
    location, prepared = postgres_checkpointer.location, request.param != "kept"
    with closing(
        PostgresCheckpointer(postgres_checkpointer._conninfo, location.rpartition("/")[2], 1, 1, prepared=prepared)
    ) as store:
        yield Books(store)


def asked(store, sql):
    return store._read(lambda session: session.rows(sql, ()))


@pytest.mark.parametrize("ending", ["commit", "body fails", "statement fails"])
@pytest.mark.parametrize(("statements", "tells"), POSTGRES.values(), ids=POSTGRES)
def test_nothing_of_it_is_left_in_a_session_of_postgres(big, statements, tells, ending):
    before = asked(big.store, tells)
    seen = []

    def after():
        for sql in statements:
            transaction().execute(sql)
        seen.append(transaction().execute(tells.replace("%%", "%")).fetchall())
        if ending == "body fails":
            raise ValueError
        if ending == "statement fails":
            transaction().execute("SELECT 1 / 0")

    book = big.booking(after=after)

    def a(state):
        book(5)

    made = flow(big.store, a)
    if ending == "commit":
        made.execute(execution_id="r")
    else:
        with pytest.raises((ValueError, psycopg.errors.DivisionByZero)):
            made.execute(execution_id="r")
    assert big.amounts() == ([5] if ending == "commit" else [])
    assert seen != [before] or "LISTEN" in str(statements)
    assert asked(big.store, tells) == before


def test_the_statements_of_the_store_stay_prepared(big, go):
    book = big.booking()

    def a(state):
        book(5)

    made = flow(big.store, a)
    for number in range(3):
        go(made.execute, execution_id=f"r{number}")
    kept = asked(big.store, "SELECT name FROM pg_prepared_statements WHERE NOT from_sql")
    go(made.execute, execution_id="s")
    assert {*kept} <= {*asked(big.store, "SELECT name FROM pg_prepared_statements WHERE NOT from_sql")}
    assert bool(kept) == big.store._prepared


def test_what_only_the_end_refuses_is_the_bodys_own_failure(big, go):
    def after():
        for sql in (
            "CREATE TEMP TABLE mine (a int PRIMARY KEY)",
            "CREATE TEMP TABLE other (a int REFERENCES mine DEFERRABLE INITIALLY DEFERRED)",
            "INSERT INTO other VALUES (1)",
        ):
            transaction().execute(sql)

    book = big.booking(after=after)

    def a(state):
        with pytest.raises(psycopg.Error, match="other"):
            book(5)

    go(flow(big.store, a).execute, execution_id="r")
    assert big.amounts() == []


SQLITE = {
    "table": ["CREATE TEMP TABLE mine (a)", "INSERT INTO mine VALUES (1)"],
    "table of the name of one of the store's": ["CREATE TEMP TABLE idempotency_cache (a)"],
    "odd name": ['CREATE TABLE temp."mi""ne; x" (a PRIMARY KEY)'],
    "counter": ["CREATE TEMP TABLE mine (a INTEGER PRIMARY KEY AUTOINCREMENT)", "INSERT INTO mine VALUES (NULL)"],
    "view": ["CREATE TEMP VIEW mine AS SELECT 1"],
    "trigger": ["CREATE TEMP TRIGGER mine AFTER INSERT ON ledger BEGIN DELETE FROM ledger; END"],
    "trigger on a table of its own": [
        "CREATE TEMP TABLE mine (a)",
        "CREATE TEMP TRIGGER other AFTER INSERT ON mine BEGIN SELECT 1; END",
    ],
}


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("where", ["memory", "file"])
@pytest.mark.parametrize("statements", SQLITE.values(), ids=SQLITE)
def test_nothing_of_it_is_left_in_a_connection_of_sqlite(tmp_path, statements, where, fails):
    with closing(SQLiteCheckpointer(":memory:" if where == "memory" else tmp_path / "store.db")) as store:
        books = Books(store)
        fail = raising(ValueError) if fails else lambda: None
        book = books.booking(after=lambda: [*map(transaction().execute, statements), fail()])

        @idempotent(name="more", transactional=True)
        def more():
            with pytest.raises(sqlite3.OperationalError, match="no such table"):
                transaction().execute("SELECT * FROM temp.mine")
            found = (
                transaction().execute("SELECT name FROM sqlite_temp_master WHERE name NOT LIKE 'sqlite%'").fetchall()
            )
            books.insert(transaction(), 6)
            return found

        def a(state):
            try:
                book(5)
            except ValueError:
                return {"left": more()}
            return {"left": more()}

        assert flow(store, a).execute(execution_id="r").output == {"left": []}
        assert books.amounts() == ([6] if fails else [5, 6])
        assert len(store.list_idempotent("r")) == 2


@pytest.mark.parametrize(
    "sql",
    ["PRAGMA temp_store = 2", "PRAGMA main.cache_size(7)", "ATTACH ':memory:' AS x", "DETACH x", "VACUUM INTO 'x'"],
)
def test_what_would_change_a_connection_of_sqlite_for_good_is_refused(tmp_path, sql):
    with closing(SQLiteCheckpointer(tmp_path / "store.db")) as store:
        books = Books(store)
        made = flow(store, _calling(books.booking(after=lambda: transaction().execute(sql))))
        with pytest.raises(InTransaction, match="one commit"):
            made.execute(execution_id="r")
        assert books.amounts() == []


def _calling(effect):
    def a(state):
        effect(5)

    return a
