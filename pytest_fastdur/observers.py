"""Watching the boundaries of one lifetime, and striking at those that were ordered."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
from contextlib import ExitStack
from contextvars import Context
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from fastdur.boundaries import Inject
from fastdur.errors import SimulatedCrash
from fastdur.scope import current
from pytest_fastdur import lines, statements, strikes
from pytest_fastdur.extended import in_force
from pytest_fastdur.faults import INSIDE, Fault
from pytest_fastdur.forked import save_coverage

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence
    from types import CodeType

    from fastdur.boundaries import Boundary
    from fastdur.records import Checkpoint, Frame
    from pytest_fastdur.disk import Disk
    from pytest_fastdur.faults import Point, Step, When
    from pytest_fastdur.postgres import Server
    from pytest_fastdur.wire import When as InAStatement
    from pytest_fastdur.wire import Wire

_IN_A_STATEMENT: dict[Fault, InAStatement] = {
    Fault.DROP: "before",
    Fault.LOST_COMMIT: "in",
    Fault.LOST_ANSWER: "after",
}

CALLS = frozenset({"Invoke", "RunEffect", "Transact", "AwaitEffect"})
"""What calls user code, or waits for it."""
RETURNS = frozenset({"RunEffect", "EndEffect", "Transact", "AwaitEffect"})
"""What the engine does inside of user code, which goes on after it."""
_WRITES = frozenset({"Start", "Take", "Answer", "Append", "BeginEffect", "EndEffect", "Transact"})


@dataclass(frozen=True, slots=True)
class Event:
    """A boundary that was passed. `run` tells the runs of a story apart; the story's own is ''."""

    when: When
    name: str
    kind: str
    run: str = ""
    row: tuple[str, ...] | None = None
    """The row that the store was handed: node_id, step_type, status, digest of the frames."""
    path: str | None = None
    """The path of the node that a function of the user's was called for."""
    once: str | None = None
    """The key of an effect that is not to happen again while nobody knows whether it has."""
    sends: bool = False
    """Whether a statement was sent to the server between this instant and the next, as far as a proxy looks on."""
    body: tuple[str, str] | None = None
    """The run and the key of the effect whose body this is."""

    @property
    def writes(self) -> bool:
        """Whether what is done between before and after writes to the store."""
        return self.kind in _WRITES

    def at(self, point: Point) -> bool:
        """Whether this is the instant of a point."""
        return (self.when, self.name) == (point.when, point.name)

    def plain(self) -> list[Any]:
        """As JSON keeps it, for the way out of a child process."""
        return [self.when, self.name, self.kind, self.run, self.row, self.path, self.once, self.sends, self.body]

    @staticmethod
    def of(plain: Sequence[Any]) -> Event:
        """The event that `plain` was made from."""
        when, name, kind, run, row, path, once, sends, body = plain
        run_and_key = None if body is None else (body[0], body[1])
        return Event(when, name, kind, run, None if row is None else tuple(row), path, once, sends, run_and_key)


def row_fact(row: Any) -> tuple[str, ...]:
    """What identifies a row by its content: where it is, what it says, and a digest of the frames in it."""
    found: Checkpoint = row
    return found.node_id, found.step_type, found.status, frames_digest(found.frames)


