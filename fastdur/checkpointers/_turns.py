"""Taking turns at one connection: whoever has the turn does all the work that waits.

One alone takes the turn at once and waits for nobody. Those who come while it is taken leave their work in a queue;
the turn is then handed to the first of them, who takes what the others have left along, in one transaction.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from sys import _current_frames  # pyright: ignore[reportPrivateUsage]
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from fastdur.checkpointers._patience import Again
from fastdur.errors import FastdurError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from fastdur.checkpointers._patience import Session

T = TypeVar("T")

_LOOK: Final = 0.1
"""Seconds after which one who waits looks whether the holder of the turn is still there."""


class Job(Generic[T]):
    """A piece of work that waits, and what became of it: once it is `done`, raise `error`, or `result` counts."""

    __slots__ = ("done", "error", "gate", "leads", "result", "thread", "work")

    result: T

    def __init__(self, work: Callable[[Session], T]) -> None:
        self.work = work
        self.done = False
        self.error: Exception | None = None
        self.leads = False
        self.thread = get_ident()
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
        self._holder: int | None = None  # the thread that has the turn; for an instant it is not yet noted
        self._door = Lock()  # in front of the queue, wherever more than its end is looked at
        self._queue: deque[Job[Any]] = deque()

    def run(self, work: Callable[[Session], T], patience: float | None = None) -> T:
        """Do `work`, alone or with what waits; return its result or raise its error.

        Raises `Again` where the turn was not given up for `patience` seconds: user code may have it.
        """
        if not self._turn.acquire(blocking=False):
            job = Job(work)
            if not self._wait(job, patience):
                return job.outcome()
        else:
            self._holder = get_ident()
            if not self._queue:
                try:
                    result: T = self._perform(work)
                finally:
                    self._leave()
                return result
            job = Job(work)
        self._together(job)
        return job.outcome()

    @contextmanager
    def kept(self, patience: float | None = None) -> Generator[None]:
        """Keep the turn for a while: nobody is at work. Raises `Again` like `run`."""
        self._take(patience)
        try:
            yield
        finally:
            self._leave()

    def __enter__(self) -> None:
        """Keep the turn for a while, however long it takes to get it."""
        self._take(None)

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

    def _take(self, patience: float | None) -> None:
        if self._turn.acquire(blocking=False):
            self._holder = get_ident()
        else:
            self._wait(Job(_rest), patience)

    def _wait(self, job: Job[Any], patience: float | None = None) -> bool:
        """Queue up; return True when the job has the turn, False when another thread has seen to it."""
        if self._take_over(known=None):
            return True
        self._queue.append(job)
        if self._turn.acquire(blocking=False):  # it was given up just before the job was there to be seen
            self._leave()
        called = False
        looks = 0
        try:
            while not called:
                if patience is not None and looks * _LOOK >= patience and self._given_up(job):
                    message = "another thread has had the store for itself all the time"
                    raise Again(message, unclear=False, waited=patience)
                known, looks = self._holder, looks + 1
                called = job.gate.acquire(timeout=_LOOK) or self._take_over(known=known, job=job)
        finally:
            if not called:  # interrupted: the work is taken back, or the turn handed on
                self._withdraw(job)
        return job.leads

    def _take_over(self, *, known: int | None, job: Job[Any] | None = None) -> bool:
        """Take the turn of one who left without giving it up: a signal can end a call at any instruction.

        It was this thread itself, which cannot be inside the call that it has left; or a thread that is no more; or
        nobody has noted himself as the holder for a whole look.
        """
        with self._door:
            holder = self._holder
            gone = holder not in _current_frames() if holder is not None else job is not None and known is None
            if not self._turn.locked() or (holder != get_ident() and not gone) or (job is not None and job.leads):
                return False
            if job is not None:
                if job not in self._queue:
                    return False
                self._queue.remove(job)
                job.leads = True
            self._holder = get_ident()
            return True

    def _given_up(self, job: Job[Any]) -> bool:
        """Take the job out of the queue; False where somebody is already doing it, or it leads."""
        with self._door:
            waits = job in self._queue
            if waits:
                self._queue.remove(job)
        return waits

    def _withdraw(self, job: Job[Any]) -> None:
        if not self._given_up(job) and job.leads:
            self._leave()

    def _handed_on(self) -> bool:
        with self._door:
            if not self._queue:
                return False
            heir = self._queue.popleft()
            heir.leads = True
            self._holder = heir.thread
            heir.gate.release()
            return True

    def _leave(self) -> None:
        """Hand the turn to the first who waits, or give it up."""
        while True:
            if self._queue and self._handed_on():
                return
            self._holder = None
            self._turn.release()
            if not self._queue or not self._turn.acquire(blocking=False):
                return
            self._holder = get_ident()
