"""Values on their way out of a store: what a frozen value stands for, as a copy of its own or shared."""

from __future__ import annotations

from itertools import chain, repeat
from operator import is_
from typing import TYPE_CHECKING, Any

from fastdur._frozen import MISSING, TAG, Frozen, is_flat, is_tag
from fastdur._registry import shape_named
from fastdur._tags import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def thaw(frozen: Frozen) -> Any:
    """Return a fresh value that shares nothing that can be changed with the frozen one.

    Raises:
        NotStorable: it holds a class that is not registered in this process, or that has changed so that it no longer
            fits, or a kind of value that only a newer fastdur knows.

    """
    if type(frozen) is dict:
        if is_tag(frozen):
            return _untag(*frozen[TAG])
        return dict(zip(frozen, map(thaw, frozen.values()), strict=True))
    if type(frozen) is list:
        return frozen.copy() if is_flat(frozen) else list(map(thaw, frozen))
    return frozen


def thaw_shared(frozen: Frozen) -> Any:
    """Return the value like `thaw`, but as the same object wherever nothing in it is tagged: never hand it out."""
    if type(frozen) is dict:
        if is_tag(frozen):
            return _untag(*frozen[TAG])
        values = list(map(thaw_shared, frozen.values()))
        return frozen if all(map(is_, values, frozen.values())) else dict(zip(frozen, values, strict=True))
    if type(frozen) is list and not is_flat(frozen):
        values = list(map(thaw_shared, frozen))
        return frozen if all(map(is_, values, frozen)) else values
    return frozen


def rethaw(new: Frozen, old: Frozen, twin: Any) -> Any:
    """Return `thaw_shared(new)`, given that of `old`: what both trees share is taken from the twin."""
    if new is old:
        return twin
    if type(new) is dict and type(old) is dict and not is_tag(new) and not is_tag(old):
        values = [rethaw(item, old.get(key, MISSING), twin.get(key, MISSING)) for key, item in new.items()]
        return new if all(map(is_, values, new.values())) else dict(zip(new, values, strict=True))
    if type(new) is list and type(old) is list:
        kept = len(old) if len(new) >= len(old) and all(map(is_, old, new)) else 0
        rest = new[kept:]
        pasts, twins = chain(old[kept:], repeat(MISSING)), chain(twin[kept:], repeat(MISSING))
        values = list(map(rethaw, rest, pasts, twins))
        untagged = all(map(is_, values, rest)) and (twin is old or not kept)
        return new if untagged else twin[:kept] + values
    return thaw_shared(new)


def _untag(kind: str, *payload: Any) -> Any:
    build = _BUILDERS.get(kind)
    if build is not None:
        return build(map(thaw, payload))
    if kind in _SHAPE_KINDS:
        name, *parts = payload
        return shape_named(kind, name).build(*map(thaw, parts))
    return decode(kind, payload)


def _build_map(flat: Iterable[Any]) -> dict[Any, Any]:
    pairs = iter(flat)
    return dict(zip(pairs, pairs, strict=True))


_SHAPE_KINDS = frozenset({"enum", "dataclass", "model"})

_BUILDERS: dict[str, Callable[[Iterable[Any]], Any]] = {
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "map": _build_map,
}
