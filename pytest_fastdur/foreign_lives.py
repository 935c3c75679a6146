"""The processes of a subject: one for each call, killed at an instant, or standing still beside one that resumes."""

from __future__ import annotations

import json
import os
import pickle
import signal
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pytest_fastdur.faults import Fault, Step, SweepError
from pytest_fastdur.forked import ForkServer
from pytest_fastdur.instants import Instants, tell_of_databases
from pytest_fastdur.ledger import EffectLedger
from pytest_fastdur.subject import Outside, checked

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_fastdur.forked import Death
    from pytest_fastdur.subject import Subject

PATIENCE = 60
"""Seconds after which a lifetime counts as one that hangs."""
_BLOCKED = 10
"""Seconds after which a second process counts as waiting for the one that stands still."""


@dataclass(frozen=True, slots=True)
class Errand:
    """What a child does."""

    folder: str
    dsn: str | None
    call: str
    label: str
    number: int
    steps: tuple[Step, ...] = ()
    seconds: int = PATIENCE


@dataclass
class Life:
    """What came of a lifetime."""

    label: str
    how: str
    """`returned`, `raised`, `killed`, `hung`, `died`."""
    events: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    struck: bool = False
    error: str = ""
    answer: Any = None
    other: str = ""
    """How the second process ended, where there was one."""

    def __str__(self) -> str:
        """One line."""
        beside = f", while another process resumed and {self.other}" if self.other else ""
        return f"{self.label}: {len(self.events)} instants, {self.how}{beside}{': ' if self.error else ''}{self.error}"


class Processes:
    """The processes of a subject: one for each call, and a second one beside it where that is ordered."""

    def __init__(self, subject: Subject, ledger: str) -> None:
        self._subject, self._ledger = subject, ledger
        self._second = ForkServer(self._work)
        self._first = ForkServer(self._work)
        self._open = ExitStack()

    def __enter__(self) -> Self:
        """Begin. The second server comes first, so that the children of the other can speak to it."""
        self._open.enter_context(self._second)
        self._open.enter_context(self._first)
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._open.close()

    def live(self, order: Errand) -> Life:
        """Let a process do one call."""
        return _life_of(order, self._first.run(pickle.dumps(order)))

    def _work(self, plain: bytes, send: Callable[[bytes], None]) -> None:
        """What a child does. Whatever the subject raises is its result."""
        order: Errand = pickle.loads(plain)  # noqa: S301 - it comes from our own process
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, order.seconds)
        ledger = EffectLedger(self._ledger)
        ledger.lifetime = order.number
        life = Life(order.label, "raised")

        def passed(when: str, name: str) -> None:
            life.events.append((when, name))
            for step in order.steps:
                if not life.struck and (step.point.when, step.point.name) == (when, name):
                    life.struck = True
                    if step.fault is Fault.KILL:
                        life.how = "killed"
                        send(_plain(life))
                        os.kill(os.getpid(), signal.SIGKILL)
                    life.other = self._beside(order)

        instants = Instants(passed)
        if order.call != "status":
            tell_of_databases(instants)
        outside = Outside(Path(order.folder), order.dsn, ledger, instants.tell)
        try:
            answer = getattr(self._subject, order.call)(outside)
            life.how, life.answer = "returned", list(checked(answer)) if order.call == "status" else None
        except SweepError:
            raise
        except BaseException as error:  # the process of foreign code ends here, whatever came out of it
            life.error = f"{type(error).__name__}: {error}"
        send(_plain(life))

    def _beside(self, order: Errand) -> str:
        """Let another process resume the run while this one stands still."""
        other = Errand(order.folder, order.dsn, "resume", "the other", -order.number, seconds=_BLOCKED)
        life = _life_of(other, self._second.run(pickle.dumps(other)))
        return f"{life.how}{': ' if life.error else ''}{life.error}"


def _plain(life: Life) -> bytes:
    return json.dumps(vars(life)).encode()


def _life_of(order: Errand, death: Death) -> Life:
    if death.message and (death.status == 0 or death.signal == signal.SIGKILL):
        known = json.loads(death.message)
        known["events"] = [(when, name) for when, name in known["events"]]
        return Life(**known)
    if death.signal == signal.SIGALRM:
        return Life(order.label, "hung", error=f"it had not ended after {order.seconds} s")
    said = death.message.decode("utf-8", "replace").rstrip()
    if "SweepError: " in said:
        raise SweepError(said.rpartition("SweepError: ")[2])
    return Life(order.label, "died", error=said.rpartition("\n")[2] or str(death))
