"""What is stored and what is handed out: frozen records, no behaviour beyond reading themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from fastdur._codec import freeze, thaw
from fastdur._sealed import Sealed, opened, shown
from fastdur._spoken import Said
from fastdur.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fastdur._codec import Frozen

StepType = Literal["llm_call", "tool_call", "hitl_pause", "node", "handoff", "fork_origin", "resumed", "run_end"]
RowStatus = Literal["completed", "interrupted", "resumed", "failed"]
Status = Literal["running", "paused", "completed", "failed", "cancelled"]
EffectStatus = Literal["started", "unknown", "done", "failed", "unstorable"]

FORMAT = 1
"""The format number of the rows that this version writes."""


@dataclass(frozen=True, slots=True)
class Resume:
    """A human's answer to one `interrupt()`.

    `metadata` is any storable value and comes back unchanged; `interrupt_id` names the question where several are
    open. The object that `interrupt()` returns also carries `context`: what was shown when the question was asked.
    Unknown fields are refused with TypeError.
    """

    approved: bool
    metadata: Any = field(default_factory=dict[str, Any])
    interrupt_id: str | None = field(default=None, compare=False)
    context: Any = field(default=None, compare=False, init=False)

    def __post_init__(self) -> None:
        """Refuse what is not a decision."""
        if type(self.approved) is not bool:
            message = f"Resume.approved is {self.approved!r}; say True or False, and put anything else into metadata"
            raise TypeError(message)
        if self.interrupt_id is not None and type(self.interrupt_id) is not str:
            message = f"Resume.interrupt_id is {self.interrupt_id!r}; give the id of a question, a str"
            raise TypeError(message)


def frozen_answer(answer: Resume) -> Frozen:
    """The decision as it is stored; `interrupt_id` only aims it and is not part of it."""
    return [answer.approved, freeze(answer.metadata, "metadata")]


def thawed_answer(answer: Frozen, context: Frozen, interrupt_id: str) -> Resume:
    """The decision as `interrupt()` returns it."""
    stored: Any = answer
    approved, metadata = stored
    given = Resume(approved, thaw(metadata), interrupt_id)
    object.__setattr__(given, "context", thaw(context))
    return given


@dataclass(frozen=True, slots=True)
class Question:
    """One `interrupt()` of the visit under way; the k-th of its tuple is the k-th call."""

    id: str
    reason: str
    context: Frozen
    answer: Frozen = None


@dataclass(slots=True)
class Frame:
    """One level of a running topology. Never changed once made; not frozen because each step makes two."""

    place: str
    visit: int
    state: dict[str, Frozen]
    questions: tuple[Question, ...] = ()
    children: tuple[Frame, ...] = ()

    def tree(self) -> dict[str, Frozen]:
        """The frame as it is stored."""
        tree: dict[str, Frozen] = {"p": self.place, "v": self.visit, "s": self.state}
        if self.questions:
            tree["q"] = [[q.id, q.reason, q.context, q.answer] for q in self.questions]
        if self.children:
            tree["c"] = [child.tree() for child in self.children]
        return tree

    @staticmethod
    def of(tree: Any) -> Frame:
        """The frame that `tree` was made from."""
        return Frame(
            tree["p"],
            tree["v"],
            tree["s"],
            tuple(Question(*q) for q in tree.get("q", ())),
            tuple(Frame.of(child) for child in tree.get("c", ())),
        )


@opened("context")
@dataclass(frozen=True, repr=False)
class PendingInterrupt:
    """A question that waits for its answer; also read like a mapping: `pending["reason"]`.

    Reading `context` alone raises `NotStorable` where it holds a class that is not registered in this process.
    """

    execution_id: str
    interrupt_id: str
    runner: str
    node_id: str
    reason: str
    context: Any
    agent_path: str
    created_at: float

    def __getitem__(self, name: str) -> Any:
        """The field `name`."""
        if name not in self.keys():
            raise KeyError(name)
        return getattr(self, name)

    def keys(self) -> tuple[str, ...]:
        """The names of the fields, so that `dict(pending)` works."""
        return tuple(vars(self))

    def __iter__(self) -> Iterator[str]:
        """The names of the fields."""
        return iter(self.keys())

    def __repr__(self) -> str:
        """All fields; a context of an unknown class as it is stored."""
        return shown(self)


def frozen_context(pending: PendingInterrupt) -> Frozen:
    """The context of a question as it is stored. Raises `NotStorable` where it cannot be."""
    context = vars(pending)["context"]
    return context.frozen if type(context) is Sealed else freeze(context, "context")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One stored row of a run. Never updated.

    `seq` is the only order there is. `extra` holds what only some rows have: `reason` and `context` of a pause, `error`
    of a failed ending, `input` of a tool call, `changes` of a resumed row, notes.
    """

    execution_id: str
    seq: int
    checkpoint_id: str
    node_id: str
    node_index: int
    step_type: StepType
    status: RowStatus
    frames: Frame
    agent_path: str = ""
    extra: Mapping[str, Frozen] = field(default_factory=dict[str, "Frozen"])
    parent_checkpoint_id: str | None = None
    created_at: float = 0.0
    format: int = FORMAT

    def leaf(self) -> Frame:
        """The frame that this row is about: down the tree along `node_id`."""
        frame, rest = self.frames, self.node_id
        while True:
            below = next((child for child in frame.children if rest.startswith(f"{child.place}/")), None)
            if below is None:
                return frame
            frame, rest = below, rest[len(below.place) + 1 :]

    @property
    def state_snapshot(self) -> Any:
        """A fresh copy of the user's state as it was after this row."""
        return thaw(self.leaf().state.get("data"))

    @property
    def node_output(self) -> Any:
        """What the node put into the state, None for rows that are no node's."""
        if self.step_type != "node":
            return None
        return output_of(self.leaf().state)

    @property
    def node_input(self) -> Any:
        """The exact arguments of a tool call; None elsewhere (the row before holds a node's input)."""
        return thaw(self.extra.get("input"))

    @property
    def iteration_counters(self) -> dict[str, int]:
        """How often each back edge was taken, by `source->target`."""
        return thaw(self.leaf().state.get("loops", {}))  # type: ignore[no-any-return]

    @property
    def interrupt_reason(self) -> str | None:
        """Why the run paused here, None for rows that are no pause."""
        return thaw(self.extra.get("reason"))  # type: ignore[no-any-return]

    @property
    def interrupt_context(self) -> Any:
        """What was shown with the question."""
        return thaw(self.extra.get("context"))

    @property
    def error(self) -> str | None:
        """The text of the error of a failed ending."""
        return thaw(self.extra.get("error"))  # type: ignore[no-any-return]


