"""A child of the fork server does its work, and ends by SIGKILL or `os._exit` only."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from pytest_fastdur.faults import SweepError
from pytest_fastdur.forked import BROKEN, ForkServer, require_fork
from pytest_fastdur.postgres import alive


def test_the_message_of_a_child_arrives_whole():
    with ForkServer(lambda order, send: send(order * 100_000)) as server:
        death = server.run(b"xyz")
    assert (death.status, death.signal, len(death.message)) == (0, None, 300_000)


def test_a_child_that_kills_itself_is_known_by_its_signal_and_the_next_one_works():
    def work(order, send):
        send(order)
        if order == b"die":
            os.kill(os.getpid(), signal.SIGKILL)

    with ForkServer(work) as server:
        death = server.run(b"die")
        assert (death.signal, death.message, str(death)) == (signal.SIGKILL, b"die", "killed by SIGKILL")
        assert server.run(b"live").status == 0


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_what_a_child_raises_stays_in_it(error):
    def work(order, send):
        raise error("in the child")

    with ForkServer(work) as server:
        death = server.run(b"x")
    assert os.waitstatus_to_exitcode(death.status) == BROKEN
    assert f"{error.__name__}: in the child" in death.message.decode()
    assert str(death) == f"exit status {BROKEN}"


def test_a_server_has_one_thread_and_its_children_know_nothing_of_what_came_after_it():
    seen = []

    def work(order, send):
        send(f"{threading.active_count()} {seen}".encode())

    end = threading.Event()
    other = threading.Thread(target=end.wait)
    other.start()
    with ForkServer(work) as server:
        seen.append("new")
        message = server.run(b"x").message
    end.set()
    other.join()
    assert message == b"1 []"


def test_what_the_server_prepares_its_children_see():
    prepared = []
    with ForkServer(lambda order, send: send(str(prepared).encode()), prepared.append) as server:
        server.run(b"a")
        assert server.run(b"b").message == b"[b'a', b'b']"
    assert prepared == []


def test_neither_child_nor_server_outlives_an_interrupted_parent(monkeypatch, tmp_path):
    note = tmp_path / "pids"
    with ForkServer(lambda order, send: (note.write_text(f"{os.getpid()} {os.getppid()}"), signal.pause())) as server:
        read = server._file.read
        frames = []

        def interrupted(size):
            frames.append(size)
            if len(frames) > 2:  # the child is known
                while not note.exists() or " " not in note.read_text():
                    os.sched_yield()
                raise KeyboardInterrupt
            return read(size)

        monkeypatch.setattr(server, "_file", Answering(server._file, interrupted))
        with pytest.raises(KeyboardInterrupt):
            server.run(b"x")
    child, parent = map(int, note.read_text().split())
    with pytest.raises(ProcessLookupError):
        os.kill(parent, 0)
    while alive(child):
        os.sched_yield()


class Answering:
    def __init__(self, file, read):
        self.write, self.flush, self.read = file.write, file.flush, read


def test_without_fork_a_kill_is_refused_and_says_what_is_left(monkeypatch):
    monkeypatch.delattr(os, "fork")
    with pytest.raises(SweepError, match="use crash, which is the same in process"):
        require_fork()
