"""What a run may begin with: guardrails are asked about it before there is a run. No I/O, like the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastdur._effects import Invoke, Look
from fastdur._reentry import modified
from fastdur._steps import Call, Failed, due_trail, machine_at
from fastdur.errors import RunNotFound
from fastdur.records import Frame

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from fastdur._codec import Frozen
    from fastdur._effects import Effect
    from fastdur._steps import Machine, State


def first_frame(root: Machine, data: State) -> Frame:
    """The frames that a run begins with, after the guardrails have been asked about `data`."""
    return Frame("", 0, root.admitted(root.begin(data)))


def admit(root: Machine, data: State) -> Generator[Effect[Any], Any, State]:
    """What a run may begin with. Guardrails are asked before anything is stored, so that what they mask never is.

    Raises what they raise; then nothing was started.
    """
    if not root.guarded:
        return data
    state = root.begin(data)
    step = root.next(state)
    while isinstance(step, Call) and step.kind == "guardrail":
        outcome = yield Invoke(step, step.node, f"{step.node}#1", (), 0)
        if isinstance(outcome, Failed):
            raise outcome.error
        state = root.apply(state, step, outcome)
        step = root.next(state)
    return _passed(data, state)


def _passed(data: State, state: Any) -> State:
    """What the guardrails have left of the `data` that a conversation begins with."""
    given = state["data"]["input"]
    if "input" in data:
        return {**data, "input": given}
    return data if given is data else {"input": given}


def admit_once(root: Machine, execution_id: str, data: State) -> Generator[Effect[Any], Any, State]:
    """The same for a run that a node starts: where it has started it before, what was said then counts."""
    if not root.guarded:
        return data
    try:
        reading = yield from Look(execution_id)
    except RunNotFound:
        return (yield from admit(root, data))
    known: Any = reading.head.input
    return known  # type: ignore[no-any-return] # the head of a run has its state


def edited(root: Machine, frame: Frame, changes: Mapping[str, Frozen]) -> Frame:
    """The frames with changes from outside in the state that the next step sees.

    Raises `TypeError` where its machine could not go on with them, before anything is claimed.
    """
    trail = due_trail(frame)
    if changes and trail is not None:
        check_changes(machine_at(root, trail), changes, "modified_state")
    return modified(frame, changes)


def check_changes(machine: Machine, changes: Mapping[str, Frozen], what: str) -> None:
    """Raise `TypeError` where a machine could not go on with these changes of its state."""
    wrong = machine.unfit(changes)
    if wrong is not None:
        message = f"{what} of {machine.kind} {machine.name!r}: {wrong}. Nothing was changed."
        raise TypeError(message)
