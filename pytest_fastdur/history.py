"""One faulted history: play a plan, heal, and judge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_fastdur import judge
from pytest_fastdur.faults import Fault, NoAnswer, Point
from pytest_fastdur.verdicts import Verdict, Violation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_fastdur.closure import Closure
    from pytest_fastdur.control import Control
    from pytest_fastdur.durable import DurableState
    from pytest_fastdur.faults import FaultPlan, Step
    from pytest_fastdur.lifetimes import Lifetime
    from pytest_fastdur.world import World

_ANOTHER_WAY = frozenset({Verdict.DIVERGED, Verdict.EFFECT_LOST})
"""What a story may do when it deals with an error itself: go another way."""


@dataclass(frozen=True)
class Outcome:
    """What came of a plan. `struck` is what was durable when its last fault had struck."""

    plan: FaultPlan
    violation: Violation | None
    handled: bool
    struck: DurableState
    lifetimes: list[Lifetime]
    recovery: list[Point]
    """The instants of the lifetimes after the last fault at which the same fault can strike again."""

    @property
    def mark(self) -> str:
        """What stands in the matrix."""
        if self.violation is not None:
            return self.violation.verdict.code
        return "alt" if self.handled else "ok"


def play(world: World, plan: FaultPlan, control: Control, closure: Closure | None = None) -> Outcome:
    """Live through a plan until the run has ended or cannot go on, with the faults gone after the last of them.

    A `closure` watches the lifetimes after the last fault, and may end a history early that comes to a state which was
    carried on before.
    """
    history = _History(world, plan, control, closure)
    history.live()
    outcome = history.outcome()
    if closure is not None:
        closure.close(outcome.violation)
    return outcome


def until_struck(world: World, plan: FaultPlan) -> None:
    """Live through a plan until its last fault has struck, or nothing leads on."""
    waiting = {step.point.lifetime for step in plan.steps}
    while waiting and (call := world.next_call()) is not None:
        world.live(call, plan.of(call.label))
        waiting.discard(call.label)


class _History:
    """A plan being lived through."""

    def __init__(self, world: World, plan: FaultPlan, control: Control, closure: Closure | None) -> None:
        self._world, self._plan, self._control, self._closure = world, plan, control, closure
        self._found: list[Violation] = []
        self._waiting = {step.point.lifetime for step in plan.steps}
        self._left = control.lifetimes + len(plan.steps)
        self._handled = False
        self._struck = world.state
        self._healing: list[Lifetime] = []
        self._refused: list[Lifetime] = []
        self._asks = False
        self._known = self._early = False

    def live(self) -> None:
        """One lifetime after another, each by the documented call that leads on."""
        goes_on = True
        while goes_on and self._left:
            try:
                call = self._world.next_call()
            except NoAnswer as error:
                what = f"in the uninterrupted run nothing asks this: {error}"
                self._found.append(Violation(Verdict.DIVERGED, what))
                self._asks = True
                return
            if call is None:
                return
            self._left -= 1
            steps = self._plan.of(call.label)
            look = None
            if self._closure is not None and not (self._waiting or self._known):
                look = self._closure.enter(self._world, self._plan, call.label)
                self._known = look is None
                if self._known and self._may_end_early(self._closure):
                    self._early = True
                    self._found += self._closure.known()
                    return
            lifetime = self._world.live(call, steps, look)
            goes_on = self._faulted(lifetime, steps) if steps else self._healed(lifetime)

    def _may_end_early(self, closure: Closure) -> bool:
        enough = len(self._plan.steps) >= closure.ends_early
        return enough and not (self._found or self._world.violations)

    def _faulted(self, lifetime: Lifetime, steps: Sequence[Step]) -> bool:
        self._waiting.discard(lifetime.call.label)
        self._struck = self._world.state
        if not self._waiting:  # the faults are gone: what follows is bounded
            self._left = self._control.questions + 2
        for step in steps:
            self._found += judge.struck_as_ordered(lifetime, step)
            if step.fault is Fault.RAISE:
                self._found += judge.raised_as_ordered(lifetime, step, self._world.status)
                self._handled = self._handled or lifetime.how in ("completed", "paused")
        return lifetime.how != "hung"

    def _healed(self, lifetime: Lifetime) -> bool:
        if not self._waiting:
            self._healing.append(lifetime)
        if judge.in_doubt(lifetime) and self._world.settle(self._control.state):
            self._left += 1
            return True
        if judge.refused(lifetime, self._world.status):
            return self._another_way(lifetime)
        self._found += judge.healed_as_documented(lifetime, self._world.status)
        return lifetime.how not in ("hung", "died")

    def _another_way(self, lifetime: Lifetime) -> bool:
        """After a refusal, which must change nothing, every other documented call, until one leads on."""
        self._refused = [lifetime]
        calls = self._world.other_calls()
        while True:
            before, now = self._world.states[-2:]
            if before.digest != now.digest:
                what = f"{self._refused[-1].call} was refused and changed the store"
                self._found.append(Violation(Verdict.WRONG_ERROR, what))
            self._found += judge.healed_as_documented(self._refused[-1], self._world.status)
            if not calls:
                return False
            tried = self._world.live(calls.pop(0))
            if not judge.refused(tried, self._world.status):
                self._found += judge.healed_as_documented(tried, self._world.status)
                return tried.how not in ("hung", "died")
            self._refused.append(tried)

    def outcome(self) -> Outcome:
        """What came of it."""
        world, plan = self._world, self._plan
        for step in plan.steps:
            if step.point.lifetime in self._waiting:
                what = f"there was no lifetime {step.point.lifetime} to reach {step.point} in"
                self._found.append(Violation(Verdict.NEVER_REACHED, what))
        if not (self._asks or self._early):  # an answer would lead on, only nobody has one
            self._found += judge.unfinished(world, self._refused)
        self._found += judge.healed_in_time(self._healing, self._control)
        if self._early:
            self._found += world.repeats()
        else:
            self._found += judge.compared(world, self._control)
        counts = [each for each in self._found if not (self._handled and each.verdict in _ANOTHER_WAY)]
        worst = min([*world.violations, *counts], key=lambda each: each.verdict.value, default=None)
        fault = plan.steps[-1].fault
        recovery = [
            Point(life.call.label, event.when, event.name)
            for life in self._healing
            for event in life.events
            if fault.strikes(event.when, sends=event.sends, writes=event.writes)
        ]
        return Outcome(plan, worst, self._handled, self._struck, world.lifetimes, recovery)
