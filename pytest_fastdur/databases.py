"""Empty Postgres stores for tests: one database a worker, one schema for each store in use, emptied row by row."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing, contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Self

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from fastdur.checkpointers.postgres import PostgresCheckpointer
from pytest_fastdur.backends import TABLES
from pytest_fastdur.postgres import alive, start_for

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from pytest_fastdur.postgres import Server


class PostgresStores:
    """Empty stores in one database of their own, each in a schema of its own; made, kept and emptied as needed."""

    def __init__(self, server: str, worker: str) -> None:
        self._server = server
        host = sha256(os.uname().nodename.encode()).hexdigest()[:8]
        self._family = f"fastdur_test_{host}_"
        self._database = f"{self._family}{os.getpid()}_{worker}"
        self.dsn = make_conninfo(server, dbname=self._database)
        self._free: list[str] = []
        self._made = 0
        self._admin: psycopg.Connection[Any] | None = None

    def __enter__(self) -> Self:
        """Make the database; drop those of sessions on this host that have died."""
        with psycopg.connect(self._server, autocommit=True) as connection:
            names = [name for (name,) in connection.execute("SELECT datname FROM pg_database").fetchall()]
            for name in names:
                if name.startswith(self._family) and not alive(int(name[len(self._family) :].split("_")[0])):
                    self._drop(connection, name)
            self._drop(connection, self._database)
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(self._database)))
        self._admin = psycopg.connect(self.dsn, autocommit=True)
        return self

    def __exit__(self, *_: object) -> None:
        """Drop the database."""
        assert self._admin is not None
        self._admin.close()
        with psycopg.connect(self._server, autocommit=True) as connection:
            self._drop(connection, self._database)

    @staticmethod
    def _drop(connection: psycopg.Connection[Any], name: str) -> None:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def take(self) -> str:
        """An empty schema: one that was used before, without its rows, else a new one."""
        if not self._free:
            self._made += 1
            name = f"fastdur_{self._made}"
            with closing(self.open(name)) as store:
                store.setup()
            return name
        name = self._free.pop()
        try:
            self._clear(name)
        except psycopg.OperationalError:  # the server was killed since it was last spoken to
            self._admin = psycopg.connect(self.dsn, autocommit=True)
            self._clear(name)
        return name

    def _clear(self, schema: str) -> None:
        assert self._admin is not None
        removals = (sql.SQL("DELETE FROM {}").format(sql.Identifier(schema, table)) for table in TABLES)
        self._admin.execute(sql.SQL("; ").join(removals))  # one trip, one commit: every history begins with it

    def give_back(self, schema: str) -> None:
        """Let the schema be used again; whoever takes it finds it empty."""
        self._free.append(schema)

    def open(self, schema: str, dsn: str | None = None, **options: Any) -> PostgresCheckpointer:
        """A store object on a schema, by the way `dsn` if one is given."""
        return PostgresCheckpointer(dsn or self.dsn, schema, **options)

    @staticmethod
    @contextmanager
    def on_a_server_of_their_own(worker: str) -> Generator[tuple[PostgresStores, Server]]:
        """Stores on a server that is started for them, so that it may be killed. Raises `NoPostgres`."""
        server = start_for(os.getpid())
        try:
            with PostgresStores(server.dsn, worker) as stores:
                yield stores, server
        finally:
            server.remove()

    @contextmanager
    def schemas(self) -> Generator[Callable[[], str]]:
        """Give out empty schemas; all are free again afterwards."""
        taken: list[str] = []

        def fresh() -> str:
            taken.append(self.take())
            return taken[-1]

        yield fresh
        self._free += taken

    @contextmanager
    def stores(self) -> Generator[Callable[..., PostgresCheckpointer]]:
        """Give out empty stores; all are closed afterwards."""
        with self.schemas() as schema, ExitStack() as opened:

            def fresh(**options: Any) -> PostgresCheckpointer:
                return opened.enter_context(closing(self.open(schema(), **options)))

            yield fresh
