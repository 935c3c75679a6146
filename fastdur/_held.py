"""The rows of a walk before they are stored: which row each step leaves, and the frames in it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fastdur._effects import Row
from fastdur._steps import Push, address, agent_path, machine_at, with_leaf, without_leaf

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastdur._codec import Frozen
    from fastdur._steps import Asked, Call, Machine, Mark, Trail
    from fastdur.records import Frame, Question


@dataclass(slots=True, eq=False)
class Held:
    """A row that is not stored yet, and the first step since the row before it, as it stood before that step."""

    row: Row
    trail: Trail
    step: Call | Push | Mark
    asked: Question | None = None


def node_row(
    root: Machine, trail: Trail, step: Call, notes: Mapping[str, Frozen], frame: Frame, held: Held | None
) -> Held:
    """The row of a node; the way out of a node belongs to the row of the node, which is still `held`."""
    if held is not None:
        return replace(held, row=replace(held.row, frames=frame, extra={**held.row.extra, **notes}))
    whose = agent_path(root, trail, step.node)
    return Held(Row(address(trail, step.node), step.index, "node", "completed", frame, whose, notes), trail, step)


def question_row(root: Machine, trail: Trail, step: Call, asked: Asked) -> Held:
    """The row of a pause: the question is in the leaf, and every frame above has seen that it was asked."""
    question, leaf = asked.question, trail[-1]
    frame = with_leaf(trail, replace(leaf, questions=(*leaf.questions, question)))
    frame = _paused(root, frame, trail)
    extra: dict[str, Frozen] = {"reason": question.reason, "context": question.context}
    whose = agent_path(root, trail, step.node)
    row = Row(address(trail, step.node), step.index, "hitl_pause", "interrupted", frame, whose, extra)
    return Held(row, trail, step, question)


def _paused(machine: Machine, frame: Frame, trail: Trail) -> Frame:
    """A frame, and those below it along `trail`, after a question was asked in the last of them."""
    state = machine.paused(frame.state)
    if len(trail) == 1:
        return replace(frame, state=state)
    place = next(at for at, child in enumerate(trail[0].children) if child is trail[1])
    below = _paused(machine.child(trail[1].place), frame.children[place], trail[1:])
    return replace(frame, state=state, children=(*frame.children[:place], below, *frame.children[place + 1 :]))


def mark_row(root: Machine, trail: Trail, step: Mark) -> Held:
    """The row that is stored before a call."""
    leaf = trail[-1]
    frame = with_leaf(trail, replace(leaf, state=machine_at(root, trail).apply(leaf.state, step, None)))
    whose = agent_path(root, trail, step.node)
    row = Row(address(trail, step.node), step.index, step.step_type, "completed", frame, whose, step.extra)
    return Held(row, trail, step)


@dataclass(slots=True)
class Unstored:
    """The calls since the newest row that have no row of their own: the first of them, and what they have noted."""

    first: tuple[Trail, Call] | None = None
    notes: dict[str, Frozen] = field(default_factory=dict[str, "Frozen"])

    def add(self, trail: Trail, step: Call, notes: Mapping[str, Frozen]) -> None:
        """One more."""
        self.first = self.first or (trail, step)
        self.notes = {**self.notes, **notes}

    def kept_by(self, held: Held) -> Held:
        """The next row, which keeps what they did; from here on there is none."""
        first, notes = self.first, self.notes
        self.first, self.notes = None, {}
        if first is None:
            return held
        return replace(held, row=replace(held.row, extra={**notes, **held.row.extra}), trail=first[0], step=first[1])


def returned(root: Machine, trail: Trail) -> Held:
    """The row of a node whose machine has returned to the one above."""
    above, leaf = trail[:-1], trail[-1]
    machine = machine_at(root, above)
    step = machine.next(above[-1].state)
    assert isinstance(step, Push), step
    assert step.node == leaf.place, step
    frame = without_leaf(trail, machine.apply(above[-1].state, step, leaf.state))
    whose = agent_path(root, above, leaf.place)
    return Held(Row(address(above, leaf.place), step.index, "node", "completed", frame, whose), above, step)
