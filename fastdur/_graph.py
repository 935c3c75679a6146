"""The graph of a chain: nodes, edges, what is wrong with it, and which node comes next. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fastdur._codec import checked_name
from fastdur._functions import awaitable, discard, is_async
from fastdur.errors import CycleLimitError, GraphError, NodeIsAsync, RoutingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fastdur._codec import Frozen
    from fastdur._steps import Machine

Condition = "Callable[[dict[str, Any]], bool]"


@dataclass(frozen=True, slots=True)
class Node:
    """One node: a function of the user's, or a machine."""

    id: str
    index: int
    fn: Callable[..., Any] | None = None
    machine: Machine | None = None
    input: Callable[..., Any] | None = None
    output_key: str | None = None
    retry: int = 0
    timeout: float | None = None

    def shape(self) -> Frozen:
        """What it is, as data: `node`, or the graph of its machine."""
        return "node" if self.machine is None else self.machine.graph()


@dataclass(frozen=True, slots=True)
class Edge:
    """One edge. With `max_iterations` it is a back edge, without it is part of the acyclic rest."""

    source: str
    target: str
    when: Callable[[dict[str, Any]], bool] | None = None
    max_iterations: int | None = None

    @property
    def key(self) -> str:
        """Its name in the counters."""
        return f"{self.source}->{self.target}"

    def shape(self) -> Frozen:
        """The edge as data; of a condition only the name."""
        name = None if self.when is None else getattr(self.when, "__qualname__", type(self.when).__qualname__)
        return [self.source, self.target, name, self.max_iterations]


