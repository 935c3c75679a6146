"""Processes that stand ready, and at one signal all do the same. They are kept for all rounds.

Each gets ready when an order comes, says so, and waits for one byte of a pipe that all of them read. Make them in a
process that has one thread and nothing open, or one of which that may be inherited.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, Self, cast

from pytest_fastdur.forked import forked_quietly

if TYPE_CHECKING:
    from collections.abc import Sequence

Prepare = Callable[[int, Any], Callable[[], Any]]
"""Get ready for an order, as racer of this number; what is returned is done at the signal, and its result sent back."""


class Racers:
    """So many children made by fork. Orders and results cross as pickles."""

    def __init__(self, number: int, prepare: Prepare) -> None:
        self._number, self._prepare = number, prepare
        self._ends: list[tuple[IO[bytes], IO[bytes], int]] = []
        self._start = -1

    def __enter__(self) -> Self:
        """Fork them."""
        go, self._start = os.pipe()
        for number in range(self._number):
            (orders, order_to), (answers, answer_to) = os.pipe(), os.pipe()
            pid = forked_quietly()
            if pid == 0:
                for far, near, _ in self._ends:
                    os.close(far.fileno())
                    os.close(near.fileno())
                for descriptor in (order_to, answers, self._start):
                    os.close(descriptor)
                _obey(self._prepare, number, os.fdopen(orders, "rb"), os.fdopen(answer_to, "wb"), go)
            os.close(orders)
            os.close(answer_to)
            self._ends.append((os.fdopen(order_to, "wb"), os.fdopen(answers, "rb"), pid))
        os.close(go)
        return self

    def __exit__(self, *_: object) -> None:
        """End them."""
        for far, near, pid in self._ends:
            far.close()
            near.close()
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        os.close(self._start)

    def race(self, order: object) -> Sequence[Any]:
        """Hand one order to all of them; what came of it for each."""
        for far, _, _ in self._ends:
            _tell(far, order)
        for _, near, _ in self._ends:
            pickle.load(near)  # noqa: S301 - it comes from our own child
        os.write(self._start, b"!" * self._number)
        return [pickle.load(near) for _, near, _ in self._ends]  # noqa: S301


def _obey(prepare: Prepare, number: int, orders: IO[bytes], answers: IO[bytes], go: int) -> None:
    """Be a racer until there are no more orders."""
    status = 1
    try:
        while True:
            act = prepare(number, pickle.load(orders))  # noqa: S301 - it comes from our own parent
            _tell(answers, "ready")
            os.read(go, 1)
            _tell(answers, act())
    except EOFError:
        status = 0
    finally:
        os._exit(status)


def _tell(pipe: IO[bytes], what: object) -> None:
    pickle.dump(what, cast("Any", pipe))
    pipe.flush()
