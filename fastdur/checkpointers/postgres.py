"""The store in a Postgres database, for any number of processes on any number of machines."""

from __future__ import annotations

import os
import weakref
from contextlib import ExitStack
from functools import lru_cache
from itertools import chain
from threading import Condition, Lock
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from fastdur.checkpointers._cursor import TransactionCursor, UndoneError
from fastdur.checkpointers._patience import Again
from fastdur.checkpointers._postgres_server import (
    COLLISIONS,
    NOT_PREPARED,
    PREPARE,
    TAKEN,
    Connection,
    DriverError,
    Forbidden,
    NoConnection,
    Pool,
    parsed,
    settings,
    understood,
)
from fastdur.checkpointers._postgres_sql import creation, folded, quoted, statements
from fastdur.checkpointers._sql import SCHEMA, known
from fastdur.checkpointers._store import Store
from fastdur.errors import StoreCorrupt, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastdur.checkpointers._patience import Piece, Session, Stored

T = TypeVar("T")

_FOR_A_CONNECTION: Final = 1.0
"""How many seconds one try waits for a connection to become free."""

_LONGEST_IDLE: Final = 30.0
"""After how many seconds without a statement the server ends a transaction of the user's; after a lease, if shorter."""

_IDLE: Final = b"SET LOCAL idle_in_transaction_session_timeout = %d"
_BEGIN: Final = b"BEGIN; " + _IDLE
_TIDY: Final = (
    b"CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ROLE; RESET ALL; UNLISTEN *; DISCARD TEMP; "
    b"DISCARD SEQUENCES; " + _IDLE
)
"""What `DISCARD ALL` does, as far as a transaction can: so it meets the session of its statements behind a pooler too.

Before the record, which is then written under the settings of the store. Locks and statements that were prepared are
given up after the commit, see `Connection.undo`.
"""


@lru_cache(maxsize=256)
def _move(pieces: tuple[str, ...]) -> bytes:
    return folded(pieces).encode()


class _Session:
    """Statements on one connection, each a transaction of its own unless they are run `apart`."""

    __slots__ = ("_connection", "_execute", "_idle", "body", "sent")

    def __init__(self, connection: Connection, *, sent: bool) -> None:
        self._connection = connection
        self._execute = connection.one_cursor().execute
        self._idle = 0
        self.body = False
        """Whether the user's statements are in it."""
        self.sent = sent
        """Whether a write is on its way that will hold."""

    def move(self, pieces: Sequence[Piece], heads: int = 1) -> bool:
        texts, values = zip(*pieces, strict=True)
        ordered = values[:1] + values[2:] + values[1:2]  # as `folded` has them
        return self._execute(_move(texts), [*chain.from_iterable(ordered)]).rowcount == heads

    def change(self, sql: str, values: Sequence[object]) -> int:
        return self._execute(sql.encode(), values).rowcount

    def rows(self, sql: str, values: Sequence[object]) -> list[Stored]:
        return self._execute(sql.encode(), values).fetchall()

    def cursor(self) -> TransactionCursor:
        connection = self._connection
        return TransactionCursor(connection.users_cursor(), DriverError, connection.faulty, connection.spoilt)

    def apart(self, work: Callable[[Session], T], idle: float) -> T:
        """Do `work` in one transaction; the server ends it where it hears nothing for `idle` seconds."""
        connection, process = self._connection, os.getpid()
        self._idle, self.body = round(idle * 1000), True
        try:
            self._execute(_BEGIN % self._idle, prepare=False)
            result = work(self)
            self.sent = True
            self._ends(b"COMMIT")
        finally:
            connection.undo(process)
        return result

    def tidy(self) -> None:
        self._ends(_TIDY % self._idle)

    def _ends(self, sql: bytes) -> None:
        """Run a part of the end of a transaction; what the user's statements are refused with there is theirs."""
        try:
            self._execute(sql, prepare=False)
        except DriverError as error:
            if self._connection.faulty(error, asked_for=()):
                raise
            raise UndoneError(error) from error


class _Kept:
    """The pool of one store. It is closed with it, and when it is collected."""

    __slots__ = ("pool",)

    def __init__(self) -> None:
        self.pool: Pool | None = None

    def close(self) -> None:
        pool, self.pool = self.pool, None
        if pool is not None:
            pool.close()


