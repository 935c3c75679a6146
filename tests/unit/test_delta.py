"""Differences of frozen trees: small, exact, and shared."""

import copy
from typing import Any

import pytest

from fastdur._codec import diff, dumps, freeze, loads, patch, patch_in_place

PAIRS: list[tuple[Any, Any]] = [
    (1, 2),
    (1, None),
    (None, 1),
    (1, 1.0),
    (1, True),
    (0.0, -0.0),
    ("a", "b"),
    ([], {}),
    ({}, []),
    ({}, {"a": 1}),
    ({"a": 1}, {}),
    ({"a": 1}, {"b": 1}),
    ({"a": 1}, {"a": 1, "b": [2], "c": {}}),
    ({"a": 1, "b": 2}, {"a": 1}),
    ({"a": 1, "b": 2, "c": [1]}, {"b": 3, "c": [1, 2], "d": 4}),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({"a": 1, "b": 2, "c": 3}, {"c": 3, "a": 4, "d": 5}),
    ({"a": 1, "b": 2}, {"c": 0, "a": 1, "b": 2}),
    ({"a": {"b": {"c": 1}}}, {"a": {"b": {"c": None}}}),
    ({"a": {"b": {"c": 1}}}, {"a": {"b": {"c": []}}}),
    ({"a": [1]}, {"a": {"b": 1}}),
    ({"a": {"b": 1}}, {"a": []}),
    ({"a": {"b": 1}}, {"a": 5}),
    ([1, 2], [1, 2, 3]),
    ([], [1]),
    ([1], []),
    ([1, 2, 3], [1, 2]),
    ([1, 2, 3], [2, 3]),
    ([1, 2, 3, 4], [1, 9, 4]),
    ([1, 2], [3, 4]),
    ([1, 1, 1], [1, 1]),
    ([1, 1], [1, 1, 1, 1]),
    ([{"a": 1}], [{"a": 2}]),
    ([{"a": 1}], [{"a": 2}, {"b": 3}]),
    ([{"a": 1}, 5], [{"a": 1}, 6]),
    ([1, 2, 3, 4, 5], [1, 2, 9, 4, 5]),
    ([[1], [2]], [[1, 1], [2, 2]]),
    ([None, 1], [None, None]),
    (list(range(30)), list(range(1, 31))),
    ([{"n": n} for n in range(30)], [{"n": n + 1} for n in range(30)]),
    ([[n] for n in range(30)], [[n] for n in range(10, 40)]),
    ([[n] for n in range(30)], [[n] for n in range(30)][:20] + ["x"] + [[n] for n in range(20, 30)]),
    ([{"a": n, "b": n} for n in range(30)], [{"b": n, "a": n} for n in range(30)]),
    ({"$": ["tuple", 1]}, {"$": ["tuple", 2, 3]}),
    ({"$": ["tuple", 1]}, {"a": 1}),
]


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_patching_with_the_difference_gives_the_new_tree_with_its_order_and_types(old: Any, new: Any) -> None:
    for one, other in ((old, new), (new, old)):
        before = dumps(one)
        delta = loads(dumps(diff(one, other)))
        assert dumps(patch(one, delta)) == dumps(other)
        assert dumps(one) == before
        assert dumps(patch_in_place(loads(before), delta)) == dumps(other)


@pytest.mark.parametrize("tree", [tree for pair in PAIRS for tree in pair])
def test_equal_trees_have_no_difference(tree: Any) -> None:
    assert diff(tree, tree) is None
    assert diff(tree, copy.deepcopy(tree)) is None
    assert diff([tree], [loads(dumps(tree))]) is None


@pytest.mark.parametrize(
    ("old", "new", "delta"),
    [
        ({"i": 1, "j": 2}, {"i": 2, "j": 2}, {"i": 2}),
        ({"f": {"s": {"i": 1, "x": 0}}}, {"f": {"s": {"i": 2, "x": 0}}}, {"f": {"s": {"i": 2}}}),
        ({"a": 1, "b": 2}, {"b": 2}, {"a": []}),
        ({"a": 1}, {"a": 1, "b": [1], "c": "x"}, {"b": [[1]], "c": "x"}),
        ({"m": ["a", "b"]}, {"m": ["a", "b", "c"]}, {"m": [2, 0, "c"]}),
        (["a", "b", "c"], ["a", "c"], [1, 1]),
        (["a", "b", "c"], ["x", "y", "c"], [0, 1, "x", "y"]),
        (["a", "b", "c"], ["x", "b", "c"], [-1, {"0": "x"}]),
        (["a"], ["b"], [["b"]]),
        ([["a"]], [["b"]], [-1, {"0": [["b"]]}]),
        ([{"i": 1, "k": "long"}, "x"], [{"i": 2, "k": "long"}, "x", "y"], [-1, {"0": {"i": 2}}, "y"]),
        ({"a": "x", "b": "y"}, {"b": "y", "a": "x"}, [-2, {}, ["b", "a"]]),
        (1, 2, [2]),
        ({"a": 1}, {"b": 2}, [{"b": 2}]),
        ([1, 2], [3, 4], [[3, 4]]),
    ],
)
def test_a_delta_says_only_what_changed(old: Any, new: Any, delta: Any) -> None:
    assert diff(old, new) == delta


def test_a_difference_shares_with_both_trees_and_so_does_the_patched_tree() -> None:
    old = freeze({"big": [{"x": 1}] * 3, "list": [{"a": 1}], "gone": 0}, "state")
    new = {"big": old["big"], "list": [*old["list"], {"b": 2}]}
    delta = diff(old, new)
    patched: Any = patch(old, delta)
    assert patched["big"] is old["big"]
    assert patched["list"][0] is old["list"][0]
    assert patched["list"][1] is new["list"][1]


def test_untouched_parts_are_not_looked_into() -> None:
    class Trap(dict[str, Any]):
        def __iter__(self) -> Any:
            raise AssertionError("looked into")

        def items(self) -> Any:
            raise AssertionError("looked into")

    trap = Trap(a=1)
    old = {"big": trap, "list": [trap, trap], "i": 1}
    new = {"big": trap, "list": [trap, trap, 1], "i": 2}
    assert diff(old, new) == {"list": [2, 0, 1], "i": 2}


@pytest.mark.case("S89")
def test_a_delta_does_not_grow_with_the_untouched_state() -> None:
    old = freeze({"constant": "x" * 1_000_000, "log": ["y" * 1000] * 1000, "i": 0}, "state")
    new = freeze({"constant": "x" * 1_000_000, "log": [*old["log"], "z"], "i": 1}, "state", old)
    assert len(dumps(diff(old, new))) < 50
