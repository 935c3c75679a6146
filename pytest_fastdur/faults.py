"""The kinds of fault, where they strike, and the replay token that writes both down.

A token is `fd1-7c4e:resume#1/append review=kill after`: the version, a digest of the recorded list of boundaries, then
one step or several, joined by `,` or `;`: which lifetime, which boundary, which fault, before or after. It may be read
and edited; without a digest (`fd1:start/claim=crash before`) the list is not compared.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Literal, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_fastdur.observers import Event

When = Literal["before", "after"]

VERSION = "fd1"
INSIDE = {"Statement": "sql", "Line": "lines"}
"""The kinds of instants below and beside the boundaries of the engine, and by what names they are ordered."""
BOUNDARIES = ("engine", *INSIDE.values())
_TOKEN = re.compile(r"fd1(?:-(?P<digest>[0-9a-f]{4}))?:(?P<steps>.+)", re.DOTALL)
_STEP = re.compile(
    r"(?P<lifetime>[^/=]+)/(?P<name>.+)=(?P<fault>[\w+!-]+)(?:@(?P<variant>[\w.]+))? (?P<when>before|after)", re.DOTALL
)
_ESCAPED = "%,;='\"\\`$!\n\r\t"


class SweepError(Exception):
    """The order for a sweep makes no sense: an unknown boundary, fault or token, a story that cannot be swept."""


class NoAnswer(SweepError):
    """A story asks a question that it has no answer to."""


class DivergenceError(SweepError):
    """A replay token was recorded on another list of boundaries than the story has."""


class Fault(Enum):
    """How a boundary is faulted."""

    CRASH = "crash"
    """The process dies, played in process: nothing of its claim is written any more."""
    RAISE = "raise"
    """A RuntimeError comes out of the boundary; process and store live on."""
    KILL = "kill"
    """A real child process dies by SIGKILL."""
    DROP = "drop"
    """The connection to the server is lost: before, with the first statement of the boundary, or idle where it sends
    none; after, idle."""
    LOST_COMMIT = "lost-commit"
    """The server has done the first statement of the boundary, all but the commit, when the connection is lost."""
    LOST_ANSWER = "lost-answer"
    """The server has committed the first statement of the boundary when the connection is lost, before it answers."""

    ZOMBIE = "zombie"
    """The process stands still for longer than its lease, another carries the run on, and then it goes on itself."""
    TICK_ON = "tick+"
    """The store's clock jumps an hour on, and that of the process does not."""
    TICK_BACK = "tick-"
    """The store's clock jumps an hour back."""
    CANCEL = "cancel"
    """The task that awaits the run is cancelled: of async stories only."""
    LOCKED = "locked"
    """Another connection holds the write lock of the SQLite file when the next transaction begins."""
    FULL = "full"
    """The SQLite file cannot grow in the next transaction."""
    IO = "io"
    """The next transaction cannot be written: the system reports an error to SQLite at its commit."""
    LOCKED_ON = "locked!"
    """From here on to the end of the lifetime another connection holds the write lock of the SQLite file."""
    FULL_ON = "full!"
    """From here on to the end of the lifetime the SQLite file cannot grow."""
    IO_ON = "io!"
    """From here on to the end of the lifetime nothing can be written to the SQLite file."""
    POWER = "power"
    """The machine loses its power: what was not synced to the SQLite file may be gone, in any part."""
    SERVER = "server"
    """The Postgres server and all its processes die by SIGKILL, and it is started again."""
    ABORT = "abort"
    """The server rolls the next statement that writes back: as a serialization failure, and then as the victim of a
    deadlock."""
    CLOCK_ON = "clock+"
    """The clock of this process jumps an hour on, and that of the store does not."""
    CLOCK_BACK = "clock-"
    """The clock of this process jumps an hour back."""

    @property
    def kills(self) -> bool:
        """Whether it ends the process, so that another must carry the run on."""
        return self in (Fault.CRASH, Fault.KILL, Fault.POWER)

    @property
    def file(self) -> bool:
        """Whether it strikes an SQLite file."""
        return self.value.rstrip("!") in ("locked", "full", "io")

    @property
    def lasts(self) -> bool:
        """Whether it goes on until the lifetime has ended."""
        return self.value.endswith("!")

    @property
    def wire(self) -> bool:
        """Whether it strikes a connection to a server, and so no process: the run must end as if nothing was."""
        return self in (Fault.DROP, Fault.LOST_COMMIT, Fault.LOST_ANSWER)

    def strikes(self, event: Event) -> bool:
        """Whether it can strike at an instant; inside of what the engine does, only what ends the process can.

        An error can also come out of a line of the user's.
        """
        if event.kind in INSIDE:
            dies = self in (Fault.CRASH, Fault.KILL)
            return dies or (self is Fault.RAISE and event.kind == "Line")
        if self.file or self is Fault.ABORT:
            return event.when == "before" and event.writes
        if self is Fault.POWER:
            return event.writes
        return self not in (Fault.LOST_COMMIT, Fault.LOST_ANSWER) or (event.when == "before" and event.sends)


@dataclass(frozen=True, slots=True)
class Point:
    """One instant of a story: before or after a named boundary of one lifetime (`start`, `resume#1`, …)."""

    lifetime: str
    when: When
    name: str

    def __str__(self) -> str:
        """`resume#1/after append review`, as `--fastdur-at` and the lists of boundaries write it."""
        return f"{self.lifetime}/{self.when} {self.name}"

    def is_of(self, lifetime: str, event: Event) -> bool:
        """Whether it is the instant of an event in a lifetime."""
        return self == Point(lifetime, event.when, event.name)

    def matches(self, pattern: str) -> bool:
        """Whether a glob fits the whole, the instant (`after append review`) or the name (`append review`)."""
        whole, instant = str(self), f"{self.when} {self.name}"
        return any(text == pattern or fnmatch.fnmatchcase(text, pattern) for text in (whole, instant, self.name))


