"""All rows of all tables of a store's file, read from beside the store."""

from __future__ import annotations

import sqlite3
from contextlib import closing


def dump(file):
    """Every table with every row in it, types included."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            table: connection.execute(f"SELECT rowid, * FROM {table} ORDER BY rowid").fetchall() for table in tables
        }
