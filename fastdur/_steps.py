"""What a machine may ask for, and the address scheme of the frames.

A machine is pure: `next(state)` says what is due, `apply(state, step, outcome)` takes the answer in. It does no I/O and
reads no clock; the functions in a `Call` are the user's and are invoked by a driver.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fastdur._codec import Frozen
    from fastdur.records import Frame, Question, StepType

CallKind = Literal["node", "route", "input", "model", "tool", "output", "guardrail", "memory"]
State = dict[str, "Frozen"]
Trail = tuple["Frame", ...]
"""The frames from the root down to one leaf."""


@dataclass(slots=True, eq=False)
class Call:
    """Run a function of the user's on the state of this frame."""

    kind: CallKind
    node: str
    visit: int
    index: int
    fn: Callable[..., Any]
    data: State
    output_key: str | None = None
    retry: int = 0
    timeout: float | None = None
    catches: bool = False
    """Whether an error of the user's own is an answer to this machine, and no end of the run."""


@dataclass(slots=True, eq=False)
class Mark:
    """Store a row before what comes next, so that a crash in that finds what it needs."""

    node: str
    visit: int
    index: int
    step_type: StepType
    extra: Mapping[str, Frozen] = field(default_factory=dict[str, "Frozen"])


@dataclass(slots=True, eq=False)
class Push:
    """Go down into a machine that is a node of this one."""

    node: str
    visit: int
    index: int
    machine: Machine
    data: State
    output_key: str | None = None


@dataclass(slots=True, eq=False)
class Become:
    """This frame goes on as another machine of the one above: a handoff. `into(state above, state here)` says how."""

    node: str
    visit: int
    index: int
    into: Callable[[State, State], Became]


@dataclass(slots=True, eq=False)
class Became:
    """What comes of a `Become`: the state above, the row of it there, and what the frame is from now on."""

    above: State
    mark: Mark
    place: str
    visit: int
    state: State


@dataclass(slots=True, eq=False)
class Return:
    """This frame has nothing left to do."""


Step = Call | Push | Mark | Become | Return
Going = Call | Push | Mark | Become
"""A step that is at a node."""


@dataclass(slots=True, eq=False)
class Done:
    """A call that returned: the new state of the user, the keys it changed, what the row should note."""

    data: State
    changed: tuple[str, ...] = ()
    value: Any = None
    notes: Mapping[str, Frozen] = field(default_factory=dict[str, "Frozen"])
    again: bool = False
    """Whether a lifetime that was lost may have made this call before."""
    seconds: float = 0.0
    """How long it took."""


@dataclass(slots=True, eq=False)
class Failed:
    """A call that raised, and the text of it. `retryable` where the error is the user's own."""

    error: BaseException
    text: str
    retryable: bool
    seconds: float = 0.0


@dataclass(slots=True, eq=False)
class Asked:
    """A call that paused with a question."""

    question: Question
    seconds: float = 0.0


Outcome = Done | Failed | State | None
"""What a step is answered by: a call's outcome, the last state of the frame it pushed, nothing for a mark."""


class Machine(Protocol):
    """A runner as a pure function of its state."""

    @property
    def name(self) -> str:
        """The name the user gave it."""
        ...

    @property
    def kind(self) -> str:
        """What it is: `chain`, `agent`, …."""
        ...

    def begin(self, data: State) -> State:
        """The state of a new frame."""
        ...

    @property
    def guarded(self) -> bool:
        """Whether guardrails are asked about what a frame of this machine begins with."""
        ...

    def admitted(self, state: State) -> State:
        """The state of a new frame whose guardrails have been asked before it began."""
        ...

    @property
    def on_text(self) -> Callable[[str, str], object] | None:
        """Who hears what the models of this machine, and of those below it, say while they say it."""
        ...

    def next(self, state: State) -> Step:
        """What is due."""
        ...

    def apply(self, state: State, step: Going, outcome: Outcome) -> State:
        """The state after `step` was answered."""
        ...

    def paused(self, state: State) -> State:
        """The state after a call of this frame, or of one below it, has asked a question."""
        ...

    def failed(self, state: State, step: Going) -> State:
        """The state that a run goes on from after it has failed at `step`."""
        ...

    @property
    def max_seconds(self) -> float | None:
        """How long the calls of this machine, and of those below it, may take together; None if nobody counts."""
        ...

    def over(self, frame: Frame, step: Going, *, here: bool) -> Exception | None:
        """The limit that `step` would break, which is this frame's own where it is `here`, else one below it."""
        ...

    def unfit(self, changes: Mapping[str, Frozen]) -> str | None:
        """Why the machine could not go on after these changes of its state from outside, in words."""
        ...

    def misfits(self, state: State) -> list[str]:
        """What in this state does not fit the machine of today, in words."""
        ...

    def child(self, place: str) -> Machine:
        """The machine at a place one level down."""
        ...

    def graph(self) -> Frozen:
        """The topology as data, to be compared with later."""
        ...

    def addresses(self, state: State) -> list[str]:
        """The nodes that this state will enter by name."""
        ...


def refuse(error: Exception) -> Callable[[Any], NoReturn]:
    """A call that raises `error`: how a machine, which raises nothing itself, fails a run."""

    def refused(_: Any) -> NoReturn:
        raise error

    return refused


def spends(step: Going) -> str | None:
    """What limits count: another question to a model is a `turn`, else a `tool` or a `handoff`."""
    if isinstance(step, Become):
        return "handoff"
    if isinstance(step, Mark):
        if step.step_type == "tool_call":
            return "tool"
        return None if "answer" in step.extra else "turn"
    return "turn" if isinstance(step, Call) and step.kind == "model" else None


