"""`@idempotent`: a side effect that is recorded, and not run again once it is."""

from __future__ import annotations

import builtins
import os
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, overload

from fastdur._codec import fingerprint, freeze, thaw
from fastdur._effects import AwaitEffect, BeginEffect, EndEffect, RunEffect
from fastdur._functions import GENERATOR, flags_of, is_async, said
from fastdur.errors import EffectDeadlock, EffectFailed, FastdurError, IdempotencyError, NotStorable, ScopeLost
from fastdur.records import EffectRecord
from fastdur.scope import Scope, current, here

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from typing import Self

    from fastdur._codec import Frozen
    from fastdur._effects import Effect

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")


class Idempotent(Protocol[P, R_co]):
    """What `@idempotent` makes of a function: called like it, and `plain` beside it."""

    @property
    def plain(self) -> Callable[P, R_co]:
        """The function run plainly on purpose: nothing is recorded and no record answers, inside a run too.

        What its body calls counts as outside of every run. Of a method it is called on the class, with the object:
        `Account.charge.plain(account, 5)`.
        """
        ...

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call it."""
        ...

    @overload
    def __get__(self, instance: None, owner: type[Any], /) -> Self: ...
    @overload
    def __get__(self: Idempotent[Concatenate[S, Q], R], instance: S, owner: type[Any], /) -> Callable[Q, R]: ...
    def __get__(self, instance: object, owner: type[Any], /) -> Any:
        """The function, or the method of an object."""
        ...


class Decorator(Protocol):
    """What `@idempotent(...)` is applied to a function with."""

    def __call__(self, fn: Callable[P, R], /) -> Idempotent[P, R]:
        """Decorate it."""
        ...


@overload
def idempotent(fn: Callable[P, R], /) -> Idempotent[P, R]: ...


@overload
def idempotent(
    *,
    key_fn: Callable[..., Any] | None = None,
    name: str | None = None,
    on_unknown: Literal["rerun"] = "rerun",
    required: bool = False,
) -> Decorator: ...


def idempotent(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    key_fn: Callable[..., Any] | None = None,
    name: str | None = None,
    on_unknown: Literal["rerun"] = "rerun",
    required: bool = False,
) -> Any:
    """Record the result of a function under the run it is called in; a recorded call is answered, not run again.

    A call is known by the function's module and qualname (or `name=`) and its bound arguments with their types, so
    `f(5)` and `f(amount=5)` are one call and `f(1)` and `f(True)` are two. An argument that has no such form is
    refused; `key_fn(*args, **kwargs)` then gives the part of the key that the arguments would have given. Works on
    sync and async functions.

    Before the body a `started` record is written, after it the result; the first call and every replay return the same
    stored value, and `None` is a value. A body that raises is not a result: a retry of the node, or a resume after the
    run failed, runs it again. Between the end of the body and its record lies the one window no engine can close: a
    crash in it runs the body again (`on_unknown="rerun"`), so hand `effect_key()` to the provider. Calls with one key
    run one at a time; a second waits for the first and takes its result.

    Outside a run the function runs plainly; with `required=True` it raises `ScopeLost`. `fn.plain(...)` runs it plainly
    on purpose, anywhere. In a thread that does not know its run it raises `ScopeLost` while a run is active in this
    process: hand such a thread `carry(fn)`. Raises `IdempotencyError`
    where the arguments give no key or the result cannot be stored (recorded: the body does not run again),
    `IdempotencyMismatch` where a key was used with other arguments, `EffectDeadlock` where a body would wait for
    itself.
    """
    if on_unknown != "rerun":
        message = f"on_unknown={on_unknown!r} is not known; it is 'rerun'"
        raise ValueError(message)
    if fn is None:

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            return _Effect(function, key_fn, name, required=required).wrapped()

        return decorate
    return _Effect(fn, None, None, required=False).wrapped()


class _Effect:
    """A decorated function: how its calls are named and keyed."""

    def __init__(
        self, fn: Callable[..., Any], key_fn: Callable[..., Any] | None, name: str | None, *, required: bool
    ) -> None:
        if isinstance(fn, type) or not callable(fn):
            message = f"@idempotent takes a function, not {fn!r}"
            raise TypeError(message)
        self.fn, self.key_fn, self.required = fn, key_fn, required
        if name is None and not hasattr(fn, "__qualname__"):
            message = f"@idempotent cannot tell the name of {fn!r}; give one with name="
            raise TypeError(message)
        self.name = name if name is not None else f"{fn.__module__}.{fn.__qualname__}"
        if flags_of(fn) & GENERATOR:
            message = f"@idempotent takes a function that returns, and {self.name} is a generator"
            raise TypeError(message)
        self._bind: Callable[..., dict[str, Any]] | None = None

    def wrapped(self) -> Callable[..., Any]:
        """The function that users call, with `plain` beside it."""
        return self._awaited() if is_async(self.fn) else self._called()

    def _called(self) -> Callable[..., Any]:
        @wraps(self.fn)
        def plain(*args: Any, **kwargs: Any) -> Any:
            token = current.set(False)
            try:
                return self.fn(*args, **kwargs)
            finally:
                current.reset(token)

        @wraps(self.fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            scope = self._scope()
            if scope is None:
                return plain(*args, **kwargs)
            call = _Call(self, scope, args, kwargs)
            try:
                return _given(scope.node.once(call.steps()))
            finally:
                call.leave()

        return _beside(call, plain)

    def _awaited(self) -> Callable[..., Any]:
        @wraps(self.fn)
        async def aplain(*args: Any, **kwargs: Any) -> Any:
            token = current.set(False)
            try:
                return await self.fn(*args, **kwargs)
            finally:
                current.reset(token)

        @wraps(self.fn)
        async def acall(*args: Any, **kwargs: Any) -> Any:
            scope = self._scope()
            if scope is None:
                return await aplain(*args, **kwargs)
            call = _Call(self, scope, args, kwargs)
            try:
                return _given(await scope.node.aonce(call.steps()))
            finally:
                call.leave()

        return _beside(acall, aplain)

    def _scope(self) -> Scope | None:
        """Where it is called, None outside a run. Refuses to run plainly where that was not meant."""
        scope = current.get()
        if scope:
            return scope
        here(f"{self.name}() was called", f", or call {self.name}.plain(...) to run it unrecorded on purpose")
        if self.required:
            message = f"{self.name}() is marked required=True and was called outside a run."
            raise ScopeLost(message)
        return None

    def bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments by name, defaults applied. Raises TypeError like the call itself would."""
        if self._bind is None:
            self._bind = binder(self.fn)
        return self._bind(*args, **kwargs)

    def key(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, str]:
        """The key of a call, and the fingerprint of its arguments."""
        try:
            if self.key_fn is None:
                known_by = fingerprint(self.bound(args, kwargs), f"the arguments of {self.name}()")
                return self._named(known_by), known_by
            key = self._named(fingerprint(self.key_fn(*args, **kwargs), f"key_fn of {self.name}()"))
        except NotStorable as error:
            message = f"{error}. Pass key_fn= to say what tells two calls of {self.name}() apart."
            raise IdempotencyError(message) from error
        return key, self._known_by(args, kwargs)

    def _named(self, known_by: str) -> str:
        """The key of what is known by this under the name of the function."""
        from hashlib import sha256

        return sha256(f"{self.name}\n{known_by}".encode("utf-8", "surrogatepass")).hexdigest()

    def _known_by(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """The fingerprint of the arguments that have one, to notice a key used for two different calls."""
        known: dict[str, Any] = {}
        for name, value in self.bound(args, kwargs).items():
            try:
                known[name] = fingerprint(value, name)
            except NotStorable:
                known[name] = type(value).__qualname__
        return fingerprint(known, "arguments")


class _Call:
    """One call inside a run."""

    def __init__(self, effect: _Effect, scope: Scope, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.effect, self.scope, self.node = effect, scope, scope.node
        self.args, self.kwargs = args, kwargs
        token = current.set(Scope(scope.node, scope.effect, asks=False))
        try:
            self.key, self.known_by = effect.key(args, kwargs)
        finally:
            current.reset(token)
        self.memory = self.node.host.memory

    def leave(self) -> None:
        """The call is over: whoever waits for it goes on."""
        self.memory.leave(self.key, self)

    def steps(self) -> Generator[Effect[Any], Any, tuple[Any, BaseException | None]]:
        """Answer from the record, or wait, or run the body between its two records. Returns a value or an error."""
        node, effect = self.node, self.effect
        self.memory.name(effect.name, effect.fn, node.path, node.attempt)
        while True:
            failed = self.memory.failure(self.key, self.known_by, node.path, node.attempt)
            if failed is not None:
                return None, replayed_failure(failed)
            found = self.memory.enter(self.key, self.known_by, self)
            if found is None:
                return (yield from self._run())
            if isinstance(found, EffectRecord):
                return self._hit(found)
            if self.scope.effect is not None:
                message = (
                    f"{effect.name}() is in flight and was called again from inside an effect body "
                    f"({self.scope.effect.name}), which might wait for ever. Call it from the node."
                )
                raise EffectDeadlock(message)
            yield from AwaitEffect(self.key, f"{effect.name.rpartition('.')[2]}@{node.address}")

    def _hit(self, record: EffectRecord) -> tuple[Any, BaseException | None]:
        if record.path != self.node.path or record.attempt in self.node.begun:
            self.node.note("hits", record.name)
        if record.status == "unstorable":
            return None, IdempotencyError(str(record.error))
        return thaw(record.result), None

    def _run(self) -> Generator[Effect[Any], Any, tuple[Any, BaseException | None]]:
        node, effect = self.node, self.effect
        attempt = os.urandom(8).hex()
        record = EffectRecord(self.key, effect.name, self.known_by, "started", attempt, node.path)
        settled = yield from BeginEffect(record, node.address)
        if settled is not None:
            self.memory.settle(settled)
            return self._hit(settled)
        node.begun.append(attempt)
        value, error = yield from RunEffect(record, node.address, effect.fn, self.args, self.kwargs)
        if error is not None:
            if isinstance(error, Exception) and not isinstance(error, FastdurError):
                yield from EndEffect(replace(record, status="failed", error=frozen_failure(error)), node.address)
            return None, error
        ended = self._outcome(record, value)
        yield from EndEffect(ended, node.address)
        self.memory.settle(ended)
        if ended.status == "unstorable":
            return None, IdempotencyError(str(ended.error))
        return thaw(ended.result), None

    def _outcome(self, record: EffectRecord, value: object) -> EffectRecord:
        try:
            return replace(record, status="done", result=freeze(value, f"the result of {record.name}()"))
        except NotStorable as error:
            text = f"{error}. The effect has happened and is recorded; it is not run again."
            return replace(record, status="unstorable", error=text)


def binder(fn: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """A function that gives the arguments of a call of `fn` by name, defaults applied; raises TypeError like the call.

    A call that names no argument twice and leaves none out is bound without `inspect`, which takes ten times as long.
    """
    from inspect import Parameter, signature

    described = signature(fn)
    plain = all(part.kind is Parameter.POSITIONAL_OR_KEYWORD for part in described.parameters.values())
    names = tuple(described.parameters)
    known = set(names)
    defaults = {name: part.default for name, part in described.parameters.items() if part.default is not part.empty}

    def bind(*args: Any, **kwargs: Any) -> dict[str, Any]:
        if plain and len(args) <= len(names):
            given = dict(zip(names, args, strict=False))
            bound = {**defaults, **given, **kwargs}
            if bound.keys() == known and kwargs.keys().isdisjoint(given):
                return bound
        return inspected(*args, **kwargs)

    def inspected(*args: Any, **kwargs: Any) -> dict[str, Any]:
        bound = described.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments

    return bind


def _beside(call: Any, plain: Callable[..., Any]) -> Callable[..., Any]:
    call.plain = plain
    return call  # type: ignore[no-any-return] # a function that was given an attribute


def _given(outcome: tuple[Any, BaseException | None]) -> Any:
    value, error = outcome
    if error is not None:
        raise error
    return value


def frozen_failure(error: Exception) -> Frozen:
    """An exception as it is recorded: its class, its text, its arguments where they can be stored."""
    kind = type(error)
    try:
        args = freeze(list(error.args), "args")
    except NotStorable:
        args = None
    return [f"{kind.__module__}.{kind.__qualname__}", said(error), args]


def replayed_failure(record: EffectRecord) -> Exception:
    """The recorded failure: a built-in exception as itself, any other as `EffectFailed` with its class named."""
    error: Any = record.error
    name, text, args = error
    module, _, short = str(name).rpartition(".")
    kind = getattr(builtins, short, None) if module == "builtins" else None
    if args is not None and isinstance(kind, type) and issubclass(kind, Exception):
        return kind(*thaw(args))
    message = f"{record.name}() failed in an earlier process with {name}: {text}"
    return EffectFailed(message, str(name))
