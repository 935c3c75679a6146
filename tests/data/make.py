"""Write the stores of this version: `python -m tests.data.make`, once, when what is stored has changed.

It makes a folder named after the schema (`schema_3`), beside those of the schemas before, with two files: `sqlite.sql`
and `postgres.sql`. Each is a whole store as text, with its tables as this version makes them. They are never written
again.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
from psycopg import sql

from fastdur import PostgresCheckpointer, Resume, SQLiteCheckpointer, cancel, observe
from fastdur.checkpointers._postgres_sql import ddl
from fastdur.checkpointers._sql import SCHEMA
from fastdur.checkpointers._sqlite_file import APPLICATION_ID
from fastdur.errors import SimulatedCrash
from pytest_fastdur.databases import TABLES
from pytest_fastdur.postgres import start_for
from tests.data import chains

NUMBERED = {"executions": "run", "pending_interrupts": "id", "idempotency_cache": "id"}


def crashed(instant, call):
    """Make a call that dies at an instant."""

    def strike(boundary):
        if str(boundary) == instant:
            raise SimulatedCrash(instant)

    with suppress(SimulatedCrash), observe(strike):
        call()
        message = f"nothing was passed that is called {instant!r}"
        raise AssertionError(message)


def write(store):
    """One run of each kind."""
    yes = Resume(approved=True, metadata={"by": "ada"})
    chains.asking(store, []).execute({"n": 1}, "paused")
    chains.asking(store, []).execute({"n": 1}, "answered once")
    chains.asking(store, []).resume("answered once", yes)
    chains.asking(store, []).execute({"n": 1}, "decided")
    chains.asking(store, []).decide("decided", yes)
    crashed("before append b", lambda: chains.going(store, []).execute({"n": 1}, "crashed"))
    crashed("before append work (6)", lambda: chains.keeping(store, []).execute(chains.KEEPING, "values"))
    crashed("after effect pay@b", lambda: chains.doubting(store, []).execute({"n": 1}, "unknown"))
    crashed("before append work (4)", lambda: chains.looping(store, []).execute({}, "cycle"))
    chains.nesting(store, []).execute({"n": 1}, "nested")
    with suppress(ValueError):
        chains.breaking(store, []).execute({"n": 1}, "failed")
    chains.going(store, []).execute({"n": 1}, "finished")
    chains.asking(store, []).execute({"n": 1}, "cancelled")
    cancel("cancelled", store)


def sqlite_text(folder):
    """The store as statements of SQLite."""
    path = folder / "runs.db"
    with closing(SQLiteCheckpointer(path)) as store:
        write(store)
    with closing(sqlite3.connect(path)) as connection:
        return "\n".join([f"PRAGMA application_id = {APPLICATION_ID};", *connection.iterdump(), ""])


def postgres_text(dsn):
    """The store as statements of Postgres, in the schema `fastdur`."""
    with closing(PostgresCheckpointer(dsn)) as store:
        write(store)
    with psycopg.connect(dsn) as connection:
        lines = [f"{statement};" for statement in ddl("fastdur")]
        for table in sorted(TABLES):
            rows = connection.execute(sql.SQL('SELECT * FROM "fastdur".{} ORDER BY 1').format(sql.Identifier(table)))
            for row in rows:
                values = sql.SQL(", ").join(map(sql.Literal, row)).as_string(connection)
                lines.append(f'INSERT INTO "fastdur".{table} VALUES ({values});')
        for table, key in NUMBERED.items():
            at = f"""pg_get_serial_sequence('"fastdur".{table}', '{key}')"""
            lines.append(f'SELECT setval({at}, (SELECT coalesce(max({key}), 1) FROM "fastdur".{table}));')
        return "\n".join([*lines, ""])


def main():
    folder = Path(__file__).with_name(f"schema_{SCHEMA}")
    if folder.exists():
        sys.exit(f"{folder} is there, and what is there is never written again")
    server = start_for(os.getpid())
    try:
        with TemporaryDirectory() as scratch:
            texts = {"sqlite.sql": sqlite_text(Path(scratch)), "postgres.sql": postgres_text(server.dsn)}
    finally:
        server.remove()
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="ascii")


if __name__ == "__main__":
    main()
