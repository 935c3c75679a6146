"""The store of a third party keeps the clauses that it claims."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pytest_fastdur.conformance import StoreSuite
from tests.conformance.shelf import Shelf, ShelfStore


class TestShelfStore(StoreSuite):
    capabilities = frozenset(("instances", "clock"))
    lacking: ClassVar = {
        "processes": "a shelf belongs to its process",
        "fork": "a shelf belongs to its process",
        "faults": "memory does not fail",
    }
    shelf: Shelf | None = None

    def make_store(self, tmp_path: Path) -> ShelfStore:
        self.shelf = self.shelf or Shelf()
        return ShelfStore(self.shelf)
