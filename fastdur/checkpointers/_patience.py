"""How a store waits: attempts are counted, each waits a real length, no clock is read.

A dialect brings `_write_once` and `_read_once`, which run a piece of work on a session, and raises `Again` where the
work should be done once more. Every work may be done again: a write that finds the head moved looks for its own id.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from fastdur.checkpointers._cursor import alone, inside
from fastdur.errors import StoreClosed, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from fastdur.checkpointers._cursor import TransactionCursor

    Stored: TypeAlias = tuple[Any, ...]
    Piece: TypeAlias = tuple[str, Sequence[object]]

T = TypeVar("T")


class Session(Protocol):
    """One transaction of a dialect."""

    def move(self, pieces: Sequence[Piece], heads: int = 1) -> bool:
        """Run the first piece; if it changed its head, or that many, the others too; tell whether it did."""
        ...

    def change(self, sql: str, values: Sequence[object]) -> int:
        """Run one statement; return how many rows it changed."""
        ...

    def rows(self, sql: str, values: Sequence[object]) -> list[Stored]:
        """Run one query."""
        ...

    def cursor(self) -> TransactionCursor:
        """A cursor of the user's in this transaction, which is one of `_write_alone`."""
        ...

    def tidy(self) -> None:
        """Undo what the user's statements have left in the connection and not in the database."""
        ...


class Again(Exception):
    """The work was not done, or nobody knows whether it was (`unclear`): do it again.

    `waited` is how many seconds were spent on finding that out, where it was a wait.
    """

    def __init__(self, cause: str, *, unclear: bool, waited: float = 0.0) -> None:
        super().__init__(cause)
        self.unclear = unclear
        self.waited = waited


def _nothing(_: Session) -> None:
    """The work that only opens the store."""


class Patient(ABC):
    """Works that are done again until they are done, or the bound is reached."""

    busy_bound: float = 60.0
    """About how many seconds a call waits in all, in counted waits of a real length, before `StoreUnavailable`."""

    def __init__(self) -> None:
        self._closing = Event()
        self._alone: int | None = None  # the thread in which user code has the one connection for itself

    # -- what a dialect brings ---------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def location(self) -> str:
        """Where this store is, for people."""

    @abstractmethod
    def _write_once(self, work: Callable[[Session], T]) -> T:
        """Run `work` in one transaction and commit it. Raises `Again`, or an error after which nothing is written."""

    @abstractmethod
    def _alone_once(self, work: Callable[[Session], T]) -> T:
        """`_write_once` for work that runs a user's code: in this thread, in a transaction of its own."""

    @abstractmethod
    def _read_once(self, work: Callable[[Session], T]) -> T:
        """Run `work`, which writes nothing, on one consistent state. Raises `Again`."""

    @abstractmethod
    def _rest(self) -> None:
        """Close the connections once the calls under way have ended."""

    def _waiting(self, attempt: int) -> None:  # noqa: B027 - may be left as it is
        """Called before each wait, with 1, 2, 3 ...; tests look on here."""

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closing.is_set()

    def __repr__(self) -> str:
        """What it is and where."""
        return f"{type(self).__name__}({self.location!r})"

    def close(self) -> None:
        """Close the connections once the calls under way have ended. Later calls raise `StoreClosed`."""
        alone(f"The store {self.location} was closed")
        self._closing.set()
        self._rest()

    def rest(self) -> None:
        """Close the connections once the calls under way have ended; a later call makes fresh ones."""
        alone(f"The store {self.location} was put to rest")
        self._rest()

    def setup(self) -> None:
        """Create or migrate the tables; every first call does the same."""
        self._write(_nothing)

    # -- patience ----------------------------------------------------------------------------------------------------

    def _write(self, work: Callable[[Session], T]) -> T:
        self._check_open()
        try:
            return self._write_once(work)
        except Again as again:
            return self._try_again(self._write_once, work, again)

    def _write_alone(self, work: Callable[[Session], T]) -> T:
        self._check_open()
        try:
            return self._alone_once(work)
        except Again as again:
            return self._try_again(self._alone_once, work, again)

    def _write_at_once(self, work: Callable[[Session], None]) -> None:
        self._check_open()
        if self._alone is not None:
            raise self._busy("a transactional effect has it for itself")
        try:
            self._write_once(work)
        except Again as again:
            raise self._busy(again) from again

    def _busy(self, why: object) -> StoreUnavailable:
        return StoreUnavailable(f"The store {self.location} is busy ({why}).")

    def _read(self, work: Callable[[Session], T]) -> T:
        self._check_open()
        try:
            return self._read_once(work)
        except Again as again:
            return self._try_again(self._read_once, work, again)

    def _try_again(
        self, perform: Callable[[Callable[[Session], T]], T], work: Callable[[Session], T], again: Again
    ) -> T:
        cause: Exception = again
        unclear, waited = again.unclear, again.waited
        for attempt, delay in enumerate(self._delays(), 1):
            if waited >= self.busy_bound:
                break
            self._waiting(attempt)
            if self._closing.wait(delay):
                raise self._closed() from cause
            try:
                return perform(work)
            except Again as once_more:
                cause = once_more
                unclear, waited = unclear or once_more.unclear, waited + once_more.waited
            except StoreUnavailable as error:
                if not unclear:
                    raise
                cause = error
        outcome = "whether the last write was stored is not known" if unclear else "nothing was written"
        message = (
            f"The store {self.location} did not answer within about {self.busy_bound:g} s ({cause}); {outcome}. "
            "The run can be resumed when the store answers again."
        )
        raise StoreUnavailable(message) from cause

    def _delays(self) -> Iterator[float]:
        waited, delay = 0.0, 0.001
        while waited < self.busy_bound:
            yield delay
            waited += delay
            delay = min(delay * 1.3, 0.05)

    def _check_open(self) -> None:
        if inside.get() is not None:
            alone(f"The store {self.location} was called")
        if self._closing.is_set():
            raise self._closed()

    def _closed(self) -> StoreClosed:
        return StoreClosed(f"The store {self.location} was closed; make a new store object.")
