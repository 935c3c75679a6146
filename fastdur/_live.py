"""What a node gets to work on: a state that hands out copies on access, and what the node made of it.

A `Snapshot` is never changed. `LiveState` is a dict over the pointers of one: a value is copied when it is first asked
for, so an untouched value costs nothing, and neither a failed attempt nor a list that the node keeps can change what
is stored. `collect` compares what was touched with what was there and makes the next snapshot.

C code that reads the storage without a method (`PyDict_Next`, `PyList_GET_ITEM`) finds right values in it, but finds
the shared ones. In the standard library only `heapq` hands such elements out, and it compares them: so elements that
can be compared are copied at once. What other C code takes out of the storage must not be changed.
"""

from __future__ import annotations

from copy import deepcopy
from operator import is_
from typing import TYPE_CHECKING, Any, cast

from fastdur._fingerprint import RULES
from fastdur._freeze import FREEZERS, LEAVES, freeze, holds_only_leaves, survives
from fastdur._frozen import MISSING, TAG, class_of
from fastdur._functions import shown
from fastdur._registry import full_name
from fastdur._thaw import rethaw, thaw, thaw_shared
from fastdur.errors import NodeResultError, NotStorable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# The storage itself, past the methods below; untyped, because `dict.get` as a plain function has no useful type.
_DICT: Any = dict
_LIST: Any = list


class Snapshot:
    """A state as it is stored: its frozen form and its values in thawed form. Neither is ever changed or handed out."""

    __slots__ = ("frozen", "twin")

    def __init__(self, frozen: dict[str, Any], twin: dict[str, Any] | None = None) -> None:
        self.frozen = frozen
        self.twin: dict[str, Any] = thaw_shared(frozen) if twin is None else twin

    @classmethod
    def of(cls, values: dict[str, Any], where: str = "state") -> Snapshot:
        """Return the snapshot of a state that has not been stored yet; raises like `collect`."""
        return collect(LiveState(cls({})), values, where).snapshot


_UNCOMPARED = 2
"""How many elements `heapq` moves and hands out without comparing any."""


class LiveList(list[Any]):
    """A list over shared elements that copies a dict when it is first asked for, and what can be compared at once."""

    __slots__ = ("_copies", "_ids", "_twin")

    def __init__(self, items: Iterable[Any] = (), *, twin: list[Any] | None = None) -> None:
        """A list over the elements of `twin`; of `items` it is a list like any other, as `type(it)(...)` makes one."""
        super().__init__(items if twin is None else twin)
        self._copies: dict[int, Any] = {}
        self._ids: frozenset[int] | None = frozenset() if twin is None else None
        if twin is not None:
            self._over(twin)

    def _over(self, twin: list[Any]) -> None:
        self._twin = twin
        if len(twin) <= _UNCOMPARED:
            _LIST.__setitem__(self, slice(None), list(map(self._mine, twin)))
        elif not LEAVES.issuperset(set(map(type, twin)) - {dict}):
            own: list[Any] = [item if type(item) is dict else self._mine(item) for item in twin]
            _LIST.__setitem__(self, slice(None), own)

    def _mine(self, item: Any) -> Any:
        # By identity, not by position: elements move, also by methods of list that are not overridden.
        if type(item) in LEAVES:
            return item
        if self._ids is None:
            self._ids = frozenset(map(id, self._twin))
        if id(item) not in self._ids:
            return item
        return _once(self._copies, id(item), item)

    def _mine_at(self, index: int) -> Any:
        item = _LIST.__getitem__(self, index)
        own = self._mine(item)
        if own is not item:
            _LIST.__setitem__(self, index, own)
        return own

    def __getitem__(self, index: Any) -> Any:
        if type(index) is slice:
            return [self._mine_at(position) for position in range(*index.indices(len(self)))]
        return self._mine_at(index)

    def __iter__(self) -> Iterator[Any]:
        index = 0
        while index < len(self):
            yield self._mine_at(index)
            index += 1

    def __reversed__(self) -> Iterator[Any]:
        for index in range(len(self) - 1, -1, -1):
            if index < len(self):
                yield self._mine_at(index)

    def pop(self, index: Any = -1, /) -> Any:
        return self._mine(_LIST.pop(self, index))

    def sort(self, *, key: Any = None, reverse: bool = False) -> None:
        self[:] = list(self)
        _LIST.sort(self, key=key, reverse=reverse)

    def copy(self) -> list[Any]:
        return [*self]

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        copied: list[Any] = []
        memo[id(self)] = copied
        copied.extend(deepcopy(item, memo) for item in _LIST.__iter__(self))
        return copied

    def __add__(self, other: Any) -> Any:
        return [*self, *other] if isinstance(other, list) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return [*other, *self] if isinstance(other, list) else NotImplemented

    def __mul__(self, times: Any) -> list[Any]:
        return [*self] * times

    __rmul__ = __mul__

    def __reduce_ex__(self, _protocol: Any) -> Any:
        return list, (), None, _LIST.__iter__(self)