@dataclass(slots=True)
class Graph:
    """Nodes and edges in the order of their declaration."""

    strict: bool = False
    nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    out: dict[str, list[Edge]] = field(default_factory=dict[str, list[Edge]])
    order: list[str] | None = None
    """Every node after those that it leads to by edges without a bound; None until the whole is valid."""
    ways: tuple[dict[str, int], dict[str, list[str]]] | None = None
    """Which nodes lead to each node, a bit for each, and which do so directly; made when a join needs them."""
    named: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    entries: list[str] = field(default_factory=list[str])
    deciding: set[str] = field(default_factory=set[str])
    """The nodes whose way out needs a decision: they have an edge with a condition or a bound."""
    again: frozenset[str] = frozenset()
    """The nodes that can be entered more than once in a run: what a back edge leads to, and all behind it."""

    def add(self, node: Node) -> None:
        """Add a node; raises `GraphError` for an id that is taken or cannot be part of an address."""
        if type(node.id) is not str or not node.id or any(mark in node.id for mark in "/#"):
            message = f"node id {node.id!r} is not a non-empty string without '/' and '#'"
            raise GraphError(message)
        try:
            checked_name(node.id, "node id")
        except ValueError as error:
            raise GraphError(str(error)) from None
        if node.id == "run_end":
            message = "node id 'run_end' is the address of the end marker; choose another"
            raise GraphError(message)
        if node.id in self.nodes:
            message = f"node {node.id!r} is already there; give each node an id of its own"
            raise GraphError(message)
        self.nodes[node.id] = node
        self.out[node.id] = []
        self.order = self.ways = None

    def connect(self, edge: Edge) -> None:
        """Add an edge; raises `GraphError` where a bound is no bound, or the same edge stands twice."""
        if edge.when is not None and is_async(edge.when):
            message = f"when= of {edge.key!r} is an `async def`, whose call is always true; give a plain function"
            raise GraphError(message)
        bound = edge.max_iterations
        if bound is not None and (type(bound) is not int or bound < 1):
            message = f"max_iterations of {edge.key!r} is {bound!r}; give a whole number from 1"
            raise GraphError(message)
        pair = edge.source, edge.target
        taken = self.named.get(edge.key, None)
        if taken == pair:
            message = f"edge {edge.key!r} is already there; put both conditions into one `when`"
            raise GraphError(message)
        if taken is not None:
            message = (
                f"the edge from {pair[0]!r} to {pair[1]!r} and the one from {taken[0]!r} to {taken[1]!r} have the same "
                f"name, {edge.key!r}, under which they are counted; rename a node"
            )
            raise GraphError(message)
        self.named[edge.key] = pair
        self.out.setdefault(edge.source, []).append(edge)
        if edge.when is not None or bound is not None:
            self.deciding.add(edge.source)
        self.order = self.ways = None

    def validate(self) -> None:
        """Raise `GraphError` naming the first thing that is wrong with the whole."""
        if self.order is not None:
            return
        if not self.nodes:
            message = "the chain has no node; add one with add_node()"
            raise GraphError(message)
        self._check_ends()
        self._check_bounds()
        order = self._in_order()
        self._check_entries()
        # Another thread may be here too, or already running: what is made is never changed, and `order` comes last.
        self.order = order

    def _edges(self) -> Iterable[Edge]:
        return (edge for edges in self.out.values() for edge in edges)

    def _check_ends(self) -> None:
        for edge in self._edges():
            for end in (edge.source, edge.target):
                if end not in self.nodes:
                    message = f"edge {edge.key!r} names node {end!r}, which was never added"
                    raise GraphError(message)

    def _check_bounds(self) -> None:
        for source, edges in self.out.items():
            plain = [edge for edge in edges if edge.when is None]
            if len(plain) > 1 and any(edge.max_iterations is not None for edge in plain):
                message = (
                    f"node {source!r} has an unconditional back edge beside other unconditional edges, "
                    "so it would go back and on at once; give the back edge a `when`"
                )
                raise GraphError(message)

    def _in_order(self) -> list[str]:
        """Every node after those that it leads to by edges without a bound. Refuses a cycle among these edges."""
        order: list[str] = []
        seen: set[str] = set()
        for start in self.nodes:
            ahead = [(start, iter(self._forward(start)))] if start not in seen else []
            above = {start}
            seen.add(start)
            while ahead:
                node, targets = ahead[-1]
                target = next(targets, None)
                if target is None:
                    ahead.pop()
                    above.discard(node)
                    order.append(node)
                elif target in above:
                    message = f"the edge {node + '->' + target!r} closes a cycle; give it max_iterations"
                    raise GraphError(message)
                elif target not in seen:
                    seen.add(target)
                    above.add(target)
                    ahead.append((target, iter(self._forward(target))))
        return order

    def _ways(self) -> tuple[dict[str, int], dict[str, list[str]]]:
        before = dict.fromkeys(self.nodes, 0)
        sources: dict[str, list[str]] = {name: [] for name in self.nodes}
        for node in reversed(self.order or ()):
            for target in self._forward(node):
                before[target] |= before[node] | 1 << self.nodes[node].index
                sources[target].append(node)
        return before, sources

    def _forward(self, node: str) -> list[str]:
        return [edge.target for edge in self.out[node] if edge.max_iterations is None]

    def _check_entries(self) -> None:
        targets = {edge.target for edge in self._edges()}
        forward = {edge.target for edge in self._edges() if edge.max_iterations is None}
        self.entries = [name for name in self.nodes if name not in targets] or [
            name for name in self.nodes if name not in forward
        ]
        seen = self._behind(self.entries)
        self.again = self._behind(edge.target for edge in self._edges() if edge.max_iterations is not None)
        for name in self.nodes:
            if name not in seen:
                message = f"node {name!r} is reached from no entry; connect it or remove it"
                raise GraphError(message)

    def _behind(self, starts: Iterable[str]) -> frozenset[str]:
        """These nodes and all that any edges lead to from them."""
        ahead = list(starts)
        seen = set(ahead)
        while ahead:
            for edge in self.out[ahead.pop()]:
                if edge.target not in seen:
                    seen.add(edge.target)
                    ahead.append(edge.target)
        return frozenset(seen)

    def shape(self, name: str, kind: str) -> dict[str, Frozen]:
        """The whole as data. Raises like `validate`."""
        self.validate()
        return {
            "name": name,
            "kind": kind,
            "entries": list(self.entries),
            "nodes": {node.id: node.shape() for node in self.nodes.values()},
            "edges": [edge.shape() for edge in self._edges()],
        }

    # -- what comes next -----------------------------------------------------------------------------------------------

    def pick(self, due: list[str]) -> str:
        """The due node to run: the first that no other due node can still reach, so that a join waits for all."""
        if len(due) == 1:
            return due[0]
        others = frozenset(due)
        # There is one, because the edges that count here close no cycle.
        return next(name for name in due if not self._waits(name, others))

    def _waits(self, name: str, due: frozenset[str]) -> bool:
        """Whether one of the due nodes leads to `name`; costs no more than looking at all of these, or all of those."""
        ways = self.ways = self.ways or self._ways()
        before, sources = ways[0][name], ways[1]
        if before.bit_count() > len(due):
            return any(before >> self.nodes[other].index & 1 for other in due)
        ahead, seen = [name], {name}
        while ahead and before:
            fresh = [source for source in sources[ahead.pop()] if source not in seen]
            if not due.isdisjoint(fresh):
                return True
            seen.update(fresh)
            ahead += fresh
        return False

    def route(self, node: str, loops: Mapping[str, int], state: dict[str, Any]) -> list[int]:
        """Which edges out of `node` are taken: the first whose `when` is true, else the unconditional ones.

        Runs user code. Raises `CycleLimitError` where a bound is used up, `RoutingError` where `strict` finds none.
        """
        edges = self.out[node]
        for place, edge in enumerate(edges):
            if edge.when is not None and _is_true(edge, edge.when(state)):
                taken = [place]
                break
        else:
            taken = [place for place, edge in enumerate(edges) if edge.when is None]
        if not taken and self.strict:
            message = f"no edge out of {node!r} is true for this state; add an unconditional edge or drop strict=True"
            raise RoutingError(message)
        for place in taken:
            edge = edges[place]
            if edge.max_iterations is not None and loops.get(edge.key, 0) >= edge.max_iterations:
                message = (
                    f"edge {edge.key!r} was taken {edge.max_iterations} times, its bound. Raise max_iterations and "
                    "resume with accept_graph=True, fork from an earlier row, or cancel"
                )
                raise CycleLimitError(message)
        return taken

    def follow(self, node: str, taken: Iterable[int] | None, due: list[str]) -> list[str]:
        """The due nodes after these edges were taken, or all: successors first, in declaration order, each once."""
        edges = self.out[node]
        targets = [edge.target for edge in (edges if taken is None else map(edges.__getitem__, taken))]
        return [*(target for target in targets if target not in due), *due] if due else targets


def _is_true(edge: Edge, answer: object) -> bool:
    if awaitable(answer):
        discard(answer)
        message = f"when= of {edge.key!r} returned a coroutine, which is always true; return True or False"
        raise NodeIsAsync(message)
    return bool(answer)
