"""Processes that stand ready, and at one signal all make the same call. They are kept for all rounds.

    python -c 'from tests.cases._racers import main; main(8)'

Each racer opens the store and builds its chain when an order comes, says that it is ready, and waits for one byte of a
pipe that all of them read. A racer knows only the store.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from contextlib import contextmanager

from tests.cases import _story
from tests.cases._opened import opened
from tests.cases._server import attempt
from tests.cases._world import World
from tests.house.source import ROOT


def racer(orders, answers, go):
    """Obey orders until there are none."""
    chains = {}
    while True:
        try:
            order = pickle.load(orders)
        except EOFError:
            os._exit(0)
        known = (order.folder, order.story, order.flavour)
        if known not in chains:
            world = World(order.folder, order.flavour)
            store = opened(order.folder)
            store.setup()
            chains[known] = getattr(_story, order.story)(world, store)
        tell(answers, "ready")
        os.read(go, 1)
        tell(answers, attempt(chains[known], order.method, order.flavour, *order.args, **order.keywords))


def tell(pipe, what):
    pickle.dump(what, pipe)
    pipe.flush()


def main(number):
    """Fork the racers, then hand them one order after another and collect what came of each."""
    go, start = os.pipe()
    racers = []
    for _ in range(number):
        (orders, order_to), (answers, answer_to) = os.pipe(), os.pipe()
        if os.fork() == 0:
            for far, near in racers:
                far.close()
                near.close()
            for descriptor in (order_to, answers, start):
                os.close(descriptor)
            racer(os.fdopen(orders, "rb"), os.fdopen(answer_to, "wb"), go)
        os.close(orders)
        os.close(answer_to)
        racers.append((os.fdopen(order_to, "wb"), os.fdopen(answers, "rb")))
    while True:
        try:
            order = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        for far, _ in racers:
            tell(far, order)
        for _, near in racers:
            pickle.load(near)
        os.write(start, b"!" * number)
        tell(sys.stdout.buffer, [pickle.load(near) for _, near in racers])


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
