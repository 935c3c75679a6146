"""The state a node works on: a dict and lists that copy on access, and what is collected from them."""

import copy
import heapq
import json
import pickle
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import pytest

from fastdur._codec import dumps, freeze, storable, thaw
from fastdur._live import Changes, LiveList, LiveState, Snapshot, collect
from fastdur.errors import NodeResultError, NotStorable


@storable
@dataclass
class Note:
    text: str
    tags: list[str]


def values() -> dict[str, Any]:
    return {
        "i": 1,
        "names": ["a", "b"],
        "rows": [{"n": 1}, {"n": 2}, [3]],
        "chat": {"log": [{"m": 1}], "open": True, "flat": [1]},
        "set": {1, 2},
        "tuple": (1, [2]),
        "leaves": (1, b"x"),
        "note": Note("t", ["x"]),
        "when": datetime(2024, 1, 1, tzinfo=UTC),
        "map": {1: [2], (3,): "x"},
    }


@pytest.fixture
def base() -> Snapshot:
    return Snapshot.of(values())


@pytest.fixture
def live(base: Snapshot) -> LiveState:
    return LiveState(base)


def assert_untouched(base: Snapshot) -> None:
    assert base.twin == values()
    assert dumps(base.frozen) == dumps({key: freeze(item, "state") for key, item in values().items()})


def assert_sound(base: Snapshot, changes: Changes, expected: dict[str, Any]) -> None:
    """The new snapshot holds what is expected, agrees with itself, and the old one has not moved."""
    assert changes.snapshot.twin == expected
    assert list(changes.snapshot.twin) == list(expected) == list(changes.snapshot.frozen)
    assert {key: thaw(item) for key, item in changes.snapshot.frozen.items()} == expected
    assert_untouched(base)


# --- reading ----------------------------------------------------------------------------------------------------------


def given(**arguments: Any) -> dict[str, Any]:
    return arguments


def given_in_order(*arguments: Any) -> tuple[Any, ...]:
    return arguments


def changed(plain: Any, method: str, *arguments: Any) -> Any:
    getattr(plain, method)(*arguments)
    return plain


def by_match(state: Any) -> Any:
    match state:
        case {"i": first, **rest}:
            return {"i": first, **rest}


READS: dict[str, Callable[[Any], Any]] = {
    "getitem": lambda state: {key: state[key] for key in state},
    "get": lambda state: {key: state.get(key) for key in state},
    "items": lambda state: {key: item for key, item in state.items()},  # noqa: C416 - through the view
    "items reversed": lambda state: dict(list(reversed(state.items()))[::-1]),
    "values": lambda state: dict(zip(state, state.values(), strict=True)),
    "setdefault": lambda state: {key: state.setdefault(key, 0) for key in state},
    "pop": lambda state: {key: state.pop(key) for key in list(state)},
    "popitem": lambda state: dict([state.popitem() for _ in range(len(state))][::-1]),
    "dict": dict,
    "stars": lambda state: {**state},
    "call": lambda state: given(**state),
    "copy method": lambda state: state.copy(),
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "pickle": lambda state: pickle.loads(pickle.dumps(state)),
    "or": lambda state: state | {},
    "ror": lambda state: {} | state,
    "update": lambda state: changed({}, "update", state),
    "ior": lambda state: changed({}, "__ior__", state),
    "ordered": lambda state: dict(OrderedDict(state)),
    "keys mapping": lambda state: {key: state.keys().mapping[key] for key in state},
    "match": by_match,
}


def spoil(value: Any) -> None:
    """Change in place whatever can be changed."""
    if isinstance(value, dict):
        for item in list(value.values()):
            spoil(item)
        value["spoilt"] = True
    elif isinstance(value, list):
        for item in value:
            spoil(item)
        value.append("spoilt")
    elif isinstance(value, set):
        value.add("spoilt")
    elif isinstance(value, tuple):
        for item in value:
            spoil(item)
    elif isinstance(value, Note):
        value.text = "spoilt"
        value.tags.append("spoilt")


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_every_way_to_read_gives_the_values_and_none_that_the_store_shares(
    base: Snapshot, live: LiveState, read: Callable[[Any], Any]
) -> None:
    got = read(live)
    assert got == values()
    assert list(got) == list(values())
    spoil(dict(got))
    assert_untouched(base)


