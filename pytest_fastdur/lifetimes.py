"""One lifetime of a story: a process that starts or resumes the run and ends, by itself or by an ordered fault."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, Self

from fastdur._codec import freeze
from fastdur.boundaries import observe
from fastdur.checkpointers._store import Store
from fastdur.errors import FastdurError, InterruptSignal, NotStorable, SimulatedCrash, StoreError
from fastdur.records import Resume
from pytest_fastdur import statements, strikes
from pytest_fastdur.faults import SweepError
from pytest_fastdur.leaks import Held
from pytest_fastdur.lines import files_of, lines_in, telling
from pytest_fastdur.observers import Event, Watch
from pytest_fastdur.story import is_async

if TYPE_CHECKING:
    from types import TracebackType

    from fastdur._runner import Runner
    from fastdur.checkpointers.protocol import Checkpointer
    from fastdur.records import RunResult
    from pytest_fastdur.story import Story

Open = Callable[[], "Checkpointer"]
"""How a process opens the store of its history."""

How = Literal["completed", "paused", "crashed", "killed", "raised", "hung", "died"]


@dataclass(frozen=True, slots=True)
class Call:
    """How a lifetime enters the run."""

    label: str
    kind: Literal["start", "resume"]
    answer: Resume | None = None

    def plain(self) -> list[Any]:
        """As JSON keeps it, without what came with the answer."""
        answer = None if self.answer is None else [self.answer.approved, self.answer.interrupt_id]
        return [self.label, self.kind, answer]

    @staticmethod
    def of(plain: list[Any]) -> Call:
        """The call that `plain` was made from."""
        label, kind, answer = plain
        return Call(label, kind, None if answer is None else Resume(answer[0], {}, answer[1]))

    def __str__(self) -> str:
        """As people write it."""
        if self.kind == "start":
            return "start"
        if self.answer is None:
            return "resume()"
        return f"resume({'approved' if self.answer.approved else 'declined'} {self.answer.interrupt_id})"


@dataclass(slots=True)
class Lifetime:
    """What became of it."""

    call: Call
    how: How
    events: list[Event] = field(default_factory=list[Event])
    struck: list[str] = field(default_factory=list[str])
    """The steps that struck, as they stand in a token."""
    error: str | None = None
    documented: bool = False
    """Whether the error is one of fastdur's own."""
    trouble: bool = False
    """Whether the error says that the store is in trouble."""
    injected: bool = False
    """Whether the error is the one that was ordered."""
    cancelled: bool = False
    """Whether the error is a cancellation."""
    awaited: bool = False
    """Whether it was on an event loop."""
    left: list[str] = field(default_factory=list[str])
    """What it has left open in its process."""
    lines: list[str] = field(default_factory=list[str])
    """The lines of the functions of its runner, where they are boundaries; not those that were executed."""
    clock: float = 0.0
    """How far the store's clock was ahead at the end."""
    returned: str | None = None
    """A digest of the output and the state that the call returned."""

    def plain(self) -> dict[str, Any]:
        """As JSON keeps it, without the call."""
        return {
            "how": self.how,
            "events": [event.plain() for event in self.events],
            "struck": self.struck,
            "error": self.error,
            "documented": self.documented,
            "trouble": self.trouble,
            "injected": self.injected,
            "cancelled": self.cancelled,
            "awaited": self.awaited,
            "left": self.left,
            "lines": self.lines,
            "clock": self.clock,
            "returned": self.returned,
        }

    @staticmethod
    def of(call: Call, plain: dict[str, Any]) -> Lifetime:
        """The lifetime that `plain` was made from."""
        events = [Event.of(event) for event in plain.pop("events")]
        return Lifetime(call, events=events, **plain)

    def __str__(self) -> str:
        """One line of a report."""
        last = f"{self.events[-1].when} {self.events[-1].name}" if self.events else "no boundary"
        ended = f"{self.how}: {self.error}" if self.error else self.how
        if self.how in ("crashed", "killed", "hung"):
            ended = f"{last}  {self.how.upper()}"
        elif self.injected:
            ended = f"RAISED {self.error}"
        return f"{self.call.label:<10} {self.call}: {ended}"


