"""Two functions of one name in one visit, of which a later lifetime calls only the other: no wrong value is given."""

import asyncio
import enum
import uuid
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from fastdur import IdempotencyError, Resume, SimulatedCrash, idempotent, interrupt
from tests.unit.running import attempts, flow

Kind = enum.Enum("Kind", "CARD CASH")


def charged(paid, whose, **options):
    """A function like many others of its name; whom it charges depends on where it was made."""

    @idempotent(**options)
    def charge(amount):
        paid.append((whose, amount))
        return f"{whose} {amount}"

    return charge


def stripe():
    """One provider."""


def paypal():
    """Another one."""


VALUES = [
    ("ada", "bob"),
    (1, True),
    (None, 0),
    (Decimal(1), Decimal(2)),
    (uuid.UUID(int=1), uuid.UUID(int=2)),
    (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)),
    (Kind.CARD, Kind.CASH),
    (stripe, paypal),
    (b"a", b"b"),
]


def lives(store, go, node):
    """A run of a node that asks, and its second life."""
    made = flow(store, node)
    go(made.execute, execution_id="r")
    return go(made.resume, "r", Resume(True))


@pytest.mark.parametrize("values", VALUES, ids=lambda values: type(values[0]).__name__)
def test_the_record_of_another_function_of_the_name_is_refused_in_its_own_visit_too(store, go, values):
    """Wrong: what the one has done is given out as the other's."""
    paid, left = [], [*values]

    def a(state):
        got = charged(paid, left.pop(0))(5)
        interrupt("ok?")
        return {"got": got}

    with pytest.raises(IdempotencyError, match=r"charge'? says so"):
        lives(store, go, a)
    assert (paid, attempts(store)) == ([(values[0], 5)], [("charge", "done")])


def test_so_is_a_failure_and_what_nobody_knows(store, go):
    class Fails:
        def __init__(self, error):
            self.error = error

        def append(self, _):
            raise self.error

    for error, run in ((ValueError("no"), "failed"), (SimulatedCrash(), "crashed")):
        left = ["ada", "bob"]

        def a(state, error=error, left=left):
            charge = charged(Fails(error), left.pop(0))
            try:
                charge(5)
            except ValueError:
                interrupt("ok?")

        made = flow(store, a)
        if run == "failed":
            go(made.execute, execution_id=run)
        else:
            with pytest.raises(SimulatedCrash):
                go(made.execute, execution_id=run)
        with pytest.raises(IdempotencyError, match="says so"):
            go(made.resume, run, *([Resume(True)] if run == "failed" else []))


def test_in_a_retry_too(store, go):
    paid, left = [], ["ada", "bob"]

    def a(state):
        got = charged(paid, left.pop(0))(5)
        if left:
            raise ValueError
        return {"got": got}

    with pytest.raises(IdempotencyError, match="says so"):
        go(flow(store, a, retry=1).execute, execution_id="r")
    assert paid == [("ada", 5)]


def test_what_the_error_says_leads_on(store, go):
    paid, left = [], ["ada", "bob", "bob"]

    def a(state):
        given = {} if len(left) > 1 else {"name": f"{__name__}.charged.<locals>.charge"}
        got = charged(paid, left.pop(0), **given)(5)
        interrupt("ok?")
        return {"got": got}

    with pytest.raises(IdempotencyError, match=r"name='tests.unit.test_captured.charged.<locals>.charge' says so"):
        lives(store, go, a)
    assert go(flow(store, a).resume, "r").output == {"got": "ada 5"}


def test_the_same_function_is_answered_and_what_changes_in_place_does_not_count(store, go):
    paid = []

    def a(state):
        seen, count = [*paid], 0

        @idempotent
        def charge(amount):
            nonlocal count
            count += 1
            paid.append(amount)
            return len(seen)

        got = [charge(5), charge(5)]
        interrupt("ok?")
        return {"got": got, "name": charged([], "ada").__name__}

    assert lives(store, go, a).output == {"got": [0, 0], "name": "charge"}
    assert paid == [5]


def test_what_comes_from_outside_of_the_node_may_be_another_in_the_next_process(store, go):
    """An address, a password: the node was built with it, and so was a function that it uses."""
    paid = []

    def build(address):
        def make(whose):
            @idempotent
            def charge(amount):
                paid.append((address, whose, amount))
                return address

            return charge

        def a(state):
            @idempotent
            def note():
                return address

            got = [make("ada")(5), note()]
            interrupt("ok?")
            return {"got": got, "at": address}

        return flow(store, a)

    go(build("one").execute, execution_id="r")
    assert go(build("two").resume, "r", Resume(True)).output == {"got": ["one", "one"], "at": "two"}
    assert paid == [("one", "ada", 5)]


def test_an_async_one_and_one_without_a_value_yet_are_told_apart_alike(store):
    paid, left = [], ["ada", "bob"]

    async def a(state):
        @idempotent
        async def charge(amount):
            if amount:
                paid.append((whose, amount))
                return after
            return None

        whose = left.pop(0)
        await charge(0)
        after = whose
        await charge(5)
        interrupt("ok?")

    made = flow(store, a)
    asyncio.run(made.aexecute(execution_id="r"))
    with pytest.raises(IdempotencyError, match="says so"):
        asyncio.run(made.aresume("r", Resume(True)))
    assert paid == [("ada", 5)]