LIST_READS: dict[str, Callable[[Any], list[Any]]] = {
    "getitem": lambda rows: [rows[index] for index in range(len(rows))],
    "negative": lambda rows: [rows[-3], rows[-2], rows[-1]],
    "slice": lambda rows: rows[:],
    "reversed slice": lambda rows: rows[::-1][::-1],
    "iteration": lambda rows: [item for item in rows],  # noqa: C416 - through the iterator
    "reversed": lambda rows: list(reversed(rows))[::-1],
    "list": list,
    "star": lambda rows: [*rows],
    "tuple": lambda rows: [*given_in_order(*tuple(rows))],
    "copy method": lambda rows: rows.copy(),
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "pickle": lambda rows: pickle.loads(pickle.dumps(rows)),
    "add": lambda rows: rows + [],  # noqa: RUF005 - the operator itself
    "radd": lambda rows: [] + rows,  # noqa: RUF005 - the operator itself
    "mul": lambda rows: rows * 1,
    "rmul": lambda rows: 1 * rows,
    "pop": lambda rows: [rows.pop(0) for _ in range(len(rows))],
    "pop last": lambda rows: [rows.pop() for _ in range(len(rows))][::-1],
    "extend": lambda rows: changed([], "extend", rows),
    "iadd": lambda rows: changed([], "__iadd__", rows),
    "unpacking": lambda rows: list(given_in_order(*rows)),
    "sorted": lambda rows: sorted(rows, key=lambda _: 0),
    "slice assignment": lambda rows: changed([], "__setitem__", slice(0, 0), rows),
}


@pytest.mark.parametrize("read", LIST_READS.values(), ids=LIST_READS)
def test_every_way_to_read_a_list_of_containers_gives_elements_of_its_own(
    base: Snapshot, live: LiveState, read: Callable[[Any], list[Any]]
) -> None:
    rows = live["rows"]
    assert type(rows) is LiveList
    got = read(rows)
    assert got == values()["rows"]
    for item in got:
        spoil(item)
    assert_untouched(base)


def test_json_reads_the_right_values_without_a_method(base: Snapshot, live: LiveState) -> None:
    for key in ("set", "tuple", "leaves", "note", "when", "map"):
        del live[key]
    expected = {key: values()[key] for key in ("i", "names", "rows", "chat")}
    assert json.loads(json.dumps(live)) == expected
    live["rows"].append(live["chat"])
    assert json.loads(json.dumps(live["rows"])) == [*expected["rows"], expected["chat"]]
    assert_untouched(base)


def test_the_same_object_comes_back_on_every_access(live: LiveState) -> None:
    for key in live:
        assert live[key] is live[key]
        assert live.get(key) is live[key]
        assert dict(live.items())[key] is live[key]
    rows = live["rows"]
    assert rows[0] is rows[0] is next(iter(rows)) is rows[-3]
    assert rows[:1][0] is rows[0]
    rows.insert(0, mine := {})
    assert rows[0] is mine
    assert rows[1] is rows[1]
    live["own"] = mine
    assert live["own"] is mine


def test_a_leaf_is_shared_and_a_container_is_not(base: Snapshot, live: LiveState) -> None:
    assert live["when"] is base.twin["when"]
    assert live["leaves"] is base.twin["leaves"]
    for key in ("names", "rows", "chat", "set", "tuple", "note", "map"):
        assert live[key] is not base.twin[key]


@storable
@dataclass(eq=False)
class Label:
    names: list[str]


