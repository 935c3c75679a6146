"""The file of an SQLite store: where it is, what it is, and what the driver's errors say about it."""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Final

from fastdur.checkpointers._patience import Again
from fastdur.checkpointers._sql import known
from fastdur.errors import FastdurError, NotStorable, StoreCorrupt, StoreUnavailable

if TYPE_CHECKING:
    from fastdur.checkpointers._patience import Session

APPLICATION_ID: Final = 0x66647572
"""`PRAGMA application_id` of a fastdur store: "fdur"."""

_HEADER: Final = 100
_PAGES_AT_ONCE: Final = 400
_DEFAULT: Final = ".fastdur/fastdur.db"
_VARIABLE: Final = r"\$(?:(\w+)|\{([^}]*)\})"  # compiled when one is met: that takes 2 ms

BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
"""Somebody else is at work: wait."""

_BROKEN: Final = {
    sqlite3.SQLITE_FULL: "its disk or quota is full; free some space",
    sqlite3.SQLITE_READONLY: "it cannot be written; make the file and its directory writable for this user",
    sqlite3.SQLITE_PERM: "it must not be opened; make the file and its directory readable for this user",
    sqlite3.SQLITE_AUTH: "it must not be opened; make the file and its directory readable for this user",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; make the file and its directory readable and writable for this user",
    sqlite3.SQLITE_IOERR: "its disk reports an error; look at the disk",
}

_DAMAGED: Final = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_ERROR,  # a table or column that is not there
)


def resolve(path: str | os.PathLike[str] | None) -> str:
    """Return the absolute path that is meant: `$FASTDUR_DB` or `.fastdur/fastdur.db` for None, `~` and `$VAR` expanded.

    Raises `TypeError` for bytes, `ValueError` for an empty path, an unset variable, and a home that is not known.
    """
    given = os.fspath(path) if path is not None else os.environ.get("FASTDUR_DB", _DEFAULT)
    if type(given) is not str:
        message = f"Store path {given!r} is no text; give a str or a Path"
        raise TypeError(message)
    filled = re.sub(_VARIABLE, lambda found: _variable(given, found), given, flags=re.ASCII) if "$" in given else given
    expanded = os.path.expanduser(filled)  # noqa: PTH111 - tells "~x" apart
    if expanded.startswith("~") or not expanded or "\0" in expanded:
        message = f"Store path {given!r} names no file; give a path to a file, or ':memory:'"
        raise ValueError(message)
    return os.path.abspath(expanded)  # noqa: PTH100 - pathlib's absolute() keeps ".."


def _variable(given: str, found: re.Match[str]) -> str:
    name = found[1] or found[2]
    if name not in os.environ:
        message = f"Store path {given!r} uses ${name}, which is not set; set it, or give the path itself"
        raise ValueError(message)
    return os.environ[name]


