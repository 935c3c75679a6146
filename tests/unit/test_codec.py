"""Freezing and thawing: what survives unchanged, and what is refused with a path."""

import copy
import json
import math
import subprocess
import sys
import textwrap
import threading
import uuid
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar
from zoneinfo import ZoneInfo

import pytest
from freezegun import freeze_time
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, RootModel

from fastdur._codec import MAX_DEPTH, checked_name, dumps, freeze, joined, loads, storable, thaw, thaw_shared
from fastdur._thaw import rethaw
from fastdur.errors import NotStorable

T = TypeVar("T")


def round_trip(value: Any) -> Any:
    return thaw(loads(dumps(freeze(value, "state"))))


def shown(value: Any) -> str:
    """A text that differs where two values differ in type, sign, order of keys or fold."""
    if isinstance(value, dict):
        return f"{type(value)}{[(shown(key), shown(item)) for key, item in value.items()]}"
    if isinstance(value, list | tuple):
        return f"{type(value)}{[shown(item) for item in value]}"
    if isinstance(value, set | frozenset):
        return f"{type(value)}{sorted(map(shown, value))}"
    if isinstance(value, int) and type(value) is int:
        return hex(value)
    return f"{type(value)}{value!r}"


class Outer:
    @storable
    class Colour(Enum):
        RED = "r"
        CRIMSON = "r"  # noqa: PIE796 - an alias
        GREEN = ("g", 2)


@storable
class Word(StrEnum):
    YES = "yes"


@storable
class Level(IntEnum):
    LOW = 1


@storable
class Access(Flag):
    READ = 1
    WRITE = 2


class Unregistered(Enum):
    ONE = 1


@storable
@dataclass
class Order:
    number: int
    lines: list[Any] = field(default_factory=list)
    total: float = field(init=False, default=0.0)
    note: InitVar[str] = ""
    seen: str = field(init=False)

    def __post_init__(self, note: str) -> None:
        self.total = self.number * 1.5
        self.seen = note

    @cached_property
    def double(self) -> float:
        return self.total * 2


@storable
@dataclass
class Express(Order):
    hours: int = 0


@storable
@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: Any = None


@storable
@dataclass
class Box(Generic[T]):
    content: T


@storable(name="unset")
@dataclass
class Unset:
    given: int
    later: int = field(init=False)


@storable
@dataclass
class Slotted:
    __slots__ = ("__secret", "x")
    x: int

    def hide(self, value: int) -> None:
        self.__secret = value


@dataclass
class PlainData:
    x: int


