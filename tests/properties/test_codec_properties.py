"""Laws of the codec and of the live state, over all the values that can be stored."""

import copy
from dataclasses import dataclass
from datetime import UTC, timedelta, timezone
from enum import Enum
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from pydantic import BaseModel

from fastdur._codec import diff, dumps, fingerprint, freeze, loads, patch, patch_in_place, storable, thaw, thaw_shared
from fastdur._live import LiveState, Snapshot, collect


@storable
class Colour(Enum):
    RED = 1
    GREEN = "g"


@storable
@dataclass(frozen=True)
class Point:
    x: Any
    y: Any = 0


@storable
class User(BaseModel):
    name: str
    data: Any = None


def shown(value: Any) -> str:
    """A text that differs where two values differ in type, sign, order of keys, fold or payload."""
    if isinstance(value, dict):
        return f"{type(value)}{[(shown(key), shown(item)) for key, item in value.items()]}"
    if isinstance(value, list | tuple):
        return f"{type(value)}{list(map(shown, value))}"
    if isinstance(value, set | frozenset):
        return f"{type(value)}{sorted(map(shown, value))}"
    if isinstance(value, Point):
        return f"Point{shown([value.x, value.y])}"
    if isinstance(value, User):
        return f"User{shown([value.name, value.data, sorted(value.model_fields_set)])}"
    fold = getattr(value, "fold", "")
    return f"{type(value)}{hex(value) if type(value) is int else value!r}{fold}"


ANY_CHARACTER = st.characters(exclude_categories=())
TEXTS = st.text(ANY_CHARACTER, max_size=8) | st.sampled_from(["$", "\ud83d\ude00", "\u0000", "i"])
ZONES = st.none() | st.just(UTC) | st.just(ZoneInfo("Europe/Berlin")) | st.builds(
    timezone, st.timedeltas(timedelta(hours=-23), timedelta(hours=23))
)  # fmt: skip
JSON_LEAVES = st.none() | st.booleans() | st.integers() | st.integers(-(10**700), 10**700) | st.floats() | TEXTS
HASHABLE_LEAVES = (
    JSON_LEAVES
    | st.binary(max_size=8)
    | st.decimals()
    | st.uuids()
    | st.dates()
    | st.timedeltas()
    | st.times(timezones=st.none() | st.just(UTC))
    | st.datetimes(timezones=ZONES, allow_imaginary=True)
    | st.sampled_from(Colour)
)


def is_hashable(value: Any) -> bool:
    # A signalling NaN is a Decimal, and cannot be hashed.
    try:
        hash(value)
    except TypeError:
        return False
    return True


KEYS = (HASHABLE_LEAVES | st.tuples(HASHABLE_LEAVES, HASHABLE_LEAVES)).filter(is_hashable)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return (
        st.lists(inner, max_size=4)
        | st.dictionaries(TEXTS, inner, max_size=4)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.builds(Point, inner, inner)
        | st.builds(User, name=st.text(max_size=3), data=inner)
    )


VALUES = st.recursive(
    HASHABLE_LEAVES | st.sets(KEYS, max_size=4) | st.frozensets(KEYS, max_size=4),
    containers,
    max_leaves=12,
)
ORDINARY_KEYS = st.text(max_size=3).filter(lambda key: key != "$") | st.sampled_from("abc")
STATES = st.dictionaries(ORDINARY_KEYS, VALUES, max_size=5)


@given(VALUES)
def test_every_value_comes_back_with_its_types(value: Any) -> None:
    frozen = freeze(value, "state")
    text = dumps(frozen)
    assert text.isascii()
    assert dumps(loads(text)) == text
    for back in (thaw(frozen), thaw(loads(text)), thaw_shared(frozen)):
        assert shown(back) == shown(value)
        assert dumps(freeze(back, "state")) == text


