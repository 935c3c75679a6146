"""Failures of effects: as they are recorded, and as they come back."""

from __future__ import annotations

import builtins
from contextlib import suppress
from types import GetSetDescriptorType, MemberDescriptorType
from typing import TYPE_CHECKING, Any, Final

from fastdur._codec import MISSING, dumps, freeze, joined, thaw
from fastdur._functions import (
    annotate,
    below,
    cause_of,
    dotted_name,
    grouped_in,
    held_by,
    is_a,
    items_of,
    members_of,
    mro_of,
    said,
    short_name,
    shown,
    survived,
)
from fastdur.errors import EffectFailed, FastdurError, IdempotencyError, NotHappened, NotStorable

if TYPE_CHECKING:
    from fastdur._codec import Frozen
    from fastdur.records import EffectRecord

Kinds = tuple[type[Exception], ...]
"""Classes of exceptions that a function says it raises."""

_DEEPEST: Final = 8
"""How many exceptions, each the cause of the one before it or in its group, are kept."""


def frozen_failure(error: BaseException, known: Kinds = (), depth: int = 0) -> Frozen:
    """An exception as it is recorded: its class, its text, and what makes it again, where that can be stored.

    That is, of one of the classes `known` to the effect, built in or fastdur's own, its arguments, its attributes but
    for those that cannot be stored, its cause, and the exceptions of a group. Whatever the exception does to defend
    itself, this returns.
    """
    recorded: list[Frozen] = [dotted_name(type(error)), joined(said(error))]
    more = survived(_parts, error, str(recorded[0]), known, depth)
    return [*recorded, *(more or [None])]


def _parts(error: Exception, name: str, known: Kinds, depth: int) -> list[Frozen] | None:
    """What makes an exception again: its arguments, and what else it holds. None where nothing does."""
    kind = type(error)
    if _kind(name, known) is not kind:
        return None
    more: dict[str, Any] = {}
    try:
        members = _members(error, known, depth)
        args = freeze(_arguments(error)[: 1 if members is not None else None], "args")
    except NotStorable:
        return None
    made = _made(kind, args, members, known)
    if made is None:
        return None
    attributes, lost = _attributes(error, made)
    if attributes:
        more["attributes"] = freeze(attributes, "attributes")
    if lost:
        more["lost"] = lost
    if members is not None:
        more["members"] = members
    cause: Any = cause_of(error)
    if is_a(cause, Exception) and depth < _DEEPEST:
        more["cause"] = frozen_failure(cause, known, depth + 1)
    return [args, *([more] if more else [])]


def replayed_failure(record: EffectRecord, known: Kinds = ()) -> Exception:
    """The recorded failure: one of a class that is built in or `known` as itself, any other as `EffectFailed`."""
    return _again(record.error, known, f"{record.name}() failed in an earlier process with ")


def _again(frozen: Any, known: Kinds, how: str) -> Exception:
    name, text, args, *rest = frozen
    more: dict[str, Any] = rest[0] if rest else {}
    kind = _kind(str(name), known)
    failure = None if args is None or kind is None else _made(kind, args, more.get("members"), known)
    if failure is None:
        return EffectFailed(f"{how}{name}: {text}", str(name))
    slots = _slots(failure)
    for attribute, value in thaw(more.get("attributes", {})).items():
        if attribute in slots:
            slots[attribute].__set__(failure, value)
        else:
            held_by(failure)[attribute] = value
    if "lost" in more:
        annotate(failure, f"It comes from a record, without what cannot be stored: {', '.join(more['lost'])}.")
    if "cause" in more:
        failure.__cause__ = _again(more["cause"], known, "")
    return failure


def _made(kind: type[Exception], args: Any, members: Any, known: Kinds) -> Exception | None:
    """An exception as a copy is made: without the class's own __init__, whose arguments need not be those that it has.

    None where the class does not let it be made so.
    """
    arguments: list[Any] = thaw(args)
    if members is not None:
        arguments.append([_again(each, known, "") for each in members])
    failure: Any = survived(_copied, kind, arguments)
    return failure if type(failure) is kind else None


def _copied(kind: type[Exception], arguments: list[Any]) -> Exception:
    failure = kind.__new__(kind, *arguments)
    _builtin(kind).__init__(failure, *arguments)
    return failure


def _members(error: Exception, known: Kinds, depth: int) -> list[Frozen] | None:
    """The exceptions of a group. Raises `NotStorable` where it is too deep."""
    if not is_a(error, ExceptionGroup):
        return None
    if depth >= _DEEPEST:
        message = "a group of exceptions that deep is not storable"
        raise NotStorable(message)
    members: Any = grouped_in(error)
    return [frozen_failure(each, known, depth + 1) for each in members]


def _attributes(error: Exception, made: Exception) -> tuple[dict[Any, Any], list[Frozen]]:
    """The attributes that the arguments alone do not bring back, and the public ones that cannot be stored."""
    kept: dict[Any, Any] = {}
    lost: list[Frozen] = []
    has = _held(made)
    for name, value in _held(error).items():
        text = survived(_text, name, value)
        if text is None:
            label = shown(name) if type(name) is not str else name
            if not label.startswith("_"):
                lost.append(joined(label))
        elif text != survived(_text, name, has.get(name, MISSING)):
            kept[name] = value
    return kept, lost


def _text(name: Any, value: Any) -> str | None:
    """An attribute as it is stored, None where it cannot be."""
    try:
        return dumps(freeze({name: value}, ""))
    except NotStorable:
        return None


def _held(error: Exception) -> dict[Any, Any]:
    """What an exception holds, in its dictionary and outside of it. Nothing of the user's is asked."""
    held: dict[Any, Any] = {}
    for name, slot in _slots(error).items():
        with suppress(AttributeError):  # it was never set
            held[name] = slot.__get__(error)
    held.update(items_of(held_by(error)))
    return held


def _slots(error: Exception) -> dict[str, Any]:
    """Where an exception keeps what is not in its dictionary: its slots, and what built-in classes keep in C."""
    return {
        name: slot
        for cls in reversed(mro_of(type(error)))
        for name, slot in members_of(cls).items()
        if isinstance(slot, (MemberDescriptorType, GetSetDescriptorType))
        if name not in _KEPT_OTHERWISE and not name.startswith("__")
    }


_KEPT_OTHERWISE: Final = ("args", "message", "exceptions")


def _builtin(kind: type[Exception]) -> Any:
    """The built-in class that an exception class is made from."""
    return next(base for base in mro_of(kind) if getattr(builtins, short_name(base), None) is base)


def _arguments(error: Exception) -> list[Any]:
    """What makes a copy of an exception; `args` lacks the file names of an `OSError`."""
    return list(_builtin(type(error)).__reduce__(error)[1])


def _kind(name: str, known: Kinds) -> type[Exception] | None:
    """The exception class of this name, if it is built in, fastdur's own, or one of `known` or below one of them."""
    module, _, short = name.rpartition(".")
    if module == "builtins":
        kind = getattr(builtins, short, None)
        return kind if isinstance(kind, type) and issubclass(kind, Exception) else None
    waiting: list[type[Exception]] = [NotHappened, FastdurError, *known]
    for kind in waiting:
        if dotted_name(kind) == name:
            return kind
        waiting += below(kind)
    return None


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
