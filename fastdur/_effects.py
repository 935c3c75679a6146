"""What the engine may ask of a driver. Data only; nothing here does anything.

`Effect[T].__iter__` yields the effect itself and returns the driver's answer, so `reading = yield from Look(run)` is
typed. `name` is the name of the boundary that the driver opens around the effect.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fastdur._steps import Asked, Done, Failed
from fastdur.records import Checkpoint, EffectRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from fastdur._codec import Frozen
    from fastdur._steps import Call
    from fastdur.records import Execution, Frame, Question, RowStatus, Status, StepType

T_co = TypeVar("T_co", covariant=True)


class Effect(ABC, Generic[T_co]):
    """One thing done by a driver, answered with a `T_co`."""

    __slots__ = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of its boundary."""

    def __iter__(self) -> Generator[Effect[Any], Any, T_co]:
        """Yield the effect and return the driver's answer."""
        answer: T_co = yield self
        return answer


@dataclass(slots=True, eq=False)
class Reading:
    """How a run stands: its head, its newest row (None where it has none), and whether its owner is at work.

    `rows` are the newest that were asked for, ascending.
    """

    head: Execution
    last: Checkpoint | None
    alive: bool
    rows: tuple[Checkpoint, ...] = ()


@dataclass(slots=True, eq=False)
class Row:
    """A checkpoint before it has its ids."""

    node_id: str
    node_index: int
    step_type: StepType
    status: RowStatus
    frames: Frame
    agent_path: str
    extra: Mapping[str, Frozen] = field(default_factory=dict[str, "Frozen"])


@dataclass(slots=True, eq=False)
class Look(Effect[Reading]):
    """Read how a run stands, with its newest rows, of one moment. Raises `RunNotFound`."""

    execution_id: str
    rows: int = 1
    """How many of the newest rows are of use; with 0 the head alone is read."""

    @property
    def name(self) -> str:
        """The boundary."""
        return "look"


@dataclass(slots=True, eq=False)
class History(Effect[list[Checkpoint]]):
    """Read every row of a run, or the newest that many."""

    execution_id: str
    limit: int | None = None

    @property
    def name(self) -> str:
        """The boundary."""
        return "history"


@dataclass(slots=True, eq=False)
class Start(Effect[None]):
    """Write the head of a new run and own it. Raises `RunExists`, and `StaleRun` where its parent is not held."""

    execution_id: str
    runner: str
    kind: str
    graph: Frozen
    input: Frozen
    parent_id: str | None = None
    parent_address: str | None = None
    parent_token: str | None = None
    recorded: bool = False

    @property
    def name(self) -> str:
        """The boundary."""
        return "start"


@dataclass(slots=True, eq=False)
class Take(Effect[bool]):
    """Take ownership as of a reading, with a row or a newer graph where given. False where the head has moved.

    Raises `NotStorable` where this process cannot read the state.
    """

    seen: Execution
    row: Row | None
    graph: Frozen
    frame: Frame
    """The frames that the run will go on from: what this process cannot read is refused before anything is taken."""

    @property
    def name(self) -> str:
        """The boundary."""
        return "claim"


@dataclass(slots=True, eq=False)
class Answer(Effect[bool]):
    """Take a question, store its answer in `row`, own the run: all in one. False where the head has moved.

    Raises `NotStorable` where this process cannot read the state in `row`.
    """

    seen: Execution
    interrupt_id: str
    row: Row
    graph: Frozen

    @property
    def name(self) -> str:
        """The boundary."""
        return f"claim interrupt {self.row.node_id}"


@dataclass(slots=True, eq=False)
class Decide(Effect[bool]):
    """Take a question and store its answer without owning the run. False where the head has moved."""

    seen: Execution
    interrupt_id: str
    row: Row
    status: Status

    @property
    def name(self) -> str:
        """The boundary."""
        return f"decide {self.row.node_id}"


@dataclass(slots=True, eq=False)
class Cancel(Effect[bool]):
    """End a run from outside. False where the head has moved."""

    seen: Execution
    row: Row

    @property
    def name(self) -> str:
        """The boundary."""
        return "cancel"


