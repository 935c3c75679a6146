"""How big the store takes a state to be, without writing it out."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from fastdur._codec import loads, patch
from fastdur.checkpointers._rows import Tail, Tails, body_after
from fastdur.checkpointers._values import plain, unplain
from fastdur.records import Frame

PAD = "p" * 1100  # smaller states are stored in full

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(max_size=4), inner, max_size=6),
    max_leaves=12,
)
states = st.dictionaries(st.sampled_from("abcdef"), values, max_size=6)


@given(st.lists(states, min_size=1, max_size=8))
def test_the_bodies_of_rows_lead_from_state_to_state_and_the_size_stays_near_the_truth(data):
    tail = Tail(0)
    tree = None
    drift = 0
    for state in data:
        frames = Frame("", 1, {"data": state, "pad": PAD})
        body, tail = body_after(tail, frames, "running", 1024)
        if tail.base == tail.seq:
            tree, drift = loads(body), 0
            assert tail.size == len(body)
        else:
            change = loads(body)
            tree = tree if change is None else patch(tree, change)
            drift += 2 + 2 * body.count("[")
        assert json.dumps(tree) == json.dumps(frames.tree())
        assert tail.spent <= tail.size
        assert abs(tail.size - len(json.dumps(tree, separators=(",", ":")))) <= drift


def test_a_list_that_only_grows_is_measured_to_the_byte():
    tail = Tail(0)
    log = ["x" * 50]
    for _ in range(1000):
        log = [*log, "x" * 50]
        frames = Frame("", 1, {"data": {"log": log}})
        _, tail = body_after(tail, frames, None, 1024)
        assert tail.size == len(json.dumps(frames.tree(), separators=(",", ":")))


def test_a_state_that_does_not_change_costs_nothing_but_the_row():
    frames = Frame("", 1, {"data": {"x": "y" * 1100}})
    _, first = body_after(Tail(0), frames, None, 1024)
    body, second = body_after(first, frames, None, 1024)
    assert (body, second.base, second.size) == ("null", 1, first.size)


def test_only_the_newest_trees_are_remembered():
    tails = Tails()
    for seq in range(1, 21):
        tails.put(1, Tail(seq, tree={}))
    assert tails.get(1, 20).tree == {}
    assert tails.get(1, 1) == Tail(1)
    tails.put(1, Tail(13, tree={}))
    for seq in range(21, 28):
        tails.put(1, Tail(seq, tree={}))
    assert tails.get(1, 13).tree == {}


@given(st.text(st.characters(exclude_categories=())))
def test_texts_are_stored_in_ascii_and_come_back(text):
    assert plain(text).isascii()
    assert "\0" not in plain(text)
    assert unplain(plain(text)) == text


def test_keys_in_another_order_are_weighed_too():
    frames = [Frame("", 1, {"data": data, "pad": PAD}) for data in ({"a": 1, "b": 2}, {"b": 2, "a": 1})]
    _, first = body_after(Tail(0), frames[0], None, 1024)
    body, second = body_after(first, frames[1], None, 1024)
    assert patch(frames[0].tree(), loads(body)) == frames[1].tree()
    assert abs(second.size - first.size) <= 4


def test_a_list_that_loses_its_middle_and_a_key_that_goes_make_the_tree_shorter_by_as_much():
    before = {"data": {"kept": "k", "gone": [1, 2]}, "pad": PAD, "order": ["a" * 9, "b" * 9, "c" * 9]}
    after = {"data": {"kept": "k"}, "pad": PAD, "order": ["a" * 9, "c" * 9]}
    reordered = {"data": {"kept": "k"}, "order": ["a" * 9, "c" * 9], "pad": PAD}
    _, tail = body_after(Tail(0), Frame("", 1, before), None, 1024)
    for state in (after, reordered):
        _, tail = body_after(tail, Frame("", 1, state), None, 1024)
        tree = Frame("", 1, state).tree()
        assert abs(tail.size - len(json.dumps(tree, separators=(",", ":")))) <= 8


def test_one_number_of_a_list_that_becomes_longer_makes_the_tree_longer_by_as_much():
    before = {"pad": PAD, "counts": [1, 2, 3, 4, 5]}
    after = {"pad": PAD, "counts": [1, 2, 30_000, 4, 5]}
    _, tail = body_after(Tail(0), Frame("", 1, before), None, 1024)
    body, grown = body_after(tail, Frame("", 1, after), None, 1024)
    assert loads(body) == {"s": {"counts": [-1, {"2": 30_000}]}}
    assert grown.size - tail.size == len("30000") - len("3")
