"""What must hold of a run at every moment, seen from the store alone: one function per promise.

Each takes a run as it is stored and yields what contradicts the promise. They know the records only, not the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_fastdur.verdicts import Verdict, Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fastdur.records import Frame
    from pytest_fastdur.durable import DurableState, RunState


def numbered_without_gaps(run: RunState) -> Iterator[str]:
    """The rows of a run are 1, 2, 3 …, and the head knows the last of them."""
    seqs = [row.seq for row in run.rows]
    if seqs != list(range(1, len(seqs) + 1)):
        yield f"the rows are numbered {seqs}"
    if run.head.seq != (seqs[-1] if seqs else 0):
        yield f"the head stands at row {run.head.seq}, and the newest row is {seqs[-1] if seqs else 'none'}"


def names_its_rows(run: RunState) -> Iterator[str]:
    """Each row has an id of its own, and a parent that is named is an earlier row; a branch names one elsewhere."""
    known: set[str] = set()
    for row in run.rows:
        if row.checkpoint_id in known:
            yield f"two rows have the id {row.checkpoint_id}"
        is_elsewhere = row.step_type == "fork_origin" and row.seq == 1
        if row.parent_checkpoint_id is not None and row.parent_checkpoint_id not in known and not is_elsewhere:
            yield f"row {row.seq} names a parent that is no earlier row: {row.parent_checkpoint_id}"
        known.add(row.checkpoint_id)


def ends_once(run: RunState) -> Iterator[str]:
    """At most one end marker is completed, and it is the last row."""
    ends = [row.seq for row in run.rows if row.step_type == "run_end" and row.status == "completed"]
    if len(ends) > 1:
        yield f"the run completed {len(ends)} times, in rows {ends}"
    elif ends and ends[0] != run.rows[-1].seq:
        yield f"the run completed in row {ends[0]} and went on to row {run.rows[-1].seq}"


def status_fits_the_rows(run: RunState) -> Iterator[str]:
    """The status of the head is what the newest row says."""
    last, status = (run.rows[-1] if run.rows else None), run.head.status
    ended = last.status if last is not None and last.step_type == "run_end" else None
    if (status == "completed") != (ended == "completed"):
        yield f"the head says {status}, and the newest row is {'no end marker' if ended is None else ended}"
    if status in ("failed", "cancelled") and ended != "failed":
        yield f"the head says {status}, and the newest row is {'no end marker' if ended is None else ended}"


def an_ended_run_has_no_owner(run: RunState) -> Iterator[str]:
    """A run that has ended belongs to nobody."""
    if run.head.status in ("completed", "cancelled") and run.head.owned:
        yield f"the run is {run.head.status} and still claimed"


def waits_for_what_is_asked(run: RunState) -> Iterator[str]:
    """The pending rows are the open questions of the newest frames; a paused run has one, an ended one has none."""
    status = run.head.status
    listed = sorted(pending.interrupt_id for pending in run.pending)
    asked = sorted(open_questions(run.frames)) if run.frames is not None and status != "cancelled" else []
    if listed != asked:
        yield f"pending are {listed or 'none'}, and the newest row asks {asked or 'nothing'}"
    elif status == "paused" and not listed:
        yield "the run is paused and asks nothing"
    elif status == "completed" and listed:
        yield f"the run is completed, and pending are {listed}"


def open_questions(frame: Frame) -> Iterator[str]:
    """The ids of the questions in a tree of frames that have no answer."""
    yield from (question.id for question in frame.questions if question.answer is None)
    for child in frame.children:
        yield from open_questions(child)


INVARIANTS: tuple[tuple[Verdict, Callable[[RunState], Iterator[str]]], ...] = (
    (Verdict.CORRUPT, numbered_without_gaps),
    (Verdict.CORRUPT, names_its_rows),
    (Verdict.CORRUPT, ends_once),
    (Verdict.CORRUPT, status_fits_the_rows),
    (Verdict.CORRUPT, an_ended_run_has_no_owner),
    (Verdict.HALF_PAUSED, waits_for_what_is_asked),
)


def check(state: DurableState) -> Iterator[Violation]:
    """Everything that contradicts a promise in any run of the store."""
    for run in state.runs:
        for verdict, invariant in INVARIANTS:
            for what in invariant(run):
                yield Violation(verdict, what)
