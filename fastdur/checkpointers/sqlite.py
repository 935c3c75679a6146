"""The store in one SQLite file, for any number of processes on one machine."""

from __future__ import annotations

import atexit
import os
import sqlite3
import weakref
from contextlib import ExitStack
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from fastdur.checkpointers._cursor import TransactionCursor
from fastdur.checkpointers._patience import Again
from fastdur.checkpointers._sql import SCHEMA, Dialect, Sql
from fastdur.checkpointers._sqlite_file import (
    APPLICATION_ID,
    BUSY,
    create,
    faulty,
    lost,
    place_of,
    probe,
    resolve,
    shorten,
    tidy,
    understood,
    uri,
    version_of,
)
from fastdur.checkpointers._store import Store
from fastdur.checkpointers._turns import Turns
from fastdur.errors import FastdurError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastdur.checkpointers._patience import Piece, Session, Stored
    from fastdur.checkpointers._turns import Job

T = TypeVar("T")

_MEMORY: Final = ":memory:"
_SQL: Final = Sql(
    Dialect(
        now="((julianday('now') - 2440587.5) * 86400.0 + ?)",
        serial="INTEGER PRIMARY KEY AUTOINCREMENT",
        key="INTEGER PRIMARY KEY",
        places="SELECT json_extract(value, '$[0]') AS run, json_extract(value, '$[1]') AS epoch, "
        "json_extract(value, '$[2]') AS seq FROM json_each(?)",
    )
)

# A step writes two pages, whatever their size, and two or three more, that by which the file can be shortened among
# them, where a page comes anew: so small ones. The log is folded back after 1,000: by then its file has its full length
# and a commit does not change it, and one sync in two hundred is the folding's.
_PAGE_SIZE: Final = 1024
_FOLD_AFTER: Final = 1000


class _Connection:
    """A session on one kept connection."""

    __slots__ = ("driver", "execute")

    def __init__(self, driver: sqlite3.Connection) -> None:
        self.driver = driver
        self.execute = driver.execute

    def move(self, pieces: Sequence[Piece], heads: int = 1) -> bool:
        execute = self.execute
        first = True
        for sql, values in pieces:
            if execute(sql, values).rowcount != heads and first:
                return False
            first = False
        return True

    def change(self, sql: str, values: Sequence[object]) -> int:
        return self.execute(sql, values).rowcount

    def rows(self, sql: str, values: Sequence[object]) -> list[Stored]:
        return self.execute(sql, values).fetchall()

    def cursor(self) -> TransactionCursor:
        return TransactionCursor(self.driver.cursor(), sqlite3.Error, faulty, self._spoilt)

    def tidy(self) -> None:
        tidy(self.driver)

    def _spoilt(self) -> str | None:
        try:
            inside = self.driver.in_transaction
        except sqlite3.ProgrammingError:  # it was closed
            return "The process has forked in the body, and so lost the transaction"
        return None if inside else "The database has rolled the transaction back after an error"


class _Kept:
    """The connections of one store. They are closed with it, and when it is collected."""

    __slots__ = ("place", "reader", "writer")

    def __init__(self) -> None:
        self.place: tuple[int, int] | None = None
        self.writer: _Connection | None = None
        self.reader: _Connection | None = None

    def close(self) -> None:
        for connection in (self.reader, self.writer):
            if connection is not None:
                connection.driver.close()
        self.reader = self.writer = None


