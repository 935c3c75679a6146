"""The cursor of the body of a transactional effect: statements of the user's in a transaction of the store."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from fastdur.errors import InTransaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_BLANK: Final = re.compile(r"(?:\s|;|--[^\n]*(?:\n|$)|/\*.*?\*/)*", re.DOTALL)
_ENDS: Final = frozenset(
    {"abort", "attach", "begin", "commit", "detach", "end", "pragma", "release", "rollback", "savepoint", "set"}
    | {"start", "vacuum"}
)
"""What would begin or end a transaction, or change the connection under it."""


class TransactionCursor:
    """As much of a driver's cursor as cannot end the transaction that it is in. Closed when the body returns."""

    def __init__(self, cursor: Any, inside: Callable[[], bool]) -> None:
        self._cursor = cursor
        self._inside = inside
        self._open = True

    def execute(self, sql: str, parameters: Any = ()) -> TransactionCursor:
        """Run one statement."""
        self._check(sql)
        self._cursor.execute(sql, parameters)
        return self

    def executemany(self, sql: str, parameters: Iterable[Any]) -> TransactionCursor:
        """Run one statement for each set of parameters."""
        self._check(sql)
        self._cursor.executemany(sql, parameters)
        return self

    def fetchone(self) -> Any:
        """The next row, None after the last."""
        self._check("")
        return self._cursor.fetchone()

    def fetchmany(self, size: int = 1) -> list[Any]:
        """The next rows."""
        self._check("")
        return list(self._cursor.fetchmany(size))

    def fetchall(self) -> list[Any]:
        """The rows that are left."""
        self._check("")
        return list(self._cursor.fetchall())

    def __iter__(self) -> Iterator[Any]:
        """The rows that are left, one by one."""
        return iter(self.fetchall())

    @property
    def rowcount(self) -> int:
        """How many rows the last statement changed."""
        return int(self._cursor.rowcount)

    @property
    def lastrowid(self) -> int | None:
        """The id of the row that was inserted last, where the database gives one."""
        return getattr(self._cursor, "lastrowid", None)

    @property
    def description(self) -> Any:
        """The columns of the last query."""
        return self._cursor.description

    def end(self) -> None:
        """The body has returned."""
        self._open = False
        self._cursor.close()

    def whole(self) -> None:
        """Raise `InTransaction` where the database has given the transaction up by itself."""
        if not self._inside():
            message = "The database has rolled the transaction back after an error; nothing of the effect is kept."
            raise InTransaction(message)

    def _check(self, sql: str) -> None:
        if not self._open:
            message = "The cursor of transaction() ends with the body of its effect."
            raise InTransaction(message)
        self.whole()
        word = sql[_BLANK.match(sql).end() :].split(None, 1)[:1]  # type: ignore[union-attr] # it matches nothing too
        if word and word[0].rstrip(";").lower() in _ENDS:
            message = f"{word[0]} in the body of a transactional effect, which is one commit by itself."
            raise InTransaction(message)
