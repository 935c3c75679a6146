"""Whether a runner still fits what a run has done."""

import pytest

from fastdur import Chain, GraphChanged
from fastdur._changed import check_graph
from tests.unit.by_hand import YES, chain, frame, question
from tests.unit.teams import FORMS, Ledger, payer


def yes(state):
    return True


def no(state):
    return False


class OtherKind(Chain):
    kind = "team"


def checked(before, after, tree, *, accept=False):
    return check_graph(before.graph(), after, tree, accept=accept)


def refusal(before, after, tree, *, accept=False):
    with pytest.raises(GraphChanged) as refused:
        checked(before, after, tree, accept=accept)
    return str(refused.value)


RAN_A = frame(visits={"a": 1}, due=["b"])
FRESH = frame()
IN_B = frame(visits={"a": 1}, due=["b"], children=[frame(place="b", visit=1, visits={"x": 1}, due=["y"])])


def nested(*inner, **options):
    return chain("a", ("b", chain(*inner, **options)))


def test_an_unchanged_graph_needs_no_storing():
    assert checked(chain("a", "b"), chain("a", "b"), RAN_A) is None
    assert checked(chain("a", "b"), chain("a", "b"), RAN_A, accept=True) is None


@pytest.mark.parametrize(
    ("after", "tree"),
    [
        (chain("a", "b", "c"), RAN_A),
        (chain("a", "b", "c", edges=[("a", "b"), ("b", "c", yes)]), RAN_A),
        (chain("a", ("b", chain("x"))), RAN_A),
        (chain("x", "a", "b", edges=[("a", "b")]), RAN_A),
        (chain("a", "x", edges=[]), FRESH),
    ],
)
def test_a_change_further_on_is_taken_and_the_new_graph_is_stored(after, tree):
    assert checked(chain("a", "b"), after, tree) == after.graph()


@pytest.mark.case("S73")
@pytest.mark.parametrize("accept", [False, True])
@pytest.mark.parametrize(
    ("before", "after", "tree", "names"),
    [
        (chain("a", "b"), chain("a", "c"), RAN_A, ["node 'b'", "not there"]),
        (chain("a"), chain("b"), frame(due=["a"]), ["node 'a'", "not there"]),
        (chain("a"), chain("b"), frame(due=[], route="a"), ["node 'a'", "not there"]),
        (nested("x", "y"), nested("x", "z"), IN_B, ["node 'b/y'", "not there"]),
        (nested("x", "y"), chain("a", "b"), IN_B, ["node 'b'", "inside which", "function"]),
        (nested("x", "y"), chain("a"), frame(due=[], children=IN_B.children), ["node 'b'", "not there"]),
        (
            chain("a"),
            chain("b", "a"),
            frame(due=["b", "a"], questions=[question("a#1/1")]),
            ["node 'a'", "asked a question"],
        ),
        (
            chain("a"),
            chain(("a", chain("x"))),
            frame(due=["a"], questions=[question("a#1/1")]),
            ["node 'a'", "asked a question"],
        ),
    ],
)
def test_an_address_the_run_stands_at_must_exist_whatever_is_accepted(before, after, tree, names, accept):
    said = refusal(before, after, tree, accept=accept)
    assert [name for name in [*names, "Nothing was consumed"] if name not in said] == []
    assert ("accept_graph" in said) is not accept


@pytest.mark.parametrize(
    ("before", "after", "tree", "names"),
    [
        (chain("a", "b"), chain("a", "b", name="other"), FRESH, ["name", "'c'", "'other'"]),
        (chain("a", "b"), OtherKind("c", False).add_node("a", yes), FRESH, ["kind", "'chain'", "'team'"]),
        (chain("a", "b"), chain("b"), RAN_A, ["'a', which has run, is not there"]),
        (chain("a", "b"), nested("x"), frame(visits={"b": 1}),
         ["'b', which has run, was a function and is the chain 'c' with nodes ['x']"]),
        (chain("b"), chain("a", "b", edges=[]), RAN_A, ["'a', which has run, was missing and is a function"]),
        (nested("x"), nested("x", "y"), frame(visits={"b": 1}, due=["a"]), ["'b'", "['x']", "['x', 'y']"]),
        (chain("a", "b"), chain("a", "b", edges=[("a", "b", yes)]), RAN_A, ["were to 'b' and are to 'b' when yes"]),
        (
            chain("a", "b", edges=[("a", "b", yes)]),
            chain("a", "b", edges=[("a", "b", no)]),
            RAN_A,
            ["to 'b' when yes", "to 'b' when no"],
        ),
        (
            chain("a", "b", edges=[("a", "b"), ("a", "a", yes, 2)]),
            chain("a", "b", edges=[("a", "b"), ("a", "a", yes, 3)]),
            RAN_A,
            ["at most 2 times", "at most 3 times"],
        ),
        (chain("a", "b"), chain("a", "b", edges=[]), RAN_A, ["were to 'b' and are none"]),
        (nested("x", "y"), nested("x", "y", edges=[]), IN_B, ["edges out of 'b/x'"]),
        (nested("x", "y"), chain("a", ("b", OtherKind("c", False).add_node("x", yes).add_node("y", yes))), IN_B,
         ["'b' was the chain 'c'", "and is the team 'c'"]),
        (chain("a", "b"), nested("x", "y"), IN_B, ["'b' was a function and is the chain 'c'"]),
    ],
)  # fmt: skip
def test_what_has_run_must_be_as_it_was_unless_the_new_graph_is_accepted(before, after, tree, names):
    after.validate()
    said = refusal(before, after, tree)
    assert [name for name in [*names, "accept_graph=True"] if name not in said] == []
    assert checked(before, after, tree, accept=True) == after.graph()