@dataclass(frozen=True, slots=True)
class Step:
    """One ordered fault."""

    point: Point
    fault: Fault
    variant: str = ""
    """Which of several things that the fault may leave behind is meant; all of them where it is empty."""

    @property
    def named(self) -> str:
        """The fault, and the variant."""
        return f"{self.fault.value}@{self.variant}" if self.variant else self.fault.value

    def __str__(self) -> str:
        """As it stands in a token."""
        point = self.point
        return f"{point.lifetime}/{_escape(point.name)}={self.named} {point.when}"


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """The faults of one history, in the order in which they strike."""

    steps: tuple[Step, ...]

    def of(self, lifetime: str) -> tuple[Step, ...]:
        """The faults ordered for one lifetime."""
        return tuple(step for step in self.steps if step.point.lifetime == lifetime)

    def token(self, digest: str) -> str:
        """The text that replays this plan."""
        return f"{VERSION}-{digest}:{', '.join(map(str, self.steps))}"

    def __str__(self) -> str:
        """The steps as people read them."""
        return ", then ".join(f"{step.named} {step.point}" for step in self.steps)


def parse_token(token: str) -> tuple[str | None, FaultPlan]:
    """The digest of a replay token, None where it has none, and its plan. Raises `SweepError` saying what is wrong."""
    whole = _TOKEN.fullmatch(token.strip())
    if whole is None:
        message = f"{token!r} is no replay token; it looks like {VERSION}-7c4e:resume#1/append review=crash after"
        raise SweepError(message)
    steps = tuple(_step(text.strip()) for text in re.split("[,;]", whole["steps"]))
    return whole["digest"], FaultPlan(steps)


def _step(text: str) -> Step:
    found = _STEP.fullmatch(text)
    if found is None:
        message = f"the step {text!r} of the replay token is not LIFETIME/BOUNDARY=FAULT before|after"
        raise SweepError(message)
    point = Point(found["lifetime"], cast("When", found["when"]), _unescape(found["name"]))
    return Step(point, fault_named(found["fault"]), found["variant"] or "")


def fault_named(name: str) -> Fault:
    """The kind of fault. Raises `SweepError` listing those there are."""
    try:
        return Fault(name)
    except ValueError:
        message = f"there is no fault {name!r}; there are {', '.join(fault.value for fault in Fault)}"
        raise SweepError(message) from None


def faults_named(names: str | Iterable[str | Fault]) -> tuple[Fault, ...]:
    """The kinds of fault of a comma list or of names, each once."""
    given = names.split(",") if isinstance(names, str) else names
    faults = [name if isinstance(name, Fault) else fault_named(name.strip()) for name in given]
    if not faults:
        message = "no fault is ordered; a sweep without one proves nothing"
        raise SweepError(message)
    return tuple(dict.fromkeys(faults))


def boundaries_named(names: str | Iterable[str]) -> frozenset[str]:
    """The kinds of boundaries of a comma list or of names; those of the engine are always among them."""
    given = frozenset(name.strip() for name in (names.split(",") if isinstance(names, str) else names))
    for name in sorted(given):
        if name not in BOUNDARIES:
            message = f"there are no boundaries {name!r}; there are {', '.join(BOUNDARIES)}"
            raise SweepError(message)
    return given - {"engine"}


def boundaries_of(plans: Iterable[FaultPlan]) -> frozenset[str]:
    """The kinds of boundaries that plans speak of, as the names of their instants tell."""
    names = [step.point.name for plan in plans for step in plan.steps]
    begin = {"sql": "sql ", "lines": "line "}
    return frozenset(kind for kind, text in begin.items() for name in names if name.startswith(text))


def digest_of(boundaries: Sequence[str]) -> str:
    """Four hexadecimal digits that stand for a list of boundaries."""
    return hashlib.sha256("\n".join(boundaries).encode("utf-8", "surrogatepass")).hexdigest()[:4]


def check_digest(digest: str | None, recorded: Sequence[str], known: Sequence[str] | None) -> None:
    """Raise `DivergenceError` where a token was made on another list; `known` is that list, if it is still at hand."""
    present = digest_of(recorded)
    if digest is None or digest == present:
        return
    message = (
        f"the token was recorded on another list of boundaries ({digest}) than this story has ({present}): "
        f"{_first_difference(recorded, known)}. "
        f"If the step still means what it meant, write {VERSION}-{present} and replay it."
    )
    raise DivergenceError(message)


def _first_difference(recorded: Sequence[str], known: Sequence[str] | None) -> str:
    if known is None:
        return "which one differs first cannot be told, because the old list is not in the cache of this directory"
    for place, (was, now) in enumerate(zip(known, recorded, strict=False), start=1):
        if was != now:
            return f"the first that differs is number {place}, {was!r} then and {now!r} now"
    longer, verb = (known, "is gone") if len(known) > len(recorded) else (recorded, "is new")
    return f"{longer[min(len(known), len(recorded))]!r} {verb}"


def _escape(name: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in name)


def _unescape(name: str) -> str:
    return re.sub("%([0-9A-F]{2})", lambda found: chr(int(found[1], 16)), name)
