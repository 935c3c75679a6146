"""What goes wrong below an SQLite store: a full disk, locks, commits without an answer, threads, forks, closing."""

from __future__ import annotations

import itertools
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import pytest

from fastdur.checkpointers import _sqlite_file, sqlite
from fastdur.checkpointers.sqlite import SQLiteCheckpointer
from fastdur.errors import (
    NotStorable,
    RunExists,
    StaleRun,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreUnavailable,
)
from tests.checkpointers.stores import (
    ROOT,
    effect,
    failure,
    faulty,
    head,
    opened,
    paused,
    process,
    question,
    renewed,
    row,
    start,
    tables,
)

# -- a full disk -----------------------------------------------------------------------------------------------------


@pytest.mark.case("S67")
@pytest.mark.parametrize("full_at", range(50))
def test_a_disk_that_is_full_at_a_write_is_named_at_once_and_nothing_is_lost(path, full_at):
    waits, told = [], []
    with opened(path) as store:
        store._waiting = waits.append
        claim = start(store)
        kept = []
        for number in range(50):
            if number == full_at:
                pages = store._kept.writer.execute("PRAGMA page_count").fetchone()[0]
                store._kept.writer.execute(f"PRAGMA max_page_count = {pages}")
            following = row(claim, {"n": number, "pad": f"{number:03}" * 1000})
            try:
                store.put(claim, following, "running")
            except StoreUnavailable as error:
                told.append((number, str(error)))
                assert store.list("r") == kept
                store._kept.writer.execute("PRAGMA max_page_count = 1000000")
                store.put(claim, following, "running")
            kept.append(following)
            assert claim.seq == len(kept)
        assert store.list("r") == kept
    assert [number for number, _ in told] == [full_at]
    assert "full" in told[0][1]
    assert "Nothing was written" in told[0][1]
    assert waits == []
    assert len(tables(path)["checkpoints"]) == 50


def test_a_disk_that_is_full_leaves_nothing_of_any_kind_of_write(path):
    with opened(path) as store:
        seen = paused(store)
        owner = start(store, "other")
        store._kept.writer.execute("PRAGMA max_page_count = 1")
        big = "x" * 100_000
        before = tables(path)
        for write in (
            lambda: start(store, "new", input=big),
            lambda: store.claim_execution(seen, "t", "o", row(seen, big), {"g": big}),
            lambda: store.delete_pending_interrupt_atomic(seen, "t", "o", "ask#1/1", row(seen, big)),
            lambda: store.decide(seen, "ask#1/1", row(seen, big), "running"),
            lambda: store.cancel(seen, row(seen, big)),
            lambda: store.put(owner, row(owner, big), "failed", clear_failed="x"),
            lambda: store.record_interrupt(owner, row(owner), [question(owner, context=big)], "paused"),
            lambda: store.begin_idempotent(owner, effect(name=big)),
        ):
            with pytest.raises(StoreUnavailable, match="full"):
                write()
        assert tables(path) == before


def test_a_value_longer_than_the_driver_takes_is_the_values_fault(path):
    with opened(path) as store:
        claim = start(store)
        store._kept.writer.driver.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10_000)
        with pytest.raises(NotStorable, match="longer than"):
            store.put(claim, row(claim, "x" * 20_000), "running")
        store.put(claim, row(claim), "running")


# -- locks -----------------------------------------------------------------------------------------------------------

HOLDER = """
import sqlite3, sys
other = sqlite3.connect(sys.argv[1], isolation_level=None)
other.execute(sys.argv[2])
print("held", flush=True)
sys.stdin.readline()
other.execute("ROLLBACK")
other.close()
"""


def holding(path, statement="BEGIN IMMEDIATE"):
    holder = process(HOLDER, path, statement)
    assert holder.stdout.readline() == "held\n"
    return holder


@pytest.mark.parametrize("fresh", [False, True], ids=["a known store", "a new store"])
def test_a_write_waits_for_another_process_that_holds_the_lock(path, fresh):
    with opened(path) as store:
        claim = start(store)
        if fresh:
            store.rest()
        holder = holding(path)
        attempts = []

        def waiting(attempt):
            attempts.append(attempt)
            if attempt == 5:
                holder.communicate("go\n")

        store._waiting = waiting
        store.put(claim, row(claim), "running")
        assert attempts[:5] == [1, 2, 3, 4, 5]
        assert holder.returncode == 0
        assert len(store.list("r")) == 1


