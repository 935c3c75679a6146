"""The graph of a chain: what is refused, and which node comes next."""

import functools

import pytest

from fastdur import CycleLimitError, GraphError, NodeIsAsync, RoutingError
from fastdur._graph import Edge, Graph, Node


def yes(state):
    return True


def no(state):
    return False


async def later(state):
    return False


def graph(nodes, *edges, strict=False):
    made = Graph(strict)
    for place, id in enumerate(nodes):
        made.add(Node(id, place, yes))
    for edge in edges:
        made.connect(Edge(*edge))
    return made


def valid(nodes, *edges, strict=False):
    made = graph(nodes, *edges, strict=strict)
    made.validate()
    return made


# -- what is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.case("S98")
@pytest.mark.parametrize(
    ("nodes", "edges", "names"),
    [
        ("", [], ["no node", "add_node"]),
        ("a", [("a", "b")], ["'a->b'", "'b'", "never added"]),
        ("b", [("a", "b")], ["'a->b'", "'a'", "never added"]),
        ("ab", [("a", "b"), ("b", "a")], ["'b->a'", "cycle", "max_iterations"]),
        ("a", [("a", "a")], ["'a->a'", "cycle"]),
        ("abcd", [("a", "b"), ("b", "c"), ("c", "d"), ("d", "b")], ["'d->b'", "cycle"]),
        ("abcd", [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "a", yes)], ["'d->a'", "cycle"]),
        ("abc", [("b", "c"), ("c", "b", yes, 2)], ["'b'", "no entry"]),
        ("ab", [("a", "a", None, 2), ("a", "b")], ["'a'", "unconditional", "when"]),
    ],
)
def test_a_graph_that_cannot_work_is_refused_naming_the_culprit(nodes, edges, names):
    with pytest.raises(GraphError) as refused:
        valid(nodes, *edges)
    assert [name for name in names if name not in str(refused.value)] == []


@pytest.mark.case("S98")
def test_an_id_that_is_taken_is_refused():
    with pytest.raises(GraphError, match="'a' is already there"):
        graph("aa")


@pytest.mark.parametrize("id", ["", "a/b", "a#1", 7, None, "run_end"])
def test_an_id_that_cannot_be_part_of_an_address_is_refused(id):
    with pytest.raises(GraphError, match=repr(id)):
        Graph().add(Node(id, 0, yes))


@pytest.mark.parametrize("bound", [0, -1, True, 1.5, "3"])
def test_a_bound_that_is_no_whole_number_from_one_is_refused(bound):
    with pytest.raises(GraphError, match="max_iterations"):
        graph("a", ("a", "a", None, bound))


def test_the_same_edge_twice_is_refused():
    with pytest.raises(GraphError, match="'a->b' is already there"):
        graph("ab", ("a", "b"), ("a", "b", yes))


def test_a_graph_that_was_found_good_is_looked_at_again_once_it_has_changed():
    made = valid("ab", ("a", "b"))
    made.validate()
    made.connect(Edge("b", "c"))
    with pytest.raises(GraphError, match="'c'"):
        made.validate()
    made.add(Node("c", 2, yes))
    made.validate()
    assert made.entries == ["a"]


# -- where it begins -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "edges", "entries"),
    [
        ("a", [], ["a"]),
        ("abc", [("a", "c")], ["a", "b"]),
        ("ab", [("b", "a")], ["b"]),
        ("ab", [("a", "b"), ("b", "a", yes, 2)], ["a"]),
        ("a", [("a", "a", yes, 2)], ["a"]),
        ("ab", [("a", "b", None, 1), ("b", "a", None, 1)], ["a", "b"]),
    ],
)
def test_a_chain_begins_at_the_nodes_no_edge_leads_to_else_at_those_only_back_edges_do(nodes, edges, entries):
    assert valid(nodes, *edges).entries == entries


# -- what comes next -----------------------------------------------------------------------------------------------------

DIAMOND = ("sabj", [("s", "a"), ("s", "b"), ("a", "j"), ("b", "j")])


@pytest.mark.parametrize(
    ("due", "picked"), [("a", "a"), ("ab", "a"), ("ba", "b"), ("ja", "a"), ("jab", "a"), ("sj", "s"), ("js", "s")]
)
def test_a_join_waits_for_every_due_node_that_can_still_reach_it(due, picked):
    assert valid(DIAMOND[0], *DIAMOND[1]).pick(list(due)) == picked


def test_a_join_does_not_wait_for_a_node_that_reaches_it_only_by_a_back_edge():
    made = valid("abj", ("a", "j"), ("a", "b"), ("b", "j", yes, 2))
    assert made.pick(["j", "b"]) == "j"


def test_a_join_waits_over_any_distance():
    made = valid("abcdj", ("a", "b"), ("b", "c"), ("c", "j"), ("d", "j"))
    assert made.pick(["j", "a"]) == "a"


def test_before_it_was_validated_a_graph_picks_the_first():
    assert graph("ab").pick(["b", "a"]) == "b"


