"""Every interleaving of a few callers on one run: real threads, real connections, and a schedule that says who goes on.

    report = interleave(story, ["resume", "recover"], kills=1)

Schedules are searched by the number of preemptions, so what is found is found by the fewest. A schedule that comes to a
state that is known (what is stored, what has happened outside, and what each caller has met) ends there: whatever
follows has been tried. So the search ends by itself, and then all schedules have been tried.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pytest_fastdur.actors import Deed, deed
from pytest_fastdur.arrival import arrive
from pytest_fastdur.backends import Schemas
from pytest_fastdur.closure import outside_of
from pytest_fastdur.control import controlled
from pytest_fastdur.durable import DurableState
from pytest_fastdur.faults import Fault, SweepError, digest_of
from pytest_fastdur.places import place_of
from pytest_fastdur.playing import Playing, Slot
from pytest_fastdur.referee import Referee
from pytest_fastdur.schedules import Choice, Moment, parsed, token
from pytest_fastdur.stage import Worlds
from pytest_fastdur.story import is_async

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_fastdur.backends import Backend
    from pytest_fastdur.control import Control
    from pytest_fastdur.schedules import What
    from pytest_fastdur.story import Story
    from pytest_fastdur.verdicts import Violation

MOST: Final = 100_000
"""How many schedules are tried where no budget is given."""


@dataclass(frozen=True, slots=True)
class RaceFinding:
    """A broken promise, and the schedule with the fewest preemptions that shows it."""

    violation: Violation
    token: str
    actors: tuple[str, ...]
    moments: tuple[Moment, ...]
    outcomes: tuple[str, ...]
    number: int
    """As how many-th schedule it was played."""

    @property
    def code(self) -> str:
        """`FD04`."""
        return self.violation.verdict.code


@dataclass
class RaceReport:
    """What was ordered of a race, and what came of it. Equal on every run of the same race."""

    story: str
    actors: tuple[str, ...]
    situation: str
    store: str
    extras: str
    bound: int | None
    schedules: int = 0
    """How many were played, those that came to a known state included."""
    states: int = 0
    """How many states, gate by gate, were met."""
    steps: int = 0
    ends: Counter[tuple[str, ...]] = field(default_factory=Counter[tuple[str, ...]])
    """How often the callers ended as they did, where a schedule was played to its end."""
    waits: int = 0
    """How often a caller met a lock of another."""
    findings: list[RaceFinding] = field(default_factory=list[RaceFinding])
    complete: bool = True
    """Whether no budget cut it off."""
    restricted: str | None = None

    @property
    def ok(self) -> bool:
        """Whether everything that was ordered was tried, and nothing was found."""
        return not self.findings and self.complete and self.schedules > 0

    def properties(self) -> dict[str, Any]:
        """What stands in JUnit's file."""
        told: dict[str, Any] = {"fastdur.schedules": self.schedules, "fastdur.complete": self.complete}
        for finding in self.findings[:1]:
            told |= {"fastdur.verdict": finding.code, "fastdur.replay": finding.token}
        return told

    def render(self) -> str:
        """The counts, and each finding in columns, one for each caller."""
        from pytest_fastdur.report.columns import render

        return render(self)