class PostgresCheckpointer(Store):
    """A store in the tables of one schema of a Postgres database, or of one that speaks its protocol.

    `connection_string` is what libpq takes: `postgresql://user@host/dbname` or `host=… dbname=…`. Nothing is connected
    to before the first call, which makes the schema and its tables where they are missing. With `durability="full"` a
    write is on the server's disk when its call returns, and a server whose `synchronous_commit` is off is refused;
    `"normal"` takes the server as it is. `lease` is how many seconds a run stays its owner's without a sign of life.

    Every write is one statement in a transaction of its own, but for a transactional effect, whose transaction the
    server ends where it hears nothing for 30 seconds, or for a shorter lease. Nothing that is kept in a session is
    needed, so a pooler in transaction mode may stand in between. Where none does, which is found out when connecting,
    the server keeps the statements of each session, and a step costs it less; `prepared=False` leaves that away. Safe
    to use from any number of threads and processes, and across `fork`.
    """

    driver: type[Connection] = Connection
    """What connections are made of; a test puts one here that tells what is sent."""
    small = 64  # the log of the server grows by what is written, not by pages

    def __init__(
        self,
        connection_string: str,
        schema: str = "fastdur",
        min_pool_size: int = 1,
        max_pool_size: int = 10,
        *,
        lease: float = 30.0,
        durability: Literal["full", "normal"] = "full",
        prepared: bool = True,
    ) -> None:
        if not 0 <= min_pool_size <= max_pool_size or max_pool_size < 1:
            message = f"the pool cannot hold {min_pool_size} to {max_pool_size} connections; let it hold 1 or more"
            raise ValueError(message)
        super().__init__(statements(schema), lease, durability)
        self._conninfo, where = parsed(connection_string)
        self._schema = schema
        self._location = f"{where}/{schema}"
        self._sizes = min_pool_size, max_pool_size
        self._settings = settings()
        self._prepared = prepared
        self._kept = _Kept()
        self._begin_anew()
        weakref.finalize(self, self._kept.close)
        _stores.add(self)

    def _begin_anew(self) -> None:
        self._opening = Lock()
        self._under_way = 0
        self._ended = Condition(Lock())

    @property
    def location(self) -> str:
        """Host, port, database and schema."""
        return self._location

    def _rest(self) -> None:
        with self._ended:
            self._ended.wait_for(lambda: self._under_way == 0)
            self._kept.close()

    # -- one statement -----------------------------------------------------------------------------------------------

    def _write_once(self, work: Callable[[Session], T]) -> T:
        return self._perform(work, writing=True)

    def _alone_once(self, work: Callable[[Session], T]) -> T:
        idle = min(self._lease, _LONGEST_IDLE)
        return self._perform(lambda session: session.apart(work, idle), writing=False)

    def _read_once(self, work: Callable[[Session], T]) -> T:
        return self._perform(work, writing=False)

    def _perform(self, work: Callable[[_Session], T], *, writing: bool) -> T:
        ended = self._ended
        with ended:
            self._check_open()
            self._under_way += 1
        try:
            pool = self._kept.pool or self._open()
            connection = self._taken(pool)
            session = _Session(connection, sent=writing)
            try:
                return work(session)
            except DriverError as error:
                if error.sqlstate in NOT_PREPARED:
                    self._keep_no_statements()
                if connection.closed or error.sqlstate in ("25006", *NOT_PREPARED):
                    self._replace(pool)
                waited = connection.waited
                raise understood(error, self._location, sent=session.sent, body=session.body, waited=waited) from error
            finally:
                if self._ended is ended:  # else this is a child that the work has made by fork
                    pool.putconn(connection)
        finally:
            if self._ended is ended:
                with ended:
                    self._under_way -= 1
                    ended.notify_all()

    def _taken(self, pool: Pool) -> Connection:
        """A connection that is alive as far as can be told without asking the server."""
        try:
            connection = pool.getconn(_FOR_A_CONNECTION)
        except NoConnection as error:
            if self._under_way == 1:  # nobody has one: the pool itself does not get any
                self._replace(pool)
            message = f"no connection became free; all {self._sizes[1]} are in use, or the server takes no more"
            raise Again(message, unclear=False, waited=_FOR_A_CONNECTION) from error
        connection.patience, connection.waited = self.busy_bound, 0.0
        if connection.lost():
            self._replace(pool)
            pool.putconn(connection)
            message = "the server has ended the connection"
            raise Again(message, unclear=False)
        return connection

    def _replace(self, pool: Pool) -> None:
        """Give up a pool whose connections have been lost, or are about to be found so one by one."""
        with self._opening:
            if self._kept.pool is pool:
                self._kept.pool = None
        pool.close(timeout=0.1)

    # -- opening -----------------------------------------------------------------------------------------------------

    def _open(self) -> Pool:
        """Make the pool. Whatever may be refused is refused before anything is written."""
        with self._opening:
            if self._kept.pool is None:
                try:
                    first = self._first()
                except DriverError as error:
                    raise understood(error, self._location, sent=False) from error
                self._kept.pool = Pool(first, self._conninfo, self._settings, *self._sizes)
            return self._kept.pool

    def _first(self) -> Connection:
        """Make a connection and look at what it leads to."""
        with ExitStack() as failed:
            connection = self.driver.connect(self._conninfo, **self._settings)
            failed.callback(connection.close)
            connection.patience = self.busy_bound
            try:
                self._prepare(connection)
            except DriverError as error:
                raise understood(error, self._location, sent=False, waited=connection.waited) from error
            failed.pop_all()
        return connection

    def _keep_no_statements(self) -> None:
        """From now on the next statement may meet another session, whatever it looked like."""
        self._prepared, self._settings[PREPARE] = False, None

    def _prepare(self, connection: Connection) -> None:
        version = self._version(connection)
        ((commits, process),) = connection.execute("SELECT current_setting('synchronous_commit'), pg_backend_pid()")
        if commits == "off" and self._durability == "full":
            message = (
                f"The store {self._location} may lose what it has acknowledged: synchronous_commit is off there. "
                "Set it to on for this database or user, or choose durability='normal'."
            )
            raise StoreUnavailable(message)
        if version != SCHEMA:
            self._upgrade(connection, version)
        if self._prepared and connection.keeps_statements(process):
            connection.prepare_threshold = self._settings[PREPARE] = 1

    def _version(self, connection: Connection) -> int:
        ((found,),) = connection.execute("SELECT to_regclass(%s)", [quoted(self._schema) + ".schema_version"])
        if found is None:
            return 0
        rows = connection.execute(self._sql.version.encode()).fetchall()
        if len(rows) != 1:
            message = f"The store {self._location} is damaged: it has no version; restore it from a backup."
            raise StoreCorrupt(message)
        return known(rows[0][0], self._location)

    def _upgrade(self, connection: Connection, version: int) -> None:
        text = creation(self._schema)
        try:
            with connection.transaction():
                if not connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [self._schema]).fetchall():
                    connection.execute(text.encode())
                for text in self._sql.upgrade(version):
                    connection.execute(text.encode())
        except Forbidden as error:
            state = f"has schema {version} of {SCHEMA}" if version else "is not set up"
            command = "fastdur schema --postgres" + f" --upgrade-from {version}" * bool(version)
            message = (
                f"The store {self._location} {state}, and this user may not do it "
                f"({error.diag.message_primary}). Nothing was written. Let an administrator run what "
                f"`{command}` prints; the statement that was refused is: {text}"
            )
            raise StoreUnavailable(message) from error
        except DriverError as error:
            if error.sqlstate not in COLLISIONS:
                raise
            if error.sqlstate == TAKEN and not self._version(connection):
                message = (
                    f"The schema {self._schema!r} of {self._location} has something else of a name that a store needs "
                    f"({error.diag.message_primary}). Nothing was written. Give another schema."
                )
                raise StoreCorrupt(message) from error
            message = "another process is setting up this schema"
            raise Again(message, unclear=False) from error

    # -- fork --------------------------------------------------------------------------------------------------------

    def after_fork(self) -> None:
        """In the child: begin anew. The connections are the parent's; closing them here would end them there."""
        _inherited.append(self._kept.pool)
        self._kept.pool = None
        self._begin_anew()
        self._forget()


_stores: Final[weakref.WeakSet[PostgresCheckpointer]] = weakref.WeakSet()
_inherited: Final[list[Any]] = []


def _after_fork_in_child() -> None:
    for store in list(_stores):
        store.after_fork()


if hasattr(os, "register_at_fork"):  # pragma: no branch - everywhere but on Windows
    os.register_at_fork(after_in_child=_after_fork_in_child)