def test_a_fresh_store_reads_while_another_process_holds_the_lock(path):
    with opened(path) as store:
        start(store)
    holder = holding(path)
    attempts = []
    with opened(path) as fresh:
        fresh._waiting = attempts.append
        assert head(fresh).seq == 0
    assert attempts == []
    holder.communicate("go\n")


def test_a_first_read_of_a_new_file_waits_for_the_lock(path):
    holder = holding(path, "BEGIN EXCLUSIVE")
    with opened(path) as store:
        store._waiting = lambda attempt: attempt == 3 and holder.communicate("go\n")
        assert store.list_executions() == []
    assert holder.returncode == 0


def test_threads_that_read_first_look_at_the_file_once(path):
    with opened(path) as store, ThreadPoolExecutor(4) as pool:
        with store._turns:
            looks = [pool.submit(store.get_execution, "r") for _ in range(4)]
            queued(store, 4)
        assert [look.result() for look in looks] == [None] * 4


def test_a_new_file_waits_for_the_lock_too(path):
    holder = holding(path, "BEGIN EXCLUSIVE")
    with opened(path) as store:
        store._waiting = lambda attempt: attempt == 3 and holder.communicate("go\n")
        start(store)
    assert holder.returncode == 0


def test_a_lock_that_is_never_given_back_is_an_error_after_the_bound(path):
    with opened(path) as store:
        claim = start(store)
        holder = holding(path)
        attempts = []
        store._waiting = attempts.append
        store.busy_bound = 0.05
        with pytest.raises(StoreUnavailable, match=r"within about 0\.05 s \(SQLITE_BUSY.*nothing was written"):
            store.put(claim, row(claim), "running")
        assert attempts == list(range(1, len(attempts) + 1))
        assert store.get_last("r") is None
        holder.communicate("go\n")
        store.put(claim, row(claim), "running")


def test_the_waits_grow_to_their_longest_and_add_up_to_the_bound():
    with opened(":memory:") as store:
        delays = list(store._delays())
    assert delays[0] == 0.001
    assert delays == sorted(delays)
    assert delays[-1] == 0.05
    assert 60 <= sum(delays) < 60.1


def test_a_disk_that_is_full_after_a_wait_is_named_too(path):
    with opened(path) as store:
        claim = start(store)
        holder = holding(path)

        def waiting(attempt):
            if attempt == 2:
                holder.communicate("go\n")
                store._kept.writer.execute("PRAGMA max_page_count = 1")

        store._waiting = waiting
        with pytest.raises(StoreUnavailable, match="full"):
            store.put(claim, row(claim, "x" * 100_000), "running")


def test_closing_ends_a_wait(path):
    with opened(path) as store:
        claim = start(store)
        holder = holding(path)
        store._waiting = lambda attempt: store.close() if attempt == 2 else None
        with pytest.raises(StoreClosed):
            store.put(claim, row(claim), "running")
        holder.communicate("go\n")
    assert tables(path)["checkpoints"] == []


# -- commits without an answer ---------------------------------------------------------------------------------------


def story(store):
    """Every writing method once."""
    claim = start(store)
    store.begin_idempotent(claim, effect())
    store.put_idempotent(claim, effect(status="done", result=[1]))
    store.begin_idempotent(claim, effect("f", path="work#1"))
    store.put_idempotent(claim, effect("f", path="work#1", status="failed"))
    store.put(claim, row(claim, {"a": 1, "pad": "x" * 99}, nonce="one"), "running", clear_failed="work#1")
    store.put(claim, row(claim, {"a": 2, "pad": "x" * 99}, nonce="two"), "running")
    renewed(store, claim)
    store.record_interrupt(claim, row(claim, nonce="three"), [question(claim), question(claim, "b")], "paused")
    seen = head(store)
    claim = store.delete_pending_interrupt_atomic(seen, "second", "you", "ask#1/1", row(seen, nonce="four"), {"g": 1})
    store.put(claim, row(claim, nonce="five"), "paused")
    assert store.decide(head(store), "b", row(head(store), nonce="six"), "running")
    claim = store.claim_execution(head(store), "third", "you")
    store.release(claim)
    claim = store.claim_execution(head(store), "fourth", "you", row(head(store), nonce="seven"))
    assert store.cancel(head(store), row(head(store), nonce="eight"))


COMMITS = 16


@pytest.fixture(scope="module")
def untroubled(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("untroubled") / "store.db")
    with opened(path) as store:
        story(store)
    return tables(path)


