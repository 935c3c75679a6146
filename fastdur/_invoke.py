"""Running a function of the user's, and judging what came of it."""

from __future__ import annotations

import threading
from contextvars import copy_context
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from fastdur._codec import freeze, joined
from fastdur._failures import uncommitted
from fastdur._functions import awaitable, discard, is_a, is_async, said, short_name
from fastdur._live import LiveState, Snapshot, collect
from fastdur._own import own
from fastdur._steps import Asked, Done, Failed
from fastdur._threads import Detached, Outcome
from fastdur.errors import (
    EffectFailed,
    FastdurError,
    InterruptError,
    InterruptSignal,
    InterruptSwallowed,
    LLMError,
    NodeCancelled,
    NodeIsAsync,
    NodeResultError,
    NodeTimeout,
    NotStorable,
    SimulatedCrash,
)
from fastdur.scope import NodeCall, Scope, current

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from fastdur._drivers import Lifetime
    from fastdur._effects import Invoke, RunEffect, Transact
    from fastdur.records import EffectRecord


class Invocation:
    """One attempt at one call."""

    def __init__(self, host: Lifetime, effect: Invoke) -> None:
        self.host, self.effect, self.call = host, effect, effect.call
        self.node = NodeCall(host, effect)
        if effect.attempt:
            host.memory.retried(effect.path, effect.attempt)
        self.live = LiveState(host.snapshot(effect.call.data))
        self.cancelled = False

    # -- in place ------------------------------------------------------------------------------------------------------

    def run(self) -> Done | Failed | Asked:
        """Call the function here, or in a thread where it has a timeout."""
        if self.host.lingering:
            for lingering in tuple(self.host.lingering):
                lingering.ended.wait()
        if self.call.timeout is None:
            return self._judge(self._call())
        detached = Detached(self.host, self._call)
        try:
            self._thread(detached).start()
            in_time = detached.ended.wait(self.call.timeout)
        except BaseException:
            self._abandon(detached)
            raise
        return self._judge(detached.outcome if in_time else self._abandon(detached))

    def _call(self) -> Outcome:
        before = current.get()
        try:
            current.set(Scope(self.node))
            return self.call.fn(self.live), None
        except BaseException as error:
            return None, error
        finally:
            current.set(before)

    def _abandon(self, detached: Detached) -> Outcome:
        """Leave a call that is out of time to itself; the claim is kept until it returns."""
        self.node.closed = True
        detached.abandon()
        return None, self._out_of_time()

    def _out_of_time(self) -> NodeTimeout:
        return NodeTimeout(f"Node {self.effect.address!r} ran longer than its timeout of {self.call.timeout} s")

    # -- on the event loop ---------------------------------------------------------------------------------------------

    async def arun(self) -> Done | Failed | Asked:
        """Await the function, or call it in a thread where it is a sync one."""
        for lingering in tuple(self.host.lingering):
            await lingering.landing()
        if is_async(self.call.fn):
            return self._judge(await self._awaited(self.call.fn, self.live))
        value, error = await self._threaded()
        if error is None and awaitable(value):
            return self._judge(await self._awaited(_itself, value))
        return self._judge((value, error))

    async def _awaited(self, fn: Callable[[Any], Coroutine[Any, Any, Any]], argument: object) -> Outcome:
        import asyncio

        # In a task of its own: what cancels the node from inside (a task group does) is no cancellation of this call.
        task = asyncio.ensure_future(self._acall(fn, argument))
        cancelled: BaseException | None = None
        in_time = False
        try:
            in_time = bool((await asyncio.wait((task,), timeout=self.call.timeout))[0])
        except asyncio.CancelledError as error:
            cancelled = error
        self.node.closed = True
        while not task.done():
            task.cancel()
            try:
                await asyncio.wait((task,))
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            self.cancelled = True
            return None, cancelled
        self.cancelled = task.cancelling() > 0  # the node has cancelled the task it runs in
        return task.result() if in_time else (None, self._out_of_time())

    async def _acall(self, fn: Callable[[Any], Coroutine[Any, Any, Any]], argument: object) -> Outcome:
        before = current.get()
        try:
            current.set(Scope(self.node))
            return await fn(argument), None
        except BaseException as error:
            return None, error
        finally:
            current.set(before)

    async def _threaded(self) -> Outcome:
        import asyncio

        detached = Detached(self.host, self._call)
        if self.call.timeout is None:
            waiting = asyncio.get_running_loop().run_in_executor(None, copy_context().run, detached)
        else:
            # A thread of its own: one that never returns must not take the place of others in the pool.
            waiting = asyncio.ensure_future(detached.landing())
            self._thread(detached).start()
        try:
            await asyncio.wait((waiting,), timeout=self.call.timeout)
        except asyncio.CancelledError as error:
            self.cancelled = True
            self._abandon(detached)
            return None, error
        finally:
            waiting.cancel()
        return detached.outcome if detached.ended.is_set() else self._abandon(detached)

    def _thread(self, detached: Detached) -> threading.Thread:
        run = copy_context().run
        return threading.Thread(target=run, args=(detached,), name=f"fastdur {self.node.path}", daemon=True)

    # -- judging -------------------------------------------------------------------------------------------------------

    def _judge(self, outcome: Outcome) -> Done | Failed | Asked:
        """What the scope remembers counts for more than how the call ended."""
        value, error = outcome
        node = self.node
        node.closed = True
        if error is not None and is_a(error, SimulatedCrash):
            self.host.crash()
            raise error
        if self.host.poisoned and not isinstance(node.raised, SimulatedCrash):
            message = "this process has been crashed on purpose; nothing is written any more"
            raise SimulatedCrash(message)
        if node.raised is not None:
            raise node.raised
        if error is not None and is_pause(error):
            if node.asked is not None:
                return Asked(node.asked)
            message = f"Node {node.address!r} raised InterruptSignal by itself; call interrupt() to pause."
            return self.failed(InterruptError(message))
        if error is not None and is_a(error, BaseExceptionGroup):
            # What is in a group beside the pauses counts, and the pause is lost to it.
            error = cast("BaseExceptionGroup[BaseException]", error).split(InterruptSignal)[1]
        if error is not None and not is_a(error, Exception):
            error = self._cancelled_inside(error)
        if node.asked is not None:
            return self.failed(_swallowed(node, error))
        if error is None and node.refused is not None:
            return self.failed(node.refused)
        return self._done(value) if error is None else self.failed(error)

    def _cancelled_inside(self, error: BaseException) -> NodeCancelled:
        """What the node fails with; raises what ends the call itself."""
        if self.cancelled or not is_cancellation(error):
            raise error
        message = (
            f"Something that node {self.node.address!r} waited for was cancelled; the run was not. "
            "Catch CancelledError where the node waits, if that may happen."
        )
        cancelled = NodeCancelled(message)
        cancelled.__cause__ = error
        return cancelled

    def _done(self, value: Any) -> Done | Failed:
        if type(value) is not dict and awaitable(value):
            discard(value)
            message = f"Node {self.node.address!r} returned a coroutine to a sync call; call the a… form of this one."
            return self.failed(NodeIsAsync(message))
        try:
            if self.call.kind == "node":
                return self._merged(value)
            if self.call.kind == "input":
                return self._input(value)
            return Done(self.call.data, value=value, notes=self.node.notes)
        except FastdurError as error:
            return self.failed(error)

    def _input(self, value: Any) -> Done:
        if type(value) is not dict and type(value) is not LiveState:
            message = f"input= of node {self.node.address!r} returned {type(value).__qualname__}; return a dict"
            raise NodeResultError(message)
        return Done(
            self.call.data, value=Snapshot.of(cast("dict[str, Any]", value), "input").frozen, notes=self.node.notes
        )

    def _merged(self, value: Any) -> Done:
        key = self.call.output_key
        if key is None and value is not None and type(value) not in (dict, LiveState):
            message = (
                f"Node {self.node.address!r} returned {type(value).__qualname__}; return a dict, which is merged key "
                "by key, or None, or give the node an output_key= to store it under"
            )
            raise NodeResultError(message)
        returned = value if key is None else {key: value}
        changes = collect(self.live, returned, "state")
        self.host.remember(changes.snapshot)
        out = changes.keys if returned is None else [*returned, *(k for k in changes.keys if k not in returned)]
        return Done(changes.snapshot.frozen, tuple(changes.keys), out, self.node.notes)

    def failed(self, error: BaseException) -> Failed:
        """The outcome of a call that raised. Only errors of the user's own, of a provider and of time are retried."""
        own = not is_a(error, FastdurError) or is_a(error, EffectFailed, NodeCancelled, NodeTimeout, LLMError)
        return Failed(error, error_text(error), retryable=own)


