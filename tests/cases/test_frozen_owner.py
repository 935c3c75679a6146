"""An owner that freezes, is replaced, and wakes: a real process under SIGSTOP, on each store."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from fastdur import Resume, observe
from tests.cases import _story
from tests.cases._opened import another
from tests.cases._server import Order, attempt
from tests.cases.conftest import RUN
from tests.house.source import ROOT

IN_THE_WINDOW = ("after effect begin pay@b", "before effect pay@b")
"""From its record on an effect may happen, and no fence stands between a provider and a process that wakes there."""


class Frozen:
    """A process that stands still."""

    def __init__(self, process):
        self._process = process
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"it did not freeze: {status}"

    def thawed(self):
        """What comes of its call when it goes on."""
        os.kill(self._process.pid, signal.SIGCONT)
        return pickle.load(self._process.stdout)


@contextmanager
def frozen(here, story, at, method="execute", *args):
    """A process that carries out a call and freezes at an instant."""
    order = Order(str(here.folder), story, method, args or ({}, RUN), die=at, by=signal.SIGSTOP, flavour=here.flavour)
    code = "from tests.cases._server import alone; alone()"
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            pickle.dump(order, process.stdin)
            process.stdin.close()
            yield Frozen(process)
        finally:
            process.kill()


def instants(here, story):
    """Every instant of the run of a story after its start, as the engine passes them."""
    passed = []
    with observe(lambda boundary: passed.append(str(boundary))):
        here.build(story)
        here("execute", {}, "counted")
    return passed[passed.index("after start") :]


def rescued(here, story):
    """Another process, whose clock says that the owner's lease has run out, carries the run on."""
    other = another(here.store)
    other.clock_offset = 31
    (found,) = attempt(getattr(_story, story)(here.world, other), "recover", here.flavour).result
    other.close()
    return found.result


@pytest.mark.case("S07")
def test_an_owner_that_freezes_anywhere_and_is_replaced_writes_nothing_when_it_wakes(here):
    """Wrong: a write or an effect that does not look at its claim."""
    for number, at in enumerate(instants(here, "three")):
        with frozen(here, "three", at, "execute", {}, f"f-{number}") as owner:
            done = here.store.get_execution(f"f-{number}").status == "completed"
            if not done:
                assert rescued(here, "three").status == "completed", at
            marks, after = here.marks, here.dump()
            came = owner.thawed()
        assert here.dump() == after, at
        assert (came.error, came.status if done else None) == ((None, "completed") if done else ("StaleRun", None)), at
        paid = [mark for mark in here.marks[len(marks) :] if mark.startswith("pay")]
        assert paid == (["pay b"] if at in IN_THE_WINDOW else []), at


def test_each_further_effect_of_an_owner_that_was_replaced_is_refused(here):
    """Wrong: a fence that stands once, or a record that is begun under a claim of the past."""
    with frozen(here, "stubborn", "before effect begin pay@b") as owner:
        assert rescued(here, "stubborn").status == "completed"
        marks, after = here.marks, here.dump()
        assert owner.thawed().error == "StaleRun"
    assert here.marks[len(marks) :] == [f"StaleRun for {what}" for what in "xxyz"]
    assert here.dump() == after


def test_an_owner_that_freezes_before_it_asks_asks_nothing_when_it_wakes(here):
    """Wrong: a pause that is no write under a claim, and so a question that nobody waits for."""
    with frozen(here, "asking", "before pause b") as owner:
        assert rescued(here, "asking").status == "paused"
        here.build("asking")
        assert here("resume", RUN, Resume(approved=True)).status == "completed"
        after = here.dump()
        assert owner.thawed().error == "StaleRun"
    assert here.dump() == after


def test_who_freezes_with_an_answer_in_hand_finds_the_question_answered(here):
    """Wrong: a claim of a question that goes by what was read before."""
    here.build("asking")
    assert here("execute", {}, RUN).status == "paused"
    answer = Resume(approved=True)
    with frozen(here, "asking", "before claim interrupt b", "resume", RUN, answer) as late:
        assert here("resume", RUN, Resume(approved=False)).status == "completed"
        after = here.dump()
        assert late.thawed().error == "AlreadyResumed"
    assert here.dump() == after
