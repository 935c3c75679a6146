"""What to do instead, for each kind of value that no store keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from fastdur._registry import registrable


def way_out(cls: type[Any]) -> str:
    """Return the advice for values of a class that is not storable."""
    if registrable(cls):
        return "register the class: fastdur.storable(...)"
    for base, advice in _BY_BASE:
        if issubclass(cls, base):
            return advice
    top = cls.__module__.partition(".")[0]
    return _BY_MODULE.get(top, "store what it takes to make it again, or keep it as a dataclass under fastdur.storable")


_BY_BASE: Final[tuple[tuple[Any, str], ...]] = (
    (dict, "convert it: dict(value)"),
    (tuple, "convert it: tuple(value), or make the class a dataclass under fastdur.storable"),
    (list, "convert it: list(value)"),
    (set, "convert it: set(value)"),
    (frozenset, "convert it: frozenset(value)"),
    (str, "convert it: str(value)"),
    (bytes, "convert it: bytes(value)"),
    (bytearray, "convert it: bytes(value)"),
    (memoryview, "convert it: bytes(value)"),
    (int, "convert it: int(value)"),
    (float, "convert it: float(value)"),
    (BaseException, "store its text: str(error)"),
    (type, "store its name"),
    (Iterator, "store its items: list(value)"),
    (Callable, "store its name and look it up where it is called"),
)

_BY_MODULE: Final = {
    "numpy": "convert it: value.tolist()",
    "pandas": "convert it: value.to_dict()",
}