@storable
class User(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str
    tags: set[str] = set()
    _token: str = PrivateAttr(default="none")
    _unset: int = PrivateAttr()

    @cached_property
    def loud(self) -> str:
        return self.name.upper()


class Parcel(BaseModel, Generic[T]):
    content: T
    at: datetime | None = None


storable(Parcel[int])


@storable
class Names(RootModel[list[str]]):
    pass


Named = namedtuple("Named", "a b")  # noqa: PYI024 - the old form is what is refused


class SubInt(int):
    pass


class OtherZone(tzinfo):
    pass


EXACT = [
    None, True, False, 0, 1, -1, 2**63, 10**5000, -(10**5000), 1.0, 0.0, -0.0, 1e16, 5e-324,
    1.7976931348623157e308, math.inf, -math.inf, "", "text", "\u0000", "\ud800", "\udc00 and \ud800",
    "\ud83d\ude00", "\ud83d\ude00\ud83d\ude00 \U0001f600", "\U0001f600", "é", [], {}, [1, True, 1.0, "1", None],
    {"b": 1, "a": {"z": [], "y": {}}}, {"": 0, "\u0000": 1, "é": 2, "\ud800": 3},
    {"\ud83d\ude00": 1, "\U0001f600": 2}, {1: "int", "1": "str", None: 0, 2.5: [], (1, 2): {}},
    {"$": ["tuple", 1]}, {"$": {"$": ["bytes", "x"]}}, {"$": 1, "other": 2}, (), (1, [2], {"three": (3,)}), set(),
    {"b", "a"}, {1, "1", 2.5, None, (1, 2)}, frozenset({1, frozenset({2})}), b"", b"\x00\xff", Decimal("1.10"),
    Decimal("-0"), Decimal("Infinity"), Decimal("1E+999999"), uuid.UUID("12345678-1234-5678-1234-567812345678"),
    date(2024, 2, 29), time(1, 2, 3, 4), time(1, 2, fold=1, tzinfo=UTC),
    timedelta(days=-1, seconds=5, microseconds=7), datetime(2024, 2, 29, 1, 2, 3, 4),  # noqa: DTZ001
    datetime(2024, 2, 29, tzinfo=UTC), datetime(2024, 2, 29, tzinfo=timezone(timedelta(hours=-3, microseconds=1))),
    datetime(2024, 2, 29, tzinfo=timezone(timedelta(hours=1), "mine")),
    datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")), Outer.Colour.RED, Outer.Colour.GREEN,
    Word.YES, Level.LOW, Access.READ | Access.WRITE, Access(0), Order(3, [1, (2,)], note="hi"),
    Express(3, hours=2), {Point(1, (2,)): Point(3)}, Box[int](5), User(name="n", tags={"t"}, more=[1, (2,)]),
    User(name="n"), Parcel[int](content=3, at=datetime(2024, 1, 1, tzinfo=UTC)), Names(["a"]), [True] * 3,
    [None] * 3, [0.5, -0.0], [0.5, math.inf], [1, 10**700], ["a", "\ud83d\ude00"],
]  # fmt: skip


@pytest.mark.parametrize("value", EXACT, ids=range(len(EXACT)))
def test_a_storable_value_comes_back_with_its_types_and_its_order(value: Any) -> None:
    back = round_trip(value)
    assert back == value
    assert shown(back) == shown(value)


@pytest.mark.parametrize("value", EXACT, ids=range(len(EXACT)))
def test_frozen_text_is_ascii_json_that_reads_back_as_the_same_tree(value: Any) -> None:
    frozen = freeze(value, "state")
    text = dumps(frozen)
    assert text.isascii()
    assert loads(text) == frozen == json.loads(text)


@pytest.mark.parametrize("value", EXACT, ids=range(len(EXACT)))
def test_freezing_an_equal_value_again_returns_the_old_tree_itself(value: Any) -> None:
    old = loads(dumps(freeze([value], "state")))
    assert freeze(thaw(old), "state", old) is old


@pytest.mark.parametrize("value", EXACT, ids=range(len(EXACT)))
def test_a_shared_thaw_has_the_same_value(value: Any) -> None:
    assert shown(thaw_shared(freeze([value, {"k": value}], "state"))) == shown([value, {"k": value}])


def test_values_that_are_not_equal_to_themselves_survive() -> None:
    assert math.isnan(round_trip(math.nan))
    assert str(round_trip(Decimal("NaN123"))) == "NaN123"
    assert str(round_trip(Decimal("-sNaN7"))) == "-sNaN7"


@pytest.mark.case("S37")
@pytest.mark.parametrize("value", [None, 0, "", [], {}, False, 0.0])
def test_an_empty_value_is_a_value_of_its_own_type(value: Any) -> None:
    back = round_trip({"payload": value})["payload"]
    assert back == value
    assert type(back) is type(value)


@pytest.mark.case("S99")
@pytest.mark.parametrize("text", ["{{state.x}}", "$ref", "state['a']", "==", "a.b.c", "%(x)s", '{"$": ["bytes", ""]}'])
def test_text_that_looks_like_an_operator_or_a_template_is_data(text: str) -> None:
    value = {text: text, "$": {text: [text]}}
    assert round_trip(value) == value


@pytest.mark.case("S36")
def test_bytes_inside_tool_results_survive_unchanged() -> None:
    value = {"result": [{"image": bytes(range(256))}]}
    assert round_trip(value) == value


def test_private_attributes_extra_fields_and_given_fields_of_a_model_survive() -> None:
    user = User(name="n", more=1)
    user._token = "secret"
    assert user.loud == "N"
    back = round_trip(user)
    assert back == user
    assert back._token == "secret"
    assert back.model_fields_set == {"name", "more"}
    back.name = "other"
    assert back.loud == "OTHER"


def test_a_field_that_was_never_set_stays_unset() -> None:
    back = round_trip(Unset(1))
    assert back.given == 1
    assert not hasattr(back, "later")


def test_slots_that_are_fields_survive_and_a_cached_property_is_computed_again() -> None:
    assert round_trip(Slotted(1)).x == 1
    order = Order(2)
    assert order.double == 6
    assert "double" not in vars(round_trip(order))


def test_equal_sets_give_equal_text() -> None:
    names = [f"name{number}" for number in range(50)]
    for items in (names, [*names, 1, 2.5, None, (1,)]):
        backwards = items[::-1]
        assert dumps(freeze(set(items), "state")) == dumps(freeze(set(backwards), "state"))


def test_a_frozen_clock_gives_values_of_the_real_classes() -> None:
    with freeze_time("2024-02-29 12:00"):
        frozen = freeze([datetime.now(UTC), date.today()], "state")  # noqa: DTZ011
        moment, day = thaw(frozen)
    assert type(moment) is datetime
    assert type(day) is date
    assert (moment, day) == (datetime(2024, 2, 29, 12, tzinfo=UTC), date(2024, 2, 29))


def test_a_thawed_value_shares_no_container_with_the_frozen_one() -> None:
    frozen = freeze({"a": [1, 2], "b": {"c": [[3]]}, "e": []}, "state")
    text = dumps(frozen)
    value = thaw(frozen)
    value["a"].append(9)
    value["b"]["c"][0].append(9)
    value["b"]["d"] = 9
    value["e"].append(9)
    assert dumps(frozen) == text


def test_a_frozen_value_shares_no_container_with_the_value() -> None:
    value = {"a": [1, 2], "b": {"c": [[3]]}, "d": [], "e": {}}
    frozen = freeze(value, "state")
    text = dumps(frozen)
    value["a"].append(9)
    value["b"]["c"][0].append(9)
    value["d"].append(9)
    value["e"]["f"] = 9
    assert dumps(frozen) == text


def test_a_shared_thaw_is_the_frozen_tree_itself_where_nothing_is_tagged() -> None:
    frozen = freeze({"plain": [{"a": [1]}], "tagged": [(1,), {"b": 2}]}, "state")
    value = thaw_shared(frozen)
    assert value["plain"] is frozen["plain"]
    assert value["tagged"] == [(1,), {"b": 2}]
    assert value["tagged"][1] is frozen["tagged"][1]
    assert thaw_shared(frozen["plain"]) is frozen["plain"]


# --- reuse ------------------------------------------------------------------------------------------------------------


def test_unchanged_parts_are_the_old_objects_and_changed_ones_are_new() -> None:
    old = freeze({"same": [{"a": 1}], "other": [{"a": 1}, {"b": (2,)}]}, "state")
    new = freeze({"same": [{"a": 1}], "other": [{"a": 9}, {"b": (2,)}]}, "state", old)
    assert new["same"] is old["same"]
    assert new["other"][1] is old["other"][1]
    assert new["other"][0] == {"a": 9}


def test_of_a_list_that_grew_the_old_elements_are_reused() -> None:
    value: list[Any] = [{"n": number} for number in range(5)]
    old = freeze(value, "state")
    new = freeze([*value, {"n": 5}, "x"], "state", old)
    assert all(one is other for one, other in zip(new, old, strict=False))
    assert new[5:] == [{"n": 5}, "x"]
    assert len(old) == 5


@pytest.mark.parametrize(
    ("before", "after"),
    [(1, True), (1, 1.0), (0.0, -0.0), (0, False), ("1", 1), ([], ()), ({}, []), ([1], [True]), ({"a": 1}, {"a": 1.0})],
)
def test_values_that_compare_equal_but_have_other_types_are_a_change(before: Any, after: Any) -> None:
    for one, other in ((before, after), (after, before)):
        old = freeze([one], "state")
        new = freeze([other], "state", old)
        assert shown(thaw(new)) == shown([other])


def test_nan_is_not_a_change() -> None:
    old = freeze({"x": [math.nan]}, "state")
    assert freeze({"x": [math.nan]}, "state", old) is old


def test_another_order_of_keys_is_a_change() -> None:
    old = freeze({"a": 1, "b": 2}, "state")
    assert list(freeze({"b": 2, "a": 1}, "state", old)) == ["b", "a"]
    inner = freeze(({"a": 1, "b": 2},), "state")
    assert list(thaw(freeze(({"b": 2, "a": 1},), "state", inner))[0]) == ["b", "a"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([1, 2, 3], []),
        ([1, 2, 3], [1, 2]),
        ({"a": 1, "b": 2}, {"a": 1}),
        ({"a": 1}, {}),
        ({1: 2}, {1: 2, 3: 4}),
        ({1: 2}, {"a": 1}),
        ({"$": 1}, {"a": {"$": 1}}),
        ({"a": 1}, [1]),
        ([1], {"a": 1}),
    ],
)
def test_a_value_frozen_with_the_help_of_another_is_what_it_would_be_without(before: Any, after: Any) -> None:
    old = freeze(before, "state")
    assert freeze(after, "state", old, thaw_shared(old)) == freeze(after, "state")


