"""An `@idempotent` function as it was declared: its name, what tells its calls apart, what is done about doubt."""

from __future__ import annotations

from enum import Enum
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal

from fastdur._codec import checked_name, digest, fingerprint, without_user_code
from fastdur._functions import (
    GENERATOR,
    bound_to,
    captured_in,
    captures,
    code_of,
    dotted_name,
    flags_of,
    held_in,
    is_async,
    known_module,
)
from fastdur._own import changes, own
from fastdur._promised import never_kept, promised
from fastdur._refusals import way_out
from fastdur._registry import full_name, imported_name
from fastdur.errors import IdempotencyError, NotStorable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fastdur._failures import Kinds
    from fastdur.records import Happened

    Per = Literal["run", "visit"]
    OnUnknown = Literal["rerun", "raise"] | Callable[..., Happened | object]


class Declared:
    """A function, and what was said about it."""

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        key_fn: Callable[..., Any] | None,
        name: str | None,
        on_unknown: OnUnknown,
        per: Per,
        raises: type[Exception] | Kinds,
        transactional: bool,
        required: bool,
    ) -> None:
        if isinstance(fn, type) or not callable(fn):
            message = f"@idempotent takes a function, not {fn!r}"
            raise TypeError(message)
        self.fn, self.key_fn, self.on_unknown, self.required = fn, key_fn, on_unknown, required
        if name is not None and (type(name) is not str or not name):
            message = f"name={name!r} of an effect is no name; give a non-empty str"
            raise TypeError(message)
        if key_fn is not None and not callable(key_fn):
            message = f"key_fn={key_fn!r} is no function of the arguments"
            raise TypeError(message)
        if key_fn is not None and is_async(key_fn):
            message = f"key_fn={key_fn!r} is an `async def`; give a plain function of the arguments"
            raise TypeError(message)
        if name is None and not hasattr(fn, "__qualname__"):
            message = f"@idempotent cannot tell the name of {fn!r}; give one with name="
            raise TypeError(message)
        self.name = f"{known_module(fn.__module__)}.{fn.__qualname__}" if name is None else checked_name(name, "name=")
        # A name that was given stands for the code, so a function that is made anew in each turn of a loop is the same.
        # Without one, what a function has captured may make it another, and only its place says which it is.
        self._bound_to = bound_to(fn)
        unlike = [each for each in self._bound_to if _form(each) is None]
        self.captures = name is None and (captures(fn) or bool(unlike))
        self.same: object = unlike[0] if unlike and self.captures else fn if self.captures else code_of(fn)
        if flags_of(fn) & GENERATOR:
            message = f"@idempotent takes a function that returns, and {self.name} is a generator"
            raise TypeError(message)
        self.per: Per = per
        self.transactional = transactional
        self.raises: Kinds = raises if isinstance(raises, tuple) else (raises,)
        kind: Any
        for kind in self.raises:
            if not isinstance(kind, type) or not issubclass(kind, Exception):
                message = f"raises= of {self.name}() holds {kind!r}; give exception classes"
                raise TypeError(message)
        self._check_policy()
        lost = never_kept(promised(fn))
        if lost is not None:
            message = f"{self.name}() is declared to return {full_name(lost)}, which is not storable; {way_out(lost)}"
            raise NotStorable(message)
        self._bind: Callable[..., dict[str, Any]] | None = None
        # What a call that leaves an argument out begins with, as it was when the function was declared; None where the
        # body cannot change it.
        self._signature = _described(fn) if any(map(changes, held_in(fn))) else None
        self._arguments = f"the arguments of {self.name}()"

    def _check_policy(self) -> None:
        if self.transactional and (is_async(self.fn) or self.on_unknown != "rerun"):
            what = "an `async def`" if is_async(self.fn) else "given an on_unknown=, and is never unknown"
            message = f"{self.name}() is transactional and {what}; it takes a sync function and no on_unknown="
            raise TypeError(message)
        if self.per not in ("run", "visit"):
            message = f"per={self.per!r} is not known; it is 'run' or 'visit'"
            raise ValueError(message)
        if self.on_unknown in ("rerun", "raise"):
            return
        if not callable(self.on_unknown):
            message = f"on_unknown={self.on_unknown!r} is not known; it is 'rerun', 'raise' or a function that asks"
            raise ValueError(message)  # noqa: TRY004 - a text is of the right type
        if is_async(self.on_unknown) and not is_async(self.fn):
            message = f"on_unknown of {self.name}() is an `async def`, and {self.name} is none; nobody could await it"
            raise TypeError(message)

    def bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments by name, defaults applied. Raises TypeError like the call itself would."""
        if self._bind is None:
            self._bind = binder(self.fn, self._signature)
        bound = self._bind(*args, **kwargs)
        if not self._bound_to:
            return bound
        return {**bound, _BOUND_TO: [_form(each) or _class_name(each) for each in self._bound_to]}

    def given(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]]:
        """The body and its arguments, with every default in it that the body might change, for it to get a copy."""
        if self._signature is None:
            return self.fn, args, kwargs
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        body: Callable[..., Any] = self.fn
        given: Any = body
        if type(body) is partial:
            body = partial(given.func, *own(given.args, {})[0], **given.keywords)
        return body, bound.args, bound.kwargs

    def asks(self, bound: Mapping[str, Any]) -> bool:
        """Whether the key of a call takes code of the user's: a key function, or an object asked for its fields."""
        return self.key_fn is not None or not without_user_code(bound.values())

    def key(
        self, path: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], bound: Mapping[str, Any]
    ) -> tuple[str, str]:
        """The key of a call in the visit `path`, and the fingerprint of its arguments."""
        try:
            if self.key_fn is None:
                known_by = fingerprint(bound, self._arguments)
                return self._named(known_by, path), known_by
            key = self._named(fingerprint(self.key_fn(*args, **kwargs), f"key_fn of {self.name}()"), path)
        except NotStorable as error:
            message = f"{error}. Pass key_fn= to say what tells two calls of {self.name}() apart."
            raise IdempotencyError(message) from error
        return key, _known_by(bound)

    def which(self, node: Callable[..., Any]) -> str:
        """What tells a function that `node` has made from others that it makes like it, empty where nothing does.

        Only values that nobody changes in place count, and functions by their names. What the node itself has captured,
        or a function that it uses, does not: a new release may bring another address along, or another password.
        """
        if not self.captures:
            return ""
        fixed = {name: _fixed(value) for name, value in captured_in(self.fn, node).items()}
        told = {name: each for name, each in fixed.items() if each is not None}
        return fingerprint(told, "captured") if told else ""

    def _named(self, known_by: str, path: str) -> str:
        """The key of what is known by this under the name of the function, in this visit if that counts."""
        return digest(f"{self.name}\n{known_by}" if self.per == "run" else f"{self.name}\n{known_by}\n{path}")


