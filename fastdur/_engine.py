"""The state machine of a run: start it, resume it, walk it, end it. No I/O, no clock, no ids, no user code.

Every function here is a generator that yields effects and is answered by a driver. There is no resume path: `resume`
loads the newest frames and runs the same `walk` that `start` does. There is no `finally`, no `with` and no broad
`except`, so that a crash, which drops the generator, does what a real one does: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fastdur._admission import admit, admit_once, edited, first_frame
from fastdur._changed import check_graph
from fastdur._delta import diff
from fastdur._effects import Answer, Append, Decide, History, Invoke, Look, Row, Start, Take
from fastdur._functions import short_name
from fastdur._held import Held, Unstored, became_row, mark_row, node_row, question_row, returned
from fastdur._reentry import (
    Entry,
    Request,
    answered_before,
    asked_in,
    decide,
    newest_frame,
    status_of,
    stored_path,
    with_answer,
)
from fastdur._run_effects import outrun
from fastdur._steps import (
    Asked,
    Become,
    Call,
    Done,
    Failed,
    Push,
    Return,
    address,
    agent_path,
    asked_node,
    clocked,
    due_trail,
    heard_by,
    limited,
    machine_at,
    open_questions,
    path,
    with_leaf,
    without_visits,
)
from fastdur.errors import AlreadyResumed, NotStorable, RunExists, StoreCorrupt, UnknownInterrupt
from fastdur.records import Frame, RunResult, frozen_answer, stored_result

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from fastdur._codec import Frozen
    from fastdur._effects import Effect, Reading
    from fastdur._steps import Going, Machine, State, Step, Trail
    from fastdur.records import Checkpoint, Execution, Question, Resume
    from fastdur.scope import Parent

    Steps = Generator[Effect[Any], Any, "Ended"]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a call ended: its result, and the exception of the node that failed."""

    result: RunResult
    error: BaseException | None = None


def start(root: Machine, execution_id: str, data: State) -> Steps:
    """Begin a run and walk it. Its head is durable before any user code runs."""
    data = yield from admit(root, data)
    yield from Start(execution_id, root.name, root.kind, root.graph(), data)
    return (yield from walk(root, execution_id, first_frame(root, data)))


def start_child(root: Machine, execution_id: str, data: State, parent: Parent) -> Steps:
    """Begin a run inside a node, or go on with the one that this node began before: however far it got.

    Finished or paused, its result is the recorded one; crashed or failed, it is carried on; cancelled with its parent,
    it is reopened with it.
    """
    of = parent.execution_id, parent.path
    data = yield from admit_once(root, execution_id, data)
    try:
        yield from Start(
            execution_id, root.name, root.kind, root.graph(), data, *of, parent.token, recorded=parent.recorded
        )
    except RunExists:
        reading = yield from Look(execution_id)
        if (reading.head.parent_id, reading.head.parent_address) != of:
            raise
        _check_same(reading.head, root, data)
    else:
        return (yield from walk(root, execution_id, first_frame(root, data)))
    frame = newest_frame(reading, root)
    if reading.head.status == "completed":
        return Ended(stored_result(execution_id, "completed", frame))
    if reading.head.status == "paused":
        return (yield from _paused(root, execution_id, frame, reading.last))
    with_it = reading.last is not None and reading.last.extra.get("cancelled_with") == parent.execution_id
    reopen = with_it and reading.head.status == "cancelled"
    return (yield from resume(root, Request(execution_id, reopen=reopen)))


def _check_same(head: Execution, root: Machine, data: State) -> None:
    """Refuse to give one start of a node what another start of it has made."""
    as_it_was = head.runner, head.kind
    if as_it_was == (root.name, root.kind) and diff(head.input, data) is None:
        return
    what = "with another input" if as_it_was == (root.name, root.kind) else f"as the {head.kind} {head.runner!r}"
    message = (
        f"Run {head.execution_id!r} was started by this node before, {what}; nothing was started now. Give each run "
        "that a node starts an execution_id of its own, made of what tells it from the others."
    )
    raise RunExists(message)


