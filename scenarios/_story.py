"""What the stories share: playing one to its end, and telling what happened."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from fastdur import SQLiteCheckpointer
from scenarios.payments import PaymentServer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fastdur import Chain, Checkpointer, Resume, RunResult

P = ParamSpec("P")
R = TypeVar("R")

State = dict[str, Any]


class Wrap(Protocol):
    """Puts a watcher around the function that reaches the provider of effect `name`, and hands it back."""

    def __call__(self, name: str, fn: Callable[P, R], /) -> Callable[P, R]:
        """Return `fn`, watched."""
        ...


class Build(Protocol):
    """How each story makes its chain."""

    def __call__(self, checkpointer: Checkpointer, payments_url: str, /) -> Chain:
        """Return a chain that stores its progress in `checkpointer` and pays at `payments_url`."""
        ...


def unwatched(_name: str, fn: Callable[P, R], /) -> Callable[P, R]:
    """Leave `fn` as it is."""
    return fn


def play(chain: Chain, given: State, answers: Mapping[str, Resume], execution_id: str) -> RunResult:
    """Run `chain` to its end, each question answered by its reason."""
    return carry_on(chain, chain.execute(given, execution_id=execution_id), answers)


def carry_on(chain: Chain, result: RunResult, answers: Mapping[str, Resume]) -> RunResult:
    """Answer what is open, until nothing is left to ask."""
    while (question := result.pending_interrupt) is not None:
        answer = answers[question.reason]
        print(f"  {question.node_id} asks for {question.reason}: {question.context}")
        print(f"  {'approved' if answer.approved else 'declined'}, {answer.metadata}")
        result = chain.resume(result.execution_id, answer)
    return result


def tell(build: Build, given: State, answers: Mapping[str, Resume]) -> None:
    """Play a story in a temporary store against a payment server, and print what each of them saw."""
    with TemporaryDirectory() as folder, PaymentServer(Path(folder) / "payments.jsonl") as server:
        store = SQLiteCheckpointer(Path(folder) / "runs.db")
        chain = build(store, server.url)
        print(f"{chain.name} with {given}")
        result = play(chain, given, answers, execution_id=f"{chain.name}-1")
        print(f"  {result.status}: {result.output}")
        print("what the store holds")
        for row in store.list(result.execution_id):
            print(f"  {row.seq:2} {row.node_id:20} {row.step_type:10} {row.status}")
        print("what the payment server saw")
        for attempt in server.client.attempts():
            print("  {kind:8} {id:5} {outcome:9} {amount:4} {customer}".format_map(attempt))
        store.close()
