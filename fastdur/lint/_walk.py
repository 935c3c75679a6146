"""The way from a node to what it reaches, function by function."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastdur.lint._findings import Place, Step
from fastdur.lint._graph import place

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from fastdur.lint._graph import Graph, Root, Site
    from fastdur.lint._values import Env, Function


@dataclass(frozen=True, slots=True)
class Visit:
    """A function on the way from a root.

    A finding stands in the file of the root, at the last call of the way before it leads into another file or into a
    function that an effect calls too: what those do may be right for others.
    """

    root: Root
    function: Function
    env: Env
    later: bool
    """Whether a question may come after this function has returned, in the same pass."""
    anchor: Place | None
    """Where the way has left what only the root is to blame for; None where it has not."""
    way: tuple[Step, ...]

    def at(self, node: ast.AST) -> Place:
        """Where a finding about `node` stands."""
        return self.anchor or place(node, self.function.module)

    def to(self, node: ast.AST, name: str) -> tuple[Step, ...]:
        """The way to a call in this function."""
        return (*self.way, Step(place(node, self.function.module), name))


def visits(graph: Graph, root: Root) -> Iterator[Visit]:
    """The functions that a root reaches, itself first, each by a shortest way; what effects do is theirs."""
    home = root.function.module
    first = Step(place(root.function.node, home), root.function.name)
    ahead = deque([Visit(root, root.function, None, later=False, anchor=None, way=(first,))])
    seen: set[tuple[Function, Env, bool, Place | None]] = set()
    while ahead:
        visit = ahead.popleft()
        key = visit.function, visit.env, visit.later, visit.anchor
        if key in seen:
            continue
        seen.add(key)
        yield visit
        followed = graph.followed(visit.function, visit.env)
        for site in graph.sites(visit.function, visit.env):
            later = visit.later or site.call in followed
            for function, env in site.functions:
                inside = visit.anchor is None and function.module is home and not graph.is_shared(function, root)
                anchor = None if inside else visit.at(site.call)
                ahead.append(Visit(root, function, env, later, anchor, visit.to(site.call, function.name)))


def is_followed(graph: Graph, visit: Visit, site: Site) -> bool:
    """Whether a question may come after this call, in the same pass of the node."""
    return visit.later or site.call in graph.followed(visit.function, visit.env)


def said(way: tuple[Step, ...]) -> str:
    """A way in one line; nothing where the call stands in the root itself."""
    if len(way) < 3:  # noqa: PLR2004 - the root and the call itself
        return ""
    steps = [f"{step.name} ({step.place.path}:{step.place.line})" for step in way[1:-1]]
    return f" Way: {' > '.join([way[0].name, *steps, way[-1].name])}."
