"""`@idempotent`: which calls are one, what is recorded, what is answered, and when a body runs again."""

import asyncio
import contextvars
import functools
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

import pydantic
import pytest

from fastdur import (
    Chain,
    EffectDeadlock,
    EffectFailed,
    EffectUnknown,
    IdempotencyError,
    IdempotencyMismatch,
    NodeIsAsync,
    Resume,
    ScopeLost,
    SimulatedCrash,
    effect_key,
    idempotent,
    interrupt,
    list_unknown,
    observe,
)
from fastdur._declared import binder
from fastdur._failures import frozen_failure, replayed_failure
from fastdur.records import EffectRecord
from tests.unit.running import WAIT, Gate, at, attempts, flow, raising, turn

DIE = raising(SimulatedCrash())


def in_a_run(store, body, go=lambda method, *args: method(*args)):
    """Run `body()` in a node and return what it returns."""
    return go(Chain("c", store).add_node("a", lambda state: body(), output_key="out").execute).output


def counting(calls, **options):
    """An effect that writes down its arguments and returns how often it was called."""

    def pay(*args, **kwargs):
        calls.append((args, kwargs))
        return len(calls)

    return idempotent(**options)(pay) if options else idempotent(pay)


# -- what may be decorated -----------------------------------------------------------------------------------------------


def items():
    yield 1


async def async_items():
    yield 1


class Paid:
    pass


@pytest.mark.parametrize(
    ("what", "says"),
    [
        (items, "generator"),
        (async_items, "generator"),
        (Paid, "not <class"),
        (None, "not None"),
        (5, "not 5"),
        (functools.partial(len, "x"), "name="),
    ],
)
def test_what_is_no_function_with_a_result_and_a_name_is_refused(what, says):
    with pytest.raises(TypeError, match=says):
        idempotent()(what)


@pytest.mark.parametrize("name", ["", 5, b"pay"])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(TypeError, match="name="):
        idempotent(name=name)(len)


def test_a_key_function_that_would_have_to_be_awaited_is_refused_when_it_is_declared():
    async def key(amount):
        return amount

    with pytest.raises(TypeError, match="plain function"):
        idempotent(key_fn=key)(len)


def test_an_unknown_policy_is_refused():
    with pytest.raises(ValueError, match="'raise'"):
        idempotent(on_unknown="later")(len)


def test_a_decorated_function_is_still_the_function():
    @idempotent
    def pay(amount: int) -> int:
        """Pay."""
        return amount

    @idempotent
    async def apay(amount: int) -> int:
        return amount

    assert (pay.__name__, pay.__doc__, pay.__wrapped__(5)) == ("pay", "Pay.", 5)
    assert asyncio.iscoroutinefunction(apay)


def test_outside_a_run_it_runs_plainly_every_time():
    calls = []
    pay = counting(calls)
    assert [pay(1), pay(1)] == [1, 2]

    @idempotent
    async def apay():
        return 7

    assert asyncio.run(apay()) == 7


def test_required_refuses_outside_a_run(store, go):
    calls = []
    pay = counting(calls, required=True)

    @idempotent(required=True)
    async def apay():
        calls.append(1)

    with pytest.raises(ScopeLost, match="required=True"):
        pay(1)
    with pytest.raises(ScopeLost):
        asyncio.run(apay())
    assert calls == []
    assert in_a_run(store, lambda: pay(1), go) == 1


class Caller:
    def __call__(self, amount):
        return amount


def test_a_partial_and_an_object_with_a_call_are_effects_once_they_have_a_name(store, go):
    calls = []

    def pay(a, b):
        calls.append((a, b))
        return a + b

    bound = idempotent(name="pay")(functools.partial(pay, 1))
    caller = idempotent(name="caller")(Caller())
    assert in_a_run(store, lambda: [bound(2), bound(b=2), caller(5), caller(5)], go) == [3, 3, 5, 5]
    assert calls == [(1, 2)]


def test_a_partial_of_an_async_function_is_awaited(store):
    async def pay(a, b):
        return a + b

    bound = idempotent(name="pay")(functools.partial(pay, 1))

    async def a(state):
        return {"paid": await bound(2)}

    assert asyncio.run(flow(store, a).aexecute()).output == {"paid": 3}


# -- which calls are one -------------------------------------------------------------------------------------------------


@pytest.mark.case("S17")
def test_one_call_is_one_however_its_arguments_are_written(store, go):
    calls = []

    @idempotent
    def pay(amount, currency="EUR", *rest, tip=0, **more):
        calls.append(amount)
        return len(calls)

    def body():
        return [
            pay(5), pay(amount=5), pay(5, "EUR"), pay(5, currency="EUR"), pay(5, tip=0), pay(currency="EUR", amount=5),
            pay(5, "EUR", 1), pay(5, x=1, y=2), pay(5, y=2, x=1), pay(5, tip=1),
        ]  # fmt: skip

    assert in_a_run(store, body, go) == [1, 1, 1, 1, 1, 1, 2, 3, 3, 4]