@given(VALUES)
def test_an_unchanged_value_freezes_to_the_old_tree_itself(value: Any) -> None:
    old = freeze([value], "state")
    assert freeze([copy.deepcopy(value)], "state", old) is old
    assert freeze([thaw(old[0])], "state", loads(dumps(old))) == old


@given(VALUES, VALUES)
def test_freezing_with_an_old_tree_gives_what_freezing_without_one_gives(before: Any, after: Any) -> None:
    old = freeze({"k": before, "l": [before]}, "state")
    value = {"k": after, "l": [before, after]}
    assert dumps(freeze(value, "state", old)) == dumps(freeze(value, "state"))
    twin = thaw_shared(old)
    mixed = {"k": after, "l": [twin["l"][0], after], "m": twin["k"]}
    assert dumps(freeze(mixed, "state", old, twin)) == dumps(freeze({**value, "m": before}, "state"))


@given(VALUES, VALUES)
def test_patching_with_a_difference_gives_the_other_tree(before: Any, after: Any) -> None:
    old, new = freeze(before, "state"), freeze(after, "state")
    texts = dumps(old), dumps(new)
    delta = diff(old, new)
    if delta is None:
        assert texts[0] == texts[1]
    else:
        assert texts[0] != texts[1]
        assert dumps(patch(old, delta)) == texts[1]
        assert dumps(patch(loads(texts[0]), loads(dumps(delta)))) == texts[1]
    assert (dumps(old), dumps(new)) == texts


SMALL = st.recursive(
    st.integers(0, 2) | st.sampled_from(["x", True, 1.0, None]),
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=30,
)


@given(SMALL, SMALL)
def test_patching_with_a_difference_gives_the_other_tree_where_much_is_alike(old: Any, new: Any) -> None:
    delta = diff(old, new)
    assert dumps(old if delta is None else patch(old, loads(dumps(delta)))) == dumps(new)
    assert dumps(old if delta is None else patch_in_place(loads(dumps(old)), loads(dumps(delta)))) == dumps(new)
    assert (delta is None) == (dumps(old) == dumps(new))


@given(VALUES, VALUES)
def test_fingerprints_are_equal_just_where_the_values_are(one: Any, other: Any) -> None:
    assert fingerprint(one, "args") == fingerprint(thaw(freeze(one, "args")), "args")
    if fingerprint(one, "args") == fingerprint(other, "args"):
        # Only the order of keys may differ.
        assert sorted(shown(one)) == sorted(shown(other))


