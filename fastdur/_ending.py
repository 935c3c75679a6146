"""How runs end from outside, and how they leave the store: cancel, delete, prune. No I/O, like the engine."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fastdur._effects import Cancel, Look, Row
from fastdur._reentry import newest_frame
from fastdur._run_effects import Children, Delete, Fence, Prune, outrun
from fastdur.errors import AlreadyResumed, ChainResumeError, RunInProgress, RunNotFound
from fastdur.records import stored_result

if TYPE_CHECKING:
    from collections.abc import Generator
    from datetime import timedelta

    from fastdur._codec import Frozen
    from fastdur._effects import Effect, Reading
    from fastdur._pruned import Pruned
    from fastdur.records import Execution

_BATCH = 100
"""How many runs are looked at, and removed, at once."""


def cancel(execution_id: str) -> Generator[Effect[Any], Any, None]:
    """End a run from outside, and the runs that its nodes have started. Again is the same as once.

    It is fenced first, so that it starts no more of them. One that was left over by a call that died in between is
    cancelled by the next.
    """
    yield from _cancel(execution_id, None)
    yield from _cancel_below(execution_id)


def _cancel(execution_id: str, whose: str | None) -> Generator[Effect[Any], Any, None]:
    tries = 0
    while True:
        tries += 1
        reading = yield from Look(execution_id)
        frame = newest_frame(reading, None)
        if reading.head.status == "cancelled":
            return
        if reading.head.status == "completed":
            message = f"Run {execution_id!r} has completed; there is nothing left to cancel."
            raise AlreadyResumed(message, stored_result(execution_id, "completed", frame))
        if (yield from outrun(reading.head, tries)):
            continue
        extra: dict[str, Frozen] = {"reason": "cancelled", "error": "cancelled"}
        if whose is not None:
            extra["cancelled_with"] = whose
        path_so_far = reading.last.agent_path if reading.last else ""
        row = Row("run_end", -1, "run_end", "failed", frame, path_so_far, extra)
        if (yield from Cancel(reading.head, row)):
            return


def _cancel_below(execution_id: str) -> Generator[Effect[Any], Any, None]:
    for child in (yield from Children(execution_id)):
        if child.unfinished:
            with suppress(AlreadyResumed, RunNotFound):  # it has ended meanwhile
                yield from _cancel(child.execution_id, execution_id)
        yield from _cancel_below(child.execution_id)


def delete(execution_id: str, *, takeover: bool) -> Generator[Effect[Any], Any, None]:
    """Remove a run with the runs that its nodes have started. Their owners are fenced before the tree is read."""
    while True:
        reading = yield from Look(execution_id)
        yield from _stands_alone(reading.head)
        tree = yield from _tree(reading)
        for each in tree:
            _left_alone(each, takeover=takeover)
        claimed = [each.head for each in tree if each.head.owned]
        for head in claimed:
            yield from Fence(head)
        if not claimed and (yield from Delete(tuple(each.head for each in tree))):
            return


def _stands_alone(head: Execution) -> Generator[Effect[Any], Any, None]:
    """Refuse to remove a run whose record keeps a node of an unfinished run from starting it again."""
    if not head.is_child or head.parent_id is None:
        return
    with suppress(RunNotFound):
        parent = yield from Look(head.parent_id)
        if parent.head.status != "completed":  # a cancelled one can be reopened
            message = (
                f"Run {head.execution_id!r} was started by a node of run {head.parent_id!r}, which is "
                f"{parent.head.status} and would start it again; delete {head.parent_id!r}, which takes it along."
            )
            raise ChainResumeError(message)


def _tree(reading: Reading) -> Generator[Effect[Any], Any, list[Reading]]:
    """A run and all that its nodes have started, and theirs."""
    found = [reading]
    for each in found:
        for child in (yield from Children(each.head.execution_id)):
            with suppress(RunNotFound):
                found.append((yield from Look(child.execution_id)))
    return found


def _left_alone(reading: Reading, *, takeover: bool) -> None:
    if reading.alive and not takeover:
        message = (
            f"Run {reading.head.execution_id!r} is being worked on by a live owner ({reading.head.owner}); "
            "cancel it first, or pass takeover=True. Nothing was deleted."
        )
        raise RunInProgress(message)


def prune(older_than: timedelta, failed: timedelta | None, *, dry_run: bool) -> Generator[Effect[Any], Any, Pruned]:
    """Remove what ended long enough ago, batch by batch."""
    pruned = yield from Prune(older_than, failed, dry_run, 0, _BATCH)
    while pruned.after is not None:
        pruned = pruned.plus((yield from Prune(older_than, failed, dry_run, pruned.after, _BATCH)))
    return pruned
