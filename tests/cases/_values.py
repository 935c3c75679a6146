"""Values that are easily lost on their way through a store, and chains that put them there.

Each chain stores something in `put`, loses its process, and says in `look` what it finds.
"""

from __future__ import annotations

import threading
from enum import Enum, IntEnum, StrEnum

from fastdur import Chain, interrupt, storable


class Order:
    """A class that has an enum inside."""

    @storable
    class State(Enum):
        OPEN = 1
        PAID = 2


@storable
class Colour(StrEnum):
    RED = "red"


@storable
class Level(IntEnum):
    LOW = 1


class Unregistered(StrEnum):
    RED = "red"


class UnregisteredLevel(IntEnum):
    LOW = 1


class Nested:
    class Unregistered(Enum):
        OPEN = 1


def local():
    """An instance of a class that no other process can find."""

    class Local(Enum):
        ONE = 1

    return Local.ONE


KEPT = {"nested": Order.State.PAID, "text": Colour.RED, "number": Level.LOW, "many": [Level.LOW, {"c": Colour.RED}]}
REFUSED = {
    "nested": Nested.Unregistered.OPEN,
    "text": Unregistered.RED,
    "number": UnregisteredLevel.LOW,
    "local": local(),
    "lock": threading.Lock(),
    "generator": (number for number in range(3)),
    "deep": [{"k": (1, threading.Lock())}],
}


def kept(world, store):
    chain = Chain("kept", checkpointer=store).add_node("put", world.step("put", does=lambda _: KEPT))
    return chain.add_node("look", world.step("look", does=look)).connect("put", "look")


def look(state):
    return {
        "equal": {key: state[key] == value for key, value in KEPT.items()},
        "types": [type(state["nested"]).__qualname__, type(state["text"]).__name__, type(state["number"]).__name__],
        "members": state["nested"] is Order.State.PAID and state["many"][0] is Level.LOW,
    }


def no_good(name):
    """A chain whose node returns a value that no store keeps, until it is mended."""

    def build(world, store):
        bad = lambda _: {"fine": 1, "bad": REFUSED[name]} if world.broken("value") else {}  # noqa: E731
        chain = Chain(f"no good {name}", checkpointer=store).add_node("put", world.step("put", does=bad))
        return chain.add_node("look", world.step("look")).connect("put", "look")

    return build


globals().update({f"no_good_{name}": no_good(name) for name in REFUSED})


def bad_context(world, store):
    """Its question shows a lock, until it is mended."""

    def plain(_state):
        world.mark("ask")
        interrupt("ok?", {"shown": {"lock": threading.Lock() if world.broken("context") else None}})

    async def awaited(state):
        return plain(state)

    chain = Chain("bad context", checkpointer=store).add_node("ask", awaited if world.flavour == "async" else plain)
    return chain.add_node("after", world.step("after")).connect("ask", "after")


def odd_error(world, store):
    """Its node raises, until it is mended, an exception of which no other process knows the class."""

    def init(self, code, *, reason):
        Exception.__init__(self, f"{code}: {reason}")

    odd = type("Odd", (Exception,), {"__init__": init, "__module__": f"module_of_{world.folder.name}"})

    def bad(_state):
        if world.broken("value"):
            raise odd(7, reason="no funds")
        return {}

    return Chain("odd", checkpointer=store).add_node("put", world.step("put", does=bad))
