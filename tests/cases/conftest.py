"""What the cases share: a store, a world beside it, and processes to work on both."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from contextlib import contextmanager
from importlib import import_module
from signal import SIGKILL

import pytest

from tests.cases import _story
from tests.cases._dump import dump
from tests.cases._opened import BACKENDS, on_postgres, opened
from tests.cases._server import Came, Order, attempt, call
from tests.cases._world import FLAVOURS, WAIT, Gate, World
from tests.house.source import ROOT

RUN = "r-1"


@pytest.fixture(scope="session")
def server():
    """Carries out orders, each in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from tests.cases._server import main; main()"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:

        def order(order: Order) -> Came:
            pickle.dump(order, process.stdin)
            process.stdin.flush()
            return pickle.load(process.stdout)

        yield order
        process.stdin.close()


class Held:
    """A run that stands inside a node, in a thread of this process."""

    def __init__(self, world, mark, run):
        self.gate = world.gates[mark] = Gate()
        self.came = None
        self._run = run
        self._thread = threading.Thread(target=self._go)

    def _go(self):
        self.came = self._run()

    def join(self):
        self._thread.join(WAIT)

    @contextmanager
    def standing(self):
        self._thread.start()
        try:
            assert self.gate.reached.wait(WAIT)
            yield self
        finally:
            self.gate.opened.set()
            self._thread.join(WAIT)
        assert not self._thread.is_alive()


class Play:
    """A story played by fresh processes; what is between two calls is only the store and the world's ledger."""

    def __init__(self, server, folder, flavour):
        self.server, self.folder, self.flavour = server, folder, flavour
        self.world = World(folder, flavour)
        self.story = None
        self.module = _story.__name__

    def __call__(self, method, *args, die=None, story=None, **keywords):
        """Call a method of the story's chain in a fresh process."""
        order = Order(str(self.folder), story or self.story, method, args, keywords, self.flavour, die, self.module)
        came = self.server(order)
        assert came.error != "Died", came.text
        if die is not None:
            assert came.signal == SIGKILL, f"did not die at {die!r}: {came}"
        return came

    def start(self, story, given=None, run=RUN, **keywords):
        self.story = story
        return self("execute", given or {}, run, **keywords)

    def resume(self, *args, run=RUN, **keywords):
        return self("resume", run, *args, **keywords)

    @contextmanager
    def store(self, **keywords):
        """The store, opened here."""
        store = opened(self.folder, **keywords)
        try:
            yield store
        finally:
            store.close()

    def here(self, store):
        """The chain of the story, built in this process."""
        return getattr(_story, self.story)(self.world, store)

    @contextmanager
    def held(self, story, mark, run=RUN, given=None):
        """A run owned by this process, standing inside a node; `play` calls come from other processes."""
        self.story = story
        world = World(self.folder, self.flavour)
        with self.store() as store:
            chain = getattr(import_module(self.module), story)(world, store)
            begin = ("execute", self.flavour, given or {}, run)
            with Held(world, mark, lambda: attempt(chain, *begin)).standing() as held:
                yield held

    def read(self, name, *args, **keywords):
        """What a method of the store gives."""
        with self.store() as store:
            return getattr(store, name)(*args, **keywords)

    def rows(self, run=RUN):
        return self.read("list", run)

    def path(self, run=RUN):
        """The addresses of the nodes that have committed, in order."""
        return [row.node_id for row in self.rows(run) if row.step_type == "node"]

    def pending(self, run=RUN):
        return self.read("list_pending_interrupts", run)

    def head(self, run=RUN):
        return self.read("get_execution", run)

    def dump(self):
        return dump(self.folder)

    @property
    def marks(self):
        return self.world.marks()


@pytest.fixture
def play(request, server, stored):
    """A story, once with the sync calls and once with the async ones."""
    return Play(server, stored, request.param)


def pytest_generate_tests(metafunc):
    backends = getattr(metafunc.function, "backends", BACKENDS)
    if {"play", "backend"} <= set(metafunc.fixturenames):  # the engine's two drivers are the same whatever the store
        both = [("sqlite", "sync"), ("sqlite", "async"), ("postgres", "sync")]
        metafunc.parametrize(("backend", "play"), [pair for pair in both if pair[0] in backends], indirect=["play"])
    elif "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", backends)


@pytest.fixture
def stored(backend, request, tmp_path):
    """A folder whose stories are kept on this backend."""
    if backend == "sqlite":
        yield tmp_path
        return
    database = request.getfixturevalue("fastdur_postgres")
    with database.schemas() as fresh:
        on_postgres(tmp_path, database.dsn, fresh())
        yield tmp_path


@pytest.fixture
def store(stored):
    """A store, for what happens in this process."""
    store = opened(stored)
    yield store
    store.close()


@pytest.fixture
def world(stored):
    return World(stored)


class Here:
    """A story played in this process, in one flavour."""

    def __init__(self, store, folder, flavour):
        self.store, self.flavour, self.world = store, flavour, World(folder, flavour)
        self.folder, self.file = folder, folder / "runs.db"
        self.chain = None

    def build(self, story):
        self.chain = getattr(_story, story)(self.world, self.store)
        return self.chain

    def __call__(self, method, *args, **keywords):
        return call(self.chain, method, self.flavour, *args, **keywords)

    def held(self, story, mark, run=RUN):
        """A run owned by this process, standing inside a node."""
        self.build(story)
        return self.holding(mark, "execute", {}, run)

    def holding(self, mark, method, *args, **keywords):
        """A call that stands inside a node."""
        return Held(self.world, mark, lambda: attempt(self.chain, method, self.flavour, *args, **keywords)).standing()

    def dump(self):
        return dump(self.folder)

    @property
    def marks(self):
        return self.world.marks()


@pytest.fixture(params=FLAVOURS)
def here(request, store, stored):
    """A story in this process: sync, async, and async calls on plain functions."""
    return Here(store, stored, request.param)


def together(*calls):
    """What came of several calls made at one moment, each in a thread."""
    barrier = threading.Barrier(len(calls))
    came = []

    def go(call):
        barrier.wait()
        came.append(call())

    threads = [threading.Thread(target=go, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return came
