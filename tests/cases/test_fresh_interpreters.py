"""A few of the cases once more with interpreters that were really started for it, each with its own hash seed."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from signal import SIGKILL

import pytest

from fastdur import Resume
from tests.cases import _values
from tests.cases._server import Came
from tests.cases.conftest import Play
from tests.house.source import ROOT

CODE = """
import pickle, sys
from tests.cases._server import obey
pickle.dump(obey(pickle.load(sys.stdin.buffer)), sys.stdout.buffer)
"""


@pytest.fixture(params=["sync", "async"])
def play(request, tmp_path):
    seeds = iter(range(1, 100))

    def spawn(order):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", CODE],
            input=pickle.dumps(order),
            capture_output=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": str(next(seeds))},
            check=False,
        )
        assert done.stderr == b""
        return Came(signal=SIGKILL) if done.returncode == -SIGKILL else pickle.loads(done.stdout)

    return Play(spawn, tmp_path, request.param)


@pytest.mark.case("S22")
@pytest.mark.case("S17")
def test_a_run_that_pauses_and_is_killed_twice_is_finished_by_the_fourth_interpreter(play):
    """Wrong: anything that the next process needs and the store has not got; an effect key with a hash in it."""
    play.start("paying_and_asking")
    play.resume(Resume(approved=True, metadata={"k": [1, None]}), die="before append b")
    play.resume(die="before append c")
    done = play.resume()
    assert (done.status, done.final_state["b said"]) == ("completed", [[True, {"k": [1, None]}]])
    assert play.marks == ["a", "b", "pay b", "b", "b", "c", "pay c", "c"]
    assert play.resume().error == "AlreadyResumed"


@pytest.mark.case("S32")
def test_registered_enums_come_back_in_another_interpreter(play):
    play.module = _values.__name__
    play.start("kept", die="after append put")
    done = play.resume()
    assert done.final_state["equal"] == dict.fromkeys(_values.KEPT, True)
    assert done.final_state["members"] is True


@pytest.mark.case("S48")
def test_a_pause_three_levels_down_is_answered_in_another_interpreter(play):
    """Wrong: levels that are found by object instead of by place."""
    play.start("asking_thrice")
    for number in range(3):
        done = play.resume(Resume(approved=True, metadata=number))
    assert done.final_state["y said"] == [[True, 0], [True, 1], [True, 2]]
    assert play.world.count("o") == play.world.count("m") == play.world.count("x") == 1
