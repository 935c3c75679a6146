"""Making the tables of a Postgres store: by several at once, by those who may not, and beside what is there already."""

from __future__ import annotations

from contextlib import closing, contextmanager

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from fastdur.checkpointers._postgres_sql import ddl
from fastdur.checkpointers._sql import SCHEMA
from fastdur.checkpointers.postgres import PostgresCheckpointer
from fastdur.errors import StoreCorrupt, StoreTooNew, StoreUnavailable
from tests.checkpointers.stores import head, process, row, start

TABLES = {"executions", "starts", "checkpoints", "pending_interrupts", "idempotency_cache", "schema_version"}


def tables_in(admin, schema):
    found = admin.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [schema]).fetchall()
    return {name for (name,) in found}


@contextmanager
def role(admin, name, settings=""):
    """A user of its own, who may connect and nothing else."""
    admin.execute(f"CREATE ROLE {name} LOGIN {settings}")
    try:
        yield name
    finally:
        admin.execute(f"DROP OWNED BY {name} CASCADE")
        admin.execute(f"DROP ROLE {name}")


@pytest.fixture
def someone(admin, worker_id):
    with role(admin, f"someone_{worker_id}") as name:
        yield name


def as_user(dsn, name, schema, **options):
    return closing(PostgresCheckpointer(make_conninfo(dsn, user=name), schema, **options))


def test_setup_makes_the_schema_and_its_tables_and_again_changes_nothing(dsn, admin, nothing):
    with closing(PostgresCheckpointer(dsn, nothing)) as store:
        assert tables_in(admin, nothing) == set()
        store.setup()
        start(store)
        store.setup()
        assert tables_in(admin, nothing) == TABLES
        with closing(PostgresCheckpointer(dsn, nothing)) as other:
            other.setup()
            assert head(other).status == "running"
    assert admin.execute(f"SELECT version FROM {nothing}.schema_version").fetchall() == [(SCHEMA,)]


@pytest.mark.parametrize("schema", ['We"ird Schema', "select", "ünï", "a.b", "{t}?"])
def test_a_schema_may_have_any_name(dsn, admin, schema):
    with closing(PostgresCheckpointer(dsn, schema)) as store:
        claim = start(store)
        store.put(claim, row(claim), "running")
        assert tables_in(admin, schema) == TABLES
        assert store.location.endswith(f"/{schema}")
    admin.execute(psycopg.sql.SQL("DROP SCHEMA {} CASCADE").format(psycopg.sql.Identifier(schema)))


@pytest.mark.parametrize("schema", ["", "x" * 64, "é" * 32, "a\0b", "50%", "lone \ud800"])
def test_a_name_that_no_schema_can_have_is_refused_at_once(dsn, schema):
    with pytest.raises(ValueError, match="schema"):
        PostgresCheckpointer(dsn, schema)


def test_a_name_that_the_server_keeps_for_itself_is_said_to_be_the_fault(dsn):
    with (
        closing(PostgresCheckpointer(dsn, "pg_mine")) as store,
        pytest.raises(StoreUnavailable, match=r"unacceptable schema name.*another schema"),
    ):
        store.setup()


SETTER = """
import sys
from fastdur.checkpointers._sql import SCHEMA
from fastdur.checkpointers.postgres import PostgresCheckpointer
store = PostgresCheckpointer(sys.argv[1], sys.argv[2], 0, 1)
print("ready", flush=True)
for line in sys.stdin:
    store = PostgresCheckpointer(sys.argv[1], line.strip(), 0, 1)
    store.setup()
    store.close()
    print("done", flush=True)
"""


@pytest.mark.case("S70")
def test_eight_processes_set_one_schema_up_at_once_twenty_times(dsn, admin, nothing):
    workers = [process(SETTER, dsn, nothing) for _ in range(8)]
    assert [worker.stdout.readline() for worker in workers] == ["ready\n"] * 8
    for number in range(20):
        schema = f"{nothing}_{number}"
        for worker in workers:
            worker.stdin.write(schema + "\n")
            worker.stdin.flush()
        assert [worker.stdout.readline() for worker in workers] == ["done\n"] * 8
        assert tables_in(admin, schema) == TABLES
        assert admin.execute(f"SELECT version FROM {schema}.schema_version").fetchall() == [(SCHEMA,)]
        admin.execute(f"DROP SCHEMA {schema} CASCADE")
    for worker in workers:
        worker.communicate()
    assert [worker.returncode for worker in workers] == [0] * 8


@pytest.mark.case("S69")
def test_a_user_who_may_not_make_a_schema_is_told_what_an_administrator_must_run(dsn, admin, nothing, someone):
    with (
        as_user(dsn, someone, nothing) as store,
        pytest.raises(StoreUnavailable, match=f'schema --postgres.*: CREATE SCHEMA "{nothing}"'),
    ):
        store.setup()
    assert tables_in(admin, nothing) == set()


@pytest.mark.case("S69")
def test_a_user_who_may_not_make_tables_is_told_so_and_leaves_nothing_half_made(dsn, admin, nothing, someone):
    admin.execute(f"CREATE SCHEMA {nothing}")
    admin.execute(f"GRANT USAGE ON SCHEMA {nothing} TO {someone}")
    with (
        as_user(dsn, someone, nothing) as store,
        pytest.raises(StoreUnavailable, match=f'refused is: CREATE TABLE "{nothing}".executions'),
    ):
        store.setup()
    assert tables_in(admin, nothing) == set()


