"""One faulted history: play a plan, heal, and judge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_fastdur import judge
from pytest_fastdur.evidence import Count, End, Evidence, Witnessed
from pytest_fastdur.faults import FaultPlan, NoAnswer, Point
from pytest_fastdur.world import NOTHING

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from pytest_fastdur.closure import Closure
    from pytest_fastdur.control import Control
    from pytest_fastdur.durable import DurableState
    from pytest_fastdur.evidence import Role
    from pytest_fastdur.faults import Step
    from pytest_fastdur.ledger import Tally
    from pytest_fastdur.lifetimes import Lifetime
    from pytest_fastdur.verdicts import Violation
    from pytest_fastdur.world import World


@dataclass(frozen=True)
class Outcome:
    """What came of a plan. `struck` is what was durable when its last fault had struck."""

    evidence: Evidence
    violation: Violation | None
    struck: DurableState
    lifetimes: list[Lifetime]
    recovery: list[Point]
    """The instants of the lifetimes after the last fault at which the same fault can strike again."""

    @property
    def plan(self) -> FaultPlan:
        """What was ordered."""
        return self.evidence.plan

    @property
    def mark(self) -> str:
        """What stands in the matrix."""
        return judge.mark(self.evidence, self.violation)


def play(world: World, plan: FaultPlan, control: Control, closure: Closure | None = None) -> Outcome:
    """Live through a plan until the run has ended or cannot go on, with the faults gone after the last of them.

    A `closure` watches the lifetimes after the last fault, and may end a history early that comes to a state which was
    carried on before.
    """
    history = _History(world, plan, control, closure)
    history.live()
    outcome = history.outcome()
    if closure is not None:
        closure.close(outcome.violation, doubted=judge.is_doubted(outcome.evidence))
    return outcome


def until_struck(world: World, plan: FaultPlan) -> None:
    """Live through a plan until its last fault has struck, or nothing leads on."""
    waiting = {step.point.lifetime for step in plan.steps}
    while waiting and (call := world.next_call()) is not None:
        lifetime = world.live(call, plan.of(call.label))
        waiting.discard(call.label)
        if lifetime.how not in ("completed", "paused"):
            return


class _History:
    """A plan being lived through."""

    def __init__(self, world: World, plan: FaultPlan, control: Control, closure: Closure | None) -> None:
        self._world, self._plan, self._control, self._closure = world, plan, control, closure
        self._seen: list[Violation] = []
        self._witnessed: list[Witnessed] = []
        self._waiting = {step.point.lifetime for step in plan.steps}
        self._left = control.lifetimes + len(plan.steps)
        self._struck = world.state
        self._healing: list[Lifetime] = []
        self._asks = ""
        self._known = self._early = self._doubted = False

    def live(self) -> None:
        """One lifetime after another, each by the documented call that leads on."""
        goes_on = True
        while goes_on and self._left:
            try:
                call = self._world.next_call()
            except NoAnswer as error:
                self._asks = f"in the uninterrupted run nothing asks this: {error}"
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
                    known, self._doubted = self._closure.known()
                    self._seen += [] if known is None else [known]
                    return
            lifetime = self._world.live(call, steps, look)
            goes_on = self._faulted(lifetime, steps) if steps else self._healed(lifetime)

    def _may_end_early(self, closure: Closure) -> bool:
        if len(self._plan.steps) < closure.ends_early or self._seen or self._world.violations:
            return False
        return not any(True for seen in self._witnessed for _ in judge.of_lifetime(seen))

    def _witness(self, lifetime: Lifetime, role: Role, ordered: FaultPlan | None = None) -> None:
        before, now = self._world.states[-2:] if len(self._world.states) > 1 else (NOTHING, self._world.state)
        changed = role == "refused" and before.digest != now.digest
        self._witnessed.append(Witnessed(lifetime, role, self._world.status, ordered, changed))

    def _faulted(self, lifetime: Lifetime, steps: tuple[Step, ...]) -> bool:
        self._waiting.discard(lifetime.call.label)
        self._struck = self._world.state
        if not self._waiting:  # the faults are gone: what follows is bounded
            self._left = self._control.questions + 2
        self._witness(lifetime, "faulted", FaultPlan(steps))
        return lifetime.how != "hung"

    def _healed(self, lifetime: Lifetime) -> bool:
        if not self._waiting:
            self._healing.append(lifetime)
        if judge.in_doubt(lifetime) and self._world.settle(self._control.state):
            self._left += 1
            self._witness(lifetime, "in doubt")
            return True
        if judge.refused(lifetime, self._world.status):
            return self._another_way(lifetime)
        self._witness(lifetime, "healed")
        return lifetime.how not in ("hung", "died")

    def _another_way(self, lifetime: Lifetime) -> bool:
        """After a refusal, which must change nothing, every other documented call, until one leads on."""
        calls = self._world.other_calls()
        self._witness(lifetime, "refused")
        while calls:
            tried = self._world.live(calls.pop(0))
            if not judge.refused(tried, self._world.status):
                self._witness(tried, "healed")
                return tried.how not in ("hung", "died")
            self._witness(tried, "refused")
        return False

    def outcome(self) -> Outcome:
        """What came of it."""
        world, plan = self._world, self._plan
        evidence = Evidence(
            plan,
            self._control.questions,
            End.of(world.state),
            complete=not self._early,
            asks=self._asks,
            doubted=self._doubted,
            witnessed=tuple(self._witnessed),
            counts=counts(world, self._control),
            seen=(*world.violations, *world.repeats(), *self._seen),
            struck=tuple(self._struck.lines),
        )
        fault = plan.steps[-1].fault
        recovery = [
            Point(life.call.label, event.when, event.name)
            for life in self._healing
            for event in life.events
            if fault.strikes(event)
        ]
        worst = judge.worst(evidence, self._control.end)
        return Outcome(evidence, worst, self._struck, world.lifetimes, recovery)


def counts(world: World, control: Control) -> dict[str, Count]:
    """How often each effect happened: as the provider counts it, where it does."""
    tallies = {} if world.story.ledger is None else world.story.ledger.tallies()
    counted = world.story.counted()
    found: dict[str, Count] = {}
    for name in {**control.tallies, **control.counted, **tallies, **counted}:
        mode = world.story.effects.get(name, "exactly-once")
        if name in counted or name in control.counted:
            found[name] = Count(mode, control.counted.get(name, 0), counted.get(name, 0))
        else:
            usual, here = (_times(each.get(name), mode, world.once) for each in (control.tallies, tallies))
            found[name] = Count(mode, usual, here)
    return found


def _times(tally: Tally | None, mode: str, once: AbstractSet[str]) -> int:
    if tally is None:
        return 0
    return tally.seen_once(once) if mode == "exactly-once" else tally.entered
