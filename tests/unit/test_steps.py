"""The tree of frames: what is due in it, how it is changed, and how its places are called."""

import pytest

from fastdur._steps import (
    address,
    agent_path,
    due_trail,
    is_due,
    machine_at,
    open_questions,
    path,
    trails,
    with_leaf,
    without_leaf,
    without_visits,
)
from tests.unit.by_hand import NO, YES, chain, frame, question

OPEN = question("x#1/1")
SETTLED = question("x#1/1", answer=YES)


def leaf(place, *questions):
    return frame(place=place, visit=1, questions=questions)


def places(trail):
    return None if trail is None else [each.place for each in trail]


@pytest.mark.parametrize(
    ("questions", "due"),
    [((), True), ((OPEN,), False), ((SETTLED,), True), ((SETTLED, OPEN), False), ((question(answer=NO),), True)],
)
def test_a_leaf_is_due_unless_its_newest_question_is_open(questions, due):
    assert is_due(frame(questions=questions)) is due
    assert (due_trail(frame(questions=questions)) is not None) is due


def test_the_leaves_of_a_tree_come_in_order_each_with_all_that_is_above_it():
    tree = frame(children=[frame(place="b", children=[leaf("x"), leaf("y")]), leaf("z")])
    assert [places(trail) for trail in trails(tree)] == [["", "b", "x"], ["", "b", "y"], ["", "z"]]


def test_the_first_leaf_without_an_open_question_goes_on():
    assert places(due_trail(frame(children=[leaf("x", OPEN), leaf("y", SETTLED), leaf("z")]))) == ["", "y"]
    assert due_trail(frame(children=[leaf("x", OPEN), leaf("y", OPEN)])) is None


def test_the_open_questions_are_those_of_the_whole_tree():
    one, two = question("x#1/1"), question("y#1/2")
    tree = frame(children=[leaf("x", one), leaf("y", SETTLED, two), leaf("z", SETTLED)])
    assert open_questions(tree) == [one, two]


def test_replacing_a_leaf_leaves_its_siblings_the_very_same_objects():
    tree = frame(children=[frame(place="b", children=[leaf("x"), leaf("y")]), leaf("z")])
    trail = list(trails(tree))[1]
    new = with_leaf(trail, leaf("new"))
    assert [places(each) for each in trails(new)] == [["", "b", "x"], ["", "b", "new"], ["", "z"]]
    assert new.children[1] is tree.children[1]
    assert new.children[0].children[0] is tree.children[0].children[0]
    assert places(trail) == ["", "b", "y"]


def test_replacing_a_leaf_that_is_the_root_gives_the_leaf():
    assert with_leaf((frame(),), leaf("new")) == leaf("new")


def test_of_equal_siblings_only_the_one_on_the_trail_is_replaced():
    tree = frame(children=[leaf("x"), leaf("x")])
    new = with_leaf(list(trails(tree))[1], leaf("y"))
    assert [each.place for each in new.children] == ["x", "y"]


def test_a_frame_that_returned_is_gone_and_leaves_its_siblings_and_a_new_state_above():
    tree = frame(children=[frame(place="b", children=[leaf("x"), leaf("y")]), leaf("z")])
    new = without_leaf(next(trails(tree)), {"data": {"n": 1}})
    assert [places(each) for each in trails(new)] == [["", "b", "y"], ["", "z"]]
    assert new.children[0].state == {"data": {"n": 1}}


def test_an_address_names_places_and_a_path_their_visits_too():
    trail = (frame(), frame(place="team", visit=2), frame(place="sub", visit=3))
    assert (address(trail, "review"), path(trail, "review", 1)) == ("team/sub/review", "team#2/sub#3/review#1")
    assert (address(trail[:1], "a"), path(trail[:1], "a", 4)) == ("a", "a#4")


@pytest.mark.parametrize(
    ("whole", "address"),
    [("team#2/review#1", "team/review"), ("team#2/review#1/3", "team/review"), ("a#1/1", "a"), ("a#1", "a")],
)
def test_the_address_of_a_path_and_of_an_interrupt_id_is_the_same(whole, address):
    assert without_visits(whole) == address


def test_the_machines_of_a_trail_are_found_by_place_and_called_by_name():
    inner = chain("x", name="inner")
    root = chain(("b", chain(("c", inner), name="middle")), name="outer")
    trail = (frame(), frame(place="b"), frame(place="c"))
    assert machine_at(root, trail) is inner
    assert machine_at(root, trail[:1]) is root
    assert agent_path(root, trail) == "chain:outer/chain:middle/chain:inner"
    assert agent_path(root, trail[:1]) == "chain:outer"
