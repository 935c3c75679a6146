"""Transactions that the Postgres server itself aborts: triggers on the tables of a store that refuse what is written.

The first write after they are armed is refused as a serialization failure, the second as the victim of a deadlock, the
third is let through. A sequence counts, because what a transaction takes from one is not given back when it is rolled
back; so it also tells how often they have struck.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from pytest_fastdur.backends import TABLES

if TYPE_CHECKING:
    from psycopg.abc import Query

_REFUSING = """
CREATE SEQUENCE {counter};
CREATE FUNCTION {refuse} RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    CASE nextval({named})
        WHEN 1 THEN RAISE EXCEPTION 'could not serialize access, as ordered' USING ERRCODE = 'serialization_failure';
        WHEN 2 THEN RAISE EXCEPTION 'deadlock detected, as ordered' USING ERRCODE = 'deadlock_detected';
        ELSE RETURN NULL;
    END CASE;
END $$
"""


def arm(store: Any) -> None:
    """Refuse the next two writes to a store."""
    schema: str = store._schema  # noqa: SLF001 - where the tables are
    counter = sql.Identifier(schema, "fastdur_aborted")
    refuse = sql.SQL("{}()").format(sql.Identifier(schema, "fastdur_abort"))
    named = sql.Literal(counter.as_string())
    statements: list[Query] = [sql.SQL(_REFUSING).format(counter=counter, refuse=refuse, named=named)]
    for table in TABLES:
        trigger = "CREATE TRIGGER fastdur_abort BEFORE INSERT OR UPDATE OR DELETE ON {} EXECUTE FUNCTION {}"
        statements.append(sql.SQL(trigger).format(sql.Identifier(schema, table), refuse))
    with _beside(store) as connection:
        for statement in statements:
            connection.execute(statement)


def disarm(store: Any) -> int:
    """Refuse nothing any more; return how many writes were refused."""
    schema: str = store._schema  # noqa: SLF001 - where the tables are
    counter = sql.Identifier(schema, "fastdur_aborted")
    with _beside(store) as connection:
        row = connection.execute(
            sql.SQL("SELECT CASE WHEN is_called THEN least(last_value, 2) ELSE 0 END FROM {}").format(counter)
        ).fetchone()
        connection.execute(sql.SQL("DROP FUNCTION {} CASCADE").format(sql.Identifier(schema, "fastdur_abort")))
        connection.execute(sql.SQL("DROP SEQUENCE {}").format(counter))
    return 0 if row is None else int(row[0])


def _beside(store: Any) -> psycopg.Connection[Any]:
    """A connection to the server of a store, beside its own; what is done on it is committed when it is closed."""
    return psycopg.connect(store._conninfo)  # noqa: SLF001 - where the server is
