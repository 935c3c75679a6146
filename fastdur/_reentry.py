"""How a stored run may be entered again. One pure table: `decide(reading, request) -> Entry`, or the error that fits.

    ended       due   asked  called with                        result
    ---------   ----  -----  --------------------------------   ------------------------------------------------------
    completed                anything                           AlreadyResumed with the stored result
    cancelled                anything without reopen            RunCancelled
    live owner               anything without takeover          RunInProgress
    no/failed   yes   any    nothing                            go on from the frames
    no/failed   no    yes    nothing                            ChainResumeError naming the questions
    no/failed   any   yes    an answer to an open question      claim the question
    no/failed   any   any    the answer recorded already        as nothing
    no/failed   any   any    another answer, nothing open       AlreadyResumed
    no/failed   any   any    an answer that fits none/several   UnknownInterrupt / AmbiguousResume

The rows are tried from the top; the first that fits counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fastdur._delta import diff
from fastdur._sealed import Sealed
from fastdur._steps import (
    asked_node,
    due_trail,
    is_due,
    kind_of,
    open_questions,
    part_of,
    trails,
    with_leaf,
    without_visits,
)
from fastdur._visits import count
from fastdur.errors import (
    AlreadyResumed,
    AmbiguousResume,
    ChainResumeError,
    RunCancelled,
    RunInProgress,
    UnknownInterrupt,
)
from fastdur.records import Frame, PendingInterrupt, Resume, frozen_answer, stored_result

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fastdur._codec import Frozen
    from fastdur._effects import Reading
    from fastdur._steps import Machine, State, Trail
    from fastdur.records import Checkpoint, Execution, Question, Status


@dataclass(frozen=True, slots=True)
class Request:
    """What a caller of resume asks for."""

    execution_id: str
    value: Resume | None = None
    modified: dict[str, Frozen] | None = None
    prefix: str | None = None
    takeover: bool = False
    accept_graph: bool = False
    reopen: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a run goes on: the frames, and the question to claim first if the caller brought its answer."""

    frame: Frame
    trail: Trail | None = None
    question: Question | None = None


def newest_frame(reading: Reading, root: Machine | None) -> Frame:
    """The frames of the newest row; where there is none yet, those of the start.

    Who has no machine knows only the data of a run without rows, and a cancel stores them so: they begin here, too.
    """
    data: Any = reading.head.input
    frame = Frame("", 0, {"data": data}) if reading.last is None else reading.last.frames
    if root is None or set(frame.state) != {"data"}:
        return frame
    begun: Any = frame.state["data"]
    return replace(frame, state=root.admitted(root.begin(begun)))


def status_of(frame: Frame) -> Status:
    """The status that a row with these frames leaves: something due is running, only questions is paused."""
    return "running" if due_trail(frame) is not None else "paused"


def decide(reading: Reading, request: Request, frame: Frame) -> Entry:
    """The row of the table that fits. `frame` is the newest frame of the run. Raises the error of that row."""
    head = reading.head
    if head.status == "completed":
        message = f"Run {head.execution_id!r} has completed; read its outcome with result({head.execution_id!r})."
        raise AlreadyResumed(message, stored_result(head.execution_id, "completed", frame))
    if head.status == "cancelled" and not request.reopen:
        message = f"Run {head.execution_id!r} was cancelled; resume it with reopen=True if it is to go on after all."
        raise RunCancelled(message)
    if reading.alive and not request.takeover:
        message = (
            f"Run {head.execution_id!r} is being worked on by a live owner ({head.owner}); "
            "wait for it, or pass takeover=True if you know that owner to be gone."
        )
        raise RunInProgress(message)
    if head.status == "cancelled":
        return _reopened(request, frame)
    if request.value is None:
        return _unanswered(head.execution_id, frame)
    return _answered(head, request, request.value, frame)


def _reopened(request: Request, frame: Frame) -> Entry:
    if request.value is not None:
        message = (
            f"Run {request.execution_id!r} was cancelled and its questions were withdrawn; "
            "resume it with reopen=True and no answer, then answer the question it asks."
        )
        raise ChainResumeError(message)
    return Entry(without_open_questions(frame))


def _unanswered(execution_id: str, frame: Frame) -> Entry:
    if due_trail(frame) is not None:
        return Entry(frame)
    questions = open_questions(frame)
    way = f"call resume({execution_id!r}, Resume(...))"
    message = f"Run {execution_id!r} is waiting for a human at {_listed(questions)}; {way}."
    raise ChainResumeError(message)


def _answered(head: Execution, request: Request, value: Resume, frame: Frame) -> Entry:
    execution_id = head.execution_id
    candidates = [trail for trail in trails(frame) if trail[-1].questions]
    fitting = [trail for trail in candidates if _fits(trail, value, request.prefix, head.graph)]
    if len(fitting) > 1:
        message = (
            f"Run {execution_id!r} has several questions this answer could be meant for: "
            f"{_listed(trail[-1].questions[-1] for trail in fitting)}; name one with Resume(..., interrupt_id=...)."
        )
        raise AmbiguousResume(message)
    if not fitting:
        raise _no_fit(execution_id, request, value, frame)
    trail = fitting[0]
    question = trail[-1].questions[-1]
    if question.answer is None:
        return Entry(frame, trail, question)
    if diff(question.answer, frozen_answer(value)) is None:
        return _unanswered(execution_id, frame)
    message = f"The question {question.id!r} of run {execution_id!r} has another answer already; that one stands."
    raise AlreadyResumed(message)


