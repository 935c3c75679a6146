"""A place with a store, put back to what it held, row by row, and known by what it holds."""

from __future__ import annotations

import sqlite3
import time
from abc import ABC, abstractmethod
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from fastdur.checkpointers.postgres import PostgresCheckpointer
from pytest_fastdur.backends import TABLES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastdur.checkpointers.protocol import Checkpointer

_SEEN: Final = (
    """SELECT run, execution_id, status, epoch, token IS NULL, seq, attempts, parent_id, parent_address, lease_until
        FROM {t}executions ORDER BY run""",
    "SELECT id, node_id, step_type, status, body, extra FROM {t}checkpoints ORDER BY id",
    "SELECT run, interrupt_id, reason, context FROM {t}pending_interrupts ORDER BY id",
    "SELECT run, key, status, path, result, error, epoch FROM {t}idempotency_cache ORDER BY id",
)
"""Everything in a store by which what anybody does next can differ, without what is random or a time."""

_NUMBERED: Final = (("executions", "run"), ("pending_interrupts", "id"), ("idempotency_cache", "id"))
"""What the database itself numbers. A number that is never given twice would make every state a new one."""


class Place(ABC):
    """A place, looked at and put back through a connection of its own."""

    prefix = ""
    """What stands before the name of a table."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Sequence[Any]]] = {}
        self._numbers: list[Sequence[Any]] = []

    @abstractmethod
    def _query(self, text: str) -> list[Sequence[Any]]:
        """The rows of a query."""

    @abstractmethod
    def _fill(self, rows: dict[str, list[Sequence[Any]]]) -> None:
        """Replace every row of every table, in one transaction, and number what comes next as it was numbered then."""

    @abstractmethod
    def _counted(self) -> list[Sequence[Any]]:
        """How far the database has numbered what is there."""

    @abstractmethod
    def blocked(self) -> int:
        """How many connections wait for a lock that another one holds, as far as the database tells."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""

    def keep(self) -> None:
        """Remember what is there."""
        self._rows = {table: self._query(f"SELECT * FROM {self.prefix}{table}") for table in TABLES}  # noqa: S608
        self._numbers = self._counted()

    def restore(self) -> None:
        """Put back what was remembered."""
        self._fill(self._rows)

    def rows(self) -> dict[int, Sequence[Any]]:
        """Every row of every run, whole, by its key."""
        return {int(row[0]): row for row in self._query(f"SELECT * FROM {self.prefix}checkpoints ORDER BY id")}  # noqa: S608

    def digest(self, ahead: float) -> bytes:
        """What stands for everything that is there, where clocks are `ahead` seconds."""
        heads, *others = (self._query(text.format(t=self.prefix)) for text in _SEEN)
        now = time.time() + ahead
        told = [(*head[:-1], head[-1] is not None and head[-1] > now) for head in heads]
        return sha256(repr((told, others)).encode("utf-8", "surrogatepass")).digest()


class FilePlace(Place):
    """An SQLite file."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA synchronous = OFF")

    def _query(self, text: str) -> list[Sequence[Any]]:
        return self._connection.execute(text).fetchall()

    def _fill(self, rows: dict[str, list[Sequence[Any]]]) -> None:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        for table, kept in rows.items():
            execute(f"DELETE FROM {table}")  # noqa: S608 - names of this package
            for row in kept:
                execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608
        execute("DELETE FROM sqlite_sequence")
        for name, number in self._numbers:
            execute("INSERT INTO sqlite_sequence VALUES (?, ?)", (name, number))
        execute("COMMIT")

    def _counted(self) -> list[Sequence[Any]]:
        return self._query("SELECT name, seq FROM sqlite_sequence")

    def blocked(self) -> int:
        """None: SQLite tells whoever would have to wait, and a store of fastdur's waits at its gate."""
        return 0

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class SchemaPlace(Place):
    """A schema of a Postgres database that nobody else uses."""

    def __init__(self, dsn: str, schema: str) -> None:
        import psycopg

        super().__init__()
        self.prefix = f'"{schema}".'
        self._connection: Any = psycopg.connect(dsn, autocommit=True)

    def _query(self, text: str) -> list[Sequence[Any]]:
        return list(self._connection.execute(text.encode()).fetchall())

    def _fill(self, rows: dict[str, list[Sequence[Any]]]) -> None:
        with self._connection.transaction():
            for table, kept in rows.items():
                self._connection.execute(f"DELETE FROM {self.prefix}{table}".encode())  # noqa: S608
                for row in kept:
                    marks = ", ".join(["%s"] * len(row))
                    self._connection.execute(f"INSERT INTO {self.prefix}{table} VALUES ({marks})".encode(), row)  # noqa: S608
            for sequence, number, used in self._numbers:
                self._connection.execute("SELECT setval(%s, %s, %s)", (sequence, number, used))

    def _counted(self) -> list[Sequence[Any]]:
        sequences = (
            self._query(f"SELECT pg_get_serial_sequence('{self.prefix}{table}', '{column}')")[0][0]
            for table, column in _NUMBERED
        )
        return [(name, *self._query(f"SELECT last_value, is_called FROM {name}")[0]) for name in sequences]  # noqa: S608

    def blocked(self) -> int:
        """Those that wait for a lock, in the whole database."""
        ((count,),) = self._query(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0"
        )
        return int(count)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def place_of(store: Checkpointer, place: str) -> Place:
    """The place of a store of fastdur's own, which is set up."""
    if isinstance(store, PostgresCheckpointer):
        return SchemaPlace(store._conninfo, place)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - the same server
    return FilePlace(store.location)