def test_keys_that_can_be_changed_are_copied_too() -> None:
    base = Snapshot.of({"map": {Label(["a"]): 1}})
    live = LiveState(base)
    next(iter(live["map"])).names.append("b")
    assert next(iter(base.twin["map"])).names == ["a"]
    assert next(iter(collect(live).snapshot.twin["map"])).names == ["a", "b"]


def test_a_leaf_beside_containers_is_shared() -> None:
    base = Snapshot.of({"mixed": ["some text", [], b"bytes"]})
    mixed = LiveState(base)["mixed"]
    assert mixed[0] is base.twin["mixed"][0]
    assert mixed[1] is not base.twin["mixed"][1]
    assert mixed[2] is base.twin["mixed"][2]


def test_elements_that_code_in_c_has_moved_are_still_copied(base: Snapshot) -> None:
    base = Snapshot.of({"heap": [(1, [1]), (2, [2]), (3, [3])]})
    live = LiveState(base)
    heapq.heapify(live["heap"])
    heapq.heappush(live["heap"], (0, [0]))
    assert live["heap"][0] == (0, [0])
    live["heap"][1][1].append("mine")
    assert base.twin == {"heap": [(1, [1]), (2, [2]), (3, [3])]}
    assert min(collect(live).snapshot.twin["heap"]) == (0, [0])


@dataclass
class Order:
    lines: list
    more: dict


@pytest.mark.parametrize(
    "lines", [[{"n": 1}, {"n": 2}, {"n": 3}], [[1], [2]], [(1, [2])], ["a", "b"], [], [{"n": [{"m": 1}]}] * 3]
)
def test_types_of_the_state_make_lists_and_dicts_like_their_plain_forms(lines):
    """Wrong: `dataclasses.asdict` builds what it finds with `type(found)(...)`, and the state's types take no items."""
    live = LiveState(Snapshot.of({"lines": lines, "more": {"k": lines}}))
    made = asdict(Order(live["lines"], live))
    assert made == {"lines": lines, "more": {"lines": lines, "more": {"k": lines}}}
    own = [{"mine": 1}, {"mine": 2}, {"mine": 3}]
    again = type(live["lines"])(iter(own))
    assert again == own
    assert all(one is other for one, other in zip(again, own, strict=True))
    state = type(live)([("k", own)], n=1)
    assert state == {"k": own, "n": 1}
    assert state["k"] is own
    live["again"] = state
    assert collect(live).snapshot.twin["again"] == {"k": own, "n": 1}


@pytest.mark.parametrize(
    ("heap", "touch"),
    [
        ([[1, "a"], [2, "b"], [3, "c"]], lambda found: found.append("mine")),
        ([[1, ["a"]], [2, ["b"]], [3, ["c"]]], lambda found: found[1].append("mine")),
        ([(1, ["a"]), (2, ["b"]), (3, ["c"])], lambda found: found[1].append("mine")),
        ([(1, {"k": []}), (2, {}), (3, {})], lambda found: found[1]["k"].append("mine")),
        ([{"k": 1}], lambda found: found.update(k=2)),
        ([{"k": 1}, {"k": 2}], lambda found: found.update(k=3)),
        ([[1, "a"], *([[2, "b"]] * 5)], lambda found: found.append("mine")),
    ],
)
def test_what_a_heap_hands_out_is_a_copy(heap, touch):
    """Wrong: `heapq` takes elements out of the storage past every method, and the node changes what is stored."""
    base = Snapshot.of({"heap": heap})
    kept = deepcopy(base.twin), deepcopy(base.frozen)
    live = LiveState(base)
    found = heapq.heappop(live["heap"])
    touch(found)
    live["heap"].append(found)
    after = collect(live).snapshot
    assert (base.twin, base.frozen) == kept
    assert after.twin["heap"][-1] == found
    assert len(after.twin["heap"]) == len(heap)


def test_an_element_that_is_in_a_list_twice_is_one_object(live: LiveState) -> None:
    rows = live["rows"]
    rows += rows
    rows[0]["n"] = 9
    assert rows[3] == {"n": 9}