class Colour(Enum):
    RED = 1


@dataclass
class Order:
    number: int


@dataclass
class Invoice:
    number: int


class Model(pydantic.BaseModel):
    number: int


DIFFERENT = [
    1, 1.0, True, "1", b"1", None, 0, -0.0, 0.0, "", [], {}, (), [1], (1,), {1}, frozenset({1}), {"1": 1}, {1: 1},
    Order(1), Invoice(1), Model(number=1), Order(2), Colour.RED, datetime(2024, 1, 1, tzinfo=UTC),
]  # fmt: skip


@pytest.mark.case("S17")
def test_values_of_different_types_are_different_calls_and_equal_ones_the_same(store, go):
    calls = []
    pay = counting(calls)

    def body():
        return [pay(value) for value in DIFFERENT] + [pay(value) for value in DIFFERENT]

    count = len(DIFFERENT)
    assert in_a_run(store, body, go) == [*range(1, count + 1)] * 2


@pytest.mark.parametrize(
    ("args", "kwargs", "says"),
    [
        ((5, 6, 7, 8), {}, "too many positional"),
        ((), {}, "missing"),
        ((5,), {"amount": 6}, "multiple values"),
        ((5,), {"tipp": 6}, "missing|unexpected"),
        ((5, 6), {"tipp": 6}, "unexpected"),
    ],
)
def test_arguments_that_a_call_does_not_take_are_refused_before_anything_is_recorded(store, go, args, kwargs, says):
    calls = []

    @idempotent
    def pay(amount, tip, note=""):
        calls.append(1)

    with pytest.raises(TypeError, match=says):
        in_a_run(store, lambda: pay(*args, **kwargs), go)
    assert (calls, store.list_idempotent(store.list_executions()[0].execution_id)) == ([], [])


@pytest.mark.parametrize(
    ("fn", "args", "kwargs", "bound"),
    [
        (lambda a, b=2: None, (1,), {}, {"a": 1, "b": 2}),
        (lambda a, b=2: None, (), {"b": 3, "a": 1}, {"a": 1, "b": 3}),
        (lambda a, b=2: None, (1, 3), {}, {"a": 1, "b": 3}),
        (lambda *a, **b: None, (1, 2), {"c": 3}, {"a": (1, 2), "b": {"c": 3}}),
        (lambda a, /, *, b: None, (1,), {"b": 2}, {"a": 1, "b": 2}),
        (lambda: None, (), {}, {}),
    ],
)
def test_a_call_is_bound_by_name_with_its_defaults(fn, args, kwargs, bound):
    assert binder(fn)(*args, **kwargs) == bound


@dataclass
class Account:
    owner: str

    @idempotent
    def pay(self, amount):
        CALLS.append((self.owner, amount))
        return len(CALLS)


class Wallet(pydantic.BaseModel):
    owner: str

    @idempotent
    def pay(self, amount):
        CALLS.append((self.owner, amount))
        return len(CALLS)


class Plain:
    @idempotent
    def pay(self, amount):
        CALLS.append(amount)

    @idempotent(key_fn=lambda self, amount: amount)
    def keyed(self, amount):
        CALLS.append(amount)
        return len(CALLS)


CALLS = []


@pytest.mark.case("S17")
@pytest.mark.parametrize("kind", [Account, Wallet])
def test_a_method_counts_with_the_values_of_its_object(store, go, kind):
    CALLS.clear()

    def body():
        one, same, other = kind(owner="ada"), kind(owner="ada"), kind(owner="bob")
        return [one.pay(5), same.pay(5), other.pay(5), one.pay(6)]

    assert in_a_run(store, body, go) == [1, 1, 2, 3]


def test_a_method_of_an_object_without_values_is_refused_unless_a_key_function_tells_what_counts(store, go):
    CALLS.clear()
    with pytest.raises(IdempotencyError, match="key_fn="):
        in_a_run(store, lambda: Plain().pay(5), go)
    assert CALLS == []
    assert in_a_run(store, lambda: [Plain().keyed(5), Plain().keyed(5), Plain().keyed(6)], go) == [1, 1, 2]


def test_an_argument_that_has_no_form_is_refused_by_name_before_the_body(store, go):
    calls = []
    pay = counting(calls)
    with pytest.raises(IdempotencyError, match=r"lock.*key_fn=") as refused:
        in_a_run(store, lambda: pay(threading.Lock()), go)
    assert (calls, attempts(store, "r")) == ([], [])
    assert refused.value.__cause__ is not None


