"""A child made by fork does its work, and ends by SIGKILL or `os._exit` only."""

from __future__ import annotations

import os
import signal

import pytest

from pytest_fastdur.faults import SweepError
from pytest_fastdur.forked import BROKEN, in_child, require_fork


def test_the_message_of_a_child_arrives_whole():
    death = in_child(lambda send: send(b"x" * 300_000))
    assert (death.status, death.signal, len(death.message)) == (0, None, 300_000)


def test_a_child_that_kills_itself_is_known_by_its_signal():
    def work(send):
        send(b"last words")
        os.kill(os.getpid(), signal.SIGKILL)

    death = in_child(work)
    assert (death.signal, death.message, str(death)) == (signal.SIGKILL, b"last words", "killed by SIGKILL")


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_what_a_child_raises_stays_in_it(error):
    def work(send):
        raise error("in the child")

    death = in_child(work)
    assert os.waitstatus_to_exitcode(death.status) == BROKEN
    assert f"{error.__name__}: in the child" in death.message.decode()
    assert str(death) == f"exit status {BROKEN}"


def test_a_child_does_not_outlive_an_interrupted_parent(monkeypatch):
    pids = []
    fork = os.fork

    def noted():
        pids.append(fork())
        return pids[-1]

    def interrupted(_reading, _size):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fork", noted)
    monkeypatch.setattr(os, "read", interrupted)
    with pytest.raises(KeyboardInterrupt):
        in_child(lambda send: signal.pause())
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_without_fork_a_kill_is_refused_and_says_what_is_left(monkeypatch):
    monkeypatch.delattr(os, "fork")
    with pytest.raises(SweepError, match="use crash, which is the same in process"):
        require_fork()
