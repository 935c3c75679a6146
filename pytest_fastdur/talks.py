"""Hypothesis strategies for agents, supervisors and swarms, whose models are scripts.

A program is data, as in `programs`: which tools are called in each turn, who is given a task, who hands over to whom.
The models read from the request which turn it is, so a process that carries a run on needs nothing but the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from fastdur import Agent, Resume, Supervisor, Swarm, TestModel, ToolCall, Worker, effect_key, idempotent, tool
from pytest_fastdur.story import Story

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_fastdur.ledger import EffectLedger

Turns = tuple[tuple[str, ...], ...]
"""The tools that are called in each turn: `charge`, an effect; `look`; `gate`, which needs an approval."""

YES: Final = Resume(approved=True, metadata={"by": "ada"})

_OVER: Final = "over"


def _story(name: str, build: Callable[[Any], Any], ledger: EffectLedger) -> Story:
    return Story(name, build, {"input": "go"}, {"approve_gate": lambda _: YES}, {}, ledger)


def _tools(ledger: EffectLedger) -> list[Any]:
    """The tools, which all members of one team share."""

    def provide(key: str) -> str:  # noqa: ARG001 - as a provider takes it
        return "paid"

    provider = ledger.wrap("pay", provide)

    @idempotent(name="pay", per="visit")
    def pay() -> str:
        return provider(effect_key())

    @tool
    def charge() -> str:
        """Charge the card."""
        return pay()

    @tool
    def look() -> str:
        """Look the order up."""
        return "found"

    @tool(needs_approval=True)
    def gate() -> str:
        """Do what somebody has to allow."""
        return "done"

    return [charge, look, gate]


def _script(who: str, turns: Turns, last: Any = _OVER) -> TestModel:
    """A model that calls these tools, turn by turn, and then says the last word."""
    script: list[Any] = [
        [_call(f"{who}{turn}.{place}", name) for place, name in enumerate(names)] for turn, names in enumerate(turns)
    ]
    return TestModel([*script, last])


def _call(number: str, name: str) -> ToolCall:
    return ToolCall(number, name, {"task": "go"} if name.startswith("delegate_to_") else {})


@dataclass(frozen=True)
class Talk:
    """An agent with a scripted model."""

    turns: Turns

    def story(self, ledger: EffectLedger) -> Story:
        """What is swept."""
        tools = _tools(ledger)

        def build(store: Any) -> Agent:
            return Agent("talk", _script("c", self.turns), tools, "You talk.", checkpointer=store)

        return _story("talk", build, ledger)


@dataclass(frozen=True)
class Team:
    """A supervisor: in each turn of its own it calls tools, and gives tasks to workers by their number."""

    turns: tuple[tuple[str | int, ...], ...]
    workers: tuple[Turns, ...]

    def story(self, ledger: EffectLedger) -> Story:
        """What is swept."""
        tools = _tools(ledger)
        orders = tuple(
            tuple(what if isinstance(what, str) else f"delegate_to_w{what % len(self.workers)}" for what in turn)
            for turn in self.turns
        )

        def build(store: Any) -> Supervisor:
            workers = [
                Worker(Agent(f"w{number}", _script(f"w{number}.", turns), tools))
                for number, turns in enumerate(self.workers)
            ]
            return Supervisor("team", _script("t", orders), workers, "You lead.", tools=tools, checkpointer=store)

        return _story("team", build, ledger)


@dataclass(frozen=True)
class Relay:
    """A swarm: each member has its turns and hands over to the next; the last one answers."""

    members: tuple[Turns, ...]

    def story(self, ledger: EffectLedger) -> Story:
        """What is swept."""
        tools = _tools(ledger)
        last = len(self.members) - 1

        def build(store: Any) -> Swarm:
            members = [
                Agent(f"m{number}", _script(f"m{number}.", turns, _handing_on(number, last)), tools)
                for number, turns in enumerate(self.members)
            ]
            return Swarm("relay", members, checkpointer=store)

        return _story("relay", build, ledger)


def _handing_on(number: int, last: int) -> Any:
    if number == last:
        return _OVER
    return [ToolCall(f"m{number}.on", f"handoff_to_m{number + 1}", {"reason": "next"})]


_NAMES: Final = ("charge", "look", "gate")


def _turns(least: int, most: int, calls: int = 3) -> st.SearchStrategy[Turns]:
    turn = st.lists(st.sampled_from(_NAMES), min_size=1, max_size=calls).map(tuple)
    return st.lists(turn, min_size=least, max_size=most).map(tuple)


def agents(*, most: int = 3) -> st.SearchStrategy[Talk]:
    """Agents with up to `most` turns of one to three tools: an effect, a look-up, one that needs an approval."""
    return st.builds(Talk, _turns(1, most))


def supervisors(*, most: int = 2, workers: int = 2) -> st.SearchStrategy[Team]:
    """Supervisors with up to `most` turns of one or two orders, and up to so many workers of one or two turns."""
    order: st.SearchStrategy[str | int] = st.integers(0, workers - 1) | st.sampled_from(_NAMES)
    turn = st.lists(order, min_size=1, max_size=2).map(tuple)
    return st.builds(
        Team,
        st.lists(turn, min_size=1, max_size=most).map(tuple),
        st.lists(_turns(0, most, 2), min_size=1, max_size=workers).map(tuple),
    )


def swarms(*, most: int = 2, members: int = 3) -> st.SearchStrategy[Relay]:
    """Swarms of one to `members` agents, each with up to `most` turns of one or two tools before it hands over."""
    return st.builds(Relay, st.lists(_turns(0, most, 2), min_size=1, max_size=members).map(tuple))
