"""What a retention job may never do, checked around it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pytest_fastdur.durable import DurableState

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from fastdur.checkpointers.protocol import Checkpointer
    from pytest_fastdur.durable import RunState


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
    before = _runs(store)
    yield
    after = _runs(store)
    found = [
        f"{name!r} ({run.head.status}) {what}" for name, run in before.items() for what in _touched(run, after, failed)
    ]
    if found:
        message = f"a job in {store.location} has touched {len(found)} runs that it may not:\n  " + "\n  ".join(found)
        raise AssertionError(message)


def _runs(store: Checkpointer) -> dict[str, RunState]:
    return {run.head.execution_id: run for run in DurableState.read(store, "").runs}


def _touched(run: RunState, after: dict[str, RunState], failed: bool) -> Iterator[str]:  # noqa: FBT001
    head, now = run.head, after.get(run.head.execution_id)
    if now is not None and now.head.run != head.run:
        now = None
    if now is None:
        if head.status in ("running", "paused") or (head.status == "failed" and not failed):
            yield "is gone"
        return
    if now.rows[: len(run.rows)] != run.rows:
        yield "has lost rows, or they have changed"
    finished = [record for record in run.effects if record.status in ("done", "unstorable")]
    if not {record.key for record in finished} <= now.recorded():
        yield "has lost effect records"
    if now.head.seq == head.seq and now.pending != run.pending:
        yield "has lost questions"
    parent = head.parent_id
    if head.is_child and parent is not None and parent not in after and not now.head.unfinished:
        yield f"was left behind by its parent {parent!r}"