def test_a_question_fits_the_node_that_asked_it():
    asking = frame(due=["b"], visits={"a": 1}, questions=[question("b#1/1")])
    assert checked(chain("a", "b"), chain("a", "b"), asking) is None


def test_a_question_of_a_nested_chain_is_looked_for_there():
    inside = frame(place="b", visit=1, questions=[question("b#1/x#1/1")])
    asking = frame(due=["b"], visits={"a": 1}, children=[inside])
    assert checked(nested("x"), nested("x"), asking) is None
    assert "node 'b/x'" in refusal(nested("x"), nested("w", "x"), asking, accept=True)


def test_nothing_is_asked_of_a_nested_chain_where_what_is_due_beside_it_is_missing():
    """Wrong: the machine is asked what comes next in a graph that lacks what is due."""
    asking = frame(due=["j", "b"], visits={"a": 1}, children=[frame(place="b", visit=1)])
    assert "node 'j'" in refusal(nested("x"), nested("x"), asking, accept=True)


def test_a_nested_chain_may_have_another_name():
    assert checked(nested("x", "y"), nested("x", "y", name="new"), IN_B) is not None


def test_a_node_that_ran_and_whose_absence_was_accepted_before_is_not_missed_again():
    assert checked(chain("b"), chain("b"), RAN_A) is None


def test_a_run_that_died_in_its_first_node_is_refused_where_that_node_is_gone_or_no_longer_first():
    assert "node 'a', where the run stands, is not there" in refusal(chain("a", "b"), chain("z", "b"), FRESH)
    assert "is not there" in refusal(chain("a", "b"), chain("z", "b"), FRESH, accept=True)
    moved = chain("z", "a", edges=[("z", "a")])
    assert "node 'a', where the run begins, is no longer a first node" in refusal(chain("a"), moved, FRESH)
    assert checked(chain("a"), moved, FRESH, accept=True) is not None


def test_a_frame_whose_graph_was_not_stored_is_only_asked_for_its_addresses():
    before, tree = chain("a", "b"), frame(due=["b"], children=[frame(place="b", visit=1)])
    after = chain("a", ("b", chain("x")))
    assert "was a function" in refusal(before, after, tree)
    assert checked(before, after, tree, accept=True) is not None


def test_a_frame_inside_a_node_that_is_no_longer_due_next_is_refused():
    # The child would return into another node, and the answer that it waits for would be given to that one.
    inner = chain("q")
    before = chain("start", ("team", inner), ("x", chain("y")), edges=[("start", "team"), ("start", "x")])
    after = chain("start", ("team", inner), ("x", chain("y")), edges=[("start", "team"), ("start", "x"), ("x", "team")])
    tree = frame(ran=[["start"]], due=["team", "x"], children=[frame(place="team", visit=1)])
    assert checked(before, before, tree) is None
    for accept in (False, True):
        assert "node 'team', inside which the run stands, is no longer due next" in refusal(
            before, after, tree, accept=accept
        )


@pytest.mark.parametrize("form", ["alone", "worker", "swarm"])
@pytest.mark.parametrize("accept", [False, True])
def test_a_run_of_one_kind_is_not_taken_on_by_another(store, go, form, accept):
    """Wrong: the chain begins at its first node with an agent's state, or what the machine reads of it is missing."""
    build = FORMS[form][0]
    runner = build(Ledger(), store)
    runner.name = "same"
    go(runner.execute, {"input": "pay 5"}, "r")
    before = store.list("r"), store.get_execution("r")
    others = [each(Ledger(), store) for name, (each, _, _) in FORMS.items() if name in ("alone", "worker", "swarm")]
    others.append(Chain("same", store).add_node("a", yes))
    agents = {"agent", "supervisor"}
    for other in others:
        if other.kind == runner.kind or {other.kind, runner.kind} == agents:
            continue
        other.name = "same"
        for call in (other.resume, other.fork):
            said = f"it was a{'n' * (runner.kind == 'agent')} {runner.kind} and is a" if accept else "does not fit"
            with pytest.raises(GraphChanged, match=said):
                go(call, "r", accept_graph=accept, **({"resume_value": YES} if call == other.resume else {}))
    assert (store.list("r"), store.get_execution("r")) == before
    assert len(store.list_executions()) == 1


def test_an_agent_inside_a_chain_is_not_taken_on_by_a_chain(store):
    team = Chain("outer", store).add_node("team", payer(Ledger()))
    team.execute({"input": "pay 5"}, "r")
    again = Chain("outer", store).add_node("team", Chain("payer").add_node("a", yes))
    with pytest.raises(GraphChanged, match="node 'team', inside which the run stands, was an agent and is a chain"):
        again.fork("r", accept_graph=True)