class SQLiteCheckpointer(Store):
    """A store in an SQLite file, or in memory (`":memory:"`).

    `path` defaults to `$FASTDUR_DB`, else `.fastdur/fastdur.db` in the working directory; `~` and `$VAR` are expanded
    and the path is made absolute here and now, but no file is touched before the first call. A file that is made gets
    mode 0600. With `durability="full"` a write is on the disk when its call returns; `"normal"` may lose the newest
    rows at a power cut, never at a crash of the process, and never leaves the file damaged. `lease` is how many seconds
    a run stays its owner's without a sign of life.

    Safe to use from any number of threads and processes, and across `fork`; a store in memory stays in its process.
    """

    driver: type[sqlite3.Connection] = sqlite3.Connection
    """What connections are made of; a test puts a faulty one here."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        durability: Literal["full", "normal"] = "full",
        *,
        lease: float = 30.0,
    ) -> None:
        super().__init__(_SQL, lease, durability)
        self._memory = path == _MEMORY
        self._path = _MEMORY if self._memory else resolve(path)
        self._turns = Turns(self._perform, self._apart)
        self._reading = Lock()
        self._kept = _Kept()
        self._forked = False
        weakref.finalize(self, self._kept.close).atexit = False
        _stores.add(self)

    @property
    def location(self) -> str:
        """The absolute path of the file, or `:memory:`."""
        return self._path

    def _rest(self) -> None:
        with self._turns, self._reading:
            self._kept.close()

    # -- one transaction ---------------------------------------------------------------------------------------------

    def _write_once(self, work: Callable[[Session], T]) -> T:
        return self._turns.run(work, self.busy_bound)

    def _alone_once(self, work: Callable[[Session], T]) -> T:
        with self._turns.kept(self.busy_bound):
            try:
                self._alone = get_ident()
                return self._perform(work)
            finally:
                self._alone = None

    def _read_once(self, work: Callable[[Session], T]) -> T:
        if self._memory:
            return self._turns.run(work, self.busy_bound)
        if self._kept.writer is not None and self._moved():
            self.rest()
        if self._kept.writer is None:
            with self._turns:
                self._look_at_the_file()
        with self._reading:
            self._check_open()
            try:
                if self._kept.reader is None:
                    self._kept.reader = self._connect()
                return work(self._kept.reader)
            except sqlite3.Error as error:
                if self._kept.reader is not None:
                    self._kept.reader.driver.close()
                    self._kept.reader = None
                raise understood(error, self._path) from error

    def _look_at_the_file(self) -> None:
        """Open for writing what is about to be read: that checks it. Takes no lock where there is nothing to make."""
        try:
            if self._kept.writer is None:
                self._open()
        except sqlite3.Error as error:
            raise self._failed(error, committing=False) from error

    def _perform(self, work: Callable[[Session], T]) -> T:
        """Do `work` in one transaction and commit it."""
        committing = committed = False
        try:
            connection = self._kept.writer or self._open()
            connection.execute("BEGIN IMMEDIATE")
            result = work(connection)
            committing = True
            connection.execute("COMMIT")
            committed = True
        except sqlite3.Error as error:
            raise self._failed(error, committing=committing) from error
        finally:
            if not committed:
                self._undo()
        if self._durability == "full" and self._moved():
            self._drop()
            raise lost(self._path)
        return result

    def _moved(self) -> bool:
        """Whether another file, or none, is where the one was that is open."""
        return not self._memory and place_of(self._path, self._kept.place) != self._kept.place

    def _apart(self, session: Session, job: Job[Any]) -> None:
        """Do one job of several; if it fails, it alone leaves nothing."""
        session.change("SAVEPOINT job", ())
        try:
            job.result = job.work(session)
        except sqlite3.Error as error:
            if self._kept.writer is None or not self._kept.writer.driver.in_transaction:
                raise
            job.error = understood(error, self._path)
        except (FastdurError, ValueError, OverflowError) as error:
            job.error = error
        if job.error is not None:
            session.change("ROLLBACK TO job", ())
        session.change("RELEASE job", ())

    def _failed(self, error: sqlite3.Error, *, committing: bool) -> Exception:
        """What to tell those whose transaction failed. The connection is good again afterwards, or gone."""
        meant = understood(error, self._path)
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in BUSY or code == sqlite3.SQLITE_FULL:
            return meant
        self._drop()
        return Again(str(meant), unclear=True) if committing else meant

    def _undo(self) -> None:
        """Roll back what the driver has not rolled back itself."""
        if self._kept.writer is not None and self._kept.writer.driver.in_transaction:
            try:
                self._kept.writer.execute("ROLLBACK")
            except sqlite3.Error:
                self._drop()

    def _drop(self) -> None:
        """Give the connection up, and a transaction with it; the next call makes a fresh one."""
        if self._kept.writer is not None and not self._memory:
            self._kept.writer.driver.close()
            self._kept.writer = None

    # -- space -------------------------------------------------------------------------------------------------------

    def _give_back(self, *, fold: bool) -> None:
        """Shorten the file by its empty pages, some at a time; one that was made without this ability keeps them."""
        while self._write(shorten):
            fold = True
        if fold and not self._memory:  # until then the file is as long as it was
            self._read(lambda session: session.rows("PRAGMA wal_checkpoint(PASSIVE)", ()))

    # -- connections -------------------------------------------------------------------------------------------------

    def _connect(self) -> _Connection:
        return _Connection(
            sqlite3.connect(
                _MEMORY if self._memory else uri(self._path, "mode=rw"),
                timeout=0,
                isolation_level=None,
                check_same_thread=False,
                factory=self.driver,
                cached_statements=256,
                uri=not self._memory,
            )
        )

    def _open(self) -> _Connection:
        """Make the writing connection. Whatever may be refused is refused before anything is written."""
        self._check_open()
        if self._forked:
            message = "A store in memory stays in the process that filled it; give a path to share a store across fork."
            raise StoreUnavailable(message)
        version = 0
        if not self._memory:
            create(self._path)
            version = probe(self._path)
        connection = self._connect()
        try:
            self._prepare(connection, version)
        except BaseException:
            connection.driver.close()
            raise
        self._kept.writer = connection
        if not self._memory:
            self._kept.place = place_of(self._path)
        return connection

    def _prepare(self, connection: _Connection, version: int) -> None:
        execute = connection.execute
        execute(f"PRAGMA page_size = {_PAGE_SIZE}")
        if not version:
            execute("PRAGMA auto_vacuum = INCREMENTAL")  # heeded before there are tables only
        (mode,) = execute("PRAGMA journal_mode = WAL").fetchone()
        if mode not in ("wal", "memory"):
            message = f"The file system of {self._path} cannot hold a write-ahead log; put the store on a local disk."
            raise StoreUnavailable(message)
        execute(f"PRAGMA synchronous = {self._durability}")
        execute(f"PRAGMA wal_autocheckpoint = {_FOLD_AFTER}")
        if version == SCHEMA:
            return
        execute("BEGIN IMMEDIATE")
        for text in self._sql.upgrade(version_of(connection.driver, self._path)):
            execute(text)
        execute(f"PRAGMA application_id = {APPLICATION_ID}")
        execute("COMMIT")

    # -- fork --------------------------------------------------------------------------------------------------------

    def before_fork(self, held: ExitStack) -> None:
        """Keep everybody away until `held` is closed, and close what must not cross the fork.

        The body of a transactional effect that forks has the turn already, and loses its transaction.
        """
        if self._alone != get_ident():
            held.enter_context(self._turns)
        held.enter_context(self._reading)
        if not self._memory:
            self._kept.close()

    def after_fork(self) -> None:
        """In the child: begin anew."""
        self._forked = self._memory and (self._forked or self._kept.writer is not None)
        _inherited.append(self._kept.writer)
        self._kept.writer = None
        self._alone = None
        self._turns = Turns(self._perform, self._apart)
        self._reading = Lock()
        self._forget()


def default_store() -> SQLiteCheckpointer:
    """The store that runs use where none is given: one object per path and process."""
    path = resolve(None)
    with _default_lock:
        store = _default.get(path)
        if store is None or store.closed:
            store = _default[path] = SQLiteCheckpointer(path)
    return store


_default: Final[dict[str, SQLiteCheckpointer]] = {}
_default_lock = Lock()

# A connection must not cross a fork: SQLite counts the locks of a process by file, so a child that inherits a
# connection, even one it never touches, takes its parent's locks for its own when it opens the file again, and then
# loses what it commits. So every connection to a file is closed before a fork, and both sides open fresh ones. What is
# in memory stays with the parent; the child keeps it untouched.
_stores: Final[weakref.WeakSet[SQLiteCheckpointer]] = weakref.WeakSet()
_inherited: Final[list[object]] = []
_forks: Final[list[ExitStack]] = []


def _before_fork() -> None:
    held = ExitStack()
    held.enter_context(_default_lock)
    for store in list(_stores):
        store.before_fork(held)
    _forks.append(held)  # last, for a thread that forks meanwhile waits above


def _after_fork_in_parent() -> None:
    _forks.pop().close()


def _after_fork_in_child() -> None:
    global _default_lock  # noqa: PLW0603 - a new process
    _inherited.append(_forks.pop())
    _default_lock = Lock()
    for store in list(_stores):
        store.after_fork()


@atexit.register
def _at_exit() -> None:
    """Fold every log back, so that the files are whole by themselves."""
    for store in list(_stores):
        store.rest()


if hasattr(os, "register_at_fork"):  # pragma: no branch - everywhere but on Windows
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
