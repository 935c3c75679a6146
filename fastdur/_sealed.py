"""Stored values that are thawed when somebody asks for them, so that a record can be listed where they are unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from fastdur._codec import dumps, thaw
from fastdur.errors import NotStorable

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdur._codec import Frozen

T = TypeVar("T")


class Sealed:
    """A stored value that nobody has asked for yet."""

    __slots__ = ("frozen",)

    def __init__(self, frozen: Frozen) -> None:
        self.frozen = frozen

    def __repr__(self) -> str:
        """The value; the stored text where its class is not registered in this process."""
        try:
            return repr(thaw(self.frozen))
        except NotStorable:
            return f"<{dumps(self.frozen)}>"


class Opened:
    """A field that may hold `Sealed`: it is thawed when it is first read, and the same object from then on."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, record: object, owner: object = None) -> Any:
        """The value. Raises `NotStorable` where its class is not registered in this process."""
        if record is None:
            return self
        fields = vars(record)
        value = fields[self._name]
        if type(value) is Sealed:
            value = fields[self._name] = thaw(value.frozen)
        return value

    def __set__(self, record: object, value: object) -> None:
        vars(record)[self._name] = value


def opened(*names: str) -> Callable[[type[T]], type[T]]:
    """Make these fields of a dataclass without slots `Opened`.

    So a record that holds a class which this process does not know can be listed, and only reading that value is
    refused.
    """

    def decorate(cls: type[T]) -> type[T]:
        for name in names:
            setattr(cls, name, Opened(name))
        return cls

    return decorate


def shown(record: object, *left_out: str) -> str:
    """The text of a record, which nothing in it can prevent."""
    fields = [f"{name}={value!r}" for name, value in vars(record).items() if name not in left_out]
    return f"{type(record).__qualname__}({', '.join(fields)})"
