"""All rows of all tables of a store, read from beside it."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg

from pytest_fastdur.backends import TABLES
from tests.cases._opened import NOTE, place

NUMBERED = {"executions": "run", "pending_interrupts": "id", "idempotency_cache": "id"}


def copy(folder, into):
    """Everything that a folder's stories have left, with their store, into an empty one."""
    shutil.copytree(folder, into, dirs_exist_ok=True, ignore=shutil.ignore_patterns(NOTE))
    source, target = place(folder), place(into)
    if target is None:
        return
    with psycopg.connect(target[0]) as connection:
        for table in TABLES:
            connection.execute(f"INSERT INTO {target[1]}.{table} SELECT * FROM {source[1]}.{table}")
        for table, key in NUMBERED.items():
            name = f"{target[1]}.{table}"
            connection.execute(
                f"SELECT setval(pg_get_serial_sequence('{name}', '{key}'), (SELECT coalesce(max({key}), 1) FROM {name}))"
            )


def dump(folder):
    """Every table with every row in it, types included."""
    where = place(folder)
    if where is None:
        with closing(sqlite3.connect(f"file:{Path(folder) / 'runs.db'}?mode=ro", uri=True)) as connection:
            tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return {
                table: connection.execute(f"SELECT rowid, * FROM {table} ORDER BY rowid").fetchall() for table in tables
            }
    dsn, schema = where
    with psycopg.connect(dsn) as connection:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [schema]).fetchall()
        return {
            table: connection.execute(f"SELECT * FROM {schema}.{table} ORDER BY 1").fetchall() for (table,) in found
        }
