"""Gates: where an actor stands still until it is told to go on. Before each transaction of its store, before the commit
of each that writes, where its store finds the database busy, and before a function of the user's.

Between two gates an actor does one thing that others can see, or meet: so all orders of gates are all interleavings.
A store is gated as an object; what it does, and in which order, is not changed.
"""

from __future__ import annotations

import re
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from fastdur.checkpointers._patience import Again
from fastdur.checkpointers._store import Store
from fastdur.checkpointers.postgres import PostgresCheckpointer
from pytest_fastdur.faults import SweepError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastdur.checkpointers._cursor import TransactionCursor
    from fastdur.checkpointers._patience import Piece, Session, Stored
    from fastdur.checkpointers.protocol import Checkpointer

Gate = Literal["begin", "read", "write", "commit", "busy", "body"]
"""What an actor stands in front of: its call, a transaction that reads, one that writes, the commit of that, another
try of it, a function of the user's."""

_RANDOM: Final = re.compile(r"(?:\d+-\d+-)?[0-9a-f]{16,32}")
_MOMENT: Final = 1e9
_TRIES: Final = 1000
_IDLE: Final = 60.0


class Stage(Protocol):
    """Who stands at the gates of a store."""

    def stop(self, gate: Gate) -> bool:
        """Stand still; True where the answer of the commit behind the gate is to be lost."""
        ...

    def meet(self, *told: object) -> None:
        """Hear what the database has told."""
        ...

    def meet_anything(self) -> None:
        """Be about to hear whatever is there."""
        ...


class _Watched:
    """A session whose answers are heard. With `one_by_one` each statement but the first is a gate as well.

    Then each has a snapshot of its own.
    """

    def __init__(self, session: Session, stage: Stage, *, one_by_one: bool) -> None:
        self._session, self._stage = session, stage
        self._one_by_one, self._used = one_by_one, False

    def _next(self) -> None:
        if self._used and self._one_by_one:
            self._stage.stop("read")
        self._used = True

    def move(self, pieces: Sequence[Piece], heads: int = 1) -> bool:
        self._next()
        moved = self._session.move(pieces, heads)
        self._stage.meet(moved)
        return moved

    def change(self, sql: str, values: Sequence[object]) -> int:
        self._next()
        changed = self._session.change(sql, values)
        self._stage.meet(changed)
        return changed

    def rows(self, sql: str, values: Sequence[object]) -> list[Stored]:
        self._next()
        found = self._session.rows(sql, values)
        self._stage.meet(*(_plain(value) for row in found for value in row))
        return found

    def tidy(self) -> None:
        self._session.tidy()

    def cursor(self) -> TransactionCursor:
        self._stage.meet_anything()
        return self._session.cursor()


def _plain(value: object) -> object:
    """A stored value, unless it is random or a moment, by which no caller decides anything."""
    if isinstance(value, str):
        return None if _RANDOM.fullmatch(value) else value
    return None if isinstance(value, float) and value > _MOMENT else value


def gated(store: Checkpointer, stage: Stage) -> None:
    """Put gates into a store object. Raises `SweepError` for one that is not built on fastdur's own."""
    if not isinstance(store, Store):
        message = (
            f"{type(store).__name__} is no store on SQL of fastdur's, and its transactions cannot be seen; "
            "race processes on it instead"
        )
        raise SweepError(message)
    known: Any = store
    one_by_one = isinstance(store, PostgresCheckpointer)
    known._read_once = _reading(known._read_once, stage)  # noqa: SLF001 - the one place where a transaction is seen
    known._write_once = _writing(known._write_once, stage, one_by_one=one_by_one)  # noqa: SLF001
    known._alone_once = _writing(known._alone_once, stage, one_by_one=False)  # noqa: SLF001

    def waiting(_: int) -> None:
        stage.stop("busy")

    def delays() -> repeat[float]:
        return repeat(0.0, _TRIES)

    known._waiting = waiting  # noqa: SLF001
    known._delays = delays  # noqa: SLF001 - whoever is busy waits at its gate
    known.renew = _nothing  # an owner that stands still renews nothing, and time moves as the schedule says
    known._give_back = _nothing  # noqa: SLF001 - how many pages are free is no part of a state


def _nothing(*_: object, **__: object) -> None:
    """Do nothing."""


def _reading(once: Callable[[Any], Any], stage: Stage) -> Callable[[Any], Any]:
    def read(work: Callable[[Session], Any]) -> Any:
        stage.stop("read")

        def watched(session: Session) -> Any:
            return work(_Watched(session, stage, one_by_one=False))

        return once(watched)

    return read


def _writing(once: Callable[[Any], Any], stage: Stage, *, one_by_one: bool) -> Callable[[Any], Any]:
    def write(work: Callable[[Session], Any]) -> Any:
        lost = False

        def until_commit(session: Session) -> Any:
            nonlocal lost
            result = work(_Watched(session, stage, one_by_one=one_by_one))
            lost = stage.stop("commit")
            return result

        def in_a_transaction(session: Any) -> Any:
            return session.apart(until_commit, _IDLE)

        stage.stop("write")
        # A statement that commits itself is a transaction of one statement: made so, its locks can be met.
        result = once(in_a_transaction if one_by_one else until_commit)
        if lost:
            cause = "the answer was lost on purpose"
            raise Again(cause, unclear=True)
        return result

    return write