MODULE = """
from fastdur import idempotent
calls = []

@idempotent
def pay(amount):
    calls.append(amount)
    return __name__
"""


@pytest.mark.case("S17")
def test_functions_of_one_name_in_two_modules_are_two_effects(store, go):
    modules = [{"__name__": name} for name in ("shop", "bank")]
    for module in modules:
        exec(MODULE, module)
    assert in_a_run(store, lambda: [module["pay"](5) for module in modules * 2], go) == ["shop", "bank"] * 2
    assert [module["calls"] for module in modules] == [[5], [5]]


def test_two_functions_of_one_name_in_one_lifetime_are_refused_saying_name(store, go):
    def make(value):
        @idempotent
        def pay():
            return value

        return pay

    def body():
        return [make(1)(), make(2)()]

    with pytest.raises(IdempotencyError, match="name="):
        in_a_run(store, body, go)

    def a(state):
        return {"a": make(1)()}

    def b(state):
        return {"b": make(2)()}

    with pytest.raises(IdempotencyError, match="name="):
        go(flow(store, a, b).execute)


def test_functions_made_anew_are_told_apart_by_name_and_a_retry_may_make_them_anew(store, go):
    def make(number):
        return idempotent(name=f"pay {number}")(lambda: number)

    assert in_a_run(store, lambda: [make(number)() for number in range(3)], go) == [0, 1, 2]
    tries = []

    def a(state):
        tries.append(1)
        paid = make(7)()
        if len(tries) == 1:
            raise ValueError
        return {"paid": paid}

    assert go(flow(store, a, retry=1).execute).output == {"paid": 7}


class Payer:
    """A callable object."""

    def __init__(self, number):
        self.number = number

    def __call__(self, amount):
        return amount + self.number


@pytest.mark.parametrize(
    "make",
    [
        lambda number: lambda amount: amount + number,
        lambda number: functools.partial(sum, start=number),
        Payer,
        lambda number: Payer(number).__call__,
    ],
)
def test_under_a_name_of_its_own_a_function_may_be_made_anew_in_each_turn(store, go, make):
    def turn(state):
        given = [state["n"]] if isinstance(make(0), functools.partial) else state["n"]
        return {"n": idempotent(name="pay")(make(10))(given)}

    chain = flow(store, turn).connect("turn", "turn", when=lambda state: state["n"] < 30, max_iterations=5)
    assert go(chain.execute, {"n": 1}).final_state == {"n": 31}
    assert len(store.list_idempotent(store.list_executions()[0].execution_id)) == 3


def test_a_name_that_was_given_twice_to_different_code_is_refused(store, go):
    def body():
        return [idempotent(name="pay")(lambda: 1)(), idempotent(name="pay")(lambda: 2)()]

    with pytest.raises(IdempotencyError, match="name="):
        in_a_run(store, body, go)


def test_a_resumed_node_may_make_its_functions_anew(store, go):
    calls = []

    def a(state):
        @idempotent
        def pay():
            calls.append(1)
            return len(calls)

        return {"paid": pay(), "answer": interrupt("ok?").approved}

    made = flow(store, a)
    go(made.execute, execution_id="r")
    assert go(made.resume, "r", Resume(True)).output == {"paid": 1, "answer": True}


def rated(rate, paid):
    """A function like many others of its name; what it pays at depends on where it was made."""

    @idempotent
    def charge(amount):
        paid.append(amount * rate)
        return amount * rate

    return charge


@pytest.mark.parametrize("made_inside", [False, True])
@pytest.mark.parametrize("lives", [1, 2])
def test_the_record_of_another_function_of_the_name_is_not_taken_in_whatever_lifetime(store, go, made_inside, lives):
    """In the second lifetime only the other one is ever made, as in a process of its own."""
    paid = []
    known = None if made_inside else rated(1, paid)

    def a(state):
        return {"euro": (known or rated(1, paid))(5)}

    def b(state):
        if lives == 2:
            interrupt("ok?")
        return {"dollar": rated(2, paid)(5)}

    def both_lives():
        made = flow(store, a, b)
        go(made.execute, execution_id="r")
        go(made.resume, "r", Resume(True))

    with pytest.raises(IdempotencyError, match="name="):
        both_lives()
    assert paid == [5]


def test_nor_where_nobody_knows_what_came_of_that(store, go):
    paid = []

    class Ending:
        def append(self, _):
            raise SystemExit

    def a(state):
        with suppress(SystemExit):
            rated(1, Ending())(5)

    def b(state):
        interrupt("ok?")
        return {"dollar": rated(2, paid)(5)}

    made = flow(store, a, b)
    go(made.execute, execution_id="r")
    assert attempts(store) == [("charge", "started")]
    with pytest.raises(IdempotencyError, match="name="):
        go(made.resume, "r", Resume(True))
    assert paid == []


