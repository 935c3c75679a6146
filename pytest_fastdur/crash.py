"""Crashing at one named boundary, to look at what is left and to go on by hand."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from fastdur.boundaries import observe
from fastdur.errors import SimulatedCrash
from pytest_fastdur.children import Children
from pytest_fastdur.faults import Fault, Point, Step, SweepError, fault_named
from pytest_fastdur.forked import require_fork
from pytest_fastdur.story import Story
from pytest_fastdur.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from fastdur._runner import Runner
    from fastdur.boundaries import Boundary
    from fastdur.checkpointers.protocol import Checkpointer
    from fastdur.records import Resume, RunResult
    from pytest_fastdur.backends import Backend
    from pytest_fastdur.faults import When
    from pytest_fastdur.ledger import EffectLedger
    from pytest_fastdur.lifetimes import Lifetime
    from pytest_fastdur.story import Answer

_BUDGET = 100_000


class Fired:
    """What a crash left behind: the run it struck, and every instant that was passed, the last of them the crash."""

    def __init__(self) -> None:
        self.execution_id: str | None = None
        self.names: list[str] = []
        self.struck = False


class Crashed:
    """A run that was left by a process that died, and what is needed to go on with it."""

    def __init__(
        self, build: Callable[[Any], Runner], backend: Backend, path: str, execution_id: str, names: list[str]
    ) -> None:
        self.execution_id = execution_id
        self.path = path
        self._backend = backend
        self.names = names
        self._build = build
        self._stores: list[Checkpointer] = []

    def open(self) -> Checkpointer:
        """A store object on what the dead process used, as the next process opens it."""
        store = self._backend.open(self.path)
        self._stores.append(store)
        return store

    def runner(self) -> Runner:
        """The runner, built anew on a store object of its own."""
        return self._build(self.open())

    def resume(self, resume_value: Resume | None = None) -> RunResult:
        """Carry the run on as the next process would."""
        return self.runner().resume(self.execution_id, resume_value)

    def close(self) -> None:
        """Close every store object that was handed out."""
        for store in self._stores:
            store.close()


class Crash:
    """Kill at one named boundary: `crash.at("after append review")` around a call, or `crash(build, at=…)`."""

    def __init__(self, backend: Backend, ledger: EffectLedger | None = None) -> None:
        self._backend = backend
        self._ledger = ledger
        self._crashed: list[Crashed] = []

    @contextmanager
    def at(self, instant: str, store: Checkpointer | None = None) -> Generator[Fired]:
        """Crash whatever run passes `instant` first inside the block, on `store` or on any; the block ends there.

        In process: the call does not return, nothing is written under its claim any more, and the run counts as left.
        Go on with a fresh runner, or the same one. Raises `SweepError` where the instant is not passed, listing those
        that were, and where something swallowed the crash.
        """
        when, name = _instant(instant)
        fired = Fired()

        def strike(boundary: Boundary) -> None:
            fired.names.append(str(boundary))
            if (boundary.when, boundary.name) == (when, name) and not fired.struck:
                fired.struck = True
                fired.execution_id = boundary.execution_id
                message = f"crashed on purpose {instant}"
                raise SimulatedCrash(message)

        __tracebackhide__ = True
        came_out = False
        try:
            with observe(strike, store=store):
                yield fired
        except SimulatedCrash:
            came_out = True
        if not fired.struck:
            raise SweepError(_not_reached(instant, fired.names))
        if not came_out:
            message = f"the crash {instant} struck and the block went on: something swallowed it"
            raise SweepError(message)

    def __call__(
        self,
        build: Callable[[Any], Runner],
        *,
        at: str,
        input: Mapping[str, Any] | None = None,
        answers: Mapping[str, Answer] | None = None,
        fault: str = "crash",
        execution_id: str = "crashed",
    ) -> Crashed:
        """Run `build(store)` on a fresh store until it dies at an instant: `after append review`.

        `fault="kill"` does it in a real child, by SIGKILL. `answers` carry it past its questions, and
        `resume#1/after append review` names the lifetime too. Raises `SweepError` where the instant is not reached,
        listing those that fired.
        """
        __tracebackhide__ = True
        kind = fault_named(fault)
        if kind not in (Fault.CRASH, Fault.KILL):
            message = f"crash() kills; to have {kind.value} at a boundary, sweep with faults={kind.value!r}"
            raise SweepError(message)
        if kind is Fault.KILL:
            require_fork()
        lifetime, _, instant = at.rpartition("/") if _has_lifetime(at) else ("", "", at)
        when, name = _instant(instant)
        story = Story(f"crash {at}", build, input or {}, answers or {}, ledger=self._ledger, execution_id=execution_id)
        with ExitStack() as ending:
            children = Children(story, self._backend) if kind is Fault.KILL else None
            if children is not None:
                ending.enter_context(children)
            world = World(story, self._backend, _BUDGET, children=children)
            ending.callback(world.close, keep=True)
            names, last = self._until_dead(world, Point(lifetime, when, name), kind, paused_ends=not answers)
        if last.how not in ("crashed", "killed"):
            raise SweepError(_not_reached(at, names, str(last)))
        self._crashed.append(Crashed(build, self._backend, world.place, execution_id, names))
        return self._crashed[-1]

    def _until_dead(self, world: World, point: Point, fault: Fault, *, paused_ends: bool) -> tuple[list[str], Lifetime]:
        """Live until the point is reached or nothing goes on: every instant that was passed, and the last lifetime."""
        names: list[str] = []
        while (call := world.next_call()) is not None:
            here = Point(point.lifetime or call.label, point.when, point.name)
            lived = world.live(call, [Step(here, fault)] if here.lifetime == call.label else [])
            names += [f"{call.label}/{event.when} {event.name}" for event in lived.events]
            if lived.how not in ("completed", "paused") or (lived.how == "paused" and paused_ends):
                break
        return names, world.lifetimes[-1]

    def close(self) -> None:
        """Close every store object that was handed out."""
        for crashed in self._crashed:
            crashed.close()


def _has_lifetime(at: str) -> bool:
    return at.startswith(("start/", "start#", "resume#"))


def _instant(instant: str) -> tuple[When, str]:
    whens: dict[str, When] = {"before": "before", "after": "after"}
    when, _, name = instant.partition(" ")
    if when not in whens or not name:
        message = f"{instant!r} names no instant; say before or after which boundary, as in 'after append review'"
        raise SweepError(message)
    return whens[when], name


def _not_reached(instant: str, names: list[str], last: str = "") -> str:
    ended = f" ({last})" if last else ""
    listed = "\n  ".join(names) or "none: no run passed a boundary"
    return f"the crash {instant!r} did not fire{ended}. These instants were passed:\n  {listed}"