@pytest.mark.parametrize("after", [False, True], ids=["lost before", "done, answer lost"])
@pytest.mark.parametrize("commit", range(1, COMMITS + 1))
def test_a_write_whose_commit_had_no_answer_is_there_once(path, commit, after, untroubled):
    attempts = []
    with opened(path) as store:
        store.driver = faulty(commit, after=after)
        store._waiting = attempts.append
        story(store)
    assert attempts == [1]
    assert tables(path) == untroubled


@pytest.mark.parametrize("commit", range(1, COMMITS + 1))
def test_a_store_in_memory_settles_a_commit_without_an_answer_too(commit):
    with opened(":memory:") as store:
        store.driver = faulty(commit, after=True)
        story(store)
        assert head(store).status == "cancelled"
        assert len(store.list("r")) == 8


@pytest.mark.parametrize("after", [False, True])
def test_a_commit_that_never_answers_is_an_error_that_does_not_claim_to_know(path, after):
    with opened(path) as store:
        store.busy_bound = 0.02
        store.driver = faulty(3, after=after, every=True)
        claim = start(store)
        store.put(claim, row(claim), "running")
        with pytest.raises(StoreUnavailable, match="whether the last write was stored is not known"):
            store.put(claim, row(claim), "running")
    assert len(tables(path)["checkpoints"]) == 1 + after


def test_a_disk_that_breaks_before_the_outcome_is_known_keeps_the_question_open(path):
    class Broken(faulty(2, after=True)):
        broken = False

        def execute(self, sql, *values):
            if Broken.broken and sql.startswith("BEGIN"):
                raise failure("disk I/O error")
            try:
                return super().execute(sql, *values)
            except sqlite3.Error:
                Broken.broken = True
                raise

    with opened(path) as store:
        store.busy_bound = 0.02
        store.driver = Broken
        claim = start(store)
        with pytest.raises(StoreUnavailable, match="not known"):
            store.put(claim, row(claim), "running")
        Broken.broken = False
        assert len(store.list("r")) == 1


def test_a_lost_answer_is_settled_though_the_run_has_been_taken_since(path):
    with opened(path) as store, opened(path) as other:
        store.driver = faulty(2, after=True)
        claim = start(store)
        first = row(claim)

        def taken(attempt):
            thief = other.claim_execution(head(other), "thief", "you")
            other.put(thief, row(thief), "running")

        store._waiting = taken
        assert store.put(claim, first, "running") == first
        with pytest.raises(StaleRun):
            store.put(claim, row(claim), "running")
        assert [r.seq for r in other.list("r")] == [1, 2]


def test_a_claim_that_was_lost_and_then_taken_by_another_is_no_claim(path):
    with opened(path) as store, opened(path) as other:
        store.driver = faulty(2, after=False)
        start(store)
        store._waiting = lambda attempt: other.claim_execution(head(other), "thief", "you")
        assert store.claim_execution(head(store), "mine", "me") is None
        assert head(store).token == "thief"


@pytest.mark.parametrize(
    ("code", "error", "said"),
    [
        (sqlite3.SQLITE_IOERR, StoreUnavailable, "disk reports an error"),
        (sqlite3.SQLITE_READONLY, StoreUnavailable, "cannot be written"),
        (sqlite3.SQLITE_CORRUPT, StoreCorrupt, "damaged"),
        (sqlite3.SQLITE_INTERRUPT, StoreUnavailable, "did not take this"),
    ],
)
def test_a_statement_that_fails_is_a_clear_error_at_once_and_the_store_goes_on(path, code, error, said):
    failing = []

    class Failing(sqlite3.Connection):
        def execute(self, sql, *values):
            if failing and failing[0] in sql:
                failing.clear()
                raise failure("made to fail", code)
            return super().execute(sql, *values)

    with opened(path) as store:
        store.driver = Failing
        claim = start(store)
        store.list("r")
        for statement in ("INSERT INTO checkpoints", "BEGIN"):
            failing.append(statement)
            with pytest.raises(error, match=said):
                store.put(claim, row(claim), "running")
        failing.append("SELECT")
        with pytest.raises(error, match=said):
            store.list("r")
        store.put(claim, row(claim), "running")
        assert len(store.list("r")) == 1


def test_a_read_that_cannot_even_connect_is_a_clear_error(path, monkeypatch):
    with opened(path) as store:
        start(store)

        def refuse(*_, **__):
            raise failure("unable to open database file", sqlite3.SQLITE_CANTOPEN)

        monkeypatch.setattr(sqlite3, "connect", refuse)
        with pytest.raises(StoreUnavailable, match="cannot be opened"):
            store.list("r")