# -- the tree of frames ------------------------------------------------------------------------------------------------


def is_due(leaf: Frame) -> bool:
    """Whether a leaf frame can go on: it has no open question."""
    return not leaf.questions or leaf.questions[-1].answer is not None


def trails(frame: Frame, above: Trail = ()) -> Iterator[Trail]:
    """Every leaf with the frames above it, in order."""
    here = (*above, frame)
    if not frame.children:
        yield here
    for child in frame.children:
        yield from trails(child, here)


def due_trail(frame: Frame) -> Trail | None:
    """The first leaf that can go on, None where only questions are left."""
    if not frame.children:
        return (frame,) if is_due(frame) else None
    return next((trail for trail in trails(frame) if is_due(trail[-1])), None)


def open_questions(frame: Frame) -> list[Question]:
    """The questions of the whole tree that wait for an answer."""
    return [trail[-1].questions[-1] for trail in trails(frame) if not is_due(trail[-1])]


def with_leaf(trail: Trail, leaf: Frame) -> Frame:
    """The root frame after the last frame of `trail` became `leaf`."""
    if len(trail) == 1:
        return leaf
    for below, above in zip(reversed(trail), reversed(trail[:-1]), strict=False):
        leaf = replace(above, children=tuple(leaf if child is below else child for child in above.children))
    return leaf


def without_leaf(trail: Trail, state: State) -> Frame:
    """The root frame after the last frame of `trail` returned and left `state` to the frame above it."""
    gone, above = trail[-1], trail[-2]
    rest = tuple(child for child in above.children if child is not gone)
    return with_leaf(trail[:-1], replace(above, state=state, children=rest))


def address(trail: Trail, node: str) -> str:
    """`node_id`: the places from the root down, then the node."""
    return node if len(trail) == 1 else "/".join([*(frame.place for frame in trail[1:]), node])


def asked_node(trail: Trail) -> str:
    """The node, in its own frame, that asked the newest question in the last frame of `trail`."""
    where = without_visits(trail[-1].questions[-1].id)
    return where.removeprefix("".join(f"{frame.place}/" for frame in trail[1:]))


def path(trail: Trail, node: str, visit: int) -> str:
    """The address with the visit of each level: `team#2/review#1`."""
    last = _with_visit(node, visit)
    return last if len(trail) == 1 else "/".join([*(_with_visit(each.place, each.visit) for each in trail[1:]), last])


def _with_visit(node: str, visit: int) -> str:
    """One level of a path. Of a node like `turn:2/tool:charge` only the last part can be entered again."""
    return f"{node.replace('/', '#1/')}#{visit}" if "/" in node else f"{node}#{visit}"


def without_visits(path_or_id: str) -> str:
    """The address of a path or of an interrupt id."""
    return "/".join(part.rpartition("#")[0] for part in path_or_id.split("/") if "#" in part)


def kind_of(node: str) -> str:
    """The name under which a graph has a node: `tool:charge` for `turn:2/tool:charge#2`."""
    return node.rpartition("/")[2].partition("#")[0]


def part_of(node: str) -> str:
    """What a node adds to the agent path: `/tool:charge` for `turn:2/tool:charge`, nothing for a node of one part."""
    return f"/{kind_of(node)}" if "/" in node else ""


def limited(root: Machine, trail: Trail, step: Step) -> Step:
    """The step, or in its place a call that fails the run, where it would break a limit of a machine on its way."""
    if isinstance(step, Return) or spends(step) is None:
        return step
    machine, last = root, len(trail) - 1
    for depth, frame in enumerate(trail):
        machine = machine.child(frame.place) if depth else machine
        error = machine.over(frame, step, here=depth == last)
        if error is not None:
            return Call("model", step.node, step.visit, step.index, refuse(error), {})
    return step


def clocked(root: Machine, trail: Trail, seconds: float) -> Trail:
    """The trail after a call that took so long, in the state of each frame whose machine has a limit of time."""
    machine = root
    for depth in range(len(trail)):
        machine = machine.child(trail[depth].place) if depth else machine
        if machine.max_seconds is not None:
            frame, spent = trail[depth], trail[depth].state.get("seconds", 0.0)
            assert isinstance(spent, float), spent
            counted = replace(frame, state={**frame.state, "seconds": round(spent + seconds, 6)})
            trail = _with_frame(trail, depth, counted)
    return trail


def _with_frame(trail: Trail, depth: int, frame: Frame) -> Trail:
    """The trail with another frame at one depth, and the frames above it accordingly."""
    found = [*trail]
    while True:
        was, found[depth] = found[depth], frame
        if depth == 0:
            return tuple(found)
        depth -= 1
        above = found[depth]
        frame = replace(above, children=tuple(frame if child is was else child for child in above.children))


def machine_at(root: Machine, trail: Trail) -> Machine:
    """The machine that the last frame of `trail` belongs to."""
    for frame in trail[1:]:
        root = root.child(frame.place)
    return root


def heard_by(root: Machine, trail: Trail) -> Callable[[str, str], object] | None:
    """Who hears the model at the last frame of `trail`: the listener of the nearest machine that has one."""
    found = root.on_text
    for frame in trail[1:]:
        root = root.child(frame.place)
        found = found if root.on_text is None else root.on_text
    return found


def agent_path(root: Machine, trail: Trail, node: str = "") -> str:
    """The names of the machines from the root down, and the tool: `chain:orders/agent:refund/tool:charge`."""
    path = f"{root.kind}:{root.name}"
    for frame in trail[1:]:
        root = root.child(frame.place)
        path = f"{path}/{root.kind}:{root.name}"
    return path + part_of(node)
