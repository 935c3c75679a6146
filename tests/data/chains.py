"""The chains by which the stores in this folder were written. They stay as they are: new situations are new chains."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from uuid import UUID

from fastdur import Chain, idempotent, interrupt, storable


@storable(name="old.Colour")
class Colour(Enum):
    RED = 1


@storable(name="old.Order")
@dataclass
class Order:
    number: str
    total: Decimal


ODD = "k'\"\\%_\u0000\ud800\u00e9\U0001f600 "
VALUES = {
    "plain": [None, True, False, 0, -1, 2**64, 10**300, 0.1, -0.0, 1e16, 5e-324, "", ODD, [], {}],
    "numbers": [float("inf"), float("-inf"), Decimal("1.10"), Decimal("-0")],
    "times": [
        datetime(2024, 2, 29, 1, 2, 3, 4, UTC),
        datetime(2024, 2, 29, 1, 2, 3, 4),  # noqa: DTZ001 - a value of its own kind
        date(2026, 1, 31),
        time(23, 59, 59, 7),
        timedelta(days=-1, microseconds=1),
    ],
    "others": [b"\x00\xff", UUID(int=7), (1, (2,)), {1, 2}, frozenset((1,)), Colour.RED, Order("A-1", Decimal("9.90"))],
    "keys": {1: "int", "1": "text", (1, 2): "pair", ODD: ODD, "b": 1, "a": 2},
    "$": {"$": ["$", 1]},
}


def line(name, store, **nodes):
    chain = Chain(name, checkpointer=store)
    for place, (node, fn) in enumerate(nodes.items()):
        chain.add_node(node, fn)
        if place:
            chain.connect([*nodes][place - 1], node)
    return chain


def paying(paid, **options):
    @idempotent(name="pay", **options)
    def pay(what):
        paid.append(what)
        return {"paid": what}

    return pay


def asking(store, paid):
    """It pays, asks two questions, and pays again."""
    pay = paying(paid)

    def ask(state):
        pay("before")
        said = [interrupt("really?", {"sum": Decimal("1.50")}), interrupt("and why?", ODD)]
        return {"said": [[answer.approved, answer.metadata] for answer in said]}

    return line("asking", store, a=lambda _: {"a": 1}, ask=ask, last=lambda _: {"last": pay("after")})


def going(store, paid):
    """Three nodes, the second of which pays."""
    pay = paying(paid)
    return line("going", store, a=lambda _: {"a": 1}, b=lambda _: {"b": pay("b")}, c=lambda _: {"c": 3})


def keeping(store, _paid):
    """A loop in a big state that changes a little in every way at each step."""

    def work(state):
        n = state["n"] + 1
        state["log"].append(f"step {n}")
        state["tree"]["deep"][str(n)] = {"n": n}
        state["tree"]["deep"].pop(str(n - 2), None)
        return {"n": n, "replaced": [n] * n, **({"values": VALUES} if n == 3 else {})}

    chain = Chain("keeping", checkpointer=store).add_node("work", work)
    return chain.connect("work", "work", when=lambda state: state["n"] < 7, max_iterations=10)


KEEPING = {"n": 0, "log": [], "tree": {"deep": {}, "pad": "p" * 3000}}


def doubting(store, paid):
    """It pays, and asks a human where nobody knows whether it did."""
    pay = paying(paid, on_unknown="raise")
    return line("doubting", store, a=lambda _: {"a": 1}, b=lambda _: {"b": pay("b")})


def looping(store, _paid):
    """A cycle that never has enough: its bound trips at the sixth entry."""
    chain = Chain("looping", checkpointer=store).add_node("work", lambda state: {"n": state.get("n", 0) + 1})
    return chain.connect("work", "work", when=lambda _: True, max_iterations=5)


def nesting(store, paid):
    """A child that asks and then pays, between two nodes."""
    pay = paying(paid)
    child = line("child", None, x=lambda _: {"x": interrupt("in the child?").metadata}, y=lambda _: {"y": pay("y")})
    parent = Chain("nesting", checkpointer=store).add_node("p", lambda _: {"p": 1}).add_node("child", child)
    return parent.add_node("q", lambda _: {"q": 1}).connect("p", "child").connect("child", "q")


def breaking(store, paid):
    """Its second node raises until something was paid."""

    def b(_state):
        if not paid:
            raise ValueError(ODD)
        return {"b": 1}

    return line("breaking", store, a=lambda _: {"a": 1}, b=b)