def create(path: str) -> None:
    """Make an empty file that only its user can read, and its directory, where they are missing.

    Never opens a file that is there: closing any descriptor of it would drop the locks that the process has on it. And
    never begins anew beside the log of a file that is gone: SQLite would remove it, with steps that are nowhere else.
    """
    log = os.path.realpath(path) + "-wal"
    left = os.path.isfile(log) and os.path.getsize(log)  # noqa: PTH113, PTH202 - pathlib costs its import
    if left and not place_of(path, (0, 0)):
        message = (
            f"The store {path} is gone or empty, and its log {log} is still there, with steps that may be nowhere "
            "else; nothing was changed. Bring the file back to the log's side, or remove the log too and begin anew."
        )
        raise StoreCorrupt(message)
    try:
        if not os.path.isdir(os.path.dirname(path)):  # noqa: PTH112, PTH120 - pathlib costs its import
            _make_folders(path)
        os.close(os.open(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if not os.path.isfile(path):  # noqa: PTH113 - pathlib costs its import
            message = f"The store {path} is no file; give the path of a file."
            raise StoreUnavailable(message) from None
        if 0 < os.path.getsize(path) < _HEADER:  # noqa: PTH202 - pathlib costs its import; the driver would take it for an empty database
            message = f"The store {path} is damaged or not a fastdur store; give another path."
            raise StoreCorrupt(message) from None
    except OSError as error:
        message = f"The store {path} cannot be created ({error}); nothing was written."
        raise StoreUnavailable(message) from error


def _make_folders(path: str) -> None:
    from pathlib import Path

    for parent in reversed(Path(path).parents):
        if not parent.exists():
            parent.mkdir(0o700, exist_ok=True)


def place_of(path: str, otherwise: tuple[int, int] | None = None) -> tuple[int, int] | None:
    """Return which file this is; None where there is none any more, or it has been emptied.

    Where that cannot be told it is `otherwise`: no permission, or a server that does not answer, takes nothing away.
    """
    try:
        found = os.stat(path)  # noqa: PTH116 - a pathlib object for each write costs as much as the call
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return otherwise
    return (found.st_dev, found.st_ino) if found.st_size else None


def lost(path: str) -> StoreCorrupt:
    """Return what to raise where the file was taken away under a write."""
    return StoreCorrupt(
        f"The store {path} was removed, replaced or emptied while it was in use: what this call has written "
        "is lost unless you bring it back to its -wal's side. Else start again on a new one; do not touch a store's "
        "files while runs go on."
    )


_AS_IT_IS: Final = frozenset("/-_.~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def uri(path: str, options: str) -> str:
    """Return the file name for `sqlite3.connect(uri=True)`."""
    escaped = [chr(byte) if chr(byte) in _AS_IT_IS else f"%{byte:02X}" for byte in os.fsencode(path)]
    return f"file://{''.join(escaped)}?{options}"


def probe(path: str) -> int:
    """Return the schema version of the file, 0 for an empty one; change nothing, not even beside it where possible.

    Raises `StoreCorrupt`, `StoreTooNew`, `StoreUnavailable`, `Again`.
    """
    try:
        if _at_rest(path):
            try:
                return _version_in(path, "immutable=1")
            except (sqlite3.Error, StoreCorrupt):
                if _at_rest(path):  # else somebody has just begun to write, and it was half seen
                    raise
        return _version_in(path, "mode=ro")
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_ROLLBACK:
            return 0  # somebody died while making it: whoever opens it for writing rolls that back, and looks again
        raise understood(error, path) from error


def _at_rest(path: str) -> bool:
    real = os.path.realpath(path)  # beside which SQLite keeps what belongs to it
    return not (os.path.lexists(real + "-wal") or os.path.lexists(real + "-journal"))


def _version_in(path: str, options: str) -> int:
    with closing(sqlite3.connect(uri(path, options), timeout=0, uri=True, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        return version_of(connection, path)


def version_of(connection: sqlite3.Connection, path: str) -> int:
    """Return the schema version, 0 for an empty database. Raises as `probe`, and the driver's own errors."""
    (mark,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if mark != APPLICATION_ID:
        if tables or mark:
            message = f"{path} is a database of something else, not a fastdur store; give another path."
            raise StoreCorrupt(message)
        return 0
    (version,) = connection.execute("SELECT max(version) FROM schema_version").fetchone()
    return known(int(version), path)


def faulty(error: sqlite3.Error) -> bool:
    """Whether an error under a statement of the user's says something of the file, and not of the statement."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in BUSY or code in _BROKEN or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def understood(error: sqlite3.Error, path: str) -> FastdurError | Again:
    """Return what to raise for a driver's error after which nothing is written."""
    code = getattr(error, "sqlite_errorcode", 0)
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    if code & 0xFF in BUSY:
        return Again(f"{name}: another process is at work on it", unclear=False)
    if code & 0xFF in _BROKEN:
        return StoreUnavailable(
            f"The store {path} did not take this: {_BROKEN[code & 0xFF]} ({name}: {error}). Nothing was written; "
            "the run can be resumed afterwards."
        )
    if code & 0xFF == sqlite3.SQLITE_TOOBIG:
        return NotStorable(f"A value is longer than the store {path} takes ({error}); keep it outside, store its name")
    if code & 0xFF in _DAMAGED:
        return StoreCorrupt(
            f"The store {path} is damaged or not a fastdur store ({name}: {error}); restore it from a backup, or give "
            "another path."
        )
    return StoreUnavailable(f"The store {path} did not take this ({name}: {error}). Nothing was written.")


def shorten(session: Session) -> bool:
    """Give up some free pages; tell whether there are more."""
    before = session.rows("PRAGMA freelist_count", ())[0][0]
    for _ in range(min(before, _PAGES_AT_ONCE)):
        session.rows("PRAGMA incremental_vacuum(1)", ())  # the driver takes one step of it, whatever the number
    return bool(0 < session.rows("PRAGMA freelist_count", ())[0][0] < before)


def tidy(driver: sqlite3.Connection) -> None:
    """Drop what a connection keeps for itself: temporary tables, views and triggers."""
    for kind, name in driver.execute(_TEMPORARY).fetchall():
        quoted = name.replace('"', '""')
        driver.execute(f'DROP {kind} IF EXISTS temp."{quoted}"')


# Triggers before what they are on.
_TEMPORARY: Final = """SELECT type, name FROM sqlite_temp_master
    WHERE type IN ('table', 'trigger', 'view')
    AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY type = 'table', rowid"""
