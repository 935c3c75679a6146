"""A storage fault is the caller's error, never a step's result: nothing starts after it, and a resume completes the run."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from functools import partial

import pytest

from fastdur import (
    Chain,
    Inject,
    NotStorable,
    Resume,
    SimulatedCrash,
    SQLiteCheckpointer,
    StoreUnavailable,
    interrupt,
    observe,
)
from tests.cases import _story
from tests.cases._opened import another, on_a_server, on_files
from tests.cases._server import attempt
from tests.cases._world import World
from tests.cases.conftest import Play

YES = Resume(approved=True, metadata={"by": "ada"})
WRITES = ("start", "claim", "append", "pause", "effect begin", "effect end")
METHODS = (
    "start_execution",
    "claim_execution",
    "delete_pending_interrupt_atomic",
    "put",
    "record_interrupt",
    "begin_idempotent",
    "put_idempotent",
    "release",
)


class Fault:
    """Something that goes wrong at the k-th write, before it or after it."""

    def __init__(self, world, number, when, *, lasting=False):
        self.world, self.left, self.when, self.lasting = world, number, when, lasting
        self.at = self.marks = None

    def comes(self, name):
        """Whether it comes now; it notes what had happened by then."""
        self.left -= 1
        if self.left == 0:
            self.at, self.marks = name, self.world.marks()
        return self.left == 0 or (self.lasting and self.left < 0)


@contextmanager
def at_a_boundary(store, fault):
    """The engine is told that the store did not answer."""

    def observer(boundary):
        if boundary.when == fault.when and boundary.name.startswith(WRITES) and fault.comes(boundary.name):
            raise Inject(StoreUnavailable("it does not answer"))

    with observe(observer, store):
        yield store


def faulty(method, name, fault):
    def fails(*args, **keywords):
        comes = fault.comes(name)
        if comes and fault.when == "before":
            raise StoreUnavailable("it does not answer")
        answer = method(*args, **keywords)
        if comes:
            raise StoreUnavailable("its answer was lost")
        return answer

    return fails


@contextmanager
def in_the_store(store, fault):
    """The store raises, and has written (`after`) or not (`before`)."""
    failing = another(store, durability="normal")
    for name in METHODS:
        setattr(failing, name, faulty(getattr(failing, name), name, fault))
    yield failing
    failing.close()


def fresh(_go, run):
    return "execute", {}, run


def crashed(go, run):
    def die(boundary):
        if str(boundary) == "after append a":
            raise SimulatedCrash

    if isinstance(go, Play):
        go.start(go.story, run=run, die="after append a")
    else:
        with observe(die), pytest.raises(SimulatedCrash):
            go("execute", {}, run)
    return "resume", run


def paused(go, run):
    go("execute", {}, run)
    return "resume", run, YES


SCENARIOS = {
    "a run": ("three", fresh),
    "a run to its pause": ("paying_and_asking", fresh),
    "a run that catches what it can": ("catching", fresh),
    "a resume": ("three", crashed),
    "a resume to the pause": ("paying_and_asking", crashed),
    "an answer": ("paying_and_asking", paused),
    "an answer to the first of two": ("asking_twice", paused),
}


def heal(go, run, *, started):
    """Finish the run without faults."""
    came = go("resume", run) if started else go("execute", {}, run)
    for _ in range(2):
        if came.error == "ChainResumeError" or (came.error is None and came.status == "paused"):
            came = go("resume", run, YES)
    assert came.error in (None, "AlreadyResumed"), came


@on_files
@pytest.mark.case("S67")
@pytest.mark.parametrize(
    ("flavour", "lasting"), [("sync", False), ("async", False), ("threads", False), ("sync", True), ("async", True)]
)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("where", [at_a_boundary, in_the_store])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_whichever_write_fails_no_later_node_starts_and_a_resume_completes_the_run(
    server, stored, flavour, scenario, where, when, lasting
):
    """Wrong: the error as the node's failure (a failed marker), as text for the node to catch, a completed result
    behind a write that failed, or a claim that nobody can get past."""
    each_write_fails(server, stored, flavour, scenario, where, when, lasting)


@on_a_server
@pytest.mark.case("S67")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("where", [at_a_boundary, in_the_store])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_whichever_write_to_a_server_fails_no_later_node_starts_and_a_resume_completes_the_run(
    server, stored, scenario, where, when
):
    """Wrong: as above."""
    each_write_fails(server, stored, "sync", scenario, where, when, lasting=False)


def each_write_fails(server, stored, flavour, scenario, where, when, lasting):
    story, reach = SCENARIOS[scenario]
    in_children = flavour == "sync" and not lasting
    play, world = Play(server, stored, flavour), World(stored, flavour)
    play.story = story
    with play.store(durability="normal") as store:
        chain = play.here(store)
        here = partial(attempt_here, chain, flavour)
        for number in range(1, 100):
            run, past = f"r-{number}", len(world.marks())
            call = reach(play if in_children else here, run)
            rows = store.list(run)
            fault = Fault(world, number, when, lasting=lasting)
            with where(store, fault) as failing:
                came = attempt(getattr(_story, story)(world, failing), call[0], flavour, *call[1:])
            if fault.at is None:
                assert came.error is None
                break
            note = f"{when} {fault.at}"
            assert fault.at == "release" or "StoreError" in came.bases, note
            assert world.marks() == fault.marks, note
            head = store.get_execution(run)
            assert head is None or head.status != "failed", note
            assert store.list(run)[: len(rows)] == rows, note
            # A claim that this process does not know of is held until its lease runs out or the process ends.
            kept = where is in_the_store and when == "after" and fault.at in METHODS[:3]
            heal(play if in_children and not kept else here, run, started=head is not None)
            done = chain.result(run)
            assert (done.status, done.final_state["path"]) == ("completed", ["a", "b", "c"]), note
            assert "failed" not in [row.status for row in store.list(run)], note
            again = when == "before" and fault.at.startswith(("effect end", "put_idempotent"))
            marks = world.marks()[past:]
            assert max(marks.count(mark) for mark in marks if mark.startswith("pay")) <= 1 + again, note
    assert number > 2


def attempt_here(chain, flavour, method, *args):
    return attempt(chain, method, flavour, *args)


@pytest.mark.parametrize("big", ["state", "question"])
def test_a_value_longer_than_the_file_takes_fails_its_node_and_the_run_goes_on_after_a_fix(tmp_path, big):
    """Wrong: a call that ends without a marker, and a run that nobody can tell from one that is being worked on."""
    store, length = SQLiteCheckpointer(tmp_path / "s.db"), [20_000]

    def grow(_):
        text = "x" * length[0]
        if big == "question":
            interrupt("ok?", text)
        return {"text": text}

    chain = Chain("c", store).add_node("small", lambda _: {"n": 1}).add_node("grow", grow).connect("small", "grow")
    store.setup()
    store._kept.writer.driver.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10_000)
    with pytest.raises(NotStorable, match="longer than"):
        chain.execute({}, "r")
    assert (chain.result("r").status, chain.result("r").pending_interrupts) == ("failed", ())
    assert store.list_executions()[0].token is None
    length[0] = 10
    done = chain.resume("r")
    assert done.status == ("paused" if big == "question" else "completed")
    store.close()
