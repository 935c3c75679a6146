"""The copy of its arguments that the body of an effect works on.

A replay does not run the body, so what it changed in place would be there in one lifetime and not in the next. It
changes its own copy, and so it is there in none.
"""

from __future__ import annotations

from operator import is_
from typing import Any

from fastdur._codec import without_user_code
from fastdur._frozen import class_of
from fastdur._live import LiveList, LiveState


def own(args: tuple[Any, ...], kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call with every list, dict, set and tuple in them copied; objects are handed over as they are.

    What is in it twice is in the copy twice.
    """
    if without_user_code(args) and without_user_code(kwargs.values()):
        return args, kwargs
    memo: dict[int, Any] = {}
    return tuple(_own(each, memo) for each in args), {name: _own(each, memo) for name, each in kwargs.items()}


def changes(value: object) -> bool:
    """Whether a body can change a value in place, so that it needs a copy."""
    return _own(value, {}) is not value


def _own(value: Any, memo: dict[int, Any]) -> Any:
    kind = _KINDS.get(class_of(value))
    if kind is None:
        return value
    if id(value) not in memo:
        kind(value, memo)
    return memo[id(value)]


def _own_dict(value: Any, memo: dict[int, Any]) -> None:
    made: dict[Any, Any] = {}
    memo[id(value)] = made
    made.update({key: _own(each, memo) for key, each in value.items()})


def _own_list(value: Any, memo: dict[int, Any]) -> None:
    made: list[Any] = []
    memo[id(value)] = made
    made += [_own(each, memo) for each in value]


def _own_tuple(value: Any, memo: dict[int, Any]) -> None:
    items = [_own(each, memo) for each in value]
    memo.setdefault(id(value), value if all(map(is_, items, value)) else tuple(items))


def _own_set(value: Any, memo: dict[int, Any]) -> None:
    memo[id(value)] = value.copy()


_KINDS: dict[type[Any], Any] = {
    dict: _own_dict,
    LiveState: _own_dict,
    list: _own_list,
    LiveList: _own_list,
    tuple: _own_tuple,
    set: _own_set,
}
