"""The server of a Postgres store: where it is, how it is connected to, and what its errors mean."""

from __future__ import annotations

import os
import re
import select
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from fastdur.checkpointers._patience import Again
from fastdur.errors import FastdurError, InTransaction, NotStorable, StoreCorrupt, StoreUnavailable

try:
    import psycopg
    import psycopg_pool
    from psycopg import sql
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
except ImportError as missing:
    text = (
        "PostgresCheckpointer needs psycopg and psycopg_pool, which are not installed: pip install 'fastdur[postgres]'"
    )
    raise ImportError(text) from missing

if TYPE_CHECKING:
    from collections.abc import Generator

T = TypeVar("T")

PREPARE: Final = "prepare_threshold"
"""After how many uses of a statement the server is to keep it for the session; None: never."""

NOT_PREPARED: Final = ("26000", "42P05")
"""A statement that the server was to keep is not there, or is there already: nothing was done, not even begun."""

DriverError = psycopg.Error
Forbidden = psycopg.errors.InsufficientPrivilege
NoConnection = psycopg_pool.PoolTimeout, psycopg_pool.PoolClosed

_GIVE_UP: Final = (
    b"SELECT pg_advisory_unlock_all()::text UNION ALL SELECT name FROM pg_prepared_statements WHERE from_sql"
)
"""Give up the locks of a session, and list the statements that were prepared in it by name. A commit keeps both."""

_LOOK_EVERY: Final = 0.1
"""After how many seconds without a sign of the server the driver looks up."""

_CONNECT_WITHIN: Final = 10

_ROLLED_BACK: Final = {
    "40001": "a conflict with another transaction",
    "40P01": "a deadlock with another transaction",
    "55P03": "a lock that another transaction holds",
    "57014": "the server cancelled the statement",
    "53300": "the server takes no more connections",
    "53200": "the server is out of memory",
    "57P03": "the server is starting or stopping",
    "25006": "the server is read-only: a standby, or a primary that steps down",
}
"""Nothing of the statement was done, and the next try may succeed."""

_ASKED_FOR: Final = ("55P03", "57014")
"""Of these, what a statement of the user's may have asked for: NOWAIT, or a limit of its own time."""

_GONE: Final = ("08", "57P", "40003", "25P03", "25P04")
"""The beginnings of the codes after which the session is over, and the outcome of its statement not known."""

_REFUSED: Final[tuple[tuple[tuple[str, ...], type[FastdurError | OverflowError], str], ...]] = (
    (
        ("42501",),
        StoreUnavailable,
        (
            "The store {at} did not take this: {told}. Nothing was written. Let an administrator grant it: USAGE on "
            "the schema, SELECT, INSERT, UPDATE and DELETE on its tables."
        ),
    ),
    (("42939",), StoreUnavailable, "The store {at} cannot be made ({told}). Nothing was written. Give another schema."),
    (("54000",), NotStorable, "A value is longer than the store {at} takes ({told}); keep it outside, store its name"),
    (("22003",), OverflowError, "{told}"),
    (
        ("42", "3F", "23", "22", "XX001", "XX002"),  # a table or column is not there, or not as it was made
        StoreCorrupt,
        (
            "The store {at} is damaged or not a fastdur store ({code}: {told}); restore it from a backup, or give "
            "another schema."
        ),
    ),
    (("",), StoreUnavailable, "The store {at} did not take this ({code}: {told}). Nothing was written."),
)
"""The beginnings of the codes of a refusal, the first that fits, and what to raise."""

_TOO_LONG: Final = ("25P03", "25P04")
"""The server has ended a transaction that did nothing, or took too long."""

TAKEN: Final = "42P07"
"""A table or index of that name is there."""

COLLISIONS: Final = ("23505", "42P06", TAKEN, "42701", "42710")
"""Somebody else has just made the same schema, table, column or index: all of the store, or it is something else's."""

_HOPELESS: Final = (
    "authentication failed",
    "no password supplied",
    "does not exist",
    "no pg_hba.conf entry",
    "permission denied for database",
    "pg_hba.conf rejects",
    "is not permitted to log in",
    "no such user",
    "no such database",
    "certificate",
    "does not support SSL",
    "channel binding required",
    "GSSAPI encryption required",
    'value: ""',
    "bad value for",
    "invalid value for",
    "invalid integer value",
    "invalid port number",
    "unrecognized configuration parameter",
    "unsupported startup parameter",
    "could not match",
    "could not parse network address",
    "definition of service",
)
"""What a refused connection says where waiting will not help: who, what, or how is not as the string says, or the
string makes no sense. The protocol's code is not given there.
"""

