"""What a body changes in its arguments is there in no lifetime: it works on a copy of its own."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial

import pytest

from fastdur import Chain, Happened, Resume, SimulatedCrash, idempotent, interrupt, list_unknown, transaction
from fastdur._live import LiveState, Snapshot
from fastdur._own import own
from tests.unit.books import Books
from tests.unit.running import at, flow, raising


@dataclass
class Order:
    lines: list


def spoil(order):
    order["lines"][0]["amount"] = 0
    order["lines"].append("more")
    order["tags"].add("seen")
    order["pair"][1].append(9)
    order["new"] = 1
    return sorted(order)


def order():
    return {"lines": [{"amount": 5}], "tags": {"a"}, "pair": (1, [2]), "deep": [[[1]]]}


@pytest.mark.parametrize("transactional", [False, True])
def test_a_live_run_and_a_resumed_one_see_the_same_arguments(store, go, transactional):
    ship = idempotent(name="ship", transactional=transactional)(spoil)
    seen = []

    def a(state):
        mine = order()
        seen.append((ship(mine), mine, ship(order=state["order"]), state["order"]))
        interrupt("ok?")
        return {}

    made = flow(store, a)
    go(made.execute, {"order": order()}, execution_id="r")
    ended = go(made.resume, "r", Resume(True))
    assert seen[0] == seen[1]
    assert seen[0][1:] == (order(), seen[0][0], order())
    assert ended.final_state == {"order": order()}


def test_an_async_body_and_one_that_gets_the_state_itself_work_on_a_copy_too(store):
    @idempotent(name="ship")
    async def ship(state):
        state["paid"] = True
        state["lines"].append(1)
        del state["gone"]
        return type(state).__name__

    async def a(state):
        return {"kind": await ship(state)}

    state = {"lines": [], "gone": 1}
    ended = asyncio.run(flow(store, a).aexecute(state))
    assert ended.final_state == {"lines": [], "gone": 1, "kind": "dict"}


def test_a_body_that_spoils_its_argument_and_fails_is_the_same_effect_in_the_retry_of_the_node(store, go):
    calls = []

    @idempotent(name="ship")
    def ship(lines):
        calls.append(len(lines))
        lines.pop()
        if len(calls) < 3:
            raise TimeoutError
        return len(lines)

    def a(state):
        lines = [1, 2, 3]
        for _ in range(3):
            try:
                return {"left": ship(lines)}
            except TimeoutError:
                continue
        return None

    ended = go(flow(store, a).execute, execution_id="r")
    assert (ended.output, calls) == ({"left": 2}, [3, 3, 3])
    assert len({record.key.partition("/")[0] for record in store.list_idempotent("r")}) == 1


def test_who_asks_the_provider_gets_a_copy_too(store, go):
    asked = []

    def ask(key, lines):
        lines.append(9)
        asked.append(lines)
        return Happened("yes")

    @idempotent(name="ship", on_unknown=ask)
    def ship(lines):
        return "no"

    def a(state):
        lines = [1]
        return {"said": ship(lines), "lines": lines}

    made = flow(store, a)
    with at("after effect ship@a", raising(SimulatedCrash())), pytest.raises(SimulatedCrash):
        go(made.execute, execution_id="r")
    assert go(made.resume, "r").output == {"said": "yes", "lines": [1]}
    assert (asked, list_unknown("r", store)) == ([[1, 9]], [])


def test_a_transaction_that_is_made_again_gets_them_as_they_were(postgres_checkpointer):
    books = Books(postgres_checkpointer)
    runs = []

    @idempotent(name="book", transactional=True)
    def book(lines):
        runs.append(list(lines))
        books.insert(transaction(), lines.pop())
        if len(runs) == 1:
            transaction().execute("DO $$ BEGIN RAISE serialization_failure; END $$")

    Chain("c", books.store).add_node("a", lambda state: book([1, 2])).execute()
    assert (runs, books.amounts()) == ([[1, 2], [1, 2]], [2])


def test_what_is_in_the_arguments_twice_is_in_the_copy_twice_and_objects_are_the_same():
    inner, thing, odd = [1], Order([1]), OrderedDict(a=[1])
    pair = (inner, inner)
    circle = [inner]
    circle.append(circle)
    (a, b, c, d), named = own((pair, inner, circle, thing), {"odd": odd, "frozen": (1, (2, "x"))})
    assert (a, b, named["frozen"]) == (pair, inner, (1, (2, "x")))
    assert a[0] is a[1] is b is c[0]
    assert b is not inner
    assert c[1] is c
    assert d is thing
    assert named["odd"] is odd
    args = (1, "x", None)
    assert own(args, {"n": 2.5})[0] is args
    live = LiveState(Snapshot.of({"rows": [{"n": 1}, {"n": 2}, {"n": 3}], "n": 1}))
    (copy,), _ = own((live,), {})
    assert (type(copy), type(copy["rows"]), copy) == (dict, list, live)
    assert copy["rows"][0] is not live["rows"][0]


def _positional(acc=[], /, more=1):  # noqa: B006
    acc.append(more)
    return len(acc)


def _named(*, acc={"in": [{}]}, more=1):  # noqa: B006
    acc["in"][0][len(acc["in"][0])] = more
    return len(acc["in"][0])


def _deep(more=1, acc=(1, [set()])):
    acc[1][0].add(more + len(acc[1][0]))
    return len(acc[1][0])


def _taken(acc, more=1):
    acc.append(more)
    return len(acc)


class Counter:
    def __call__(self, acc=[]):  # noqa: B006
        acc.append(1)
        return len(acc)

    def method(self, acc=[]):  # noqa: B006
        acc.append(1)
        return len(acc)


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda: _positional,
        lambda: _named,
        lambda: _deep,
        lambda: partial(_positional),
        lambda: partial(_taken, []),
        lambda: partial(_taken, acc=[]),
        lambda: partial(partial(_taken, acc=[]), more=2),
        Counter,
        lambda: Counter().method,
    ],
)
def test_a_body_does_not_change_the_defaults_that_it_or_its_key_begins_with(store, go, make, transactional):
    add = idempotent(name="add", transactional=transactional, per="visit")(make())

    def turn(state):
        return {"n": [*state.get("n", []), add()]}

    def again(state):
        return {"n": [*state["n"], add()]}

    made = flow(store, turn, again)
    assert go(made.execute).final_state == {"n": [1, 1]}
    assert len({record.args for record in store.list_idempotent(store.list_executions()[0].execution_id)}) == 1


def test_a_default_counts_as_it_was_declared_whatever_plain_calls_have_made_of_it(store, go):
    def record(line, acc=[]):  # noqa: B006
        acc.append(line)
        return list(acc)

    effect = idempotent(name="record")(record)
    effect.plain("before")

    def a(state):
        return {"n": effect("x")}

    assert go(flow(store, a).execute).output == {"n": ["x"]}
    assert record.__defaults__ == (["before"],)


def test_arguments_that_are_given_are_not_the_defaults(store, go):
    def put(a, b=[], *rest, c={}, **more):  # noqa: B006
        b.append(a)
        return [a, b, list(rest), c, more]

    effect = idempotent(name="put")(put)

    def a(state):
        return {"n": [effect(1), effect(1, [2]), effect(1, [2], 3, c={"d": 4}, e=5), effect(c={}, a=1)]}

    expected = [
        [1, [1], [], {}, {}],
        [1, [2, 1], [], {}, {}],
        [1, [2, 1], [3], {"d": 4}, {"e": 5}],
        [1, [1], [], {}, {}],
    ]
    assert go(flow(store, a).execute, execution_id="r").output == {"n": expected}
    assert len(store.list_idempotent("r")) == 3


def test_an_async_body_begins_with_the_defaults_too(store):
    @idempotent(name="put", per="visit")
    async def put(acc=[]):  # noqa: B006
        acc.append(1)
        return len(acc)

    async def a(state):
        return {"n": [await put(), await put([1]), await put()]}

    assert asyncio.run(flow(store, a).aexecute()).output == {"n": [1, 2, 1]}
    assert asyncio.run(flow(store, a).aexecute()).output == {"n": [1, 2, 1]}