def test_parts_of_the_twin_count_as_unchanged_without_being_looked_at() -> None:
    old = freeze({"when": [(1,), b"x", {2}, Point(1), {1: 2}, [b"1"], {"a": b"1"}]}, "state")
    twin = thaw_shared(old)
    assert freeze({"when": [*twin["when"]]}, "state", old, twin) is old
    grown = freeze({"when": [*twin["when"], 1]}, "state", old, twin)
    assert all(one is other for one, other in zip(grown["when"], old["when"], strict=False))
    moved = freeze({"when": twin["when"][::-1]}, "state", old, twin)
    assert thaw(moved) == {"when": twin["when"][::-1]}
    twin["when"][5].append("against the contract")
    twin["when"][6]["against"] = "the contract"
    assert freeze({"when": [*twin["when"]]}, "state", old, twin) is old
    again = freeze({"when": [0, *twin["when"][1:]]}, "state", old, twin)
    assert all(one is other for one, other in zip(again["when"][1:], old["when"][1:], strict=True))
    changed = freeze({"when": [*twin["when"][:-1], 0]}, "state", old, twin)
    assert all(one is other for one, other in zip(changed["when"][:-1], old["when"], strict=False))


def test_the_parts_of_a_tag_are_not_taken_for_those_of_the_value() -> None:
    old = freeze({"$": [1]}, "state")
    twin = thaw_shared(old)
    assert thaw(freeze({"$": twin["$"], "b": 1}, "state", old, twin)) == {"$": [1], "b": 1}


