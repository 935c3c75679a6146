"""What was seen of a history, as plain data: enough to judge it, here or from a file, at any time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from pytest_fastdur.differences import steps_of
from pytest_fastdur.faults import FaultPlan, parse_token
from pytest_fastdur.lifetimes import Call, Lifetime
from pytest_fastdur.verdicts import Verdict, Violation

if TYPE_CHECKING:
    from pytest_fastdur.differences import Rows
    from pytest_fastdur.durable import DurableState

Role = Literal["faulted", "healed", "in doubt", "refused"]


@dataclass(frozen=True)
class End:
    """How a run stands: its status, its rows without those that only a failure leaves, and the runs beside it alike."""

    status: str | None
    rows: Rows
    others: tuple[tuple[str, Rows], ...]
    """Status and rows of every other run in the store, its child runs among them, in the order of their start."""

    @staticmethod
    def of(state: DurableState) -> End:
        """The end that is stored."""
        run = state.run
        others = tuple((other.head.status, steps_of(other)) for other in state.others)
        return End(None if run is None else run.head.status, steps_of(run), others)

    def plain(self) -> list[Any]:
        """As JSON keeps it."""
        return [self.status, self.rows, self.others]

    @staticmethod
    def of_plain(plain: list[Any]) -> End:
        """The end that `plain` was made from."""
        status, rows, others = plain
        return End(status, _rows(rows), tuple((str(how), _rows(theirs)) for how, theirs in others))


def _rows(plain: list[Any]) -> Rows:
    return [(node, kind, how, frames) for node, kind, how, frames in plain]


@dataclass(frozen=True)
class Witnessed:
    """One lifetime: what was ordered for it, how the run stood afterwards, and what it was for."""

    lifetime: Lifetime
    role: Role
    status: str | None
    ordered: FaultPlan | None = None
    changed: bool = False
    """Whether a call that was refused has changed the store."""

    def plain(self) -> dict[str, Any]:
        """As JSON keeps it."""
        return {
            "call": self.lifetime.call.plain(),
            "lifetime": self.lifetime.plain(),
            "role": self.role,
            "status": self.status,
            "ordered": None if self.ordered is None else self.ordered.token("0000"),
            "changed": self.changed,
        }

    @staticmethod
    def of_plain(plain: dict[str, Any]) -> Witnessed:
        """What `plain` was made from."""
        lifetime = Lifetime.of(Call.of(plain["call"]), dict(plain["lifetime"]))
        ordered = None if plain["ordered"] is None else parse_token(plain["ordered"])[1]
        return Witnessed(lifetime, plain["role"], plain["status"], ordered, plain["changed"])


@dataclass(frozen=True)
class Count:
    """How often an effect happened, here and in the uninterrupted run, and what was declared of it."""

    mode: str
    usual: int
    here: int


@dataclass(frozen=True)
class Evidence:
    """A history.

    `seen` is what broke a promise under the eyes of whoever looked at the store. `complete` is whether the history was
    lived to its end: one that came to a known state, or to a question without an answer, was not.
    """

    plan: FaultPlan
    questions: int
    end: End
    complete: bool = True
    asks: str = ""
    """The question that only this history asks, where there is one: nobody has an answer to it."""
    doubted: bool = False
    """Whether somebody had to say what happened when the known state that this history came to was carried on."""
    witnessed: tuple[Witnessed, ...] = ()
    counts: dict[str, Count] = field(default_factory=dict[str, Count])
    seen: tuple[Violation, ...] = ()
    struck: tuple[str, ...] = ()
    """What was durable when the last fault had struck."""

    def plain(self, digest: str) -> dict[str, Any]:
        """As JSON keeps it."""
        return {
            "plan": self.plan.token(digest),
            "questions": self.questions,
            "end": self.end.plain(),
            "complete": self.complete,
            "asks": self.asks,
            "doubted": self.doubted,
            "witnessed": [each.plain() for each in self.witnessed],
            "counts": {name: [count.mode, count.usual, count.here] for name, count in self.counts.items()},
            "seen": [[each.verdict.name, each.what] for each in self.seen],
            "struck": list(self.struck),
        }

    @staticmethod
    def of_plain(plain: dict[str, Any]) -> Evidence:
        """The evidence that `plain` was made from."""
        known = replace(
            Evidence(parse_token(plain["plan"])[1], plain["questions"], End.of_plain(plain["end"])),
            complete=plain["complete"],
            asks=plain["asks"],
            doubted=plain["doubted"],
        )
        return replace(
            known,
            witnessed=tuple(Witnessed.of_plain(each) for each in plain["witnessed"]),
            counts={name: Count(*count) for name, count in plain["counts"].items()},
            seen=tuple(Violation(Verdict[name], what) for name, what in plain["seen"]),
            struck=tuple(plain["struck"]),
        )