@pytest.mark.parametrize("options", [{"name": "charge"}, {"per": "visit"}])
def test_with_a_name_or_in_each_visit_it_is_another_call_or_the_same_one_as_it_says(store, go, options):
    calls = []

    def make(number):
        @idempotent(**options)
        def charge():
            calls.append(number)
            return number

        return charge

    def a(state):
        return {"a": make(1)()}

    def b(state):
        interrupt("ok?")
        return {"b": make(2)() if "name" in options else state["a"] + 1}

    made = flow(store, a, b)
    go(made.execute, execution_id="r")
    assert go(made.resume, "r", Resume(True)).final_state == {"a": 1, "b": 1 if "name" in options else 2}


def test_a_function_that_captures_nothing_is_one_wherever_and_however_often_it_is_made(store, go):
    def make():
        @idempotent
        def double(number, by=2):
            return number * by if number < 9 else double(number)

        return double

    def a(state):
        return {"a": make()(5)}

    def b(state):
        interrupt("ok?")
        return {"b": [make()(5), make()(5)]}

    made = flow(store, a, b)
    go(made.execute, execution_id="r")
    assert go(made.resume, "r", Resume(True)).final_state == {"a": 10, "b": [10, 10]}
    assert len(store.list_idempotent("r")) == 1


# -- key functions -------------------------------------------------------------------------------------------------------


def test_a_key_function_says_what_tells_calls_apart(store, go):
    calls = []
    pay = counting(calls, key_fn=lambda order, note=None: order)
    assert in_a_run(store, lambda: [pay("A"), pay("B"), pay("A")], go) == [1, 2, 1]


@pytest.mark.case("S19")
def test_one_key_for_two_calls_is_refused_and_neither_runs_nor_answers(store, go):
    calls = []
    pay = counting(calls, key_fn=lambda amount: "always")

    def body():
        pay(1)
        pay(2)

    with pytest.raises(IdempotencyMismatch, match="pay"):
        in_a_run(store, body, go)
    assert len(calls) == 1


def test_an_argument_without_a_form_counts_with_its_class_under_a_key_function(store, go):
    @idempotent(key_fn=lambda thing: "one")
    def pay(thing):
        return type(thing).__name__

    lock = threading.Lock()
    assert in_a_run(store, lambda: [pay(lock), pay(threading.Lock())], go) == ["lock", "lock"]
    with pytest.raises(IdempotencyMismatch):
        in_a_run(store, lambda: [pay(lock), pay(threading.Event())], go)


def test_a_key_that_has_no_form_is_refused(store, go):
    with pytest.raises(IdempotencyError, match="key_fn of"):
        in_a_run(store, counting([], key_fn=threading.Lock), go)


# -- once in a run, or once in a visit ----------------------------------------------------------------------------------


def test_an_unknown_scope_of_a_key_is_refused():
    with pytest.raises(ValueError, match="'visit'"):
        idempotent(per="node")(len)


def cycle(store, calls, **options):
    """A chain that enters `a` three times, dies before the first commit, and pauses in the second visit."""
    pay = counting(calls, name="pay", **options)

    def a(state):
        paid = [pay(1), pay(1)]
        if state["n"] == 1:
            interrupt("ok?")
        return {"n": state["n"] + 1, "paid": [*state.get("paid", []), *paid]}

    return Chain("c", store).add_node("a", a).connect("a", "a", when=lambda state: state["n"] < 3, max_iterations=3)


@pytest.mark.parametrize(
    ("options", "paid"),
    [
        ({}, [1] * 6),
        ({"per": "run"}, [1] * 6),
        ({"per": "visit"}, [1, 1, 2, 2, 3, 3]),
        ({"per": "visit", "key_fn": lambda amount: "always"}, [1, 1, 2, 2, 3, 3]),
    ],
)
def test_a_call_is_made_once_in_a_run_or_once_in_each_visit_however_often_that_is_resumed(store, go, options, paid):
    calls = []
    made = cycle(store, calls, **options)
    with at("before append a", DIE), pytest.raises(SimulatedCrash):
        go(made.execute, {"n": 0}, execution_id="r")
    assert go(made.resume, "r").status == "paused"
    assert go(made.resume, "r", Resume(True)).final_state["paid"] == paid
    assert len(calls) == len(set(paid))


def test_visits_of_two_nodes_and_of_two_levels_are_visits_of_their_own(store, go):
    calls = []
    pay = counting(calls, name="pay", per="visit")

    def a(state):
        return {"paid": [*state.get("paid", []), pay(1)]}

    inner = flow(store, a, name="inner")
    outer = Chain("outer", store).add_node("a", a).add_node("b", inner).add_node("c", a)
    assert go(outer.connect("a", "b").connect("b", "c").execute).final_state["paid"] == [1, 2, 3]