def sealed_output(state: Mapping[str, Frozen]) -> Sealed:
    """What the last committed node of a frame put into the state: a dict of keys, or the value of its `output_key`."""
    out: Any = state.get("out")
    data: Any = state.get("data", {})
    if isinstance(out, str):
        return Sealed(data.get(out))
    return Sealed(None if out is None else {key: data[key] for key in out if key in data})


def output_of(state: Mapping[str, Frozen]) -> Any:
    """`sealed_output`, thawed."""
    return thaw(sealed_output(state).frozen)


@dataclass(frozen=True, slots=True)
class Execution:
    """The head of one run: its status, its owner and where it stands. `run` is the store's own small key.

    `lease_live` says that the lease of its claim had not run out by the store's clock when it was read.
    """

    execution_id: str
    run: int
    runner: str
    kind: str
    status: Status
    seq: int
    epoch: int
    token: str | None
    owner: str | None
    lease_live: bool
    graph: Frozen
    input: Frozen
    attempts: int = 0
    """How often the run was claimed since its newest row."""
    parent_id: str | None = None
    parent_address: str | None = None
    parent_checkpoint_id: str | None = None
    created_at: float = 0.0
    updated_at: float = 0.0
    recorded: bool = False
    """Whether the run answers effects from records only: a fork with `effects="recorded"`, and its child runs."""
    parent_run: int | None = None
    """The `run` of the one that `parent_id` names: another one that has that id by now is not it."""

    @property
    def is_child(self) -> bool:
        """Whether a node of another run started this one. A fork names its source too, and stands alone."""
        return self.parent_address is not None

    @property
    def is_fork(self) -> bool:
        """Whether it began at a row of another run."""
        return self.parent_id is not None and not self.is_child

    @property
    def owned(self) -> bool:
        """Whether a claim stands."""
        return self.token is not None

    @property
    def unfinished(self) -> bool:
        """Whether the run can go on: everything but completed and cancelled."""
        return self.status not in ("completed", "cancelled")


