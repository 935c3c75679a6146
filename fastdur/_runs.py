"""Runs by their id, without a runner: read, decide, cancel. And how a lifetime is carried out."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from fastdur import _ending, _engine, _unknown
from fastdur._codec import checked_name
from fastdur._drivers import Lifetime, arun, run
from fastdur._functions import annotate
from fastdur._threads import in_thread
from fastdur.errors import FastdurError, RunCancelled, RunInProgress, StaleRun, StoreError
from fastdur.records import Resume
from fastdur.scope import current

if TYPE_CHECKING:
    from datetime import timedelta

    from fastdur._engine import Ended, Steps
    from fastdur._pruned import Pruned
    from fastdur._unknown import Outcome
    from fastdur.checkpointers.protocol import Checkpointer
    from fastdur.records import RunResult, UnknownEffect

E = TypeVar("E", bound=FastdurError)


def drive(steps: Steps, life: Lifetime) -> Ended:
    """Carry one lifetime out in place."""
    try:
        return _noted(run(steps, life.perform), life)
    except StaleRun as stale:
        raise _replaced(stale, life.status(), life) from stale
    except RunInProgress as busy:
        raise (_told(busy) if life.parent_store is not None else busy) from busy.__cause__
    except StoreError as fault:
        raise _told(fault) from fault.__cause__
    finally:
        life.end()


async def adrive(steps: Steps, life: Lifetime) -> Ended:
    """Carry one lifetime out on the event loop."""
    try:
        return _noted(await arun(steps, life.aperform), life)
    except StaleRun as stale:
        raise _replaced(stale, await in_thread(life.status), life) from stale
    except RunInProgress as busy:
        raise (_told(busy) if life.parent_store is not None else busy) from busy.__cause__
    except StoreError as fault:
        raise _told(fault) from fault.__cause__
    finally:
        await life.aleave()


def _told(error: E) -> E:
    """What is no result of the node that this run was started in: a fault of the store, a child that others work on."""
    scope = current.get()
    return scope.node.remember(error) if scope else error


def _replaced(stale: StaleRun, status: str | None, life: Lifetime) -> FastdurError:
    """What a call raises whose claim is gone."""
    if status == "cancelled":
        return RunCancelled(
            "This run was cancelled from outside while it was being worked on; this call wrote nothing more."
        )
    return _told(stale) if life.parent_store is not None else stale


def _noted(ended: Ended, life: Lifetime) -> Ended:
    """The exception of a node, with the way on where there is one."""
    if ended.error is not None and life.durable:
        way = f"resume({life.execution_id!r}) after the cause is mended"
        note = f"Run {life.execution_id!r} failed here and can go on: {way}."
        annotate(ended.error, note)
    return ended


def outcome(ended: Ended) -> RunResult:
    """The result of a call, or the exception of the node that failed."""
    if ended.error is not None:
        raise ended.error
    return ended.result


def checked_id(execution_id: str) -> str:
    if type(execution_id) is not str or not execution_id:
        message = f"execution_id is {execution_id!r}; give a non-empty str"
        raise TypeError(message)
    return checked_name(execution_id, "execution_id")


def checked_answer(value: Resume | None) -> Resume | None:
    if value is not None and type(value) is not Resume:
        message = f"the answer is {type(value).__qualname__}; give Resume(approved=..., metadata={{...}})"
        raise TypeError(message)
    return value


def checked_flag(value: object, name: str) -> bool:
    """Refuse what only looks like a yes or a no: `"false"` is true."""
    if type(value) is not bool:
        message = f"{name}={value!r} is neither True nor False; give one of them"
        raise TypeError(message)
    return value


def checked_store(checkpointer: Checkpointer) -> Checkpointer:
    """Refuse what has no runs; a path is the usual mistake."""
    if not hasattr(checkpointer, "get_execution"):
        message = (
            f"checkpointer={checkpointer!r} is no store; give SQLiteCheckpointer(path), or None for the default one"
        )
        raise TypeError(message)
    return checkpointer


def store_or_default(checkpointer: Checkpointer | None) -> Checkpointer:
    """The store given, else the one of `$FASTDUR_DB` or `.fastdur/fastdur.db`."""
    if checkpointer is not None:
        return checked_store(checkpointer)
    from fastdur.checkpointers.sqlite import default_store

    return default_store()


# -- runs by their id, without a runner --------------------------------------------------------------------------------


def _reading(execution_id: str, checkpointer: Checkpointer | None) -> Lifetime:
    return Lifetime(checked_id(execution_id), "", store_or_default(checkpointer), durable=True, context=None)


def _any(checkpointer: Checkpointer | None) -> Lifetime:
    """What is done to no one run."""
    return Lifetime("", "", store_or_default(checkpointer), durable=True, context=None)


def result(execution_id: str, checkpointer: Checkpointer | None = None) -> RunResult:
    """How any run stands, at any time, with its whole history. Raises `RunNotFound`. Changes nothing."""
    return cast("RunResult", run(_engine.read(execution_id), _reading(execution_id, checkpointer).perform))


async def aresult(execution_id: str, checkpointer: Checkpointer | None = None) -> RunResult:
    """`result` on the running event loop."""
    return cast("RunResult", await arun(_engine.read(execution_id), _reading(execution_id, checkpointer).aperform))


def decide(execution_id: str, resume_value: Resume, checkpointer: Checkpointer | None = None) -> None:
    """Record the answer to a question without running anything; `resume` or `recover` carries the run on.

    One transaction takes the question and stores the answer. The same answer again changes nothing. Raises what
    `resume` raises for an answer.
    """
    run(_engine.decide_only(execution_id, _answer(resume_value)), _reading(execution_id, checkpointer).perform)


async def adecide(execution_id: str, resume_value: Resume, checkpointer: Checkpointer | None = None) -> None:
    """`decide` on the running event loop."""
    await arun(_engine.decide_only(execution_id, _answer(resume_value)), _reading(execution_id, checkpointer).aperform)


def cancel(execution_id: str, checkpointer: Checkpointer | None = None) -> None:
    """End a run for good, running or paused: one transaction withdraws its questions and appends the end marker.

    The child runs that its nodes have started are cancelled after it, each in a transaction of its own; cancelling
    again sees to those that were left, and else changes nothing. An owner at work is fenced: its next write is refused
    and its call raises `RunCancelled`; one that writes faster than its run can be read is fenced before that, and may
    raise `StaleRun`. Raises `RunNotFound`, and `AlreadyResumed` where the run has completed.
    """
    run(_ending.cancel(execution_id), _reading(execution_id, checkpointer).perform)


async def acancel(execution_id: str, checkpointer: Checkpointer | None = None) -> None:
    """`cancel` on the running event loop."""
    await arun(_ending.cancel(execution_id), _reading(execution_id, checkpointer).aperform)


def delete_execution(execution_id: str, checkpointer: Checkpointer | None = None, *, takeover: bool = False) -> None:
    """Remove a run from the store, with the child runs that its nodes have started: every row, question and record.

    All of it goes in one transaction, or nothing. Its forks stay as they are, and its id is free again. Whatever its
    state: a paused run takes its questions along. Raises `RunNotFound`; `RunInProgress` where a live owner works on
    it, unless `takeover=True`, which fences that owner: its next write is refused; and `ChainResumeError` for the child
    run of an unfinished run, which would start it again.
    """
    steps = _ending.delete(execution_id, takeover=checked_flag(takeover, "takeover"))
    run(steps, _reading(execution_id, checkpointer).perform)


async def adelete_execution(
    execution_id: str, checkpointer: Checkpointer | None = None, *, takeover: bool = False
) -> None:
    """`delete_execution` on the running event loop."""
    steps = _ending.delete(execution_id, takeover=checked_flag(takeover, "takeover"))
    await arun(steps, _reading(execution_id, checkpointer).aperform)


def prune(
    older_than: timedelta,
    checkpointer: Checkpointer | None = None,
    *,
    failed: timedelta | None = None,
    dry_run: bool = False,
) -> Pruned:
    """Remove completed and cancelled runs that ended at least `older_than` ago, and say how many of which runner.

    Failed runs, which can still be resumed, go only with an age of their own, `failed`. Running and paused ones never
    go. A run goes with its child runs in one transaction, or stays while one of them is unfinished or younger; forks go
    by their own age. Ages are judged by the clock of the database. `dry_run=True` counts and removes nothing. Safe at
    any time, beside workers and other prunes: it goes in batches of a hundred runs, and what somebody takes up
    meanwhile stays. Raises `TypeError` and `ValueError` for what is no age, `StoreError`.
    """
    return cast("Pruned", run(_ending.prune(older_than, failed, dry_run=dry_run), _any(checkpointer).perform))


async def aprune(
    older_than: timedelta,
    checkpointer: Checkpointer | None = None,
    *,
    failed: timedelta | None = None,
    dry_run: bool = False,
) -> Pruned:
    """`prune` on the running event loop."""
    return cast("Pruned", await arun(_ending.prune(older_than, failed, dry_run=dry_run), _any(checkpointer).aperform))


def list_unknown(execution_id: str, checkpointer: Checkpointer | None = None) -> list[UnknownEffect]:
    """The effects of a run of which nobody knows whether they happened, in the order in which they were begun.

    They were begun and have no recorded outcome, and nobody is at work on them any more: their owner is gone, or their
    body ended without a result under `on_unknown="raise"` or a function. Raises `RunNotFound`. Changes nothing.
    """
    steps = _unknown.listed(execution_id)
    return cast("list[UnknownEffect]", run(steps, _reading(execution_id, checkpointer).perform))


async def alist_unknown(execution_id: str, checkpointer: Checkpointer | None = None) -> list[UnknownEffect]:
    """`list_unknown` on the running event loop."""
    steps = _unknown.listed(execution_id)
    return cast("list[UnknownEffect]", await arun(steps, _reading(execution_id, checkpointer).aperform))


def resolve_unknown(execution_id: str, key: str, outcome: Outcome, checkpointer: Checkpointer | None = None) -> None:
    """Say what became of an unknown effect: `Happened(result)`, which its call returns from now on, or `NotHappened`.

    After `NotHappened` the body runs again when the run is resumed. One transaction, on condition that nobody has taken
    the run or begun the effect again meanwhile. The same outcome again changes nothing. Raises `RunNotFound`,
    `RunInProgress` where the effect is being run, `NotStorable` for a result that cannot be kept, and
    `IdempotencyError` where there is no such effect or its outcome is recorded.
    """
    run(_unknown.resolved(execution_id, key, outcome), _reading(execution_id, checkpointer).perform)


async def aresolve_unknown(
    execution_id: str, key: str, outcome: Outcome, checkpointer: Checkpointer | None = None
) -> None:
    """`resolve_unknown` on the running event loop."""
    await arun(_unknown.resolved(execution_id, key, outcome), _reading(execution_id, checkpointer).aperform)


def _answer(value: Resume) -> Resume:
    answer = checked_answer(value)
    if answer is None:
        message = "decide() needs an answer; give Resume(approved=..., metadata={...})"
        raise TypeError(message)
    return answer