def python_calls(action: Callable[[], object]) -> int:
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("element", ["text", 1, 2.5, None, True, {"a": 1}, [1], (1,)])
def test_of_a_list_that_grew_only_the_new_elements_cost_anything(element: Any) -> None:
    old = freeze([copy.deepcopy(element) for _ in range(1000)], "state")
    twin = thaw_shared(old)
    grown = [*twin, copy.deepcopy(element)]
    frozen = freeze(grown, "state", old, twin)
    assert python_calls(lambda: freeze(grown, "state", old, twin)) < 30
    assert python_calls(lambda: rethaw(frozen, old, twin)) < 30


@pytest.mark.parametrize("element", ["text", 1, 2.5, None, True])
def test_a_new_list_of_leaves_of_one_type_costs_no_call_per_element(element: Any) -> None:
    assert python_calls(lambda: freeze([element] * 1000, "state")) < 30
    assert python_calls(lambda: thaw([element] * 1000)) < 10


# --- refusals ---------------------------------------------------------------------------------------------------------


def numbers() -> Any:
    yield 1


REFUSED = [
    (threading.Lock(), "_thread.lock", "store what it takes to make it again"),
    (numbers(), "generator", "list(value)"),
    (numbers, "function", "look it up"),
    (int, "type", "store its name"),
    (object(), "object", "fastdur.storable"),
    (bytearray(b"x"), "bytearray", "bytes(value)"),
    (memoryview(b"x"), "memoryview", "bytes(value)"),
    (Named(1, 2), "Named", "tuple(value)"),
    (OrderedDict(), "collections.OrderedDict", "dict(value)"),
    (defaultdict(list), "collections.defaultdict", "dict(value)"),
    (SubInt(1), "SubInt", "int(value)"),
    (Unregistered.ONE, "Unregistered", "fastdur.storable(...)"),
    (PlainData(1), "PlainData", "fastdur.storable(...)"),
    (Parcel[str](content="x"), "Parcel[str]", "fastdur.storable(...)"),
    (ValueError("x"), "ValueError", "str(error)"),
    (datetime(2024, 1, 1, tzinfo=OtherZone()), "OtherZone", "datetime.timezone"),
]


