"""Values on their way into a store: the frozen form of a value, or a refusal that names the bad leaf."""

from __future__ import annotations

import re
from math import isfinite
from operator import is_
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from fastdur._frozen import (
    MAX_DEPTH,
    MISSING,
    TAG,
    BadLeafError,
    Frozen,
    class_of,
    dumps,
    is_tag,
    same,
    same_scalar,
    too_deep,
)
from fastdur._functions import shown
from fastdur._refusals import way_out
from fastdur._registry import full_name, shape_of
from fastdur._tags import encoder_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from fastdur._registry import Shape

Freezer: TypeAlias = "Callable[[Any, Frozen, Any, int], Frozen]"


def freeze(value: Any, where: str, old: Frozen = MISSING, twin: Any = MISSING) -> Frozen:
    """Return the frozen form of a value; it shares nothing that can be changed with it.

    `where` is the name of the root in messages. With `old`, the frozen form of what the value was before, every
    unchanged subtree is the same object as in `old`, and of a list that grew the old elements are reused. `twin` is
    what `thaw_shared(old)` returned; a part of the value that is the same object as that part of the twin counts as
    unchanged without being looked at, so it must not have been changed in place.

    Raises:
        NotStorable: some leaf has no storable form; names its path, its type and the way out.

    """
    try:
        return FREEZERS.get(class_of(value), freeze_other)(value, old, old if twin is MISSING else twin, 1)
    except BadLeafError as bad:
        raise bad.as_refusal(where) from None
    except RecursionError:
        raise too_deep().as_refusal(where) from None


def holds_only_leaves(items: Iterable[Any]) -> bool:
    """Tell whether all items are of types whose instances cannot change, so that they may be shared."""
    return LEAVES.issuperset(map(type, items))


# --- plain JSON -------------------------------------------------------------------------------------------------------

# Python refuses to print or read ints above a number of digits that a process may lower to 640.
_MAX_INT_BITS: Final = 2048
_SURROGATES_IN_A_ROW: Final = re.compile("(?<=[\ud800-\udbff])(?=[\udc00-\udfff])")


def _freeze_singleton(value: Any, _old: Frozen, _twin: Any, _depth: int) -> Frozen:
    return cast("Frozen", value)


def _freeze_int(value: int, old: Frozen, _twin: Any, _depth: int) -> Frozen:
    if value.bit_length() > _MAX_INT_BITS:
        return _tagged(["int", hex(value)], old)
    return old if same_scalar(value, old) else value


def _freeze_float(value: float, old: Frozen, _twin: Any, _depth: int) -> Frozen:
    if not isfinite(value):
        return _tagged(["float", repr(value)], old)
    return old if same_scalar(value, old) else value


def _freeze_str(value: str, old: Frozen, _twin: Any, _depth: int) -> Frozen:
    if not survives(value):
        return _tagged(["str", *_SURROGATES_IN_A_ROW.split(value)], old)
    return old if type(old) is str and value == old else value


