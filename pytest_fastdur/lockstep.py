"""Stores side by side with the model of a store: the same calls, the same answers, in any order of calls.

    class Lockstep(StoresInLockstep):
        stores = {"mine": lambda: MyStore(tempfile.mkdtemp())}

    TestLockstep = Lockstep.TestCase

Several runs, several claimants, stale ones among them, clocks that jump, writes that are sent again. The first answer
that differs from the model's, in result, order or type of error, fails; Hypothesis shows the shortest story to it.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from fastdur._codec import freeze
from fastdur.checkpointers.protocol import Checkpointer, Start
from fastdur.errors import FastdurError
from fastdur.records import Claim, EffectRecord, Execution, PendingInterrupt, Status
from pytest_fastdur import worlds
from pytest_fastdur.comparable import comparable
from pytest_fastdur.lockstep_lives import RUNS, VALUES, WHICH, Lives, has_claims, has_readings
from pytest_fastdur.model import StoreModel
from pytest_fastdur.worlds import World

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LEASE: Final = 30.5
"""How long leases must last in the stores; clocks jump by whole seconds, so none ends at the very moment of a jump."""

_IDS = st.sampled_from(("ask#1/1", "\u00e9#1/1"))
_KEYS = st.sampled_from(("k", "K", "\0"))
_ATTEMPTS = st.sampled_from("ppq")
_ENDS = st.sampled_from(("done", "failed", "unstorable"))
_PLACES = st.sampled_from(("work#1", "work#2"))
_ALL_STATUSES: Final[tuple[Status, ...]] = (
    *("running", "running", "running", "running", "running"),
    *("paused", "completed", "failed"),
)
_STATUSES = st.sampled_from(_ALL_STATUSES)


class StoresInLockstep(Lives):
    """Calls on several stores and on the model. Subclass it, name the stores, take its `TestCase`.

    Each function of `stores` makes an empty store with leases of `LEASE` seconds. It is closed at the end.
    """

    stores: ClassVar[Mapping[str, Callable[[], Checkpointer]]] = {}
    clocks: ClassVar[bool] = True
    """Whether the clocks of all of them can be moved, see `move_clock`. Else none is, and no lease ends in a story."""

    def __init__(self) -> None:
        super().__init__()
        self._open = ExitStack()
        self.worlds = [World("model", StoreModel(LEASE))]
        for name, make in self.stores.items():
            self.worlds.append(World(name, self._open.enter_context(closing(make()))))
        self._sent: list[Callable[[World], object]] = []
        self._rows: list[tuple[dict[str, Claim], str]] = []
        self._made = 0

    def move_clock(self, store: Checkpointer, seconds: float) -> None:
        """Set how far a store's clock is ahead."""
        setattr(store, "clock" if isinstance(store, StoreModel) else "clock_offset", seconds)

    def teardown(self) -> None:
        """Close the stores."""
        self._open.close()

    # -- the same in every world -------------------------------------------------------------------------------------

    def _same(self, call: Callable[[World], object], what: str) -> object:
        """Do `call` in every world; fail where an answer is not the model's. Return that."""
        expected, *answers = [_answer(call, world) for world in self.worlds]
        for world, answer in zip(self.worlds[1:], answers, strict=True):
            assert answer == expected, (
                f"{what}: {world.name} differs from the model\n  model: {expected!r}\n  {world.name}: {answer!r}"
            )
        return expected

    def _write(self, call: Callable[[World], object], what: str) -> None:
        """Do a write, and keep it so that it can be sent again."""
        self._same(call, what)
        self._sent.append(call)

    def _reread(self) -> None:
        self.read(self.worlds[0].reading(0).execution_id)

    def _as_of(self, which: int, call: Callable[[World, Execution], object], what: str) -> None:
        """Do a write as of a reading; sent again, it is as of the same one."""
        if which == 0:
            self._reread()
        seen = {world.name: world.reading(which) for world in self.worlds}
        self._write(lambda world: call(world, seen[world.name]), f"{what} as of reading {which}")

    # -- ownership ---------------------------------------------------------------------------------------------------

    @initialize(value=VALUES)
    def begin_with_one(self, value: Any) -> None:
        """A run is there."""
        self.start("a", "x", value)
        self.read("a")

    @rule(run=RUNS, runner=st.sampled_from("xy"), value=VALUES)
    def start(self, run: str, runner: str, value: Any) -> None:
        """Somebody starts a run, whether it is there or not."""
        frozen = freeze(value, "input")
        parent = (f"of {run}", "p/n#1", "1-2-c") if runner == "y" else (None, None, None)
        begin = Start(run, runner, "chain", {"nodes": [frozen]}, frozen, self._new(), f"owner {run}", *parent)

        def call(world: World) -> object:
            claim = world.store.start_execution(begin)
            world.claims.append(claim)
            return claim

        self._write(call, f"start {run!r}")

    @rule(run=RUNS)
    def read(self, run: str) -> None:
        """Somebody reads a head, to act on it later."""

        def call(world: World) -> object:
            found = world.store.get_execution(run)
            world.readings += [] if found is None else [found]
            return found

        self._same(call, f"read {run!r}")

    @precondition(has_readings)
    @rule(which=WHICH, edited=st.none() | VALUES, regraph=st.booleans())
    def claim(self, which: int, edited: Any, regraph: bool) -> None:  # noqa: FBT001 - drawn
        """Somebody claims a run as of a reading."""
        token, graph = self._new(), {"nodes": 2} if regraph else None

        def call(world: World, seen: Execution) -> object:
            row = None if edited is None else worlds.row(seen, freeze(edited, "state"), token, step_type="resumed")
            return worlds.got(world, world.store.claim_execution(seen, token, f"owner {token}", row, graph))

        self._as_of(which, call, "claim")

    @precondition(has_claims)
    @rule(which=WHICH)
    def hold_too(self, which: int) -> None:
        """A second holder of a claim, as it is now."""
        for world in self.worlds:
            held = world.claim(which)
            world.claims.append(Claim(held.execution_id, held.run, held.epoch, held.token, held.seq))

    @precondition(has_claims)
    @rule(which=WHICH)
    def release(self, which: int) -> None:
        """An owner gives up."""
        self._same(lambda world: world.store.release(world.claim(which)), f"release claim {which}")

    @precondition(has_claims)
    @rule(which=st.lists(WHICH, max_size=3))
    def renew(self, which: list[int]) -> None:
        """Owners, or who take themselves for owners, renew their leases."""
        self._same(lambda world: world.store.renew([world.claim(each) for each in which]), f"renew claims {which}")

    @rule(seconds=st.sampled_from((0, 10, 31, 45, 100, -20, 100_000)))
    def tick(self, seconds: int) -> None:
        """The clock of every store jumps."""
        for world in self.worlds if self.clocks else ():
            self.move_clock(world.store, seconds)

    # -- rows and questions ------------------------------------------------------------------------------------------

    @precondition(has_claims)
    @rule(value=VALUES)
    def step(self, value: Any) -> None:
        """The newest owner takes a step."""
        self.put(0, value, "running", keep=False, clear=None)

    @precondition(has_claims)
    @rule(which=WHICH, value=VALUES, status=_STATUSES, keep=st.booleans(), clear=st.none() | _PLACES)
    def put(self, which: int, value: Any, status: Status, keep: bool, clear: str | None) -> None:  # noqa: FBT001 - drawn
        """Somebody appends a row."""
        frozen, nonce = freeze(value, "state"), self._new()

        def call(world: World, claim: Claim) -> object:
            return world.store.put(claim, worlds.row(claim, frozen, nonce), status, keep=keep, clear_failed=clear)

        self._rows.append(({world.name: worlds.copy_of(world.claim(which)) for world in self.worlds}, nonce))
        self._append(which, call, f"put under claim {which}")

    @precondition(lambda self: bool(self._rows))
    @rule(which=WHICH, value=VALUES, status=_STATUSES)
    def clash(self, which: int, value: Any, status: Status) -> None:
        """Somebody appends a row under an id that was used before."""
        held, nonce = self._rows[-1 - which % len(self._rows)]
        frozen = freeze(value, "state")

        def call(world: World) -> object:
            claim = worlds.copy_of(held[world.name])
            return world.store.put(claim, worlds.row(claim, frozen, nonce), status)

        self._same(call, f"put other content under the id of row {which}")

    @precondition(has_claims)
    @rule(which=WHICH, ids=st.lists(_IDS, unique=True), value=VALUES, status=_STATUSES, keep=st.booleans())
    def pause(self, which: int, ids: list[str], value: Any, status: Status, keep: bool) -> None:  # noqa: FBT001 - drawn
        """Somebody asks questions."""
        frozen, nonce = freeze(value, "state"), self._new()

        def call(world: World, claim: Claim) -> object:
            row = worlds.row(
                claim, frozen, nonce, step_type="hitl_pause", status="interrupted", extra={"context": frozen}
            )
            asked = [PendingInterrupt(claim.execution_id, each, "x", "ask", "why?", value, "", 1.5) for each in ids]
            return world.store.record_interrupt(claim, row, asked, status, keep=keep)

        self._append(which, call, f"pause under claim {which}")

    def _append(self, which: int, call: Callable[[World, Claim], object], what: str) -> None:
        """Append under a claim; sent again, it is sent under that claim as it was."""
        held = {world.name: worlds.copy_of(world.claim(which)) for world in self.worlds}

        def first(world: World) -> object:
            claim = world.claim(which)
            return call(world, claim), claim.seq

        self._same(first, what)
        self._sent.append(lambda world: call(world, worlds.copy_of(held[world.name])))

    @precondition(has_readings)
    @rule(which=WHICH, asked=_IDS, value=VALUES)
    def answer(self, which: int, asked: str, value: Any) -> None:
        """Somebody answers a question and claims the run, as of a reading."""
        frozen, token = freeze(value, "state"), self._new()

        def call(world: World, seen: Execution) -> object:
            row = worlds.row(seen, frozen, token, step_type="resumed", status="resumed")
            return worlds.got(world, world.store.delete_pending_interrupt_atomic(seen, token, "you", asked, row))

        self._as_of(which, call, f"answer {asked!r}")

    @precondition(has_readings)
    @rule(which=WHICH, asked=_IDS, value=VALUES, status=st.sampled_from(("running", "paused")))
    def decide(self, which: int, asked: str, value: Any, status: Status) -> None:
        """Somebody answers a question and goes away, as of a reading."""
        frozen, nonce = freeze(value, "state"), self._new()

        def call(world: World, seen: Execution) -> object:
            row = worlds.row(seen, frozen, nonce, step_type="resumed", status="resumed")
            return world.store.decide(seen, asked, row, status)

        self._as_of(which, call, f"decide {asked!r}")

    @precondition(has_readings)
    @rule(which=WHICH)
    def cancel(self, which: int) -> None:
        """Somebody cancels a run, as of a reading."""
        nonce = self._new()

        def call(world: World, seen: Execution) -> object:
            return world.store.cancel(seen, worlds.row(seen, {}, nonce, step_type="run_end", status="failed"))

        self._as_of(which, call, "cancel")

    # -- effects -----------------------------------------------------------------------------------------------------

    @precondition(has_claims)
    @rule(which=WHICH, key=_KEYS, attempt=_ATTEMPTS, path=_PLACES)
    def begin(self, which: int, key: str, attempt: str, path: str) -> None:
        """Somebody begins an effect."""
        record = EffectRecord(key, "charge", "digest", "started", attempt, path)
        self._write(
            lambda world: world.store.begin_idempotent(world.claim(which), record), f"begin {key!r} under claim {which}"
        )

    @precondition(has_claims)
    @rule(key=_KEYS, path=_PLACES, status=_ENDS, value=VALUES)
    def have(self, key: str, path: str, status: Any, value: Any) -> None:
        """The newest owner has an effect."""
        self.begin(0, key, "p", path)
        self.end(0, key, "p", path, status, value)

    @precondition(has_claims)
    @rule(which=WHICH, key=_KEYS, attempt=_ATTEMPTS, path=_PLACES, status=_ENDS, value=VALUES)
    def end(self, which: int, key: str, attempt: str, path: str, status: Any, value: Any) -> None:
        """Somebody ends an effect."""
        frozen = freeze(value, "result")
        record = EffectRecord(key, "charge", "digest", status, attempt, path, frozen, frozen)
        self._write(
            lambda world: world.store.put_idempotent(world.claim(which), record), f"end {key!r} under claim {which}"
        )

    @precondition(has_readings)
    @rule(which=WHICH, key=_KEYS, value=VALUES, happened=st.booleans())
    def resolve(self, which: int, key: str, value: Any, happened: bool) -> None:  # noqa: FBT001 - drawn
        """Somebody says what came of an effect."""
        frozen = freeze(value, "result")

        def call(world: World, seen: Execution) -> object:
            found = [each for each in world.store.list_unknown(seen.execution_id) if each.key == key]
            if not found:
                return None
            outcome = replace(found[0], status="done" if happened else "failed", result=frozen, path="")
            return world.store.resolve_unknown(seen, found[0], outcome)

        self._as_of(which, call, f"resolve {key!r}")

    # -- again, and what is there ------------------------------------------------------------------------------------

    @precondition(lambda self: bool(self._sent))
    @rule(which=WHICH)
    def send_again(self, which: int) -> None:
        """A write comes once more, with its own ids, as after a lost answer."""
        self._same(self._sent[-1 - which % len(self._sent)], f"send write {which} again")

    @rule(run=RUNS, limit=st.none() | st.integers(0, 3))
    def look(self, run: str, limit: int | None) -> None:
        """Everything that can be read of a run, and lists of every kind."""
        looks: dict[str, Callable[[Checkpointer], object]] = {
            "setup": lambda store: store.setup(),
            f"list {run!r}": lambda store: store.list(run, limit=limit),
            f"last row of {run!r}": lambda store: store.get_last(run),
            f"effects of {run!r}": lambda store: store.list_idempotent(run),
            f"unknown effects of {run!r}": lambda store: store.list_unknown(run),
            f"questions of {run!r}": lambda store: store.list_pending_interrupts(run, limit=limit),
            **{f"effect {key!r} of {run!r}": partial(worlds.effect, run, key) for key in ("k", "K")},
            **{
                f"row {seq}-{nonce} of {run!r}": partial(worlds.found, run, seq, nonce)
                for seq, nonce in self._some_ids()
            },
            **{f"runs {asked}": partial(worlds.listed, limit, asked) for asked in _LISTS},
        }
        for what, read in looks.items():
            self._same(partial(worlds.read, read), what)

    def _some_ids(self) -> list[tuple[int, str]]:
        nonces = ("n", f"n{max(1, self._made - 1)}", f"n{self._made}")
        return [(seq, nonce) for seq in (1, 2, 3) for nonce in nonces]

    @invariant()
    def all_heads_and_questions_are_the_same(self) -> None:
        """After every call."""
        self._same(lambda world: world.store.list_executions(), "all runs")
        self._same(lambda world: world.store.list_pending_interrupts(), "all questions")


_LISTS: Final[tuple[dict[str, Any], ...]] = (
    {"unfinished": True},
    {"runner": "x"},
    {"status": "paused", "runner": "y"},
    {"status": "running", "unfinished": True},
    {"status": "cancelled"},
    {"parent": "a"},
    {"parent": "of a", "runner": "y"},
)


def _answer(call: Callable[[World], object], world: World) -> object:
    """What the call gave, in a form that can be compared from store to store."""
    try:
        return comparable(call(world))
    except (FastdurError, ValueError) as error:
        return f"raised {type(error).__name__}"
