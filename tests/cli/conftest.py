"""A store with runs in every state, and the command run on it, in this process or in its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from fastdur import Chain, Resume, SQLiteCheckpointer, cancel, idempotent, interrupt
from fastdur.cli import main

ROOT = Path(__file__).parents[2]


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def _no_store_from_outside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("FASTDUR_DB", "COLUMNS", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def fastdur_here(capsys):
    """The command in this process."""

    def command(*args):
        with pytest.raises(SystemExit) as done:
            main([str(each) for each in args])
        return Said(done.value.code or 0, *capsys.readouterr())

    return command


@pytest.fixture
def fastdur_apart(tmp_path):
    """The command as it is installed, in a process of its own, without a terminal."""

    def command(*args, **environment):
        program = Path(sys.executable).parent / "fastdur"
        done = subprocess.run(
            [program, *map(str, args)],
            capture_output=True,
            check=False,
            text=True,
            encoding="utf-8",
            stdin=subprocess.DEVNULL,
            cwd=tmp_path,
            env={**os.environ, **environment},
        )
        return Said(done.returncode, done.stdout, done.stderr)

    return command


@idempotent(name="pay")
def pay(amount):
    return f"paid {amount}"


def check(state):
    return {"checked": True}


def approve(state):
    answer = interrupt("over_limit", {"amount": state["amount"]})
    return {"approved": answer.approved}


def payout(state):
    if state.get("broke"):
        raise ValueError("no money\nleft")
    return {"receipt": pay(state["amount"])}


def refund(store):
    return (
        Chain("refund", store)
        .add_node("check", check)
        .add_node("approve", approve)
        .add_node("payout", payout)
        .connect("check", "approve")
        .connect("approve", "payout")
    )


def die(state):
    pay(1)
    os._exit(9)


@idempotent(name="charge")
def charge():
    os._exit(9)


def dies_in_an_effect(store):
    return Chain("charged", store).add_node("charge", lambda state: charge())


def doomed(store):
    return Chain("doomed", store).add_node("first", check).add_node("second", die).connect("first", "second")


@pytest.fixture
def store(tmp_path):
    """Runs that are completed, paused, failed, cancelled, and one whose process was killed in its second node."""
    made = SQLiteCheckpointer(tmp_path / "runs.db")
    chain = refund(made)
    chain.execute({"amount": 10}, "done")
    chain.resume("done", Resume(approved=True, metadata={"by": "ada"}))
    chain.execute({"amount": 20, "broke": True}, "broken")
    with pytest.raises(ValueError, match="no money"):
        chain.resume("broken", Resume(approved=True))
    chain.execute({"amount": 30}, "stopped")
    cancel("stopped", made)
    chain.execute({"amount": 40}, "waiting")
    dies_in_the_second_node(made, "dead")
    yield made
    made.close()


def dies_in_the_second_node(store, run=None):
    elsewhere(store, f"conftest.doomed(store).execute({{'amount': 50}}, {run!r})")


def elsewhere(store, statement):
    """A statement in a process of its own, which dies in it."""
    program = f"from fastdur import SQLiteCheckpointer\nfrom tests.cli import conftest\nstore = SQLiteCheckpointer({store.location!r})\n"
    done = subprocess.run([sys.executable, "-c", program + statement], check=False, cwd=ROOT)
    assert done.returncode == 9


def normal(text):
    """A text without what differs from run to run."""
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", "TIME", text)
    text = re.sub(r"process \d+", "process PID", text)
    return re.sub(r"\b\d+ (s|min)\b", "0 s", text)
