"""The cursor of the body of a transactional effect: statements of the user's in a transaction of the store."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from contextvars import ContextVar
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any, Final, NoReturn

from fastdur.errors import FastdurError, InTransaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Self

# A comment in a comment ends at another place in each database, so none is looked through.
_FIRST: Final = r"(?:[\s;\ufeff]|--[^\n]*(?:\n|$)|/\*(?:(?!/\*).)*?\*/)*(/\*|[A-Za-z]*)"  # compiled at the first use
_ENDS: Final = frozenset(
    {"abort", "attach", "begin", "commit", "copy", "deallocate", "detach", "discard", "end", "listen", "load"}
    | {"pragma", "prepare", "release", "reset", "rollback", "savepoint", "set", "start", "unlisten", "vacuum", "/*"}
)
"""What would begin or end a transaction, change the connection under it, or leave something in it for the next."""


class TransactionCursor:
    """As much of a driver's cursor as cannot end the transaction that it is in. Closed when the body returns.

    `spoilt` tells why the transaction can no longer be committed, if so; `faulty` whether an error of the driver, of
    `kind`, says something of the database and not of the statement.
    """

    def __init__(
        self,
        cursor: Any,
        kind: type[Exception],
        faulty: Callable[[Any], bool],
        spoilt: Callable[[], str | None],
    ) -> None:
        self._cursor, self._kind, self._faulty, self._spoilt = cursor, kind, faulty, spoilt
        self._lock = Lock()
        self._runs: int | None = None
        self._process = os.getpid()
        self.name = ""
        """The effect whose body has it."""
        self._open = True
        self.fault: Exception | None = None
        """What the database failed with, under whatever statement and whoever caught it."""

    def execute(self, sql: str, parameters: Any = None) -> Self:
        """Run one statement."""
        self._run(self._cursor.execute, sql, *(() if parameters is None else (parameters,)))
        return self

    def executemany(self, sql: str, parameters: Iterable[Any]) -> Self:
        """Run one statement for each set of parameters."""
        self._run(self._cursor.executemany, sql, parameters)
        return self

    def fetchone(self) -> Any:
        """The next row, None after the last."""
        return self._do(self._cursor.fetchone)

    def fetchmany(self, size: int = 1) -> list[Any]:
        """The next rows."""
        return list(self._do(self._cursor.fetchmany, size))

    def fetchall(self) -> list[Any]:
        """The rows that are left."""
        return list(self._do(self._cursor.fetchall))

    def __iter__(self) -> Iterator[Any]:
        """The rows that are left, one by one."""
        return iter(self.fetchall())

    def __enter__(self) -> Self:
        """Itself; the end of a `with` commits nothing and closes nothing."""
        return self

    def __exit__(self, *_: object) -> None:
        """The body goes on."""

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

    def commit(self) -> NoReturn:
        """Refuse."""
        raise _refusal("commit()")

    def rollback(self) -> NoReturn:
        """Refuse."""
        raise _refusal("rollback()")

    def executescript(self, sql: str) -> NoReturn:
        """Refuse: a script commits."""
        raise _refusal(f"executescript() of {len(sql)} characters")

    # -- what the store does with it -----------------------------------------------------------------------------------

    def under_way(self) -> bool:
        """Whether the body is being run, in this process."""
        return self._open and self._process == os.getpid()

    def end(self) -> None:
        """The body has returned. A statement that is being run in another thread is waited for."""
        with self._lock:
            self._open = False
            # Rows that nobody has fetched would hold the transaction up, or the ones after it.
            with suppress(self._kind):
                self._cursor.close()

    def whole(self) -> None:
        """Raise what makes a commit impossible."""
        if self.fault is not None:
            raise self.fault
        if self._process != os.getpid():
            message = "A child made by fork has no part in the transaction of its parent; write in the parent."
            raise InTransaction(message)
        spoilt = self._spoilt()
        if spoilt is not None:
            message = f"{spoilt}; nothing of {self.name}() is kept."
            raise InTransaction(message)

    # -- one statement -------------------------------------------------------------------------------------------------

    def _run(self, execute: Callable[..., Any], sql: str, *parameters: Any) -> None:
        first: Any = re.match(_FIRST, sql, re.DOTALL)  # which matches nothing too
        if first[1].lower() in _ENDS:
            what = first[1].upper() if first[1] != "/*" else "A comment in a comment"
            raise _refusal(what)
        self._do(execute, sql, *parameters)

    def _do(self, what: Callable[..., Any], *arguments: Any) -> Any:
        if self._runs == get_ident():
            message = "A statement of transaction() while another one is being run, whose parameters it may be part of."
            raise InTransaction(message)
        with self._lock:
            if not self._open:
                message = "The cursor of transaction() ends with the body of its effect."
                raise InTransaction(message)
            self.whole()
            self._runs = get_ident()
            try:
                return what(*arguments)
            except self._kind as error:
                if self._faulty(error):
                    self.fault = error
                raise
            finally:
                self._runs = None


class UndoneError(FastdurError):
    """The body of a transactional effect has failed: its transaction is rolled back."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


inside: ContextVar[TransactionCursor | None] = ContextVar("fastdur_transaction", default=None)
"""The cursor of the body that the code is in."""


def alone(what: str) -> None:
    """Refuse `what` in the body of a transactional effect."""
    cursor = inside.get()
    if cursor is not None and cursor.under_way():
        message = (
            f"{what} in the body of {cursor.name}(), which is transactional: it is one commit. Do it before or after."
        )
        raise InTransaction(message)


def _refusal(what: str) -> InTransaction:
    message = f"{what} in the body of a transactional effect, which is one commit by itself; leave it away."
    return InTransaction(message)
