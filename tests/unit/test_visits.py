"""How often each node of a frame has been committed, and how that is stored."""

import pytest

from fastdur._visits import _CHUNK, committed, count, with_visit


def after(*visits, again=()):
    """The state after these nodes have committed, one visit after another."""
    state = {}
    for node in visits:
        state |= [with_visit(state, node, count(state, node) + 1, again=node in again)]
    return state


def test_a_fresh_frame_has_committed_nothing():
    assert committed({}) == {}
    assert count({}, "a") == 0


def test_a_node_that_is_entered_once_is_named_and_one_that_may_come_round_is_counted():
    state = after("a", "b", "b", again="b")
    assert state == {"ran": [["a"]], "visits": {"b": 2}}
    assert committed(state) == {"a": 1, "b": 2}
    assert [count(state, node) for node in "abc"] == [1, 2, 0]


def test_a_node_that_comes_again_although_it_was_entered_only_once_is_counted_from_then_on():
    state = after("a", "a")
    assert state == {"ran": [["a"]], "visits": {"a": 2}}
    assert (committed(state), count(state, "a")) == ({"a": 2}, 2)


@pytest.mark.parametrize("length", [1, _CHUNK - 1, _CHUNK, _CHUNK + 1, 3 * _CHUNK])
def test_the_names_lie_in_short_lists_of_which_a_step_changes_only_the_last(length):
    names = [f"n{number}" for number in range(length)]
    state = after(*names)
    assert max(map(len, state["ran"])) <= _CHUNK
    assert [name for chunk in state["ran"] for name in chunk] == names
    where, more = with_visit(state, "more", 1, again=False)
    assert where == "ran"
    assert [id(chunk) for chunk in more[:-1]] == [id(chunk) for chunk in state["ran"][: len(more) - 1]]
    assert "more" not in committed(state)