_EMPTY = Snapshot({}, {})


class LiveState(dict[str, Any]):
    """The state that a node function receives: a dict over shared values that copies a value when first asked for."""

    __slots__ = ("_base", "_copies")

    def __init__(self, base: Any = (), /, **more: Any) -> None:
        """A state over a `Snapshot`; of anything else it is a dict like any other, as `type(it)(...)` makes one."""
        over = type(base) is Snapshot
        super().__init__(base.twin if over else base, **more)
        self._base = base if over else _EMPTY
        self._copies: dict[Any, Any] = {}

    def _mine(self, key: Any, value: Any) -> Any:
        if type(value) in LEAVES or value is not self._base.twin.get(key, MISSING):
            return value
        own = _once(self._copies, key, value)
        _DICT.__setitem__(self, key, own)
        return own

    def _all_mine(self) -> None:
        for key, value in [*_DICT.items(self)]:
            self._mine(key, value)

    def __getitem__(self, key: Any) -> Any:
        value = _DICT.__getitem__(self, key)
        return value if type(value) in LEAVES else self._mine(key, value)

    def __iter__(self) -> Iterator[str]:
        # CPython copies the storage of a dict subclass without asking it, unless the subclass iterates by itself.
        keys: Iterator[str] = _DICT.__iter__(self)
        return keys

    def get(self, key: Any, default: Any = None, /) -> Any:
        return self._mine(key, _DICT.get(self, key, default))

    def items(self) -> Any:
        self._all_mine()
        return _DICT.items(self)

    def values(self) -> Any:
        self._all_mine()
        return _DICT.values(self)

    def setdefault(self, key: Any, default: Any = None, /) -> Any:
        return self._mine(key, _DICT.setdefault(self, key, default))

    def pop(self, key: Any, *default: Any) -> Any:
        return self._taken(key, _DICT.pop(self, key, *default))

    def popitem(self) -> tuple[str, Any]:
        key, value = _DICT.popitem(self)
        return key, self._taken(key, value)

    def _taken(self, key: Any, value: Any) -> Any:
        return own_copy(value) if value is self._base.twin.get(key, MISSING) else value

    def copy(self) -> dict[str, Any]:
        return {**self}

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        copied: dict[str, Any] = {}
        memo[id(self)] = copied
        copied.update((key, deepcopy(value, memo)) for key, value in _DICT.items(self))
        return copied

    def __or__(self, other: Any) -> Any:
        return {**self, **other} if issubclass(class_of(other), dict) else NotImplemented

    def __ror__(self, other: Any) -> Any:
        return {**other, **self} if issubclass(class_of(other), dict) else NotImplemented

    @classmethod
    def fromkeys(cls, keys: Iterable[Any], value: Any = None, /) -> dict[Any, Any]:
        return dict.fromkeys(keys, value)

    def __reduce_ex__(self, _protocol: Any) -> Any:
        return dict, (), None, None, iter([*_DICT.items(self)])


def _once(copies: dict[Any, Any], key: Any, value: Any) -> Any:
    own = copies.get(key, MISSING)
    # Threads that ask at once get one copy, because setdefault is atomic.
    return copies.setdefault(key, own_copy(value)) if own is MISSING else own


