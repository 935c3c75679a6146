"""LINEAR: whatever overlaps, there is an order that explains every answer."""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pytest_fastdur.conformance._bench import Bench
from pytest_fastdur.conformance._clause import Group, clause
from pytest_fastdur.conformance._made import copy_of, effect, row, start
from pytest_fastdur.linear import Caller, order_of, played, shown
from pytest_fastdur.model import StoreModel

if TYPE_CHECKING:
    from fastdur.checkpointers.protocol import Checkpointer
    from pytest_fastdur.linear import Operation

_ROUNDS: Final = 12
_CALLERS: Final = 3
_CALLS: Final = 4
_LEASE: Final = 1e6


def _look(run: str, store: Checkpointer, knows: dict[str, Any]) -> object:
    knows["seen"] = found = store.get_execution(run)
    return None if found is None else (found.status, found.seq, found.epoch, found.token)


def _claim(token: str, store: Checkpointer, knows: dict[str, Any]) -> object:
    seen = knows["seen"]
    claim = None if seen is None else store.claim_execution(seen, token, f"owner {token}")
    knows["claim"] = claim or knows["claim"]
    return claim


def _put(nonce: str, store: Checkpointer, knows: dict[str, Any]) -> object:
    mine = knows["claim"]
    return store.put(mine, row(mine, {"by": nonce}, nonce=nonce), "running").seq


def _begin(attempt: str, store: Checkpointer, knows: dict[str, Any]) -> object:
    return store.begin_idempotent(knows["claim"], effect("k", attempt))


def _end(attempt: str, store: Checkpointer, knows: dict[str, Any]) -> object:
    store.put_idempotent(knows["claim"], effect("k", attempt, "done", result=attempt))
    return "ended"


def _release(_: str, store: Checkpointer, knows: dict[str, Any]) -> object:
    store.release(knows["claim"])
    return "released"


_KINDS: Final = (_look, _claim, _put, _put, _begin, _end, _release)


def _calls(run: str, number: int, draw: random.Random) -> list[tuple[str, Operation]]:
    """Four calls of one caller: it looks first, for a caller that knows nothing can do nothing."""
    kinds = [_look, *draw.choices(_KINDS, k=_CALLS - 1)]
    return [
        (kind.__name__[1:], partial(kind, run if kind is _look else f"c{number}x{place}"))
        for place, kind in enumerate(kinds)
    ]


class Linear(Group):
    """The clause of linearizability."""

    @clause("claims", "rows", "effects", "threads")
    def test_linear_01_overlapping_calls_have_an_order_that_explains_them(self, bench: Bench) -> None:
        """For calls of three callers that overlap there is an order in which the contract gives every answer that came."""
        for number in range(_ROUNDS):
            draw = random.Random(number)  # noqa: S311 - the same calls on every run
            run = f"r{number}"
            model: Any = StoreModel(_LEASE)
            claim, theirs = start(bench.store, run), start(model, run)
            calls = [_calls(run, each, draw) for each in range(_CALLERS)]
            callers = [Caller(each, {"seen": None, "claim": copy_of(claim)}) for each in calls]
            history = played([bench.store] * _CALLERS, callers)
            in_the_model = [Caller(caller.calls, {**caller.knows, "claim": copy_of(theirs)}) for caller in callers]
            order = order_of(model, in_the_model, history)
            assert order is not None, f"no order explains these calls, with beginning and end:\n{shown(history)}"
