"""What can be wrong with a run that was faulted: one code each, with its cause and its cure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
    """A broken promise. Of several at one point the first in this order is reported."""

    CORRUPT = 1
    LOST_COMMIT = 2
    REWRITTEN = 3
    TWO_WINNERS = 4
    ZOMBIE_WRITE = 5
    STRANDED = 6
    EFFECT_REPEATED = 7
    EFFECT_LOST = 8
    DIVERGED = 9
    STEP_REPEATED = 10
    HALF_PAUSED = 11
    WRONG_ERROR = 12
    LEAK = 13
    HANG = 14
    NEVER_REACHED = 15
    NOT_FIRED = 16
    DIED_OTHERWISE = 17

    @property
    def code(self) -> str:
        """`FD07`."""
        return f"FD{self.value:02}"

    @property
    def cause(self) -> str:
        """What is behind it as a rule."""
        return _TEXTS[self][0]

    @property
    def cure(self) -> str:
        """What helps as a rule."""
        return _TEXTS[self][1]

    def __str__(self) -> str:
        """`FD07 EFFECT_REPEATED`."""
        return f"{self.code} {self.name}"


_TEXTS: dict[Verdict, tuple[str, str]] = {
    Verdict.CORRUPT: (
        "what the store holds of the run contradicts itself",
        "look at the store: a row was dropped, written twice, or written outside the one transaction of its step",
    ),
    Verdict.LOST_COMMIT: (
        "a row was acknowledged and is no longer there",
        "a store may report a write only after its commit; do not buffer, and do not answer from memory",
    ),
    Verdict.REWRITTEN: (
        "a stored row has changed, or the history is no longer the beginning of what follows",
        "rows are inserted, never updated or deleted",
    ),
    Verdict.TWO_WINNERS: (
        "two callers carried the same run on",
        "a claim is one compare-and-set on the head, never a read and then a write",
    ),
    Verdict.ZOMBIE_WRITE: (
        "an owner that had been replaced wrote something",
        "check the claim inside each write",
    ),
    Verdict.STRANDED: (
        "the run is not finished, and no documented call leads on",
        "what is taken and what is written for it belong into one transaction; a decision that was taken must be a row",
    ),
    Verdict.EFFECT_REPEATED: (
        "an effect happened again, and nothing told the provider that it was the same one",
        (
            "put it under @idempotent and hand the provider effect_key(), say on_unknown= or transactional=True, "
            "or declare it at-least-once"
        ),
    ),
    Verdict.EFFECT_LOST: (
        "an effect of the uninterrupted run did not happen",
        "something outside the store remembers that it was done: a global, a cache, a file",
    ),
    Verdict.DIVERGED: (
        "the recovered run ended with other values, or went another way, than the uninterrupted one",
        "a node may depend on its state, on answers and on recorded effects only: no globals, clocks, random numbers",
    ),
    Verdict.STEP_REPEATED: (
        "a step that was acknowledged ran again",
        "what is due must be read from the newest row, not worked out anew",
    ),
    Verdict.HALF_PAUSED: (
        "a run waits for an answer that nobody can see, or a question is open that the run does not wait for",
        "the row of the pause and the pending row belong into one transaction, and so do the answer and its removal",
    ),
    Verdict.WRONG_ERROR: (
        "something else than a documented error came out, or a refusal changed the store",
        "map the errors of drivers where they arise, and check before anything is claimed",
    ),
    Verdict.LEAK: (
        "a transaction, a lock, a thread or a file was left open",
        "give back what was taken on every way out",
    ),
    Verdict.HANG: (
        "the run did not end within its budget of steps",
        "look for a loop that waits for something only another process could do",
    ),
    Verdict.NEVER_REACHED: (
        "the run did not pass the boundary at which a fault was ordered",
        "compare the name with the list of boundaries; if the story varies from run to run, make it deterministic",
    ),
    Verdict.NOT_FIRED: (
        "the boundary was reached and the fault was ordered, but the run went on as if nothing had happened",
        "something swallowed the fault: look for `except BaseException`, `finally: return` or a bare `except`",
    ),
    Verdict.DIED_OTHERWISE: (
        "the process ended, but not by the fault that was ordered",
        "read the error; the story fails by itself when it is interrupted",
    ),
}


@dataclass(frozen=True, slots=True)
class Violation:
    """A verdict, and what was seen."""

    verdict: Verdict
    what: str
