"""Who owns a run, whether that owner is still there, and the renewal of the leases of this process.

An owner is written as `boot:namespace:pid:start`, where start is the process's start in ticks since boot. Gone means:
in this boot and namespace there is no such pid, or it started at another tick. What cannot be read counts as alive;
then only the lease decides.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastdur.checkpointers.protocol import Checkpointer
    from fastdur.records import Claim, Execution


def me() -> str:
    """The owner string of this process."""
    pid = os.getpid()
    if _identity.pid != pid:
        _identity.pid, _identity.text = pid, f"{_boot()}:{_namespace()}:{pid}:{_started(pid)}"
    return _identity.text


def is_alive(owner: str, token: str) -> bool:
    """Whether the owner that wrote this string under this token may still be at work."""
    if owner == me():
        return calls.holds(token)
    place, _, rest = owner.rpartition(":")[0].rpartition(":")
    started = owner.rpartition(":")[2]
    if place != me().rsplit(":", 2)[0] or not rest.isdecimal():
        return True
    found = _started(int(rest))
    return found != "-" and (found == "?" or started in ("?", found))


def at_work(head: Execution) -> bool:
    """Whether the run of this reading has a live owner."""
    return head.token is not None and head.lease_live and is_alive(head.owner or "", head.token)


class _Identity:
    pid = -1
    text = ""


_identity = _Identity()


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="ascii", errors="replace") as file:  # noqa: PTH123 - pathlib costs its import
            return file.read()
    except OSError:
        return None


def _boot() -> str:
    text = _read("/proc/sys/kernel/random/boot_id")
    if text is not None:
        return text.strip()
    import psutil

    return f"{psutil.boot_time():.0f}"


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid").strip("pid:[]")  # noqa: PTH115 - as above
    except OSError:
        return "-"


def _started(pid: int) -> str:
    """The start of a process, `-` where there is no such process, `?` where that cannot be read."""
    if sys.platform == "linux":
        text = _read(f"/proc/{pid}/stat")
        if text is not None:
            fields = text.rpartition(")")[2].split()
            # A zombie holds its pid but will never write again.
            return "-" if fields[0] in "ZX" else fields[19]
        # Without procfs for ourselves, none for others says nothing.
        return "-" if _read("/proc/self/stat") is not None and not os.access(f"/proc/{pid}", os.F_OK) else "?"
    import psutil

    try:
        process = psutil.Process(pid)
        return "-" if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except psutil.NoSuchProcess:
        return "-"
    except psutil.Error:
        return "?"


SOONER = 10
"""How many times sooner than usual a store that was busy is asked again."""


class Calls:
    """The claims under which calls of this process are in progress, and the one thread that renews their leases."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._claims: dict[str, tuple[Checkpointer, Claim]] = {}
        self._coming: set[str] = set()
        self._wake = threading.Event()
        self._every = 0.0
        self._thread: threading.Thread | None = None

    def holds(self, token: str) -> bool:
        """Whether a call under this token is in progress here."""
        return token in self._coming or token in self._claims

    def expect(self, token: str) -> None:
        """A claim is being written: whoever reads it in the store before `enter` must not take its owner for gone."""
        self._coming.add(token)

    def settle(self, token: str) -> None:
        """It is written and entered, or will not be."""
        self._coming.discard(token)

    def enter(self, store: Checkpointer, claim: Claim) -> None:
        """A call begins: its lease is renewed from now on."""
        with self._lock:
            self._claims[claim.token] = (store, claim)
            if _lease(store) / 3 < self._every:
                self._wake.set()
            if self._thread is None or not self._thread.is_alive():
                thread = threading.Thread(target=self._renew, name="fastdur-leases", daemon=True)
                # Where no thread can be started now, the next call tries again; until then leases are short.
                with suppress(RuntimeError):
                    thread.start()
                    self._thread = thread

    def leave(self, token: str) -> None:
        """A call has ended, or crashed: its lease is no longer renewed."""
        with self._lock:
            self._claims.pop(token, None)

    def _interval(self) -> float:
        with self._lock:
            self._every = min((_lease(store) for store, _ in self._claims.values()), default=30.0) / 3
            return self._every

    def _renew(self) -> None:
        """Renew every third of a lease, sooner where a store was busy; end after a third without a call."""
        missed = False
        while True:
            self._wake.wait(min(self._interval() / (SOONER if missed else 1), threading.TIMEOUT_MAX))
            self._wake.clear()
            missed = False
            with self._lock:
                if not self._claims:
                    self._thread = None
                    return
                stores = {id(store): store for store, _ in self._claims.values()}
                held = [(id(store), claim) for store, claim in self._claims.values()]
            for key, store in stores.items():
                # A lease that cannot be renewed in the end runs out, and the fence stops the call.
                try:
                    store.renew([claim for where, claim in held if where == key])
                except Exception:
                    missed = True


def _lease(store: Checkpointer) -> float:
    return getattr(store, "lease", 30.0)


calls = Calls()


def _forget() -> None:
    """A child made by fork owns nothing."""
    calls.__init__()  # type: ignore[misc] # the same object: it is imported by name elsewhere


if hasattr(os, "register_at_fork"):  # pragma: no branch - everywhere but on Windows
    os.register_at_fork(after_in_child=_forget)
