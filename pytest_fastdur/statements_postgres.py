"""Connections to Postgres whose cursors tell of every statement; imported only where there is a driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg

from fastdur.checkpointers._postgres_server import Connection, OneStatement

if TYPE_CHECKING:
    from pytest_fastdur.statements import Hears


def telling(kind: type[Connection], hears: Hears) -> type[Connection]:
    """A kind of connection that tells."""

    def told(execute: Any, query: Any, *values: Any, **options: Any) -> Any:
        text = query.decode() if isinstance(query, bytes) else str(query)
        hears.statement("before", text)
        done = execute(query, *values, **options)
        hears.statement("after", text)
        return done

    class Cursor(psycopg.Cursor[tuple[Any, ...]]):
        def execute(self, query: Any, *values: Any, **options: Any) -> Any:
            return told(super().execute, query, *values, **options)

    class UsersCursor(OneStatement):
        def execute(self, query: Any, *values: Any, **options: Any) -> Any:
            return told(super().execute, query, *values, **options)

    class Telling(kind):  # type: ignore[valid-type,misc] # a class that is handed in
        def __init__(self, *given: Any, **options: Any) -> None:
            super().__init__(*given, **options)
            self.cursor_factory = Cursor

        def users_cursor(self) -> OneStatement:
            return UsersCursor(self)

    return Telling