def resume(root: Machine, request: Request) -> Steps:
    """Claim a stored run and walk on from its newest frames."""
    before: Reading | None = None
    tries = 0
    while True:
        tries += 1
        reading = yield from Look(request.execution_id)
        before = _moved(before, reading)
        frame = newest_frame(reading, root)
        entry = yield from _entry(reading, request, frame)
        newer = check_graph(reading.head.graph, root, frame, accept=request.accept_graph)
        if request.takeover and (yield from outrun(reading.head, tries)):
            continue
        value = request.value
        if entry.question is not None and entry.trail is not None and value is not None:
            # The question is pinned: if the head moves, the answer must not drift to the next question.
            request = replace(request, value=replace(value, interrupt_id=entry.question.id))
            # A correction that comes with an answer is stored with it: nobody must find the one without the other.
            frame = edited(root, with_leaf(entry.trail, with_answer(entry.trail, value)), request.modified or {})
            whose = agent_path(root, entry.trail, asked_node(entry.trail))
            row = _answer_row(whose, entry.question, value, frame, request.modified)
            if not (yield from Answer(reading.head, entry.question.id, row, newer)):
                continue
            again = False
        else:
            frame = edited(root, entry.frame, request.modified or {})
            opened = _resumed_row(root, frame, request) if request.modified or request.reopen else None
            if not (yield from Take(reading.head, opened, newer, frame)):
                continue
            again = opened is None and reading.last is not None and reading.last.step_type == "llm_call"
        return (yield from walk(root, request.execution_id, frame, again=again))


def decide_only(execution_id: str, value: Resume) -> Generator[Effect[Any], Any, None]:
    """Record an answer without running anything."""
    request = Request(execution_id, value)
    before: Reading | None = None
    while True:
        reading = yield from Look(execution_id)
        before = _moved(before, reading)
        frame = newest_frame(reading, None)
        entry = yield from _entry(reading, request, frame)
        if entry.question is None or entry.trail is None:
            return
        request = replace(request, value=replace(value, interrupt_id=entry.question.id))
        answered = with_leaf(entry.trail, with_answer(entry.trail, value))
        row = _answer_row(stored_path(reading.head.graph, entry.trail), entry.question, value, answered)
        if (yield from Decide(reading.head, entry.question.id, row, status_of(answered))):
            return


def read(execution_id: str) -> Generator[Effect[Any], Any, RunResult]:
    """How a run stands at one moment, with its history up to there."""
    while True:
        reading = yield from Look(execution_id)
        head, last = reading.head, reading.last
        rows = (yield from History(execution_id))[: head.seq]
        if len(rows) == head.seq:
            break  # else the run was removed in between
    frame = newest_frame(reading, None)
    open_now = () if head.status == "cancelled" else asked_in(rows, head.runner, frame)
    return stored_result(execution_id, head.status, frame, open_now, None if last is None else last.error, tuple(rows))


def _paused(root: Machine, execution_id: str, frame: Frame, row: Checkpoint | None) -> Steps:
    """The end of a call that leaves only questions: those of its frames, whatever has become of them since.

    `row` is one that may have asked them all; where it has not, the history has the others.
    """
    asked = asked_in(() if row is None else (row,), root.name, frame)
    if len(asked) < len(open_questions(frame)):
        asked = asked_in((yield from History(execution_id)), root.name, frame)
    return Ended(stored_result(execution_id, "paused", frame, asked))


def _moved(before: Reading | None, now: Reading) -> Reading:
    """The new reading, after a claim that was based on the one before did not take effect.

    Where the head still stands as it did, no repetition can help: what the claim had to find beside it is gone.
    """
    if before is not None and _place(before) == _place(now):
        run_id = now.head.execution_id
        message = (
            f"Run {run_id!r} waits for an answer, but its question is missing from the store, which something else "
            f"has changed. cancel({run_id!r}) and resume({run_id!r}, reopen=True) ask it again."
        )
        raise StoreCorrupt(message)
    return now


