"""`Chain`: how it is built, what it refuses, and its machine, which is pure."""

from pathlib import Path

import pytest

from fastdur import Chain, GraphError
from fastdur._nested import MAX_NESTED
from fastdur._steps import Call, Done, Push, Return
from tests.unit.by_hand import chain


def one(state):
    return {"n": 1}


def yes(state):
    return True


def made(*, strict=False, **options):
    return Chain("c", checkpointer=False, strict=strict, **options)


# -- building ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", None, 7, b"c"])
def test_a_name_that_is_no_text_is_refused(name):
    with pytest.raises(TypeError, match="name of a chain"):
        Chain(name)


@pytest.mark.parametrize("store", [True, "runs.db", Path("runs.db")])
def test_a_path_or_true_is_no_store(store):
    with pytest.raises(TypeError, match="SQLiteCheckpointer"):
        Chain("c", checkpointer=store)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"fn": None}, "None"),
        ({"fn": one, "input": one}, "input="),
        ({"fn": one, "retry": -1}, "retry="),
        ({"fn": one, "retry": True}, "retry="),
        ({"fn": one, "retry": 1.5}, "retry="),
        ({"fn": one, "timeout": 0}, "timeout="),
        ({"fn": one, "timeout": -2}, "timeout="),
        ({"fn": one, "timeout": float("nan")}, "timeout="),
        ({"fn": chain("x"), "retry": 1}, "retry="),
        ({"fn": chain("x"), "timeout": 1}, "timeout="),
    ],
)
def test_what_a_node_cannot_have_is_refused_naming_the_node(options, says):
    with pytest.raises(GraphError, match=f"'a'.*{says}|{says}.*'a'"):
        made().add_node("a", **options)


@pytest.mark.case("S85")
def test_a_misspelt_keyword_is_refused_naming_it():
    with pytest.raises(TypeError, match="retrys"):
        made().add_node("a", one, retrys=1)
    with pytest.raises(TypeError, match="wen"):
        made().connect("a", "b", wen=yes)


def test_a_condition_that_cannot_be_called_is_refused():
    with pytest.raises(GraphError, match=r"when= of edge 'a->b' is True"):
        made().connect("a", "b", when=True)


def test_building_can_be_chained():
    made().add_node("a", one).add_node("b", one).connect("a", "b").validate()


@pytest.mark.case("S98")
@pytest.mark.parametrize("call", ["execute", "resume", "fork", "validate"])
def test_a_wrong_graph_is_refused_before_anything_else(call):
    wrong = made().connect("a", "b")
    with pytest.raises(GraphError):
        getattr(wrong, call)(*["r"] * (call in ("resume", "fork")))


def test_what_is_wrong_inside_a_nested_chain_is_found_too():
    with pytest.raises(GraphError, match="no node"):
        made().add_node("b", made()).validate()


@pytest.mark.parametrize("call", ["validate", "execute"])
def test_a_chain_that_stands_inside_itself_is_refused(call):
    outer = made()
    outer.add_node("b", outer)
    with pytest.raises(GraphError, match=r"'c' stands inside itself, at node 'b'"):
        getattr(outer, call)()


def test_a_chain_that_stands_inside_itself_through_others_is_refused():
    outer, middle, inner = made(), Chain("m", False), Chain("i", False)
    outer.add_node("to-m", middle)
    middle.add_node("to-i", inner)
    inner.add_node("to-m", middle)
    for runner, says in ((outer, "'m' stands inside itself, at node 'to-i'"), (inner, "at node 'to-m'")):
        with pytest.raises(GraphError, match=says):
            runner.validate()


def test_one_chain_may_stand_in_several_places_of_another():
    inner = chain("x")
    outer = made().add_node("a", inner).add_node("b", Chain("m", False).add_node("again", inner)).connect("a", "b")
    outer.validate()
    assert [place for place, _ in outer.functions()] == ["a/x", "b/again/x"]


def test_the_functions_are_those_of_nodes_inputs_conditions_and_nested_chains():
    inner = made().add_node("x", one)
    outer = made().add_node("a", one).add_node("b", inner, input=yes).connect("a", "b", yes)
    assert outer.functions() == [("b/x", one), ("a", one), ("b", yes), ("a->b", yes)]


# -- the machine ---------------------------------------------------------------------------------------------------------


def step(machine, state):
    due = machine.next(state)
    return type(due).__name__, getattr(due, "kind", None), due.node, due.visit


def test_a_new_frame_is_due_at_the_entries_without_storing_them():
    machine = chain("a", "b")
    assert machine.begin({"n": 0}) == {"data": {"n": 0}}
    assert step(machine, machine.begin({})) == ("Call", "node", "a", 1)
    assert machine.addresses(machine.begin({})) == ["a"]


def test_a_frame_with_nothing_due_returns():
    assert isinstance(chain("a").next({"data": {}, "due": []}), Return)


def test_a_call_carries_what_was_said_of_its_node():
    machine = made().add_node("a", one, output_key="k", retry=2, timeout=1.5)
    machine.validate()
    call = machine.next(machine.begin({"n": 0}))
    assert isinstance(call, Call)
    assert (call.fn, call.data, call.output_key, call.retry, call.timeout) == (one, {"n": 0}, "k", 2, 1.5)


def after(machine, state, data=None, changed=(), out=None):
    return machine.apply(state, machine.next(state), Done(data or {}, tuple(changed), out))