@pytest.mark.case("S69")
def test_a_user_without_create_works_in_what_an_administrator_has_made_and_granted(dsn, admin, nothing, someone):
    for statement in ddl(nothing):
        admin.execute(statement)
    with as_user(dsn, someone, nothing) as store, pytest.raises(StoreUnavailable, match="permission denied"):
        store.setup()
    admin.execute(f"GRANT USAGE ON SCHEMA {nothing} TO {someone}")
    with as_user(dsn, someone, nothing) as store, pytest.raises(StoreUnavailable, match=r"USAGE.*SELECT, INSERT"):
        store.setup()
    admin.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {nothing} TO {someone}")
    with as_user(dsn, someone, nothing) as store:
        claim = start(store)
        store.put(claim, row(claim), "completed")
        assert head(store).status == "completed"


@pytest.mark.case("S69")
def test_a_database_that_is_serializable_by_default_is_as_good(dsn, admin, nothing, someone):
    admin.execute(f"GRANT CREATE ON DATABASE {admin.info.dbname} TO {someone}")
    admin.execute(f"ALTER ROLE {someone} SET default_transaction_isolation = 'serializable'")
    with as_user(dsn, someone, nothing) as store:
        claim = start(store)
        store.put(claim, row(claim), "completed")
        assert store.claim_execution(head(store), "second", "you") is not None


@pytest.mark.case("S69")
def test_a_database_that_is_read_only_is_waited_for_and_then_said_to_be(dsn, admin, nothing, someone):
    admin.execute(f"GRANT CREATE ON DATABASE {admin.info.dbname} TO {someone}")
    admin.execute(f"ALTER ROLE {someone} SET default_transaction_read_only = on")
    with as_user(dsn, someone, nothing) as store:
        store.busy_bound = 0.01
        with pytest.raises(StoreUnavailable, match=r"read-only.*nothing was written"):
            store.setup()
        store.busy_bound = 60.0
        store._waiting = lambda attempt: admin.execute(f"ALTER ROLE {someone} RESET default_transaction_read_only")
        start(store)
    assert tables_in(admin, nothing) == TABLES


def test_a_newer_store_is_refused_and_nothing_is_written(dsn, admin, nothing):
    with closing(PostgresCheckpointer(dsn, nothing)) as store:
        store.setup()
    admin.execute(f"UPDATE {nothing}.schema_version SET version = {SCHEMA + 1}")
    with (
        closing(PostgresCheckpointer(dsn, nothing)) as store,
        pytest.raises(StoreTooNew, match=f"/{nothing} has schema {SCHEMA + 1}; this fastdur knows up to {SCHEMA}"),
    ):
        start(store)
    assert admin.execute(f"SELECT * FROM {nothing}.executions").fetchall() == []


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM {}.schema_version",
        "INSERT INTO {}.schema_version VALUES (1)",
        "ALTER TABLE {}.schema_version RENAME version TO something",
        "DROP TABLE {}.starts CASCADE",
        "ALTER TABLE {}.executions DROP COLUMN epoch",
    ],
)
def test_what_is_no_whole_store_is_said_to_be_damaged(dsn, admin, nothing, damage):
    with closing(PostgresCheckpointer(dsn, nothing)) as store:
        store.setup()
    admin.execute(damage.format(nothing))
    with closing(PostgresCheckpointer(dsn, nothing)) as store, pytest.raises(StoreCorrupt, match=nothing):
        start(store)


def test_who_comes_second_in_setting_up_takes_what_the_first_has_made(dsn, admin, nothing, monkeypatch):
    """Wrong: tables that somebody else has made in between are taken for tables of something else."""
    admin.execute(f"CREATE SCHEMA {nothing}")
    with closing(PostgresCheckpointer(dsn, nothing)) as first, closing(PostgresCheckpointer(dsn, nothing)) as second:
        upgrade = second._sql.upgrade
        monkeypatch.setattr(second._sql, "upgrade", lambda version: (first.setup(), upgrade(version))[1])
        tries = []
        monkeypatch.setattr(second, "_waiting", tries.append)
        start(second)
        assert tries == [1]
        assert head(first).status == "running"


@pytest.mark.parametrize(
    "theirs",
    ["TABLE {}.executions (theirs TEXT)", "VIEW {}.starts AS SELECT 1", "TABLE {}.executions_by_status (theirs TEXT)"],
)
def test_what_something_else_has_in_the_schema_is_left_alone_and_named_at_once(dsn, admin, nothing, theirs):
    """Wrong: to wait for a process that sets the schema up and is not there."""
    admin.execute(f"CREATE SCHEMA {nothing}")
    admin.execute("CREATE " + theirs.format(nothing))
    before = tables_in(admin, nothing)
    name = theirs.split(".")[1].split()[0]
    with closing(PostgresCheckpointer(dsn, nothing)) as store:
        store._waiting = pytest.fail
        with pytest.raises(
            StoreCorrupt, match=rf"'{nothing}'.*something else.*\"{name}\" already exists.*another schema"
        ):
            store.setup()
    assert tables_in(admin, nothing) == before


def test_a_server_that_may_lose_commits_is_refused_unless_that_was_chosen(dsn, admin, nothing, someone):
    admin.execute(f"GRANT CREATE ON DATABASE {admin.info.dbname} TO {someone}")
    admin.execute(f"ALTER ROLE {someone} SET synchronous_commit = off")
    with as_user(dsn, someone, nothing) as store, pytest.raises(StoreUnavailable, match="durability='normal'"):
        store.setup()
    assert tables_in(admin, nothing) == set()
    with as_user(dsn, someone, nothing, durability="normal") as store:
        start(store)
    with pytest.raises(ValueError, match="durability"):
        PostgresCheckpointer(dsn, nothing, durability="off")
