"""Taking turns at one connection: whoever has the turn does all the work that waits.

One alone takes the turn at once and waits for nobody. Those who come while it is taken leave their work in a queue;
the turn is then handed to the first of them, who takes what the others have left along, in one transaction.
"""

from __future__ import annotations

from collections import deque
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fastdur.checkpointers._patience import Again
from fastdur.errors import FastdurError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdur.checkpointers._patience import Session

T = TypeVar("T")


class Job(Generic[T]):
    """A piece of work that waits, and what became of it: once it is `done`, raise `error`, or `result` counts."""

    __slots__ = ("done", "error", "gate", "leads", "result", "work")

    result: T

    def __init__(self, work: Callable[[Session], T]) -> None:
        self.work = work
        self.done = False
        self.error: Exception | None = None
        self.leads = False
        self.gate = Lock()
        self.gate.acquire()

    def outcome(self) -> T:
        """The result, or the error raised."""
        if not self.done:
            raise Again("the thread that was writing for this one was stopped", unclear=True)
        if self.error is not None:
            raise self.error
        return self.result


def _rest(_: Session) -> None:
    """The work of one who only wants the turn; it is never taken along."""


class Turns:
    """The turn at one connection.

    `perform` does a piece of work in a transaction of its own. `apart` does a job inside a transaction and sets its
    `result` or its `error`; a job that fails leaves nothing there. Both are called by one thread at a time.
    """

    def __init__(
        self,
        perform: Callable[[Callable[[Session], Any]], Any],
        apart: Callable[[Session, Job[Any]], None],
    ) -> None:
        self._perform = perform
        self._apart = apart
        self._turn = Lock()
        self._door = Lock()  # in front of the queue, wherever more than its end is looked at
        self._queue: deque[Job[Any]] = deque()

    def run(self, work: Callable[[Session], T]) -> T:
        """Do `work`, alone or with what waits; return its result or raise its error."""
        if not self._turn.acquire(blocking=False):
            job = Job(work)
            if not self._wait(job):
                return job.outcome()
        elif not self._queue:
            try:
                result: T = self._perform(work)
            finally:
                self._leave()
            return result
        else:
            job = Job(work)
        self._together(job)
        return job.outcome()

    def __enter__(self) -> None:
        """Keep the turn for a while: nobody is at work."""
        if not self._turn.acquire(blocking=False):
            self._wait(Job(_rest))

    def __exit__(self, *_: object) -> None:
        """Hand the turn on."""
        self._leave()

    def _together(self, job: Job[Any]) -> None:
        """Do the job and what waits behind it, then hand the turn on. Nobody is told before it is committed."""
        jobs = [job]
        try:
            with self._door:
                while self._queue and self._queue[0].work is not _rest:
                    jobs.append(self._queue.popleft())
            self._perform(lambda session: [self._apart(session, each) for each in jobs])
        except (FastdurError, Again) as error:
            for each in jobs:
                each.error = error
                each.done = True
        else:
            for each in jobs:
                each.done = True
        finally:
            for each in jobs[1:]:
                each.gate.release()
            self._leave()

    def _wait(self, job: Job[Any]) -> bool:
        """Queue up; return True when the job has the turn, False when another thread has seen to it."""
        self._queue.append(job)
        if self._turn.acquire(blocking=False):  # it was given up just before the job was there to be seen
            self._leave()
        called = False
        try:
            called = job.gate.acquire()
        finally:
            if not called:  # interrupted: the work is taken back, or the turn handed on
                self._withdraw(job)
        return job.leads

    def _withdraw(self, job: Job[Any]) -> None:
        with self._door:
            if job in self._queue:
                self._queue.remove(job)
        if job.leads:
            self._leave()

    def _leave(self) -> None:
        """Hand the turn to the first who waits, or give it up."""
        while True:
            with self._door:
                if self._queue:
                    heir = self._queue.popleft()
                    heir.leads = True
                    heir.gate.release()
                    return
            self._turn.release()
            if not self._queue or not self._turn.acquire(blocking=False):
                return
