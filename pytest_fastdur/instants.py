"""Every change that a process sends to SQLite or Postgres, and every commit of one, as instants before and after it.

Only for a process that ends with the lifetime: nothing is put back. Statements that only read are no instants, because
a crash beside one leaves what a crash at its neighbour leaves, and many libraries read by a clock.
"""

from __future__ import annotations

import re
import sqlite3
import sys
import threading
from collections import Counter
from functools import wraps
from typing import TYPE_CHECKING, Any, cast

from pytest_fastdur.statements import summary

if TYPE_CHECKING:
    from collections.abc import Callable

_NOTE = re.compile(r"\A(?:\s|--[^\n]*\n|/\*.*?\*/)+", re.DOTALL)
_CHANGES = ("INSERT", "UPDATE", "DELETE", "REPLACE", "CREATE", "ALTER", "DROP", "TRUNCATE", "MERGE", "COPY")
_WITHIN = re.compile(r"\b(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM|MERGE\s+INTO)\b", re.IGNORECASE)


class Instants:
    """Names the instants of a lifetime, and hands each to `passed`, in whatever thread it comes up."""

    def __init__(self, passed: Callable[[str, str], object]) -> None:
        self._passed = passed
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def tell(self, when: str, name: str) -> str:
        """Before it, the name gets a number where it has come up already; after it, the numbered name is given."""
        if when == "before":
            with self._lock:
                self._counts[name] += 1
                number = self._counts[name]
            name = name if number == 1 else f"{name} #{number}"
        self._passed(when, name)
        return name

    def around(self, connection: Any, text: str, do: Callable[[], Any]) -> Any:
        """Do what a statement says, and tell of it where it changes anything."""
        name = self._named(connection, text)
        if name is None:
            return do()
        name = self.tell("before", name)
        done = do()
        self.tell("after", name)
        return done

    def _named(self, connection: Any, text: str) -> str | None:
        said = _NOTE.sub("", text)
        verb = (said.split(None, 1) or [""])[0].upper().rstrip(";")
        if verb in ("COMMIT", "END"):
            changed, connection.fastdur_changed = getattr(connection, "fastdur_changed", False), False
            return "commit" if changed else None
        if verb == "ROLLBACK" and " TO " not in said.upper():
            connection.fastdur_changed = False
        if verb in _CHANGES or (verb == "WITH" and _WITHIN.search(said)):
            connection.fastdur_changed = True
            return f"sql {summary(said)}"
        return None


def tell_of_databases(instants: Instants) -> None:
    """Let every connection that this process makes from here on tell."""
    connect = _telling_sqlite(instants)
    for name in ("sqlite3", "sqlite3.dbapi2"):
        vars(sys.modules[name])["connect"] = connect
    if "psycopg" in sys.modules:
        _tell_of_psycopg(instants)


def _telling_sqlite(instants: Instants) -> Callable[..., sqlite3.Connection]:  # noqa: C901 - two classes of one line each method
    class Cursor(sqlite3.Cursor):
        def execute(self, sql: str, *values: Any) -> Any:
            return instants.around(self.connection, sql, lambda: super(Cursor, self).execute(sql, *values))

        def executemany(self, sql: str, *values: Any) -> Any:
            return instants.around(self.connection, sql, lambda: super(Cursor, self).executemany(sql, *values))

        def executescript(self, sql: str) -> Any:
            self.connection.commit()  # as the original does first
            return instants.around(self.connection, "CREATE script", lambda: super(Cursor, self).executescript(sql))

    class Telling:
        def cursor(self, factory: Any = None) -> Any:
            made = Cursor if factory is None else type("Telling", (Cursor, factory), {})
            return cast("Any", super()).cursor(made)

        def execute(self, sql: str, *values: Any) -> Any:
            return self.cursor().execute(sql, *values)

        def executemany(self, sql: str, *values: Any) -> Any:
            return self.cursor().executemany(sql, *values)

        def executescript(self, sql: str) -> Any:
            return self.cursor().executescript(sql)

        def commit(self) -> None:
            instants.around(self, "COMMIT", cast("Any", super()).commit)

        def rollback(self) -> None:
            instants.around(self, "ROLLBACK", cast("Any", super()).rollback)

        def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
            (self.commit if kind is None else self.rollback)()

    @wraps(sqlite3.connect)
    def connect(*given: Any, factory: Any = sqlite3.Connection, **options: Any) -> sqlite3.Connection:
        kind: Any = type("Telling", (Telling, factory), {})
        made: sqlite3.Connection = _CONNECT(*given, factory=kind, **options)
        return made

    return connect


_CONNECT: Any = sqlite3.connect


def _tell_of_psycopg(instants: Instants) -> None:
    """The methods themselves: libraries make classes of their own from these."""
    import psycopg

    def text_of(query: Any) -> str:
        return query.decode() if isinstance(query, bytes) else str(query)

    def run(kind: Any, name: str) -> None:
        original = getattr(kind, name)

        def telling(cursor: Any, query: Any, *given: Any, **options: Any) -> Any:
            connection = cursor.connection
            named = text_of(query)
            done = instants.around(connection, named, lambda: original(cursor, query, *given, **options))
            if connection.autocommit and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
                connection.fastdur_changed = False  # it was committed with its statement
            return done

        setattr(kind, name, wraps(original)(telling))

    def end(kind: Any, name: str, text: str) -> None:
        original = getattr(kind, name)

        def telling(one: Any, *given: Any) -> Any:
            of: Any = one if kind is psycopg.Connection else one.connection
            said = "ROLLBACK" if given and given[0] is not None else text
            outermost = kind is psycopg.Connection or one.savepoint_name == ""
            return instants.around(of, said if outermost else "", lambda: original(one, *given))

        setattr(kind, name, wraps(original)(telling))

    for method in ("execute", "executemany"):
        run(psycopg.Cursor, method)
    end(psycopg.Connection, "commit", "COMMIT")
    end(psycopg.Connection, "rollback", "ROLLBACK")
    end(psycopg.Transaction, "__exit__", "COMMIT")