def test_missing_keys_and_defaults_are_those_of_a_dict(live: LiveState) -> None:
    with pytest.raises(KeyError):
        live["absent"]
    with pytest.raises(KeyError):
        live.pop("absent")
    assert live.get("absent") is None
    assert live.get("absent", 1) == 1
    assert live.pop("absent", 2) == 2
    assert live.setdefault("fresh", mine := []) is mine
    assert live["fresh"] is mine
    with pytest.raises(IndexError):
        live["rows"][99]


def test_operators_refuse_what_the_plain_types_refuse(live: LiveState) -> None:
    anything: Any = 5
    for operation in (
        lambda: live | anything,
        lambda: anything | live,
        lambda: live["rows"] + anything,
        lambda: anything + live["rows"],
        lambda: live["rows"] + (1,),
        lambda: (1,) + live["rows"],
    ):
        with pytest.raises(TypeError):
            operation()


def test_a_new_dict_from_keys_is_a_plain_one() -> None:
    assert type(LiveState.fromkeys(["a"], 1)) is dict
    assert LiveState.fromkeys(["a"], 1) == {"a": 1}


def test_copies_are_plain_all_the_way_down_or_live_lists_of_their_own(live: LiveState) -> None:
    assert type(copy.deepcopy(live)["rows"]) is list
    assert type(pickle.loads(pickle.dumps(live))["rows"]) is list
    assert type(live.copy()) is type(live | {}) is type({} | live) is dict
    rows = live["rows"]
    assert type(rows.copy()) is type(rows[:]) is type(rows * 1) is list


def test_a_deep_copy_keeps_circles(live: LiveState) -> None:
    live["me"] = live
    live["rows"].append(live["rows"])
    copied = copy.deepcopy(live)
    assert copied["me"] is copied
    assert copied["rows"][-1] is copied["rows"]


def test_reading_backwards_stops_where_the_list_got_shorter(live: LiveState) -> None:
    rows = live["rows"]
    seen = []
    for row in reversed(rows):
        seen.append(row)
        del rows[1:]
    assert seen == [[3], {"n": 1}]


def test_a_sort_sees_and_keeps_copies(base: Snapshot) -> None:
    base = Snapshot.of({"rows": [{"n": 2}, {"n": 1}]})
    live = LiveState(base)

    def key(row: Any) -> Any:
        row["seen"] = True
        return row["n"]

    live["rows"].sort(key=key, reverse=False)
    assert collect(live).snapshot.twin == {"rows": [{"n": 1, "seen": True}, {"n": 2, "seen": True}]}
    assert base.twin == {"rows": [{"n": 2}, {"n": 1}]}


@storable
@dataclass
class Gate:
    """A value that is only copied by two threads at once."""

    x: int

    def __getattribute__(self, name: str) -> Any:
        if name == "x" and COPYING:
            COPYING[0].wait(timeout=30)
        return object.__getattribute__(self, name)


COPYING: list[threading.Barrier] = []


@pytest.mark.parametrize("ask", [lambda live: live["gate"], lambda live: live["gates"][1]], ids=["key", "element"])
def test_threads_that_ask_at_once_get_one_object(ask: Callable[[Any], Any]) -> None:
    live = LiveState(Snapshot.of({"gate": Gate(1), "gates": [[], Gate(2)]}))
    _ = live["gates"]
    got: list[Any] = []
    threads = [threading.Thread(target=lambda: got.append(ask(live))) for _ in range(2)]
    COPYING.append(threading.Barrier(2))
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        COPYING.clear()
    assert len(got) == 2
    assert got[0] is got[1] is ask(live)


