"""A driver of SQLite whose commits fail when they are told to."""

from __future__ import annotations

import sqlite3
from typing import Any, TypeVar

from fastdur.checkpointers.sqlite import SQLiteCheckpointer
from pytest_fastdur.conformance import StoreFault

Store = TypeVar("Store", bound=SQLiteCheckpointer)


class _Faulty(sqlite3.Connection):
    fault: StoreFault | None

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        cls = type(self)
        if sql != "COMMIT" or cls.fault is None:
            return super().execute(sql, *values)
        fault = cls.fault
        if fault != "down":
            cls.fault = None
        if fault == "lost-answer":
            super().execute(sql, *values)
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_IOERR, "SQLITE_IOERR"
        raise error


def faulty(store: Store) -> Store:
    """The store, on a driver of its own that `arm` can make fail."""
    store.driver = type("Driver", (_Faulty,), {"fault": None})
    return store


def arm(store: SQLiteCheckpointer, fault: StoreFault | None) -> None:
    """Make the next commit of the store meet `fault`."""
    driver: Any = store.driver
    driver.fault = fault
    store.busy_bound = 0.01 if fault == "down" else SQLiteCheckpointer.busy_bound
