"""What the stories share: playing one to its end, and telling what happened."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from fastdur import Resume, SQLiteCheckpointer
from scenarios.payments import PaymentServer

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from fastdur import Checkpointer, PendingInterrupt, Runner, RunResult
    from scenarios._serving import Counterpart

P = ParamSpec("P")
R = TypeVar("R")

State = dict[str, Any]


class Wrap(Protocol):
    """Puts a watcher around the function that reaches the provider of effect `name`, and hands it back."""

    def __call__(self, name: str, fn: Callable[P, R], /) -> Callable[P, R]:
        """Return `fn`, watched."""
        ...


class Build(Protocol):
    """How each story makes its runner."""

    def __call__(self, checkpointer: Checkpointer, url: str, /) -> Runner:
        """Return a runner that stores its progress in `checkpointer` and reaches its counterpart at `url`."""
        ...


def unwatched(_name: str, fn: Callable[P, R], /) -> Callable[P, R]:
    """Leave `fn` as it is."""
    return fn


Answers = Mapping[str, "Resume | Callable[[PendingInterrupt], Resume]"]
"""What a human says, by the reason of the question: a `Resume`, or a function of the question that returns one."""


class World:
    """What a story happens in: its counterpart, a human, and whatever goes on meanwhile.

    A story in which the world changes while it runs has a subclass of its own, named `WORLD` in its module.
    """

    def __init__(self, server: Any, answers: Answers) -> None:
        self.server = server
        self._answers = answers
        self._said: dict[str, Resume] = {}

    def __enter__(self) -> Self:
        """Be there."""
        return self

    def __exit__(self, *_: object) -> None:
        """Be gone."""

    def begin(self) -> None:
        """Put everything back to the beginning."""
        self._said.clear()
        self.server.reset()

    def meanwhile(self) -> None:
        """What happens while the human thinks."""

    def come_up(self) -> None:
        """What has happened when a process comes up."""

    def answer(self, asked: PendingInterrupt) -> Resume:
        """The answer of a human, who takes their time, and says the same again if asked the same again."""
        if asked.interrupt_id not in self._said:
            if not self._said:
                self.meanwhile()
            answer = self._answers[asked.reason]
            self._said[asked.interrupt_id] = answer if isinstance(answer, Resume) else answer(asked)
        return self._said[asked.interrupt_id]


def play(chain: Runner, given: State, human: Answers | World, execution_id: str) -> RunResult:
    """Run `chain` to its end, each question answered by its reason."""
    return carry_on(chain, chain.execute(given, execution_id=execution_id), human)


def carry_on(chain: Runner, result: RunResult, human: Answers | World) -> RunResult:
    """Answer what is open, until nothing is left to ask."""
    world = human if isinstance(human, World) else World(None, human)
    while (question := result.pending_interrupt) is not None:
        answer = world.answer(question)
        print(f"  {question.node_id} asks for {question.reason}: {question.context}")
        print(f"  {'approved' if answer.approved else 'declined'}, {answer.metadata}")
        result = chain.resume(result.execution_id, answer)
    return result


def tell(
    build: Build,
    given: State,
    answers: Answers,
    counterpart: Counterpart | None = None,
    around: type[World] = World,
) -> None:
    """Play a story in a temporary store against its counterpart, and print what each of them saw."""
    with TemporaryDirectory() as folder, counterpart or PaymentServer() as server, around(server, answers) as world:
        store = SQLiteCheckpointer(Path(folder) / "runs.db")
        world.begin()
        chain = build(store, server.url)
        print(f"{chain.name} with {given}")
        result = play(chain, given, world, execution_id=f"{chain.name}-1")
        print(f"  {result.status}: {result.output}")
        print("what the store holds")
        for row in store.list(result.execution_id):
            print(f"  {row.seq:2} {row.node_id:20} {row.step_type:10} {row.status}")
        print(f"what the {server.called} saw")
        for line in server.seen():
            print(f"  {line}")
        store.close()
