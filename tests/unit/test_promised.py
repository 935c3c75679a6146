"""A return annotation that names what no store keeps is refused when the function is decorated."""

import datetime as dt
import enum
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, NewType, Protocol, TypedDict, TypeVar

import pydantic
import pytest

from fastdur import NotStorable, idempotent, storable

T = TypeVar("T")


@dataclass
class Order:
    """Not registered."""


@storable
@dataclass
class Kept:
    """Registered."""


@dataclass
class Base:
    """One below it is registered."""


@storable
@dataclass
class Below(Base):
    """Registered."""


class Reply(pydantic.BaseModel):
    pass


class Colour(enum.Enum):
    RED = 1


class Point(NamedTuple):
    x: int


class Fields(TypedDict):
    x: int


class Speaks(Protocol):
    pass


class Text(str):
    __slots__ = ()


Id = NewType("Id", int)
LockId = NewType("LockId", Order)


@pytest.mark.parametrize(
    ("annotation", "name"),
    [
        (Order, "Order"),
        (Reply, "Reply"),
        (Colour, "Colour"),
        (Point, "Point"),
        (Text, "Text"),
        (threading.Event, "Event"),
        (LockId, "Order"),
        (list[Order], "Order"),
        (dict[str, tuple[int, Order]], "Order"),
        (Order | None, "Order"),
        ("Order", "Order"),
        ("list[Order] | None", "Order"),
        (Annotated[Order, "x"], "Order"),
    ],
)
def test_what_no_store_keeps_is_refused_by_name(annotation, name):
    def pay():
        raise AssertionError

    pay.__annotations__ = {"return": annotation, "other": "Nowhere"}
    with pytest.raises(NotStorable, match=rf"pay\(\) is declared to return .*{name}, which is not storable; "):
        idempotent(pay)


@pytest.mark.parametrize(
    "annotation",
    [
        None,
        int,
        "str | None",
        dict[str, Any],
        list[dict[str, float]],
        tuple[int, ...],
        dt.datetime,
        Kept,
        list[Kept],
        Base,
        Below,
        Id,
        Fields,
        Speaks,
        Any,
        object,
        T,
        Literal["a"],
        Mapping[str, int],
        Iterator[int],
        type[Order],
        "Nowhere",
        "not python",
        "list[",
        pydantic.BaseModel,
    ],
)
def test_what_may_be_kept_or_is_not_certain_is_taken(annotation):
    def pay():
        return 1

    pay.__annotations__ = {"return": annotation}
    assert idempotent(pay)() == 1


def test_without_an_annotation_nothing_is_promised():
    assert idempotent(name="bound")(partial(int, 1))() == 1


def test_an_async_function_promises_what_is_awaited():
    async def pay() -> Order:
        return Order()

    with pytest.raises(NotStorable, match="Order"):
        idempotent(pay)