def test_each_visit_has_an_effect_key_of_its_own_the_same_in_every_retry(store, go):
    keys = []

    @idempotent(per="visit")
    def pay():
        keys.append(effect_key())
        if len(keys) % 2:
            raise ValueError

    def a(state):
        pay()
        return {"n": state["n"] + 1}

    made = Chain("c", store).add_node("a", a, retry=1)
    go(made.connect("a", "a", when=lambda state: state["n"] < 2, max_iterations=2).execute, {"n": 0})
    assert [len(keys), len(set(keys)), keys[0] == keys[1], keys[2] == keys[3]] == [4, 2, True, True]


# -- results -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, False, 0, "", {}, [], (), 0.0, b"", {"deep": [(1, {2})]}])
def test_whatever_is_returned_is_a_result_and_the_body_does_not_run_again(store, go, value):
    calls = []

    @idempotent
    def pay():
        calls.append(1)
        return value

    def a(state):
        got = [pay(), pay()]
        assert [type(each) for each in got] == [type(value)] * 2
        return {"got": got, "answer": interrupt("ok?").approved}

    made = flow(store, a)
    go(made.execute, execution_id="r")
    assert go(made.resume, "r", Resume(True)).output == {"got": [value, value], "answer": True}
    assert calls == [1]


def test_a_result_is_the_stored_one_from_the_first_call_on(store, go):
    kept = {"n": [1]}

    @idempotent
    def pay():
        return kept

    def body():
        first = pay()
        first["n"].append(2)
        return [first is kept, pay()]

    assert in_a_run(store, body, go) == [False, {"n": [1]}]


def test_a_result_that_cannot_be_stored_is_recorded_as_done_and_the_body_never_runs_again(store, go):
    calls = []

    @idempotent
    def pay():
        calls.append(1)
        return threading.Lock()

    def a(state):
        pay()

    made = flow(store, a, retry=2)
    for call in (lambda: go(made.execute, execution_id="r"), lambda: go(made.resume, "r")):
        with pytest.raises(IdempotencyError, match=r"result of .*pay.*The effect has happened"):
            call()
    assert (calls, attempts(store)) == ([1], [("pay", "unstorable")])


def test_a_node_that_catches_the_refusal_gets_it_from_the_record_too(store, go):
    @idempotent
    def pay():
        return threading.Lock()

    def body():
        said = []
        for _ in range(2):
            with pytest.raises(IdempotencyError) as refused:
                pay()
            said.append(str(refused.value))
        return said[0] == said[1]

    assert in_a_run(store, body, go) is True


@pytest.mark.case("S21")
def test_an_async_effect_is_awaited_and_the_awaited_value_is_recorded(store):
    calls = []

    @idempotent
    async def pay():
        calls.append(1)
        await turn()
        return "paid"

    async def a(state):
        return {"paid": [await pay(), await pay()], "answer": interrupt("ok?").approved}

    made = flow(store, a)
    asyncio.run(made.aexecute(execution_id="r"))
    assert asyncio.run(made.aresume("r", Resume(True))).output["paid"] == ["paid", "paid"]
    assert calls == [1]


def test_a_sync_effect_that_returns_a_coroutine_is_refused_and_nothing_is_left_unawaited(store, go):
    async def later():
        return 1

    @idempotent
    def pay():
        return later()

    with pytest.raises(NodeIsAsync, match="pay"):
        in_a_run(store, pay, go)


def test_a_hit_that_is_no_replay_is_noted_in_the_row(store, go):
    pay = counting([], name="pay")

    def once(state):
        pay(1)

    def twice(state):
        pay(2)
        pay(2)

    def again(state):
        pay(1)

    go(flow(store, once, twice, again).execute, execution_id="r")
    assert [row.extra for row in store.list("r")][:3] == [{}, {"hits": ["pay"]}, {"hits": ["pay"]}]


def test_a_replay_is_not_noted(store, go):
    pay = counting([], name="pay")

    def a(state):
        pay(1)
        interrupt("ok?")

    made = flow(store, a)
    go(made.execute, execution_id="r")
    go(made.resume, "r", Resume(True))
    assert store.list("r")[-2].extra == {}


# -- failures ------------------------------------------------------------------------------------------------------------


class Declined(Exception):
    pass


def failing(calls, times, error):
    @idempotent
    def pay():
        calls.append(1)
        if len(calls) <= times:
            raise error
        return len(calls)

    return pay


