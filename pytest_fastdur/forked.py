"""Real children: made by fork, so that a story may be any closure; ended by SIGKILL or `os._exit` only."""

from __future__ import annotations

import os
import signal
import traceback
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_fastdur.faults import SweepError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BROKEN = 70
"""The exit status of a child whose own work raised; its message is the traceback."""


@dataclass(frozen=True, slots=True)
class Death:
    """How a child ended, and the last message it sent."""

    status: int
    message: bytes

    @property
    def signal(self) -> int | None:
        """The signal that ended it."""
        return os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else None

    def __str__(self) -> str:
        """`killed by SIGKILL`, `exit status 3`."""
        if self.signal is not None:
            return f"killed by {signal.Signals(self.signal).name}"
        return f"exit status {os.waitstatus_to_exitcode(self.status)}"


def require_fork() -> None:
    """Raise `SweepError` where no child can be made."""
    if not hasattr(os, "fork"):
        message = "the fault kill needs fork, which this system does not have; use crash, which is the same in process"
        raise SweepError(message)


def in_child(work: Callable[[Callable[[bytes], None]], None]) -> Death:
    """Run `work(send)` in a child and wait for its end. `send` hands one message over, before a kill or at the end.

    The child never returns into the caller's code. If this process is interrupted while it waits, the child is killed.
    """
    reading, writing = os.pipe()
    pid = _fork()
    if pid == 0:
        os.close(reading)
        _live_and_die(work, writing)
    os.close(writing)
    reaped = False
    try:
        message = b"".join(_chunks(reading))
        _, status = os.waitpid(pid, 0)
        reaped = True
    finally:
        os.close(reading)
        if not reaped:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return Death(status, message)


def _fork() -> int:
    with warnings.catch_warnings():
        # A threaded parent (pytest-xdist's worker, the leases of a run in process) is warned about because a lock may
        # be held by a thread that the child does not have. The child takes none of theirs: it opens its own store,
        # runs the story and dies.
        warnings.filterwarnings("ignore", message=".*multi-threaded.*fork", category=DeprecationWarning)
        return os.fork()


def _live_and_die(work: Callable[[Callable[[bytes], None]], None], writing: int) -> None:
    status = BROKEN
    try:
        work(lambda message: _send(writing, message))
        status = 0
    finally:
        if status:
            _send(writing, traceback.format_exc().encode("utf-8", "replace"))
        os._exit(status)


def _send(writing: int, message: bytes) -> None:
    while message:
        message = message[os.write(writing, message) :]


def _chunks(reading: int) -> Iterator[bytes]:
    while chunk := os.read(reading, 1 << 16):
        yield chunk