def test_a_mistake_in_a_call_leaves_the_store_as_it_was(store):
    claim = start(store)
    with pytest.raises(OverflowError):
        store.put(claim, row(claim, node_index=1 << 70), "running")
    store.put(claim, row(claim), "running")
    assert len(store.list("r")) == 1


# -- threads ---------------------------------------------------------------------------------------------------------


class Gated(sqlite3.Connection):
    """Holds a COMMIT back until the test lets it go, so that others queue up behind it."""

    entered = threading.Event()
    go = threading.Event()
    armed = False
    seen: ClassVar[list[str]] = []

    def execute(self, sql, *values):
        if Gated.armed:
            Gated.seen.append(sql.split()[0])
            if sql == "COMMIT" and not Gated.go.is_set():
                Gated.entered.set()
                Gated.go.wait()
        return super().execute(sql, *values)


@pytest.fixture
def gated():
    Gated.entered.clear()
    Gated.go.clear()
    Gated.seen = []
    Gated.armed = False
    yield Gated
    Gated.armed = False
    Gated.go.set()


def queued(store, count):
    """Return when so many wait for the turn."""
    while len(store._turns._queue) < count:
        pass


@pytest.mark.parametrize("path_", ["file", ":memory:"])
@pytest.mark.case("S65")
def test_writes_that_wait_go_into_one_commit_and_a_failed_one_leaves_nothing(path, path_, gated):
    with opened(path if path_ == "file" else path_) as store:
        store.driver = gated
        claims = [start(store, f"r{n}") for n in range(6)]
        with ThreadPoolExecutor(12) as pool:
            gated.armed = True
            leader = pool.submit(store.put, claims[0], row(claims[0]), "running")
            gated.entered.wait()
            stale = row(claims[1])
            other = row(claims[1], {"by": "other"})
            jobs = [pool.submit(store.put, claims[2], row(claims[2]), "running")]
            queued(store, 1)
            claim = claims[3]
            jobs.append(pool.submit(store.record_interrupt, claim, row(claim), [question(claim)], "paused"))
            queued(store, 2)
            store_again = type(claims[1])("r1", claims[1].run, 1, "not mine", 0)
            failed = pool.submit(store.put, store_again, stale, "running")
            queued(store, 3)
            too_big = pool.submit(store.put, claims[4], row(claims[4], node_index=1 << 70), "running")
            queued(store, 4)
            taken = pool.submit(start, store, "r5", "another")
            queued(store, 5)
            jobs.append(pool.submit(store.put, claims[1], other, "running"))
            queued(store, 6)
            assert not any(job.done() for job in jobs)
            gated.go.set()
            leader.result()
            for job in jobs:
                job.result()
            with pytest.raises(StaleRun):
                failed.result()
            with pytest.raises(OverflowError):
                too_big.result()
            with pytest.raises(RunExists):
                taken.result()
        assert gated.seen.count("COMMIT") == 2
        assert gated.seen.count("SAVEPOINT") == 6
        assert gated.seen.index("SAVEPOINT") > gated.seen.index("COMMIT")
        gated.armed = False
        assert [len(store.list(f"r{n}")) for n in range(6)] == [1, 1, 1, 1, 0, 0]
        assert [p.execution_id for p in store.list_pending_interrupts()] == ["r3"]


def test_a_failed_commit_of_many_is_settled_for_each(path, gated):
    numbers = itertools.count(1)

    class Failing(gated):
        def execute(self, sql, *values):
            cursor = super().execute(sql, *values)
            if gated.armed and sql == "COMMIT" and next(numbers) == 2:
                raise failure("disk I/O error")
            return cursor

    with opened(path) as store:
        store.driver = Failing
        claims = [start(store, f"r{n}") for n in range(6)]
        with ThreadPoolExecutor(6) as pool:
            gated.armed = True
            leader = pool.submit(store.put, claims[0], row(claims[0]), "running")
            gated.entered.wait()
            others = [pool.submit(store.put, claim, row(claim), "running") for claim in claims[1:]]
            queued(store, 5)
            gated.go.set()
            for job in (leader, *others):
                job.result()
    assert len(tables(path)["checkpoints"]) == 6


