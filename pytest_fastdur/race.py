"""A race of real processes on one run: behind a barrier, round after round.

    report = race(story, ["resume"] * 4, rounds=50)

`interleave` tries every order of a few callers; a race meets what only real processes have: their locks, their owners'
strings, their clocks. Nobody decides who comes first, so a race that finds nothing proves little.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_fastdur.actors import Scene, deed
from pytest_fastdur.arrival import arrive
from pytest_fastdur.control import controlled
from pytest_fastdur.faults import Fault, SweepError
from pytest_fastdur.lifetimes import Ending
from pytest_fastdur.racers import Racers
from pytest_fastdur.referee import FENCED, REFUSALS, Referee
from pytest_fastdur.stage import Worlds
from pytest_fastdur.story import is_async
from pytest_fastdur.told import ends_of
from pytest_fastdur.verdicts import Verdict, Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_fastdur.backends import Backend
    from pytest_fastdur.story import Story


@dataclass
class Rounds:
    """What came of a race."""

    story: str
    actors: tuple[str, ...]
    rounds: int = 0
    outcomes: Counter[tuple[str, ...]] = field(default_factory=Counter[tuple[str, ...]])
    """How often the callers ended as they did; who is who does not count."""
    violations: list[Violation] = field(default_factory=list[Violation])
    """What was wrong in the first bad round, with which the race ends."""
    kept: str | None = None
    """Where the store of that round is kept for inspection."""

    @property
    def ok(self) -> bool:
        """Whether all rounds were run and held."""
        return not self.violations and self.rounds > 0

    def properties(self) -> dict[str, Any]:
        """What stands in JUnit's file."""
        told: dict[str, Any] = {"fastdur.rounds": self.rounds}
        for violation in self.violations[:1]:
            told["fastdur.verdict"] = violation.verdict.code
        return told

    def render(self) -> str:
        """The histogram, and what was wrong."""
        lines = [f"{self.story}: {len(self.actors)} processes, {self.rounds} rounds"]
        lines += [f"  {times:5}  {', '.join(ends)}" for ends, times in self.outcomes.most_common()]
        lines += [f"  {each.verdict}: {each.what}" for each in self.violations]
        lines += [f"  the store of round {self.rounds} is kept: {self.kept}"] if self.kept else []
        return "\n".join(lines)


def race(
    story: Story,
    actors: Sequence[str] = ("resume",) * 4,
    *,
    rounds: int = 20,
    situation: str = "paused",
    backend: Backend | None = None,
) -> Rounds:
    """Let as many processes as there are `actors` go at one run at once, so many `rounds`, each on a fresh run.

    Actors and `situation` are those of `interleave`. After each round the run is carried on to its end and compared
    with the uninterrupted one. The first bad round ends the race, and its store is kept. Raises `SweepError`.
    """
    report = Rounds(story.name, tuple(actors))
    with Worlds(story, backend, (Fault.CRASH,)) as worlds:
        if not worlds.shared:
            message = "other processes cannot open a store in memory; race on files or on a server"
            raise SweepError(message)
        control = controlled(story, worlds.fresh)
        worlds.budget, worlds.usual = 10 * control.longest + 100, control.left
        referee = Referee(story, worlds.played_on, control, worlds.budget)
        with Racers(len(actors), _racer(story, worlds, actors)) as racers:
            for _ in range(rounds):
                world = worlds.fresh()
                answer = arrive(world, situation, control)
                came = racers.race((world.place, answer))
                report.rounds += 1
                report.outcomes[tuple(sorted(outcome for outcome, _ in came))] += 1
                found = [*_of_callers(actors, came), *referee.of_stored(world, sum(name == "fork" for name in actors))]
                world.close(keep=bool(found))
                if found:
                    report.violations, report.kept = found, worlds.spare(world.place)
                    break
    return report


def _racer(story: Story, worlds: Worlds, actors: Sequence[str]) -> Callable[[int, Any], Callable[[], Any]]:
    def prepare(number: int, order: tuple[str, Any]) -> Callable[[], tuple[str, bool]]:
        place, answer = order
        store = (story.store or worlds.played_on.open)(place)
        store.setup()
        runner = story.build(store)

        def act() -> tuple[str, bool]:
            ending = Ending()
            with closing(store), ending:
                on_a_loop = is_async(runner)
                does, at = deed(actors[number], on_a_loop=on_a_loop), Scene(runner, story.execution_id, story, answer)
                ending.result = _awaited(does, at) if on_a_loop else does(at)
            if ending.error is not None:
                return type(ending.error).__name__, isinstance(ending.error, (*REFUSALS, *FENCED))
            return ", ".join(ends_of(ending.result)) or "done", True

        return act

    return prepare


def _awaited(does: Callable[[Scene], Any], at: Scene) -> Any:
    import asyncio

    async def awaited() -> Any:
        return await does(at)

    return asyncio.run(awaited())


def _of_callers(actors: Sequence[str], came: Sequence[tuple[str, bool]]) -> Iterator[Violation]:
    ended = [outcome for name, (outcome, _) in zip(actors, came, strict=True) if name != "fork"]
    winners = [outcome for outcome in ended if "completed" in outcome]
    if len(winners) > 1:
        yield Violation(Verdict.TWO_WINNERS, f"{len(winners)} processes have completed the run")
    if not {"cancel", "delete"} & set(actors) and any("StaleRun" in outcome for outcome, _ in came):
        yield Violation(Verdict.TWO_WINNERS, "a process lost its run while it was alive")
    for number, (outcome, documented) in enumerate(came):
        if not documented:
            what = f"process {number} ({actors[number]}) raised {outcome}, which is not documented"
            yield Violation(Verdict.WRONG_ERROR, what)