def live(
    story: Story,
    open_: Open,
    call: Call,
    watch: Watch,
    *,
    faulty: bool = False,
    stays: bool = True,
) -> Lifetime:
    """Play one lifetime in this process: then whatever it holds is dropped as if the process had died.

    With `faulty` the connections to its SQLite file can be faulted. Where this process `stays`, it is told what the
    lifetime has left open in it.
    """
    store = watch.store = open_()
    # A proxy ends its connections when it likes.
    held = Held.now(store.location) if stays and not watch.wired else None
    if faulty:
        strikes.make_faulty(store)
        store.setup()
    if "sql" in watch.inside:
        statements.tell(store, watch)
    lines: list[str] = []
    ending = Ending()
    with watch.until_the_end, ending:
        runner = _built(story, store)
        listened = "lines" in watch.inside
        lines = lines_in(runner) if listened else []
        told = telling(files_of(runner), watch.line) if listened else nullcontext()
        with observe(watch, store=runner.checkpointer), told:
            ending.result = _played(runner, story, call, watch)
    watch.see_to_what_is_armed()
    lifetime = _judged(call, ending, watch)
    lifetime.awaited, lifetime.lines = watch.task is not None, lines
    lifetime.clock = getattr(store, "clock_offset", 0.0)
    _give_up(store, crashed=lifetime.how in ("crashed", "hung"))
    if held is not None and lifetime.how in ("completed", "paused", "raised"):
        lifetime.left = held.left(store.location, watch.usual)
    return lifetime


def digest_of_values(output: object, state: object) -> str:
    """A digest of what a run returned; values that cannot be stored cannot have been returned."""
    try:
        text = json.dumps(freeze([output, state], "result"), sort_keys=True)
    except NotStorable as error:
        text = str(error)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _built(story: Story, store: Checkpointer) -> Runner:
    runner = story.build(store)
    used = getattr(runner, "checkpointer", None)
    if used is None or getattr(used, "location", None) != store.location:
        message = f"build() of story {story.name!r} must return a runner on the store that it is given"
        raise SweepError(message)
    return runner


def _played(runner: Runner, story: Story, call: Call, watch: Watch) -> RunResult:
    entered: Any = runner
    if not is_async(runner):
        if call.kind == "start" and story.enter is not None:
            return story.enter(runner, story.execution_id)  # type: ignore[no-any-return]
        if call.kind == "start":
            return entered.execute(dict(story.input), execution_id=story.execution_id)  # type: ignore[no-any-return]
        return runner.resume(story.execution_id, call.answer)

    async def played() -> RunResult:
        watch.task = asyncio.current_task()
        if call.kind == "start" and story.enter is not None:
            return await story.enter(runner, story.execution_id)  # type: ignore[no-any-return]
        if call.kind == "start":
            return await entered.aexecute(dict(story.input), execution_id=story.execution_id)  # type: ignore[no-any-return]
        return await runner.aresume(story.execution_id, call.answer)

    return _on_a_loop(played)


def _on_a_loop(played: Callable[[], Any]) -> RunResult:
    """On a fresh event loop; in a thread of its own where the caller is inside one already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(played())  # type: ignore[no-any-return]
    ending = Ending()

    def threaded() -> None:
        with ending:
            ending.result = asyncio.run(played())

    thread = threading.Thread(target=threaded, name="fastdur sweep")
    thread.start()
    thread.join()
    if ending.error is not None:
        raise ending.error
    assert ending.result is not None
    return ending.result


class Ending:
    """A block that remembers how it ended, in place of passing it on: errors, crashes and pauses, not interruptions."""

    def __init__(self) -> None:
        self.result: RunResult | None = None
        self.error: BaseException | None = None

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, _: object, error: BaseException | None, trace: TracebackType | None) -> bool:
        """Remember what came out. What stops a test (Ctrl-C, a timeout, pytest's own outcomes) goes on."""
        if isinstance(error, SweepError):
            return False
        self.error = error
        return isinstance(error, (Exception, SimulatedCrash, InterruptSignal, asyncio.CancelledError))


def _judged(call: Call, ending: Ending, watch: Watch) -> Lifetime:
    struck = [str(step) for step in watch.struck]
    found = Lifetime(call, "died", watch.events, struck)
    error, result = ending.error, ending.result
    if watch.spent:
        found.how = "hung"
    elif isinstance(error, SimulatedCrash):
        found.how = "crashed" if struck else "died"
        found.error = None if struck else repr(error)
    elif error is not None:
        found.how = "raised"
        found.error = f"{type(error).__qualname__}: {error}"
        found.documented = isinstance(error, FastdurError)
        found.trouble = isinstance(error, StoreError)
        found.cancelled = isinstance(error, asyncio.CancelledError)
        found.injected = watch.injected is not None and error is watch.injected
    elif result is not None:
        found.how = "completed" if result.status == "completed" else "paused"
        # The output of an agent may be of a type of its own; as it is stored, it is part of the state.
        found.returned = digest_of_values(None if result.is_agent else result.output, result.final_state)
    if error is not None:
        error.__traceback__ = None  # it holds the frames of the dead
    return found


def _give_up(store: Checkpointer, *, crashed: bool) -> None:
    """Close a store object. Of a dead process only connections are closed: nothing that it held back is written."""
    if not crashed:
        store.close()
    elif isinstance(store, Store):
        Store.close(store)
