"""A branch: a new run that goes on from a row of another. It inherits the state, and no decision. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fastdur._admission import admit, check_changes, edited, first_frame
from fastdur._changed import check_graph
from fastdur._effects import History, Look, Row
from fastdur._engine import walk
from fastdur._reentry import changed_state, latest_forkable, without_questions
from fastdur._run_effects import Fork, OneRow
from fastdur._steps import agent_path
from fastdur.errors import CheckpointNotFound, ForkRefused, RunNotFound

if TYPE_CHECKING:
    from collections.abc import Generator

    from fastdur._codec import Frozen
    from fastdur._effects import Effect, Reading
    from fastdur._engine import Steps
    from fastdur._steps import Machine
    from fastdur.records import Checkpoint, Frame

_AT_FIRST = 4
"""How many rows are read at first to find one that is no end marker: each costs what it has changed."""


@dataclass(frozen=True, slots=True)
class Branch:
    """What a caller of fork asks for."""

    source: str
    execution_id: str
    checkpoint_id: str | None = None
    input: dict[str, Frozen] | None = None
    modified: dict[str, Frozen] | None = None
    recorded: bool = False
    accept_graph: bool = False


def fork(root: Machine, branch: Branch) -> Steps:
    """Begin a branch and walk it. Its source is only read; head, first row and records are one write."""
    reading = yield from Look(branch.source, _AT_FIRST if branch.checkpoint_id is None else 0)
    row = yield from _row(reading, branch.checkpoint_id)
    data: Any = reading.head.input
    if branch.input is not None and "input" in branch.input:
        branch = replace(branch, input={**(yield from admit(root, branch.input))})
    given: dict[str, Frozen] = {**data, **(branch.input or {})}
    frame = _patched(root, first_frame(root, data) if row is None else without_questions(row.frames), branch)
    check_graph(reading.head.graph, root, frame, accept=branch.accept_graph)
    extra: dict[str, Frozen] = {"changes": sorted({**(branch.input or {}), **(branch.modified or {})})}
    if branch.recorded:
        extra["effects"] = "recorded"
    first = Row("fork_origin", -1, "fork_origin", "completed", frame, agent_path(root, (frame,)), extra)
    yield from Fork(
        branch.execution_id,
        reading.head,
        row,
        root.name,
        root.kind,
        root.graph(),
        given,
        first,
        recorded=branch.recorded,
    )
    return (yield from walk(root, branch.execution_id, frame))


def _patched(root: Machine, frame: Frame, branch: Branch) -> Frame:
    """The frames with `input` in the run's own state, and `modified` in that which the next step sees."""
    if branch.input:
        check_changes(root, branch.input, "input")
        frame = replace(frame, state=changed_state(frame.state, branch.input))
    return edited(root, frame, branch.modified or {})


def _row(reading: Reading, checkpoint_id: str | None) -> Generator[Effect[Any], Any, Checkpoint | None]:
    """The row to go on from: the one named, else the newest that is no end marker; None where there is none."""
    source = reading.head.execution_id
    if checkpoint_id is None:
        return (yield from _newest(reading))
    row = yield from OneRow(source, checkpoint_id)
    if row is None:
        now = yield from Look(source, 0)
        if now.head.run != reading.head.run:
            message = (
                f"Run {source!r} was deleted or pruned while it was being forked, and another one has its id by now; "
                "nothing was started."
            )
            raise RunNotFound(message)
        message = (
            f"Run {source!r} has no row {checkpoint_id!r}; result({source!r}).history has its rows with their "
            "checkpoint_id. Nothing was started."
        )
        raise CheckpointNotFound(message)
    if row.step_type == "run_end":
        message = (
            f"Row {checkpoint_id!r} of run {source!r} is an end marker, which says how the run ended and holds no step "
            "to go on from. Name the row before it, or none: then it is the newest that is no marker."
        )
        raise ForkRefused(message)
    return row


def _newest(reading: Reading) -> Generator[Effect[Any], Any, Checkpoint | None]:
    rows, limit = reading.rows, _AT_FIRST
    while True:
        row = latest_forkable(rows)
        if row is not None or len(rows) < limit:
            return row
        limit *= _AT_FIRST
        rows = tuple((yield from History(reading.head.execution_id, limit)))
