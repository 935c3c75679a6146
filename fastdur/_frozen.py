"""Frozen values: JSON trees that are shared between rows and never changed, and their text.

A frozen value is None, a bool, int, float or str, or a list or a dict with string keys of frozen values. What JSON
has no form for is a *tag*: a dict whose only key is `TAG`, with `[kind, *payload]` as its value.
"""

from __future__ import annotations

from json import encoder
from json.decoder import JSONDecoder
from json.encoder import JSONEncoder, encode_basestring_ascii
from math import copysign
from operator import is_
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from fastdur.errors import NotStorable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Frozen: TypeAlias = "bool | int | float | str | list[Any] | dict[str, Any] | None"

TAG: Final = "$"
MISSING: Final[Any] = object()

# `type` for values of any type, with a result that type checkers know.
class_of: Callable[[Any], type[Any]] = type

# CPython 3.11 counts the C recursion of its JSON encoder against the 1,000 frames of the interpreter, and a delta
# nests up to twice as deep as the value; this leaves more than half of the stack to the caller.
MAX_DEPTH: Final = 200

_SHOWN_PARTS: Final = 8


class BadLeafError(Exception):
    """A leaf that cannot be stored, on its way up; the containers it passes note where it was."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str] = []

    def as_refusal(self, where: str) -> NotStorable:
        """Return the error for the user: the path from `where` down to the leaf, the reason, the way out."""
        parts = self.path[::-1]
        if len(parts) > _SHOWN_PARTS:
            half = _SHOWN_PARTS // 2
            parts = [*parts[:half], "[...]", *parts[-half:]]
        return NotStorable(f"{where}{''.join(parts)}: {self.reason}")


def too_deep() -> BadLeafError:
    """Return the refusal of a value that contains itself or nests without end."""
    return BadLeafError(
        f"nested deeper than {MAX_DEPTH} levels is not storable; flatten the value, or cut the reference to itself",
    )


def same_scalar(one: object, other: object) -> bool:
    """Tell whether two finite JSON scalars are equal, type and sign of zero included."""
    if type(one) is not type(other) or one != other:
        return False
    return type(one) is not float or copysign(1.0, one) == copysign(1.0, cast("float", other))


def same(one: Frozen, other: Frozen) -> bool:
    """Tell whether two frozen trees are equal: types, the sign of zero and the order of keys included."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and (all(map(is_, one, other)) or all(map(same, one, other)))
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(map(same, one.values(), other.values()))
    return same_scalar(one, other)


def is_tag(frozen: Frozen) -> bool:
    """Tell whether a frozen value stands for something that JSON has no form for."""
    return type(frozen) is dict and len(frozen) == 1 and TAG in frozen


def is_flat(items: list[Frozen]) -> bool:
    """Tell whether a frozen list holds no list and no dict."""
    return _CONTAINERS.isdisjoint(map(type, items))


_CONTAINERS: Final = frozenset({list, dict})
_ENCODER = JSONEncoder(ensure_ascii=True, separators=(",", ":"), check_circular=False, allow_nan=False)
# What JSONEncoder makes anew for each text, which takes as long as a small text itself. None where there is no C code.
_MAKE: Any = getattr(encoder, "c_make_encoder", None)
_CHUNKS: Callable[[Frozen, int], Iterable[str]] | None = (
    _MAKE and _MAKE(None, _ENCODER.default, encode_basestring_ascii, None, ":", ",", False, False, False)  # noqa: FBT003 - C code
)
_DECODE = JSONDecoder().decode


def dumps(frozen: Frozen) -> str:
    """Return the JSON text of a frozen value: ASCII, compact, keys in their order."""
    return "".join(_CHUNKS(frozen, 0)) if _CHUNKS else _ENCODER.encode(frozen)


def loads(text: str) -> Frozen:
    """Return the frozen value of a text made by `dumps`.

    Raises:
        ValueError: the text is not JSON.

    """
    return cast("Frozen", _DECODE(text))
