"""Actors: callers at work on one run at once, each as a process of its own would be, and each stopped at its gates.

An actor is a real thread with a store object and a connection of its own. Between two gates exactly one moves.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from hashlib import sha256
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

from fastdur._runner import arecover, recover
from fastdur._runs import adelete_execution, aprune, delete_execution, prune
from fastdur.boundaries import observe
from fastdur.errors import SimulatedCrash
from fastdur.scope import active
from pytest_fastdur.faults import SweepError
from pytest_fastdur.gates import gated
from pytest_fastdur.lifetimes import Ending
from pytest_fastdur.observers import Watch
from pytest_fastdur.story import is_async
from pytest_fastdur.told import ends_of

if TYPE_CHECKING:
    from fastdur.boundaries import Boundary
    from fastdur.checkpointers.protocol import Checkpointer
    from fastdur.records import Resume
    from pytest_fastdur.gates import Gate
    from pytest_fastdur.observers import Event
    from pytest_fastdur.story import Story

BRANCH = "branch"
"""The id of the run that a forking actor makes."""

_USERS = frozenset({"Invoke", "RunEffect"})
"""What calls a function of the user's."""


class Scene(NamedTuple):
    """What an actor knows: the runner that it has built, the run, the story, and the answer to its open question."""

    runner: Any
    execution_id: str
    story: Story
    answer: Resume | None


Deed = Callable[[Scene], Any]
"""What an actor does; on an event loop it returns what is awaited."""

DEEDS: dict[str, tuple[Deed, Deed]] = {
    "resume": (
        lambda at: at.runner.resume(at.execution_id, at.answer),
        lambda at: at.runner.aresume(at.execution_id, at.answer),
    ),
    "recover": (lambda at: recover([at.runner]), lambda at: arecover([at.runner])),
    "start": (
        lambda at: at.runner.execute(dict(at.story.input), at.execution_id),
        lambda at: at.runner.aexecute(dict(at.story.input), at.execution_id),
    ),
    "decide": (
        lambda at: at.runner.decide(at.execution_id, at.answer),
        lambda at: at.runner.adecide(at.execution_id, at.answer),
    ),
    "cancel": (
        lambda at: at.runner.cancel(at.execution_id),
        lambda at: at.runner.acancel(at.execution_id),
    ),
    "delete": (
        lambda at: delete_execution(at.execution_id, at.runner.checkpointer),
        lambda at: adelete_execution(at.execution_id, at.runner.checkpointer),
    ),
    "prune": (
        lambda at: prune(timedelta(0), at.runner.checkpointer),
        lambda at: aprune(timedelta(0), at.runner.checkpointer),
    ),
    "fork": (
        lambda at: at.runner.fork(at.execution_id, new_execution_id=BRANCH),
        lambda at: at.runner.afork(at.execution_id, new_execution_id=BRANCH),
    ),
}
"""What actors can do, in place and on an event loop."""


def deed(name: str, *, on_a_loop: bool) -> Deed:
    """What an actor of this name does. Raises `SweepError` listing what there is."""
    if name not in DEEDS:
        message = f"there is no actor {name!r}; there are {', '.join(DEEDS)}"
        raise SweepError(message)
    return DEEDS[name][on_a_loop]


