"""Real children: made by fork, so that their work may be any closure; ended by SIGKILL or `os._exit` only."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import traceback
import warnings
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

_READY: Final = b"r"
_GO: Final = b"g"
_BROKEN: Final = 70


class Child:
    """A process that gets ready, waits for `go`, does its work and ends. It is killed at the end of the `with`."""

    def __init__(self, work: Callable[[Callable[[], None]], Sequence[Any]]) -> None:
        hears, self._says = os.pipe()
        self._hears, says = os.pipe()
        self._pid = _fork()
        if self._pid == 0:
            os.close(self._says)  # else it would never hear that its parent is gone
            os.close(self._hears)
            _live(work, hears, says)
        os.close(hears)
        os.close(says)
        self._reaped = False

    def __enter__(self) -> Self:
        """It runs already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left of it."""
        os.close(self._says)
        os.close(self._hears)
        if not self._reaped:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)

    def wait_until_ready(self) -> None:
        """Return when it waits for `go`."""
        if os.read(self._hears, 1) != _READY:
            self.result()

    def go(self) -> None:
        """Let it do its work."""
        os.write(self._says, _GO)

    def result(self, *, may_be_killed: bool = False) -> Any:
        """What its work returned. Raises `AssertionError` with its traceback where that raised."""
        text = b"".join(iter(lambda: os.read(self._hears, 1 << 16), b""))
        _, status = os.waitpid(self._pid, 0)
        self._reaped = True
        if may_be_killed and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            return None
        if status:
            message = f"a child ended with status {os.waitstatus_to_exitcode(status)}\n{text.decode()}"
            raise AssertionError(message)
        return json.loads(text)[0]


def _fork() -> int:
    with warnings.catch_warnings():
        # A parent with threads is warned about because a lock may be held by a thread that the child does not have.
        warnings.filterwarnings("ignore", message=".*multi-threaded.*fork", category=DeprecationWarning)
        return os.fork()


def _live(work: Callable[[Callable[[], None]], Sequence[Any]], hears: int, says: int) -> None:
    status = _BROKEN

    def ready() -> None:
        os.write(says, _READY)
        if os.read(hears, 1) != _GO:
            os._exit(_BROKEN)

    try:
        _send(says, json.dumps(work(ready)).encode())
        status = 0
    finally:
        if status:
            _send(says, traceback.format_exc().encode("utf-8", "replace"))
        os._exit(status)


def _send(where: int, message: bytes) -> None:
    while message:
        message = message[os.write(where, message) :]


def killed_at(line: int, call: Callable[[], object]) -> int:
    """Make `call`, and kill this process when the `line`-th line of Python in it is about to run.

    Return how many lines there were; with 0 nobody is killed. Nothing is collected meanwhile: lines of finalizers come
    when they like, and the same number would be another place of the call.
    """
    seen = 0

    def trace(_frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal seen
        if event == "line":
            seen += 1
            if seen == line:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    before, collects = sys.gettrace(), gc.isenabled()
    gc.disable()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()
    return seen
