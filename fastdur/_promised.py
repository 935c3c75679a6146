"""What a function promises to return, and whether a store could keep it."""

from __future__ import annotations

from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from fastdur._freeze import keeps
from fastdur._frozen import class_of

if TYPE_CHECKING:
    from collections.abc import Callable

_CONTAINERS = (dict, list, tuple, set, frozenset, Union, UnionType)


def promised(fn: Callable[..., Any]) -> Any:
    """The return annotation of a function; `Any` where there is none, or where it cannot be understood now."""

    def holder() -> None:
        """Only the annotation of the result: those of the arguments may name what is imported for type checkers."""

    declared = getattr(fn, "__annotations__", {})
    if "return" not in declared:
        return Any
    holder.__annotations__ = {"return": declared["return"]}
    try:
        return get_type_hints(holder, globalns=getattr(fn, "__globals__", None), localns={})["return"]
    except (NameError, AttributeError, SyntaxError, TypeError):
        return Any


def never_kept(annotation: Any) -> type[Any] | None:
    """A class in a return annotation no instance of which a store keeps; None where nothing is certain.

    A class that has subclasses, is abstract or a protocol may stand for others that are kept.
    """
    annotation = getattr(annotation, "__supertype__", annotation)
    if get_origin(annotation) in _CONTAINERS:
        found = [never_kept(part) for part in get_args(annotation)]
        return next((cls for cls in found if cls is not None), None)
    if get_origin(annotation) is not None or not isinstance(annotation, type) or is_typeddict(annotation):
        return None
    cls: type[Any] = annotation
    open_to_others = (
        getattr(cls, "__abstractmethods__", None) or getattr(cls, "_is_protocol", False) or class_of(cls) is _ANY
    )
    return None if keeps(cls) or open_to_others or type.__subclasses__(cls) else cls


_ANY = class_of(Any)
"""From Python 3.11 on `Any` is a class."""
