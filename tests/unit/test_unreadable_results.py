"""A result that defends itself against being read is one that cannot be stored: the body does not run again."""

import asyncio
from dataclasses import dataclass

import pytest

from fastdur import IdempotencyError, idempotent, storable
from tests.unit.running import attempts, flow


class Anything:
    """Like a proxy outside of what it stands for: whatever is asked of it raises."""

    def __getattr__(self, name):
        raise RuntimeError(name)


@storable
@dataclass
class Spoilt:
    number: int = 5

    def __getattribute__(self, name):
        if name == "number":
            raise SystemExit(name)
        return object.__getattribute__(self, name)


@storable
@dataclass
class Interrupted:
    number: int = 5

    def __getattribute__(self, name):
        if name == "number":
            raise KeyboardInterrupt
        return object.__getattribute__(self, name)


class Meta(type):
    def __getattribute__(cls, name):
        raise RuntimeError(name)


class Odd(metaclass=Meta):
    pass


KINDS = [Anything, Spoilt, lambda: Odd(), lambda: [Anything()], lambda: {"a": Spoilt()}]  # noqa: PLW0108 - pytest asks a class


@pytest.mark.parametrize("policy", ["rerun", "raise"])
@pytest.mark.parametrize("make", KINDS)
def test_the_body_runs_once_whatever_the_result_does_when_it_is_read(store, go, policy, make):
    ran = []

    @idempotent(name="ask", on_unknown=policy)
    def ask():
        ran.append(1)
        return make()

    def a(state):
        ask()

    made = flow(store, a, retry=2)
    for call in (made.execute, made.resume):
        with pytest.raises(IdempotencyError, match="not run again"):
            go(call, execution_id="r")
    assert (ran, attempts(store)) == ([1], [("ask", "unstorable")])


@pytest.mark.parametrize("make", KINDS)
def test_so_it_is_of_an_async_one(store, make):
    ran = []

    @idempotent(name="ask", on_unknown="raise")
    async def ask():
        ran.append(1)
        return make()

    async def a(state):
        await ask()

    with pytest.raises(IdempotencyError, match="not run again"):
        asyncio.run(flow(store, a, retry=2).aexecute(execution_id="r"))
    assert (ran, attempts(store)) == ([1], [("ask", "unstorable")])


def test_what_ends_the_reading_from_outside_leaves_the_effect_unknown_to_a_node_that_goes_on(store, go):
    """Ctrl-C after the body and before its record: under `raise` the node that catches it does not do it twice."""
    ran = []

    @idempotent(name="ask", on_unknown="raise")
    def ask():
        ran.append(1)
        return Interrupted()

    def a(state):
        with pytest.raises(KeyboardInterrupt):
            ask()
        ask()

    with pytest.raises(IdempotencyError, match="Nobody knows"):
        go(flow(store, a).execute, execution_id="r")
    assert ran == [1]
