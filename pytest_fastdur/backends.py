"""Where histories are kept: SQLite files, or schemas of a Postgres database."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from typing import TYPE_CHECKING, Protocol, Self

from fastdur.checkpointers.sqlite import SQLiteCheckpointer

if TYPE_CHECKING:
    from fastdur.checkpointers._patience import Session
    from fastdur.checkpointers.postgres import PostgresCheckpointer
    from fastdur.checkpointers.protocol import Checkpointer
    from pytest_fastdur.databases import PostgresStores
    from pytest_fastdur.postgres import Server
    from pytest_fastdur.wire import Wire


TABLES = ("checkpoints", "pending_interrupts", "idempotency_cache", "starts", "executions")
"""Every table of a store that holds rows."""


class Backend(Protocol):
    """Makes places for stores, and opens them: any number of times, as processes come and go."""

    name: str
    """As `--fastdur-backends` calls it."""
    served: bool
    """Whether a server keeps them, with a connection in between."""
    shared: bool
    """Whether another process can open them."""
    server: Server | None
    """The server that keeps them, where it is one that may be killed."""

    def __enter__(self) -> Self:
        """Begin."""
        ...

    def __exit__(self, *_: object) -> None:
        """End, and leave nothing."""
        ...

    def fresh(self) -> str:
        """Return an empty place."""
        ...

    def open(self, place: str, wire: Wire | None = None) -> Checkpointer:
        """Return a new store object on a place, reached through `wire` where one is given."""
        ...

    def wire(self) -> Wire | None:
        """Return a proxy in front of the server, None where there is no server."""
        ...

    def discard(self, place: str) -> None:
        """Give a place back."""
        ...

    def spare(self, place: str) -> str:
        """Keep a place for inspection; where it is."""
        ...


def fast_folder() -> str | None:
    """Where the files of histories go: a memory file system where there is one, else None for the usual place.

    A killed process loses nothing that it has written, because written pages belong to the kernel; so SIGKILL cannot
    tell a memory file system from a disk. A power cut could: there a model of a disk says what is left.
    """
    memory = "/dev/shm"  # noqa: S108 - only as a place for files with random names
    return memory if os.access(memory, os.W_OK) else None


class Files:
    """A file for each history, in a folder of its own, or in one that is given and stays.

    With `reuse` a file that is given back is emptied row by row and given out again: making one takes longer.
    """

    name, served, shared = "sqlite", False, True
    server: Server | None = None

    def __init__(self, folder: str | None = None, *, reuse: bool = False) -> None:
        self._folder, self._stays = folder or "", folder is not None
        self._reuse = reuse
        self._free: list[str] = []
        self._count = 0

    def __enter__(self) -> Self:
        """Make the folder."""
        if not self._stays:
            self._folder = tempfile.mkdtemp(prefix="fastdur-", dir=fast_folder())
        return self

    def __exit__(self, *_: object) -> None:
        """Remove it."""
        if not self._stays:
            shutil.rmtree(self._folder)

    def fresh(self) -> str:
        """Return the path of a file that is not there, or holds an empty store."""
        if self._free:
            return self._free.pop()
        self._count += 1
        return os.path.join(self._folder, f"fastdur-{self._count}.db")  # noqa: PTH118 - thousands of times

    def open(self, place: str, wire: Wire | None = None) -> SQLiteCheckpointer:
        """Return a new store object on a file."""
        assert wire is None, "nothing is between a process and its file"
        return SQLiteCheckpointer(place)

    def wire(self) -> None:
        """Nothing is between a process and its file."""

    def discard(self, place: str) -> None:
        """Remove the file, and what SQLite keeps beside it; or empty it."""
        if self._reuse and os.path.exists(place):  # noqa: PTH110 - a plain name, thousands of times
            _empty(place)
            self._free.append(place)
            return
        remove(place)

    def spare(self, place: str) -> str:
        """Copy the file to where nothing removes it."""
        return _copied(place)


def remove(path: str) -> None:
    """Remove a store's file, and what SQLite keeps beside it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        if os.path.exists(path + suffix):  # noqa: PTH110 - plain names, thousands of times
            os.unlink(path + suffix)  # noqa: PTH108


