"""A fork server: each order is carried out by a fresh child that knows only what the order says.

    python -c 'from tests.cases._server import main; main()'

It reads orders from its standard input, forks once for each, and writes what came of it to its standard output. It has
one thread and opens no store, so a child starts with nothing but imported modules. Children end by `os._exit` or by a
signal.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from dataclasses import dataclass, field
from importlib import import_module
from signal import SIGKILL
from typing import Any

from tests.cases import _story
from tests.cases._opened import opened
from tests.cases._world import World


@dataclass
class Order:
    """One call in one process: `method` of the story's chain, on the store in `folder`."""

    folder: str
    story: str
    method: str
    args: tuple[Any, ...] = ()
    keywords: dict[str, Any] = field(default_factory=dict)
    flavour: str = "sync"
    die: str | None = None
    module: str = _story.__name__
    by: int = SIGKILL


@dataclass
class Came:
    """What came of an order: a result, or the name of the exception, its bases and its text; or a signal."""

    result: Any = None
    error: str | None = None
    bases: tuple[str, ...] = ()
    text: str = ""
    signal: int = 0

    def __getattr__(self, name):
        """The fields of the result."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.result, name)


def obey(order):
    """Carry out an order in this process."""
    world = World(order.folder, order.flavour, order.die, order.by)
    store = opened(order.folder)
    chain = getattr(import_module(order.module), order.story)(world, store)
    with world.watched():
        came = attempt(chain, order.method, order.flavour, *order.args, **order.keywords)
    store.close()
    return came


def attempt(chain, method, flavour, /, *args, **keywords):
    """What comes of a call."""
    try:
        return Came(call(chain, method, flavour, *args, **keywords))
    except Exception as error:
        names = tuple(cls.__qualname__ for cls in type(error).__mro__)
        return Came(None, names[0], names, str(error))


def call(chain, method, flavour, /, *args, **keywords):
    """A method of a chain, or its async form on a loop of its own."""
    if flavour == "sync":
        return getattr(chain, method)(*args, **keywords)

    async def main():
        return await getattr(chain, f"a{method}")(*args, **keywords)

    return asyncio.run(main())


def fork(order):
    """Carry out an order in a child; return what came of it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(obey(order), pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return Came(signal=os.WTERMSIG(status))
    return pickle.loads(told) if told else Came(error="Died", text=f"exit status {status}")


def alone():
    """Carry out one order in this process."""
    pickle.dump(obey(pickle.load(sys.stdin.buffer)), sys.stdout.buffer)


def main():
    orders, answers = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            order = pickle.load(orders)
        except EOFError:
            return
        pickle.dump(fork(order), answers)
        answers.flush()