# Methods that are those of dict or list, each with the reason why it cannot hand out what is shared. A new method of
# a later Python is in neither set and fails the test.
INERT = {
    "__class__", "__class_getitem__", "__delattr__", "__dir__", "__doc__", "__format__", "__getattribute__",
    "__getstate__", "__hash__", "__init_subclass__", "__new__", "__reduce__", "__setattr__", "__sizeof__",
    "__str__", "__subclasshook__",
}  # fmt: skip
ONLY_COMPARES_OR_COUNTS = {
    "__contains__",
    "__eq__",
    "__ge__",
    "__gt__",
    "__le__",
    "__len__",
    "__lt__",
    "__ne__",
    "__repr__",
}
HANDS_OUT_KEYS_ONLY = {"keys", "__reversed__"}
ONLY_PUTS_IN_OR_TAKES_AWAY = {"__setitem__", "__delitem__", "clear", "update", "__ior__"}
EXEMPT_OF_DICT = INERT | ONLY_COMPARES_OR_COUNTS | HANDS_OUT_KEYS_ONLY | ONLY_PUTS_IN_OR_TAKES_AWAY
MOVES_POINTERS = {
    "__setitem__", "__delitem__", "__iadd__", "__imul__", "append", "clear", "extend", "insert", "remove", "reverse",
}  # fmt: skip
EXEMPT_OF_LIST = INERT | ONLY_COMPARES_OR_COUNTS | MOVES_POINTERS | {"index", "count"}


@pytest.mark.parametrize(
    ("plain", "live_class", "exempt"), [(dict, LiveState, EXEMPT_OF_DICT), (list, LiveList, EXEMPT_OF_LIST)]
)
def test_every_method_is_overridden_or_cannot_hand_out_what_is_shared(
    plain: type, live_class: type, exempt: set[str]
) -> None:
    overridden = {name for name in dir(plain) if name in live_class.__dict__}
    assert set(dir(plain)) - overridden == exempt - overridden
    assert not (exempt - INERT) & overridden


# --- collecting -------------------------------------------------------------------------------------------------------


def test_nothing_changed_gives_the_same_snapshot(base: Snapshot, live: LiveState) -> None:
    for returned in (None, {}, live, {"i": 1}, {"i": 1, "names": ["a", "b"]}, values(), {**live}):
        changes = collect(live, returned)
        assert changes.snapshot is base
        assert changes.keys == []


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_reading_is_no_change(base: Snapshot, read: Callable[[Any], Any]) -> None:
    live = LiveState(base)
    got = read(live)
    if len(live) == len(values()):
        assert collect(live).snapshot is base
    else:
        assert collect(live).keys == list(values())
    assert collect(LiveState(base), dict(got)).snapshot is base


def test_a_returned_dict_is_merged_key_by_key(base: Snapshot, live: LiveState) -> None:
    changes = collect(live, {"new": [1], "i": 2, "names": ["a", "b"]})
    assert_sound(base, changes, values() | {"i": 2, "new": [1]})
    assert changes.keys == ["i", "new"]
    assert changes.snapshot.frozen["names"] is base.frozen["names"]
    assert changes.snapshot.twin["rows"] is base.twin["rows"]