def own_copy(value: Any) -> Any:
    """Return a copy of a shared value that a node may change; leaves stay shared."""
    cls = class_of(value)
    if cls in LEAVES or (cls in _IMMUTABLE and holds_only_leaves(value)):
        return value
    if cls is list:
        return value.copy() if holds_only_leaves(value) else LiveList(twin=value)
    if cls is dict:
        flat = holds_only_leaves(value) and holds_only_leaves(value.values())
        return value.copy() if flat else {own_copy(key): own_copy(item) for key, item in value.items()}
    return thaw(freeze(value, "state"))


_IMMUTABLE = frozenset({tuple, frozenset})


class Changes:
    """What a node made of its state: the next snapshot (the same one if nothing changed) and the changed keys.

    `keys` holds what was set to another value, in the order of the new state, then what was removed. Another order of
    the same keys makes another snapshot and changes no key.
    """

    __slots__ = ("keys", "snapshot")

    def __init__(self, snapshot: Snapshot, keys: list[str]) -> None:
        self.snapshot = snapshot
        self.keys = keys


def collect(live: LiveState, returned: Any = None, where: str = "state") -> Changes:
    """Return what a node made of `live`, given what it returned: a dict that is merged key by key, or None.

    A returned key counts for more than a change in place. The result shares nothing that can be changed with either.

    Raises:
        NotStorable: a touched value, or a key, has no storable form; names it under `where`.
        NodeResultError: `returned` is neither a dict nor None.

    """
    base = live._base  # noqa: SLF001 - one module  # pyright: ignore[reportPrivateUsage]
    values = {} if returned is None or returned is live else _raw(returned)
    untouched = _is_untouched(live, base.twin)
    if untouched:
        following = Snapshot(base.frozen.copy(), base.twin.copy())
    else:
        following = Snapshot({}, {})
        values = {**_raw(live), **values}
    keys = [key for key in values if _store(base, following, key, values[key], where)]
    if len(keys) > 1:
        changed = set(keys)
        keys = [key for key in following.frozen if key in changed]
    if untouched:
        return Changes(following if keys else base, keys)
    if len(following.frozen) < len(base.frozen) + len(keys):
        keys += [key for key in base.frozen if key not in following.frozen]
    unchanged = not keys and list(following.frozen) == list(base.frozen)
    return Changes(base if unchanged else following, keys)


def _is_untouched(live: LiveState, twin: dict[str, Any]) -> bool:
    return (
        len(live) == len(twin)
        and all(map(is_, _DICT.values(live), twin.values()))
        and all(map(is_, _DICT.__iter__(live), twin))
    )


def _store(base: Snapshot, following: Snapshot, key: Any, value: Any, where: str) -> bool:
    if type(key) is not str or key == TAG or not survives(key):
        raise NotStorable(f"{where}[{shown(key)}]: the key is not storable; use another string")
    old, twin = base.frozen.get(key, MISSING), base.twin.get(key, MISSING)
    new = old if value is twin else freeze(value, f"{where}[{key!r}]", old, twin)
    following.frozen[key] = new
    following.twin[key] = rethaw(new, old, twin)
    return new is not old


def _raw(state: Any) -> dict[Any, Any]:
    kind = class_of(state)
    if kind is dict:
        return cast("dict[Any, Any]", state)
    if kind is LiveState:
        return dict(_DICT.items(state))
    raise NodeResultError(f"a node returns a dict or None. It returned {full_name(kind)}; set `output_key`.")


def _raw_list(value: LiveList) -> list[Any]:
    return [*_LIST.__iter__(value)]


FREEZERS[LiveState] = lambda value, old, twin, depth: FREEZERS[dict](_raw(value), old, twin, depth)
FREEZERS[LiveList] = lambda value, old, twin, depth: FREEZERS[list](_raw_list(value), old, twin, depth)
RULES[LiveState] = lambda value, depth: RULES[dict](_raw(value), depth)
RULES[LiveList] = lambda value, depth: RULES[list](_raw_list(value), depth)