@dataclass(slots=True, eq=False)
class Claim:
    """Ownership of a run: the token under which its holder writes. Moves on with each write (`seq`)."""

    execution_id: str
    run: int
    epoch: int
    token: str
    seq: int
    tail: Any = None
    """The store's own memory of the last row it wrote under this claim."""


@dataclass(frozen=True, slots=True)
class EffectRecord:
    """What is known of one effect of one run.

    `attempt` is the fresh token of the body that runs or ran, `epoch` that of the claim it began under, given by the
    store. A `started` record whose claim is no longer the run's, and an `unknown` one, are unknown: nobody knows what
    came of them. A call after a failure has a record of its own: in the same visit `key` is the effect's, `/` and 2, 3
    and so on, and `attempt` ends with that failure's; another visit adds `/` and a digest of its path first, a retry
    has its number behind a dot of `attempt`. A key that begins with `/` is of a child run yet to be started.
    """

    key: str
    name: str
    args: str
    status: EffectStatus
    attempt: str
    path: str
    result: Frozen = None
    error: Frozen = None
    epoch: int = field(default=0, compare=False)


def effect_of(key: str) -> str:
    """The key of the effect that a record belongs to."""
    return key.partition("/")[0]


def provider_key(execution_id: str, key: str) -> str:
    """What the provider is told an effect by: another for each run, the same for ever."""
    from hashlib import sha256

    return sha256(f"{execution_id}\n{effect_of(key)}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Happened:
    """The answer that an unknown effect has happened, and what its call returns from now on: any storable value."""

    result: Any = None


@dataclass(frozen=True, slots=True)
class UnknownEffect:
    """An effect of which nobody knows whether it happened.

    `key` names it for `resolve_unknown`, `effect_key` for the provider, `path` is the node and visit that called it.
    `error` is what its body raised, None where it did not get that far.
    """

    execution_id: str
    key: str
    effect_key: str
    name: str
    path: str
    error: str | None


@opened("output", "final_state")
@dataclass(frozen=True, repr=False)
class RunResult(Said):
    """How a run stands. `output` is what the last node returned, `final_state` the whole state.

    `status` is `completed`, `paused`, `failed`, `cancelled` or `running`. `history` has every row, ascending, where it
    was read with `result()`, else none. What agents have said and spent is read from `frames`, the newest of the run:
    `messages`, `tool_calls`, `tokens`. Reading `output` or `final_state` raises `NotStorable` where it holds a class
    that is not registered in this process; the rest can be read without.
    """

    execution_id: str
    status: Status
    output: Any = None
    final_state: Any = None
    pending_interrupts: tuple[PendingInterrupt, ...] = ()
    error: str | None = None
    history: tuple[Checkpoint, ...] = field(default=(), compare=False)
    frames: Frame | None = field(default=None, compare=False)

    @property
    def pending_interrupt(self) -> PendingInterrupt | None:
        """The first open question, None where the run is not paused."""
        return self.pending_interrupts[0] if self.pending_interrupts else None

    def raise_for_status(self) -> RunResult:
        """Return self, or raise `RunFailed` with the stored error text where the run failed."""
        if self.status == "failed":
            raise RunFailed(self.error or "the run failed")
        return self

    def __repr__(self) -> str:
        """All fields but the history and the frames; values of an unknown class as they are stored."""
        return shown(self, "history", "frames")


def stored_result(
    execution_id: str,
    status: Status,
    frame: Frame,
    waiting: tuple[PendingInterrupt, ...] = (),
    error: str | None = None,
    history: tuple[Checkpoint, ...] = (),
) -> RunResult:
    """The outcome of a run as its newest frames hold it."""
    state = frame.state
    values = sealed_output(state), Sealed(state.get("data"))
    return RunResult(execution_id, status, *values, waiting, error, history, frame)