def _fits(trail: Trail, value: Resume, prefix: str | None, graph: Frozen) -> bool:
    asked = trail[-1].questions[-1].id
    if value.interrupt_id is not None and value.interrupt_id != asked:
        return False
    if prefix is None:
        return True
    wholes = without_visits(asked), asked.rpartition("/")[0], stored_path(graph, trail)
    return any(whole == prefix or whole.startswith(f"{prefix}/") for whole in wholes)


def stored_path(graph: Any, trail: Trail) -> str:
    """`agent_path` as the stored graph has it, which fits the frames whatever the runner of today looks like."""
    names = [f"{graph['kind']}:{graph['name']}"]
    for frame in trail[1:]:
        graph = graph["nodes"][kind_of(frame.place)]
        names.append(f"{graph['kind']}:{graph['name']}")
    return "/".join(names) + part_of(asked_node(trail))


def _no_fit(execution_id: str, request: Request, value: Resume, frame: Frame) -> ChainResumeError | AlreadyResumed:
    questions = open_questions(frame)
    wanted = value.interrupt_id
    if wanted is not None and _was_answered(wanted, frame):
        return AlreadyResumed(f"The question {wanted!r} of run {execution_id!r} was answered before.")
    if wanted is None and request.prefix is None and not questions:
        return AlreadyResumed(
            f"Run {execution_id!r} is not waiting for an answer; call resume({execution_id!r}) to carry it on."
        )
    what = repr(wanted) if wanted is not None else f"under {request.prefix!r}"
    listed = f"open: {_listed(questions)}" if questions else "no question is open"
    return UnknownInterrupt(f"Run {execution_id!r} has no question {what}; {listed}. Nothing was consumed.")


def _was_answered(interrupt_id: str, frame: Frame) -> bool:
    """Whether the frames alone show that this question is behind: an older visit, or an earlier call of this one."""
    asked = [question for trail in trails(frame) for question in trail[-1].questions]
    if any(question.id == interrupt_id and question.answer is not None for question in asked):
        return True
    parts = interrupt_id.split("/")[:-1]
    for depth, part in enumerate(parts):
        node, mark, visit = part.rpartition("#")
        if not mark or not visit.isdecimal():
            return False
        if 0 < int(visit) <= count(frame.state, node):
            return True
        below = [child for child in frame.children if (child.place, child.visit) == (node, int(visit))]
        if depth == len(parts) - 1 or not below:
            return False
        frame = below[0]
    return False


def answered_before(history: Iterable[Checkpoint], interrupt_id: str) -> bool:
    """Whether a `resumed` row of the run holds an answer to this question."""
    return any(row.step_type == "resumed" and row.extra.get("answers") == interrupt_id for row in history)


def asked_in(rows: Iterable[Checkpoint], runner: str, frame: Frame) -> tuple[PendingInterrupt, ...]:
    """The open questions of `frame` that were asked by one of these rows."""
    found: dict[str, PendingInterrupt] = {}
    for row in rows:
        for question in open_questions(row.frames) if row.step_type == "hitl_pause" else ():
            node = without_visits(question.id)
            if node == row.node_id:
                context = Sealed(question.context)
                found[question.id] = PendingInterrupt(
                    row.execution_id,
                    question.id,
                    runner,
                    node,
                    question.reason,
                    context,
                    row.agent_path,
                    row.created_at,
                )
    return tuple(found[question.id] for question in open_questions(frame) if question.id in found)


def with_answer(trail: Trail, value: Resume) -> Frame:
    """The leaf of `trail` with its open question answered."""
    leaf = trail[-1]
    answered = replace(leaf.questions[-1], answer=frozen_answer(value))
    return replace(leaf, questions=(*leaf.questions[:-1], answered))


def without_open_questions(frame: Frame) -> Frame:
    """The tree with what is not answered taken back, so that it is asked again."""
    questions = frame.questions if is_due(frame) else frame.questions[:-1]
    return replace(frame, questions=questions, children=tuple(map(without_open_questions, frame.children)))


def without_questions(frame: Frame) -> Frame:
    """The tree with every question taken out, answered or not: whatever a step asks, it asks again."""
    return replace(frame, questions=(), children=tuple(map(without_questions, frame.children)))


def modified(frame: Frame, changes: Mapping[str, Frozen]) -> Frame:
    """The tree with `changes` merged into the state that the next step sees: the innermost due frame's."""
    trail = due_trail(frame)
    if not changes or trail is None:
        return frame
    return with_leaf(trail, replace(trail[-1], state=changed_state(trail[-1].state, changes)))


def changed_state(state: State, changes: Mapping[str, Frozen]) -> State:
    """A state with `changes` in it, from outside.

    Touched, so that what was changed inside a nested machine reaches the one above when it returns, and so that an
    agent knows that its conversation may have been cut.
    """
    data: Any = state["data"]
    touched: Any = state.get("touched", [])
    touched = [*touched, *(key for key in changes if key not in touched)]
    return {**state, "data": {**data, **changes}, "touched": touched}


def latest_forkable(rows: Sequence[Checkpoint]) -> Checkpoint | None:
    """The newest of these rows, ascending, that is no end marker."""
    return next((row for row in reversed(rows) if row.step_type != "run_end"), None)


def _listed(questions: Iterable[Question]) -> str:
    return ", ".join(f"{question.id!r} ({question.reason})" for question in questions)
