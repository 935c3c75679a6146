"""Processes that stand ready, and at one signal all make the same call. They are kept for all rounds.

    python -c 'from tests.cases._racers import main; main(8)'

They are made by a process that has one thread and nothing open. A racer knows only the store.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from contextlib import contextmanager

from pytest_fastdur.racers import Racers
from tests.cases import _story
from tests.cases._opened import opened
from tests.cases._server import attempt
from tests.cases._world import World
from tests.house.source import ROOT


def prepare():
    """What a racer does when an order comes: open the store and build the chain, once for each place and flavour."""
    chains = {}

    def ready(number, order):
        known = (order.folder, order.story, order.flavour)
        if known not in chains:
            world = World(order.folder, order.flavour)
            store = opened(order.folder)
            store.setup()
            chains[known] = getattr(_story, order.story)(world, store)
        return lambda: attempt(chains[known], order.method, order.flavour, *order.args, **order.keywords)

    return ready


def tell(pipe, what):
    pickle.dump(what, pipe)
    pipe.flush()


def main(number):
    """Fork the racers, then hand them one order after another and collect what came of each."""
    with Racers(number, prepare()) as racers:
        while True:
            try:
                order = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            tell(sys.stdout.buffer, [*racers.race(order)])


@contextmanager
def racing(number):
    """A function that hands one order to all racers and returns what came of each."""
    code = f"from tests.cases._racers import main; main({number})"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:

        def race(order):
            tell(process.stdin, order)
            return pickle.load(process.stdout)

        yield race
        process.stdin.close()
    assert process.returncode == 0