class LiveModel(RuleBasedStateMachine):
    """Random operations on a live state and on a plain dict: same answers, same end."""

    @initialize(state=STATES)
    def begin(self, state: dict[str, Any]) -> None:
        self.base = Snapshot.of(state)
        self.text = dumps(self.base.frozen)
        self.shown = shown(self.base.twin)
        self.live: Any = LiveState(self.base)
        self.plain: Any = thaw(self.base.frozen)

    def key(self, number: int) -> Any:
        keys = list(self.plain)
        return keys[number % len(keys)] if keys else "a"

    def both(self, operation: Any) -> None:
        answers = []
        for state in (self.plain, self.live):
            try:
                answers.append(shown(plain_copy(operation(state))))
            except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
                answers.append(type(error).__name__)
        assert answers[0] == answers[1]

    @rule(number=st.integers(0, 9), how=st.sampled_from(["getitem", "get", "items", "values", "iter", "or", "copy"]))
    def read(self, number: int, how: str) -> None:
        key = self.key(number)
        self.both(
            {
                "getitem": lambda state: state[key],
                "get": lambda state: state.get(key, 5),
                "items": lambda state: dict(state.items()),
                "values": lambda state: list(state.values()),
                "iter": lambda state: {name: state[name] for name in state},
                "or": lambda state: state | {"a": 1},
                "copy": copy.deepcopy,
            }[how]
        )

    @rule(key=ORDINARY_KEYS, value=VALUES)
    def assign(self, key: str, value: Any) -> None:
        self.both(lambda state: state.__setitem__(key, copy.deepcopy(value)))

    @rule(number=st.integers(0, 9), how=st.sampled_from(["del", "pop", "popitem", "setdefault"]))
    def take(self, number: int, how: str) -> None:
        key = self.key(number)
        self.both(
            {
                "del": lambda state: state.__delitem__(key),
                "pop": lambda state: state.pop(key, None),
                "popitem": lambda state: state.popitem(),
                "setdefault": lambda state: state.setdefault(key, [1]),
            }[how]
        )

    @rule(
        number=st.integers(0, 9),
        deeper=st.integers(0, 3),
        index=st.integers(-3, 4),
        value=VALUES,
        how=st.sampled_from(
            [
                "append",
                "insert",
                "pop",
                "set",
                "del",
                "slice",
                "reverse",
                "iadd",
                "imul",
                "sort",
                "iterate",
                "add",
                "mul",
            ]
        ),
    )
    def change_list(self, number: int, deeper: int, index: int, value: Any, how: str) -> None:
        key = self.key(number)

        def operate(state: Any) -> Any:
            target = state[key]
            for _ in range(deeper):
                target = target[index % len(target)]
            fresh = copy.deepcopy(value)
            return {
                "append": lambda: target.append(fresh),
                "insert": lambda: target.insert(index, fresh),
                "pop": lambda: target.pop(index),
                "set": lambda: target.__setitem__(index, fresh),
                "del": lambda: target.__delitem__(index),
                "slice": lambda: target[index:],
                "reverse": target.reverse,
                "iadd": lambda: target.__iadd__([fresh]) and None,
                "imul": lambda: target.__imul__(index % 3) and None,
                "sort": lambda: target.sort(key=shown_key),
                "iterate": lambda: [item for item in target],  # noqa: C416 - through the iterator
                "add": lambda: target + [fresh],  # noqa: RUF005 - the operator itself
                "mul": lambda: target * 2,
            }[how]()

        self.both(operate)

    @rule(returned=st.none() | STATES)
    def commit(self, returned: dict[str, Any] | None) -> None:
        given = copy.deepcopy(returned)
        changes = collect(self.live, given)
        self.plain.update(returned or {})
        final = {key: freeze(plain_copy(item), key) for key, item in self.plain.items()}
        assert dumps(changes.snapshot.frozen) == dumps(final)
        assert shown(changes.snapshot.twin) == shown({key: thaw(item) for key, item in final.items()})
        assert set(changes.keys) == {
            key
            for key in {*final, *self.base.frozen}
            if shown(final.get(key, ...)) != shown(self.base.frozen.get(key, ...))
        }
        self.check_the_base_has_not_moved()
        self.base = changes.snapshot
        self.text, self.shown = dumps(self.base.frozen), shown(self.base.twin)
        self.live, self.plain = LiveState(self.base), thaw(self.base.frozen)

    @invariant()
    def check_the_base_has_not_moved(self) -> None:
        if hasattr(self, "base"):
            assert dumps(self.base.frozen) == self.text
            assert shown(self.base.twin) == self.shown

    def teardown(self) -> None:
        if hasattr(self, "base"):
            self.commit(None)


def shown_key(value: Any) -> str:
    return shown(plain_copy(value))


def plain_copy(value: Any) -> Any:
    """The value with dicts and lists of the plain classes only."""
    if isinstance(value, dict):
        return {key: plain_copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain_copy(item) for item in value]
    if type(value) is tuple:
        return tuple(plain_copy(item) for item in value)
    if isinstance(value, Point):
        return Point(plain_copy(value.x), plain_copy(value.y))
    if isinstance(value, User):
        return value.model_copy(update={"data": plain_copy(value.data)}) if "data" in value.model_fields_set else value
    return value


TestLiveModel = LiveModel.TestCase
TestLiveModel.settings = settings(suppress_health_check=list(HealthCheck), deadline=None)
