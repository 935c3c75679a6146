"""Any number of crashes, by a search through durable states, breadth first.

A process that finds a run knows what is stored, and whether its owner is gone; what it will do depends on nothing else.
So of all histories that lead to one state one is carried on: its recovery is watched, and what is durable at each of
its instants is what a crash there would leave. Where that is a state nobody has seen, the history is played again with
a real crash there, and its own recovery is watched. When no new state comes up, every number of crashes has been tried.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from fastdur.errors import StoreError
from pytest_fastdur.faults import INSIDE, Fault, FaultPlan, Point, Step
from pytest_fastdur.observers import CALLS, RETURNS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_fastdur.control import Control
    from pytest_fastdur.observers import Event, Watch
    from pytest_fastdur.story import Story
    from pytest_fastdur.verdicts import Violation
    from pytest_fastdur.world import World

Key = tuple[object, ...]

_READS = frozenset({"Look", "History", "Waiting", "Unknown", "Recorded"})
"""What the engine does that no process would find traces of."""


class Happening(Protocol):
    """A history, or a part of one: its story, and the effects that are not to happen again while nobody knows."""

    story: Story
    once: set[str]


def outside_of(world: Happening, control: Control) -> Key:
    """What a history has done to the outside world: equal where the same can be said against it.

    Of an effect it counts which calls were entered and whether the provider was told their key, and how often it
    happened: only up to once more than in the uninterrupted run, which is a finding already.
    """
    tallies = {} if world.story.ledger is None else world.story.ledger.tallies()
    told: list[object] = []
    for name, tally in sorted(tallies.items()):
        usual = control.tallies.get(name)
        counts = (
            min(tally.seen_once(world.once), (usual.seen_once(world.once) if usual else 0) + 1),
            min(tally.entered, (usual.entered if usual else 0) + 1),
        )
        told.append((name, counts, frozenset((each.key, each.keyed, each.finished) for each in tally.entries)))
    counted = world.story.counted()
    provider = sorted((name, min(count, control.counted.get(name, 0) + 1)) for name, count in counted.items())
    return tuple(told), tuple(provider)


class Closure:
    """The search: the states that are known, and the histories that lead to those that nobody has carried on yet."""

    def __init__(self, control: Control, *, ends_early: int = 2) -> None:
        self.ends_early = ends_early
        """After how many faults a history ends where it comes to a state that was carried on before."""
        self._control = control
        self._explored: dict[Key, tuple[Violation | None, bool]] = {}
        """The states that were carried on: what was found then, and whether somebody had to say what happened."""
        self._entered: list[Key] = []
        self._seen: set[Key] = set()
        self._todo: deque[tuple[FaultPlan, Key | None]] = deque()
        self._found: list[tuple[FaultPlan, Key | None]] = []
        self.instants = 0
        """How many instants of recoveries have been looked at: each is a crash."""

    @property
    def states(self) -> int:
        """How many durable states have been carried on."""
        return len(self._explored)

    def __bool__(self) -> bool:
        """Whether a state is left that nobody has carried on."""
        while self._todo and self._todo[0][1] in self._explored:
            self._todo.popleft()
        return bool(self._todo)

    def next(self) -> FaultPlan:
        """The shortest history that leads to such a state."""
        return self._todo.popleft()[0]

    def enter(self, world: World, plan: FaultPlan, label: str) -> Callable[[Watch], None] | None:
        """What is to watch the lifetime that begins here; None where this state has been carried on before."""
        outside = outside_of(world, self._control)
        key = (world.state.canonical, outside)
        self._seen.add(key)
        self._entered.append(key)
        if key in self._explored:
            return None
        self._explored[key] = (None, False)
        return _Watching(self, world, plan, label, outside).look

    def known(self) -> tuple[Violation | None, bool]:
        """What came of the state that was entered last, when it was carried on before."""
        return self._explored[self._entered[-1]]

    def close(self, violation: Violation | None, *, doubted: bool) -> None:
        """A history is over. What follows from one that broke a promise says nothing new."""
        if violation is None:
            self._todo += self._found
        for key in self._entered:
            known, asked = self._explored[key]
            self._explored[key] = (known or violation, asked or doubted)
        self._found, self._entered = [], []

    def meet(self, key: Key, plan: FaultPlan, *, lost: bool) -> None:
        """A state that a crash would leave, and the plan that crashes there."""
        if lost or key not in self._seen:
            self._seen.add(key)
            self._found.append((plan, None if lost else key))

    def outside(self, world: World) -> Key:
        """What a history has done to the outside world by now."""
        return outside_of(world, self._control)


class _Watching:
    """One lifetime, watched: what is durable at each of its instants."""

    def __init__(self, closure: Closure, world: World, plan: FaultPlan, label: str, outside: Key) -> None:
        self._closure, self._world, self._plan, self._label = closure, world, plan, label
        self._state, self._outside = world.state, outside
        self._last: Event | None = None

    def look(self, watch: Watch) -> None:
        """Look at what is there now. Only what the engine has just done, or user code beside it, can have changed it.

        A store that cannot be read is met at the end of the lifetime.
        """
        self._closure.instants += 1
        event = watch.events[-1]
        last, self._last = self._last, event
        lost = False
        if event.when == "after" and event.kind not in _READS:
            try:
                self._state = self._world.stored()
            except StoreError:
                return
            lost = event.row is not None and self._world.lost(self._state, watch.events)
        if last is None or user_code_ran(last, event):
            self._outside = self._closure.outside(self._world)
        step = Step(Point(self._label, event.when, event.name), Fault.CRASH)
        key = (self._state.canonical, self._outside)
        self._closure.meet(key, FaultPlan((*self._plan.steps, step)), lost=lost)


def user_code_ran(last: Event, event: Event) -> bool:
    """Whether a function of the user's was at work between two instants that follow each other."""
    if last.run != event.run or last.kind in INSIDE:  # a transaction may have a body of the user's
        return True
    return last.kind in (CALLS if last.when == "before" else RETURNS)
