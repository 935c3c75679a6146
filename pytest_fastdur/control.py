"""The control runs: the story without a fault, twice. They give the boundaries, and what every other run is held to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from pytest_fastdur.differences import other_differences, row_differences, steps_of
from pytest_fastdur.evidence import End
from pytest_fastdur.faults import Point, SweepError, digest_of
from pytest_fastdur.invariants import open_questions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_fastdur.durable import DurableState
    from pytest_fastdur.ledger import Tally
    from pytest_fastdur.observers import Event
    from pytest_fastdur.story import Story
    from pytest_fastdur.world import World

MOST_LIFETIMES = 100


@dataclass(frozen=True)
class Control:
    """The uninterrupted run."""

    points: list[Point]
    kinds: dict[str, Point]
    """The first instant of each kind of boundary, before and after."""
    events: dict[Point, Event]
    """What was seen at each instant."""
    state: DurableState
    tallies: Mapping[str, Tally]
    counted: Mapping[str, int]
    questions: int
    longest: int
    lifetimes: int
    awaited: bool
    """Whether it runs on an event loop."""
    lines: frozenset[str]
    """The lines of the functions of its runner, where they are boundaries."""
    left: frozenset[str]
    """The kinds of what its lifetimes leave open, threads or files: no leak of such a kind can be judged."""

    @cached_property
    def end(self) -> End:
        """How it ends."""
        return End.of(self.state)

    @property
    def boundaries(self) -> list[str]:
        """Every instant of the run, in order."""
        return [str(point) for point in self.points]

    @property
    def digest(self) -> str:
        """What stands for the list in a token."""
        return digest_of(self.boundaries)


class ControlError(SweepError):
    """The story does not stand by itself: it fails, contradicts itself or varies without any fault."""


def controlled(story: Story, fresh_world: Callable[[], World]) -> Control:
    """Play the story twice without a fault. Raises `ControlError` where it does not end well, or not twice the same."""
    first, second = _played(story, fresh_world()), _played(story, fresh_world())
    difference = next(_differences(first, second), None)
    if difference is not None:
        message = (
            f"not deterministic: {difference}. Without any fault two runs on the same input must do the same; "
            "hand in what varies with the input, or read it inside an effect, which is recorded."
        )
        raise ControlError(message)
    if not first.points:
        message = f"story {story.name!r} passes no boundary, so there is nothing to fault; does it run on a store?"
        raise ControlError(message)
    _check_effects(story, first)
    _check_answers(story, first)
    return first


def limits_of(control: Control) -> Iterator[str]:
    """What cannot be shown by a story that is as it is."""
    yield from _unused_bounds(control)
    for kind in sorted(control.left):
        yield f"note: the story itself leaves {kind}s open at the end of a lifetime, so no leak of a {kind} would show"


def _unused_bounds(control: Control) -> Iterator[str]:
    """The cycles that the uninterrupted run does not take as often as they may be taken.

    Where a crash loses the counter of such a cycle, the run still ends alike, and no sweep can tell.
    """
    run = control.state.run
    most: dict[str, int] = {}
    for row in () if run is None else run.rows:
        for edge, count in row.iteration_counters.items():
            most[edge] = max(count, most.get(edge, 0))
    graph: Any = None if run is None else run.head.graph
    for source, target, _, bound in _edges(graph):
        taken = most.get(f"{source}->{target}", 0)
        if bound is not None and taken < bound:
            yield (
                f"note: the cycle {source}->{target} may be taken {bound} times and is taken {taken} times: "
                "a counter that a crash loses would not show; use it up"
            )


def _edges(graph: Any) -> Iterator[tuple[str, str, Any, int | None]]:
    """The edges of a stored graph, and of the graphs in its nodes."""
    if isinstance(graph, dict):
        known = cast("dict[str, Any]", graph)
        for edge in known.get("edges", ()):
            yield tuple(edge)
        for node in known.get("nodes", {}).values():
            yield from _edges(node)


def nodes_of(control: Control) -> list[str]:
    """The nodes of the runner, and of runners inside of it, by its name and their address."""
    run = control.state.run
    return [] if run is None else [f"{run.head.runner}/{address}" for address in _addresses(run.head.graph)]


def _addresses(graph: Any) -> Iterator[str]:
    """The addresses of the functions that a stored graph calls."""
    shape: dict[str, Any] = cast("dict[str, Any]", graph) if isinstance(graph, dict) else {}
    swarm = shape.get("kind") == "swarm"
    # The ways to hand over are tools of the members, and edges here: nothing is called there.
    ways = {f"{edge[0]}/tool:handoff_to_{edge[1]}" for edge in shape.get("edges", ()) if swarm}
    for name, node in shape.get("nodes", {}).items():
        inner = [f"{name}/{address}" for address in _addresses(node)]
        yield from [each for each in inner if each not in ways] or [name]


def names_of(address: str) -> set[str]:
    """What a graph may call the node at an address: a tool has one name there, in whatever turn it is called."""
    parts = [part.partition("#")[0] for part in address.split("/") if not _TURN.fullmatch(part)]
    return {address, "/".join(parts)}


_TURN = re.compile(r"turn:\d+")


def _played(story: Story, world: World) -> Control:
    while (call := world.next_call()) is not None:
        lifetime = world.live(call)
        if lifetime.how not in ("completed", "paused"):
            message = f"the story does not complete without a fault: {lifetime}"
            raise ControlError(message)
        if len(world.lifetimes) > MOST_LIFETIMES:
            message = f"the story does not complete without a fault in {MOST_LIFETIMES} lifetimes"
            raise ControlError(message)
    broken = sorted([*world.violations, *world.repeats()], key=lambda violation: violation.verdict.value)
    if broken or world.status != "completed":
        what = f"{broken[0].verdict}: {broken[0].what}" if broken else f"the run ended {world.status}"
        message = f"the story breaks a promise without any fault: {what}"
        raise ControlError(message)
    events = [(life.call.label, event) for life in world.lifetimes for event in life.events]
    kinds: dict[str, Point] = {}
    for label, event in events:
        kinds.setdefault(f"{event.when} {event.kind}", Point(label, event.when, event.name))
    control = Control(
        [Point(label, event.when, event.name) for label, event in events],
        kinds,
        {Point(label, event.when, event.name): event for label, event in events},
        world.state,
        {} if story.ledger is None else story.ledger.tallies(),
        story.counted(),
        sum(life.how == "paused" for life in world.lifetimes),
        max((len(life.events) for life in world.lifetimes), default=0),
        len(world.lifetimes),
        any(life.awaited for life in world.lifetimes),
        frozenset(line for life in world.lifetimes for line in life.lines),
        frozenset(world.left),
    )
    world.close()
    return control


def _check_effects(story: Story, control: Control) -> None:
    happened = {**control.tallies, **control.counted}
    for name in story.effects:
        if name not in happened:
            message = (
                f"effect {name!r} is declared and did not happen; what happened: "
                f"{', '.join(map(repr, happened)) or 'nothing'}. Wrap it with effects.wrap({name!r}, fn)."
            )
            raise ControlError(message)


def _check_answers(story: Story, control: Control) -> None:
    """Refuse an answer that nothing asks for: a name is misspelt, or a gate is gone."""
    asked: set[object] = set()
    for run in control.state.runs:
        for row in run.rows:
            if row.step_type == "hitl_pause":
                asked |= {row.interrupt_reason, row.node_id, *open_questions(row.frames)}
    for name, answer in story.answers.items():
        if name not in asked and not callable(answer):
            message = (
                f"story {story.name!r} has an answer to {name!r}, and nothing asks that. Take it out or mend the gate; "
                "what only a failure asks is answered by a function of the question."
            )
            raise ControlError(message)


def _differences(first: Control, second: Control) -> Iterator[str]:
    yield from _effects(first, second)
    one, other = (steps_of(control.state.run) for control in (first, second))
    yield from row_differences(one, other, ("the first run", "the second"))
    yield from other_differences(first.end.others, second.end.others, ("the first run", "the second"))
    for place, (was, now) in enumerate(zip(first.boundaries, second.boundaries, strict=False), start=1):
        if was != now:
            yield f"boundary {place} is {was!r} in the first run and {now!r} in the second"
    if len(first.boundaries) != len(second.boundaries):
        yield f"the first run passes {len(first.boundaries)} boundaries and the second {len(second.boundaries)}"


def _effects(first: Control, second: Control) -> Iterator[str]:
    for name in {**first.tallies, **second.tallies}:
        one, other = (control.tallies.get(name) for control in (first, second))
        counts = [0 if tally is None else tally.entered for tally in (one, other)]
        if counts[0] != counts[1]:
            yield f"effect {name!r} happened {counts[0]} times in the first run and {counts[1]} times in the second"
    if first.counted != second.counted:
        yield f"the provider counted {dict(first.counted)} in the first run and {dict(second.counted)} in the second"
