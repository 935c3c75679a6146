"""What a story has outside the store: a ledger of everything that happened, ways to die, and what is broken."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import nullcontext
from pathlib import Path

from fastdur import idempotent, interrupt, observe

FLAVOURS = ("sync", "async", "threads")
"""Sync calls on plain functions, async calls on `async def`s, async calls on plain functions."""

WAIT = 30
"""Seconds after which whatever waits has hung."""


class Broken(Exception):
    """What a node raises while it is broken."""


class Gate:
    """Where the first who comes waits until the test lets it go on."""

    def __init__(self):
        self.reached, self.opened = threading.Event(), threading.Event()

    def pass_through(self):
        if self.reached.is_set():
            return
        self.reached.set()
        assert self.opened.wait(WAIT), "nobody opened the gate"


class World:
    """The outside of one story, common to every process that works on it.

    `die` ends the process by SIGKILL: at a boundary (`after append b`), or where a mark is made (`b`, or `b#2` where it
    is made for the second time, all processes counted). `by` is another signal.
    """

    def __init__(self, folder, flavour="sync", die=None, by=signal.SIGKILL):
        self.folder, self.flavour, self.die, self.by = Path(folder), flavour, die, by
        self.gates = {}
        self.pay = payment(self)

    def mark(self, what):
        """Write down that something happened, durably for every death of a process; die where that is ordered."""
        descriptor = os.open(self.folder / "ledger", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        os.write(descriptor, f"{what}\n".encode())
        os.close(descriptor)
        if self.die is not None and self.die in (what, f"{what}#{self.count(what)}"):
            self._end()
        if what in self.gates:
            self.gates[what].pass_through()

    def marks(self):
        """Everything that happened, in order."""
        try:
            return (self.folder / "ledger").read_text().splitlines()
        except FileNotFoundError:
            return []

    def count(self, what):
        return self.marks().count(what)

    def shatter(self, node):
        """Break a node in every process until it is mended."""
        (self.folder / f"broken-{node}").touch()

    def mend(self, node):
        (self.folder / f"broken-{node}").unlink()

    def broken(self, node):
        return (self.folder / f"broken-{node}").exists()

    def check(self, node):
        if self.broken(node):
            raise Broken(node)

    def watched(self):
        """Die at the boundary that was ordered, if one was."""
        return nullcontext() if self.die is None or " " not in self.die else observe(self._at)

    def _end(self):
        """Here and now: a signal to the process may be taken by another of its threads, and this one goes on a little."""
        signal.pthread_kill(threading.get_ident(), self.by)

    def _at(self, boundary):
        if str(boundary) == self.die:
            self._end()

    def step(self, name, *, pays=False, asks=(), does=None):
        """A node: it marks its entry, pays, asks, breaks if it is broken, and appends its name to `path`.

        `does(state)` gives what else it returns. What was answered is kept under `<name> said`.
        """

        def finish(state, answers):
            self.check(name)
            said = {f"{name} said": [[answer.approved, answer.metadata] for answer in answers]} if answers else {}
            return {"path": [*state.get("path", ()), name], **said, **(does(state) if does else {})}

        def plain(state):
            self.mark(name)
            if pays:
                self.pay(name)
            return finish(state, [interrupt(reason, {"asked by": name}) for reason in asks])

        async def awaited(state):
            self.mark(name)
            if pays:
                await self.pay(name)
            return finish(state, [interrupt(reason, {"asked by": name}) for reason in asks])

        return awaited if self.flavour == "async" else plain


def payment(world):
    """The one effect of the stories, in the flavour of its nodes."""

    def plain(what):
        world.check(f"pay {what}")
        world.mark(f"pay {what}")
        return f"paid {what}"

    async def awaited(what):
        return plain(what)

    return idempotent(name="pay")(awaited if world.flavour == "async" else plain)