IN_PLACE: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "assignment": (lambda state: state.__setitem__("i", 2), ["i"]),
    "another type": (lambda state: state.__setitem__("i", True), ["i"]),
    "new key": (lambda state: state.update(x=1, y=[2]), ["x", "y"]),
    "ior": (lambda state: state.__ior__({"i": 3, "z": {}}), ["i", "z"]),
    "setdefault": (lambda state: state.setdefault("rows", []).append(1), ["rows"]),
    "append": (lambda state: state["names"].append("c"), ["names"]),
    "append to rows": (lambda state: state["rows"].append({"n": 3}), ["rows"]),
    "element": (lambda state: state["rows"][0].update(n=5), ["rows"]),
    "inner list": (lambda state: state["rows"][2].append(4), ["rows"]),
    "insert": (lambda state: state["rows"].insert(0, {"n": 0}), ["rows"]),
    "pop": (lambda state: state["rows"].pop(0), ["rows"]),
    "remove": (lambda state: state["rows"].remove({"n": 2}), ["rows"]),
    "reverse": (lambda state: state["rows"].reverse(), ["rows"]),
    "clear": (lambda state: state["rows"].clear(), ["rows"]),
    "slice": (lambda state: state["rows"].__setitem__(slice(0, 2), [1]), ["rows"]),
    "delete slice": (lambda state: state["rows"].__delitem__(slice(0, 2)), ["rows"]),
    "times": (lambda state: state["rows"].__imul__(2), ["rows"]),
    "deep": (lambda state: state["chat"]["log"][0].update(m=2), ["chat"]),
    "deep append": (lambda state: state["chat"]["log"].append(1), ["chat"]),
    "set": (lambda state: state["set"].add(3), ["set"]),
    "in a tuple": (lambda state: state["tuple"][1].append(3), ["tuple"]),
    "dataclass": (lambda state: state["note"].tags.append("y"), ["note"]),
    "other keys": (lambda state: state["map"][1].append(3), ["map"]),
    "delete": (lambda state: state.__delitem__("names"), ["names"]),
    "pop key": (lambda state: state.pop("chat"), ["chat"]),
    "popitem": (lambda state: state.popitem(), ["map"]),
    "clear all": (lambda state: state.clear(), list(values())),
    "set and delete": (lambda state: (state.update(i=9), state.pop("names")), ["i", "names"]),
    "move": (lambda state: state.__setitem__("moved", state.pop("rows")), ["moved", "rows"]),
    "alias": (lambda state: state.__setitem__("again", state["rows"]), ["again"]),
}


@pytest.mark.parametrize(("change", "keys"), IN_PLACE.values(), ids=IN_PLACE)
def test_a_change_in_place_counts_and_is_what_it_is_on_a_plain_dict(
    base: Snapshot, live: LiveState, change: Callable[[Any], Any], keys: list[str]
) -> None:
    plain = values()
    change(plain)
    change(live)
    changes = collect(live)
    assert_sound(base, changes, plain)
    assert changes.keys == keys
    assert collect(LiveState(changes.snapshot)).snapshot is changes.snapshot
    again = LiveState(base)
    change(again)
    assert collect(again, again).keys == keys


def test_what_is_returned_counts_for_more_than_what_was_changed_in_place(base: Snapshot, live: LiveState) -> None:
    live["i"] = object()
    live["names"].append("c")
    assert_sound(base, collect(live, {"i": 5}), values() | {"i": 5, "names": ["a", "b", "c"]})


def test_a_returned_key_that_was_deleted_in_place_is_there(base: Snapshot, live: LiveState) -> None:
    del live["i"]
    changes = collect(live, {"i": 1})
    assert changes.keys == []
    assert list(changes.snapshot.frozen) == [*list(values())[1:], "i"]


def test_a_new_order_of_keys_is_kept_though_no_key_has_changed() -> None:
    base = Snapshot.of({"a": 1, "b": 1})
    live = LiveState(base)
    live["a"] = live.pop("a")
    changes = collect(live)
    assert list(changes.snapshot.frozen) == list(changes.snapshot.twin) == ["b", "a"]
    assert changes.keys == []


def test_another_live_state_may_be_returned(base: Snapshot, live: LiveState) -> None:
    other = LiveState(Snapshot.of({"i": 7, "rows": [{"x": 1}]}))
    assert_sound(base, collect(live, other), values() | {"i": 7, "rows": [{"x": 1}]})


def test_a_live_value_may_be_stored_inside_another(base: Snapshot, live: LiveState) -> None:
    del live["map"]
    expected = {key: item for key, item in values().items() if key != "map"}
    assert collect(live, {"all": live, "rows": (live["rows"],)}).snapshot.twin == expected | {
        "all": expected,
        "rows": (expected["rows"],),
    }


@pytest.mark.parametrize("returned", [[], 5, "x", OrderedDict(a=1), Counter()])
def test_only_a_dict_or_none_can_be_merged(live: LiveState, returned: Any) -> None:
    with pytest.raises(NodeResultError, match=r"returns a dict or None\. It returned "):
        collect(live, returned)


class Key(StrEnum):
    I = "i"  # noqa: E741