def _place(reading: Reading) -> tuple[object, ...]:
    return reading.head.epoch, reading.head.seq, reading.head.token


def _entry(reading: Reading, request: Request, frame: Frame) -> Generator[Effect[Any], Any, Entry]:
    """The row of the re-entry table; a question the frames do not know is looked up in the history."""
    try:
        return decide(reading, request, frame)
    except UnknownInterrupt as unknown:
        error = unknown
    wanted = request.value.interrupt_id if request.value is not None else None
    if wanted is not None and answered_before((yield from History(request.execution_id)), wanted):
        message = f"The question {wanted!r} of run {request.execution_id!r} was answered before."
        raise AlreadyResumed(message)
    raise error


def _answer_row(
    whose: str,
    question: Question,
    value: Resume,
    frame: Frame,
    changes: Mapping[str, Frozen] | None = None,
) -> Row:
    extra: dict[str, Frozen] = {"answers": question.id, "answer": frozen_answer(value)}
    if changes:
        extra["changes"] = list(changes)
    return Row(without_visits(question.id), -1, "resumed", "resumed", frame, whose, extra)


def _resumed_row(root: Machine, frame: Frame, request: Request) -> Row:
    trail, step = due_step(root, frame)
    assert trail is not None
    assert step is not None
    extra: dict[str, Frozen] = {"changes": list(request.modified or {})}
    if request.reopen:
        extra["reopened"] = True
    node = "run_end" if isinstance(step, Return) else address(trail, step.node)
    whose = agent_path(root, trail, "" if isinstance(step, Return) else step.node)
    return Row(node, -1, "resumed", "resumed", frame, whose, extra)


# -- the walk ----------------------------------------------------------------------------------------------------------


def walk(root: Machine, execution_id: str, frame: Frame, *, again: bool = False) -> Steps:
    """Run what is due, one step after another, until the run ends, pauses or fails.

    A node's row is held back until the way out of the node is decided, so that no route is ever decided twice. `again`
    says that a lifetime that was lost may have made the first call before.
    """
    held: Held | None = None
    pause: Checkpoint | None = None
    unstored = Unstored()
    trail, step = due_step(root, frame)
    while trail is not None and step is not None:
        leaf = trail[-1]
        if isinstance(step, Call):
            came = yield from _called(root, execution_id, (trail, step), held, unstored, again=again)
            if isinstance(came, Ended):
                return came
            frame, held = came
            again = False
        elif isinstance(step, Push):
            child = Frame(step.node, step.visit, step.machine.begin(step.data))
            frame = with_leaf(trail, replace(leaf, children=(*leaf.children, child)))
        elif isinstance(step, Return):
            if len(trail) == 1:
                return (yield from _complete(root, execution_id, frame, unstored.notes))
            held = returned(root, trail)
            frame = held.row.frames
        else:
            held = became_row(root, trail, step) if isinstance(step, Become) else mark_row(root, trail, step)
            frame = held.row.frames
        trail, step = due_step(root, frame)
        if held is not None and (held.asked is not None or not _decides(step)):
            held = unstored.kept_by(held)
            try:
                pause = yield Append(held.row, "running" if trail is not None else "paused", held.asked)
            except NotStorable as error:
                return (yield from _unstored(root, execution_id, held, error))
            held = None
    return (yield from _paused(root, execution_id, frame, pause))


_WITH_A_ROW = ("node", "route")
"""The calls that have a row when they are done; of the others the machine says itself when a row is due."""