def _called(effect: RunEffect | Transact) -> Any:
    """Call the body of an effect on its own copy of the arguments."""
    args, kwargs = own(effect.args, effect.kwargs)
    return effect.fn(*args, **kwargs)


def run_body(effect: RunEffect) -> Outcome:
    """Run the body of an effect; whatever it raises is its outcome."""
    scope = current.get()
    assert scope, "an effect runs inside a node"
    try:
        current.set(Scope(scope.node, effect.record))
        value = _called(effect)
    except BaseException as error:
        return None, error
    finally:
        current.set(scope)
    if awaitable(value):
        discard(value)
        return None, NodeIsAsync(f"{effect.record.name}() returned a coroutine; decorate an `async def`, and await it")
    return value, None


def run_in_transaction(effect: Transact, _: Any) -> EffectRecord:
    """Run the body of an effect on an open transaction; its record where it returned. Raises what it raises."""
    scope = current.get()
    assert scope, "an effect runs inside a node"
    record = effect.record
    try:
        current.set(Scope(scope.node, record))
        value = _called(effect)
    finally:
        current.set(scope)
    if scope.node.host.poisoned:
        scope.node.check()
    try:
        return replace(record, status="done", result=freeze(value, f"the result of {record.name}()"))
    except NotStorable as error:
        discard(value)
        raise uncommitted(error) from error