def interleave(
    story: Story,
    actors: Sequence[str | tuple[str, Deed]] = ("resume", "resume"),
    *,
    situation: str = "paused",
    bound: int | None = None,
    kills: int = 0,
    lost: int = 0,
    ticks: int = 0,
    budget: int | None = None,
    first: bool = False,
    replay: str | None = None,
    backend: Backend | None = None,
) -> RaceReport:
    """Play every schedule of `actors` on one run of the story, and say what was found.

    `situation` says how the run stands when they begin: `nothing`, `paused` (at its first question), `completed`, or
    an instant of the story at which its process died: `start/after append check`. An actor is `resume` (with the
    answer, where one is asked for), `recover`, `start`, `decide`, `cancel`, `delete`, `prune`, `fork`, or a name with a
    function of a `Scene`. `bound` is the most preemptions in a schedule: how often an actor that could go on has to
    stand still. `kills`, `lost` and `ticks` are the most deaths of actors, lost answers to a commit, and ends of all
    leases while
    their owners stand still (from which on they are zombies), at every place of every schedule.

    At the end of each schedule the run is carried on without a fault and compared with the uninterrupted one: effects,
    way, values. `replay` plays one schedule again, `first` stops at the first finding, `budget` after so many
    schedules, which is no pass. `backend` keeps the run: an SQLite file, if none is given.

    Raises `SweepError` for what cannot be played, and `ControlError` where the story fails or varies by itself.
    """
    if story.provider is not None or story.fresh is not None:
        message = (
            f"story {story.name!r} has a world of its own, which cannot be put back; count its effects by a ledger"
        )
        raise SweepError(message)
    names = tuple(actor if isinstance(actor, str) else actor[0] for actor in actors)
    extras = ", ".join(f"{n} {what}" for n, what in ((kills, "killed"), (lost, "lost"), (ticks, "leases")) if n)
    name = "a store of its own" if story.store is not None else "sqlite" if backend is None else backend.name
    report = RaceReport(story.name, names, situation, name, extras, bound)
    with Worlds(story, backend, (Fault.CRASH,)) as worlds, ExitStack() as opened:
        if not worlds.shared:
            message = "callers need a connection each, and a store in memory has one; play on files or on a server"
            raise SweepError(message)
        control = controlled(story, worlds.fresh)
        worlds.budget, worlds.usual = 10 * control.longest + 100, control.left
        race = _Race(story, worlds, control, situation, opened)
        on_a_loop = is_async(race.runner())
        race.cast = [(each, deed(each, on_a_loop=on_a_loop)) if isinstance(each, str) else each for each in actors]
        race.digest = digest_of([situation, *names, *control.boundaries])
        plan: tuple[Choice, ...] | None = None
        if replay is not None:
            digest, plan = parsed(replay)
            if digest not in (None, race.digest):
                message = (
                    f"the schedule was recorded on another race ({digest}) than this one ({race.digest}): other "
                    "actors, another situation, or other boundaries. If it still means what it meant, write "
                    f"fdi1-{race.digest}."
                )
                raise SweepError(message)
            report.restricted = f"the replay of {replay}"
        most: dict[What, int] = {"kill": kills, "lose": lost, "tick": ticks}
        for what, times in most.items():
            most[what] = max(times, sum(choice.what == what for choice in plan or ()))
        _Search(race, report, bound, most).run(budget or MOST, plan, first=first)
    return report


class _Race:
    """One run in one place, put back before each schedule; and who is to play on it."""

    def __init__(self, story: Story, worlds: Worlds, control: Control, situation: str, opened: ExitStack) -> None:
        self.story, self.control, self._worlds = story, control, worlds
        self.once: set[str] = set()
        self.cast: list[tuple[str, Deed]] = []
        self.digest = ""
        world = worlds.fresh()
        opened.callback(world.close)
        self.answer = arrive(world, situation, control)
        self.name = world.place
        self._slots: list[Slot] = []
        self._opened = opened
        first = self._open()
        opened.enter_context(closing(first))
        first.setup()
        first.list_executions()
        self.place = place_of(first, self.name)
        opened.callback(self.place.close)
        self.place.keep()
        self.reader = first
        self.base = DurableState.read(first, story.execution_id)
        self.happened = b"" if story.ledger is None else story.ledger.content
        self.budget = worlds.budget
        self.referee = Referee(story, worlds.played_on, control, worlds.budget)
        self._states: dict[bytes, DurableState] = {}
        self._verdicts: dict[object, list[Violation]] = {}

    def _open(self) -> Any:
        if self.story.store is not None:
            return self.story.store(self.name)
        kept_on = self._worlds.played_on
        return kept_on.unsynced(self.name) if isinstance(kept_on, Schemas) else kept_on.open(self.name)

    def runner(self) -> Any:
        """A runner of the story."""
        return self.story.build(self.reader)

    def stores(self, ahead: float) -> list[Any]:
        """A fresh store object for each actor; its connections are kept for all schedules, which costs no one's truth.

        A process that begins knows nothing but what is stored: so does a fresh object.
        """
        while len(self._slots) < len(self.cast):
            self._slots.append(Slot(self._opened.enter_context(closing(self._open()))))
        return [slot.fresh(self._open(), ahead) for slot in self._slots[: len(self.cast)]]

    def state(self, seen: bytes) -> DurableState:
        """What is stored now, which `seen` stands for: read once for each, but for ids and times."""
        if seen not in self._states:
            self._states[seen] = DurableState.read(self.reader, self.story.execution_id)
        return self._states[seen]

    def outside(self) -> object:
        """What has happened outside."""
        return None if self.story.ledger is None else outside_of(self, self.control)

    def begin(self) -> Playing:
        """Put everything back, and let the actors enter."""
        self.place.restore()
        if self.story.ledger is not None:
            self.story.ledger.restore(self.happened)
            self.story.ledger.lifetime = 0
        return Playing(self)

    def judge(self, playing: Playing) -> list[Violation]:
        """What is wrong with a schedule that was played to its end."""
        told = [
            *playing.violations,
            *self.referee.of_callers(playing.actors, playing.log, playing.state, ticked=playing.used["tick"] > 0),
            *self.referee.of_acknowledged(playing.actors, playing.log, playing.state),
        ]
        key = (playing.seen, playing.outside, tuple(actor.outcome for actor in playing.actors))
        if key not in self._verdicts:
            found = self.referee.of_end(playing.actors, playing.log, playing.state, self.name)
            self._verdicts[key] = [*found]
        return [*told, *self._verdicts[key]]