def test_a_full_disk_in_the_middle_of_many_is_told_to_all_that_were_not_written(path, gated):
    class Full(gated):
        def execute(self, sql, *values):
            if gated.armed and values and "r2" in str(values) and sql.startswith("INSERT INTO executions"):
                super().execute("ROLLBACK")
                raise failure("database or disk is full", sqlite3.SQLITE_FULL)
            if gated.armed and values and "r3" in str(values) and sql.startswith("INSERT INTO executions"):
                raise failure("database or disk is full", sqlite3.SQLITE_FULL)
            return super().execute(sql, *values)

    with opened(path) as store:
        store.driver = Full
        store.setup()
        with ThreadPoolExecutor(6) as pool:
            gated.armed = True
            leader = pool.submit(start, store, "r0")
            gated.entered.wait()
            others = []
            for number in (1, 3, 2):
                others.append(pool.submit(start, store, f"r{number}"))
                queued(store, len(others))
            gated.go.set()
            leader.result()
            for job in others:
                with pytest.raises(StoreUnavailable, match="full"):
                    job.result()
        gated.armed = False
        assert [found.execution_id for found in store.list_executions()] == ["r0"]
        start(store, "r4")


def test_eight_threads_write_and_read_and_every_row_is_there(store):
    def run(number):
        claim = start(store, f"r{number}")
        for step in range(40):
            store.put(claim, row(claim, {"n": step}), "running")
            assert store.get_last(f"r{number}").seq == step + 1
        return len(store.list(f"r{number}"))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(run, range(8))) == [40] * 8


CLOSING = """
import sys, threading
from fastdur.checkpointers import _sqlite_file, sqlite
from fastdur.checkpointers.sqlite import SQLiteCheckpointer
from fastdur.errors import StoreClosed
from tests.checkpointers.stores import row, start

for round_ in range(50):
    store = SQLiteCheckpointer(sys.argv[1] if round_ % 5 else ":memory:")
    going = threading.Barrier(9)
    late = []
    wrong = []

    def work(number):
        try:
            claim = start(store, f"r{round_}-{number}")
            going.wait()
            while True:
                store.put(claim, row(claim), "running")
                store.list(claim.execution_id)
        except StoreClosed as error:
            late.append(error)
        except BaseException as error:
            wrong.append(error)
            raise

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    going.wait()
    store.close()
    for thread in threads:
        thread.join()
    assert len(late) == 8 and not wrong, wrong
print("whole")
"""


@pytest.mark.case("S64")
def test_eight_threads_at_work_while_another_closes_never_crash(path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CLOSING, path], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr


# -- fork ------------------------------------------------------------------------------------------------------------


def in_child(call):
    """Run `call` in a forked child; return its exit code, 0 where it returned."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            call()
            code = 0
        finally:
            os._exit(code)
    return child


def ended(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_parent_and_child_both_use_the_store_after_a_fork_and_nothing_is_lost(path):
    asked, answered = os.pipe(), os.pipe()
    with opened(path) as store, opened(path) as second:
        claim = start(store)
        store.put(claim, row(claim), "running")
        assert store.list("r") == second.list("r")

        def child():
            mine = start(store, "child")
            store.put(mine, row(mine), "running")
            os.write(answered[1], b"x")
            os.read(asked[0], 1)
            store.put(mine, row(mine), "running")  # while the parent has closed its connections
            assert len(store.list("child")) == 2

        pid = in_child(child)
        os.read(answered[0], 1)
        store.put(claim, row(claim), "running")
        store.rest()
        second.rest()
        os.write(asked[1], b"x")
        assert ended(pid) == 0
        assert len(store.list("child")) == 2
        assert len(store.list("r")) == 2
        store.put(claim, row(claim), "running")
    for end in (*asked, *answered):
        os.close(end)


def test_a_child_that_never_uses_the_store_takes_no_lock_of_the_parents_away(path):
    with opened(path) as store:
        claim = start(store)
        assert ended(in_child(lambda: None)) == 0
        store.put(claim, row(claim), "running")
        holder = holding(path)
        store.busy_bound = 0.01
        with pytest.raises(StoreUnavailable):
            store.put(claim, row(claim), "running")
        holder.communicate("go\n")


def test_a_fork_waits_for_the_writes_under_way_and_the_child_is_free(path, gated):
    with opened(path) as store, ThreadPoolExecutor(3) as pool:
        store.driver = gated
        claims = [start(store, name) for name in ("a", "b")]
        gated.armed = True
        leader = pool.submit(store.put, claims[0], row(claims[0]), "running")
        gated.entered.wait()

        def fork():
            return ended(in_child(lambda: store.put(claims[1], row(claims[1]), "running")))

        forked = pool.submit(fork)
        queued(store, 1)
        gated.go.set()
        leader.result()
        assert forked.result() == 0
        gated.armed = False
        assert [len(store.list(name)) for name in ("a", "b")] == [1, 1]


def test_a_store_in_memory_stays_with_its_process():
    with opened(":memory:") as store, opened(":memory:") as unused:
        claim = start(store)

        def child():
            with pytest.raises(StoreUnavailable, match="in memory"):
                store.put(claim, row(claim), "running")
            with pytest.raises(StoreUnavailable, match="in memory"):
                store.list("r")
            start(unused, "mine")

        assert ended(in_child(child)) == 0
        assert ended(in_child(lambda: in_child(child) and None)) == 0
        store.put(claim, row(claim), "running")
        assert unused.list_executions() == []


def test_a_closed_store_is_closed_in_a_child_too(path):
    with opened(path) as store:
        start(store)
        store.close()

        def child():
            with pytest.raises(StoreClosed):
                store.list("r")

        assert ended(in_child(child)) == 0


KILLED = """
import sys
from fastdur.checkpointers import _sqlite_file, sqlite
from fastdur.checkpointers.sqlite import SQLiteCheckpointer
from tests.checkpointers.stores import row, start
store = SQLiteCheckpointer(sys.argv[1])
claim = start(store)
while True:
    store.put(claim, row(claim), "running")
    print(claim.seq, flush=True)
