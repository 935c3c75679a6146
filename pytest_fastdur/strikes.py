"""The faults that strike a process from inside it and let it live on: what each does at its instant.

Each is a function of the watch of a lifetime; it tells whether the fault has really struck. One that was armed and
struck nothing is a finding, never a pass.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

from pytest_fastdur.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_fastdur.observers import Watch

AN_HOUR = 3600.0


def freeze(watch: Watch) -> bool:
    """The process stands still for longer than its lease; another carries the run on; then this one goes on."""
    assert watch.frozen is not None, "a history that is played here"
    watch.frozen(watch)
    return True


def clock(seconds: float) -> Callable[[Watch], bool]:
    """The store's clock jumps, and that of this process does not."""

    def jump(watch: Watch) -> bool:
        store: Any = watch.store
        store.clock_offset += seconds
        return True

    return jump


def cancel(watch: Watch) -> bool:
    """The task in which the run is awaited is cancelled."""
    return watch.task is not None and watch.task.cancel()


def file(kind: str) -> Callable[[Watch], bool]:
    """What the run does next with its SQLite file meets this fault, once."""

    def arm(watch: Watch) -> bool:
        driver = writer_of(watch.store)
        if driver is not None:
            driver.armed = kind
        return False  # it has struck when it is no longer armed, see `seen_to`

    return arm


STRIKES: dict[Fault, Callable[[Watch], bool]] = {
    Fault.ZOMBIE: freeze,
    Fault.TICK_ON: clock(AN_HOUR),
    Fault.TICK_BACK: clock(-AN_HOUR),
    Fault.CANCEL: cancel,
    Fault.LOCKED: file("locked"),
    Fault.FULL: file("full"),
    Fault.IO: file("io"),
}


# -- files -------------------------------------------------------------------------------------------------------------


class Faulty(sqlite3.Connection):
    """A connection whose next transaction meets what `armed` says: a real lock, a full file, a write that fails."""

    armed: str | None = None
    path = ""

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        """Run a statement."""
        armed = self.armed
        if armed is None or not self._is_next(sql, armed):
            return super().execute(sql, *values)
        self.armed = None
        if armed == "locked":
            return self._locked(sql)
        if armed == "full":
            return self._full(sql, *values)
        return self._failing(sql)

    @staticmethod
    def _is_next(sql: str, armed: str) -> bool:
        """A lock is met at the beginning of a transaction, a full file at its first write, an error at its end."""
        if armed == "locked":
            return sql.startswith("BEGIN")
        return sql == "COMMIT" if armed == "io" else sql.startswith(("INSERT", "UPDATE", "DELETE"))

    def _locked(self, sql: str) -> sqlite3.Cursor:
        other = sqlite3.connect(self.path, timeout=0, isolation_level=None)
        try:
            other.execute("BEGIN IMMEDIATE")
            return super().execute(sql)
        finally:
            other.close()

    def _full(self, sql: str, *values: Any) -> sqlite3.Cursor:
        """Forbid the file to grow, and let it: SQLite itself refuses, and rolls back as it does on a full disk."""
        figures = ("page_count", "freelist_count", "page_size", "max_page_count")
        pages, free, size, most = (super(Faulty, self).execute(f"PRAGMA {name}").fetchone()[0] for name in figures)
        super().execute(f"PRAGMA max_page_count = {pages}")
        try:
            super().execute(f"CREATE TABLE fastdur_no_room AS SELECT zeroblob({(free + 2) * size})")
            return super().execute(sql, *values)
        finally:
            super().execute(f"PRAGMA max_page_count = {most}")

    def _failing(self, sql: str) -> sqlite3.Cursor:
        """Let no file of this process be written while the transaction is: the system itself reports the error."""
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        try:
            return super().execute(sql)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def make_faulty(store: Any) -> None:
    """Let the connections that a store is about to open be such ones."""
    store.driver = type("Faulty", (Faulty,), {"path": store.location})


def writer_of(store: Any) -> Faulty | None:
    """The connection that a store writes with; None where it has none yet."""
    writer = store._kept.writer  # noqa: SLF001 - the one place at which a file can be faulted
    return None if writer is None else writer.driver


def disarmed(store: Any) -> bool:
    """Take back a fault that has not struck; tell whether there was one."""
    driver = writer_of(store)
    if driver is None or driver.armed is None:
        return False
    driver.armed = None
    return True
