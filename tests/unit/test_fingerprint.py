"""Fingerprints: equal for equal arguments in every process, different for everything else."""

import subprocess
import sys
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from enum import Enum, Flag
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, RootModel

from fastdur._codec import MAX_DEPTH, fingerprint, storable
from fastdur._fingerprint import _ENCODE, _encoding
from fastdur._live import LiveState, Snapshot
from fastdur.errors import NotStorable


class Colour(Enum):
    RED = 1
    BLUE = 2


class Paint(Enum):
    RED = 1


class Access(Flag):
    READ = 1
    WRITE = 2


@dataclass
class Order:
    number: int
    lines: Any = None
    note: str = field(default="", compare=False)
    later: int = field(init=False)


@dataclass
class Invoice:
    number: int
    lines: Any = None


class User(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


class Names(RootModel[list[str]]):
    def __iter__(self) -> Any:
        return iter(self.root)


class Opaque:
    pass


def same(one: Any, other: Any) -> bool:
    return fingerprint(one, "args") == fingerprint(other, "args")


DIFFERENT = [
    None, 1, 1.0, True, "1", -0.0, 0.0, 0, False, "", [], {}, (), set(), frozenset(), b"", b"1", Decimal(1), Decimal("1.0"),
    [1], (1,), {1}, frozenset({1}), {1: 1}, {"1": 1}, {"a": 1}, {"a": 1.0}, {"a": True}, [[1], 2], [[1, 2]], date(2024, 1, 1),
    "2024-01-01", Colour.RED, Colour.BLUE, Paint.RED, Access.READ, Access.WRITE, Access.READ | Access.WRITE,
    Order(1), Order(2), Order(1, [1]), Order(1, (1,)), Invoice(1), User(name="a"), User(name="b"), User(name="a", more=1),
    Names(["a"]), Names(["b"]), 10**5000, 10**5000 + 1, float("nan"), float("inf"),
    {"$": ["tuple", 1]}, {"$": ["object", f"{__name__}.Invoice", {"number": 1, "lines": None}]},
    {"\ud83d\ude00": 1}, {"\U0001f600": 1}, ["\ud83d\ude00"], ["\U0001f600"], {(1,): 2}, [1, "a"], [1, "b"],
]  # fmt: skip


def test_values_that_differ_have_different_fingerprints() -> None:
    prints = [fingerprint(value, "args") for value in DIFFERENT]
    assert len(set(prints)) == len(DIFFERENT)
    assert all(len(text) == 64 for text in prints)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({1: 1, "b": {2: 3, None: 4}}, {"b": {None: 4, 2: 3}, 1: 1}),
        ({"x", "y", 1}, {1, "y", "x"}),
        (User(name="n", a=1, b=2), User(name="n", b=2, a=1)),
        ([float("nan")], [-float("nan")]),
    ],
)
def test_the_order_of_keys_does_not_count(one: Any, other: Any) -> None:
    assert same(one, other)


def test_registering_a_class_does_not_change_its_fingerprint() -> None:
    values = [Colour.RED, Invoice(1), User(name="n")]
    before = fingerprint(values, "args")
    for cls in (Colour, Invoice, User):
        storable(cls, name=f"renamed {cls.__name__}")
    assert fingerprint(values, "args") == before


def test_the_live_state_counts_as_the_plain_values_in_it() -> None:
    plain = {"a": [{"b": 1}], "c": {"d": 2}}
    live = LiveState(Snapshot.of(plain))
    assert same(live, plain)
    assert same([live["a"]], [plain["a"]])


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (([Opaque()], {}), "args[0][0]"),
        ({"k": Opaque()}, "args['k']"),
        ({1: Opaque()}, "args[1]"),
        ({Opaque: 1}, f"args[{Opaque!r}]"),
        (Order(1, [Opaque()]), "args['lines'][0]"),
        ({Opaque}, "args[0]"),
    ],
)
def test_a_leaf_without_a_canonical_form_is_refused_with_its_path(value: Any, path: str) -> None:
    with pytest.raises(NotStorable) as caught:
        fingerprint(value, "args")
    assert str(caught.value).startswith(f"{path}: ")


def test_circles_and_deep_values_are_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    deep: Any = 0
    for _ in range(MAX_DEPTH):
        deep = [deep]
    assert len(fingerprint(deep, "args")) == 64
    for value in (circle, [deep]):
        with pytest.raises(NotStorable, match="nested deeper than"):
            fingerprint(value, "args")


def test_a_call_near_the_end_of_the_stack_is_refused() -> None:
    deep: Any = 0
    for _ in range(MAX_DEPTH):
        deep = [deep]

    def deeper(left: int) -> Any:
        return deeper(left - 1) if left else fingerprint(deep, "args")

    frames = 0
    frame: Any = sys._getframe()
    while frame:
        frame, frames = frame.f_back, frames + 1
    with pytest.raises(NotStorable, match="nested deeper than"):
        deeper(sys.getrecursionlimit() - frames - 50)


def test_a_fingerprint_is_the_same_in_processes_with_other_hash_seeds() -> None:
    script = (
        "from fastdur._codec import fingerprint;"
        "print(fingerprint(({'b', 'a', 'c', 1, None}, {'x': 1, 2: 3, 'y': frozenset({'p', 'q'})}), 'args'))"
    )
    prints = set()
    for seed in ("1", "2", "3"):
        env = {"PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=env)
        prints.add(done.stdout.strip())
    value = ({"b", "a", "c", 1, None}, {"x": 1, 2: 3, "y": frozenset({"p", "q"})})
    assert prints == {fingerprint(value, "args")}


def test_without_the_encoder_in_c_the_text_is_the_same():
    value = {"b": [1, 2.5, None, True], "a": "\u20ac\ud800", "": {}}
    assert _encoding(None)(value) == _ENCODE(value)


def test_a_field_that_equality_ignores_counts_all_the_same() -> None:
    """Wrong: a payment of 1,000 is answered by the record of one of 1."""
    assert not same(Order(1, note="this"), Order(1, note="that"))
