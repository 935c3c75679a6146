"""Who owns a run, whether that owner is still there, and the renewal of the leases of this process."""

import os
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace

import psutil
import pytest

from fastdur import SQLiteCheckpointer, StoreUnavailable, _owner
from fastdur._owner import Calls, at_work, calls, is_alive, me
from fastdur.checkpointers.protocol import Start
from fastdur.records import Claim
from tests.unit.by_hand import head
from tests.unit.running import WAIT

# -- is it alive? --------------------------------------------------------------------------------------------------------


def owner_of(pid, started=None):
    place = me().rsplit(":", 2)[0]
    return f"{place}:{pid}:{_owner._started(pid) if started is None else started}"


@pytest.fixture
def child():
    """A process that lives until its standard input is closed."""
    made = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    yield made
    made.stdin.close()
    made.wait(WAIT)


def end(child):
    """End a process and see it dead without reaping it: it is a zombie then."""
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)


@pytest.fixture(autouse=True)
def own_name():
    """This process is named anew after each test, whatever the test made it read."""
    yield
    _owner._identity.pid = -1


@pytest.fixture
def without_procfs(own_name, monkeypatch):
    """A platform where psutil tells."""
    monkeypatch.setattr(_owner.sys, "platform", "darwin")
    _owner._identity.pid = -1


@pytest.fixture(params=["procfs", "psutil"])
def source(request):
    """Where it is read whether a process lives."""
    if request.param == "psutil":
        request.getfixturevalue("without_procfs")


def test_this_process_is_named_by_boot_namespace_pid_and_start(source):
    boot, namespace, pid, started = me().split(":")
    assert int(pid) == os.getpid()
    assert float(started) > 0
    assert boot
    assert namespace
    assert me() is me()


def test_a_process_that_lives_is_alive_and_is_no_longer_once_it_is_gone(source, child):
    owner = owner_of(child.pid)
    assert is_alive(owner, "token")
    child.stdin.close()
    child.wait(WAIT)
    assert not is_alive(owner, "token")


def test_a_process_that_ended_and_was_not_reaped_is_gone(source, child):
    owner = owner_of(child.pid)
    end(child)
    assert not is_alive(owner, "token")


def test_another_process_under_the_same_pid_is_not_the_owner(source, child):
    assert not is_alive(owner_of(child.pid, "1"), "token")


def test_an_owner_whose_start_could_not_be_read_counts_as_alive_while_its_pid_lives(source, child):
    owner = owner_of(child.pid, "?")
    assert is_alive(owner, "token")
    child.stdin.close()
    child.wait(WAIT)
    assert not is_alive(owner, "token")


@pytest.mark.parametrize("owner", ["", "x", "boot:1:2:3", "boot:ns:x:3", ":::", "a:b:c"])
def test_an_owner_of_another_boot_or_namespace_or_unreadable_counts_as_alive(source, owner):
    assert is_alive(owner, "token")


def test_a_pid_that_is_no_number_counts_as_alive():
    assert is_alive(owner_of("x", "1"), "token")


def test_a_process_that_cannot_be_read_counts_as_alive(monkeypatch, child):
    owner = owner_of(child.pid)
    read, hidden = _owner._read, f"/proc/{child.pid}/stat"
    monkeypatch.setattr(_owner, "_read", lambda path: None if path == hidden else read(path))
    assert is_alive(owner, "token")
    assert not is_alive(owner_of(2**22 + 1, "1"), "token")


def test_without_a_readable_procfs_nothing_counts_as_gone(monkeypatch):
    owner = owner_of(2**22 + 1, "1")
    assert not is_alive(owner, "token")
    monkeypatch.setattr(_owner, "_read", lambda path: None)
    assert is_alive(owner, "token")


def test_a_process_that_psutil_may_not_look_at_counts_as_alive(without_procfs, monkeypatch, child):
    owner = owner_of(child.pid)

    def denied(self):
        raise psutil.AccessDenied(self.pid)

    monkeypatch.setattr(psutil.Process, "status", denied)
    assert is_alive(owner, "token")


def test_without_a_boot_id_the_time_of_the_boot_tells_boots_apart(monkeypatch):
    read = _owner._read
    with_id = _owner._boot()
    monkeypatch.setattr(_owner, "_read", lambda path: None if "boot_id" in path else read(path))
    assert _owner._boot() == f"{psutil.boot_time():.0f}" != with_id


def test_without_namespaces_the_namespace_is_left_out(monkeypatch):
    def missing(path):
        raise FileNotFoundError(path)

    monkeypatch.setattr(_owner.os, "readlink", missing)
    assert _owner._namespace() == "-"


def test_a_file_that_is_not_there_reads_as_nothing(tmp_path):
    assert _owner._read(str(tmp_path / "gone")) is None


# -- the reading of a head -----------------------------------------------------------------------------------------------


def test_a_run_is_at_work_while_its_claim_its_lease_and_its_owner_live(child):
    live = head(token="t", owner=owner_of(child.pid), lease_live=True)
    assert at_work(live)
    assert not at_work(replace(live, token=None))
    assert not at_work(replace(live, lease_live=False))
    assert not at_work(replace(live, owner=owner_of(child.pid, "1")))
    assert at_work(replace(live, owner=None))


def test_in_this_process_a_claim_is_alive_while_a_call_under_it_is_in_progress():
    mine = head(token="t", owner=me(), lease_live=True)
    assert not at_work(mine)
    calls.expect("t")
    assert at_work(mine)
    calls.settle("t")
    assert not at_work(mine)


# -- the renewal ---------------------------------------------------------------------------------------------------------