@pytest.mark.case("S18")
def test_a_body_that_failed_runs_again_after_the_run_has_failed(store, go):
    calls = []
    pay = failing(calls, 1, Declined("no"))

    def a(state):
        return {"paid": pay()}

    made = flow(store, a)
    with pytest.raises(Declined):
        go(made.execute, execution_id="r")
    assert attempts(store) == []
    assert go(made.resume, "r").output == {"paid": 2}
    assert attempts(store) == [("pay", "done")]


def test_a_body_that_failed_runs_again_in_a_retry(store, go):
    calls = []
    pay = failing(calls, 2, Declined("no"))

    def a(state):
        return {"paid": pay()}

    assert go(flow(store, a, retry=2).execute).output == {"paid": 3}


@pytest.mark.parametrize(
    ("error", "comes_back"),
    [
        (KeyError("k"), KeyError),
        (FileNotFoundError(2, "gone"), FileNotFoundError),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), UnicodeDecodeError),
        (Declined("no"), EffectFailed),
        (ValueError(threading.Lock()), EffectFailed),
    ],
)
def test_a_failure_that_the_node_caught_is_replayed_after_a_crash_without_running_the_body(
    store, go, error, comes_back
):
    calls, caught = [], []
    pay = failing(calls, 1, error)

    def a(state):
        try:
            pay()
        except Exception as failure:
            caught.append(failure)
        return {"paid": False}

    made = flow(store, a)
    with at("before append a", DIE), pytest.raises(SimulatedCrash):
        go(made.execute, execution_id="r")
    assert attempts(store) == [("pay", "failed")]
    assert go(made.resume, "r").output == {"paid": False}
    assert (len(calls), type(caught[1])) == (1, comes_back)
    if comes_back is EffectFailed:
        assert caught[1].type_name == f"{type(error).__module__}.{type(error).__qualname__}"
        assert caught[1].type_name in str(caught[1])
    else:
        assert caught[1].args == error.args


class CardError(Exception):
    def __init__(self, code, *, until):
        super().__init__(f"card {code}")
        self.code, self.until = code, until


class Limit(CardError):
    pass


class Missing(FileNotFoundError):
    def __init__(self, number):
        super().__init__(2, "gone", f"file {number}")
        self.number = number


@pytest.mark.parametrize(
    ("make", "raises", "comes_back"),
    [
        (lambda: CardError("stolen", until=datetime(2024, 1, 1, tzinfo=UTC)), CardError, True),
        (lambda: Limit("limit", until=(1, 2)), (KeyError, CardError), True),
        (lambda: Limit("limit", until=None), Exception, True),
        (lambda: Missing(5), Missing, True),
        (lambda: Declined("no", {"n": 1}), (Declined,), True),
        (lambda: Declined("no"), CardError, False),
        (lambda: CardError("stolen", until=None), (), False),
        (lambda: CardError("stolen", until=threading.Lock()), CardError, True),
        (lambda: Declined(threading.Lock()), Declined, False),
    ],
)
def test_a_failure_of_a_class_that_the_function_names_is_replayed_as_itself(store, go, make, raises, comes_back):
    caught, error = [], make()

    @idempotent(raises=raises)
    def pay():
        raise error

    def a(state):
        try:
            pay()
        except Exception as failure:
            caught.append(failure)
            failure.add_note("seen")
        interrupt("ok?")

    made = flow(store, a)
    go(made.execute, execution_id="r")
    go(made.resume, "r", Resume(True))
    assert (caught[0] is error, caught[1] is error) == (True, False)
    if comes_back:
        assert (type(caught[1]), caught[1].args, str(caught[1])) == (type(error), error.args, str(error))
        kept = {name: value for name, value in vars(error).items() if type(value) is not type(threading.Lock())}
        lost = [f"It comes from a record, without what cannot be stored: {name}." for name in vars(error).keys() - kept]
        notes = [*lost, "seen"]
        assert {**kept, "__notes__": notes} == {**vars(caught[1])}
        assert getattr(caught[1], "filename", None) == getattr(error, "filename", None)
    else:
        assert (type(caught[1]), str(error) in str(caught[1])) == (EffectFailed, True)


@pytest.mark.parametrize("raises", [KeyboardInterrupt, "Declined", (Declined, None), [Declined], Declined("no")])
def test_what_is_no_class_of_exceptions_is_refused_when_it_is_declared(raises):
    with pytest.raises(TypeError, match="exception classes"):
        idempotent(raises=raises)(len)


def test_a_failure_is_replayed_once_and_to_its_own_visit_only(store, go):
    calls = []
    pay = failing(calls, 1, Declined("no"))

    def a(state):
        paid = []
        for _ in range(2):
            try:
                paid.append(pay())
            except (Declined, EffectFailed):
                paid.append("failed")
        return {"paid": paid}

    made = flow(store, a)
    with at("after effect end pay@a", DIE), pytest.raises(SimulatedCrash):
        go(made.execute, execution_id="r")
    assert go(made.resume, "r").output == {"paid": ["failed", 2]}