def test_a_node_that_committed_leaves_its_visit_what_it_changed_and_its_successors():
    machine = chain("a", "b")
    state = after(machine, machine.begin({}), {"n": 1}, ["n"], ["n"])
    assert state == {"data": {"n": 1}, "due": ["b"], "ran": [["a"]], "out": ["n"], "touched": ["n"]}
    assert step(machine, state) == ("Call", "node", "b", 1)


def test_a_key_is_touched_once_however_often_it_changes():
    machine = chain("a", "b")
    state = after(machine, machine.begin({}), {"n": 1}, ["n"], ["n"])
    assert after(machine, state, {"n": 2, "m": 1}, ["n", "m"], [])["touched"] == ["n", "m"]
    assert after(machine, state, {"n": 2}, ["n"], [])["touched"] == ["n"]


def test_the_output_of_a_node_with_an_output_key_is_that_key():
    machine = made().add_node("a", one, output_key="k")
    machine.validate()
    assert after(machine, machine.begin({}), {"k": 1}, ["k"], ["k"])["out"] == "k"


def test_a_way_out_that_must_be_decided_is_a_step_of_its_own():
    machine = chain("a", "b", "d", edges=[("a", "b", yes), ("a", "d")])
    state = after(machine, machine.begin({}))
    assert (state["route"], state["due"]) == ("a", [])
    assert machine.addresses(state) == ["a"]
    assert step(machine, state) == ("Call", "route", "a", 1)
    state = machine.apply(state, machine.next(state), Done({}, value=[0]))
    assert "route" not in state
    assert state["due"] == ["b"]
    assert "loops" not in state


def test_a_back_edge_is_counted_when_it_is_taken():
    machine = chain("a", "b", edges=[("a", "b"), ("b", "a", yes, 3)])
    state = {"data": {}, "due": ["z"], "visits": {"a": 1, "b": 1}, "route": "b", "loops": {"x->y": 7}}
    state = machine.apply(state, machine.next(state), Done({}, value=[0]))
    assert (state["due"], state["loops"]) == (["a", "z"], {"x->y": 7, "b->a": 1})
    assert step(machine, {**state, "due": ["a"]}) == ("Call", "node", "a", 2)
    state = machine.apply(
        {**state, "route": "b", "due": []}, machine.next({**state, "route": "b"}), Done({}, value=[0])
    )
    assert state["loops"]["b->a"] == 2


def test_a_nested_chain_starts_from_a_copy_and_gives_back_what_it_touched():
    inner = chain("x")
    machine = chain("a", ("b", inner), edges=[])
    state = {"data": {"n": 1, "gone": 1, "kept": 1}, "due": ["b"]}
    push = machine.next(state)
    assert isinstance(push, Push)
    assert (push.machine, push.data) == (inner, state["data"])
    theirs = {"data": {"n": 2, "m": 3, "kept": 9}, "touched": ["n", "m", "gone"]}
    state = machine.apply(state, push, theirs)
    assert state["data"] == {"n": 2, "kept": 1, "m": 3}
    assert state["touched"] == state["out"] == ["n", "m", "gone"]


def test_a_nested_chain_with_an_output_key_leaves_its_whole_state_under_it():
    machine = made().add_node("b", chain("x"), output_key="k")
    machine.validate()
    state = machine.begin({"n": 1})
    state = machine.apply(state, machine.next(state), {"data": {"m": 2}, "touched": ["m"]})
    assert (state["data"], state["out"], state["touched"]) == ({"n": 1, "k": {"m": 2}}, "k", ["k"])


def test_a_nested_chain_that_touched_nothing_leaves_nothing():
    machine = chain(("b", chain("x")))
    state = machine.begin({"n": 1})
    state = machine.apply(state, machine.next(state), {"data": {"n": 1}})
    assert state == {"data": {"n": 1}, "due": [], "ran": [["b"]], "out": []}


def test_an_input_function_runs_before_the_push_and_its_result_lives_until_the_node_is_over():
    machine = made().add_node("b", chain("x"), input=one)
    machine.validate()
    state = machine.begin({"n": 1})
    assert step(machine, state) == ("Call", "input", "b", 1)
    state = machine.apply(state, machine.next(state), Done({}, value={"given": 5}))
    assert step(machine, state) == ("Push", None, "b", 1)
    assert machine.next(state).data == {"given": 5}
    state = machine.apply(state, machine.next(state), {"data": {"given": 5}})
    assert "given" not in state
    assert state["data"] == {"n": 1}


def test_the_child_of_a_place_is_the_runner_there():
    inner = chain("x")
    assert chain(("b", inner)).child("b") is inner


def test_a_node_id_that_a_store_would_not_give_back_is_refused():
    with pytest.raises(GraphError, match="surrogates"):
        made().add_node("\ud83d\ude00", one)


def test_the_graph_holds_the_graphs_of_nested_chains():
    shape = chain(("b", chain("x", name="inner")), "a").graph()
    assert shape["edges"] == [["b", "a", None, None]]
    assert shape["nodes"]["a"] == "node"
    assert shape["nodes"]["b"] == {
        "name": "inner",
        "kind": "chain",
        "entries": ["x"],
        "nodes": {"x": "node"},
        "edges": [],
    }


def test_runners_nested_deeper_than_the_limit_are_refused():
    outer = chain("x")
    for _ in range(MAX_NESTED):
        outer = chain(("in", outer))
    outer.validate()
    with pytest.raises(GraphError, match="nested more than 50 deep"):
        chain(("in", outer)).validate()
