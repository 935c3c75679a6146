"""The drivers: the only place that touches a store, a clock, user functions, threads and the event loop.

A `Lifetime` is everything of one call of start or resume in this process: its store, its claim, its observers, what it
knows of effects. `run` performs the effects of a generator in place, `arun` on the running event loop, with store calls
and sync user functions in threads.
"""

from __future__ import annotations

import os
from functools import partial
from threading import get_ident
from time import monotonic
from typing import TYPE_CHECKING, Any

from fastdur import _owner
from fastdur._codec import thaw
from fastdur._effects import AwaitEffect, EndEffect, Invoke, Release, RunEffect, Transact
from fastdur._invoke import Invocation, arun_body, run_body, run_in_transaction
from fastdur._live import Snapshot
from fastdur._memory import Memory
from fastdur._storing import STORED
from fastdur._threads import Detached, Landing, in_thread
from fastdur.boundaries import Boundary, Inject, observers_of, tell
from fastdur.checkpointers._cursor import alone
from fastdur.errors import IdempotencyError, SimulatedCrash, StaleRun, StoreError
from fastdur.scope import active, process

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from fastdur._effects import Effect
    from fastdur._steps import Machine
    from fastdur.checkpointers.protocol import Checkpointer
    from fastdur.records import Claim, Frame
    from fastdur.scope import NodeCall


def run(steps: Generator[Effect[Any], Any, Any], perform: Callable[[Effect[Any]], Any]) -> Any:
    """Perform the effects of `steps` in place and return what it returns."""
    try:
        effect = next(steps)
        while True:
            try:
                answer = perform(effect)
            except Exception as error:
                effect = steps.throw(error)
            else:
                effect = steps.send(answer)
    except StopIteration as stop:
        return stop.value


async def arun(steps: Generator[Effect[Any], Any, Any], perform: Callable[[Effect[Any]], Any]) -> Any:
    """`run` on the event loop."""
    try:
        effect = next(steps)
        while True:
            try:
                answer = await perform(effect)
            except Exception as error:
                effect = steps.throw(error)
            else:
                effect = steps.send(answer)
    except StopIteration as stop:
        return stop.value


