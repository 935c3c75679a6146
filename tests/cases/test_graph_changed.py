"""The code changed between two processes: what does not fit a run is refused before anything is consumed."""

from __future__ import annotations

import pytest

from fastdur import Chain, GraphChanged, Resume, SimulatedCrash, interrupt, observe
from tests.cases._server import attempt
from tests.cases.conftest import RUN

YES = Resume(approved=True)


def again(state):
    return state.get("rounds", 0) > 0


def once_more(state):
    return again(state)


def breaks(_state):
    raise ZeroDivisionError


class Plan:
    """The graph as data, to be changed: a, b (with a way back), a chain `sub` of x, y (asks), z, then d and e."""

    def __init__(self):
        self.name = "plan"
        self.nodes = {"a": {}, "b": {}, "sub": None, "d": {}, "e": {}}
        self.edges = [("a", "b"), ("b", "a", again, 2), ("b", "sub"), ("sub", "d"), ("d", "e")]
        self.below = {"x": {}, "y": {"asks": ("ok?",)}, "z": {}}
        self.below_edges = [("x", "y"), ("y", "z")]
        self.below_name = "sub"

    def build(self, world, store):
        sub = graph(world, self.below_name, None, self.below, self.below_edges)
        return graph(world, self.name, store, self.nodes, self.edges, sub)

    def renamed(self, node, to):
        self.nodes = {to if name == node else name: what for name, what in self.nodes.items()}
        self.edges = [tuple(to if part == node else part for part in edge) for edge in self.edges]

    def renamed_below(self, node, to):
        self.below = {to if name == node else name: what for name, what in self.below.items()}
        self.below_edges = [tuple(to if part == node else part for part in edge) for edge in self.below_edges]


def graph(world, name, store, nodes, edges, sub=None):
    chain = Chain(name, checkpointer=store)
    for node, what in nodes.items():
        chain.add_node(
            node,
            sub if what is None else what if callable(what) or isinstance(what, Chain) else world.step(node, **what),
        )
    for edge in edges:
        chain.connect(*edge)
    return chain


def a_chain(*_):
    return Chain("inside").add_node("i", lambda _state: {"inside": True})


# Each change, and what the error has to name. The run has been in a and b, stands in `sub`, has done x, asks in y.
FOR_GOOD = {
    "the chain inside which it stands is gone": (lambda plan: plan.renamed("sub", "part"), "'sub'"),
    "the chain inside which it stands is a function": (lambda plan: plan.nodes.update(sub={}), "'sub'"),
    "the node that asked has another name": (lambda plan: plan.renamed_below("y", "why"), "'sub/y'"),
    "the node that asked is a chain": (lambda plan: plan.below.update(y=a_chain()), "'sub/y'"),
}
UNLESS_ACCEPTED = {
    "the name of the chain": (lambda plan: setattr(plan, "name", "other"), "'other'"),
    "a node that has run is gone": (lambda plan: plan.renamed("a", "first"), "'a'"),
    "a node that has run is a chain": (lambda plan: plan.nodes.update(a=a_chain()), "'a'"),
    "a node that has run inside is gone": (lambda plan: plan.renamed_below("x", "ex"), "'sub/x'"),
    "a node that has run inside is a chain": (lambda plan: plan.below.update(x=a_chain()), "'sub/x'"),
    "the condition of an edge": (lambda plan: plan.edges.__setitem__(1, ("b", "a", once_more, 2)), "when once_more"),
    "the condition of an edge is gone": (
        lambda plan: plan.edges.__setitem__(slice(1, 3), [("b", "a", None, 2), ("b", "sub", again)]),
        "'b'",
    ),
    "the bound of an edge": (lambda plan: plan.edges.__setitem__(1, ("b", "a", again, 3)), "at most 3"),
    "the order of edges": (lambda plan: plan.edges.__setitem__(slice(1, 3), reversed(plan.edges[1:3])), "'b'"),
    "the target of an edge": (
        lambda plan: plan.edges.__setitem__(2, ("b", "d")) or plan.edges.append(("a", "sub")),
        "'b'",
    ),
    "one more edge": (lambda plan: plan.edges.append(("b", "e")), "'b'"),
    "one edge less": (lambda plan: plan.edges.pop(1), "'b'"),
    "an edge inside": (lambda plan: plan.below_edges.append(("x", "z")), "'sub/x'"),
}
TAKEN = {
    "nothing": lambda _plan: None,
    "the name of the chain inside": lambda plan: setattr(plan, "below_name", "another"),
    "a later node has another name": lambda plan: plan.renamed("d", "dee"),
    "a later node is a chain": lambda plan: plan.nodes.update(d=a_chain()),
    "a later node inside has another name": lambda plan: plan.renamed_below("z", "zed"),
    "a later node is gone": lambda plan: (plan.nodes.pop("e"), plan.edges.pop()),
    "a later edge has a condition": lambda plan: plan.edges.__setitem__(4, ("d", "e", again)),
    "one more node at the end": lambda plan: (plan.nodes.update(f={}), plan.edges.append(("e", "f"))),
    "one more edge out of the node that asked": lambda plan: (
        plan.below.update(w={}),
        plan.below_edges.append(("y", "w")),
    ),
}


@pytest.fixture
def standing(here):
    """A run that waits in `sub/y`, and a way to resume it under a changed graph."""

    def resume(change, **keywords):
        plan = Plan()
        change(plan)
        here.chain = plan.build(here.world, here.store)
        return attempt(here.chain, "resume", here.flavour, RUN, YES, **keywords)

    here.chain = Plan().build(here.world, here.store)
    assert here("execute", {}, RUN).status == "paused"
    resume.here = here
    return resume


