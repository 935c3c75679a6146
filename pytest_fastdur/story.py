"""A story: a workflow with its input, its answers and what it does to the world, to be played again and again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Literal

from fastdur.records import PendingInterrupt, Resume
from pytest_fastdur.faults import NoAnswer, SweepError
from pytest_fastdur.ledger import MODES

if TYPE_CHECKING:
    from fastdur._runner import Runner
    from fastdur.checkpointers.protocol import Checkpointer
    from pytest_fastdur.ledger import EffectLedger

Answer = Resume | Callable[[PendingInterrupt], Resume]
Mode = Literal["exactly-once", "at-least-once", "at-most-once"]


@dataclass(frozen=True)
class Story:
    """What is swept.

    `build(store)` makes the runner on the store it is given; it is called anew for each lifetime, as a process would.
    `answers` maps the reason of a question, its node or its id to a `Resume`, or to a function of the pending question
    that returns one. `effects` says what is promised of the effects that `ledger` sees: `exactly-once` (also for those
    that are not named), `at-least-once` or `at-most-once`.

    `fresh()` is called before each history and puts the outside world back to its beginning. `provider()` returns how
    often each effect really happened as the outside world counts it; for the names in it that count is judged in place
    of the ledger's. `store` makes a store object on a file that may exist, in
    place of what the backend would open.

    `before(store)` fills the store before each history; what it leaves is there when the story begins, and is watched.
    `enter(runner, execution_id)` begins the run in place of `runner.execute(input, execution_id)`: a fork, for example.
    """

    name: str
    build: Callable[[Any], Runner]
    input: Mapping[str, Any] = field(default_factory=dict[str, Any])
    answers: Mapping[str, Answer] = field(default_factory=dict[str, Answer])
    effects: Mapping[str, str] = field(default_factory=dict[str, str])
    ledger: EffectLedger | None = None
    fresh: Callable[[], object] | None = None
    provider: Callable[[], Mapping[str, int]] | None = None
    store: Callable[[str], Checkpointer] | None = None
    execution_id: str = "swept"
    before: Callable[[Checkpointer], object] | None = None
    enter: Callable[[Any, str], Any] | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be judged."""
        for name, mode in self.effects.items():
            if mode not in MODES:
                message = f"effect {name!r} is declared {mode!r}; it is one of {', '.join(MODES)}"
                raise SweepError(message)
        if self.effects and self.ledger is None and self.provider is None:
            message = f"story {self.name!r} declares effects, but nothing counts them; give it a ledger or a provider"
            raise SweepError(message)

    def answer(self, pending: PendingInterrupt) -> Resume:
        """The answer to an open question. Raises `NoAnswer`."""
        for known in (pending.interrupt_id, pending.reason, pending.node_id):
            if known in self.answers:
                given = self.answers[known]
                value = given if isinstance(given, Resume) else given(pending)
                return Resume(value.approved, value.metadata, pending.interrupt_id)
        message = (
            f"story {self.name!r} asks {pending.reason!r} at {pending.node_id!r} and has no answer to it; "
            f"give answers={{{pending.reason!r}: Resume(approved=True)}}"
        )
        raise NoAnswer(message)

    def counted(self) -> Mapping[str, int]:
        """What the outside world itself has counted."""
        return {} if self.provider is None else dict(self.provider())

    def begin(self) -> None:
        """A fresh outside world."""
        if self.ledger is not None:
            self.ledger.clear()
        if self.fresh is not None:
            self.fresh()


def is_async(runner: Runner) -> bool:
    """Whether a runner has to be played on an event loop."""
    return any(iscoroutinefunction(_plain(fn)) for _, fn in runner.functions())


def _plain(fn: Any) -> Any:
    """The function behind a partial, or behind an object that can be called."""
    while hasattr(fn, "func"):
        fn = fn.func
    return fn if hasattr(fn, "__code__") else fn.__call__
