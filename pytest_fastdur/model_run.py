"""The reference model of a run: what must come of a call, from three facts, without any of the engine.

The facts are read from what is stored: has it ended, is something due, is something asked. The table is the contract's;
`expected` finds the first row that fits. What holds beside it at every moment is in `PROMISES`, by number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from pytest_fastdur.invariants import open_questions

if TYPE_CHECKING:
    from fastdur.records import Frame, Resume
    from pytest_fastdur.durable import RunState

Ended = Literal["no", "completed", "cancelled"]
Called = Literal["nothing", "fits", "same", "other"]
Comes = Literal["goes on", "AlreadyResumed", "RunCancelled", "RunInProgress", "ChainResumeError", "RunNotFound"]


@dataclass(frozen=True, slots=True)
class Facts:
    """How a run stands: `due` is whether a step can be taken without an answer, `asked` the ids of open questions."""

    ended: Ended
    alive: bool
    due: bool
    asked: tuple[str, ...]

    @staticmethod
    def of(run: RunState) -> Facts:
        """The facts of a stored run, whose owners are all gone. A failed end marker is stepped over."""
        status, frames = run.head.status, run.frames
        ended: Ended = status if status in ("completed", "cancelled") else "no"
        asked = () if frames is None else tuple(open_questions(frames))
        return Facts(ended, alive=False, due=frames is None or _is_due(frames), asked=asked)


def _is_due(frame: Frame) -> bool:
    """Whether a leaf of the tree has no open question."""
    if frame.children:
        return any(_is_due(child) for child in frame.children)
    return all(question.answer is not None for question in frame.questions)


TABLE: Final[tuple[tuple[Ended | None, bool | None, bool | None, bool | None, Called | None, Comes], ...]] = (
    # ended, live owner, due, asked, called with: what comes of it. None is: whatever it is.
    ("completed", None, None, None, None, "AlreadyResumed"),
    ("cancelled", None, None, None, None, "RunCancelled"),
    ("no", True, None, None, None, "RunInProgress"),
    ("no", False, True, None, "nothing", "goes on"),
    ("no", False, False, True, "nothing", "ChainResumeError"),
    ("no", False, None, True, "fits", "goes on"),
    ("no", False, True, None, "same", "goes on"),
    ("no", False, None, None, "other", "AlreadyResumed"),
)
"""What comes of a resume. Rows are tried from the top; the first that fits counts."""


def expected(facts: Facts | None, answer: Resume | None, *, answered: Resume | None = None) -> Comes:
    """What must come of a resume with this answer, where `answered` is the one recorded for its question."""
    if facts is None:
        return "RunNotFound"
    called: Called = "nothing"
    if answer is not None:
        fits = answer.interrupt_id in facts.asked if answer.interrupt_id is not None else len(facts.asked) == 1
        called = "fits" if fits else "same" if answer == answered else "other"
    place = facts.ended, facts.alive, facts.due, bool(facts.asked), called
    for *row, comes in TABLE:
        if all(known is None or known == given for known, given in zip(row, place, strict=True)):
            return comes
    message = f"the table has no row for {facts} called with {called}"
    raise AssertionError(message)


PROMISES: Final[dict[int, tuple[str, str]]] = {
    1: ("A run has one owner at a time.", "FD04 FD05"),
    2: ("There is no state from which no documented call leads on.", "FD06"),
    3: ("Starting is durable, and so is every later step; one id, one history.", "FD02 FD03"),
    4: ("A recorded effect is not run again.", "FD07"),
    5: ("An answer goes to exactly one question.", "FD09 FD12"),
    6: ("A pause is not a failure.", "FD11"),
    7: ("Checks come before the claim: a refusal changes nothing.", "FD12"),
    8: ("The newest row is the one with the highest seq.", "FD01"),
    9: ("A crash does not change what later code sees.", "FD09 FD10"),
    10: ("A fork inherits state, not decisions; what is removed leaves nothing.", "FD03"),
    11: ("Nested and repeated parts keep their own address, counters and results.", "FD09 FD10"),
    12: ("A storage fault is never a step's result.", "FD12"),
    13: ("Both backends behave alike; losers get the typed error.", "FD12"),
    14: ("What does not fit what was saved is refused before anything runs.", "FD12"),
    15: ("Bytes and time grow with the work done, not with its square.", "ci/bench"),
    16: ("The plugin passes only when the ordered faults fired.", "FD15 FD16 FD17"),
}
"""The sixteen promises, and the codes under which a broken one is reported."""