def refuses(resume, change, names, **keywords):
    """The change is refused by name, nothing is consumed, and the graph as it was leads on."""
    here = resume.here
    before, marks = here.dump(), here.marks
    came = resume(change, **keywords)
    assert (came.error, "ChainResumeError" in came.bases) == ("GraphChanged", True), came
    assert names in came.text
    assert (here.dump(), here.marks) == (before, marks)
    assert resume(TAKEN["nothing"]).final_state["path"] == ["a", "b", "x", "y", "z", "d", "e"]


@pytest.mark.case("S73")
@pytest.mark.parametrize("accept", [False, True])
@pytest.mark.parametrize("what", FOR_GOOD)
def test_a_graph_without_the_place_where_the_run_stands_is_refused_for_good(standing, what, accept):
    """Wrong: starting at the first node again, ending quietly, or consuming the question first."""
    refuses(standing, *FOR_GOOD[what], accept_graph=accept)


@pytest.mark.parametrize("what", UNLESS_ACCEPTED)
def test_a_change_of_what_has_run_is_refused(standing, what):
    """Wrong: comparing names only, the newest node only, or the outermost level only."""
    refuses(standing, *UNLESS_ACCEPTED[what])


@pytest.mark.parametrize("what", UNLESS_ACCEPTED)
def test_a_change_of_what_has_run_is_taken_on_demand_and_is_the_graph_from_then_on(standing, what):
    """Wrong: `accept_graph` that is ignored, or that has to be given again for the same graph."""
    here = standing.here
    here.world.shatter("d")
    change, _ = UNLESS_ACCEPTED[what]
    assert standing(change, accept_graph=True).error == "Broken"
    here.world.mend("d")
    assert attempt(here.chain, "resume", here.flavour, RUN).status == "completed"


@pytest.mark.parametrize("what", TAKEN)
def test_a_change_further_on_is_taken(standing, what):
    """Wrong: any difference at all counts as a changed graph, so that nobody can ever mend a later node."""
    came = standing(TAKEN[what])
    assert came.status == "completed", came
    assert came.final_state["path"][:4] == ["a", "b", "x", "y"]


@pytest.mark.case("S73")
@pytest.mark.parametrize("accept", [False, True])
@pytest.mark.parametrize(
    ("crash", "change", "names"),
    [
        ("before node d", lambda plan: plan.renamed("d", "dee"), "'d'"),
        ("before append sub/z", lambda plan: plan.renamed_below("z", "zed"), "'sub/z'"),
        ("before append b", lambda plan: plan.renamed("b", "bee"), "'b'"),
    ],
)
def test_a_crashed_run_is_refused_where_the_node_that_is_due_is_gone(standing, crash, change, names, accept):
    """Wrong: a missing due node that counts as finished, so that the run ends as completed."""

    def die(boundary):
        if str(boundary) == crash:
            raise SimulatedCrash

    here = standing.here
    plan = Plan()
    plan.below["y"] = {}
    here.chain = plan.build(here.world, here.store)
    with observe(die), pytest.raises(SimulatedCrash):
        here("execute", {}, "crashed")
    before = here.dump()
    change(plan)
    here.chain = plan.build(here.world, here.store)
    came = attempt(here.chain, "resume", here.flavour, "crashed", accept_graph=accept)
    assert came.error == "GraphChanged"
    assert names in came.text
    assert here.dump() == before


@pytest.mark.parametrize("accept", [False, True])
def test_a_run_that_failed_in_a_route_is_refused_where_the_node_of_the_route_is_gone(standing, accept):
    """Wrong: an open route that is forgotten because its node has committed already."""
    here = standing.here
    plan = Plan()
    plan.edges[1] = ("b", "a", breaks, 2)
    here.chain = plan.build(here.world, here.store)
    assert attempt(here.chain, "execute", here.flavour, {}, "failed").error == "ZeroDivisionError"
    plan.renamed("b", "bee")
    here.chain = plan.build(here.world, here.store)
    came = attempt(here.chain, "resume", here.flavour, "failed", accept_graph=accept)
    assert came.error == "GraphChanged"
    assert "'b'" in came.text


@pytest.mark.case("S73")
@pytest.mark.parametrize("gone", ["renamed", "removed"])
def test_a_fresh_process_whose_code_has_lost_the_paused_node_is_told_so_and_keeps_the_question(play, gone):
    """Wrong: KeyError, a restart at the first node, or a claim before the check."""
    play.start("asking")
    before = play.dump()
    came = play.resume(YES, story=f"asking_{gone}")
    assert came.error == "GraphChanged"
    assert "'b'" in came.text
    assert [one.interrupt_id for one in play.pending()] == ["b#1/1"]
    assert play.dump() == before
    assert play.resume(YES).status == "completed"
    assert play.marks == ["a", "b", "b", "c", "pay c"]


def test_the_error_is_one_of_those_that_say_how_a_run_cannot_be_resumed():
    assert GraphChanged.__mro__[1].__name__ == "ChainResumeError"


@pytest.mark.parametrize("accept", [False, True])
def test_a_missing_node_beside_a_nested_chain_that_asks_is_named(store, accept):
    """Wrong: the machine is asked what is due next in a graph that lacks what is due."""
    inner = Chain("team").add_node("ask", lambda _: {"ok": interrupt("ok?").approved})

    def build(join):
        chain = Chain("c", checkpointer=store).add_node("start", lambda _: None).add_node(join, lambda _: None)
        chain.add_node("team", inner)
        return chain.connect("start", join).connect("start", "team").connect("team", join)

    build("join").execute({}, RUN)
    with pytest.raises(GraphChanged, match="'join'"):
        build("other").resume(RUN, YES, accept_graph=accept)
    assert build("join").resume(RUN, YES).status == "completed"
