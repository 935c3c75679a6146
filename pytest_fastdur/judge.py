"""Judging a faulted history against the uninterrupted run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_fastdur.differences import other_differences, row_differences
from pytest_fastdur.faults import Fault
from pytest_fastdur.verdicts import Verdict, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_fastdur.evidence import Count, End, Evidence, Witnessed
    from pytest_fastdur.faults import Step
    from pytest_fastdur.lifetimes import Lifetime
    from pytest_fastdur.observers import Event

_ANOTHER_WAY = frozenset({Verdict.DIVERGED, Verdict.EFFECT_LOST})
"""What a story may do when it deals with an error itself: go another way."""
_IN_USER_CODE = ("Invoke", "RunEffect", "BeginEffect", "EndEffect", "Transact", "AwaitEffect", "Line")
"""What the engine does as user code is called, or inside of it."""
_MAY_RAISE = (Fault.CANCEL, Fault.FULL, Fault.IO, *(fault for fault in Fault if fault.lasts))
"""By these a call may end, with the documented error; or it goes on."""
_UNNOTICED = (
    *(Fault.LOCKED, Fault.TICK_ON, Fault.TICK_BACK, Fault.CLOCK_ON, Fault.CLOCK_BACK),
    *(Fault.ABORT, Fault.SERVER),
)
"""Of these nothing may show."""
_DEATHS: dict[str, str] = {"crash": "crashed", "kill": "killed", "power": "crashed"}
_NAMES = ("the uninterrupted run", "this one")


def struck_as_ordered(lifetime: Lifetime, step: Step) -> Iterator[Violation]:
    """Whether an ordered fault fired, and the lifetime ended by it and by nothing else."""
    where, fault = str(step.point), step.fault.value
    reached = any(step.point.is_of(lifetime.call.label, event) for event in lifetime.events)
    if lifetime.how == "hung":
        yield Violation(Verdict.HANG, f"no end after {len(lifetime.events)} boundaries, in {lifetime.call}")
    elif str(step) in lifetime.struck:
        yield from _ended_as_ordered(lifetime, step)
    elif reached:
        yield Violation(Verdict.NOT_FIRED, f"{fault} {where} was armed, and nothing was done that it could strike")
    elif lifetime.how in ("completed", "paused"):
        yield Violation(Verdict.NEVER_REACHED, f"{where} was not reached; {lifetime.call} ended {lifetime.how}")
    else:
        yield Violation(Verdict.DIED_OTHERWISE, f"{lifetime.how} before {where}: {lifetime.error}")


def _ended_as_ordered(lifetime: Lifetime, step: Step) -> Iterator[Violation]:
    """Whether a lifetime that a fault has struck ended as that fault ends one."""
    where, fault, ended = str(step.point), step.fault, f"{lifetime.call} ended {lifetime.how}"
    goes_on = lifetime.how in ("completed", "paused")
    if fault.kills and goes_on:
        yield Violation(Verdict.NOT_FIRED, f"{fault.value} {where} struck and {ended}")
    elif lifetime.how != _DEATHS.get(fault.value) and (fault.kills or lifetime.how == "died"):
        yield Violation(Verdict.DIED_OTHERWISE, f"{lifetime.how} at {where}: {lifetime.error}")
    elif fault in _MAY_RAISE:
        yield from _raised_as_documented(lifetime, step)
    elif fault.wire and not goes_on:
        yield Violation(
            Verdict.WRONG_ERROR, f"{fault.value} {where}: one connection was lost, and {ended}: {lifetime.error}"
        )
    elif fault in _UNNOTICED and not goes_on:
        yield Violation(Verdict.WRONG_ERROR, f"{fault.value} {where}: {ended}: {lifetime.error}")


def _raised_as_documented(lifetime: Lifetime, step: Step) -> Iterator[Violation]:
    """Whether what came out of a fault that a run may end by is what is documented for it."""
    fine = lifetime.cancelled if step.fault is Fault.CANCEL else lifetime.trouble
    if lifetime.how == "raised" and not fine:
        what = f"{step.fault.value} {step.point}: {lifetime.call} raised {lifetime.error}, which is not documented"
        yield Violation(Verdict.WRONG_ERROR, what)


def raised_as_ordered(lifetime: Lifetime, step: Step, status: str | None) -> Iterator[Violation]:
    """Whether a raised error came out as itself, or was dealt with by the story: which only meets it in its own code.

    What the story itself sees of a fault is its own affair: it may go on, raise an error of its own, or fail.
    """
    if str(step) not in lifetime.struck:
        return
    inside = any(_is_met_by_the_story(event) for event in lifetime.events if event.at(step.point))
    if lifetime.how in ("completed", "paused") and not inside:
        yield Violation(Verdict.NOT_FIRED, f"raise {step.point} struck and {lifetime.call} ended {lifetime.how}")
    elif lifetime.how == "raised" and not lifetime.injected and not (inside and status == "failed"):
        what = f"the ordered RuntimeError became {lifetime.error}, and the run is {status}"
        yield Violation(Verdict.WRONG_ERROR, what)


def _is_met_by_the_story(event: Event) -> bool:
    """Whether an error at a boundary goes through code of the user's, or may be retried as the story says."""
    return bool(event.run) or event.kind in _IN_USER_CODE


