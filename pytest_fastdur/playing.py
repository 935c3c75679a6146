"""One schedule being played: the actors at their gates, and the steps that are taken."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Protocol

from pytest_fastdur.actors import Actor
from pytest_fastdur.faults import SweepError
from pytest_fastdur.referee import Referee
from pytest_fastdur.schedules import Choice, Moment, diverged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastdur.checkpointers.protocol import Checkpointer
    from fastdur.records import Resume
    from pytest_fastdur.actors import Deed
    from pytest_fastdur.durable import DurableState
    from pytest_fastdur.observers import Event
    from pytest_fastdur.places import Place
    from pytest_fastdur.story import Story
    from pytest_fastdur.verdicts import Violation

_SOON: Final = 0.003
"""Seconds after which somebody who has not come to a gate may be waiting for a lock."""
_LATE: Final = 60.0
"""Seconds after which somebody who waits for nothing is taken to hang."""


class Scenery(Protocol):
    """Where a schedule is played."""

    story: Story
    place: Place
    reader: Checkpointer
    base: DurableState
    answer: Resume | None
    budget: int
    cast: list[tuple[str, Deed]]

    def stores(self, ahead: float) -> list[Any]:
        """A fresh store object for each actor."""
        ...

    def state(self, seen: bytes) -> DurableState:
        """What is stored now, which `seen` stands for."""
        ...

    def outside(self) -> object:
        """What has happened outside."""
        ...


class Slot:
    """The connections of one actor, opened once."""

    def __init__(self, store: Any) -> None:
        store.setup()
        store.list_executions()
        self._kept = store._kept  # noqa: SLF001 - a connection is no knowledge
        self._old = (store, store._kept)  # noqa: SLF001

    def fresh(self, store: Any, ahead: float) -> Any:
        """A store object that knows nothing, on these connections."""
        store._kept = self._kept  # noqa: SLF001
        store.clock_offset = ahead
        return store


class Playing:
    """The steps of one schedule, one after another."""

    def __init__(self, scenery: Scenery) -> None:
        self._scenery = scenery
        self._arrived: SimpleQueue[int] = SimpleQueue()
        self.log: list[tuple[int, Event]] = []
        self.moments: list[Moment] = []
        self.violations: list[Violation] = []
        self.used: Counter[str] = Counter()
        self.preempted = 0
        self.waits = 0
        self.current: Actor | None = None
        self.state = scenery.base
        self._progress = 0
        self._blocked: dict[int, int] = {}
        self._ahead = 0.0
        self._stores = scenery.stores(0.0)
        self._lease = float(self._stores[0].lease)
        self.actors = [Actor(number, name, self._arrived, self.log) for number, (name, _) in enumerate(scenery.cast)]
        for actor, store, (_, deed) in zip(self.actors, self._stores, scenery.cast, strict=True):
            actor.enter(scenery.story, store, scenery.answer, scenery.story.execution_id, deed, scenery.budget)
        self.seen: bytes = scenery.place.digest(0.0)
        self._rows = scenery.place.rows()
        self.outside = scenery.outside()

    @property
    def over(self) -> bool:
        """Whether all have ended."""
        return all(actor.done for actor in self.actors)

    def ready(self) -> list[Actor]:
        """Who can go on: not who has met a lock, until somebody else has moved."""
        here = [actor for actor in self.actors if not actor.done and not actor.flying]
        return [actor for actor in here if self._blocked.get(actor.number, -1) < self._progress] or here

    def moving(self) -> list[Actor]:
        """Of these, whose step now is another thing than the same step later.

        While somebody is about to commit, others see what they saw before, and only one that writes can meet it.
        """
        ready = self.ready()
        committing = [actor for actor in ready if actor.gate == "commit"]
        if not committing:
            return ready
        first = self.current if self.current in committing else committing[0]
        return [actor for actor in ready if actor is first or actor.gate in ("write", "busy")]

    def key(self, used: tuple[int, ...]) -> object:
        """What stands for this state: equal where the same can come of it."""
        can = self.current is not None and self.current in self.ready()
        actors = [(self._of(actor), can and actor is self.current) for actor in self.actors]
        return self.seen, self.outside, tuple(sorted(actors, key=repr)), used

    def _of(self, actor: Actor) -> tuple[object, ...]:
        """What stands for an actor. Two that do the same are one as good as the other."""
        if actor.done:
            return actor.name, actor.outcome
        gate = actor.gate
        if gate == "busy" and self._blocked.get(actor.number, -1) < self._progress:
            gate = "write"  # it may try again
        return actor.name, actor.past, gate, actor.flying

    # -- steps ---------------------------------------------------------------------------------------------------------

    def take(self, choice: Choice, possible: Sequence[Choice]) -> None:
        """Take one step. Raises `DivergenceError` where it is not possible."""
        if choice not in possible:
            raise diverged(choice, possible, len(self.moments))
        if choice.what == "tick":
            self._tick()
            return
        actor = self.actors[choice.actor]
        ready = self.ready()
        over = (
            self.current if self.current is not None and self.current is not actor and self.current in ready else None
        )
        preempts = over.number if over is not None and choice.what != "kill" else None
        self.moments.append(Moment(choice, actor.gate, actor.doing, preempts))
        self.preempted += preempts is not None
        self.used[choice.what] += 1
        gate, past = actor.gate, actor.past
        if choice.what == "kill":
            actor.kill()
        else:
            actor.go(self.seen, lose=choice.what == "lose")
        self._settle(actor)
        self._look(actor, gate)
        if actor.gate == "busy" and not actor.done and gate in ("write", "busy"):
            actor.past = past  # it has tried in vain, and knows no more than before
            self._blocked[actor.number] = self._progress
            self.waits += 1
        elif not actor.flying:
            self._progress += 1
        self.current = actor

    def _tick(self) -> None:
        self.moments.append(Moment(Choice("tick"), "begin", "the leases run out"))
        self.used["tick"] += 1
        self._ahead += self._lease + 1
        for store in self._stores:
            store.clock_offset = self._ahead
        self.seen = self._scenery.place.digest(self._ahead)
        self._progress += 1

    def _settle(self, moved: Actor) -> None:
        """Wait until everybody stands at a gate, has ended, or waits for a lock that somebody holds."""
        tries = 0
        while flying := [actor for actor in self.actors if actor.flying]:
            with suppress(Empty):
                self._arrived.get(timeout=_SOON)
                continue
            flying = [actor for actor in flying if actor.flying]
            if flying and self._scenery.place.blocked() == len(flying):
                break
            tries += 1
            if tries * _SOON > _LATE:
                message = f"{', '.join(f'actor {each.number} in {each.doing}' for each in flying)} does not come back"
                raise SweepError(message)
        if moved.flying:
            self.waits += 1

    def _look(self, actor: Actor, gate: str) -> None:
        """See what a step has changed."""
        if gate == "body":
            self.outside = self._scenery.outside()
        if gate != "commit":
            return
        seen = self._scenery.place.digest(self._ahead)
        if seen == self.seen:
            return
        self.seen, actor.changed = seen, True
        before, self.state = self.state, self._scenery.state(seen)
        rows, self._rows = self._rows, self._scenery.place.rows()
        self.violations += Referee.of_step(before, self.state, actor)
        self.violations += Referee.of_rows(rows, self._rows, actor)

    def abandon(self) -> None:
        """End whoever has not ended, as if killed."""
        for actor in self.actors:
            if not actor.done:
                actor.dead = True
                actor.kill()
        for actor in self.actors:
            actor.join()
