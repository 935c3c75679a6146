"""The sweep: run a story, fault it at each boundary, resume, and compare with the run that was left alone."""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pytest_fastdur.applicable import in_the_story, on_the_store, possible
from pytest_fastdur.book import Book, change
from pytest_fastdur.calibration import check_the_model
from pytest_fastdur.closure import Closure, outside_of
from pytest_fastdur.control import ControlError, controlled, limits_of, nodes_of
from pytest_fastdur.evidence import Evidence
from pytest_fastdur.faults import (
    Fault,
    FaultPlan,
    Point,
    Step,
    SweepError,
    boundaries_named,
    boundaries_of,
    check_digest,
    digest_of,
    faults_named,
    parse_token,
)
from pytest_fastdur.forked import require_fork
from pytest_fastdur.history import Outcome, play, until_struck
from pytest_fastdur.power import variants
from pytest_fastdur.report.data import SweepReport
from pytest_fastdur.stage import Worlds
from pytest_fastdur.story import Story
from pytest_fastdur.verdicts import Verdict, Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pytest_fastdur.backends import Backend
    from pytest_fastdur.control import Control
    from pytest_fastdur.durable import DurableState
    from pytest_fastdur.evidence import End

__all__ = ["Order", "Story", "SweepReport", "boundary_names", "explore"]

_MOST = 100_000
"""How many points are tried where no budget is given: a story that comes to ever new states is cut off there."""
_KINDS = (Fault.KILL, *(fault for fault in Fault if fault is not Fault.KILL))
"""In this order, because children are best made while this process has no threads: a run in process starts one."""


@dataclass(frozen=True)
class Order:
    """What to do to a story. `at` is a glob over the instants, `budget` the most points to try, `seed` mixes them."""

    faults: tuple[Fault, ...] = (Fault.CRASH,)
    at: str | None = None
    depth: int | None = None
    """1 faults each boundary of the uninterrupted run, 2 also every boundary of each recovery. None does what 1 does,
    and where crashes are played it goes on to any number of them."""
    budget: int | None = None
    seed: int | None = None
    replay: str | None = None
    sample: bool = False
    """Whether a few real kills, one for each kind of boundary, are compared with the crashes that are played."""
    kept: tuple[str, ...] = ()
    """Tokens that the test keeps: they are played first, and must fit."""
    found: tuple[str, ...] = ()
    """Tokens that were found last time: they are played first, where they still fit."""
    boundaries: frozenset[str] = frozenset()
    """The instants below and beside those of the engine: `sql`, `lines`."""
    known: dict[str, list[str]] = field(default_factory=dict[str, "list[str]"])
    """Lists of boundaries by their digest, to say what a token that no longer fits was recorded on."""

    def plans(self, boundaries: Sequence[str]) -> list[FaultPlan]:
        """What is played first. Raises `DivergenceError` for a kept token that no longer fits."""
        kept = [parse_token(token) for token in self.kept]
        for digest, _ in kept:
            check_digest(digest, boundaries, self.known.get(digest or ""))
        found = [parse_token(token) for token in self.found]
        fitting = [plan for digest, plan in found if digest == digest_of(boundaries)]
        return list(dict.fromkeys([*(plan for _, plan in kept), *fitting]))

    def __post_init__(self) -> None:
        """Refuse what cannot be done."""
        if self.depth not in (None, 1, 2):
            message = (
                f"depth is {self.depth!r}; 1 faults each boundary, 2 also every boundary of each recovery; "
                "without it crashes go to any depth"
            )
            raise SweepError(message)
        if self.budget is not None and self.budget < 1:
            message = f"a budget of {self.budget} points tries nothing; give a number from 1"
            raise SweepError(message)


@dataclass
class Recorded:
    """What was seen of a sweep: every history with its mark, and how the uninterrupted run ends."""

    end: End | None = None
    histories: list[tuple[Evidence, str]] = field(default_factory=list["tuple[Evidence, str]"])


def explore(
    story: Story,
    faults: str | Iterable[str | Fault] = ("crash",),
    *,
    at: str | None = None,
    depth: int | None = None,
    budget: int | None = None,
    seed: int | None = None,
    replay: str | None = None,
    boundaries: str | Iterable[str] = (),
    backend: Backend | None = None,
) -> SweepReport:
    """Sweep a story and say what was found.

    First the story runs twice without a fault; where that fails or differs, `report.stopped` says why and nothing is
    faulted. Then, for each kind of fault and before and after each boundary, a fresh history runs into the fault, is
    healed by documented calls, and is compared with the uninterrupted run: effects, way, values. Crashes then go on
    in the recoveries, to any number of them, until no durable state comes up that has not been carried on; `depth=1`
    leaves that out, and `depth=2` faults each recovery at each of its boundaries, whatever the fault.

    `report.ok` is true only if everything that was ordered was tried and held; a budget that cuts it off is no pass.
    `boundaries` are those of the engine, with `sql` also each statement of a store, with `lines` each line of a node.
    `backend` keeps the histories: SQLite files, if none is given.

    Raises `SweepError` for an order that makes no sense: an unknown fault, a pattern that fits no boundary (it lists
    those there are), a token that was recorded on another list of boundaries (`DivergenceError`).
    """
    order = Order(faults_named(faults), at, depth, budget, seed, replay, boundaries=boundaries_named(boundaries))
    return carry_out(story, order, backend)


