"""The shop's own database, beside the store of the runs: a SQLite file, or a table on a Postgres server.

It outlives what is killed like any database does: what is committed is there, and what is not is gone.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from scenarios._serving import Counterpart

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Self

TABLE = """
CREATE TABLE IF NOT EXISTS bookings (
    known_as TEXT UNIQUE,
    customer TEXT NOT NULL,
    seat TEXT NOT NULL
)
"""


class Shop:
    """A client of the database at `url`: `sqlite:PATH`, or what psycopg connects to. Each call is one commit."""

    def __init__(self, url: str) -> None:
        self._file = url.removeprefix("sqlite:") if url.startswith("sqlite:") else None
        self._url = url

    def run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run one statement, with a `?` for each value, and commit it."""
        with self._connected() as connection:
            cursor = connection.execute(self.said(statement), values)
            return cursor.fetchall() if cursor.description else []

    def said(self, statement: str) -> str:
        """A statement with the parameter marks of the driver."""
        return statement if self._file is not None else statement.replace("?", "%s")

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        if self._file is not None:
            with closing(sqlite3.connect(self._file)) as connection, connection:
                yield connection
            return
        import psycopg

        with psycopg.connect(self._url) as connection:
            yield connection


class ShopDatabase(Counterpart):
    """The database with its one table, empty; on Postgres where a server is given, else a SQLite file."""

    called = "database"

    def __init__(self, dsn: str | None = None) -> None:
        self._dsn = dsn
        self._folder: TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        """Make the table."""
        if self._dsn is None:
            self._folder = TemporaryDirectory()
            self.url = f"sqlite:{Path(self._folder.name) / 'shop.db'}"
            Shop(self.url).run("PRAGMA journal_mode = WAL")
        else:
            self.url = self._dsn
        Shop(self.url).run(TABLE)
        self.reset()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove it."""
        if self._folder is not None:
            self._folder.cleanup()
        else:
            Shop(self.url).run("DROP TABLE bookings")

    def rows(self) -> list[tuple[Any, ...]]:
        """Each booking."""
        return Shop(self.url).run("SELECT customer, seat, known_as FROM bookings ORDER BY customer, seat")

    def reset(self) -> None:
        """Empty the table."""
        Shop(self.url).run("DELETE FROM bookings")

    def counts(self) -> Mapping[str, int]:
        """How many rows there are."""
        return {"bookings": len(self.rows())}

    def seen(self) -> list[str]:
        """Each booking, a line."""
        return [f"{customer} {seat} {known_as}" for customer, seat, known_as in self.rows()]