def _called(
    root: Machine,
    execution_id: str,
    at: tuple[Trail, Call],
    held: Held | None,
    unstored: Unstored,
    *,
    again: bool,
) -> Generator[Effect[Any], Any, tuple[Frame, Held | None] | Ended]:
    """Make a call: the frames after it and the row that is due, or how the run has failed in it."""
    trail, step = at
    if step.kind == "model":
        outcome = yield replace(_attempt(step, trail, 0), on_text=heard_by(root, trail))
    else:
        outcome = yield from (_attempts(step, trail) if step.retry else _attempt(step, trail, 0))
    trail = clocked(root, trail, outcome.seconds)
    if isinstance(outcome, Asked):
        held = question_row(root, trail, step, outcome)
        return held.row.frames, held
    if isinstance(outcome, Failed) and not (step.catches and outcome.retryable):
        if held is not None:
            try:
                yield Append(held.row, "running", held.asked)
            except NotStorable as error:
                return (yield from _unstored(root, execution_id, held, error))
        return (yield from _fail(root, execution_id, trail, step, outcome))
    notes: Mapping[str, Frozen] = {}
    if isinstance(outcome, Done):
        outcome.again, notes = again, outcome.notes
    frame = with_leaf(trail, _stepped(machine_at(root, trail), trail[-1], step, outcome))
    if step.kind in _WITH_A_ROW:
        return frame, node_row(root, trail, step, notes, frame, held)
    if step.kind != "input":
        unstored.add(trail, step, notes)
    return frame, held


def _decides(step: Step | None) -> bool:
    """Whether a step decides the way out of a node, which belongs to the row of the node."""
    return isinstance(step, Call) and step.kind == "route"


def due_step(root: Machine, frame: Frame) -> tuple[Trail, Step] | tuple[None, None]:
    """The first leaf that can go on, and what is due there."""
    trail = due_trail(frame)
    if trail is None:
        return None, None
    return trail, limited(root, trail, machine_at(root, trail).next(trail[-1].state))


def _stepped(machine: Machine, leaf: Frame, step: Call, outcome: Done | Failed) -> Frame:
    """The leaf after a call returned. The answers of a visit leave with it."""
    state = machine.apply(leaf.state, step, outcome)
    return Frame(leaf.place, leaf.visit, state, leaf.questions if step.kind == "input" else (), leaf.children)


def _unstored(root: Machine, execution_id: str, held: Held, error: NotStorable) -> Steps:
    """Fail the node that has made what the store cannot take, like any bad value."""
    failed = Failed(error, f"{type(error).__qualname__}: {error}", retryable=False)
    return (yield from _fail(root, execution_id, held.trail, held.step, failed))


def _attempts(step: Call, trail: Trail) -> Generator[Effect[Any], Any, Done | Failed | Asked]:
    """Invoke a call, and again after an exception of the user's own, as often as its `retry` allows."""
    number, seconds = 0, 0.0
    while True:
        outcome = yield from _attempt(step, trail, number)
        seconds = outcome.seconds = seconds + outcome.seconds
        if number == step.retry or not isinstance(outcome, Failed) or not outcome.retryable:
            return outcome
        number += 1


def _attempt(step: Call, trail: Trail, number: int) -> Invoke:
    return Invoke(step, address(trail, step.node), path(trail, step.node, step.visit), trail[-1].questions, number)


def _complete(root: Machine, execution_id: str, frame: Frame, notes: Mapping[str, Frozen]) -> Steps:
    yield from Append(Row("run_end", -1, "run_end", "completed", frame, agent_path(root, (frame,)), notes), "completed")
    return Ended(stored_result(execution_id, "completed", frame))


def _fail(root: Machine, execution_id: str, trail: Trail, step: Going, failed: Failed) -> Steps:
    leaf = trail[-1]
    frame = with_leaf(trail, replace(leaf, state=machine_at(root, trail).failed(leaf.state, step)))
    where = address(trail, step.node)
    extra: dict[str, Frozen] = {"error": failed.text, "error_type": short_name(type(failed.error)), "node": where}
    row = Row("run_end", -1, "run_end", "failed", frame, agent_path(root, trail, step.node), extra)
    yield from Append(row, "failed", clear_failed=path(trail, step.node, step.visit))
    return Ended(stored_result(execution_id, "failed", frame, error=failed.text), failed.error)