class Actor:
    """One caller. `log` takes what it passes, in the order in which all actors do."""

    def __init__(self, number: int, name: str, arrived: SimpleQueue[int], log: list[tuple[int, Event]]) -> None:
        self.number, self.name = number, name
        self.gate: Gate = "begin"
        self.doing = name
        self.past = b""
        """What stands for everything it has met: two with the same past go on in the same way."""
        self.done = self.dead = self.lose = False
        self.flying = False
        """Whether it is on its way to the next gate."""
        self.changed = False
        """Whether it has changed what is stored."""
        self.wrote = False
        """Whether it has come to write anything."""
        self.result: Any = None
        self.error: BaseException | None = None
        self.order: SweepError | None = None
        """That the story cannot be played, which is nobody's defect."""
        self.watch: Watch | None = None
        self._arrived, self._log = arrived, log
        self._go: SimpleQueue[None] = SimpleQueue()
        self._store: Checkpointer | None = None
        self._seen = b""
        self._thread: threading.Thread | None = None

    def enter(
        self, story: Story, store: Checkpointer, answer: Resume | None, execution_id: str, deed: Deed, budget: int
    ) -> None:
        """Come in front of the first gate."""
        self._store = store
        self.watch = Watch(execution_id, (), budget)
        self.watch.store = store

        def work() -> None:
            gated(store, self)
            runner = story.build(store)
            with observe(self._see, store=store):
                at = Scene(runner, execution_id, story, answer)
                self.result = asyncio.run(_awaited(deed, at)) if is_async(runner) else deed(at)

        self._thread = threading.Thread(target=self._live, args=(work,), name=f"fastdur actor {self.number}")
        self._thread.start()

    def _live(self, work: Callable[[], None]) -> None:
        self._go.get()
        ending = Ending()
        try:
            with ending:
                if not self.dead:
                    work()
        except SweepError as error:
            self.order = error
        finally:
            self.error = ending.error
            if self.error is not None:
                self.error.__traceback__ = None  # it holds the frames of the dead
            self.done, self.flying = True, False
            self._arrived.put(self.number)

    # -- at its gates, in its own thread -------------------------------------------------------------------------------

    def stop(self, gate: Gate) -> bool:
        """Stand still until told to go on; True where the next answer is to be lost."""
        if self.dead:
            self._die()
        self.gate = gate
        self.wrote = self.wrote or gate == "write"
        self.flying = False
        self._arrived.put(self.number)
        self._go.get()
        if self.dead:
            self._die()
        lose, self.lose = self.lose, False
        return lose

    def meet(self, *told: object) -> None:
        """Hear what the database has told."""
        self.remember(repr(told).encode("utf-8", "surrogatepass"))

    def meet_anything(self) -> None:
        """Be about to hear whatever is there."""
        self.remember(self._seen)

    def _see(self, boundary: Boundary) -> None:
        if self.dead:
            self._die()
        assert self.watch is not None, "an actor that has entered"
        self.watch(boundary)
        event = self.watch.events[-1]
        self._log.append((self.number, event))
        self.doing = boundary.name
        if boundary.when == "before" and event.kind in _USERS:
            self.stop("body")

    def _die(self) -> None:
        """End as a process ends that is killed: nothing of its claim is written any more."""
        for life in [*active]:
            mine: Any = life
            if mine.store is self._store:
                mine.crash()
        message = "killed by the schedule"
        raise SimulatedCrash(message)

    # -- as the schedule says, in the thread of whoever plays it -------------------------------------------------------

    def go(self, seen: bytes, *, lose: bool = False) -> None:
        """Go on to the next gate. `seen` stands for what there is to be seen now."""
        self._seen = seen
        self.remember(self.gate.encode(), self.doing.encode("utf-8", "surrogatepass"), b"lost" * lose)
        self.lose, self.flying = lose, True
        self._go.put(None)

    def kill(self) -> None:
        """Die here."""
        self.dead, self.flying = True, True
        self.remember(b"killed")
        self._go.put(None)

    def remember(self, *parts: bytes) -> None:
        """What it has met now is part of its past."""
        self.past = sha256(b"\0".join((self.past, *parts))).digest()

    def join(self) -> None:
        """Wait for the end of its thread."""
        if self._thread is not None:
            self._thread.join()

    @property
    def outcome(self) -> str:
        """How it ended, in a word: `completed`, `paused`, `killed`, the type of an error; `done` for other calls."""
        if self.dead:
            return "killed"
        if self.watch is not None and self.watch.spent:
            return "hung"
        if self.error is not None:
            return type(self.error).__name__
        return ", ".join(self.ends) or "done"

    @property
    def ends(self) -> list[str]:
        """The status of each run that it says it has carried on."""
        return ends_of(self.result)


async def _awaited(deed: Deed, at: Scene) -> Any:
    return await deed(at)
