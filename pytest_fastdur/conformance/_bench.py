"""Where a clause works: stores on one set of data, threads and children."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from pytest_fastdur.conformance._children import Child

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from fastdur.checkpointers.protocol import Checkpointer

T = TypeVar("T")

_PATIENCE: Final = 60.0


class Bench:
    """The stores of one test. All of them hold the same data, and all are closed at its end."""

    def __init__(
        self,
        make: Callable[[Path], Checkpointer],
        folder: Path,
        properties: list[tuple[str, object]],
    ) -> None:
        self._make = make
        self._folder = folder
        self.properties = properties
        self._stores: list[Checkpointer] = []
        self._open = ExitStack()

    def __enter__(self) -> Self:
        """Begin; no store is made yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close every store."""
        self._open.close()

    @property
    def store(self) -> Checkpointer:
        """The first store of the test."""
        return self._stores[0] if self._stores else self.another()

    def another(self) -> Checkpointer:
        """One more store object on the same data."""
        store = self._open.enter_context(closing(self._make(self._folder)))
        store.setup()
        self._stores.append(store)
        return store

    def reopen(self) -> Checkpointer:
        """Close every store and open the data anew."""
        self.rest()
        return self.store

    def rest(self) -> None:
        """Close every store; the next use of `store` opens the data anew."""
        self._open.close()
        self._stores.clear()

    # -- at once -----------------------------------------------------------------------------------------------------

    def in_threads(self, count: int, work: Callable[[int], T]) -> list[T]:
        """Do `work(number)` at once in so many threads; return the results, or raise the first error."""
        gate = threading.Barrier(count)

        def one(number: int) -> T:
            gate.wait(_PATIENCE)
            return work(number)

        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(one, range(count)))

    def in_processes(self, count: int, work: Callable[[Checkpointer, int], Any]) -> list[Any]:
        """Do `work(store, number)` at once in so many processes, each with a store of its own; return the results.

        A result crosses a pipe as JSON.
        """
        self.rest()
        with ExitStack() as stack:
            children = [stack.enter_context(Child(self._working(work, number))) for number in range(count)]
            for child in children:
                child.wait_until_ready()
            for child in children:
                child.go()
            return [child.result() for child in children]

    def in_child(self, work: Callable[[Checkpointer], Any]) -> Any:
        """`in_processes`, in one; None where it was killed by SIGKILL before it had a result."""
        self.rest()
        with Child(self._working(lambda store, _: work(store), 0)) as child:
            child.wait_until_ready()
            child.go()
            return child.result(may_be_killed=True)

    def _working(
        self, work: Callable[[Checkpointer, int], Any], number: int
    ) -> Callable[[Callable[[], None]], Sequence[Any]]:
        def child(ready: Callable[[], None]) -> Sequence[Any]:
            store = self.another()
            ready()
            return [work(store, number)]

        return child


def forked(work: Callable[[], Any]) -> Any:
    """Do `work` in a child made by fork that has everything open that this process has; return its result."""

    def child(ready: Callable[[], None]) -> Sequence[Any]:
        ready()
        return [work()]

    with Child(child) as made:
        made.wait_until_ready()
        made.go()
        return made.result()
