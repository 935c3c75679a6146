"""What must hold of a race: whatever the order, one caller wins, the others are told so, and the run ends as it should.

Judged while it is run, when all callers have ended, and after the run was carried on to its end without a fault.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fastdur.checkpointers._sql import RUN_SHIFT
from fastdur.errors import (
    AlreadyResumed,
    ChainResumeError,
    CheckpointNotFound,
    EffectUnknown,
    ForkRefused,
    RunCancelled,
    RunExists,
    RunInProgress,
    RunNotFound,
    StaleRun,
)
from pytest_fastdur import invariants, judge
from pytest_fastdur.evidence import End
from pytest_fastdur.history import counts
from pytest_fastdur.verdicts import Verdict, Violation
from pytest_fastdur.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from pytest_fastdur.actors import Actor
    from pytest_fastdur.backends import Backend
    from pytest_fastdur.control import Control
    from pytest_fastdur.durable import DurableState, RunState
    from pytest_fastdur.observers import Event
    from pytest_fastdur.story import Story

REFUSALS: Final = (AlreadyResumed, ChainResumeError, CheckpointNotFound, ForkRefused, RunExists, RunNotFound)
"""What a caller is told that has come too late, or for nothing. It has changed nothing."""

FENCED: Final = (StaleRun, RunCancelled, RunInProgress, EffectUnknown)
"""What a caller is told that was replaced, or cannot go on: what it wrote before stays."""

_SEQ: Final = (1 << RUN_SHIFT) - 1
_CARRY_ON: Final = frozenset({"resume", "recover", "start"})


class Referee:
    """The judge of every schedule of one race."""

    def __init__(self, story: Story, backend: Backend, control: Control, budget: int) -> None:
        self._story, self._backend, self._control, self._budget = story, backend, control, budget

    # -- while it is run ----------------------------------------------------------------------------------------------

    @staticmethod
    def of_step(before: DurableState, now: DurableState, actor: Actor) -> Iterator[Violation]:
        """What is wrong with what is stored now, and with how one step of an actor has changed it."""
        yield from invariants.check(now)
        known = {run.head.run for run in now.runs}
        for run in before.runs:
            if run.head.run not in known:
                yield from _gone(run, actor)

    @staticmethod
    def of_rows(before: Mapping[int, object], now: Mapping[int, object], actor: Actor) -> Iterator[Violation]:
        """Whether a row is not what it was. Rows that are gone went with their run, or leave a gap."""
        changed = [key for key, row in before.items() if key in now and now[key] != row]
        for key in changed[:1]:
            what = f"row {key & _SEQ} is not what it was after a step of actor {actor.number} ({actor.name})"
            yield Violation(Verdict.REWRITTEN, what)

    # -- when all have ended ------------------------------------------------------------------------------------------

    def of_callers(
        self, actors: Sequence[Actor], log: Sequence[tuple[int, Event]], state: DurableState, *, ticked: bool
    ) -> Iterator[Violation]:
        """What is wrong with what the callers were told, and with what they did."""
        # An answer was lost, and the run, which had ended with that write, was pruned before its owner could look.
        pruned = state.run is None and any(actor.name == "prune" and actor.changed for actor in actors)
        if not ticked and not pruned and not any(actor.name in ("cancel", "delete") for actor in actors):
            yield from _replaced_alive(actors)
        winners = [actor for actor in actors if actor.name in _CARRY_ON and "completed" in actor.ends]
        if len(winners) > 1:
            who = " and ".join(f"actor {actor.number} ({actor.name})" for actor in winners)
            yield Violation(Verdict.TWO_WINNERS, f"{who} have both completed the run")
        for actor in actors:
            yield from _of_caller(actor)
        replaced = {actor.number for actor in actors if isinstance(actor.error, FENCED)}
        yield from _repeated(log, replaced)

    def of_acknowledged(
        self, actors: Sequence[Actor], log: Sequence[tuple[int, Event]], state: DurableState
    ) -> Iterator[Violation]:
        """Whether every row that was acknowledged is in the store, in its order."""
        if state.run is None:
            return
        for actor in actors:
            told = [
                event.row
                for number, event in log
                if number == actor.number and event.kind == "Append" and not event.run
            ]
            rest = iter(state.run.facts)
            lost = next((row for row in told if row is not None and row not in rest), None)
            if lost is not None:
                what = f"the row of {lost[0]} ({lost[1]} {lost[2]}) was acknowledged to actor {actor.number}"
                yield Violation(Verdict.LOST_COMMIT, f"{what} and is not in the store")

    def of_end(
        self, actors: Sequence[Actor], log: Sequence[tuple[int, Event]], state: DurableState, place: str
    ) -> Iterator[Violation]:
        """What is wrong with how the runs stand, and with how they end when somebody carries them on."""
        once = {event.once for _, event in log if event.once is not None}
        branches = sum(actor.name == "fork" for actor in actors)
        for run in state.runs:
            mine = run.head.execution_id == self._story.execution_id
            yield from self._healed(run.head.execution_id, place, branches, once, mine=mine)

    def of_stored(self, world: World, branches: int) -> Iterator[Violation]:
        """What is wrong with how the runs of a world stand, and with how they end when somebody carries them on."""
        world.look()
        yield from world.violations
        for run in world.state.runs:
            mine = run.head.execution_id == self._story.execution_id
            yield from self._healed(run.head.execution_id, world.place, branches, set(), mine=mine)

    def _healed(
        self, execution_id: str, place: str, branches: int, once: set[str], *, mine: bool
    ) -> Iterator[Violation]:
        """A run is carried on to its end by documented calls, as by anyone who sees the store."""
        story = replace(self._story, execution_id=execution_id, enter=None)
        world = World(story, self._backend, self._budget, usual=self._control.left, at=place)
        with closing(_Kept(world)):
            world.states.append(world.stored())
            world.once |= once
            left = self._control.questions + 2
            refused: list[str] = []
            while left and (call := world.next_call()) is not None:
                left -= 1
                lifetime = world.live(call)
                if judge.in_doubt(lifetime) and world.settle(self._control.state):
                    left += 1
                elif judge.refused(lifetime, world.status):
                    refused.append(f"{call} -> {lifetime.error}")
                    break
                else:
                    yield from judge.healed_as_documented(lifetime, world.status)
            yield from world.violations
            if world.status not in ("completed", "cancelled"):
                said = "; ".join(refused) or "it never ends"
                yield Violation(Verdict.STRANDED, f"run {execution_id!r} is {world.status}; {said}")
            elif mine:
                end = replace(End.of(world.state), others=self._control.end.others)
                found = counts(world, self._control)
                yield from judge.of_end(end, found, self._control.end, most=1 + branches)


class _Kept:
    """Closes a world and keeps its place."""

    def __init__(self, world: World) -> None:
        self._world = world

    def close(self) -> None:
        self._world.close(keep=True)


def _gone(run: RunState, actor: Actor) -> Iterator[Violation]:
    """Whether an actor may have removed a run."""
    ended = run.head.status in ("completed", "cancelled")
    if actor.name == "prune" and ended:
        return
    if actor.name == "delete" and not run.head.owned:
        return
    what = f"actor {actor.number} ({actor.name}) has removed a {run.head.status} run with {len(run.rows)} rows"
    yield Violation(Verdict.LOST_COMMIT, what)


def _of_caller(actor: Actor) -> Iterator[Violation]:
    who = f"actor {actor.number} ({actor.name})"
    if actor.dead:
        return
    if actor.watch is not None and actor.watch.spent:
        yield Violation(Verdict.HANG, f"{who} does not end")
    elif actor.error is not None and not isinstance(actor.error, (*REFUSALS, *FENCED)):
        what = f"{who} raised {type(actor.error).__name__}: {actor.error}, which is not documented"
        yield Violation(Verdict.WRONG_ERROR, what)
    elif actor.changed and isinstance(actor.error, REFUSALS) and not isinstance(actor.error, FENCED):
        yield Violation(Verdict.WRONG_ERROR, f"{who} was refused by {type(actor.error).__name__} and changed the store")


def _replaced_alive(actors: Sequence[Actor]) -> Iterator[Violation]:
    """Who was replaced although its lease stood and nobody has taken the run from it on purpose."""
    for actor in actors:
        if not actor.dead and isinstance(actor.error, StaleRun):
            others = any(other.changed for other in actors if other is not actor)
            verdict = Verdict.TWO_WINNERS if others else Verdict.WRONG_ERROR
            yield Violation(verdict, f"actor {actor.number} ({actor.name}) lost its run while it was alive")


def _repeated(log: Sequence[tuple[int, Event]], replaced: AbstractSet[int]) -> Iterator[Violation]:
    """The nodes that were entered after their row had been acknowledged to anybody.

    Who was replaced cannot know it before it writes: what it enters until then is its own affair.
    """
    entered: dict[tuple[str, str], str] = {}
    committed: set[tuple[str, str]] = set()
    for number, event in log:
        if event.kind == "Invoke" and event.path is not None and event.name.startswith(("node ", f"{event.run}node ")):
            place = (event.run, event.path)
            if event.when == "before" and place in committed and number not in replaced:
                yield Violation(Verdict.STEP_REPEATED, f"{event.path} was acknowledged and run again by actor {number}")
            entered[event.run, "/".join(part.rpartition("#")[0] for part in event.path.split("/"))] = event.path
        if event.row is not None and event.row[1:3] == ("node", "completed") and event.kind == "Append":
            path = entered.get((event.run, event.row[0]))
            committed |= {(event.run, path)} if path else set()
