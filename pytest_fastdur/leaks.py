"""What a lifetime that ended by itself has left open: threads, files, and transactions that hold others up."""

from __future__ import annotations

import gc
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastdur.errors import StoreCorrupt, StoreUnavailable

if TYPE_CHECKING:
    from threading import Thread

    from fastdur.checkpointers._patience import Session
    from fastdur.checkpointers.protocol import Checkpointer

_OWN = ("fastdur-leases", "fastdur-store_")
"""What the threads are called that are there once for the process: the one that renews leases, which ends by itself,
and those that async runs reach stores by, of which there are more as more are needed at once."""
_DESCRIPTORS = "/proc/self/fd"
_PATIENCE = 1.0
"""How many seconds a thread that is about to end gets for it."""


@dataclass(frozen=True)
class Held:
    """The threads and the open files of this process; files as far as the system lists them."""

    threads: frozenset[Thread]
    files: frozenset[tuple[str, str]]

    @staticmethod
    def now(store: str) -> Held:
        """What is held at this moment. The store's own file is left out.

        SQLite keeps descriptors of a file open for as long as any connection of the process has locks on it.
        """
        threads = frozenset(each for each in threading.enumerate() if not each.name.startswith(_OWN))
        return Held(threads, frozenset(pair for pair in _files() if not pair[1].startswith(store)))

    def left(self, store: str, usual: frozenset[str]) -> list[str]:
        """What is held now and was not then, by its kind and name, but for the kinds that are `usual`.

        What only waits to be collected, or to end, does not count.
        """
        if not self._more(store, usual):
            return []
        gc.collect()
        for thread in Held.now(store).threads - self.threads:
            thread.join(_PATIENCE)
        return self._more(store, usual)

    def _more(self, store: str, usual: frozenset[str]) -> list[str]:
        now = Held.now(store)
        threads = sorted(f"thread {thread.name}" for thread in now.threads - self.threads)
        files = sorted(f"file {target}" for _, target in now.files - self.files)
        return threads * ("thread" not in usual) + files * ("file" not in usual)


def _files() -> list[tuple[str, str]]:
    """The descriptors and what they lead to; without procfs none."""
    try:
        names = os.listdir(_DESCRIPTORS)  # noqa: PTH208 - thousands of times
    except FileNotFoundError:
        return []
    found: list[tuple[str, str]] = []
    for name in names:
        try:
            found.append((name, os.readlink(f"{_DESCRIPTORS}/{name}")))  # noqa: PTH115 - as above
        except FileNotFoundError:  # the one that lists them
            continue
    return found


def kind_of(leak: str) -> str:
    """`thread` or `file`."""
    return leak.partition(" ")[0]


def left_locked(store: Checkpointer) -> str | None:
    """Who still holds the store although every lifetime has closed its own: None where nobody does.

    `store` is another store object on the same place, as another process would have it.
    """
    known: Any = store
    if store.location == ":memory:" or not hasattr(known, "_write_at_once"):
        return None
    if known.__class__.__name__ == "PostgresCheckpointer":
        open_ = known._read(_idle_in_transaction)  # noqa: SLF001 - what no store says by itself
        return f"transaction: {open_}" if open_ else None
    try:
        known._write_at_once(_nothing)  # noqa: SLF001 - as above
    except StoreUnavailable:
        return "transaction: the write lock of the file is held"
    except StoreCorrupt:
        return None  # whoever reads it finds that; nobody can hold what cannot be opened
    return None


def _nothing(_: Session) -> None:
    """Begin a transaction, and end it."""


def _idle_in_transaction(session: Session) -> str:
    rows = session.rows(
        "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%%'",
        (),
    )
    return "; ".join(str(query) for (query,) in rows)
