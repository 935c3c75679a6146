"""What a retention job may never do, checked around it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pytest_fastdur.durable import RunState

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from fastdur.checkpointers.protocol import Checkpointer
    from fastdur.records import Execution


@contextmanager
def assert_prune_safe(store: Checkpointer, *, failed: bool = False) -> Generator[None, None, None]:
    """Run a retention job inside the block; fail where it has touched what somebody may still go on with.

        with assert_prune_safe(store):
            my_nightly_job(store)

    A run that was running or paused when the block began must be there at its end, with every row, question and effect
    record, and so must a failed one, unless `failed=True` says that those may go. Of a run that has gone on meanwhile
    the rows and finished records must still be there. A run goes whole or stays whole, and its child runs with it: one
    whose parent is gone must not be left. Raises `AssertionError`, with one line for each run that was touched.
    """
    __tracebackhide__ = True
    before = [_read(store, head) for head in store.list_executions(unfinished=True)]
    yield
    heads = {head.execution_id: head for head in store.list_executions()}
    found: list[str] = []
    for run in before:
        head = heads.get(run.head.execution_id)
        now = None if head is None or head.run != run.head.run else _read(store, head)
        found += [_told(run.head, what) for what in _touched(run, now, failed=failed)]
    there = {head.run for head in heads.values()}
    left = [head for head in heads.values() if head.is_child and head.parent_run not in there and not head.unfinished]
    found += [_told(head, f"was left behind by its parent {head.parent_id!r}") for head in left]
    if found:
        message = f"a job in {store.location} has touched what it may not:\n  " + "\n  ".join(found)
        raise AssertionError(message)


def _read(store: Checkpointer, head: Execution) -> RunState:
    name = head.execution_id
    pending, effects = store.list_pending_interrupts(name), store.list_idempotent(name)
    return RunState(head, tuple(store.list(name)), tuple(pending), tuple(effects))


def _told(head: Execution, what: str) -> str:
    return f"{head.execution_id!r} ({head.status}) {what}"


def _touched(run: RunState, now: RunState | None, *, failed: bool) -> Iterator[str]:
    if now is None:
        if run.head.status != "failed" or not failed:
            yield "is gone"
        return
    if now.rows[: len(run.rows)] != run.rows:
        yield "has lost rows, or they have changed"
    if not run.recorded() <= now.recorded():
        yield "has lost effect records"
    if now.head.seq == run.head.seq and now.pending != run.pending:
        yield "has lost questions"
