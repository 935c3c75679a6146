"""The faults that strike a process from inside it and let it live on: what each does at its instant.

Each is a function of the watch of a lifetime; it tells whether the fault has really struck. One that was armed and
struck nothing is a finding, never a pass.
"""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pytest_fastdur.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_fastdur.observers import Watch

AN_HOUR = 3600.0


def freeze(watch: Watch) -> bool:
    """The process stands still for longer than its lease; another carries the run on; then this one goes on."""
    assert watch.frozen is not None, "a history that is played here"
    watch.asleep = True
    watch.frozen(watch)
    watch.asleep = False
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


def clock_of_python(seconds: float) -> Callable[[Watch], bool]:
    """The clock of this process jumps, until the lifetime has ended, and that of the store does not."""

    def jump(watch: Watch) -> bool:
        from freezegun import freeze_time

        # It goes on from there. The threads of a pool wait by the real clock, else its closing would take an hour.
        there = datetime.now(UTC) + timedelta(seconds=seconds)
        watch.until_the_end.enter_context(freeze_time(there, tick=True, ignore=["psycopg_pool", "asyncio"]))
        return True

    return jump


def file(fault: Fault) -> Callable[[Watch], bool]:
    """What the run does next with its SQLite file meets this fault: once, or again and again."""

    def arm(watch: Watch) -> bool:
        store: Any = watch.store
        if fault.lasts:
            store.busy_bound = 0.02  # the store gives up after a few tries, as it does after a minute of them
        trouble = trouble_of(store)
        if trouble is not None:
            trouble.kind, trouble.lasts, trouble.met = fault.value.rstrip("!"), fault.lasts, 0
        return False  # it has struck once it was met, see `disarmed`

    return arm


def abort(watch: Watch) -> bool:
    """The server itself rolls back what the run writes next."""
    from pytest_fastdur import aborts

    aborts.arm(watch.store)
    return False


def kill_the_server(watch: Watch) -> bool:
    """The server dies as if its machine had, and is started again."""
    assert watch.server is not None, "a server of its own"
    watch.server.kill()
    watch.server.start()
    return True


def lose_power(watch: Watch) -> bool:
    """The machine is without power: at this instant, or while it does what it is about to do."""
    return watch.cut_off()


STRIKES: dict[Fault, Callable[[Watch], bool]] = {
    Fault.ZOMBIE: freeze,
    Fault.TICK_ON: clock(AN_HOUR),
    Fault.TICK_BACK: clock(-AN_HOUR),
    Fault.CANCEL: cancel,
    Fault.CLOCK_ON: clock_of_python(AN_HOUR),
    Fault.CLOCK_BACK: clock_of_python(-AN_HOUR),
    Fault.ABORT: abort,
    Fault.SERVER: kill_the_server,
    Fault.POWER: lose_power,
    **{fault: file(fault) for fault in Fault if fault.file},
}


# -- files -------------------------------------------------------------------------------------------------------------


class Trouble:
    """What the connections of one store meet."""

    kind: str | None = None
    lasts = False
    met = 0


class Faulty(sqlite3.Connection):
    """A connection that meets a trouble in its next transactions: a real lock, a full file, a write that fails."""

    trouble = Trouble()
    path = ""

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        """Run a statement."""
        trouble = self.trouble
        kind = trouble.kind
        if kind is None or not self._is_next(sql, kind):
            return super().execute(sql, *values)
        trouble.met += 1
        if not trouble.lasts:
            trouble.kind = None
        if kind == "locked":
            return self._locked(sql)
        if kind == "full":
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
    store.driver = type("Faulty", (Faulty,), {"path": store.location, "trouble": Trouble()})


def trouble_of(store: Any) -> Trouble | None:
    """What a store meets; None where its connections can meet nothing."""
    return getattr(store.driver, "trouble", None)


def disarmed(fault: Fault, store: Any) -> bool:
    """Take back a fault that has not struck; tell whether there was one. One that lasts is left to its end."""
    if fault is Fault.ABORT:
        from pytest_fastdur import aborts

        return aborts.disarm(store) == 0
    trouble = trouble_of(store)
    if trouble is None:
        return True
    if not trouble.lasts:
        trouble.kind = None
    return trouble.met == 0
