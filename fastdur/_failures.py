"""Failures of effects: as they are recorded, and as they come back."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from fastdur._codec import freeze, thaw
from fastdur._functions import said
from fastdur.errors import EffectFailed, NotHappened, NotStorable

if TYPE_CHECKING:
    from fastdur._codec import Frozen
    from fastdur.records import EffectRecord


_OWN = {f"{NotHappened.__module__}.{NotHappened.__qualname__}": NotHappened}


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
    kind = getattr(builtins, short, None) if module == "builtins" else _OWN.get(str(name))
    if args is not None and isinstance(kind, type) and issubclass(kind, Exception):
        return kind(*thaw(args))
    message = f"{record.name}() failed in an earlier process with {name}: {text}"
    return EffectFailed(message, str(name))


def failure_text(record: EffectRecord) -> str:
    """The recorded failure in one line, its class named."""
    error: Any = record.error
    return f"{str(error[0]).rpartition('.')[2]}: {error[1]}"