@pytest.mark.parametrize("key", [1, None, ("a",), Key.I, "$", "\ud83d\ude00"])
def test_a_key_that_is_no_ordinary_string_is_refused_by_name(base: Snapshot, live: LiveState, key: Any) -> None:
    with pytest.raises(NotStorable) as caught:
        collect(live, {key: 1})
    assert str(caught.value).startswith(f"state[{key!r}]: ")
    del live["i"]
    live[key] = 1
    with pytest.raises(NotStorable):
        collect(live)
    assert_untouched(base)


@pytest.mark.case("S35")
def test_a_value_that_cannot_be_stored_is_refused_by_its_path(base: Snapshot, live: LiveState) -> None:
    with pytest.raises(NotStorable, match=r"^state\['rows'\]\[0\]\['n'\]: _thread.lock is not storable"):
        collect(live, {"rows": [{"n": threading.Lock()}]})
    live["rows"][1]["n"] = (number for number in [])
    with pytest.raises(NotStorable, match=r"^input\['rows'\]\[1\]\['n'\]: generator is not storable"):
        collect(live, where="input")
    assert_untouched(base)


def test_what_the_user_keeps_cannot_change_what_was_collected(base: Snapshot, live: LiveState) -> None:
    kept = [live["rows"], live["names"], live["chat"], live["set"], live["note"], mine := {"deep": [[1]]}]
    live["rows"].append(mine)
    live["names"].append("c")
    changes = collect(live, {"mine": mine, "tuple": (mine, [mine])})
    twin, text = copy.deepcopy(changes.snapshot.twin), dumps(changes.snapshot.frozen)
    for item in kept:
        spoil(item)
    assert changes.snapshot.twin == twin
    assert dumps(changes.snapshot.frozen) == text
    assert_untouched(base)


def test_a_failed_attempt_leaves_nothing_to_its_retry(base: Snapshot) -> None:
    first = LiveState(base)
    spoil(first)
    assert LiveState(base) == values()
    assert_untouched(base)


def test_only_what_is_new_in_a_list_is_frozen_and_thawed() -> None:
    base = Snapshot.of({"log": [(1, [1]), {"a": datetime(2024, 1, 1, tzinfo=UTC)}, [1]]})
    live = LiveState(base)
    live["log"].append((2,))
    snapshot = collect(live).snapshot
    for old, new in ((base.frozen["log"], snapshot.frozen["log"]), (base.twin["log"], snapshot.twin["log"])):
        assert all(one is other for one, other in zip(old, new, strict=False))
        assert len(old) == 3
    assert snapshot.twin["log"][3] == (2,)


def test_the_twin_of_plain_json_is_the_frozen_tree() -> None:
    base = Snapshot.of({"log": [{"a": 1}], "names": ["x"]})
    live = LiveState(base)
    live["log"].append({"b": [2]})
    live["names"].append("y")
    snapshot = collect(live).snapshot
    assert snapshot.twin["log"] is snapshot.frozen["log"]
    assert snapshot.twin["names"] is snapshot.frozen["names"]


def test_a_plain_element_beside_tagged_ones_keeps_the_twin_right() -> None:
    base = Snapshot.of({"log": [(1,)], "map": {1: 2}, "d": {"t": (1,), "u": 1}, "l": [1, (2,)]})
    live = LiveState(base)
    changes = collect(live, {"log": [(1,), "x"], "map": {"a": 1}, "d": {"t": (1,), "u": 2}, "l": [0, (2,)]})
    assert changes.snapshot.twin == {"log": [(1,), "x"], "map": {"a": 1}, "d": {"t": (1,), "u": 2}, "l": [0, (2,)]}
    assert changes.snapshot.twin["d"]["t"] is base.twin["d"]["t"]
    assert changes.snapshot.twin["l"][1] is base.twin["l"][1]


def test_a_snapshot_that_was_read_back_is_worth_the_same() -> None:
    made = Snapshot.of(values())
    read = Snapshot(made.frozen)
    assert read.twin == made.twin == values()