@dataclass(slots=True, eq=False)
class Append(Effect[Checkpoint]):
    """Store a row, with the question it asks and the status it leaves; answered with it. Raises `StaleRun`."""

    row: Row
    status: Status
    asked: Question | None = None
    clear_failed: str | None = None

    @property
    def name(self) -> str:
        """The boundary."""
        return f"{'append' if self.asked is None else 'pause'} {self.row.node_id}"


@dataclass(slots=True, eq=False)
class Invoke(Effect[Done | Failed | Asked]):
    """Run a function of the user's."""

    call: Call
    address: str
    path: str
    questions: tuple[Question, ...]
    attempt: int
    on_text: Callable[[str, str], object] | None = None
    """Who hears a model while it speaks."""

    @property
    def name(self) -> str:
        """The boundary."""
        return f"{self.call.kind} {self.address}"


@dataclass(slots=True, eq=False)
class Release(Effect[None]):
    """Give up the claim of a call that ended without a row."""

    @property
    def name(self) -> str:
        """The boundary."""
        return "release"


@dataclass(slots=True, eq=False)
class BeginEffect(Effect[EffectRecord | None]):
    """Write the `started` record of an effect; answered with the record that forbids to run it, if any."""

    record: EffectRecord
    address: str

    @property
    def name(self) -> str:
        """The boundary."""
        return f"effect begin {self.record.name.rpartition('.')[2]}@{self.address}"


@dataclass(slots=True, eq=False)
class RunEffect(Effect[tuple[Any, BaseException | None]]):
    """Run the body of an effect, or what asks after it; answered with its value or with what it raised."""

    record: EffectRecord
    address: str
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    asks: bool = False
    """Whether it is the function that finds out what became of an unknown effect."""
    repeats: bool = True
    """Whether the body may run again while nobody knows that it has not happened."""

    @property
    def name(self) -> str:
        """The boundary."""
        return f"effect {'ask ' * self.asks}{self.record.name.rpartition('.')[2]}@{self.address}"


@dataclass(slots=True, eq=False)
class Transact(Effect[tuple[EffectRecord | None, BaseException | None]]):
    """Run the body of an effect in a transaction of the store and commit it with its record; answered with both ends.

    The record is the one that answers the call, by this body or by an earlier one; else it is what the body raised.
    """

    record: EffectRecord
    address: str
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The boundary."""
        return f"effect transaction {self.record.name.rpartition('.')[2]}@{self.address}"


@dataclass(slots=True, eq=False)
class EndEffect(Effect[None]):
    """Write the outcome of an effect over its `started` record."""

    record: EffectRecord
    address: str

    @property
    def name(self) -> str:
        """The boundary."""
        return f"effect end {self.record.name.rpartition('.')[2]}@{self.address}"


@dataclass(slots=True, eq=False)
class Unknown(Effect[list[EffectRecord]]):
    """Read the effect records of a run that have no outcome."""

    execution_id: str

    @property
    def name(self) -> str:
        """The boundary."""
        return "unknown"


@dataclass(slots=True, eq=False)
class Recorded(Effect[EffectRecord | None]):
    """Read one effect record."""

    execution_id: str
    key: str

    @property
    def name(self) -> str:
        """The boundary."""
        return "recorded"


@dataclass(slots=True, eq=False)
class Resolve(Effect[bool]):
    """Write the outcome of an unknown effect from outside. False where its record or the owner has changed."""

    seen: Execution
    record: EffectRecord
    outcome: EffectRecord

    @property
    def name(self) -> str:
        """The boundary."""
        return f"resolve {self.record.name.rpartition('.')[2]}"


@dataclass(slots=True, eq=False)
class AwaitEffect(Effect[None]):
    """Wait until the effect with this key is no longer in flight."""

    key: str
    label: str

    @property
    def name(self) -> str:
        """The boundary."""
        return f"effect wait {self.label}"
