"""Chains on a store, and what is left in it."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from itertools import pairwise

import pytest

from fastdur import Chain, SimulatedCrash, observe

WAIT = 30
"""Seconds after which whatever waits has hung."""


def flow(store, *nodes, name="c", **options):
    """A chain of these functions, one after another, each called by its name; `options` are those of the first node."""
    made = Chain(name, store)
    ids = [node.__name__ for node in nodes]
    for id, node in zip(ids, nodes, strict=True):
        made.add_node(id, node, **(options if id == ids[0] else {}))
    for edge in pairwise(ids):
        made.connect(*edge)
    return made


def last(state):
    """A node that does nothing."""


def dump(store, run="r"):
    """Everything the store has of a run."""
    return (
        store.get_execution(run),
        store.list(run),
        store.list_pending_interrupts(run),
        store.list_idempotent(run),
    )


def kinds(store, run="r"):
    return [(row.node_id, row.status) for row in store.list(run)]


def attempts(store, run="r"):
    """The records of the effects of a run, as name and status."""
    return [(record.name.rpartition(".")[2], record.status) for record in store.list_idempotent(run)]


async def turn():
    """Let everything else on the event loop go one step on."""
    loop = asyncio.get_running_loop()
    gone_on = loop.create_future()
    loop.call_soon(gone_on.set_result, None)
    await gone_on


class Gate:
    """Where somebody waits until the test lets it go on."""

    def __init__(self):
        self.reached, self.opened = threading.Event(), threading.Event()

    def __call__(self):
        self.reached.set()
        assert self.opened.wait(WAIT), "nobody opened the gate"


@contextmanager
def at(name, do, store=None):
    """Do something at a boundary, `after append a`, the first time it is reached; it must be reached."""
    seen = []

    def look(boundary):
        if str(boundary) == name and not seen:
            seen.append(name)
            do()

    with observe(look, store):
        yield
    assert seen, f"{name} was not reached"


def raising(error):
    """A function that raises."""

    def do(*_):
        raise error

    return do


def crashed(store, call, at):
    """Make a call, and die in process at the boundary whose text is `at`."""

    def strike(boundary):
        if str(boundary) == at:
            raise SimulatedCrash(at)

    with observe(strike, store), pytest.raises(SimulatedCrash):
        call()
