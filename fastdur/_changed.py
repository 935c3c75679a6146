"""Does a runner still fit what a run has done? Pure: the graph stored at the start against the graph of today."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fastdur._steps import Call, Push, kind_of, without_visits
from fastdur._visits import committed
from fastdur.errors import GraphChanged

if TYPE_CHECKING:
    from fastdur._codec import Frozen
    from fastdur._steps import Machine
    from fastdur.records import Frame

_FORMS: Final = {"agent": "agent", "supervisor": "agent", "swarm": "swarm"}


def check_graph(stored: Frozen, machine: Machine, frame: Frame, *, accept: bool) -> Frozen:
    """Raise `GraphChanged` naming the first difference that matters; return the graph to store, None if unchanged.

    What has run, the edges out of it and every address in the frames must be as they were. With `accept` only the
    addresses must exist, in a machine of the same kind. Differences further on are taken.
    """
    today = machine.graph()
    found = next(iter(_missing(stored, today, machine, frame, "")), None)
    if found is None and not accept:
        found = next(iter(_differences(stored, today, frame, "")), None)
    if found is not None:
        way = "" if accept else "; put it back, or take the new graph with accept_graph=True where its addresses exist"
        message = f"{machine.kind} {machine.name!r} does not fit the stored run: {found}{way}. Nothing was consumed."
        raise GraphChanged(message)
    return None if stored == today else today


def _missing(stored: Any, today: Any, machine: Machine, frame: Frame, at: str) -> list[str]:
    """The addresses in the frames that the graph of today does not have."""
    nodes = today["nodes"]
    if _form(stored, today) != _form(today, today):
        where = "it" if not at else f"node {at[:-1]!r}, inside which the run stands,"
        return [f"{where} was {_a(stored)} and is {_a(today)}, which cannot go on from there"]
    here = stored["entries"] if _at_its_start(stored, frame) else machine.addresses(frame.state)
    found = [f"node {at + name!r}, where the run stands, is not there" for name in here if name not in nodes]
    found += [] if found else machine.misfits(frame.state)
    if frame.questions and not found:
        asked = without_visits(frame.questions[-1].id)
        step = machine.next(frame.state)
        if not isinstance(step, Call) or at + step.node != asked:
            found.append(f"node {asked!r}, which asked a question, is no longer a function that is due next")
    for child in frame.children:
        kind = kind_of(child.place)
        if kind not in nodes:
            found.append(f"node {at + child.place!r}, where the run stands, is not there")
        elif nodes[kind] == "node":
            found.append(f"node {at + child.place!r}, inside which the run stands, is now a function")
        elif not found:
            step = machine.next(frame.state)
            alone = len(frame.children) == 1
            if alone and (not isinstance(step, Push) or step.node != child.place):
                found.append(f"node {at + child.place!r}, inside which the run stands, is no longer due next")
                continue
            below = machine.child(child.place)
            before: Any = None if stored is None else stored["nodes"].get(kind)
            was: Any = None if before == "node" else before
            found += _missing(was, nodes[kind], below, child, f"{at}{child.place}/")
    return found


def _form(graph: Any, instead: Any) -> str:
    """What the frames of a machine look like: a supervisor is an agent, and a kind of a user's own a chain.

    Of a machine that is not known, what is there `instead` counts.
    """
    return _FORMS.get((graph or instead)["kind"], "chain")


def _a(graph: Any) -> str:
    return f"{'an' if graph['kind'] == 'agent' else 'a'} {graph['kind']}"


def _at_its_start(stored: Any, frame: Frame) -> bool:
    """Whether a frame stands where its graph begins, which only the graph says."""
    return stored is not None and "entries" in stored and not frame.children and set(frame.state) == {"data"}


def _differences(stored: Any, today: Any, frame: Frame, at: str) -> list[str]:
    """What differs in the nodes that have run, in the edges out of them, and along the frames."""
    found = [
        f"its {what} was {stored[what]!r} and is {today[what]!r}"
        for what in ("name", "kind")
        if stored[what] != today[what] and not at
    ]
    if _at_its_start(stored, frame):
        begun = [name for name in stored["entries"] if name not in today["entries"]]
        found += [f"node {at + name!r}, where the run begins, is no longer a first node" for name in begun]
    visits = committed(frame.state)
    before, now = stored["nodes"], today["nodes"]
    for name in visits:
        if name not in now:
            if name in before:  # else its absence was accepted before
                found.append(f"node {at + name!r}, which has run, is not there")
        elif before.get(name) != now[name]:
            found.append(f"node {at + name!r}, which has run, was {_said(before.get(name))} and is {_said(now[name])}")
        found += _edge_differences(stored, today, name, at)
    for child in frame.children:
        old, new = before.get(kind_of(child.place)), now[kind_of(child.place)]
        if isinstance(old, dict) and old["kind"] == new["kind"]:
            found += _differences(old, new, child, f"{at}{child.place}/")
        else:
            found.append(f"node {at + child.place!r} was {_said(old)} and is {_said(new)}")
    return found


def _edge_differences(stored: Any, today: Any, name: str, at: str) -> list[str]:
    old, new = ([edge[1:] for edge in graph["edges"] if edge[0] == name] for graph in (stored, today))
    if old == new:
        return []
    return [f"the edges out of {at + name!r}, which has run, were {_edges(old)} and are {_edges(new)}"]


def _edges(edges: list[list[Any]]) -> str:
    def one(target: str, when: str | None, bound: int | None) -> str:
        return f"to {target!r}" + (f" when {when}" if when else "") + (f" at most {bound} times" if bound else "")

    return ", ".join(one(*edge) for edge in edges) or "none"


def _said(shape: Any) -> str:
    if shape is None:
        return "missing"
    return (
        "a function"
        if shape == "node"
        else f"the {shape['kind']} {shape['name']!r} with nodes {sorted(shape['nodes'])}"
    )