_BOUND_TO = "what it is bound to"
"""No name of an argument."""


def _form(bound_to: Any) -> str | None:
    """What a function is bound to, as it counts in the key of a call: with its values, if they have a form."""
    if isinstance(bound_to, type):
        return imported_name(bound_to)
    try:
        return fingerprint(bound_to, _BOUND_TO)
    except NotStorable:
        return None


def _class_name(bound_to: object) -> str:
    cls: type[Any] = type(bound_to)
    return imported_name(cls)


def _fixed(value: object) -> str | None:
    """A captured value that cannot be changed in place, as it counts."""
    if type(value) is FunctionType:
        return f"{known_module(value.__module__)}.{value.__qualname__}"
    kind = type(value)
    return fingerprint(value, "captured") if dotted_name(kind) in _FIXED or issubclass(kind, Enum) else None


_FIXED = {
    *(f"builtins.{name}" for name in ("str", "int", "float", "bool", "bytes", "NoneType")),
    *(f"datetime.{name}" for name in ("datetime", "date", "time", "timedelta")),
    "decimal.Decimal",
    "uuid.UUID",
}


def _known_by(bound: Mapping[str, Any]) -> str:
    """The fingerprint of the arguments that have one, to notice a key used for two different calls."""
    known: dict[str, Any] = {}
    for name, value in bound.items():
        try:
            known[name] = fingerprint(value, name)
        except NotStorable:
            known[name] = type(value).__qualname__
    return fingerprint(known, "arguments")


def _described(fn: Callable[..., Any]) -> Any:
    """The signature of a function with copies of its defaults."""
    from inspect import signature

    described = signature(fn)
    parts = described.parameters.values()
    return described.replace(parameters=[part.replace(default=own((part.default,), {})[0][0]) for part in parts])


def binder(fn: Callable[..., Any], known_as: Any = None) -> Callable[..., dict[str, Any]]:
    """A function that gives the arguments of a call of `fn` by name, defaults applied; raises TypeError like the call.

    A call that names no argument twice and leaves none out is bound without `inspect`, which takes ten times as long.
    """
    from inspect import Parameter, signature

    described = known_as or signature(fn)
    plain = all(part.kind is Parameter.POSITIONAL_OR_KEYWORD for part in described.parameters.values())
    names = tuple(described.parameters)
    known = set(names)
    defaults = {name: part.default for name, part in described.parameters.items() if part.default is not part.empty}

    def bind(*args: Any, **kwargs: Any) -> dict[str, Any]:
        if plain and not kwargs and len(args) == len(names):
            return dict(zip(names, args, strict=True))
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
