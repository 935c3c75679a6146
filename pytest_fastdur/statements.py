"""Every statement that a store sends to its database, as instants of their own: before it, and after it.

For the length of a lifetime the connections of its store are of a class whose cursors tell. What is told is what a
boundary of the engine does: statements that a store sends by itself, to open its file or to keep a lease, are not.
"""

from __future__ import annotations

import re
import sqlite3
from typing import TYPE_CHECKING, Any, Protocol

from pytest_fastdur.faults import SweepError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_fastdur.faults import When

_CHANGE = re.compile(r'\b(INSERT INTO|UPDATE|DELETE FROM)\s+(?!SET\b)((?:"?\w+"?\.)?"?(\w+)"?)', re.IGNORECASE)
_SOURCE = re.compile(r'\bFROM\s+((?:"?\w+"?\.)?"?(\w+)"?)', re.IGNORECASE)


class Hears(Protocol):
    """Who is told."""

    def statement(self, when: When, text: str) -> None:
        """Take note of a statement."""
        ...


def summary(sql: str) -> str:
    """What a statement does, in few words, alike in every schema: `UPDATE executions, INSERT INTO checkpoints`."""
    changes = [f"{verb.upper()} {table}" for verb, _, table in _CHANGE.findall(sql)]
    if changes:
        return ", ".join(dict.fromkeys(changes))
    verb, *rest = sql.split(None, 2)
    source = _SOURCE.search(sql)
    if verb.upper() == "SELECT" and source is not None:
        return f"SELECT FROM {source[2]}"
    return f"PRAGMA {rest[0]}" if verb.upper() == "PRAGMA" else verb.upper().rstrip(";")


class _Cursor(sqlite3.Cursor):
    """A cursor for statements of the user's that tells."""

    def execute(self, sql: str, *values: Any) -> Any:
        """Run a statement."""
        connection: Any = self.connection
        return connection.told(super().execute, sql, *values)


class _Connection(sqlite3.Connection):
    """A connection that tells."""

    hears: Hears

    def told(self, execute: Callable[..., Any], sql: str, *values: Any) -> Any:
        """Run a statement, and tell of it."""
        self.hears.statement("before", sql)
        done = execute(sql, *values)
        self.hears.statement("after", sql)
        return done

    def execute(self, sql: str, *values: Any) -> Any:
        """Run a statement."""
        return self.told(super().execute, sql, *values)

    def cursor(self, factory: Any = _Cursor) -> Any:
        """Return a cursor."""
        return super().cursor(factory)


def tell(store: Any, hears: Hears) -> None:
    """Let the connections of a store tell, and open the first of them. Raises `SweepError` where they cannot."""
    kind = getattr(store, "driver", None)
    if kind is None or store.location.startswith("memory-"):
        message = (
            f"the statements of {store!r} cannot be boundaries; they can for SQLiteCheckpointer on a file and for "
            "PostgresCheckpointer"
        )
        raise SweepError(message)
    store.rest()
    if issubclass(kind, sqlite3.Connection):
        store.driver = type("Telling", (_Connection, kind), {"hears": hears})
    else:
        from pytest_fastdur.statements_postgres import telling

        store.driver = telling(kind, hears)
    store.setup()
