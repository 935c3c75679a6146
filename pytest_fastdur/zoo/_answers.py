"""Animals that lose questions, answers and the way through a run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fastdur import _engine
from fastdur.checkpointers._store import Store
from pytest_fastdur.zoo._animal import Change, animal, raw

_ASK = """INSERT INTO {t}pending_interrupts
    (run, interrupt_id, runner, node_id, reason, context, agent_path, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdur.records import Frame


@animal("FD02", "FD06", "FD11")
def forgets_the_decision(change: Change) -> None:
    """Claims by deleting the question, and keeps the answer in memory until the next row is written."""
    held: dict[str, Any] = {}

    def claim(
        _: Any, self: Any, seen: Any, token: str, owner: str, interrupt_id: str, row: Any, graph: Any = None
    ) -> Any:
        del interrupt_id
        if not raw(self, "DELETE FROM {t}pending_interrupts WHERE run = ?", seen.run):
            return None
        held[token] = row
        claim = self.claim_execution(seen, token, owner, None, graph)
        claim.seq, claim.tail = row.seq, None
        return claim

    def put(real: Any, self: Any, claim: Any, row: Any, status: Any, **more: Any) -> Any:
        answer = held.pop(claim.token, None)
        if answer is not None:
            real(self, replace(claim, seq=answer.seq - 1), answer, "running")
        return real(self, claim, row, status, **more)

    change(Store, "delete_pending_interrupt_atomic", claim)
    change(Store, "put", put)


@animal("FD11", "FD06", tool="interleave start kills=1", story="unborn")
def pauses_in_two_transactions(change: Change) -> None:
    """Writes the row of a pause, and then the question."""

    def broken(real: Any, self: Any, claim: Any, row: Any, pending: Any, status: Any, **more: Any) -> Any:
        from fastdur.checkpointers._values import question_values

        stored = real(self, claim, row, (), status, **more)
        for question in pending:
            raw(self, _ASK, *question_values(claim.run, question))
        return stored

    change(Store, "record_interrupt", broken)


def _entering(change: Change, turned: Callable[[Frame], Frame]) -> None:
    """Whoever carries a run on without an answer begins with other frames than those that are stored."""

    def broken(real: Any, reading: Any, request: Any, frame: Frame) -> Any:
        entry = real(reading, request, frame)
        return (
            entry if entry.question is not None or reading.last is None else replace(entry, frame=turned(entry.frame))
        )

    change(_engine, "decide", broken)


def _with(frame: Frame, **state: Any) -> Frame:
    return replace(frame, state={**frame.state, **state})


def _without(frame: Frame, *keys: str) -> Frame:
    return replace(frame, state={key: part for key, part in frame.state.items() if key not in keys})


@animal("FD09", "FD07", "FD10", story="loop")
def loses_the_counters_of_cycles(change: Change) -> None:
    """Begins to count the way back of a cycle anew after a crash."""
    _entering(change, lambda frame: _without(frame, "loops"))


@animal("FD10", "FD09", "FD07")
def works_the_frontier_out_anew(change: Change) -> None:
    """Begins at the first node again after a crash, with the state as it is."""
    _entering(change, lambda frame: _without(frame, "due") if not frame.questions else frame)


@animal("FD10", "FD09", "FD07", story="nested")
def loses_what_a_nested_run_has_done(change: Change) -> None:
    """Enters a nested chain from its top after a crash."""
    _entering(change, lambda frame: replace(frame, children=()))


@animal("FD09", "FD06", "FD12", story="twice")
def gives_answers_to_the_wrong_questions(change: Change) -> None:
    """Hands the answers of a node out in another order after a crash."""

    def turned(frame: Frame) -> Frame:
        answers = [question.answer for question in frame.questions if question.answer is not None][::-1]
        kept = frame.questions[: len(answers)]
        mixed = tuple(replace(question, answer=answer) for question, answer in zip(kept, answers, strict=True))
        return replace(frame, questions=(*mixed, *frame.questions[len(answers) :]))

    _entering(change, turned)


@animal("FD09", "FD10", "FD06", "FD12", "FD11")
def asks_again_after_a_crash(change: Change) -> None:
    """Forgets the answer that is stored, and asks once more."""
    _entering(change, lambda frame: replace(frame, questions=()))


@animal("FD09", "FD08", "FD07", "FD10")
def begins_with_the_first_state(change: Change) -> None:
    """Carries a run on with the place that is stored, and the input for a state."""

    def broken(real: Any, reading: Any, request: Any, frame: Frame) -> Any:
        entry = real(reading, request, frame)
        return (
            entry if entry.question is not None else replace(entry, frame=_with(entry.frame, data=reading.head.input))
        )

    change(_engine, "decide", broken)


@animal("FD06", "FD12", "FD11")
def refuses_a_run_that_was_answered(change: Change) -> None:
    """Holds a question that is answered and not yet used for one that nobody may answer."""

    def broken(real: Any, reading: Any, request: Any, frame: Frame) -> Any:
        from fastdur.errors import AlreadyResumed

        if request.value is None and any(question.answer is not None for question in frame.questions):
            message = "this question was answered before"
            raise AlreadyResumed(message)
        return real(reading, request, frame)

    change(_engine, "decide", broken)
