"""Linearizability by brute force: whether calls that overlapped can be put in an order that explains every answer.

A history is a few callers, each with a few calls one after another. An order explains it where each call, done in that
order on the model of a store, answers as it did, and no call stands before one that had ended before it began. A call
whose outcome nobody knows may have taken effect at any time since it began, or never.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from fastdur.errors import FastdurError, StoreUnavailable
from pytest_fastdur.comparable import comparable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fastdur.checkpointers.protocol import Checkpointer

UNKNOWN: Final = "nobody knows"
"""The answer of a call that ended without one."""

Operation = Callable[["Checkpointer", dict[str, Any]], object]
"""A call of a store. The dict is what its caller knows: what it reads and holds it finds there again."""


@dataclass(frozen=True, slots=True)
class Done:
    """A call that was made: when it began and ended, as numbers, and what it answered in comparable form."""

    what: str
    operation: Operation
    began: int
    ended: float
    answer: object


@dataclass
class Caller:
    """What one caller does, in order, and what it knows at the beginning."""

    calls: Sequence[tuple[str, Operation]]
    knows: dict[str, Any] = field(default_factory=dict[str, Any])


def answer_of(operation: Operation, store: Checkpointer, knows: dict[str, Any]) -> object:
    """What a call answers, in comparable form."""
    try:
        return comparable(operation(store, knows))
    except StoreUnavailable:
        return UNKNOWN
    except (FastdurError, ValueError) as error:
        return f"raised {type(error).__name__}"


def played(stores: Sequence[Checkpointer], callers: Sequence[Caller]) -> list[list[Done]]:
    """Let all callers call at once, each in a thread and on a store object of its own; what came of each call."""
    numbers = count(1)
    gate = threading.Barrier(len(callers))
    found: list[list[Done]] = [[] for _ in callers]

    def live(store: Checkpointer, caller: Caller, mine: list[Done]) -> None:
        knows = dict(caller.knows)
        gate.wait(60)
        for what, operation in caller.calls:
            began = next(numbers)
            answer = answer_of(operation, store, knows)
            ended = next(numbers)
            mine.append(Done(what, operation, began, float("inf") if answer == UNKNOWN else ended, answer))

    threads = [threading.Thread(target=live, args=each) for each in zip(stores, callers, found, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def order_of(model: Checkpointer, callers: Sequence[Caller], history: Sequence[Sequence[Done]]) -> list[str] | None:
    """An order that explains a history, None where there is none. The model is left as it was."""
    at = tuple(0 for _ in history)
    return _explained(model, [dict(caller.knows) for caller in callers], history, at)


def _explained(
    model: Checkpointer, knows: list[dict[str, Any]], history: Sequence[Sequence[Done]], at: tuple[int, ...]
) -> list[str] | None:
    if all(place == len(calls) for place, calls in zip(at, history, strict=True)):
        return []
    for number, done in _next(history, at):
        beyond = (*at[:number], at[number] + 1, *at[number + 1 :])
        if done.answer == UNKNOWN:  # it may never take effect
            without = _explained(model, knows, history, beyond)
            if without is not None:
                return without
        after, known = copy.deepcopy((model, knows))
        answer = answer_of(done.operation, after, known[number])
        if done.answer not in (answer, UNKNOWN):
            continue
        rest = _explained(after, known, history, beyond)
        if rest is not None:
            return [f"{number}: {done.what}", *rest]
    return None


def _next(history: Sequence[Sequence[Done]], at: tuple[int, ...]) -> Iterator[tuple[int, Done]]:
    """The calls that may come next: those that began before the first of the others had ended."""
    places = enumerate(zip(at, history, strict=True))
    waiting = [(number, calls[place]) for number, (place, calls) in places if place < len(calls)]
    first = min(done.ended for _, done in waiting)
    yield from ((number, done) for number, done in waiting if done.began <= first)


def shown(history: Sequence[Sequence[Done]]) -> str:
    """A history as text, in the order in which the calls began."""
    lines = sorted((done.began, number, done) for number, calls in enumerate(history) for done in calls)
    told = [f"  {done.began:3}-{done.ended:<4} {number}: {done.what} -> {done.answer}" for _, number, done in lines]
    return "\n".join(told)
