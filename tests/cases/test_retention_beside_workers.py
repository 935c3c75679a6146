"""Thousands of old runs are pruned and deleted while workers run others in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from fastdur import Chain, Resume, SQLiteCheckpointer, delete_execution, idempotent, interrupt, prune
from fastdur.checkpointers.protocol import Start
from pytest_fastdur.retention import assert_prune_safe
from tests.cases._opened import another, opened
from tests.house.source import ROOT

WORKERS = 4
WORKER = "from tests.cases.test_retention_beside_workers import main; main()"
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@idempotent(name="pay")
def pay(number):
    return [number, "p" * 400]


def work(store):
    chain = Chain("work", store).add_node("pay", lambda state: {"paid": pay(state["n"])})
    chain.add_node("ask", lambda state: {"ok": interrupt("ok?").approved}).add_node("end", lambda state: {"end": True})
    return chain.connect("pay", "ask").connect("ask", "end")


def one(chain, run, number):
    """A whole run: it pays, waits, is answered, and ends."""
    assert chain.execute({"n": number}, run).status == "paused"
    return chain.resume(run, Resume(approved=True)).final_state


def main():
    """A worker: runs, until its standard input is closed; then what it did, as JSON."""
    folder, name = sys.argv[1:]
    store = opened(folder)
    chain, done, errors = work(store), 0, []
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    asked = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=sys.stdin)
    while asked.poll() is None and not errors:
        run = f"{name}-{done}"
        try:
            assert one(chain, run, done) == {"n": done, "paid": [done, "p" * 400], "ok": True, "end": True}
        except Exception as error:  # whatever it is, it is told
            errors.append(f"{run}: {error!r}")
        done += 1
    store.close()
    json.dump([done, errors], sys.stdout)


def seeded(store, *, ended, waiting):
    """Old runs: ended ones, to be pruned; waiting ones, of which the first half is deleted."""
    store.clock_offset = -DAY.total_seconds()
    chain = work(store)
    one(chain, "old-0", 0)
    first, row = store.get_execution("old-0"), store.list("old-0")[0]
    for number in range(1, ended):  # made in two writes each, with a row and the record of the first
        name = f"old-{number}"
        begin = Start(name, "work", "chain", first.graph, {"n": number}, f"t{number}", "nobody")
        origin = replace(row, execution_id=name, checkpoint_id="0")
        beside = {"parent_id": "old-0", "parent_run": first.run, "recorded": True}
        claim = store.start_execution(replace(begin, origin=origin, **beside))
        end = replace(row, execution_id=claim.execution_id, seq=2, checkpoint_id=f"{claim.run}-2-1")
        store.put(claim, replace(end, step_type="run_end"), "completed")
    for number in range(waiting):
        chain.execute({"n": number}, f"waits-{number}")
    store.clock_offset = 0.0


def size_of(store):
    """How much is stored: the bytes of the file, or the rows of the tables."""
    if isinstance(store, SQLiteCheckpointer):
        store.rest()
        return Path(store.location).stat().st_size
    return len(store.list_executions())


@pytest.mark.parametrize(
    ("ended", "waiting"),
    [(150, 40), pytest.param(9000, 1000, marks=(pytest.mark.sweep, pytest.mark.timeout(1500)))],
    ids=["small", "ten thousand"],
)
def test_pruning_beside_four_workers_touches_nothing_of_theirs(stored, store, ended, waiting, record_property):
    """Wrong: a worker that fails or waits for ever, a run of theirs that is gone, or space that is kept."""
    seeded(another_of(store), ended=ended, waiting=waiting)
    full = size_of(store)
    with ExitStack() as stack:
        workers = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", WORKER, str(stored), f"w{number}"],
                    cwd=ROOT,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for number in range(WORKERS)
        ]
        assert [worker.stdout.readline() for worker in workers] == ["ready\n"] * WORKERS
        with assert_prune_safe(store):
            counted = prune(HOUR, store, dry_run=True)
            began = time.perf_counter()
            pruned = prune(HOUR, store)
            took = time.perf_counter() - began
        began = time.perf_counter()
        for number in range(waiting // 2):
            delete_execution(f"waits-{number}", store)
        deleting = time.perf_counter() - began
        told = [json.loads(worker.communicate()[0]) for worker in workers]
    assert [errors for _, errors in told] == [[]] * WORKERS
    assert (counted.total, pruned.total) == (ended, ended)
    left = {head.execution_id: head for head in store.list_executions()}
    theirs = {f"w{number}-{run}" for number, (done, _) in enumerate(told) for run in range(done)}
    assert set(left) == theirs | {f"waits-{number}" for number in range(waiting // 2, waiting)}
    assert {left[run].status for run in theirs} == {"completed"}
    assert all(len(store.list(run)) == left[run].seq == 6 for run in theirs)
    assert all(len(store.list_idempotent(run)) == 1 for run in left)
    done = sum(count for count, _ in told)
    figures = {
        "pruned a second": round(ended / took),
        "deleted a second": round(waiting / 2 / deleting),
        "worker runs meanwhile": done,
        "size before": full,
    }
    prune(timedelta(0), store)
    figures["size after"] = size_of(store)
    record_property("retention", json.dumps(figures))
    sys.stdout.write(f"{figures}\n")
    if isinstance(store, SQLiteCheckpointer):
        assert figures["size after"] < full * (waiting / 2 / (ended + waiting) + 0.2)


def another_of(store):
    """A store object of its own, quick, for the runs of the day before."""
    return another(store, durability="normal")