@pytest.mark.case("S35")
@pytest.mark.parametrize(("value", "named", "way_out"), REFUSED, ids=[named for _, named, _ in REFUSED])
def test_what_no_store_keeps_is_refused_with_its_path_its_type_and_a_way_out(
    value: Any, named: str, way_out: str
) -> None:
    with pytest.raises(NotStorable) as caught:
        freeze({"a": [1, 2, 3, value]}, "state")
    message = str(caught.value)
    assert message.startswith("state['a'][3]: ")
    assert named in message
    assert "not storable; " in message
    assert way_out in message


def test_arrays_are_refused_with_their_way_out() -> None:
    array = type("ndarray", (), {"__module__": "numpy"})()
    with pytest.raises(NotStorable, match=r"numpy\.ndarray is not storable; convert it: value\.tolist\(\)"):
        freeze(array, "state")


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ((1, object()), "state[1]"),
        ({1: object()}, "state[1]"),
        ({"a": {(1, 2): [object()]}}, "state['a'][(1, 2)][0]"),
        ({"a": Order(1, [object()])}, "state['a']['lines'][0]"),
        ({"a": User(name="n", more=object())}, "state['a']['more']"),
        ({"u": {"k": frozenset({len})}}, "state['u']['k'][0]"),
        ({Unregistered.ONE: 1}, "state[<Unregistered.ONE: 1>]"),
    ],
)
def test_a_refusal_names_the_path_through_every_kind_of_container(value: Any, path: str) -> None:
    with pytest.raises(NotStorable) as caught:
        freeze(value, "state")
    assert str(caught.value).startswith(f"{path}: ")


def test_a_circle_is_refused_and_the_path_stays_readable() -> None:
    circle: dict[str, Any] = {"list": []}
    circle["list"].append(circle)
    with pytest.raises(
        NotStorable, match=r"^state\['list'\]\[0\]\['list'\]\[0\]\[\.\.\.\].*reference to itself"
    ) as caught:
        freeze(circle, "state")
    assert len(str(caught.value)) < 300


