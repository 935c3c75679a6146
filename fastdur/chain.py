"""`Chain`: nodes and edges, run one after another, durable between any two."""

from __future__ import annotations

from functools import partial
from threading import TIMEOUT_MAX
from typing import TYPE_CHECKING, Any, Self

from fastdur._graph import Edge, Graph, Node
from fastdur._live import Snapshot
from fastdur._nested import check_inside
from fastdur._runner import Runner
from fastdur._runs import checked_flag
from fastdur._spoken import with_below
from fastdur._steps import Call, Done, Push, Return
from fastdur._visits import count, with_visit
from fastdur.errors import GraphError, NotStorable

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from fastdur._codec import Frozen
    from fastdur._steps import Going, Machine, Outcome, State, Step
    from fastdur.checkpointers.protocol import Checkpointer


class Chain(Runner):
    """A durable graph of functions.

    `checkpointer=None` is the default store (`$FASTDUR_DB` or `.fastdur/fastdur.db`), `False` is none: then nothing is
    stored, nothing can be resumed and `interrupt()` raises. `strict=True` makes it an error when none of a node's edges
    is true. A chain that is a node of another writes into its parent's run and store.
    """

    kind = "chain"

    def __init__(
        self, name: str, checkpointer: Checkpointer | Literal[False] | None = None, *, strict: bool = False
    ) -> None:
        super().__init__(name, checkpointer)
        self._graph = Graph(checked_flag(strict, "strict"))

    # -- building ------------------------------------------------------------------------------------------------------

    def add_node(
        self,
        id: str,
        fn: Callable[[dict[str, Any]], Any] | Runner,
        *,
        input: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        output_key: str | None = None,
        retry: int = 0,
        timeout: float | None = None,
    ) -> Self:
        """Add a node: `fn(state) -> dict | None`, sync or async, or a runner.

        A returned dict is merged into the state key by key, changes in place count, anything else is refused unless
        `output_key` names the key to store it under. `retry` is how often a node is tried again after an exception of
        its own, `timeout` is in seconds for each try. `input` (runners only) makes the runner's input from the state;
        without it the runner starts from a copy of the state, and what it changed is merged back.
        """
        self._check_idle("add_node() was called")
        _checked_options(id, output_key, timeout)
        index = len(self._graph.nodes)
        if isinstance(fn, Runner):
            node = _machine_node(id, index, fn, input, output_key=output_key, retry=retry, timeout=timeout)
        else:
            node = _function_node(id, index, fn, input, output_key=output_key, retry=retry, timeout=timeout)
        self._graph.add(node)
        return self

    def connect(
        self,
        source: str,
        target: str,
        when: Callable[[dict[str, Any]], bool] | None = None,
        max_iterations: int | None = None,
    ) -> Self:
        """Add an edge. Of a node's edges the first whose `when(state)` is true is taken, else all without a `when`.

        `max_iterations` makes it a back edge: it may close a cycle and is taken at most that often in one run.
        """
        if when is not None and not callable(when):
            message = f"when= of edge {f'{source}->{target}'!r} is {when!r}; give a function of the state"
            raise GraphError(message)
        self._check_idle("connect() was called")
        self._graph.connect(Edge(source, target, when, max_iterations))
        return self

    def validate(self) -> None:
        """Raise `GraphError` naming what is wrong with the graph; `execute` and `resume` call it first."""
        self._graph.validate()
        check_inside(self)

    def runners(self) -> list[tuple[str, Runner]]:
        """The nodes that are runners."""
        nodes = self._graph.nodes.values()
        return [(node.id, node.machine) for node in nodes if isinstance(node.machine, Runner)]

    def functions(self) -> list[tuple[str, Callable[..., Any]]]:
        """Every function of the user's with the place it stands at, nested runners included."""
        found = [(f"{at}/{place}", fn) for at, runner in self.runners() for place, fn in runner.functions()]
        for node in self._graph.nodes.values():
            found += [(node.id, fn) for fn in (node.fn, node.input) if fn is not None]
        found += [
            (edge.key, edge.when) for edges in self._graph.out.values() for edge in edges if edge.when is not None
        ]
        return found

    # -- the machine ---------------------------------------------------------------------------------------------------

    def graph(self) -> Frozen:
        """The topology as data."""
        return self._graph.shape(self.name, self.kind)

    def child(self, place: str) -> Machine:
        """The machine of the node `place`."""
        machine = self._graph.nodes[place].machine
        assert machine is not None, place
        return machine

    def begin(self, data: State) -> State:
        """The state of a new frame; without `due` its entry nodes are due."""
        return {"data": data}

    def addresses(self, state: State) -> list[str]:
        """The nodes this state will enter, or whose way out it will decide."""
        route: Any = state.get("route")
        due: Any = state.get("due", self._graph.entries)
        return [*due, route] if route is not None else list(due)

    def next(self, state: State) -> Step:
        """The open route, else the first due node, else the end."""
        route: Any = state.get("route")
        data: Any = state["data"]
        if route is not None:
            loops: Any = state.get("loops", {})
            decide = partial(self._graph.route, route, loops)
            return Call("route", route, count(state, route), self._graph.nodes[route].index, decide, data)
        due: Any = state.get("due", self._graph.entries)
        if not due:
            return Return()
        node = self._graph.nodes[self._graph.pick(due)]
        visit = count(state, node.id) + 1 if node.id in self._graph.again else 1
        if node.machine is None:
            assert node.fn is not None
            return Call("node", node.id, visit, node.index, node.fn, data, node.output_key, node.retry, node.timeout)
        if node.input is not None and "given" not in state:
            return Call("input", node.id, visit, node.index, node.input, data)
        given: Any = state.get("given", data)
        return Push(node.id, visit, node.index, node.machine, given, node.output_key)

    def apply(self, state: State, step: Going, outcome: Outcome) -> State:
        """The state after a call returned or a nested machine ended."""
        assert isinstance(step, (Call, Push)), step
        if isinstance(outcome, Done):
            if isinstance(step, Call) and step.kind == "route":
                return self._routed(state, step.node, outcome.value)
            if isinstance(step, Call) and step.kind == "input":
                return {**state, "given": outcome.value}
            return self._committed(state, step, outcome.data, outcome.changed, outcome.value)
        assert isinstance(outcome, dict), outcome
        data, changed = _merged(state, step.output_key, outcome)
        entered = {key: part for key, part in with_below(state, outcome, step.node).items() if key != "given"}
        return self._committed(entered, step, data, changed, list(changed))

    def _committed(
        self, state: State, step: Call | Push, data: State, changed: tuple[str, ...], out: list[str]
    ) -> State:
        graph, node = self._graph, step.node
        due: Any = state.get("due", graph.entries)
        rest = _without(due, node)
        decides = node in graph.deciding
        counter, visits = with_visit(state, node, step.visit, again=node in graph.again)
        after: State = {
            **state,
            "data": data,
            "due": rest if decides else graph.follow(node, None, rest),
            counter: visits,
            "out": out if step.output_key is None else step.output_key,
        }
        touched: Any = state.get("touched", [])
        fresh = [key for key in changed if key not in touched]
        if fresh:
            after["touched"] = [*touched, *fresh]
        if decides:
            after["route"] = node
        return after

    def _routed(self, state: State, node: str, taken: list[int]) -> State:
        due: Any = state["due"]
        loops: Any = state.get("loops", {})
        after = {key: part for key, part in state.items() if key != "route"}
        after["due"] = self._graph.follow(node, taken, due)
        back = [edge.key for edge in (self._graph.out[node][place] for place in taken) if edge.max_iterations]
        if back:
            after["loops"] = {**loops, **{key: loops.get(key, 0) + 1 for key in back}}
        return after


