"""One history: a fresh store and a fresh outside world, and the lifetimes that are lived in them until the run ends."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from fastdur._codec import thaw
from fastdur._runs import list_unknown, resolve_unknown
from fastdur.errors import NotHappened, StoreError
from fastdur.records import Happened
from pytest_fastdur import invariants
from pytest_fastdur.backends import remove
from pytest_fastdur.children import Life
from pytest_fastdur.durable import DurableState
from pytest_fastdur.extended import in_force
from pytest_fastdur.faults import Fault, SweepError
from pytest_fastdur.leaks import kind_of, left_locked
from pytest_fastdur.lifetimes import Call, digest_of_values, live
from pytest_fastdur.observers import Watch
from pytest_fastdur.others import Others
from pytest_fastdur.power import damage, lay_out
from pytest_fastdur.verdicts import Verdict, Violation
from pytest_fastdur.zombies import Zombie

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fastdur.checkpointers.protocol import Checkpointer
    from fastdur.records import Checkpoint, UnknownEffect
    from pytest_fastdur.backends import Backend
    from pytest_fastdur.children import Children
    from pytest_fastdur.disk import Image
    from pytest_fastdur.faults import Step
    from pytest_fastdur.lifetimes import Lifetime
    from pytest_fastdur.observers import Event
    from pytest_fastdur.power import Power
    from pytest_fastdur.story import Story

NOTHING = DurableState(None)


class World:
    """A history in the making. What breaks a promise on the way is kept in `violations`."""

    def __init__(
        self,
        story: Story,
        backend: Backend,
        budget: int,
        *,
        children: Children | None = None,
        wired: bool = False,
        usual: frozenset[str] | None = None,
        power: Power | None = None,
        inside: frozenset[str] = frozenset(),
        at: str | None = None,
    ) -> None:
        """Begin a history in a fresh world; or go on with the one that is at the place `at`."""
        self.story = story
        self.place = backend.fresh() if at is None else at
        self._inside = inside
        self._power = power
        if power is not None:
            remove(self.place)
            power.listen(self.place)
        self.cut: tuple[int, int] | None = None
        """The operations of the disk between which the power was last cut."""
        self.lifetimes: list[Lifetime] = []
        self.violations: list[Violation] = []
        self.states: list[DurableState] = []
        self.asked: dict[str, Call] = {}
        self._budget = budget
        self._children = children
        self._history = 0 if children is None else children.begin()
        self._closed = False
        self._backend = backend
        self._store = backend.open(self.place)
        self._wire = backend.wire() if wired else None
        if self._wire is not None:
            self._wire.__enter__()
        self._counts = {"start": 0, "resume": 0}
        self._acknowledged: list[tuple[str, ...]] = []
        self._entered: dict[str, str] = {}
        self._committed: set[str] = set()
        self._recorded: list[frozenset[str]] = [frozenset()]
        self.left: set[str] = set()
        """The kinds of what lifetimes have left open."""
        self.usual: frozenset[str] | None = usual
        """Those that the uninterrupted run leaves open, None while that is played."""
        self._clock = 0.0
        """How far the store's clock is ahead."""
        self._settled: set[tuple[str, str]] = set()
        self.once: set[str] = set()
        """The keys of effects that are not to happen again while nobody knows whether they have."""
        if story.before is not None and at is None:
            story.before(self._store)
        # Where a world is gone on with, other runs may be under way, and sources of forks as well.
        self._others = Others(NOTHING if at is not None else DurableState.read(self._store, story.execution_id))
        if at is None:
            story.begin()

    @property
    def state(self) -> DurableState:
        """What is stored now."""
        return self.states[-1] if self.states else NOTHING

    @property
    def status(self) -> str | None:
        """The status of the run, None where it was never started."""
        return None if self.state.run is None else self.state.run.head.status

    def close(self, *, keep: bool = False) -> None:
        """The history is over; its place is given back, unless somebody keeps it. Closing again changes nothing.

        A place that was given back twice would be handed out to two histories at once.
        """
        if self._closed:
            return
        self._closed = True
        self._store.close()
        if self._power is not None:
            self._power.stop()
            remove(self.place)
        if self._wire is not None:
            self._wire.__exit__(None, None, None)
        if not keep:
            self._backend.discard(self.place)

    # -- what comes next ---------------------------------------------------------------------------------------------

    def next_call(self) -> Call | None:
        """The documented call that leads on, None where the run has ended: what anyone would do who sees the store."""
        run = self.state.run
        if run is None:
            return self._call("start")
        if run.head.status in ("completed", "cancelled"):
            return None
        if run.head.status == "paused" and run.pending:
            call = self._call("resume", run.pending[0].interrupt_id)
            self.asked[run.pending[0].interrupt_id] = call
            return call
        return self._call("resume")

    def other_calls(self) -> list[Call]:
        """The calls that are left where a plain resume was refused: the answers to what was once asked."""
        return [Call(self._label("resume"), "resume", call.answer) for call in self.asked.values()]

    def _call(self, kind: str, interrupt_id: str | None = None) -> Call:
        label = self._label(kind)
        if kind == "start":
            return Call(label, "start")
        run = self.state.run
        pending = [] if run is None else [p for p in run.pending if p.interrupt_id == interrupt_id]
        return Call(label, "resume", self.story.answer(pending[0]) if pending else None)

    def _label(self, kind: str) -> str:
        number = self._counts[kind] + 1
        return f"{kind}#{number}" if kind == "resume" or number > 1 else kind

    # -- living ------------------------------------------------------------------------------------------------------

    def live(
        self,
        call: Call,
        steps: Sequence[Step] = (),
        look: Callable[[Watch], None] | None = None,
        *,
        lease_is_over: bool = False,
    ) -> Lifetime:
        """Play one lifetime and look at what it left. `look` sees each boundary that it passes.

        With `lease_is_over` it finds the leases of all others run out.
        """
        self._counts[call.kind] += 1
        if steps:
            self._settled.clear()  # after a fault, what was settled before it may be unknown again
        if self.story.ledger is not None:
            self.story.ledger.lifetime = len(self.lifetimes)
        zombie = Zombie(self, call) if any(step.fault is Fault.ZOMBIE for step in steps) else None
        if self._children is not None:
            lifetime = self._children.live(
                Life(self._history, self.place, len(self.lifetimes), call, tuple(steps), self._budget, self._inside)
            )
        else:
            watch = Watch(self.story.execution_id, steps, self._budget, look=look, wire=self._wire)
            watch.inside, watch.usual = self._inside, self.usual or frozenset()
            watch.frozen = None if zombie is None else zombie.freeze
            watch.server = self._backend.server
            watch.disk = None if self._power is None else self._power.disk
            open_ = partial(self._open, self.place, later=lease_is_over)
            lifetime = live(self.story, open_, call, watch, faulty=any(step.fault.file for step in steps))
            if watch.cut is not None and lifetime.how == "crashed":
                self._lose_power(watch.cut, steps)
        if any(step.fault in (Fault.TICK_ON, Fault.TICK_BACK) for step in steps):
            self._clock = lifetime.clock
        if zombie is not None and zombie.frozen:
            zombie.wake(lifetime)
            return lifetime
        self.lifetimes.append(lifetime)
        self.look()
        self.follow(lifetime.events)
        self._compare_return(lifetime)
        self._look_for_leaks(lifetime)
        return lifetime

    def _lose_power(self, cut: tuple[int, int], steps: Sequence[Step]) -> None:
        """The file is what a power cut has left of it, if it is said what that is."""
        assert self._power is not None
        self.cut = cut
        variant = next(step.variant for step in steps if step.fault is Fault.POWER)
        if not variant:
            return
        image = self._power.image(cut, variant)
        if image is None:
            message = (
                f"there is no image {variant!r} of the power cut at {steps[-1].point}; the file was written otherwise"
            )
            raise SweepError(message)
        self._store.close()
        self._power.stop()
        lay_out(image, self.place)
        damaged = damage(self.place)
        if damaged is not None:
            self._broken(Verdict.CORRUPT, f"the power cut has left a damaged file: {damaged}")
        lay_out(image, self.place)  # as it was before anybody looked
        self._power.listen(self.place)
        self._store = self._backend.open(self.place)

    def images(self) -> Iterator[tuple[str, Image]]:
        """What the power cut may have left."""
        assert self._power is not None
        assert self.cut is not None
        return self._power.images(self.cut)

    def _look_for_leaks(self, lifetime: Lifetime) -> None:
        """What a process leaves open: its threads and files while it lives, a transaction also when it has died."""
        self.left |= {kind_of(leak) for leak in lifetime.left}
        for leak in lifetime.left:
            if self.usual is not None:
                self._broken(Verdict.LEAK, f"{lifetime.call} left this open: {leak}")
        locked = None if self._wire is not None else left_locked(self._store)
        if locked is not None:
            self._broken(Verdict.LEAK, f"{lifetime.call} left this open: {locked}")

    def _open(self, place: str, *, later: bool) -> Checkpointer:
        store = self._backend.open(place, self._wire) if self.story.store is None else self.story.store(place)
        known: Any = store
        if later or self._clock:
            known.clock_offset = self._clock + (known.lease + 1 if later else 0)
        return store

    def settle(self, reference: DurableState) -> bool:
        """Say what became of the unknown effects, as a human would who has asked the provider; whether any was new.

        What the ledger saw has happened, with the result of the uninterrupted run; of an effect that the ledger does
        not count, the boundary after its body tells.
        """
        results = {
            (run.head.execution_id, effect.key): effect.result for run in reference.runs for effect in run.effects
        }
        found = [effect for run in self.state.runs for effect in list_unknown(run.head.execution_id, self._store)]
        new = [effect for effect in found if (effect.execution_id, effect.key) not in self._settled]
        for effect in new:
            place = (effect.execution_id, effect.key)
            self._settled.add(place)
            happened = Happened(thaw(results.get(place)))
            resolve_unknown(*place, happened if self._happened(effect) else NotHappened, self._store)
        if new:
            self.states[-1] = DurableState.read(self._store, self.story.execution_id)
            self._recorded[-1] = frozenset() if self.state.run is None else self.state.run.recorded()
        return bool(new)

    def _happened(self, effect: UnknownEffect) -> bool:
        tallies = {} if self.story.ledger is None else self.story.ledger.tallies()
        if any(entry.key == effect.key for tally in tallies.values() for entry in tally.entries):
            return True
        body = (effect.execution_id, effect.key)
        events = (event for lifetime in self.lifetimes for event in lifetime.events if event.when == "after")
        return any(event.body == body for event in events)

    def tick(self, seconds: float) -> None:
        """The store's clock jumps, for every process from now on."""
        self._clock += seconds

    def open(self) -> Checkpointer:
        """A store object as another process would open it."""
        return self._open(self.place, later=False)

    def stored(self) -> DurableState:
        """What is stored at this moment, also while a lifetime is under way. Raises `StoreError`."""
        return DurableState.read(self._store, self.story.execution_id)

    def lost(self, state: DurableState, events: Sequence[Event]) -> bool:
        """Whether a row that was acknowledged up to now, the last of `events` included, is not where it belongs."""
        told = [*self._acknowledged, *(event.row for event in events if event.row is not None and not event.run)]
        return _misplaced(told, [] if state.run is None else state.run.facts) is not None

    def look(self) -> None:
        """Read what is stored now, and check it."""
        try:
            state = self.stored()
        except StoreError as error:
            self._broken(Verdict.CORRUPT, f"the store cannot be read: {error}")
            state = self.state
        self.states.append(state)
        self.violations += invariants.check(state)
        self.violations += [Violation(Verdict.CORRUPT, text) for text in in_force.wrong(state)]
        self.violations += self._others.check(state)
        self._recorded.append(frozenset() if state.run is None else state.run.recorded())

    def _broken(self, verdict: Verdict, what: str) -> None:
        self.violations.append(Violation(verdict, what))

    def follow(self, events: Sequence[Event]) -> None:
        """Note what was acknowledged, and whether a step that was is entered again; compare it with what is stored."""
        for event in events:
            if event.once is not None:
                self.once.add(event.once)
            if event.run:
                continue
            if event.kind == "Invoke" and event.path is not None and event.name.startswith("node "):
                if event.when == "before" and event.path in self._committed:
                    self._broken(Verdict.STEP_REPEATED, f"{event.path} was acknowledged and ran again")
                self._entered[address_of(event.path)] = event.path
            if event.row is not None:
                self._acknowledge(event.row, event)
        self._compare_history()

    def _acknowledge(self, row: tuple[str, ...], event: Event) -> None:
        self._acknowledged.append(row)
        node, kind, status, _ = row
        if event.kind == "Append" and (kind, status) == ("node", "completed") and node in self._entered:
            self._committed.add(self._entered[node])

    def _compare_return(self, lifetime: Lifetime) -> None:
        run = self.state.run
        if lifetime.returned is None or run is None or run.frames is None:
            return
        spoken = run.head.kind in ("agent", "supervisor", "swarm")
        stored = digest_of_values(None if spoken else run.output, thaw(run.values))
        if lifetime.how != run.head.status or stored != lifetime.returned:
            what = f"{lifetime.call} returned a {lifetime.how} run, and the store holds a {run.head.status} one"
            if lifetime.how == run.head.status:
                what = f"{lifetime.call} returned another output or state than the store holds"
            self._broken(Verdict.DIVERGED, what)

    def _compare_history(self) -> None:
        facts = [] if self.state.run is None else self.state.run.facts
        row = _misplaced(self._acknowledged, facts)
        if row is not None:
            lost = row not in facts
            verdict = Verdict.LOST_COMMIT if lost else Verdict.REWRITTEN
            what = "is not in the store" if lost else "is not where it belongs"
            self._broken(verdict, f"the row of {row[0]} ({row[1]} {row[2]}) was acknowledged and {what}")
        before = self.states[-2].run if len(self.states) > 1 else None
        if before is not None:
            self._compare_rows(before.rows, () if self.state.run is None else self.state.run.rows)

    def _compare_rows(self, before: Sequence[Checkpoint], now: Sequence[Checkpoint]) -> None:
        for place, row in enumerate(before):
            if place >= len(now):
                self._broken(Verdict.LOST_COMMIT, f"row {row.seq} ({row.node_id}) was there and is gone")
                return
            if row != now[place]:
                self._broken(Verdict.REWRITTEN, f"row {row.seq} ({row.node_id}) is not what it was")
                return

    # -- the outside world -------------------------------------------------------------------------------------------

    def repeats(self) -> list[Violation]:
        """Effects that were recorded when they ran again."""
        if self.story.ledger is None:
            return []
        return [
            Violation(Verdict.EFFECT_REPEATED, f"{name!r} was recorded and ran again in {self._name(entry.lifetime)}")
            for name, tally in self.story.ledger.tallies().items()
            for entry in tally.entries
            if entry.key is not None and entry.key in self._recorded[entry.lifetime]
        ]

    def _name(self, number: int) -> str:
        return self.lifetimes[number].call.label


def _misplaced(told: Sequence[tuple[str, ...]], facts: Sequence[tuple[str, ...]]) -> tuple[str, ...] | None:
    """The first row that was acknowledged and does not follow the one before it in the store.

    There may be rows in between that nobody was told of: their caller was cancelled, or lost the answer.
    """
    rest = iter(facts)
    return next((row for row in told if row not in rest), None)


def address_of(path: str) -> str:
    """The address of a path: the same without visits."""
    return "/".join(part.rpartition("#")[0] for part in path.split("/"))
