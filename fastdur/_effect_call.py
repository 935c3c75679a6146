"""One call of an `@idempotent` function inside a run: answered, waited for, asked after, or run."""

from __future__ import annotations

from dataclasses import replace
from threading import get_ident
from typing import TYPE_CHECKING, Any, cast

from fastdur._codec import freeze, thaw
from fastdur._effects import AwaitEffect, BeginEffect, EndEffect, RunEffect, Transact
from fastdur._failures import failure_text, frozen_failure, replayed_failure, uncommitted
from fastdur._functions import is_a, is_async, survived
from fastdur.checkpointers._cursor import alone, inside
from fastdur.errors import (
    EffectDeadlock,
    EffectForbidden,
    EffectUnknown,
    FastdurError,
    IdempotencyError,
    NotHappened,
    NotStorable,
    ScopeEnded,
)
from fastdur.records import EffectRecord, Happened, provider_key
from fastdur.scope import Scope, current

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from fastdur._declared import Declared
    from fastdur._effects import Effect


class EffectCall:
    """One call inside a run."""

    __slots__ = ("args", "effect", "key", "known_by", "kwargs", "memory", "node", "place", "scope", "which")

    def __init__(self, effect: Declared, scope: Scope, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.effect, self.scope, self.node = effect, scope, scope.node
        if inside.get() is not None:
            alone(f"{effect.name}() was called")
        self.args, self.kwargs = args, kwargs
        bound = effect.bound(args, kwargs)
        if effect.asks(bound):
            before = current.get()
            try:
                current.set(Scope(scope.node, scope.effect, asks=False))
                self.key, self.known_by = effect.key(self.node.path, args, kwargs, bound)
            finally:
                current.set(before)
        else:
            self.key, self.known_by = effect.key(self.node.path, args, kwargs, bound)
        self.which = effect.which(self.node.fn)
        self.memory = self.node.host.memory

    def leave(self) -> None:
        """The call is over: whoever waits for it goes on."""
        self.memory.leave(self.key, self)

    def recorded(self) -> tuple[Any, BaseException | None] | None:
        """A value or an error from the record, which takes no effect; None where there is none yet."""
        node, effect = self.node, self.effect
        node.check()
        self.memory.name(effect.name, effect.same, node.path, node.attempt)
        record = self.memory.recorded(self.key, self.known_by, node.path)
        return None if record is None else self._hit(record)

    def is_below(self, other: EffectCall) -> bool:
        """Whether this call, in flight, waits for `other`: it stands below it in its thread, or in its task."""
        thread, task = self.place
        return thread == other.place[0] and task in (None, other.place[1])

    def steps(self) -> Generator[Effect[Any], Any, tuple[Any, BaseException | None]]:
        """Answer from the record, or wait, or run the body between its two records. Returns a value or an error."""
        node, effect = self.node, self.effect
        self.place = get_ident(), _task() if is_async(effect.fn) else None
        while True:
            failed = self.memory.failure(self.key, self.known_by, node.path, node.attempt)
            if failed is not None:
                return None, self._is_another(failed) or replayed_failure(failed, self.effect.raises)
            found = self.memory.enter(self.key, self.known_by, node.path, self)
            if found is None:
                if node.host.recorded:
                    return None, self._forbidden()
                return (yield from (self._transact() if effect.transactional else self._run()))
            if isinstance(found, EffectRecord):
                return self._hit(found)
            if self.scope.effect is not None or cast("EffectCall", found.owner).is_below(self):
                message = (
                    f"{effect.name}() is in flight and was called again from inside an effect body "
                    f"({(self.scope.effect or effect).name}), which might wait for ever. Call it from the node."
                )
                raise EffectDeadlock(message)
            yield from AwaitEffect(self.key, f"{effect.name.rpartition('.')[2]}@{node.address}")

    def _is_another(self, record: EffectRecord) -> IdempotencyError | None:
        """The refusal of a record that may be another function's: one that was made in the same place, and captured
        something else, in whatever lifetime.
        """
        if not self.effect.captures:
            return None
        if record.path == self.node.path:
            return self._is_unlike(record)
        message = (
            f"{self.effect.name}() has captured variables, and was called like this before at {record.path}, which may "
            "have been another function of that name. Give it a name of its own with @idempotent(name=...); with "
            "per='visit' each visit has a call of its own."
        )
        return IdempotencyError(message)

    def _is_unlike(self, record: EffectRecord) -> IdempotencyError | None:
        """The refusal of a record of this visit that was made by a function which had captured other values."""
        was = record.args.partition(" ")[2]
        if record.attempt in self.node.begun or not was or was == self.which:
            return None
        name = self.effect.name
        message = (
            f"{name}() was called like this before at {record.path} when it had captured other values, so that was "
            "another function of that name, or the node does not do the same again. Pass what differs as an argument, "
            f"or give each a name of its own with @idempotent(name=...). If they are one, name={name!r} says so."
        )
        return IdempotencyError(message)

    def _hit(self, record: EffectRecord) -> tuple[Any, BaseException | None]:
        another = self._is_another(record)
        if another is not None:
            return None, another
        if record.path != self.node.path or record.attempt in self.node.begun:
            self.node.note("hits", record.name)
        if record.status == "unstorable":
            return None, IdempotencyError(str(record.error))
        return thaw(record.result), None

    def _run(self) -> Generator[Effect[Any], Any, tuple[Any, BaseException | None]]:
        node, effect = self.node, self.effect
        unknown = self.memory.unknown(self.key, self.known_by)
        refusal = None if unknown is None else self._is_another(unknown)
        if unknown is not None and refusal is None and effect.on_unknown == "raise":
            refusal = self._refused(unknown)
        if refusal is not None:
            return None, refusal
        record = self._record()
        settled = yield from BeginEffect(record, node.address)
        if settled is not None:
            self.memory.settle(settled)
            return self._hit(settled)
        node.begun.append(record.attempt)
        if unknown is not None and effect.on_unknown != "rerun":
            found, error = yield from self._ask(record)
            if error is not None:
                return None, error
            if found is not None:
                return (yield from self._end(record, found.result))
        repeats = effect.on_unknown == "rerun"
        body = effect.given(self.args, self.kwargs)
        self.memory.doubt(record, sure=False)  # whatever cuts the next lines off, the body may have run
        value, error = yield from RunEffect(record, node.address, *body, repeats=repeats)
        if error is not None:
            yield from self._failed(record, error)
            return None, error
        return (yield from self._end(record, value))

    def _record(self) -> EffectRecord:
        """The record of a call that begins."""
        node = self.node
        key, attempt = self.memory.next_try(self.key, node.path, node.attempt)
        args = f"{self.known_by} {self.which}" if self.which else self.known_by
        return EffectRecord(key, self.effect.name, args, "started", attempt, node.path)

    def _transact(self) -> Generator[Effect[Any], Any, tuple[Any, BaseException | None]]:
        """Run the body and commit it with its record: there is no instant at which nobody knows."""
        node, effect = self.node, self.effect
        record = self._record()
        try:
            ended, error = yield from Transact(record, node.address, *effect.given(self.args, self.kwargs))
        except NotStorable as refused:  # longer than this store takes
            ended, error = None, uncommitted(refused)
        if ended is None:
            assert error is not None, "a transaction ends with a record or an error"
            if self._is_failure(error):
                failed = replace(record, status="failed", error=frozen_failure(error, effect.raises))
                ended = yield from BeginEffect(failed, node.address)
                self.memory.tried(failed, node.attempt)
            if ended is None:
                return None, error
            # A commit whose answer was lost came through after all, and the body ran into what it had written.
        self.memory.settle(ended)
        if ended.attempt != record.attempt:
            return self._hit(ended)
        node.begun.append(record.attempt)
        return thaw(ended.result), None

    def _end(
        self, record: EffectRecord, value: object
    ) -> Generator[Effect[Any], Any, tuple[Any, BaseException | None]]:
        """Record the result and give it back as it was recorded."""
        ended = _outcome(record, value)
        try:
            yield from EndEffect(ended, self.node.address)
        except NotStorable as error:  # longer than this store takes
            ended = _unstorable(record, error)
            yield from EndEffect(ended, self.node.address)
        self.memory.settle(ended)
        if ended.status == "unstorable":
            return None, IdempotencyError(str(ended.error))
        return thaw(ended.result), None

    def _is_failure(self, error: BaseException) -> bool:
        """Whether what a body raised is a failure of its own, of whatever class.

        What the engine has raised into this node is none, a fault of its store, a lost claim, an effect that is unknown
        or the end of the node, nor what ends a process.
        """
        node = self.node
        if not is_a(error, FastdurError):
            return is_a(error, Exception)
        ended = node.closed and is_a(error, ScopeEnded)
        return node.raised is None and node.refused is None and not ended

    def _failed(self, record: EffectRecord, error: BaseException) -> Generator[Effect[Any], Any, None]:
        """Record that the body raised. What ended it from outside says nothing of what it has done."""
        sure = self.effect.on_unknown == "rerun" or is_a(error, NotHappened)
        if self._is_failure(error):
            frozen = frozen_failure(error, self.effect.raises)
            ended = replace(record, status="failed" if sure else "unknown", error=frozen)
            yield from EndEffect(ended, self.node.address)
            self.memory.doubt(ended, sure=sure)
            if sure:
                self.memory.tried(ended, self.node.attempt)
        else:
            self.memory.doubt(record, sure=False)

    def _ask(self, record: EffectRecord) -> Generator[Effect[Any], Any, tuple[Happened | None, BaseException | None]]:
        """What the function that was given for it says of an unknown effect: None where it has not happened."""
        ask: Any = self.effect.on_unknown
        args = (provider_key(self.node.host.execution_id, self.key), *self.args)
        said, error = yield from RunEffect(record, self.node.address, ask, args, self.kwargs, asks=True)
        self.memory.doubt(record, sure=False)
        if said is NotHappened or is_a(said, NotHappened) or is_a(error, NotHappened):
            return None, None
        if error is not None:
            return None, error
        if type(said) is Happened:
            return said, None
        message = (
            f"on_unknown of {self.effect.name}() returned {type(said).__qualname__}; "
            "return Happened(result) or NotHappened."
        )
        return None, IdempotencyError(message)

    def _forbidden(self) -> EffectForbidden:
        """What a call without a record raises in a branch that runs no effects; no way around it leads on."""
        message = (
            f"{self.effect.name}() has no record in run {self.node.host.execution_id!r}, which was forked with "
            "effects='recorded' and runs no effects. Fork with effects='live' to let it happen."
        )
        self.node.refused = EffectForbidden(message)
        return self.node.refused

    def _refused(self, record: EffectRecord) -> EffectUnknown:
        """What a call of an unknown effect raises. Whoever catches it and goes on has not dealt with it."""
        run = self.node.host.execution_id
        why = "it was begun and its process ended" if record.error is None else f"it raised {failure_text(record)}"
        message = (
            f"Nobody knows whether {record.name}() has happened: {why}. Find out, call "
            f"resolve_unknown({run!r}, {record.key!r}, Happened(result)) or (…, NotHappened), and resume the run."
        )
        self.node.refused = EffectUnknown(message, run, record.key)
        return self.node.refused


def _task() -> object:
    """The task of an event loop that is being run."""
    from asyncio import current_task

    return current_task()


def _outcome(record: EffectRecord, value: object) -> EffectRecord:
    """The record of a body that has returned. An object that defends itself against being read cannot be stored."""
    ended = survived(_frozen, record, value)
    return _unstorable(record, NotStorable(f"the result of {record.name}() cannot be read")) if ended is None else ended


def _frozen(record: EffectRecord, value: object) -> EffectRecord:
    try:
        return replace(record, status="done", result=freeze(value, f"the result of {record.name}()"))
    except NotStorable as error:
        return _unstorable(record, error)


def _unstorable(record: EffectRecord, error: NotStorable) -> EffectRecord:
    text = f"{error}. The effect has happened and is recorded; it is not run again."
    return replace(record, status="unstorable", error=text)
