"""Hypothesis strategies for whole programs: chains, agents and teams, small enough to be crashed everywhere.

    @given(chains())
    def test_any_chain_survives_any_crashes(program):
        with EffectLedger() as ledger:
            assert explore(program.story(ledger)).ok

A program is data, so a failure prints it whole and shrinks it. Hypothesis draws the program, the closure exhausts its
crashes; `outcome` plays it without a fault, to be compared from store to store and from sync to async.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from hypothesis import strategies as st

from fastdur import Chain, Happened, NotHappened, effect_key, idempotent, interrupt
from pytest_fastdur.control import controlled
from pytest_fastdur.faults import Fault
from pytest_fastdur.ledger import EffectLedger
from pytest_fastdur.lockstep_lives import VALUES
from pytest_fastdur.stage import Worlds
from pytest_fastdur.story import Story
from pytest_fastdur.talks import YES, Relay, Talk, Team, agents, supervisors, swarms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_fastdur.backends import Backend
    from pytest_fastdur.evidence import End

__all__ = [
    "KINDS",
    "Kind",
    "Node",
    "Outcome",
    "Program",
    "Relay",
    "Talk",
    "Team",
    "agents",
    "chains",
    "outcome",
    "supervisors",
    "swarms",
]

Kind = Literal[
    "value",
    "effect",
    "effect raise",
    "effect told",
    "effect visit",
    "ask",
    "ask two",
    "effect ask",
    "ask effect",
    "nested",
]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
"""What a node does: a value; an effect, with `on_unknown="raise"`, with a provider that tells whether it happened, with
`per="visit"`; one question or two; an effect before a question, or after it; a chain of its own with an effect."""


@dataclass(frozen=True)
class Node:
    """A node of a chain: what it does, and the value that it is done with."""

    kind: Kind
    value: Any = None


@dataclass(frozen=True)
class Program:
    """A chain: nodes in a line, a way back that is taken `rounds` times, a router past the last node."""

    nodes: tuple[Node, ...]
    rounds: int = 0
    skips: bool = False
    """Whether the first node routes around the second."""
    awaited: bool = False

    def story(self, ledger: EffectLedger) -> Story:
        """What is swept."""
        return Story(
            "drawn",
            lambda store: self._chain(store, ledger),
            {"start": 1},
            {f"q{number}.{call}": lambda _: YES for number in range(len(self.nodes)) for call in (1, 2)},
            {},
            ledger,
        )

    def _chain(self, store: Any, ledger: EffectLedger) -> Chain:
        chain = Chain("drawn", store)
        names = [f"n{number}" for number in range(len(self.nodes))]
        for number, (name, node) in enumerate(zip(names, self.nodes, strict=True)):
            if node.kind == "nested":
                inner = Chain(f"inner{number}").add_node("first", _valued(node.value, f"in{number}"))
                inner.add_node("second", _acting(replace(node, kind="effect"), number, ledger)).connect(
                    "first", "second"
                )
                chain.add_node(name, inner)
            else:
                body = _acting(node, number, ledger)
                chain.add_node(name, _awaited(body) if self.awaited else body)
        self._connect(chain, names)
        return chain

    def _connect(self, chain: Chain, names: list[str]) -> None:
        skipping = self.skips and len(names) > 2  # noqa: PLR2004 - there is one to go around
        if self.rounds:
            chain.add_node("back", _counting)
            names = [*names, "back"]
        for place in range(len(names) - 1):
            chain.connect(names[place], names[place + 1], when=_never if skipping and place == 0 else None)
        if skipping:
            chain.connect(names[0], names[2])
        if self.rounds:
            rounds = self.rounds
            chain.add_node("end", _valued("yes", "over"))
            chain.connect("back", names[0], when=lambda state: state["turns"] <= rounds, max_iterations=rounds)
            chain.connect("back", "end")


def _never(_: dict[str, Any]) -> bool:
    return False


def _counting(state: dict[str, Any]) -> dict[str, Any]:
    return {"turns": state.get("turns", 0) + 1}


def _valued(value: Any, key: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def node(_: dict[str, Any]) -> dict[str, Any]:
        return {key: value}

    return node


def _awaited(body: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[dict[str, Any]], Any]:
    async def node(state: dict[str, Any]) -> dict[str, Any]:
        return body(state)

    return node


def _acting(node: Node, number: int, ledger: EffectLedger) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The function of a node."""

    def provide(key: str) -> Any:  # noqa: ARG001 - as a provider takes it
        return node.value

    provider = ledger.wrap(f"e{number}", provide)

    def told(_: str) -> Happened | type[NotHappened]:
        """The provider looks into its books: the ledger, which no crash takes along."""
        tally = ledger.tallies().get(f"e{number}")
        done = tally is not None and any(entry.finished and not entry.raised for entry in tally.entries)
        return Happened(node.value) if done else NotHappened

    policies: dict[str, dict[str, Any]] = {
        "effect raise": {"on_unknown": "raise"},
        "effect told": {"on_unknown": told},
        "effect visit": {"per": "visit"},
    }

    @idempotent(name=f"e{number}", **policies.get(node.kind, {}))
    def act() -> Any:
        return provider(effect_key())

    def ask(call: int) -> bool:
        return interrupt(f"q{number}.{call}", {"n": number}).approved

    deeds: dict[str, Callable[[], Any]] = {
        "value": lambda: node.value,
        "ask": lambda: ask(1),
        "ask two": lambda: [ask(1), ask(2)],
        "effect ask": lambda: [act(), ask(1)],
        "ask effect": lambda: [ask(1), act()],
    }

    def does(_: dict[str, Any]) -> dict[str, Any]:
        return {f"v{number}": deeds.get(node.kind, act)()}

    return does


def chains(
    *, values: st.SearchStrategy[Any] = VALUES, most: int = 4, rounds: int = 2, awaited: bool | None = False
) -> st.SearchStrategy[Program]:
    """Chains of up to `most` nodes of every kind, with values of every type, and up to `rounds` ways back.

    `awaited` makes their nodes `async def`; None draws it.
    """
    nodes = st.builds(Node, st.sampled_from(KINDS), values)
    return st.builds(
        Program,
        st.lists(nodes, min_size=1, max_size=most).map(tuple),
        st.integers(0, rounds),
        st.booleans(),
        st.booleans() if awaited is None else st.just(awaited),
    )


@dataclass(frozen=True)
class Outcome:
    """How a program ended without a fault: status, rows and frames, and what has happened outside."""

    end: End
    effects: Mapping[str, int]


def outcome(program: Program | Talk | Team | Relay, backend: Backend | None = None) -> Outcome:
    """Play a program without a fault. Equal on every store, and for sync and async nodes alike."""
    with EffectLedger() as ledger:
        story = program.story(ledger)
        with Worlds(story, backend, (Fault.CRASH,)) as worlds:
            control = controlled(story, worlds.fresh)
            return Outcome(control.end, {name: tally.entered for name, tally in control.tallies.items()})
