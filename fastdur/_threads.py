"""Threads: calls of user code that may outlive their node, and store calls beside an event loop."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

Outcome = tuple[Any, BaseException | None]
"""What a function returned, or what it raised."""

STORE_THREADS = 8


class Keeper(Protocol):
    """Who keeps a claim for the calls under it."""

    def linger(self, call: Detached) -> None:
        """A call goes on although its node has ended."""
        ...

    def returned(self, call: Detached) -> None:
        """A lingering call has returned."""
        ...


class Detached:
    """A call in a thread, which may outlive its node: then the claim is kept until it returns."""

    def __init__(self, keeper: Keeper, call: Callable[[], Outcome]) -> None:
        self._keeper, self._call = keeper, call
        self._lock = threading.Lock()
        self._begun = self._abandoned = False
        self._tell: list[Callable[[], None]] = []
        self.ended = threading.Event()
        self.outcome: Outcome = (None, None)

    def __call__(self) -> None:
        """Run it, unless it was abandoned before it began."""
        with self._lock:
            if self._abandoned:
                return
            self._begun = True
        self.outcome = self._call()
        with self._lock:
            self.ended.set()
            abandoned, waiting = self._abandoned, self._tell
        if abandoned:
            self._keeper.returned(self)
        for tell in waiting:
            tell()

    def abandon(self) -> None:
        """Nobody waits for its outcome any more."""
        with self._lock:
            self._abandoned = True
            if self._begun and not self.ended.is_set():
                self._keeper.linger(self)

    async def landing(self) -> None:
        """Wait on the event loop until it has returned; the waiting can be cancelled."""
        landing = Landing()
        with self._lock:
            if self.ended.is_set():
                return
            self._tell.append(landing.tell)
        await landing.wait()


class Landing:
    """An event of another thread, awaited on the running event loop."""

    def __init__(self) -> None:
        import asyncio

        self._loop, self._event = asyncio.get_running_loop(), asyncio.Event()

    def tell(self) -> None:
        """It has happened. Called from any thread, at any time."""
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    async def wait(self) -> None:
        """Return when it has happened."""
        await self._event.wait()


class _Pool:
    """The threads that store calls of event loops run in: never those of user code, which may all be blocked."""

    executor: ThreadPoolExecutor | None = None


def _executor() -> ThreadPoolExecutor:
    if _Pool.executor is None:
        from concurrent.futures import ThreadPoolExecutor

        _Pool.executor = ThreadPoolExecutor(STORE_THREADS, thread_name_prefix="fastdur-store")
    return _Pool.executor


def _forget() -> None:
    """A child made by fork has none of its parent's threads."""
    _Pool.executor = None


if hasattr(os, "register_at_fork"):  # pragma: no branch - everywhere but on Windows
    os.register_at_fork(after_in_child=_forget)


async def in_thread(fn: Callable[..., Any], *args: Any) -> Any:
    """Run a call of the store beside the event loop. Once begun it ends, and a cancellation goes on after that."""
    import asyncio

    future = asyncio.get_running_loop().run_in_executor(_executor(), fn, *args)
    cancelled: BaseException | None = None
    while not future.done():
        try:
            await asyncio.wait((future,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        future.exception()
        raise cancelled
    return future.result()
