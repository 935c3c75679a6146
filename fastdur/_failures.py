"""Failures of effects: as they are recorded, and as they come back."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from fastdur._codec import freeze, thaw
from fastdur._functions import said
from fastdur.errors import EffectFailed, IdempotencyError, NotHappened, NotStorable

if TYPE_CHECKING:
    from fastdur._codec import Frozen
    from fastdur.records import EffectRecord

Kinds = tuple[type[Exception], ...]
"""Classes of exceptions that a function says it raises."""


def frozen_failure(error: Exception, known: Kinds = ()) -> Frozen:
    """An exception as it is recorded: its class, its text, its arguments where they can be stored.

    Of one of the classes `known` to the effect also its attributes; where one of them cannot be stored, it is recorded
    like one of an unknown class, unless it is a private one, which is left out.
    """
    declared = bool(known) and isinstance(error, known)
    try:
        parts = [freeze(_arguments(error), "args"), *(_attributes(error) if declared else [])]
    except NotStorable:
        parts = [None]
    return [_name(type(error)), said(error), *parts]


def _attributes(error: Exception) -> list[Frozen]:
    """The attributes of an exception, if it has any, but for private ones that cannot be stored."""
    kept: dict[str, Any] = {}
    for name, value in vars(error).items():
        try:
            freeze(value, name)
        except NotStorable:
            if not name.startswith("_"):
                raise
        else:
            kept[name] = value
    return [freeze(kept, "attributes")] if kept else []


def replayed_failure(record: EffectRecord, known: Kinds = ()) -> Exception:
    """The recorded failure: one of a class that is built in or `known` as itself, any other as `EffectFailed`."""
    error: Any = record.error
    name, text, args, *attributes = error
    kind = _kind(str(name), known)
    if args is None or kind is None:
        message = f"{record.name}() failed in an earlier process with {name}: {text}"
        return EffectFailed(message, str(name))
    # As a copy is made: without the class's own __init__, whose arguments need not be those of the exception.
    arguments: tuple[Any, ...] = tuple(thaw(args))
    failure: Exception = kind.__new__(kind, *arguments)
    _builtin(kind).__init__(failure, *arguments)
    for each in attributes:
        vars(failure).update(thaw(each))
    return failure


def _builtin(kind: type[Exception]) -> Any:
    """The built-in class that an exception class is made from."""
    return next(base for base in kind.__mro__ if base.__module__ == "builtins")


def _arguments(error: Exception) -> list[Any]:
    """What makes a copy of an exception; `args` lacks the file names of an `OSError`."""
    return list(_builtin(type(error)).__reduce__(error)[1])


def _kind(name: str, known: Kinds) -> type[Exception] | None:
    """The exception class of this name, if it is built in, fastdur's own, or one of `known` or below one of them."""
    module, _, short = name.rpartition(".")
    if module == "builtins":
        kind = getattr(builtins, short, None)
        return kind if isinstance(kind, type) and issubclass(kind, Exception) else None
    waiting: list[type[Exception]] = [NotHappened, *known]
    for kind in waiting:
        if _name(kind) == name:
            return kind
        waiting += kind.__subclasses__()
    return None


def _name(kind: type[Exception]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def failure_text(record: EffectRecord) -> str:
    """The recorded failure in one line, its class named."""
    error: Any = record.error
    return f"{str(error[0]).rpartition('.')[2]}: {error[1]}"


def uncommitted(error: NotStorable) -> IdempotencyError:
    """What a transactional effect raises whose result cannot be stored."""
    message = f"{error}. Nothing was committed: a transactional effect happens with its record or not at all."
    refusal = IdempotencyError(message)
    refusal.__cause__ = error
    return refusal