def boundary_names(story: Story, boundaries: str | Iterable[str] = ()) -> list[str]:
    """Every instant of the uninterrupted run, in order: `start/before append review`. Raises `ControlError`."""
    with Worlds(story, None, (Fault.CRASH,), boundaries_named(boundaries)) as worlds:
        return controlled(story, worlds.fresh).boundaries


def carry_out(
    story: Story,
    order: Order,
    backend: Backend | None = None,
    recorded: Recorded | None = None,
    progress: Callable[[SweepReport], object] | None = None,
) -> SweepReport:
    """Carry out an order; what is seen is kept in `recorded`, and `progress` hears of every history."""
    digest, plan = (None, None) if order.replay is None else parse_token(order.replay)
    faults = order.faults if plan is None else tuple(dict.fromkeys(step.fault for step in plan.steps))
    if Fault.KILL in faults:
        require_fork()
    report = SweepReport(story.name, [fault.value for fault in faults], store=_name_of(story, backend))
    faults = possible(faults, on_the_store(story, backend), report)
    if Fault.POWER in faults:
        check_the_model()
    kept = [parse_token(token)[1] for token in (*order.kept, *order.found)]
    inside = order.boundaries | boundaries_of([*kept, *([] if plan is None else [plan])])
    with Worlds(story, backend, faults, inside) as worlds:
        try:
            control = controlled(story, worlds.fresh)
        except ControlError as error:
            report.stopped = str(error)
            return report
        faults = possible(faults, in_the_story(control), report)
        worlds.usual = control.left
        worlds.budget = 10 * control.longest + 100
        report.notes = list(limits_of(control))
        report.digest, report.boundaries = control.digest, control.boundaries
        report.rows = list(dict.fromkeys((point.lifetime, point.name) for point in control.points))
        report.nodes, report.known_lines = nodes_of(control), sorted(control.lines)
        sweep = _Sweep(worlds, control, report, replace(order, faults=faults), progress)
        if recorded is not None:
            recorded.end, sweep.recorded = control.end, recorded
        if plan is not None:
            check_digest(digest, control.boundaries, order.known.get(digest or ""))
            report.restricted = f"the replay of {order.replay}"
            sweep.replay(plan)
        else:
            sweep.first(order.plans(control.boundaries))
            sweep.all()
        sweep.end()
    return report


def _name_of(story: Story, backend: Backend | None) -> str:
    return "a store of its own" if story.store is not None else "sqlite" if backend is None else backend.name