def nested(kind: str, depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = {"list": [value], "dict": {"k": value}, "map": {1: value}, "tuple": (value,), "data": Point(0, value)}[
            kind
        ]
    return value


@pytest.mark.parametrize("kind", ["list", "dict", "map", "tuple", "data"])
def test_deep_values_are_kept_or_refused_but_never_overflow(kind: str) -> None:
    levels = {"list": 1, "dict": 1, "map": 2, "tuple": 2, "data": 3}[kind]
    kept = nested(kind, MAX_DEPTH // levels)
    assert dumps(freeze(round_trip(kept), "state")) == dumps(freeze(kept, "state"))
    for depth in (MAX_DEPTH // levels + 1, 100_000):
        with pytest.raises(NotStorable, match="nested deeper than"):
            freeze(nested(kind, depth), "state")


def test_a_call_near_the_end_of_the_stack_is_refused_like_a_value_that_is_too_deep() -> None:
    value = nested("list", MAX_DEPTH)

    def deeper(left: int) -> Any:
        return deeper(left - 1) if left else freeze(value, "state")

    frames = 0
    frame: Any = sys._getframe()
    while frame:
        frame, frames = frame.f_back, frames + 1
    with pytest.raises(NotStorable, match="nested deeper than"):
        deeper(sys.getrecursionlimit() - frames - 50)


# --- registration -----------------------------------------------------------------------------------------------------


def test_storable_returns_the_class_and_may_be_told_twice() -> None:
    assert storable(Word) is Word
    assert storable(name="unset")(Unset) is Unset


def test_two_classes_under_one_name_are_refused() -> None:
    @dataclass
    class Clash:
        x: int

    with pytest.raises(NotStorable, match="two classes are called 'unset'"):
        storable(Clash, name="unset")


def test_a_class_keeps_the_name_that_rows_know() -> None:
    with pytest.raises(NotStorable, match="registered as 'unset'"):
        storable(Unset, name="another")


@pytest.mark.case("S32")
def test_a_class_defined_in_a_function_needs_a_name() -> None:
    class Local(Enum):
        ONE = 1

    with pytest.raises(NotStorable, match="is defined in a function"):
        storable(Local)
    storable(Local, name="test_codec.Local")
    assert round_trip(Local.ONE) is Local.ONE


@dataclass
class DictWithFields(dict[str, int]):
    x: int = 0


@pytest.mark.parametrize("cls", [int, object, Named, DictWithFields])
def test_other_kinds_of_classes_cannot_be_registered(cls: Any) -> None:
    with pytest.raises(NotStorable, match="takes enums, dataclasses and pydantic models"):
        storable(cls)


def test_only_classes_can_be_registered() -> None:
    not_a_class: Any = 5
    with pytest.raises(NotStorable, match=r"takes a class\. 5 is none"):
        storable(not_a_class)


@pytest.mark.case("S32")
def test_a_member_that_is_not_declared_is_refused() -> None:
    class Open(Enum):
        ONE = 1

        @classmethod
        def _missing_(cls, value: object) -> Any:
            member = object.__new__(cls)
            member._name_, member._value_ = "MADE", value
            return member

    storable(Open, name="test_codec.Open")
    with pytest.raises(NotStorable, match=r"state\['k'\]: <Open.MADE: 7> is not storable"):
        freeze({"k": Open(7)}, "state")


@pytest.mark.case("S33")
def test_an_attribute_that_is_no_field_is_refused() -> None:
    order: Any = Order(1)
    order.extra = 1
    slotted = Slotted(1)
    slotted.hide(2)
    user: Any = User(name="n")
    user.__dict__["smuggled"] = 1
    for value, name in ((order, "extra"), (slotted, "_Slotted__secret"), (user, "smuggled")):
        with pytest.raises(NotStorable, match=rf"state\['k'\]: attribute '{name}' of .* is no field and not storable"):
            freeze({"k": value}, "state")


@pytest.mark.case("S33")
def test_an_instance_without_a_value_for_a_field_is_refused() -> None:
    point = object.__new__(Point)
    with pytest.raises(NotStorable, match=r"state\['k'\]: .*Point without a value for its field 'x'"):
        freeze({"k": point}, "state")
    with pytest.raises(NotStorable, match=r"state\['k'\]: .*User without a value for its field 'name'"):
        freeze({"k": User.model_construct()}, "state")


def stored(kind: str, name: str, *parts: Any) -> Any:
    return {"$": [kind, name, *parts]}


@storable(name="grown")
@dataclass
class Grown:
    old: int
    new: int = 7
    more: list[int] = field(default_factory=lambda: [1])
    late: int = field(init=False)


@storable(name="grown model")
class GrownModel(BaseModel):
    old: int
    new: int = 7
    more: list[int] = Field(default_factory=lambda: [1])


@storable(name="derived model")
class DerivedModel(BaseModel):
    old: int
    sum: int = Field(default_factory=lambda data: data["old"] + 1)


def test_fields_that_a_class_has_gained_get_their_default() -> None:
    assert vars(thaw(stored("dataclass", "grown", {"old": 1}))) == {"old": 1, "new": 7, "more": [1]}
    assert thaw(stored("model", "grown model", {"old": 1}, None, None, ["old"])) == GrownModel(old=1)


@pytest.mark.parametrize(
    ("frozen", "message"),
    [
        (stored("dataclass", "grown", {}), "no value for the field 'old'"),
        (stored("model", "grown model", {}, None, None, []), "no value for the field 'old'"),
        (stored("model", "derived model", {"old": 1}, None, None, []), "no value for the field 'sum'"),
        (stored("dataclass", "grown", {"old": 1, "gone": 2}), r"fields that the class lacks: \['gone'\]"),
        (stored("model", "grown model", {"old": 1, "gone": 2}, None, None, []), r"lacks: \['gone'\]"),
        (stored("enum", "grown", "ONE"), "the enum 'grown', which is a dataclass here"),
        (stored("enum", f"{__name__}.Word", "GONE"), "has no member 'GONE' any more"),
        (stored("enum", f"{__name__}.Access", 64), "has no member 64 any more"),
        (stored("enum", "nobody.Knows", "ONE"), "'nobody.Knows', which is not registered in this process"),
        (stored("hologram", "x"), "of the kind 'hologram', unknown here"),
        (stored("datetime", "2024-01-01T00:00:00", 0, "Nowhere/Land"), "time zone is 'Nowhere/Land', unknown here"),
    ],
)
def test_a_stored_value_that_does_not_fit_this_process_is_refused(frozen: Any, message: str) -> None:
    with pytest.raises(NotStorable, match=message):
        thaw([frozen])


# --- other processes --------------------------------------------------------------------------------------------------

MODULE = """
from dataclasses import dataclass, field
from enum import Enum
from pydantic import BaseModel, PrivateAttr
from fastdur._codec import storable

class Holder:
    @storable
    class Colour(Enum):
        RED = 1

@storable
@dataclass
class Order:
    number: int
    total: int = field(init=False, default=0)

@storable
class User(BaseModel):
    name: str
    _token: str = PrivateAttr(default="none")

def values():
    order, user = Order(1), User(name="n")
    order.total, user._token = 5, "t"
    return {"c": Holder.Colour.RED, "o": order, "u": user, "t": (1, b"x")}
"""


def in_new_process(directory: Path, script: str, *args: str) -> str:
    (directory / "shapes.py").write_text(MODULE)
    command = [sys.executable, "-c", textwrap.dedent(script), *args]
    paths = f"{directory}:{Path(__file__).parents[2]}"
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"PYTHONPATH": paths})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


SAVE = """
    from fastdur._codec import dumps, freeze
    import shapes
    print(dumps(freeze(shapes.values(), "state")))
"""


@pytest.mark.case("S32")
@pytest.mark.case("S33")
def test_registered_values_are_equal_in_a_new_process(tmp_path: Path) -> None:
    text = in_new_process(tmp_path, SAVE)
    load = """
        import sys
        from fastdur._codec import loads, thaw
        import shapes
        value = thaw(loads(sys.argv[1]))
        assert value == shapes.values(), value
        print(type(value["c"]).__qualname__, value["o"].total, value["u"]._token)
    """
    assert in_new_process(tmp_path, load, text) == "Holder.Colour 5 t"


@pytest.mark.case("S32")
@pytest.mark.case("S33")
def test_a_process_that_has_not_registered_the_class_names_it_and_imports_nothing(tmp_path: Path) -> None:
    text = in_new_process(tmp_path, SAVE)
    load = """
        import sys
        from fastdur._codec import loads, thaw
        from fastdur.errors import NotStorable
        try:
            thaw(loads(sys.argv[1]))
        except NotStorable as error:
            print(error, "shapes" in sys.modules)
    """
    answer = in_new_process(tmp_path, load, text)
    assert "'shapes.Holder.Colour', which is not registered in this process" in answer
    assert answer.endswith("False")


def test_the_codec_loads_no_slow_module_before_it_needs_one(tmp_path: Path) -> None:
    script = """
        import importlib.machinery, sys, types
        package = types.ModuleType("fastdur")
        package.__path__ = [sys.argv[1]]
        sys.modules["fastdur"] = package
        import fastdur._codec
        fastdur._codec.freeze({"a": [1, "x", (2.5, None)]}, "state")
        print(sorted({"datetime", "decimal", "uuid", "zoneinfo", "pydantic", "dataclasses", "inspect"} & set(sys.modules)))
    """
    assert in_new_process(tmp_path, script, str(Path(__file__).parents[2] / "fastdur")) == "[]"


def test_a_name_that_json_would_change_is_refused_and_a_text_is_joined() -> None:
    assert (checked_name("\ude00\ud83d", "id"), joined("\ud83d\ude00"), joined("a")) == (
        "\ude00\ud83d",
        "\N{GRINNING FACE}",
        "a",
    )
    with pytest.raises(ValueError, match=r"id is .*surrogates"):
        checked_name("\ud83d\ude00", "id")
