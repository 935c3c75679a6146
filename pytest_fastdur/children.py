"""Lifetimes in real child processes, which may be killed."""

from __future__ import annotations

import json
import pickle
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from pytest_fastdur.faults import Fault, SweepError
from pytest_fastdur.forked import BROKEN, ForkServer
from pytest_fastdur.lifetimes import Lifetime, live
from pytest_fastdur.observers import Watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdur.checkpointers.protocol import Checkpointer
    from pytest_fastdur.backends import Backend
    from pytest_fastdur.faults import Step
    from pytest_fastdur.forked import Death
    from pytest_fastdur.lifetimes import Call
    from pytest_fastdur.story import Story


@dataclass(frozen=True, slots=True)
class Life:
    """What a child has to know beside the story."""

    history: int
    place: str
    number: int
    """The number of the lifetime in its history."""
    call: Call
    steps: tuple[Step, ...]
    budget: int
    inside: frozenset[str] = frozenset()
    """The instants below and beside the engine's that count."""


class Children:
    """One child process after another, each for one lifetime of a story."""

    def __init__(self, story: Story, backend: Backend) -> None:
        self._story, self._backend = story, backend
        self._server = ForkServer(self._work, self._prepare)
        self._histories = self._begun = 0

    def __enter__(self) -> Self:
        """Begin."""
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._server.__exit__()

    def begin(self) -> int:
        """The number of a new history."""
        self._histories += 1
        return self._histories

    def live(self, life: Life) -> Lifetime:
        """Play a lifetime in a child. What a child says counts where it ended as ordered, or by itself."""
        death = self._server.run(pickle.dumps(life))
        if death.status == 0 or death.signal == signal.SIGKILL:
            kills = any(step.fault is Fault.KILL for step in life.steps)
            if death.message and (death.status == 0 or kills):
                return Lifetime.of(life.call, json.loads(death.message))
        return _died(life.call, death)

    def _prepare(self, order: bytes) -> None:
        """What the server does before it makes a child: put the memory of the story back where a history begins."""
        life: Life = pickle.loads(order)  # noqa: S301 - it comes from our own process
        if life.history != self._begun:
            self._begun = life.history
            if self._story.fresh is not None:
                self._story.fresh()

    def _work(self, order: bytes, send: Callable[[bytes], None]) -> None:
        """What a child does."""
        life: Life = pickle.loads(order)  # noqa: S301 - it comes from our own process
        story = self._story
        if story.ledger is not None:
            story.ledger.lifetime = life.number

        def announce(watch: Watch) -> None:
            dying = Lifetime(life.call, "killed", watch.events, [str(step) for step in watch.struck])
            send(json.dumps(dying.plain()).encode())

        watch = Watch(story.execution_id, life.steps, life.budget, announce)
        watch.inside = life.inside
        lifetime = live(story, lambda: self._opened(life.place), life.call, watch, stays=False)
        send(json.dumps(lifetime.plain()).encode())

    def _opened(self, place: str) -> Checkpointer:
        return (self._story.store or self._backend.open)(place)


def _died(call: Call, death: Death) -> Lifetime:
    error = str(death)
    if death.message and death.signal is None:
        text = death.message.decode("utf-8", "replace")
        error = f"{error}, {text}" if death.status >> 8 == BROKEN else f"{error} after its end"
    if "SweepError" in error:
        raise SweepError(error.rstrip().rpartition("SweepError: ")[2])
    return Lifetime(call, "died", error=error)
