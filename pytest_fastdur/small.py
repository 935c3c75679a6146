"""All small programs: every chain of a few nodes over a handful of kinds, for whom a drawn one is not enough.

    for program in programs(2):
        with EffectLedger() as ledger:
            assert explore(program.story(ledger), backend=Memory()).ok

Most mistakes of an engine show on something small; so what holds for all of these, under any number of crashes, is
much of what there is to hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from fastdur import Agent, Chain, Resume, TestModel, ToolCall, effect_key, idempotent, interrupt, tool
from pytest_fastdur.backends import Memory
from pytest_fastdur.ledger import EffectLedger
from pytest_fastdur.story import Story
from pytest_fastdur.sweep import explore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_fastdur.backends import Backend

Kind = Literal["value", "effect", "ask", "effect ask", "ask effect", "agent", "router"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
"""What a node does: a value; an effect; a question; an effect and then a question; a question and then an effect; an
agent with one turn, whose tool has an effect; a router that once leads back, to the node before it or to itself."""

_YES: Final = Resume(approved=True)

_State = dict[str, Any]


@dataclass(frozen=True)
class Small:
    """A chain of nodes in a line."""

    kinds: tuple[Kind, ...]

    def __str__(self) -> str:
        """`effect > ask effect > router`."""
        return " > ".join(self.kinds)

    def story(self, ledger: EffectLedger) -> Story:
        """What is swept."""
        answers = {f"q{number}": _YES for number, kind in enumerate(self.kinds) if "ask" in kind}
        return Story(str(self), lambda store: self._chain(store, ledger), {}, answers, {}, ledger)

    def _chain(self, store: Any, ledger: EffectLedger) -> Chain:
        chain = Chain("small", store)
        for number, kind in enumerate(self.kinds):
            if kind == "agent":
                agent = _agent(f"a{number}", _effect(f"e{number}", ledger))
                chain.add_node(f"n{number}", agent, input=_task, output_key=f"v{number}")
            else:
                chain.add_node(f"n{number}", _node(kind, number, ledger))
        for number, kind in enumerate(self.kinds):
            if kind == "router":
                chain.connect(f"n{number}", f"n{max(0, number - 1)}", when=_once(number), max_iterations=1)
            if number + 1 < len(self.kinds):
                chain.connect(f"n{number}", f"n{number + 1}")
        return chain


def programs(most: int, kinds: Iterable[Kind] = KINDS) -> Iterator[Small]:
    """Every chain of one to `most` nodes of these kinds, the short ones first."""
    known = tuple(kinds)
    for length in range(1, most + 1):
        for chosen in product(known, repeat=length):
            yield Small(chosen)


@dataclass
class Proof:
    """What came of crashing some programs any number of times."""

    programs: int = 0
    lifetimes: int = 0
    points: int = 0
    red: tuple[str, ...] = ()
    """The report of every program that did not hold, or was not tried to the end."""

    def __str__(self) -> str:
        """`56 programs, 4,711 lifetimes, 3,210 points, none red`."""
        red = f"{len(self.red)} RED" if self.red else "none red"
        return f"{self.programs:,} programs, {self.lifetimes:,} lifetimes, {self.points:,} points, {red}"


def prove(some: Iterable[Small], backend: Callable[[], Backend] = Memory, *, first: bool = False) -> Proof:
    """Crash each of these programs at every boundary, and each recovery, until no new state comes up.

    `backend` makes what keeps the histories of one program: SQLite in memory, if nothing else is said. `points` counts
    every instant at which a crash was tried, or at which what it would leave was looked at. With `first` it ends at the
    first program that is red.
    """
    proof = Proof()
    for program in some:
        with EffectLedger() as ledger:
            report = explore(program.story(ledger), backend=backend())
        proof.programs += 1
        proof.lifetimes += report.lifetimes
        proof.points += report.points + report.instants
        if not (report.ok and report.closed):
            proof.red = (*proof.red, report.render())
            if first:
                break
    return proof


def _task(_: _State) -> _State:
    return {"input": "go"}


def _once(number: int) -> Callable[[_State], bool]:
    def again(state: _State) -> bool:
        return bool(state[f"t{number}"] == 1)

    return again


def _effect(name: str, ledger: EffectLedger) -> Callable[[], str]:
    """An effect of the outside world, under its key."""

    def provide(key: str) -> str:  # noqa: ARG001 - as a provider takes it
        return "done"

    provider = ledger.wrap(name, provide)

    @idempotent(name=name)
    def act() -> str:
        return provider(effect_key())

    return act


def _agent(name: str, act: Callable[[], str]) -> Agent:
    @tool
    def deed() -> str:
        """Do it."""
        return act()

    return Agent(name, TestModel([ToolCall("c", "deed", {}), "over"]), [deed], "You do it.")


def _node(kind: Kind, number: int, ledger: EffectLedger) -> Callable[[_State], _State]:
    """The function of a node that is no agent."""
    act = _effect(f"e{number}", ledger)

    def ask() -> bool:
        return interrupt(f"q{number}").approved

    deeds: dict[str, Callable[[_State], Any]] = {
        "value": lambda _: number,
        "effect": lambda _: act(),
        "ask": lambda _: ask(),
        "effect ask": lambda _: [act(), ask()],
        "ask effect": lambda _: [ask(), act()],
    }

    def does(state: _State) -> _State:
        if kind == "router":
            return {f"t{number}": state.get(f"t{number}", 0) + 1}
        return {f"v{number}": deeds[kind](state)}

    return does