async def arun_body(effect: RunEffect) -> Outcome:
    """`run_body` for an `async def`."""
    scope = current.get()
    assert scope, "an effect runs inside a node"
    try:
        current.set(Scope(scope.node, effect.record))
        value = _called(effect)
        return (await value if awaitable(value) else value), None
    except BaseException as error:
        return None, error
    finally:
        current.set(scope)


def is_pause(error: BaseException) -> bool:
    """Whether an error is a pause and nothing else: the signal, bare or alone in an exception group."""
    if is_a(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return group.split(InterruptSignal)[1] is None
    return is_a(error, InterruptSignal)


def is_cancellation(error: BaseException) -> bool:
    """Whether an error is a `CancelledError`, or a group of such and of exceptions."""
    from asyncio import CancelledError

    if is_a(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return group.split((CancelledError, Exception))[1] is None
    return is_a(error, CancelledError)


def error_text(error: BaseException) -> str:
    """Readable text of an exception, its class named."""
    name, text = short_name(type(error)), said(error)
    return joined(f"{name}: {text}") if text else name


def _swallowed(node: NodeCall, error: BaseException | None) -> InterruptSwallowed:
    assert node.asked is not None
    what = "caught the pause and returned" if error is None else f"the pause was lost to {error_text(error)}"
    message = (
        f"Node {node.address!r} asked {node.asked.reason!r}, but {what}. "
        "Let InterruptSignal pass: catch Exception, never BaseException."
    )
    swallowed = InterruptSwallowed(message)
    swallowed.__cause__ = error
    return swallowed


async def _itself(value: Any) -> Any:
    return await value
