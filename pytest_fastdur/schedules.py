"""Schedules: who goes on at each gate, as data and as text that can be read, edited and played again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Literal

from pytest_fastdur.faults import DivergenceError, SweepError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_fastdur.gates import Gate

What = Literal["run", "kill", "lose", "tick"]

VERSION = "fdi1"
_TOKEN = re.compile(r"fdi1(?:-(?P<digest>[0-9a-f]{4}))?:(?P<steps>[\w,-]*)")
_STEP = re.compile(r"(?:(?P<actor>\d+)(?:x(?P<times>\d+))?|(?P<what>kill|lose)(?P<whom>\d+)|(?P<tick>tick))")


@dataclass(frozen=True, slots=True, order=True)
class Choice:
    """One step of a schedule: an actor goes on to its next gate, or loses an answer on it, or dies; or leases end."""

    what: What
    actor: int = -1

    def __str__(self) -> str:
        """As it stands in a schedule: `0`, `kill1`, `lose0`, `tick`."""
        if self.what == "tick":
            return "tick"
        return f"{'' if self.what == 'run' else self.what}{self.actor}"


@dataclass(frozen=True, slots=True)
class Moment:
    """A step that was taken: the choice, where its actor stood, and what it was doing."""

    choice: Choice
    gate: Gate
    doing: str
    preempts: int | None = None
    """The actor that could have gone on in its place."""


def token(choices: Iterable[Choice], digest: str) -> str:
    """The text of a schedule: `fdi1-7c4e:0x4,1x2,kill0,1x9`."""
    parts: list[str] = []
    for choice, same in groupby(choices):
        times = len(list(same))
        if choice.what == "run" and times > 1:
            parts.append(f"{choice}x{times}")
        else:
            parts += [str(choice)] * times
    return f"{VERSION}-{digest}:{','.join(parts)}"


def is_schedule(text: str) -> bool:
    """Whether a token is one of a schedule, and not of a sweep."""
    return text.startswith(VERSION)


def parsed(text: str) -> tuple[str | None, tuple[Choice, ...]]:
    """The digest and the choices of a token. Raises `SweepError`."""
    found = _TOKEN.fullmatch(text)
    if found is None:
        message = f"{text!r} is no schedule; one looks like {VERSION}-7c4e:0x4,1x2,kill0,1x9"
        raise SweepError(message)
    return found["digest"], tuple(_choices(found["steps"]))


def _choices(text: str) -> Iterator[Choice]:
    for part in text.split(",") if text else ():
        found = _STEP.fullmatch(part)
        if found is None:
            message = f"the step {part!r} of the schedule is not ACTOR, ACTORxTIMES, killACTOR, loseACTOR or tick"
            raise SweepError(message)
        if found["tick"]:
            yield Choice("tick")
        elif found["what"]:
            yield Choice("kill" if found["what"] == "kill" else "lose", int(found["whom"]))
        else:
            yield from [Choice("run", int(found["actor"]))] * int(found["times"] or 1)


def diverged(wanted: Choice, possible: Sequence[Choice], step: int) -> DivergenceError:
    """The error of a schedule that no longer fits."""
    message = (
        f"the schedule does not fit: step {step + 1} is {wanted}, and possible there is "
        f"{', '.join(map(str, possible)) or 'nothing'}. The engine, the story or the actors have changed since."
    )
    return DivergenceError(message)
