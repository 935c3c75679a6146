"""The difference of two frozen trees, as a frozen tree.

A delta is an *operation* on the value that was there:

    scalar                      it is this scalar now
    {key: op, ...}              a dict: do this to these keys; new keys come last, in this order
    []                          remove the key
    [value]                     it is this value now
    [p, q, *items]              a list: the first p and the last q elements stay, these are between them
    [-1, {index: op}, *items]   a list: do this to these elements, then append
    [-2, {key: op}, order]      a dict: do this to these keys, then bring the keys into this order
"""

from __future__ import annotations

from itertools import compress, count, islice
from operator import is_, is_not
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from fastdur._frozen import MISSING, Frozen, class_of, same, same_scalar

if TYPE_CHECKING:
    from collections.abc import Iterable

Delta: TypeAlias = "list[Any] | dict[str, Any]"

_SPLICE: Final = 2  # how many numbers stand before the items of a splice
_ELEMENTS: Final = -1
_REORDERED: Final = -2
_REMOVE: Final[list[Any]] = []
_CONTAINERS: Final = (list, dict)

# Beyond this, one splice is shorter than one operation per element.
_MAX_ELEMENT_OPS: Final = 8


def diff(old: Frozen, new: Frozen) -> Delta | None:
    """Return what makes `new` of `old`, or None if they are equal, types and order of keys included.

    What is the same object in both costs a comparison of pointers. The delta shares its parts with `new`.
    """
    op = _op(old, new)
    if op is MISSING:
        return None
    return cast("Delta", op if type(op) in (list, dict) else [op])


def patch(old: Frozen, delta: Delta) -> Frozen:
    """Return the tree that `diff(old, new)` was made for; shares with `old` and the delta, changes neither."""
    return _apply(old, delta)


def patch_in_place(old: Any, delta: Any) -> Any:
    """`patch` where nobody else has seen `old` or the delta, which are used up: the cost is that of the change alone.

    Only keys, and lists that grow, gain by that, and what leads to them.
    """
    if class_of(delta) is not dict:
        return _apply(old, delta)
    for key, op in delta.items():
        kind = class_of(op)
        if kind is dict:
            old[key] = patch_in_place(old[key], op)
        elif kind is not list:
            old[key] = op
        elif len(op) == 1:
            old[key] = op[0]
        elif op == _REMOVE:
            del old[key]
        elif len(op) > _SPLICE and op[0] == len(old[key]) and op[1] == 0:
            old[key].extend(op[_SPLICE:])
        else:
            old[key] = _apply(old.get(key), op)
    return old


def _op(old: Frozen, new: Frozen) -> Any:
    if old is new:
        return MISSING
    kind = class_of(new)
    if kind is dict or kind is list:
        return _container_op(old, new, kind)
    return MISSING if same_scalar(old, new) else new


def _container_op(old: Any, new: Any, kind: type) -> Any:
    if class_of(old) is not kind:
        return [new]
    return _dict_op(old, new) if kind is dict else _list_op(old, new)


def _dict_op(old: dict[str, Frozen], new: dict[str, Frozen]) -> Any:
    names = list(new)
    if names[: len(old)] == list(old):
        ops = _ops(old, new, compress(names, map(is_not, old.values(), new.values())))
        if len(names) > len(old):
            ops.update((key, _replace(new[key])) for key in names[len(old) :])
        return ops or MISSING
    if old.keys().isdisjoint(new):
        return [new]
    left = [key for key in old if key in new]
    ops = {key: _REMOVE for key in old if key not in new}
    ops.update(_ops(old, new, left))
    ops.update((key, _replace(item)) for key, item in new.items() if key not in old)
    return ops if names[: len(left)] == left else [_REORDERED, ops, names]


def _ops(old: Any, new: Any, places: Iterable[Any]) -> dict[Any, Any]:
    """What to do to the parts at these keys or indexes, those that are equal left out."""
    ops: dict[Any, Any] = {}
    for place in places:
        before, after = old[place], new[place]
        kind = class_of(after)
        if kind is dict or kind is list:
            op = _container_op(before, after, kind)
        elif kind is float:
            op = _op(before, after)
        else:
            op = after if before != after or class_of(before) is not kind else MISSING
        if op is not MISSING:
            ops[place] = op
    return ops


def _replace(item: Frozen) -> Any:
    return [item] if type(item) in _CONTAINERS else item


def _list_op(old: list[Frozen], new: list[Frozen]) -> Any:
    length = len(old)
    if len(new) >= length and all(map(is_, old, new)):
        added = new[length:]
        return [length, 0, *added] if added else MISSING
    changed = list(islice(compress(count(), map(is_not, old, new)), _MAX_ELEMENT_OPS + 1))
    if len(new) < length or len(changed) > _MAX_ELEMENT_OPS:
        return _splice(old, new)
    ops = _ops(old, new, changed)
    added = new[length:]
    if not ops:
        return [length, 0, *added] if added else MISSING
    if len(new) == 1 and type(new[0]) not in _CONTAINERS:
        return [new]
    if 2 * len(ops) <= len(new) or any(type(new[index]) in _CONTAINERS for index in ops):
        return [_ELEMENTS, {str(index): op for index, op in ops.items()}, *added]
    return _splice(old, new)


def _splice(old: list[Frozen], new: list[Frozen]) -> Any:
    head = _count_same(old, new)
    if head == len(old) == len(new):
        return MISSING
    tail = min(_count_same(old[::-1], new[::-1]), len(old) - head, len(new) - head)
    return [head, tail, *new[head : len(new) - tail]] if head or tail else [new]


def _count_same(old: list[Frozen], new: list[Frozen]) -> int:
    """How many elements both begin with."""
    others = compress(count(), map(is_not, old, new))
    return next((index for index in others if not same(old[index], new[index])), min(len(old), len(new)))


def _apply(old: Any, op: Any) -> Frozen:
    kind = class_of(op)
    if kind is dict:
        return _apply_to_keys(old, op)
    if kind is not list:
        return cast("Frozen", op)
    if len(op) == 1:
        return cast("Frozen", op[0])
    first, second, rest = op[0], op[1], op[2:]
    if first == _REORDERED:
        unordered = _apply_to_keys(old, second)
        return {key: unordered[key] for key in rest[0]}
    if first == _ELEMENTS:
        return [*_apply_to_elements(old, second), *rest]
    return cast("list[Frozen]", old[:first] + rest + old[len(old) - second :])


def _apply_to_keys(old: dict[str, Frozen], ops: dict[str, Any]) -> dict[str, Frozen]:
    new = old.copy()
    for key, op in ops.items():
        if op == _REMOVE:
            del new[key]
        else:
            new[key] = _apply(old.get(key), op)
    return new


def _apply_to_elements(old: list[Frozen], ops: dict[str, Any]) -> list[Frozen]:
    new = old.copy()
    for index, op in ops.items():
        new[int(index)] = _apply(old[int(index)], op)
    return new
