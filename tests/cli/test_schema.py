"""`fastdur schema`: what it prints makes a store."""

from __future__ import annotations

from contextlib import closing

import psycopg
import pytest

from fastdur import Chain, PostgresCheckpointer


@pytest.fixture
def admin(fastdur_postgres):
    with psycopg.connect(fastdur_postgres.dsn, autocommit=True) as connection:
        yield connection
        connection.execute('DROP SCHEMA IF EXISTS "printed" CASCADE')


def test_what_is_printed_makes_a_store_for_a_user_who_may_make_nothing(
    fastdur_here, fastdur_postgres, admin, worker_id
):
    role = f"clerk_{worker_id}"
    admin.execute(f"CREATE ROLE {role} LOGIN")
    said = fastdur_here("schema", "--postgres", "--schema", "printed", "--role", role)
    assert said.code == 0
    assert said.out.startswith('BEGIN;\nCREATE SCHEMA "printed";\nCREATE TABLE "printed".executions (')
    assert said.out.endswith("COMMIT;\n")
    admin.execute(said.out)
    dsn = psycopg.conninfo.make_conninfo(fastdur_postgres.dsn, user=role)
    with closing(PostgresCheckpointer(dsn, "printed")) as store:
        assert Chain("c", store).add_node("n", lambda _: {"x": 1}).execute({}, "r").status == "completed"
    admin.execute(f"DROP OWNED BY {role}")
    admin.execute(f"DROP ROLE {role}")


def test_without_a_role_nothing_is_granted(fastdur_here):
    said = fastdur_here("schema", "--postgres")
    assert 'CREATE SCHEMA "fastdur";' in said.out
    assert "GRANT" not in said.out


def test_an_upgrade_is_printed_for_a_store_of_an_older_schema(fastdur_here):
    said = fastdur_here("schema", "--postgres", "--upgrade-from", 1)
    assert said.out.startswith('BEGIN;\nALTER TABLE "fastdur".starts ADD COLUMN recorded')
    assert "CREATE SCHEMA" not in said.out
    assert fastdur_here("schema", "--postgres", "--upgrade-from", 99).code == 2


def test_no_driver_is_needed(fastdur_apart):
    said = fastdur_apart("schema", "--postgres", PYTHONPROFILEIMPORTTIME="1")
    assert said.code == 0
    assert "psycopg" not in said.err


def test_a_database_has_to_be_named_and_a_name_has_to_be_one(fastdur_here):
    said = fastdur_here("schema")
    assert (said.code, "--postgres" in said.err) == (2, True)
    said = fastdur_here("schema", "--postgres", "--schema", "50%")
    assert (said.code, "50%" in said.err) == (2, True)