def test_a_replayed_failure_that_the_node_does_not_catch_costs_a_retry_as_it_did(store, go):
    calls = []
    pay = failing(calls, 1, Declined("no"))

    def a(state):
        return {"paid": pay()}

    made = flow(store, a, retry=1)
    with at("after effect end pay@a", DIE), pytest.raises(SimulatedCrash):
        go(made.execute, execution_id="r")
    assert go(made.resume, "r").output == {"paid": 2}


def test_what_ends_a_process_leaves_the_effect_unknown_and_the_body_runs_again(store, go):
    calls = []
    pay = failing(calls, 1, KeyboardInterrupt())

    def a(state):
        return {"paid": pay()}

    made = flow(store, a)
    with pytest.raises(KeyboardInterrupt):
        go(made.execute, execution_id="r")
    assert attempts(store) == [("pay", "started")]
    assert go(made.resume, "r").output == {"paid": 2}


def test_a_failure_whose_text_cannot_be_read_is_recorded_and_replayed_all_the_same():
    class Mute(Exception):
        def __str__(self):
            raise TypeError

    record = EffectRecord("k", "pay", "digest", "failed", "a1", "a#1", error=frozen_failure(Mute()))
    assert "cannot be read" in str(replayed_failure(record))


def test_a_name_among_the_builtins_that_is_no_exception_is_not_called():
    record = EffectRecord("k", "pay", "digest", "failed", "a1", "a#1", error=["builtins.print", "text", ["x"]])
    assert type(replayed_failure(record)) is EffectFailed
    record = EffectRecord("k", "pay", "digest", "failed", "a1", "a#1", error=["builtins.KeyboardInterrupt", "", []])
    assert type(replayed_failure(record)) is EffectFailed


# -- crashes around the body ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "bodies"),
    [
        ("before effect begin pay@a", 1),
        ("after effect begin pay@a", 1),
        ("before effect pay@a", 1),
        ("after effect pay@a", 2),
        ("before effect end pay@a", 2),
        ("after effect end pay@a", 1),
    ],
)
def test_only_between_a_body_and_its_record_a_crash_repeats_it(store, go, where, bodies):
    calls = []
    pay = counting(calls)

    def a(state):
        return {"paid": pay()}

    made = flow(store, a)
    with at(where, DIE), pytest.raises(SimulatedCrash):
        go(made.execute, execution_id="r")
    go(made.resume, "r")
    assert len(calls) == bodies


# -- in flight -----------------------------------------------------------------------------------------------------------


def in_threads(count, fn):
    """Call `fn` in threads that know the scope; what each returned or raised."""

    def call(context):
        try:
            return context.run(fn)
        except Exception as error:
            return type(error)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(call, [contextvars.copy_context() for _ in range(count)]))


def test_equal_calls_in_threads_run_the_body_once_and_share_its_result(store, go):
    calls, waiting, everyone = [], threading.Semaphore(0), threading.Barrier(8)

    @idempotent
    def pay():
        calls.append(1)
        for _ in range(7):
            assert waiting.acquire(timeout=WAIT)
        return {"n": len(calls)}

    def call():
        everyone.wait(WAIT)
        return pay()

    def a(state):
        return {"paid": in_threads(8, call)}

    def count(boundary):
        if str(boundary).startswith("before effect wait pay@a"):
            waiting.release()

    with observe(count, store):
        assert go(flow(store, a).execute).output == {"paid": [{"n": 1}] * 8}
    assert calls == [1]


def test_equal_calls_in_tasks_run_the_body_once_and_share_its_result(store):
    calls = []

    @idempotent
    async def pay():
        calls.append(1)
        await turn()
        return {"n": len(calls)}

    async def a(state):
        return {"paid": await asyncio.gather(*(pay() for _ in range(8)))}

    assert asyncio.run(flow(store, a).aexecute()).output == {"paid": [{"n": 1}] * 8}
    assert calls == [1]


def test_when_the_body_in_flight_fails_the_next_in_line_runs_it(store):
    calls = []

    @idempotent
    async def pay():
        calls.append(1)
        await turn()
        if len(calls) < 3:
            raise ValueError(len(calls))
        return len(calls)

    async def a(state):
        got = await asyncio.gather(*(pay() for _ in range(5)), return_exceptions=True)
        return {"paid": [each if type(each) is int else -each.args[0] for each in got]}

    assert sorted(asyncio.run(flow(store, a).aexecute()).output["paid"]) == [-2, -1, 3, 3, 3]
    assert len(calls) == 3