class _Sweep:
    """An order being carried out on one story."""

    def __init__(
        self,
        worlds: Worlds,
        control: Control,
        report: SweepReport,
        order: Order,
        progress: Callable[[SweepReport], object] | None = None,
    ) -> None:
        self._worlds, self._control, self._report, self._order = worlds, control, report, order
        self._progress = progress
        self._book = Book(control, report)
        self.recorded: Recorded | None = None
        crashes = Fault.CRASH in order.faults and order.depth is None and order.replay is None
        self._closure = Closure(control) if crashes else None
        self._left: dict[Point, DurableState] = {}
        """What a played crash at a point has left."""
        self._killed = Closure(control, ends_early=1)
        """The states that real kills have left: a fresh process carries each on once."""
        self._left_by_power: set[object] = set()
        """What power cuts have left and was carried on well."""

    def first(self, plans: Sequence[FaultPlan]) -> None:
        """Plans that were worth it before, whatever is ordered beside them."""
        for plan in plans:
            possible([step.fault for step in plan.steps], on_the_store(self._worlds.story, self._worlds.backend), None)
            self._play(plan, None)
            self._report.replayed += 1

    def all(self) -> None:
        """Every point that is ordered, or as many as the budget allows."""
        for fault in self._order.faults:
            for point, event in self._control.events.items():
                column = f"{fault.value} {point.when}"
                self._report.possible[column] = self._report.possible.get(column, 0) + fault.strikes(event)
        plans = [FaultPlan((step,)) for step in self._steps()]
        if self._order.seed is not None:
            random.Random(self._order.seed).shuffle(plans)  # noqa: S311 - a choice that can be repeated
        self._report.ordered = len(plans)
        for plan in plans:
            if self._spent():
                break
            outcome = self._try(plan)
            if self._order.depth == 2:  # noqa: PLR2004 - pairs
                self._recoveries(outcome)
        if self._closure is not None:
            self._close(self._closure)
            sample = self._order.sample and self._worlds.shared
            if sample and self._order.at is None and not self._report.findings:
                self._tie()

    def end(self) -> None:
        """What was reached, into the report."""
        self._book.close()
        self._report.possible = {column: number for column, number in self._report.possible.items() if number}

    def _tie(self) -> None:
        """Kill a real process once at each kind of boundary: it must leave what the played crash there has left."""
        for point in self._control.kinds.values():
            plan = FaultPlan((Step(point, Fault.KILL),))
            with closing(self._worlds.fresh(plan)) as world:
                until_struck(world, plan)
                self._report.sampled += 1
                played, left = self._left.get(point), world.state
                if played is not None and played.canonical != left.canonical:
                    changed = change(played.lines, left.lines)
                    what = f"a real kill leaves something else than the played crash: {'; '.join(changed)}"
                    found = Violation(Verdict.DIED_OTHERWISE, what)
                    evidence = Evidence(plan, self._control.questions, self._control.end, complete=False, seen=(found,))
                    lived = world.lifetimes
                    self._enter(Outcome(evidence, found, struck=left, lifetimes=lived, recovery=[]))

    def _close(self, closure: Closure) -> None:
        """Crash in the recoveries, and in theirs, as long as that leads to a state that nobody has carried on."""
        report = self._report
        while closure and report.points == report.ordered and not self._spent(closure.instants):
            self._play(closure.next(), closure)
        report.states, report.instants, report.closed = closure.states, closure.instants, not closure

    def replay(self, plan: FaultPlan) -> None:
        """One plan."""
        self._report.ordered = 1
        self._try(plan)

    def _steps(self) -> Iterator[Step]:
        pattern = self._order.at
        points = [point for point in self._control.points if pattern is None or point.matches(pattern)]
        if not points:
            listed = "\n  ".join(self._control.boundaries)
            message = f"no boundary of story {self._report.story!r} is called {pattern!r}. These fired:\n  {listed}"
            raise SweepError(message)
        if pattern is not None:
            self._report.restricted = f"at {pattern}"
        for fault in sorted(self._order.faults, key=_KINDS.index):
            events = self._control.events
            yield from (Step(point, fault) for point in points if fault.strikes(events[point]))

    def _recoveries(self, outcome: Outcome) -> None:
        """The same first fault, then another at each boundary of the recovery from it."""
        last = outcome.plan.steps[-1]
        if outcome.violation is not None:
            return  # its recovery is broken already
        plans = [FaultPlan((*outcome.plan.steps, Step(point, last.fault))) for point in outcome.recovery]
        self._report.ordered += len(plans)
        for plan in plans:
            if self._spent():
                break
            self._report.pairs += 1
            self._try(plan)

    def _spent(self, more: int = 0) -> bool:
        return self._report.points + more >= (_MOST if self._order.budget is None else self._order.budget)

    def _try(self, plan: FaultPlan) -> Outcome:
        last = plan.steps[-1]
        if last.fault is Fault.POWER and not last.variant:
            outcome = self._cut_power(plan)
        else:
            outcome = self._play(plan, self._closure_for(plan))
        if plan.steps[0].fault is Fault.CRASH:
            self._left.setdefault(plan.steps[0].point, outcome.struck)
        self._report.points += 1
        return outcome

    def _cut_power(self, plan: FaultPlan) -> Outcome:
        """Carry on from whatever the power cut at the end of a plan may leave; once, where the same is found."""
        with closing(self._worlds.fresh(plan)) as world:
            until_struck(world, plan)
            if world.cut is None:
                return self._play(plan, None)
            outside = outside_of(world, self._control)
            found, number = variants(world, lambda _: outside)
        self._report.images += number
        new = [variant for key, variant in found.items() if key not in self._left_by_power]
        last = plan.steps[-1]
        outcomes = [
            self._play(FaultPlan((*plan.steps[:-1], replace(last, variant=variant))), None)
            for variant in new or list(found.values())[:1]
        ]
        if all(outcome.violation is None for outcome in outcomes):
            self._left_by_power.update(found)
        return max(outcomes, key=lambda outcome: outcome.violation is not None)

    def _closure_for(self, plan: FaultPlan) -> Closure | None:
        faults = {step.fault for step in plan.steps}
        if faults == {Fault.CRASH}:
            return self._closure
        story = self._worlds.story
        alone = story.fresh is None and story.provider is None  # else there may be more than what is counted
        return self._killed if faults == {Fault.KILL} and self._order.depth is None and alone else None

    def _play(self, plan: FaultPlan, closure: Closure | None) -> Outcome:
        world = self._worlds.fresh(plan)
        outcome = play(world, plan, self._control, closure)
        world.close()
        for lifetime in outcome.lifetimes:
            self._book.cover(lifetime.events)
        self._report.deepest = max(self._report.deepest, len(plan.steps))
        self._report.lifetimes += len(outcome.lifetimes)
        self._enter(outcome)
        if self._progress is not None:
            self._progress(self._report)
        return outcome

    def _enter(self, outcome: Outcome) -> None:
        if self.recorded is not None:
            self.recorded.histories.append((outcome.evidence, outcome.mark))
        self._book.enter(outcome)