class Renewing(SQLiteCheckpointer):
    """A store that tells of each renewal."""

    def __init__(self, **options):
        super().__init__(":memory:", **options)
        self.renewed, self.renewals = threading.Semaphore(0), []
        self.fails = False

    def renew(self, claims):
        if self.fails:
            self.fails = False
            self.renewed.release()
            raise StoreUnavailable("down")
        super().renew(claims)
        self.renewals.append([claim.execution_id for claim in claims])
        self.renewed.release()

    def wait(self, times=1):
        for _ in range(times):
            assert self.renewed.acquire(timeout=WAIT), "nobody renewed"


def claim_on(store, run="r"):
    return store.start_execution(Start(run, "c", "chain", {}, {}, f"token of {run}", me()))


def claim_on_nothing(run):
    return Claim(run, 99, 1, "no token", 0)


@pytest.fixture
def own():
    """Calls of its own, whose thread ends when nothing is in progress."""
    return Calls()


def ended(own, thread):
    own._wake.set()
    thread.join(WAIT)
    return not thread.is_alive()


def test_the_leases_of_all_calls_in_progress_are_renewed_every_third_of_a_lease_by_one_thread(own):
    store, other = Renewing(lease=0.03), Renewing(lease=0.03)
    claims = [claim_on(store, run) for run in "ab"] + [claim_on(other, "c")]
    for claim, where in zip(claims, (store, store, other), strict=True):
        own.enter(where, claim)
    thread = own._thread
    store.wait(3)
    other.wait(3)
    assert own._thread is thread
    assert store.renewals[-1] == ["a", "b"]
    assert other.renewals[-1] == ["c"]
    assert store.get_execution("a").lease_live
    for claim in claims:
        own.leave(claim.token)
    assert ended(own, thread)
    assert own._thread is None
    store.close()
    other.close()


def test_a_lease_that_is_no_longer_renewed_runs_out(own):
    store = Renewing(lease=0.03)
    claim = claim_on(store)
    own.enter(store, claim)
    store.wait()
    own.leave(claim.token)
    store.clock_offset += 1
    assert not store.get_execution("r").lease_live
    own._wake.set()
    store.close()


def test_a_store_that_cannot_renew_is_asked_again_and_does_not_keep_the_others_waiting(own):
    store, other = Renewing(lease=0.03), Renewing(lease=0.03)
    store.fails = True
    own.enter(store, claim_on(store, "a"))
    own.enter(other, claim_on(other, "b"))
    store.wait(2)
    other.wait(1)
    assert store.renewals
    thread = own._thread
    own.leave("token of a")
    own.leave("token of b")
    assert ended(own, thread)
    store.close()
    other.close()


def test_a_store_that_somebody_keeps_locked_does_not_keep_the_leases_of_others_from_being_renewed(own, tmp_path):
    stuck, other = SQLiteCheckpointer(tmp_path / "stuck.db", lease=0.03), Renewing(lease=0.03)
    own.enter(stuck, claim_on(stuck, "a"))
    lock = sqlite3.connect(stuck.location, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    own.enter(other, claim_on(other, "b"))
    other.wait(5)  # a renewal that waited for the lock would come to no other store for a minute
    with pytest.raises(StoreUnavailable, match="busy"):
        stuck.renew([claim_on_nothing("a")])
    lock.execute("ROLLBACK")
    lock.close()
    thread = own._thread
    own.leave("token of a")
    own.leave("token of b")
    assert ended(own, thread)
    stuck.close()
    other.close()


def test_a_shorter_lease_wakes_the_thread_that_waits_for_a_longer_one(own):
    long, short = Renewing(lease=3 * WAIT), Renewing(lease=0.03)
    own.enter(long, claim_on(long, "a"))
    thread = own._thread
    own.enter(short, claim_on(short, "b"))
    short.wait(2)
    own.leave("token of a")
    own.leave("token of b")
    assert ended(own, thread)
    long.close()
    short.close()


def test_a_call_after_an_idle_time_is_renewed_by_a_new_thread(own):
    store = Renewing(lease=0.03)
    first = claim_on(store, "a")
    own.enter(store, first)
    thread = own._thread
    own.leave(first.token)
    assert ended(own, thread)
    own.enter(store, claim_on(store, "b"))
    assert own._thread is not thread
    store.wait()
    own.leave("token of b")
    own._thread.join(WAIT)
    store.close()


def test_leaving_twice_is_leaving_once(own):
    own.leave("nobody")
    assert not own.holds("nobody")


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_made_by_fork_holds_nothing_and_is_another_owner():
    store = Renewing(lease=WAIT)
    calls.enter(store, claim_on(store))
    mine = me()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = f"{calls.holds('token of r')} {me() == mine} {is_alive(mine, 'token of r')} {calls._thread is None}"
            os.write(writing, said.encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read() == "False False True True"
    os.waitpid(pid, 0)
    assert calls.holds("token of r")
    calls.leave("token of r")
    store.close()


def test_what_is_forgotten_in_a_child_is_every_call_and_the_thread():
    store = Renewing(lease=WAIT)
    calls.enter(store, claim_on(store))
    _owner._forget()
    assert not calls.holds("token of r")
    assert calls._thread is None
    store.close()


def test_where_no_thread_can_be_started_the_call_goes_on_and_the_next_one_tries_again(own, monkeypatch):
    store = Renewing(lease=0.03)
    first, second = claim_on(store, "a"), claim_on(store, "b")

    def refused(self):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refused)
        own.enter(store, first)
    assert own._thread is None
    own.enter(store, second)
    store.wait(2)
    assert store.renewals[-1] == ["a", "b"]
    thread = own._thread
    own.leave(first.token)
    own.leave(second.token)
    assert ended(own, thread)
    store.close()