def healed_as_documented(lifetime: Lifetime, status: str | None) -> Iterator[Violation]:
    """Whether a lifetime without a fault ended as lifetimes of the uninterrupted run do: completed, or paused.

    That nobody knows what became of an effect is no end: whoever heals finds out, says so, and resumes.
    """
    if lifetime.how == "hung":
        yield Violation(Verdict.HANG, f"no end after {len(lifetime.events)} boundaries, in {lifetime.call}")
    elif lifetime.how == "died":
        yield Violation(Verdict.DIED_OTHERWISE, f"{lifetime.call} died without a fault: {lifetime.error}")
    elif lifetime.how == "raised" and not in_doubt(lifetime):
        if status == "failed":
            what = f"{lifetime.call} failed in the recovery, which the uninterrupted run does not: {lifetime.error}"
            yield Violation(Verdict.DIVERGED, what)
        elif lifetime.documented:
            what = f"{lifetime.call} was refused although nothing hinders it: {lifetime.error}"
            yield Violation(Verdict.WRONG_ERROR, what)
        else:
            yield Violation(Verdict.WRONG_ERROR, f"{lifetime.call} raised {lifetime.error}, which is not documented")
    elif lifetime.how not in ("completed", "paused", "raised"):
        yield Violation(Verdict.DIED_OTHERWISE, f"{lifetime.call} {lifetime.how} without a fault: {lifetime.error}")


def refused(lifetime: Lifetime, status: str | None) -> bool:
    """Whether a call was turned down: it raised one of fastdur's errors, and not because the run failed in it."""
    return lifetime.how == "raised" and lifetime.documented and status != "failed"


def in_doubt(lifetime: Lifetime) -> bool:
    """Whether a lifetime stopped because nobody knows whether an effect has happened."""
    return lifetime.how == "raised" and (lifetime.error or "").startswith("EffectUnknown:")


def of_lifetime(seen: Witnessed) -> Iterator[Violation]:
    """What one lifetime has done wrong."""
    lifetime, status = seen.lifetime, seen.status
    for step in () if seen.ordered is None else seen.ordered.steps:
        yield from struck_as_ordered(lifetime, step)
        if step.fault is Fault.RAISE:
            yield from raised_as_ordered(lifetime, step, status)
    if seen.changed:
        yield Violation(Verdict.WRONG_ERROR, f"{lifetime.call} was refused and changed the store")
    if seen.role in ("healed", "refused"):
        yield from healed_as_documented(lifetime, status)


def of_history(evidence: Evidence, reference: End) -> Iterator[Violation]:
    """Everything that a history has done wrong, against the uninterrupted run."""
    yield from evidence.seen
    for seen in evidence.witnessed:
        yield from of_lifetime(seen)
    yield from _never_begun(evidence)
    yield from _healed_in_time(evidence)
    if not evidence.complete:
        return
    if evidence.asks:  # an answer would lead on, only nobody has one
        yield Violation(Verdict.DIVERGED, evidence.asks)
    else:
        yield from _unfinished(evidence)
    yield from of_end(evidence.end, evidence.counts, reference)


