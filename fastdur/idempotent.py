"""`@idempotent`: a side effect that is recorded, and not run again once it is."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from fastdur._declared import Declared
from fastdur._effect_call import EffectCall
from fastdur._functions import is_async
from fastdur.errors import ScopeLost
from fastdur.scope import Scope, current, here

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from fastdur._declared import OnUnknown, Per
    from fastdur._failures import Kinds

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
    on_unknown: OnUnknown = "rerun",
    per: Per = "run",
    raises: type[Exception] | Kinds = (),
    transactional: bool = False,
    required: bool = False,
) -> Decorator: ...


def idempotent(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    key_fn: Callable[..., Any] | None = None,
    name: str | None = None,
    on_unknown: OnUnknown = "rerun",
    per: Per = "run",
    raises: type[Exception] | Kinds = (),
    transactional: bool = False,
    required: bool = False,
) -> Any:
    """Record the result of a function under the run it is called in; a recorded call is answered, not run again.

    A call is known by the function's module and qualname (or `name=`) and its bound arguments with their types, so
    `f(5)` and `f(amount=5)` are one call and `f(1)` and `f(True)` are two. An argument that has no such form is
    refused; `key_fn(*args, **kwargs)` then gives the part of the key that the arguments would have given. A run does a
    call once; a function that has captured variables, of which its factory may make another, needs `name=` where it is
    called alike in two visits of nodes; with `per="visit"` every visit of a node does it once, for what is meant to
    happen in each turn of a cycle. Works on sync and async functions.

    Before the body a `started` record is written, after it the result; the first call and every replay return the same
    stored value, and `None` is a value. The body works on its own copy of the lists, dicts and sets in its arguments
    and defaults, for a replay, which does not run it, would not change them. A body that raises is not a result: a
    retry of the node, or a resume after the run failed, runs it again. After a crash or a pause the node's replay gets
    the exception again: one built in or fastdur's, and one of `raises=`, a class or a tuple of classes with all below
    them, as itself, with its arguments and attributes as they can be stored; any other as `EffectFailed`; several of
    one visit one after another.
    Calls with one key run one at a time; a second waits for the first and takes its result.

    Between the end of the body and its record lies the one window no engine can close: a crash in it leaves an effect
    that is *unknown*. `on_unknown="rerun"` runs the body again, so hand `effect_key()` to the provider. With `"raise"`
    the call raises `EffectUnknown`, the run fails, and goes on once `resolve_unknown` has said what happened. With a
    function, `on_unknown(key, *args, **kwargs)` asks the provider: it gets the effect key and the arguments of the
    call, and returns `Happened(result)` or `NotHappened`; for an `async def` it may be one. With these two a body that
    raised is unknown as well, unless it raised `NotHappened`.

    With `transactional=True` the body of a sync function writes into the store's own database through `transaction()`:
    its statements and the record are one commit, so it happens exactly once and is never unknown. In it any other
    effect, `interrupt()` and run raises `InTransaction`.

    Outside a run the function runs plainly; with `required=True` it raises `ScopeLost`. `fn.plain(...)` runs it plainly
    on purpose, anywhere. In a thread that does not know its run it raises `ScopeLost` while a run is active in this
    process: hand such a thread `carry(fn)`. Raises `NotStorable` when it is applied to a function whose return
    annotation names what no store keeps; in a call `IdempotencyError` where the arguments give no key or the result
    cannot be stored (recorded: the body does not run again), `IdempotencyMismatch` where a key was used with other
    arguments, `EffectUnknown` as said above, `EffectDeadlock` where a body would wait for itself.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        declared = Declared(
            function,
            key_fn=key_fn,
            name=name,
            on_unknown=on_unknown,
            per=per,
            raises=raises,
            transactional=transactional,
            required=required,
        )
        return _awaited(declared) if is_async(function) else _called(declared)

    return decorate if fn is None else decorate(fn)


def _called(declared: Declared) -> Callable[..., Any]:
    """The function that users call, with `plain` beside it."""
    fn = declared.fn

    @wraps(fn)
    def plain(*args: Any, **kwargs: Any) -> Any:
        before = current.get()
        try:
            current.set(False)
            return fn(*args, **kwargs)
        finally:
            current.set(before)

    @wraps(fn)
    def effect(*args: Any, **kwargs: Any) -> Any:
        scope = current.get() or _outside(declared)
        if scope is None:
            return plain(*args, **kwargs)
        call = EffectCall(declared, scope, args, kwargs)
        recorded = call.recorded()
        if recorded is not None:
            return _given(recorded)
        try:
            return _given(scope.node.once(call.steps()))
        finally:
            call.leave()

    return _beside(effect, plain)


def _awaited(declared: Declared) -> Callable[..., Any]:
    """The same of an `async def`."""
    fn = declared.fn

    @wraps(fn)
    async def aplain(*args: Any, **kwargs: Any) -> Any:
        before = current.get()
        try:
            current.set(False)
            return await fn(*args, **kwargs)
        finally:
            current.set(before)

    @wraps(fn)
    async def aeffect(*args: Any, **kwargs: Any) -> Any:
        scope = current.get() or _outside(declared)
        if scope is None:
            return await aplain(*args, **kwargs)
        call = EffectCall(declared, scope, args, kwargs)
        recorded = call.recorded()
        if recorded is not None:
            return _given(recorded)
        try:
            return _given(await scope.node.aonce(call.steps()))
        finally:
            call.leave()

    return _beside(aeffect, aplain)


def _outside(declared: Declared) -> Scope | None:
    """None: it is called outside a run. Refuses to run plainly where that was not meant."""
    name = declared.name
    scope = here(f"{name}() was called", f", or call {name}.plain(...) to run it unrecorded on purpose")
    if declared.required:
        message = f"{name}() is marked required=True and was called outside a run."
        raise ScopeLost(message)
    return scope


def _beside(call: Any, plain: Callable[..., Any]) -> Callable[..., Any]:
    call.plain = plain
    return call  # type: ignore[no-any-return] # a function that was given an attribute


def _given(outcome: tuple[Any, BaseException | None]) -> Any:
    value, error = outcome
    if error is not None:
        raise error
    return value