def test_a_call_that_lands_between_the_look_and_the_wait_is_not_waited_for(store):
    gate = Gate()

    @idempotent
    def pay():
        gate()
        return 1

    def a(state):
        first.append(pool.submit(contextvars.copy_context().run, pay))
        assert gate.reached.wait(WAIT)
        return {"paid": pay()}

    def land():
        gate.opened.set()
        first[0].result(WAIT)

    first = []
    with ThreadPoolExecutor(1) as pool, at("before effect wait pay@a", land):
        assert flow(store, a).execute().output == {"paid": 1}


def test_an_async_call_that_lands_between_the_look_and_the_wait_is_not_waited_for(store):
    gate = Gate()

    @idempotent
    async def pay():
        gate()
        return 1

    async def a(state):
        first.append(pool.submit(contextvars.copy_context().run, asyncio.run, pay()))
        assert await asyncio.to_thread(gate.reached.wait, WAIT)
        return {"paid": await pay()}

    def land():
        gate.opened.set()
        first[0].result(WAIT)

    first = []
    with ThreadPoolExecutor(1) as pool, at("before effect wait pay@a", land):
        assert asyncio.run(flow(store, a).aexecute()).output == {"paid": 1}


def test_an_effect_that_waits_for_itself_is_refused(store, go):
    @idempotent
    def pay():
        return pay()

    with pytest.raises(EffectDeadlock, match="in flight"):
        in_a_run(store, pay, go)


def test_two_async_effects_that_wait_for_each_other_are_refused(store):
    both = []

    @idempotent
    async def one():
        both[0].set()
        await both[1].wait()
        return await two()

    @idempotent
    async def two():
        both[1].set()
        await both[0].wait()
        return await one()

    async def a(state):
        both.extend([asyncio.Event(), asyncio.Event()])
        got = await asyncio.gather(one(), two(), return_exceptions=True)
        return {"refused": [type(each) is EffectDeadlock for each in got]}

    assert True in asyncio.run(flow(store, a).aexecute()).output["refused"]


def test_an_async_body_that_was_cancelled_runs_again_when_it_is_called_again(store):
    calls, begun = [], []

    @idempotent
    async def pay():
        calls.append(1)
        begun[0].set()
        if len(calls) == 1:
            await asyncio.Event().wait()
        return len(calls)

    async def a(state):
        begun.append(asyncio.Event())
        task = asyncio.ensure_future(pay())
        await begun[0].wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return {"paid": await pay()}

    assert asyncio.run(flow(store, a).aexecute(execution_id="r")).output == {"paid": 2}
    assert attempts(store) == [("pay", "done")]


def test_a_sync_effect_may_be_called_on_the_event_loop(store):
    pay = counting([])

    async def a(state):
        return {"paid": [pay(1), pay(1)]}

    assert asyncio.run(flow(store, a).aexecute()).output == {"paid": [1, 1]}


def test_an_effect_may_call_another_and_a_recorded_one(store, go):
    @idempotent
    def inner():
        return 1

    @idempotent
    def outer():
        return [inner(), inner()]

    assert in_a_run(store, lambda: [outer(), inner()], go) == [[1, 1], 1]


def test_a_record_that_another_lifetime_wrote_meanwhile_answers(store, go):
    calls = []
    pay = counting(calls)
    begin = store.begin_idempotent

    def begin_late(claim, record):
        store.begin_idempotent = begin
        begin(claim, record)
        store.put_idempotent(
            claim, EffectRecord(record.key, record.name, record.args, "done", record.attempt, "a#1", 7)
        )
        return begin(claim, EffectRecord(record.key, record.name, record.args, "started", "late", "a#1"))

    store.begin_idempotent = begin_late
    assert in_a_run(store, lambda: [pay(), pay()], go) == [7, 7]
    assert calls == []


def test_under_one_name_two_partials_of_different_functions_are_refused(store, go):
    """Wrong: every partial counts as the same function, and the second is answered by the first."""

    def body():
        return [idempotent(name="do")(functools.partial(fn, "x"))() for fn in (len, sorted)]

    with pytest.raises(IdempotencyError, match="name="):
        in_a_run(store, body, go)


def test_a_record_that_is_cut_off_leaves_an_effect_that_nobody_knows_of(store):
    """Wrong: a signal handler raises while the outcome is written, and the retry runs the body once more."""
    ran = []

    @idempotent(on_unknown="raise", name="pay")
    def pay():
        ran.append(1)

    class SoftLimitError(Exception):
        """What a handler of a signal raises."""

    whole = store.put_idempotent

    def cut_off(claim, record):
        store.put_idempotent = whole
        raise SoftLimitError

    def a(state):
        pay()

    store.put_idempotent = cut_off
    with pytest.raises(EffectUnknown):
        flow(store, a, retry=1).execute({}, "r")
    assert ran == [1]
    assert [each.name for each in list_unknown("r", store)] == ["pay"]