"""


def test_what_was_acknowledged_before_a_kill_is_there(path):
    worker = process(KILLED, path)
    seen = 0
    while seen < 25:
        seen = int(worker.stdout.readline())
    worker.send_signal(signal.SIGKILL)
    rest, _ = worker.communicate()
    seen = int(([str(seen)] + [line for line in rest.split("\n") if line])[-1])
    with opened(path) as store:
        assert len(store.list("r")) >= seen
        assert [r.seq for r in store.list("r")] == list(range(1, head(store).seq + 1))


def test_driver_errors_never_leave_the_store(path):
    with opened(path) as store:
        start(store)
        store._kept.writer.execute("DROP TABLE pending_interrupts")
        with pytest.raises(StoreError):
            store.list_pending_interrupts()
        assert isinstance(store, SQLiteCheckpointer)


def test_what_a_forked_child_does_first_makes_every_store_as_new(path):
    """The child's side of a fork, played in this process, where it can be looked at."""
    with opened(path) as store, opened(":memory:") as used, opened(":memory:") as closed:
        start(store)
        start(used)
        closed.close()
        kept = used._kept.writer
        sqlite._before_fork()
        assert store._kept.writer is None
        sqlite._after_fork_in_child()
        assert head(store).seq == 0
        with pytest.raises(StoreUnavailable, match="in memory"):
            head(used)
        with pytest.raises(StoreClosed):
            head(closed)
        assert kept in sqlite._inherited
        kept.driver.close()


def test_the_end_of_the_process_folds_every_log_back(path):
    with opened(path) as store:
        start(store)
        sqlite._at_exit()
        assert not Path(path + "-wal").exists()
        assert head(store).seq == 0


def test_the_base_of_all_stores_looks_on_and_does_nothing():
    with opened(":memory:") as store:
        assert store._waiting(1) is None


def test_a_probe_that_saw_half_a_write_looks_again(path, monkeypatch):
    with opened(path) as store:
        start(store)
    rest = iter([True, False])
    monkeypatch.setattr(_sqlite_file, "_at_rest", lambda path: next(rest))
    tries = []

    def version_in(path, options):
        tries.append(options)
        if options == "immutable=1":
            raise StoreCorrupt
        return 1

    monkeypatch.setattr(_sqlite_file, "_version_in", version_in)
    with opened(path) as store:
        assert head(store).seq == 0
    assert tries == ["immutable=1", "mode=ro"]


def test_a_first_read_that_cannot_open_the_file_is_a_clear_error_and_the_next_may_succeed(path):
    class Failing(sqlite3.Connection):
        failing = True

        def execute(self, sql, *values):
            if Failing.failing and "synchronous" in sql:
                raise failure("disk I/O error")
            return super().execute(sql, *values)

    with opened(path) as store:
        store.driver = Failing
        with pytest.raises(StoreUnavailable, match="disk reports an error"):
            store.list("r")
        Failing.failing = False
        assert store.list("r") == []