class _Search:
    """The schedules that are to be played, those with the fewest preemptions first."""

    def __init__(self, race: _Race, report: RaceReport, bound: int | None, extras: Mapping[What, int]) -> None:
        self._race, self._report, self._bound, self._extras = race, report, bound, extras
        self._todo: list[tuple[int, int, tuple[Choice, ...]]] = []
        self._numbers = itertools.count()
        self._known: set[object] = set()
        self._found: set[object] = set()

    def run(self, budget: int, plan: tuple[Choice, ...] | None, *, first: bool) -> None:
        """Play them, all or until the budget is used up; or one, that is given."""
        self._push(0, plan or ())
        while self._todo:
            if self._report.schedules >= budget or (first and self._report.findings):
                self._report.complete = plan is not None
                return
            _, _, choices = heapq.heappop(self._todo)
            self._play(choices, alone=plan is not None)
        self._report.states = len(self._known)

    def _push(self, cost: int, choices: tuple[Choice, ...]) -> None:
        heapq.heappush(self._todo, (cost, next(self._numbers), choices))

    def _play(self, plan: tuple[Choice, ...], *, alone: bool) -> None:
        playing = self._race.begin()
        self._report.schedules += 1
        try:
            ended = self._to_the_end(playing, plan, alone=alone)
        finally:
            playing.abandon()
        self._report.steps += len(playing.moments)
        self._report.waits += playing.waits
        for actor in playing.actors:
            if actor.order is not None:
                raise actor.order
        if ended:
            self._report.ends[tuple(actor.outcome for actor in playing.actors)] += 1
            for violation in self._race.judge(playing):
                self._find(violation, playing)

    def _to_the_end(self, playing: Playing, plan: tuple[Choice, ...], *, alone: bool) -> bool:
        """Follow a plan, then let whoever goes go on. False where that comes to a state that is known."""
        while not playing.over:
            step = len(playing.moments)
            options = list(self._options(playing))
            if step < len(plan):
                playing.take(plan[step], [choice for choice, _ in options])
                continue
            if not alone:
                known = playing.key(tuple(playing.used[what] for what in ("kill", "lose", "tick")))
                if known in self._known:
                    return False
                self._known.add(known)
                taken = tuple(moment.choice for moment in playing.moments)
                for choice, cost in options[1:]:
                    self._push(playing.preempted + cost, (*taken, choice))
            playing.take(options[0][0], [choice for choice, _ in options])
        return True

    def _options(self, playing: Playing) -> Iterator[tuple[Choice, int]]:
        """What can come next, and how many preemptions it costs; first what costs none."""
        ready = playing.moving()
        stay = playing.current if playing.current in ready else None
        rest = [actor for actor in ready if actor is not stay]
        for actor in ([] if stay is None else [stay]) + rest:
            cost = int(stay is not None and actor is not stay)
            if self._bound is None or playing.preempted + cost <= self._bound:
                yield Choice("run", actor.number), cost
        if playing.used["kill"] < self._extras["kill"]:
            yield from ((Choice("kill", each.number), 0) for each in ready if each.wrote and each.gate != "busy")
        if playing.used["lose"] < self._extras["lose"]:
            yield from ((Choice("lose", each.number), 0) for each in ready if each.gate == "commit")
        if playing.used["tick"] < self._extras["tick"] and any(each.wrote and not each.done for each in playing.actors):
            yield Choice("tick"), 0

    def _find(self, violation: Violation, playing: Playing) -> None:
        """One finding for each verdict: the first, which has the fewest preemptions."""
        if violation.verdict in self._found:
            return
        self._found.add(violation.verdict)
        choices = [moment.choice for moment in playing.moments]
        self._report.findings.append(
            RaceFinding(
                violation,
                token(choices, self._race.digest),
                tuple(actor.name for actor in playing.actors),
                tuple(playing.moments),
                tuple(actor.outcome for actor in playing.actors),
                self._report.schedules,
            )
        )
        self._report.findings.sort(key=lambda finding: finding.violation.verdict.value)
