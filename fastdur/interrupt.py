"""`interrupt()`: stop here, ask a human, go on in any process when the answer is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from fastdur._codec import freeze, joined
from fastdur._delta import diff
from fastdur.checkpointers._cursor import alone
from fastdur.errors import FastdurError, InterruptError, InterruptMismatch, InterruptNotAllowed, InterruptSignal
from fastdur.records import Question, thawed_answer
from fastdur.scope import here

if TYPE_CHECKING:
    from fastdur._codec import Frozen
    from fastdur.records import Resume
    from fastdur.scope import NodeCall


def interrupt(
    reason: str,
    context: Any = None,
    *,
    on_changed_context: Literal["ignore", "raise"] = "ignore",
) -> Resume:
    """Pause the run with a question and return the answer.

    The first pass raises `InterruptSignal` (a `BaseException`; let it pass) and the run is stored as paused; no process
    has to wait. When an answer is there the node runs again from its top, so what comes before this call is repeated
    unless it is `@idempotent`. The k-th call of a visit gets the k-th answer; a call after the last answer asks again.

    `context` is stored as it was when the question was asked and comes back in `.context` of the answer, never
    recomputed. Where the node offers another one on its second pass, the row notes it, or `on_changed_context="raise"`
    raises `InterruptMismatch`. Raises `InterruptMismatch` where call k has another reason than it had,
    `InterruptNotAllowed` outside a node with a store, `ScopeLost` in a thread that was not handed `carry(fn)`,
    `NotStorable` for a context that cannot be kept.
    """
    scope = here(f"interrupt({reason!r}) was called")
    if scope is None:
        message = f"interrupt({reason!r}) outside a run; call it inside a node of a chain."
        raise InterruptNotAllowed(message)
    node = scope.node
    node.check()
    try:
        _check_arguments(reason, on_changed_context)
        _check_place(node, reason, in_effect=scope.effect is not None or not scope.asks)
        return _ask(node, joined(reason), context, on_changed_context)
    except (FastdurError, TypeError, ValueError) as error:
        node.refused = error  # whoever catches it and goes on would go on without an answer
        raise


def _ask(node: NodeCall, reason: str, context: Any, on_changed_context: str) -> Resume:
    """The answer to call k of this visit, or the pause."""
    number = node.calls
    frozen = freeze(context, "context")
    if number < len(node.questions) and node.questions[number].answer is not None:
        node.calls += 1
        return _answer(node, node.questions[number], reason, frozen, on_changed_context)
    node.asked = Question(f"{node.path}/{number + 1}", reason, frozen)
    raise InterruptSignal(reason, context)


def _check_arguments(reason: str, on_changed: str) -> None:
    if type(reason) is not str:
        message = f"interrupt() takes its reason as a str, not {type(reason).__qualname__}"
        raise TypeError(message)
    if on_changed not in ("ignore", "raise"):
        message = f"on_changed_context={on_changed!r} of interrupt({reason!r}) is not known; it is 'ignore' or 'raise'"
        raise ValueError(message)


def _check_place(node: NodeCall, reason: str, *, in_effect: bool) -> None:
    if not node.host.durable:
        message = (
            f"interrupt({reason!r}) in a chain with checkpointer=False: nothing could be resumed. Give it a store."
        )
        raise InterruptNotAllowed(message)
    alone(f"interrupt({reason!r})")
    if in_effect:
        message = f"interrupt({reason!r}) inside an @idempotent function or its key_fn; ask before or after it."
        raise InterruptNotAllowed(message)
    if node.kind not in ("node", "tool"):
        message = f"interrupt({reason!r}) in the {node.kind} function of {node.address!r}; ask in a node."
        raise InterruptNotAllowed(message)
    if node.asked is not None:
        message = (
            f"interrupt({reason!r}) while {node.asked.reason!r} of the same node is being asked; "
            "let the first one leave the node."
        )
        raise InterruptError(message)


def _answer(node: NodeCall, question: Question, reason: str, context: Frozen, on_changed: str) -> Resume:
    if question.reason != reason:
        message = (
            f"Question {question.id!r} was asked as {question.reason!r} and answered; now it is {reason!r}. "
            "The answer is not given to another question: put the reason back, or fork the run, which asks again, or "
            "cancel it."
        )
        raise InterruptMismatch(message)
    if diff(question.context, context) is not None:
        if on_changed == "raise":
            message = f"The context of question {question.id!r} is no longer the one that was answered."
            raise InterruptMismatch(message)
        node.note("changed_context", question.id)
    return thawed_answer(question.answer, question.context, question.id)