@pytest.mark.parametrize(
    ("edges", "strict", "decides"),
    [
        ([("a", "b")], False, False),
        ([], False, False),
        ([("a", "b", yes)], False, True),
        ([("a", "b", None, 2)], False, True),
        ([("a", "b")], True, False),
        ([], True, False),
    ],
)
def test_a_way_out_is_decided_where_there_is_a_condition_or_a_bound(edges, strict, decides):
    assert graph("ab", *edges, strict=strict).deciding == ({"a"} if decides else set())


@pytest.mark.parametrize(
    ("edges", "taken"),
    [
        ([("a", "b", yes), ("a", "c", yes), ("a", "d")], [0]),
        ([("a", "b", no), ("a", "c", yes), ("a", "d")], [1]),
        ([("a", "b"), ("a", "c", yes), ("a", "d")], [1]),
        ([("a", "b"), ("a", "c", no), ("a", "d")], [0, 2]),
        ([("a", "b", no)], []),
    ],
)
def test_the_first_true_condition_is_taken_else_every_unconditional_edge(edges, taken):
    assert graph("abcd", *edges).route("a", {}, {}) == taken


def test_what_was_found_out_of_a_graph_is_not_changed_by_a_thread_that_finds_it_out_again():
    """Wrong: two threads use a chain for the first time, and one sees a table that the other is filling anew."""
    made = valid("abj", ("a", "j"), ("b", "j"))
    assert made.pick(["a", "b"]) == "a"
    order, ways, entries, again = made.order, made.ways, made.entries, made.again
    made.order = made.ways = None  # as the other thread has read it
    made.validate()
    assert made.pick(["a", "b"]) == "a"
    assert (made.order, made.ways) == (order, ways)
    assert made.order is not order
    assert made.ways is not ways
    assert (entries, again) == (made.entries, made.again)
    assert made.ways[1]["j"] == ["b", "a"]


def test_two_edges_that_would_be_counted_under_one_name_are_refused():
    made = Graph()
    for place, id in enumerate(("a", "a->b", "b->c", "c")):
        made.add(Node(id, place, yes))
    made.connect(Edge("a", "b->c"))
    with pytest.raises(GraphError, match=r"'a->b->c'.*rename"):
        made.connect(Edge("a->b", "c"))


def test_a_condition_sees_the_state():
    seen = []
    graph("ab", ("a", "b", seen.append)).route("a", {}, {"n": 1})
    assert seen == [{"n": 1}]


def test_strict_refuses_to_end_where_no_edge_is_true():
    with pytest.raises(RoutingError, match="'a'"):
        graph("ab", ("a", "b", no), strict=True).route("a", {}, {})


def test_a_back_edge_is_taken_as_often_as_its_bound_and_then_refused():
    made = graph("ab", ("a", "a", yes, 2), ("a", "b"))
    assert made.route("a", {}, {}) == made.route("a", {"a->a": 1}, {}) == [0]
    assert graph("ab", ("a", "a", yes, 1)).route("a", {}, {}) == [0]
    with pytest.raises(CycleLimitError, match=r"'a->a' was taken 2 times.*accept_graph"):
        made.route("a", {"a->a": 2}, {})


def test_a_bound_that_is_used_up_does_not_matter_where_its_edge_is_not_taken():
    assert graph("ab", ("a", "a", no, 1), ("a", "b")).route("a", {"a->a": 1}, {}) == [1]


def test_a_condition_that_returns_a_coroutine_is_an_error_and_never_true():
    def sneaky(state):
        return later(state)

    with pytest.raises(NodeIsAsync, match="'a->b'"):
        graph("ab", ("a", "b", sneaky)).route("a", {}, {})


def test_a_condition_that_is_async_is_refused_where_it_is_given():
    for condition in (later, functools.partial(later)):
        with pytest.raises(GraphError, match="async"):
            graph("ab", ("a", "b", condition))


@pytest.mark.parametrize(
    ("taken", "due", "after"),
    [([0, 1], "", "bc"), ([1], "d", "cd"), ([0, 1], "cd", "bcd"), ([], "d", "d")],
)
def test_successors_go_to_the_front_in_declaration_order_each_once(taken, due, after):
    assert graph("abcd", ("a", "b"), ("a", "c")).follow("a", taken, list(due)) == list(after)


# -- as data -------------------------------------------------------------------------------------------------------------


class Condition:
    def __call__(self, state):
        return True


def test_the_shape_names_nodes_edges_conditions_and_bounds():
    made = graph("ab", ("a", "b"), ("a", "a", yes, 2), ("b", "a", Condition(), 1))
    assert made.shape("n", "chain") == {
        "name": "n",
        "kind": "chain",
        "entries": ["a"],
        "nodes": {"a": "node", "b": "node"},
        "edges": [["a", "b", None, None], ["a", "a", "yes", 2], ["b", "a", "Condition", 1]],
    }
