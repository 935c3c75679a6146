"""The stores of fastdur keep the contract of a store."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from fastdur.checkpointers.sqlite import SQLiteCheckpointer
from pytest_fastdur.conformance import StoreSuite
from tests.conformance.faulty import arm, faulty


class TestSQLiteInAFile(StoreSuite):
    capabilities = frozenset(("instances", "processes", "fork", "clock", "faults"))

    def make_store(self, tmp_path: Path) -> SQLiteCheckpointer:
        return faulty(SQLiteCheckpointer(tmp_path / "runs.db"))

    def arm(self, store, fault):
        arm(store, fault)


class TestSQLiteInMemory(StoreSuite):
    capabilities = frozenset(("clock", "faults"))
    lacking: ClassVar = {
        "instances": "what is in memory belongs to one store object",
        "processes": "what is in memory stays in its process",
        "fork": "what is in memory stays in its process",
    }

    def make_store(self, tmp_path: Path) -> SQLiteCheckpointer:
        return faulty(SQLiteCheckpointer(":memory:"))

    def arm(self, store, fault):
        arm(store, fault)
