"""An empty Postgres schema for each history of a subject; imported only where there is a driver."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def fresh_schema(dsn: str) -> Generator[str]:
    """Give out the connection string of a schema of its own, which is dropped afterwards with all that is in it."""
    name = f"subject_{secrets.token_hex(6)}"
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
        try:
            yield make_conninfo(dsn, options=f"-c search_path={name}", application_name=name)
        finally:
            ended = sql.SQL(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                "AND datname = current_database() AND application_name = {}"
            ).format(sql.Literal(name))
            admin.execute(ended)
            admin.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))