def _without(due: list[str], node: str) -> list[str]:
    place = due.index(node)
    return due[:place] + due[place + 1 :]


def _merged(state: State, output_key: str | None, child: State) -> tuple[State, tuple[str, ...]]:
    """The parent's data after a nested machine ended: what it changed, or under `output_key` its state or output."""
    data: Any = state["data"]
    theirs: Any = child["data"]
    if output_key is not None:
        gives: Any = child.get("gives")
        return {**data, output_key: theirs if gives is None else theirs[gives]}, (output_key,)
    touched: Any = child.get("touched", [])
    kept = {key: value for key, value in data.items() if key not in touched or key in theirs}
    return {**kept, **{key: theirs[key] for key in touched if key in theirs}}, tuple(touched)


def _checked_options(id: str, output_key: Any, timeout: Any) -> None:
    """Refuse what no state can have as a key, and what is no time to wait."""
    if output_key is not None:
        try:
            Snapshot.of({output_key: None}, "output_key")
        except NotStorable as error:
            message = f"output_key= of node {id!r} is {output_key!r}, which no state can have as a key ({error})"
            raise GraphError(message) from None
    if timeout is not None and (type(timeout) not in (int, float) or not 0 < timeout <= TIMEOUT_MAX):
        message = (
            f"timeout= of node {id!r} is {timeout!r}; give a number of seconds above 0 and below {TIMEOUT_MAX:.0f}, or "
            "leave it out for none"
        )
        raise GraphError(message)


def _machine_node(id: str, index: int, runner: Runner, input: Callable[..., Any] | None, **options: Any) -> Node:
    """A node that is a runner; raises `GraphError` for options that only functions have."""
    if options.pop("retry") or options.pop("timeout") is not None:
        message = f"node {id!r} is a {runner.kind}; set retry= and timeout= on the nodes inside it"
        raise GraphError(message)
    if input is not None and not callable(input):
        message = f"input= of node {id!r} is {input!r}; give a function of the state that returns the runner's input"
        raise GraphError(message)
    return Node(id, index, machine=runner, input=input, **options)


def _function_node(id: str, index: int, fn: Callable[..., Any], input: object, **options: Any) -> Node:
    """A node that is a function; raises `GraphError` where the options do not fit it."""
    retry = options["retry"]
    if not callable(fn):
        message = f"node {id!r} is {fn!r}; give a function of the state, or a runner"
        raise GraphError(message)
    if input is not None:
        message = f"node {id!r} has input= but is a function, which reads the state itself; input= is for runners"
        raise GraphError(message)
    if type(retry) is not int or retry < 0:
        message = f"retry= of node {id!r} is {retry!r}; give a whole number from 0"
        raise GraphError(message)
    return Node(id, index, fn, **options)