class Lifetime:
    """One call of start or resume in this process. Poison and closure belong to it, never to the store."""

    def __init__(self, execution_id: str, runner: str, store: Checkpointer, *, durable: bool, context: object) -> None:
        alone("a run was started, read or changed")
        self.execution_id = execution_id
        self.runner = runner
        self.store = store
        self.durable = durable
        self.context = context
        self.machine: Machine | None = None
        self.parent_store: Checkpointer | None = None
        """The store of the run whose node has started this one, if any."""
        self.poisoned = False
        self.memory = Memory()
        self.claim: Claim | None = None
        self.epoch = 0
        self.recorded = False
        """Whether effects are answered from records only."""
        self.deaf: list[object] = []
        """The listeners that have raised, and hear no more."""
        self.lingering: set[Detached] = set()
        self._inside: dict[object, int] = {}
        self._over = False
        self._coming = ""
        self._born = process.forks
        self._observers = observers_of(store)
        self._counts: dict[str, int] = {}
        self._snapshots: list[Snapshot] = []

    # -- performing ----------------------------------------------------------------------------------------------------

    def perform(self, effect: Effect[Any]) -> Any:
        """Do one effect in place, its boundaries told."""
        if not self._observers:
            return self._do(effect)
        name = self._named(effect)
        try:
            self._tell("before", name, effect)
            answer = self._do(effect)
            self._tell("after", name, effect)
        except Inject as order:
            return self._injected(effect, order.error)
        return answer

    async def aperform(self, effect: Effect[Any]) -> Any:
        """Do one effect on the event loop, its boundaries told."""
        if not self._observers:
            return await self._ado(effect)
        name = self._named(effect)
        try:
            self._tell("before", name, effect)
            answer = await self._ado(effect)
            self._tell("after", name, effect)
        except Inject as order:
            return self._injected(effect, order.error)
        return answer

    def once(self, node: NodeCall, steps: Generator[Effect[Any], Any, Any]) -> Any:
        """Perform a small generator from inside user code. While it is at it, the claim is kept."""
        self._inside[steps] = get_ident()
        try:
            return run(steps, self._checking(node, self.perform))
        finally:
            self._inside.pop(steps, None)
            if self._over:
                self.leave()

    async def aonce(self, node: NodeCall, steps: Generator[Effect[Any], Any, Any]) -> Any:
        """The same on the event loop."""
        self._inside[steps] = get_ident()
        try:
            return await arun(steps, self._checking(node, self.aperform))
        finally:
            self._inside.pop(steps, None)
            if self._over:
                await self.aleave()

    def _checking(self, node: NodeCall, perform: Callable[[Effect[Any]], Any]) -> Callable[[Effect[Any]], Any]:
        """`perform`, refusing to begin an effect after the node has ended: a body under way may still record itself."""

        def checked(effect: Effect[Any]) -> Any:
            if not isinstance(effect, EndEffect) or self.poisoned:
                node.check()
            return perform(effect)

        return checked

    def _do(self, effect: Effect[Any]) -> Any:
        stored = STORED.get(type(effect))
        if stored is not None:
            return stored(self, effect)
        if isinstance(effect, Invoke):
            began = monotonic()
            outcome = Invocation(self, effect).run()
            outcome.seconds = monotonic() - began
            return outcome
        if isinstance(effect, RunEffect):
            return run_body(effect)
        if isinstance(effect, Transact):
            return self._transact(effect)
        assert isinstance(effect, AwaitEffect), effect
        landed = self.memory.watch(effect.key, _nothing)
        return landed is None or landed.wait()

    def _transact(self, effect: Transact) -> Any:
        transact = getattr(self.store, "transact_idempotent", None)
        if transact is None:
            message = (
                f"{effect.record.name}() is transactional, and {self.store.location} has no transactions for it; "
                "give the chain an SQL store."
            )
            return None, IdempotencyError(message)
        return transact(self.owned(), effect.record, partial(run_in_transaction, effect))

    async def _ado(self, effect: Effect[Any]) -> Any:
        if isinstance(effect, Invoke):
            began = monotonic()
            outcome = await Invocation(self, effect).arun()
            outcome.seconds = monotonic() - began
            return outcome
        if isinstance(effect, RunEffect):
            return await arun_body(effect)
        if isinstance(effect, AwaitEffect):
            return await self._alanding(effect.key)
        return await in_thread(STORED[type(effect)], self, effect)

    async def _alanding(self, key: str) -> None:
        landing = Landing()
        if self.memory.watch(key, landing.tell) is not None:
            await landing.wait()

    # -- states --------------------------------------------------------------------------------------------------------

    def snapshot(self, data: dict[str, Any]) -> Snapshot:
        """The state `data` with its thawed twin; the last few, one for each level, are kept."""
        for known in self._snapshots:
            if known.frozen is data:
                return known
        return self.remember(Snapshot(data))

    def read_ahead(self, frame: Frame) -> None:
        """Make sure that this process can read what a run will hand to user code; raises `NotStorable`."""
        data: Any = frame.state.get("data")
        self.snapshot(data)
        for question in frame.questions:
            thaw(question.context)
            thaw(question.answer)
        for child in frame.children:
            self.read_ahead(child)

    def remember(self, snapshot: Snapshot) -> Snapshot:
        """Keep a twin that is at hand, so that the next step need not thaw."""
        self._snapshots = [snapshot, *self._snapshots[:3]]
        return snapshot

    # -- boundaries ----------------------------------------------------------------------------------------------------

    def _named(self, effect: Effect[Any]) -> str:
        name = effect.name
        count = self._counts[name] = self._counts.get(name, 0) + 1
        return name if count == 1 else f"{name} ({count})"

    def _tell(self, when: Any, name: str, effect: Effect[Any]) -> None:
        if self.poisoned:
            message = "this process has been crashed on purpose; nothing is written any more"
            raise SimulatedCrash(message)
        try:
            tell(self._observers, Boundary(when, name, self.execution_id, effect))
        except SimulatedCrash:
            self.crash()
            raise

    def crash(self) -> None:
        """Die in process: from here on everything of this claim refuses, and the run counts as left alone."""
        self.poisoned = True
        self._settle()
        active.discard(self)
        if self.claim is not None:
            _owner.calls.leave(self.claim.token)

    def _injected(self, effect: Effect[Any], error: Exception) -> Any:
        """An ordered error: user code answers with it, anything else raises it."""
        if isinstance(effect, Invoke):
            return Invocation(self, effect).failed(error)
        if isinstance(effect, (RunEffect, Transact)):
            return None, error
        raise error

    # -- the claim -----------------------------------------------------------------------------------------------------

    def claiming(self) -> str:
        """A fresh token for a claim that is about to be written: from now on it counts as this process's."""
        self._settle()
        self._coming = os.urandom(16).hex()
        _owner.calls.expect(self._coming)
        return self._coming

    def _settle(self) -> None:
        _owner.calls.settle(self._coming)

    def own(self, claim: Claim) -> None:
        self.claim, self.epoch = claim, claim.epoch
        active.add(self)
        if self.durable:
            _owner.calls.enter(self.store, claim)
        self._settle()

    def status(self) -> str | None:
        """The status of the run in the store now."""
        head = self.store.get_execution(self.execution_id)
        return None if head is None else head.status

    def owned(self) -> Claim:
        """The claim under which this lifetime writes. A child made by fork has none."""
        if self._born != process.forks:
            message = "A child made by fork owns no part of its parent's run; it writes nothing."
            raise StaleRun(message)
        assert self.claim is not None, "an effect that writes comes after the claim"
        return self.claim

    def forget(self) -> Claim | None:
        """Stop counting as the owner; whose claim it was. Two calls that end at once release it once."""
        claim, self.claim = self.claim, None
        active.discard(self)
        if claim is not None:
            _owner.calls.leave(claim.token)
        return claim

    def must_release(self) -> bool:
        """Whether the call has ended with a claim that no write gave up."""
        return self.claim is not None and not self.poisoned and not self.at_work() and self._born == process.forks

    def at_work(self) -> bool:
        """Whether a call of user code, or an effect, still executes although its node has ended."""
        return bool(self.lingering or self._inside)

    def end(self) -> None:
        """The call is over, in its own thread: that thread is inside nothing of it, however it was thrown out."""
        here = get_ident()
        for steps in [steps for steps, thread in self._inside.items() if thread == here]:
            self._inside.pop(steps, None)
        self.leave()

    def leave(self) -> None:
        """The call is over. What it leaves unreleased for a call that still executes is released by that call."""
        self._over, self.machine = True, None
        self._settle()
        if self.must_release():
            try:
                self.perform(Release())
            except StoreError:
                self.forget()  # the lease runs out

    async def aleave(self) -> None:
        """`leave` on the event loop."""
        self._over, self.machine = True, None
        self._settle()
        if self.must_release():
            try:
                await self.aperform(Release())
            except StoreError:
                self.forget()

    def linger(self, call: Detached) -> None:
        """A call of user code goes on although its node has ended: the claim is kept until it returns."""
        self.lingering.add(call)

    def returned(self, call: Detached) -> None:
        """A lingering call has returned."""
        self.lingering.discard(call)
        if self._over:
            self.leave()


def _nothing() -> None:
    """The waiting thread sees the event itself."""