_NAMED: Final = r'"[^"]*"'


def settings() -> dict[str, Any]:
    """Return how to connect. Nothing of a session is needed later: the next statement may meet another one."""
    return {
        "autocommit": True,
        PREPARE: None,
        "client_encoding": "utf8",
        "fallback_application_name": "fastdur",
    }


class SilentError(psycopg.OperationalError):
    """The server gave no sign of life for as long as the store waits."""

    def __init__(self, seconds: float) -> None:
        super().__init__("the server gave no sign of life")
        self.seconds = seconds


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that gives a server up which gives no sign for `patience` seconds, in counted looks."""

    patience: float = 60.0
    waited: float = 0.0
    """For how many seconds the server was waited for since the store took the connection, in counted looks."""
    ready: ClassVar[list[Connection]] = []
    """What `connect` gives out before it makes any."""
    _cursor: psycopg.Cursor[tuple[Any, ...]] | None = None

    @classmethod
    def connect(cls, *args: Any, **options: Any) -> Connection:
        """Connect."""
        return cls.ready.pop() if cls.ready else super().connect(*args, **options)

    def keeps_statements(self, answered_by: int) -> bool:
        """Whether the process that answers is the one that has greeted. A pooler, which may let another answer at any
        time, greets by itself.
        """
        return answered_by == self.info.backend_pid

    def one_cursor(self) -> psycopg.Cursor[tuple[Any, ...]]:
        """Return the cursor that all statements share: making one takes time."""
        if self._cursor is None:
            self._cursor = self.cursor()
        return self._cursor

    def users_cursor(self) -> OneStatement:
        """Return a cursor for statements of the user's."""
        return OneStatement(self)

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:
        """Consume a generator of the driver."""
        return super().wait(self._counted(gen), *args, **options)

    def _counted(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        silent = 0
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                silent = 0 if ready else silent + 1
                self.waited += 0 if ready else _LOOK_EVERY
                if silent * _LOOK_EVERY >= self.patience:
                    self.close()
                    raise SilentError(self.patience)
                wanted = gen.send(ready)
        except StopIteration as end:
            found: T = end.value
            return found

    def lost(self) -> bool:
        """Whether an idle connection has been ended from the other side: then there is something to read."""
        ready = select.poll()
        ready.register(self.pgconn.socket, select.POLLIN)
        return bool(ready.poll(0))

    # -- a transaction with statements of the user's -------------------------------------------------------------------

    def faulty(self, error: psycopg.Error, asked_for: tuple[str, ...] = _ASKED_FOR) -> bool:
        """Whether an error under a statement of the user's says something of the server, and not of the statement."""
        code = error.sqlstate
        if code is None:  # else the driver itself has refused the statement
            return self.closed
        return code.startswith(_GONE) or (code in _ROLLED_BACK and code not in asked_for)

    def spoilt(self) -> str | None:
        """Why an open transaction can no longer be committed, None where it can."""
        status = self.info.transaction_status
        if status == psycopg.pq.TransactionStatus.INERROR:
            return "An error in a statement has spoilt the transaction"
        return None if status == psycopg.pq.TransactionStatus.INTRANS else "The transaction is no longer open"

    def undo(self, process: int) -> None:
        """Roll back what is open, and give up what the session has kept of the user's statements; where that cannot be
        done, the connection is closed, which does it too.

        Only in the process that has begun it: a child made by fork meanwhile leaves its parent's connection alone.
        """
        if self.closed or process != os.getpid():
            return
        execute = self.one_cursor().execute
        try:
            if self.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                execute(b"ROLLBACK", prepare=False)
            kept = execute(_GIVE_UP, prepare=False).fetchall()
            for (name,) in kept[1:]:
                execute(sql.SQL("DEALLOCATE {}").format(sql.Identifier(name)), prepare=False)
        except psycopg.Error:
            self.close()


class OneStatement(psycopg.Cursor[tuple[Any, ...]]):
    """A cursor that hands each text to the server as one statement: two, of which one commits, are refused by it."""

    def _execute_send(self, query: Any, *, force_extended: bool = True, **options: Any) -> None:
        super()._execute_send(query, force_extended=force_extended, **options)


class Pool(psycopg_pool.ConnectionPool[Connection]):
    """Connections of one process. A child made by fork leaves them alone."""

    def __init__(self, first: Connection, conninfo: str, kwargs: dict[str, Any], smallest: int, largest: int) -> None:
        self._made_by = os.getpid()
        self._ready = [first]
        super().__init__(
            conninfo,
            connection_class=type("Connection", (type(first),), {"ready": self._ready}),
            kwargs=kwargs,
            min_size=smallest,
            max_size=largest,
            open=True,
            num_workers=1,
            # The store itself tries again; a pool waits twice as long after each try in vain, and everybody with it.
            reconnect_timeout=0.0,
        )

    def close(self, timeout: float = 5.0) -> None:
        """Close every connection that is not in use."""
        super().close(timeout)
        while self._ready:
            self._ready.pop().close()

    def __del__(self) -> None:
        """Stop the threads, where they are."""
        if self._made_by == os.getpid():
            super().__del__()


def parsed(connection_string: object) -> tuple[str, str]:
    """Return what to connect with, and where that leads, for people: host, port and database, never a password.

    Raises `ValueError` for a string that the driver does not understand, `TypeError` for what is none.
    """
    if not isinstance(connection_string, str):
        message = f"connection_string is a {type(connection_string).__name__}; give 'postgresql://user@host/dbname'"
        raise TypeError(message)
    try:
        given = conninfo_to_dict(connection_string)
    except psycopg.ProgrammingError as error:
        message = "connection_string is not understood; give 'postgresql://user@host/dbname' or 'host=… dbname=…'"
        raise ValueError(message) from error.with_traceback(None)
    known: dict[str, Any] = {
        option.keyword.decode(): option.val.decode()
        for option in psycopg.pq.Conninfo.get_defaults()
        if option.val is not None
    }
    known.update(given)
    host = str(known.get("host") or known.get("hostaddr") or "localhost")
    database = known.get("dbname") or known.get("user") or ""
    if "connect_timeout" not in known:
        given["connect_timeout"] = _CONNECT_WITHIN
    return make_conninfo("", **given), f"{host}:{known.get('port', 5432)}/{database}"


def understood(
    error: psycopg.Error, location: str, *, sent: bool, body: bool = False, waited: float = 0.0
) -> FastdurError | OverflowError | Again:
    """Return what to raise for a driver's error; `sent` tells that a write was on its way, `body` that it belonged to
    one of a transactional effect, `waited` for how many seconds the server was waited for.
    """
    code, told = error.sqlstate, " ".join(str(error.diag.message_primary or error).split())
    if code in _TOO_LONG and body:
        message = f"The body of a transactional effect did nothing for too long ({told}); nothing of it is kept."
        return InTransaction(message)
    if code is None:
        return _unanswered(error, told, location, sent=sent)
    if code in NOT_PREPARED:
        return Again(f"the session is another one than before ({code}: {told})", unclear=False)
    if code in _ROLLED_BACK:
        return Again(f"{_ROLLED_BACK[code]} ({code}: {told})", unclear=False, waited=waited)
    if code.startswith(_GONE):
        return Again(f"the connection was ended ({code}: {told})", unclear=sent, waited=waited)
    kind, text = next((kind, text) for codes, kind, text in _REFUSED if code.startswith(codes))
    return kind(text.format(at=location, code=code, told=told))


def _unanswered(error: psycopg.Error, told: str, location: str, *, sent: bool) -> FastdurError | Again:
    """Return what to raise where the server did not answer, or the driver does not say with what code."""
    if isinstance(error, SilentError):
        return Again(told, unclear=sent, waited=error.seconds)
    if isinstance(error, psycopg.errors.ConnectionTimeout):
        return Again(told, unclear=False, waited=_CONNECT_WITHIN)
    said = re.sub(_NAMED, '""', told)  # a server may be called what an error says
    if any(words in said for words in _HOPELESS):
        message = f"The store {location} cannot be opened ({told}); correct the connection string, or what it names."
        return StoreUnavailable(message)
    return Again(told, unclear=sent)
