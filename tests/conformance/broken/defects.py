"""Stores with one defect each, and the clauses that must go red on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from fastdur.checkpointers.sqlite import SQLiteCheckpointer
from pytest_fastdur.conformance import StoreSuite
from tests.conformance.faulty import arm, faulty
from tests.conformance.shelf import Shelf, ShelfStore

Broken = TypeVar("Broken", bound=type)


@dataclass(frozen=True)
class Defect:
    store: type
    red: tuple[str, ...]

    def __str__(self) -> str:
        return self.store.__name__


DEFECTS: list[Defect] = []


def breaks(*red: str) -> Callable[[Broken], Broken]:
    """The store below must fail these clauses."""

    def known(store: Broken) -> Broken:
        DEFECTS.append(Defect(store, red))
        return store

    return known


class OnAShelf(StoreSuite):
    capabilities = frozenset(("instances", "clock"))
    store: ClassVar[type[ShelfStore]]
    shelf: Shelf | None = None

    def make_store(self, tmp_path: Path) -> ShelfStore:
        self.shelf = self.shelf or Shelf()
        return self.store(self.shelf)


class InAFile(StoreSuite):
    capabilities = frozenset(("instances", "processes", "fork", "clock", "faults"))
    store: ClassVar[type[SQLiteCheckpointer]]

    def make_store(self, tmp_path: Path) -> SQLiteCheckpointer:
        return faulty(self.store(tmp_path / "runs.db"))

    def arm(self, store: Any, fault: Any) -> None:
        arm(store, fault)


def suite_of(defect: Defect) -> type[StoreSuite]:
    """The suite that runs the broken store."""
    base = OnAShelf if issubclass(defect.store, ShelfStore) else InAFile
    return type(f"Suite{defect.store.__name__}", (base,), {"store": defect.store})