def of_end(end: End, counts: Mapping[str, Count], reference: End, most: int = 1) -> Iterator[Violation]:
    """What is wrong with how a run has ended, and with what has happened outside, where `most` runs do the same."""
    finished = end.status == "completed"
    for name, count in counts.items():
        yield from _effect(name, count, finished=finished, most=most)
    if finished:
        yield from _outcome(end, reference)


def is_handled(evidence: Evidence) -> bool:
    """Whether the story itself has dealt with an error that was raised, and may have gone another way."""
    return any(
        step.fault is Fault.RAISE and seen.lifetime.how in ("completed", "paused")
        for seen in evidence.witnessed
        for step in (() if seen.ordered is None else seen.ordered.steps)
    )


def is_doubted(evidence: Evidence) -> bool:
    """Whether the run stopped with `EffectUnknown` until somebody had said what happened."""
    return evidence.doubted or any(seen.role == "in doubt" for seen in evidence.witnessed)


def worst(evidence: Evidence, reference: End) -> Violation | None:
    """The violation that counts: the first code there is."""
    forgiven = _ANOTHER_WAY if is_handled(evidence) else frozenset[Verdict]()
    found = [each for each in of_history(evidence, reference) if each.verdict not in forgiven or each in evidence.seen]
    return min(found, key=lambda each: each.verdict.value, default=None)


def mark(evidence: Evidence, violation: Violation | None) -> str:
    """What stands in the matrix.

    A code; `ask` where the run stopped until somebody had said what happened; `alt` where the story dealt with an error
    itself; or `ok`.
    """
    if violation is not None:
        return violation.verdict.code
    if is_doubted(evidence):
        return "ask"
    return "alt" if is_handled(evidence) else "ok"


def _never_begun(evidence: Evidence) -> Iterator[Violation]:
    begun = {seen.lifetime.call.label for seen in evidence.witnessed}
    for step in evidence.plan.steps:
        if step.point.lifetime not in begun:
            what = f"there was no lifetime {step.point.lifetime} to reach {step.point} in"
            yield Violation(Verdict.NEVER_REACHED, what)


def _healed_in_time(evidence: Evidence) -> Iterator[Violation]:
    """Whether a run needed no more lifetimes than one, and one for each question. Those that raise are judged alone."""
    last = max((n for n, seen in enumerate(evidence.witnessed) if seen.role == "faulted"), default=-1)
    healing = [seen.lifetime.how for seen in evidence.witnessed[last + 1 :]]
    needed, enough = sum(how in ("completed", "paused") for how in healing), evidence.questions + 1
    if needed > enough:
        what = f"the recovery took {needed} lifetimes; with {evidence.questions} questions {enough} do"
        yield Violation(Verdict.HANG, what)


def _effect(name: str, count: Count, *, finished: bool, most: int) -> Iterator[Violation]:
    here, usual, mode = count.here, count.usual, count.mode
    what = f"{name!r} happened {_times(here)}, in the uninterrupted run {_times(usual)} (declared {mode})"
    if here > usual * most and mode != "at-least-once":
        yield Violation(Verdict.EFFECT_REPEATED, what)
    if here < usual and mode != "at-most-once" and finished:
        yield Violation(Verdict.EFFECT_LOST, what)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _outcome(end: End, reference: End) -> Iterator[Violation]:
    for what in row_differences(reference.rows, end.rows, _NAMES):
        yield Violation(Verdict.DIVERGED, what)
    for what in other_differences(reference.others, end.others, _NAMES):
        yield Violation(Verdict.DIVERGED, what)


def _unfinished(evidence: Evidence) -> Iterator[Violation]:
    """A run that has not completed although nothing hinders it any more."""
    status = evidence.end.status
    if status == "completed" or not evidence.witnessed:
        return
    last = evidence.witnessed[-1].lifetime
    if last.how in ("hung", "died"):
        return  # that is the finding; what a call that had ended would have said is not known
    if status == "failed" and last.how == "raised":
        yield Violation(Verdict.DIVERGED, f"the recovered run fails: {last.error}")
        return
    tried = [seen.lifetime for seen in evidence.witnessed if seen.role == "refused"]
    said = "; ".join(f"{life.call} -> {life.error or life.how}" for life in tried) or "it never ends"
    yield Violation(Verdict.STRANDED, f"the run is {status}; {said}")