def survives(text: str) -> bool:
    """Tell whether JSON keeps a text: two surrogates in a row would be read as one character."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATES_IN_A_ROW.search(text) is None
    return True


def joined(text: str) -> str:
    """Return a text as JSON gives it back: two surrogates in a row are the character that they are the halves of."""
    return text if survives(text) else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def checked_name(text: str, what: str) -> str:
    """Return a text that names something; raises `ValueError` where a store would give back another one."""
    if not survives(text):
        message = f"{what} is {text!r}: two surrogates in a row are stored as one character; write that character"
        raise ValueError(message)
    return text


def is_plain_dict(value: dict[Any, Any]) -> bool:
    """Tell whether a dict of the user is a JSON object and cannot be taken for a tag."""
    if not {str}.issuperset(map(type, value)) or is_tag(value):
        return False
    return all(map(str.isascii, value)) or all(map(survives, value))


def _freeze_dict(value: dict[Any, Any], old: Frozen, twin: Any, depth: int) -> Frozen:
    if value is twin:
        return old
    if depth > MAX_DEPTH:
        raise too_deep()
    if not is_plain_dict(value):
        return _freeze_map(value, old, depth)
    olds, twins = _pair(old, twin, dict) or ({}, {})
    frozen: dict[str, Frozen] = {}
    key = ""
    try:
        for key, item in value.items():
            freezer = FREEZERS.get(class_of(item), freeze_other)
            frozen[key] = freezer(item, olds.get(key, MISSING), twins.get(key, MISSING), depth + 1)
    except BadLeafError as bad:
        bad.path.append(f"[{shown(key)}]")
        raise
    unchanged = all(map(is_, frozen.values(), olds.values())) and list(frozen) == list(olds)
    return old if unchanged and olds is old else frozen


def _freeze_list(value: list[Any], old: Frozen, twin: Any, depth: int) -> Frozen:
    if value is twin:
        return old
    if depth > MAX_DEPTH:
        raise too_deep()
    olds, twins = _pair(old, twin, list) or ([], [])
    kept = len(twins) if len(value) >= len(twins) and all(map(is_, twins, value)) else 0
    frozen: list[Frozen] = olds[:kept]
    rest = value[kept:] if kept else value
    if kept == len(olds) and is_plain_list(rest):
        frozen += rest
    else:
        _freeze_items(rest, frozen, olds, twins, depth)
    unchanged = len(frozen) == len(olds) and all(map(is_, frozen, olds))
    return old if unchanged and olds is old else frozen


def _freeze_items(rest: list[Any], frozen: list[Frozen], olds: list[Frozen], twins: list[Any], depth: int) -> None:
    try:
        for item in rest:
            index = len(frozen)
            past, twin = (olds[index], twins[index]) if index < len(olds) else (MISSING, MISSING)
            frozen.append(FREEZERS.get(class_of(item), freeze_other)(item, past, twin, depth + 1))
    except BadLeafError as bad:
        bad.path.append(f"[{len(frozen)}]")
        raise


def _pair(old: Frozen, twin: Any, kind: type) -> tuple[Any, Any] | None:
    # A tag and its twin are no pair: their parts do not correspond.
    return (old, twin) if type(old) is kind and type(twin) is kind and not is_tag(old) else None


def is_plain_list(items: list[Any]) -> bool:
    """Tell whether all items are of one JSON type and may be stored as they are; not every such list is found."""
    kinds = set(map(type, items))
    if len(kinds) != 1:
        return False
    check = _PLAIN_CHECKS.get(kinds.pop())
    return check is not None and check(items)


_PLAIN_CHECKS: Final[dict[type, Callable[[list[Any]], bool]]] = {
    str: lambda items: all(map(str.isascii, items)),
    int: lambda items: max(map(int.bit_length, items)) <= _MAX_INT_BITS,
    float: lambda items: all(map(isfinite, items)),
    bool: lambda _items: True,
    type(None): lambda _items: True,
}


# --- tags -------------------------------------------------------------------------------------------------------------


def _tagged(content: list[Any], old: Frozen) -> Frozen:
    new: Frozen = {TAG: content}
    return old if same(new, old) else new


def _freeze_tuple(value: tuple[Any, ...], old: Frozen, twin: Any, depth: int) -> Frozen:
    return old if value is twin else _tagged(["tuple", *_parts(list(value), depth)], old)


def _freeze_set(value: Collection[Any], old: Frozen, twin: Any, depth: int) -> Frozen:
    if value is twin:
        return old
    items = _parts(list(value), depth)
    items.sort(key=None if {str}.issuperset(map(type, items)) else dumps)
    return _tagged([type(value).__name__, *items], old)


def _freeze_map(value: dict[Any, Any], old: Frozen, depth: int) -> Frozen:
    flat: list[Frozen] = []
    key = None
    try:
        for key, item in value.items():
            flat += _parts([key, item], depth)
    except BadLeafError as bad:
        bad.path[-1] = f"[{shown(key)}]"
        raise
    return _tagged(["map", *flat], old)


def _freeze_registered(shape: Shape) -> Freezer:
    def freezer(value: Any, old: Frozen, twin: Any, depth: int) -> Frozen:
        if value is twin:
            return old
        try:
            return _tagged([shape.kind, shape.name, *_parts(shape.parts(value), depth)], old)
        except BadLeafError as bad:
            # The path names the field, not the part that holds the fields.
            del bad.path[-1:]
            raise

    return freezer


def _freeze_leaf(encode: Callable[[Any], list[Any]]) -> Freezer:
    def freezer(value: Any, old: Frozen, twin: Any, _depth: int) -> Frozen:
        return old if value is twin else _tagged(encode(value), old)

    return freezer


def _parts(items: list[Any], depth: int) -> list[Any]:
    return cast("list[Any]", _freeze_list(items, MISSING, MISSING, depth + 1))


def keeps(cls: type[Any]) -> bool:
    """Tell whether a store may keep an instance of exactly this class."""
    return cls in FREEZERS or shape_of(cls) is not None or encoder_of(cls) is not None


def freeze_other(value: Any, old: Frozen, twin: Any, depth: int) -> Frozen:
    """Freeze a value of a type that `FREEZERS` does not know yet, and make it known; raises `BadLeafError`."""
    cls = class_of(value)
    shape = shape_of(cls)
    encode = encoder_of(cls)
    if shape is not None:
        freezer = _freeze_registered(shape)
    elif encode is not None:
        freezer = _freeze_leaf(encode)
    else:
        raise BadLeafError(f"{full_name(cls)} is not storable; {way_out(cls)}")
    if encode is not None or (shape is not None and shape.kind == "enum"):
        LEAVES.add(cls)
    FREEZERS[cls] = freezer
    return freezer(value, old, twin, depth)


FREEZERS: dict[type[Any], Freezer] = {
    str: _freeze_str,
    int: _freeze_int,
    float: _freeze_float,
    bool: _freeze_singleton,
    type(None): _freeze_singleton,
    dict: _freeze_dict,
    list: _freeze_list,
    tuple: _freeze_tuple,
    set: _freeze_set,
    frozenset: _freeze_set,
}

LEAVES: set[type[Any]] = {str, int, float, bool, type(None)}