def frames_digest(frames: Frame) -> str:
    """A digest of a tree of frames: states, visits, questions and answers, not how often a model was asked again."""
    tree = in_force.canonical(without_repeats(frames.tree()))
    text = json.dumps(tree, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def without_repeats(tree: Any) -> Any:
    """A stored tree of frames without what an agent notes of model calls that were made again."""
    state = {key: part for key, part in tree["s"].items() if key != "again"}
    return {**tree, "s": state, **({"c": [without_repeats(child) for child in tree["c"]]} if "c" in tree else {})}


class Watch:
    """The observer of one lifetime: records every boundary, strikes at the ordered ones, ends one that never ends."""

    def __init__(
        self,
        execution_id: str,
        steps: Sequence[Step],
        budget: int,
        announce: Callable[[Watch], None] | None = None,
        look: Callable[[Watch], None] | None = None,
        wire: Wire | None = None,
    ) -> None:
        self.events: list[Event] = []
        self.struck: list[Step] = []
        self.spent = False
        self.dead = ""
        """How this process has been crashed: it passes no boundary any more."""
        self.injected: RuntimeError | None = None
        self._execution_id = execution_id
        self._orders = {(step.point.when, step.point.name): step for step in steps}
        self._budget = budget
        self._announce = announce
        self._look = look
        self._runs: list[str] = []
        self._names: dict[tuple[str, str], int] = {}
        self._wire = wire
        self._sent = 0
        self._armed: Step | None = None
        self.inside: frozenset[str] = frozenset()
        """The instants below and beside the engine's that count: `sql`, `lines`."""
        self.asleep = False
        """Whether this process stands still."""
        self._engine: Event | None = None
        """The last instant of the engine's."""
        self._lines: set[tuple[CodeType, int]] = set()
        self.store: object = None
        """The store object of this lifetime."""
        self.task: asyncio.Task[Any] | None = None
        """The task that awaits the run, where it is an async one."""
        self.usual: frozenset[str] = frozenset()
        """The kinds of what the story leaves open anyway."""
        self.frozen: Callable[[Watch], None] | None = None
        """What happens while this process stands still."""
        self.until_the_end = ExitStack()
        """What is put back when the lifetime has ended."""
        self.server: Server | None = None
        """The server that keeps the store, where it is one that may be killed."""
        self.disk: Disk | None = None
        """What is asked of the disk, where its power may be cut."""
        self.cut: tuple[int, int] | None = None
        """Between which operations of the disk the power was cut: the first and the last place."""

    @property
    def wired(self) -> bool:
        """Whether a proxy is between this lifetime and its store."""
        return self._wire is not None

    def __call__(self, boundary: Boundary) -> None:
        """Take note of a boundary."""
        if self.dead:
            raise SimulatedCrash(self.dead)
        self._see_to_the_power()
        self.see_to_what_is_armed()
        event = self._event(boundary)
        self._engine = event
        self._lines.clear()
        self._pass(event)

    def _pass(self, event: Event) -> None:
        self.events.append(event)
        if len(self.events) > self._budget:
            self.spent = True
            message = f"more than {self._budget} boundaries in one lifetime"
            raise SimulatedCrash(message)
        if self._look is not None:  # as another process: it knows nothing of a transaction that this one is in
            Context().run(self._look, self)
        step = self._orders.get((event.when, event.name))
        if step is not None:
            self._strike(step)

    def statement(self, when: When, text: str) -> None:
        """Take note of a statement that the store sends, as far as it is part of what the engine does."""
        at = self._engine
        if at is None or at.when == "after" or threading.current_thread().name == "fastdur-leases":
            return
        if self.dead:
            if text.startswith("ROLLBACK"):  # so ends what a dead process has begun
                return
            raise SimulatedCrash(self.dead)
        self._pass(
            Event(when, self._numbered(when, f"sql {statements.summary(text)} in {at.name}"), "Statement", at.run)
        )

    def line(self, code: CodeType, line: int) -> None:
        """Take note of a line of the user's that is about to be executed; once between two boundaries of the engine."""
        at = self._engine
        if at is None or self.asleep or at.kind not in (CALLS if at.when == "before" else RETURNS):
            return
        if self.dead:
            raise SimulatedCrash(self.dead)
        if (code, line) not in self._lines:
            self._lines.add((code, line))
            self._pass(Event("before", self._numbered("before", lines.name_of(code, line)), "Line", at.run))

    def _numbered(self, when: When, name: str) -> str:
        """A name, with a number from the second time on."""
        count = self._names[when, name] = self._names.get((when, name), 0) + 1
        return name if count == 1 else f"{name} [{count}]"

    def _event(self, boundary: Boundary) -> Event:
        run = self._run(boundary.execution_id)
        name = self._numbered(boundary.when, f"{run}{boundary.name}")  # a second call for one run counts from one again
        effect: Any = boundary.effect
        row = getattr(effect, "row", None) if boundary.when == "after" else None
        fact = None if row is None else row_fact(row)
        once = None if getattr(effect, "repeats", True) else effect.record.key
        kind = type(effect).__name__
        body = (boundary.execution_id, effect.record.key) if kind == "RunEffect" and not effect.asks else None
        return Event(boundary.when, name, kind, run, fact, getattr(effect, "path", None), once, body=body)

    def see_to_what_is_armed(self) -> None:
        """Note what was sent since the last instant, and whether a fault that was armed there has struck."""
        if self._armed is not None and (self._armed.fault.file or self._armed.fault is Fault.ABORT):
            if not strikes.disarmed(self._armed.fault, self.store):
                self.struck.append(self._armed)
            self._armed = None
        if self._wire is None:
            return
        sent, self._sent = self._sent, len(self._wire.requests)
        if self.events and self._sent > sent:
            self.events[-1] = replace(self.events[-1], sends=True)
        armed, self._armed = self._armed, None
        if armed is None:
            return
        if not self._wire.disarm():
            self.struck.append(armed)
        elif armed.fault is Fault.DROP:
            self._cut(armed, self._wire)

    def _see_to_the_power(self) -> None:
        """Nobody is told of what was done while the power went."""
        if self._armed is not None and self._armed.fault is Fault.POWER:
            assert self.cut is not None
            self.cut = self.cut[0], len(self._disk.ops)
            self._crash(self._armed)

    @property
    def _disk(self) -> Disk:
        assert self.disk is not None, "a disk whose power may be cut"
        return self.disk

    def cut_off(self) -> bool:
        """The power goes: now, or, before something that writes, while that is done."""
        now = len(self._disk.ops)
        self.cut = now, now
        return False

    def _crash(self, step: Step) -> NoReturn:
        self.struck.append(step)
        message = f"crashed on purpose {step.point.when} {step.point.name}"
        if step.fault is Fault.POWER or self.events[-1].kind in INSIDE:
            self.dead = message  # the driver does not hear of it where it would make an end
        scope = current.get()
        if scope:  # user code is at work, and goes through its `finally` as it dies
            host: Any = scope.node.host
            host.crash()
        raise SimulatedCrash(message)

    def _cut(self, step: Step, wire: Wire) -> None:
        if wire.cut():
            self.struck.append(step)

    def _run(self, execution_id: str) -> str:
        if execution_id == self._execution_id:
            return ""
        if execution_id not in self._runs:
            self._runs.append(execution_id)
        return f"run {self._runs.index(execution_id) + 2}: "

    def _strike(self, step: Step) -> None:
        if step.fault.wire:
            self._strike_the_wire(step)
            return
        if step.fault in strikes.STRIKES:
            self._strike_from_inside(step)
            return
        if step.fault is Fault.CRASH:
            self._crash(step)
        self.struck.append(step)
        if step.fault is Fault.RAISE:
            self.injected = RuntimeError(f"raised on purpose {step.point.when} {step.point.name}")
            if self.events[-1].kind == "Line":
                raise self.injected
            raise Inject(self.injected)
        if self._announce is not None:
            self._announce(self)
        save_coverage()
        os.kill(os.getpid(), signal.SIGKILL)

    def _strike_from_inside(self, step: Step) -> None:
        if strikes.STRIKES[step.fault](self):
            self.struck.append(step)
        elif step.fault is Fault.POWER and step.point.when == "after":
            self._crash(step)
        elif step.fault.file or step.fault in (Fault.ABORT, Fault.POWER):
            self._armed = step

    def _strike_the_wire(self, step: Step) -> None:
        wire = self._wire
        assert wire is not None, "a fault of the wire is ordered and there is none"
        if step.point.when == "after" and step.fault is Fault.DROP:
            self._cut(step, wire)
        else:
            wire.arm(_IN_A_STATEMENT[step.fault])
            self._armed = step
