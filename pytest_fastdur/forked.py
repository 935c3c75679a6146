"""Real children: made by fork, so that a story may be any closure; ended by SIGKILL or `os._exit` only."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from pytest_fastdur.faults import SweepError

if TYPE_CHECKING:
    from collections.abc import Iterator

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


Work = Callable[[bytes, Callable[[bytes], None]], None]
"""What a child does: with an order, and with a function that hands one message over, before a kill or at the end."""


class ForkServer:
    """Makes a child for each order, by fork, from a process that has one thread and nothing open.

    The server is a fork of this process as it is when the block begins, and so is every child of it, whatever this
    process does in the meantime; `prepare(order)` is done in the server before a child is made. A child never returns
    into the caller's code. Where this process is interrupted while it waits, the child and the server are killed; where
    it is gone, the server ends.
    """

    def __init__(self, work: Work, prepare: Callable[[bytes], object] = bytes) -> None:
        self._work, self._prepare = work, prepare
        self._pid = 0
        self._file: Any = None

    def __enter__(self) -> Self:
        """Start the server."""
        ours, its = socket.socketpair()
        self._pid = forked_quietly()
        if self._pid == 0:
            ours.close()
            _serve(self._work, self._prepare, its)
        its.close()
        self._file = ours.makefile("rwb")
        ours.close()
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        if self._pid:
            self._file.close()
            os.waitpid(self._pid, 0)
            self._pid = 0

    def run(self, order: bytes) -> Death:
        """Let a child work on an order, and wait for its end."""
        child = 0
        told = False
        try:
            _write(self._file, order)
            child = int(_read(self._file))
            status = int(_read(self._file))
            message = _read(self._file)
            told = True
        finally:
            if not told:
                self._kill(child)
        return Death(status, message)

    def _kill(self, child: int) -> None:
        for pid in (self._pid, child):
            with suppress(ProcessLookupError):
                if pid:
                    os.kill(pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self._pid = 0


def _serve(work: Work, prepare: Callable[[bytes], object], channel: socket.socket) -> None:
    """Be the server."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever is interrupted kills its server
        gc.freeze()  # a child that looks through all of this for garbage would copy every page of it
        with channel.makefile("rwb") as file:
            while order := _read(file):
                prepare(order)
                reading, writing = os.pipe()
                pid = forked_quietly()
                if pid == 0:
                    os.close(reading)
                    _live_and_die(work, order, writing)
                os.close(writing)
                _write(file, str(pid).encode())
                message = b"".join(_chunks(reading))
                os.close(reading)
                _, status = os.waitpid(pid, 0)
                _write(file, str(status).encode())
                _write(file, message)
    finally:
        os._exit(0)


def _write(file: Any, message: bytes) -> None:
    file.write(len(message).to_bytes(8, "big") + message)
    file.flush()


def _read(file: Any) -> bytes:
    """The next message; nothing where the other side has ended."""
    found: bytes = file.read(int.from_bytes(file.read(8), "big"))
    return found


def forked_quietly() -> int:
    """Fork; 0 in the child, which must end by `os._exit`."""
    with warnings.catch_warnings():
        # A threaded parent (pytest-xdist's worker, the leases of a run in process) is warned about because a lock may
        # be held by a thread that the child does not have. The child takes none of theirs: it opens its own store,
        # runs the story and dies.
        warnings.filterwarnings("ignore", message=".*multi-threaded.*fork", category=DeprecationWarning)
        return os.fork()


def _live_and_die(work: Work, order: bytes, writing: int) -> None:
    status = BROKEN
    try:
        work(order, lambda message: _send(writing, message))
        status = 0
        save_coverage()
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


def save_coverage() -> None:
    """Keep what coverage.py has seen in this process, which ends at once; where it keeps a file for each process."""
    coverage: Any = sys.modules.get("coverage")
    current = None if coverage is None else coverage.Coverage.current()
    if current is not None and current.get_option("run:parallel"):
        current.stop()
        current.save()