def _copied(path: str) -> str:
    """A copy of a store's file that nothing removes, made by SQLite."""
    kept = os.path.join(tempfile.mkdtemp(prefix="fastdur-kept-"), os.path.basename(path))  # noqa: PTH118, PTH119
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(kept)) as target:
        source.backup(target)
    return kept


def _empty(path: str) -> None:
    """Take every row out of a store's file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
        for (name,) in names.fetchall():
            if name != "schema_version":
                connection.execute(f'DELETE FROM "{name}"')  # noqa: S608 - a table's own name
        connection.execute("COMMIT")


class Memory:
    """A store in memory for each history: nothing is written anywhere, and no child process can be made of it.

    One connection stands for the file. Each store object is a new one, as each process has, and what is known only to
    the object is gone with it.
    """

    name, served, shared = "memory", False, False
    server: Server | None = None

    def __init__(self) -> None:
        self._files: dict[str, SQLiteCheckpointer] = {}
        self._free: list[str] = []

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of all of it."""
        for file in self._files.values():
            file.close()

    def fresh(self) -> str:
        """Return the name of an empty store."""
        if self._free:
            return self._free.pop()
        name = f"memory-{len(self._files) + 1}"
        self._files[name] = SQLiteCheckpointer(":memory:")
        self._files[name].setup()
        return name

    def open(self, place: str, wire: Wire | None = None) -> SQLiteCheckpointer:
        """Return a new store object on it."""
        assert wire is None, "nothing is between a process and its memory"
        return _InMemory(self._files[place], place)

    def wire(self) -> None:
        """Nothing is between a process and its memory."""

    def discard(self, place: str) -> None:
        """Let the store be used again, without its rows."""
        self._files[place]._write(_without_rows)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - what no store does by itself
        self._free.append(place)

    def spare(self, place: str) -> str:
        """Nothing can be kept of it."""
        return place


def _without_rows(session: Session) -> None:
    for table in TABLES:
        session.change(f"DELETE FROM {table}", ())  # noqa: S608 - names of this package


class _InMemory(SQLiteCheckpointer):
    """A store object on the connection of another."""

    def __init__(self, file: SQLiteCheckpointer, place: str) -> None:
        super().__init__(":memory:")
        self._place = place
        self._kept.writer = file._kept.writer  # noqa: SLF001 - a store in memory is its connection

    @property
    def location(self) -> str:
        """The place."""
        return self._place

    def _rest(self) -> None:
        """Let go of the connection, and of a transaction that was left open in it, as a dying process does."""
        with self._turns:
            self._undo()
            self._kept.writer = None


class Schemas:
    """A schema for each history, in the database of this worker; `server` is the one it is on, if it may be killed."""

    name, served, shared = "postgres", True, True

    def __init__(self, stores: PostgresStores, server: Server | None = None) -> None:
        self._stores = stores
        self.server = server
        self.dsn = stores.dsn
        """The database that the schemas are in."""

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """End."""

    def fresh(self) -> str:
        """Return the name of an empty schema."""
        return self._stores.take()

    def open(self, place: str, wire: Wire | None = None) -> PostgresCheckpointer:
        """Return a new store object on a schema; one connection, as one process of a run needs.

        Behind a wire it is connected already: what is faulted later is what a run sends.
        """
        store = self._stores.open(place, None if wire is None else wire.dsn, min_pool_size=1, max_pool_size=2)
        if wire is not None:
            store.setup()
        return store

    def unsynced(self, place: str) -> PostgresCheckpointer:
        """Return a store object whose commits do not wait for the disk, for histories in which no server dies."""
        from psycopg.conninfo import make_conninfo

        dsn = make_conninfo(self._stores.dsn, options="-c synchronous_commit=off")
        return self._stores.open(place, dsn, min_pool_size=1, max_pool_size=2, durability="normal")

    def wire(self) -> Wire:
        """Return a proxy in front of the server."""
        from pytest_fastdur.wire import Wire

        return Wire(self._stores.dsn)

    def discard(self, place: str) -> None:
        """Let the schema be used again."""
        self._stores.give_back(place)

    def spare(self, place: str) -> str:
        """It stays until the database of this worker is dropped."""
        return f"schema {place} of {self._stores.dsn}"
