"""Stores in lockstep: how runs begin below or beside others, and how they leave. And what is drawn for the calls."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from fastdur._codec import freeze
from fastdur.checkpointers.protocol import Start
from pytest_fastdur import worlds

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdur.records import Execution
    from pytest_fastdur.worlds import World

_TEXTS = st.text(st.characters(exclude_categories=()), max_size=6) | st.sampled_from(("", "$", "\ud800", "\0", "%_'\""))
_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | _TEXTS
    | st.binary(max_size=4)
    | st.decimals(allow_nan=False, places=2)
    | st.sampled_from((date(2024, 2, 29), datetime(1, 1, 1, tzinfo=UTC), 1, 1.0, True))
)
VALUES: Final[st.SearchStrategy[Any]] = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(_TEXTS, inner, max_size=4)
        | st.dictionaries(st.integers(0, 3), inner, max_size=2)
        | st.frozensets(st.integers(), max_size=3)
    ),
    max_leaves=8,
)
"""Values that can be stored, of every kind."""

RUNS = st.sampled_from(("a", "b", "A\ud800\0"))
_AGES = st.sampled_from((timedelta(seconds=9.5), timedelta(seconds=35.5), timedelta(days=1)))
WHICH = st.sampled_from((0, 0, 0, 0, 1, 1, 2, 3, 5))
"""The newest, the second newest …; counted round where there are fewer. The newest reading is read anew first."""


def has_claims(machine: Lives) -> bool:
    """Whether somebody holds a claim."""
    return bool(machine.worlds[0].claims)


def has_readings(machine: Lives) -> bool:
    """Whether somebody has read a head."""
    return bool(machine.worlds[0].readings)


class Lives(RuleBasedStateMachine):
    """The calls that begin and end runs."""

    worlds: list[World]
    _made: int

    @abstractmethod
    def _same(self, call: Callable[[World], object], what: str) -> object:
        """Do `call` in every world; fail where an answer is not the model's. Return that."""

    @abstractmethod
    def _write(self, call: Callable[[World], object], what: str) -> None:
        """Do a write, and keep it so that it can be sent again."""

    @abstractmethod
    def _as_of(self, which: int, call: Callable[[World, Execution], object], what: str) -> None:
        """Do a write as of a reading; sent again, it is as of the same one."""

    @abstractmethod
    def _reread(self) -> None:
        """Read the newest reading's run anew."""

    def _new(self) -> str:
        self._made += 1
        return f"n{self._made}"

    @precondition(has_claims)
    @rule(run=RUNS, which=WHICH)
    def start_below(self, run: str, which: int) -> None:
        """A node of a run, as somebody holds it, starts another."""
        token = self._new()

        def call(world: World) -> object:
            held = world.claim(which)
            begin = Start(run, "x", "chain", {}, {}, token, "owner", held.execution_id, "n#1", parent_token=held.token)
            return worlds.got(world, world.store.start_execution(begin))

        self._write(call, f"start {run!r} below claim {which}")

    @precondition(has_readings)
    @rule(run=RUNS, which=WHICH, value=VALUES, recorded=st.booleans())
    def fork(self, run: str, which: int, value: Any, recorded: bool) -> None:  # noqa: FBT001 - drawn
        """A run begins at a row of another."""
        frozen, token = freeze(value, "state"), self._new()

        def call(world: World, seen: Execution) -> object:
            first = worlds.row(replace(seen, execution_id=run, seq=0), frozen, token, step_type="fork_origin")
            begin = Start(
                run,
                "y",
                "chain",
                {},
                {},
                token,
                "owner",
                parent_id=seen.execution_id,
                parent_run=seen.run,
                parent_checkpoint_id="1-2-c",
                origin=replace(first, checkpoint_id=token),
                recorded=recorded,
            )
            return worlds.got(world, world.store.start_execution(begin))

        self._as_of(which, call, f"fork to {run!r}")

    @precondition(has_readings)
    @rule(which=st.lists(WHICH, min_size=1, max_size=2))
    def delete(self, which: list[int]) -> None:
        """Somebody deletes runs, as of readings."""
        self._reread()
        seen = {world.name: {(at := world.reading(each)).run: at for each in which} for world in self.worlds}

        def call(world: World) -> object:
            return world.store.delete_execution([*seen[world.name].values()])

        self._write(call, f"delete as of readings {which}")

    @rule(older_than=_AGES, failed=st.none() | _AGES, dry_run=st.booleans(), limit=st.sampled_from((None, 0, 1, 2)))
    def prune(self, older_than: Any, failed: Any, dry_run: bool, limit: int | None) -> None:  # noqa: FBT001 - drawn
        """Somebody prunes what is old."""

        def call(world: World) -> object:
            pruned = world.store.prune(older_than, failed, dry_run=dry_run, limit=limit)
            return sorted(pruned.runs.items()), pruned.dry_run, pruned.after is None

        self._same(call, f"prune {older_than}, failed {failed}")
