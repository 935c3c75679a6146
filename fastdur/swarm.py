"""`Swarm`: agents that hand one conversation over to each other."""

from __future__ import annotations

import json
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fastdur import _talk
from fastdur._codec import thaw
from fastdur._conversing import (
    WAY,
    Conversing,
    check_bounds,
    check_seconds,
    checked_listener,
    slow_error,
    spent_error,
)
from fastdur._nested import check_inside
from fastdur._spoken import usage_in, with_below
from fastdur._steps import Became, Call, Done, Mark, Push, Return, spends
from fastdur._visits import count, with_visit
from fastdur.agent import Agent
from fastdur.errors import AgentLimitError, GraphError
from fastdur.tools import Handoff, checked_tool_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Literal

    from fastdur._codec import Frozen
    from fastdur._guarding import Guards
    from fastdur._runner import Runner
    from fastdur._steps import Going, Machine, Outcome, State, Step
    from fastdur.checkpointers.protocol import Checkpointer
    from fastdur.records import Frame, RunResult


class Swarm(Conversing):
    """Agents that hand one conversation over to each other until one of them answers, durable step by step.

    `entrypoint`, by default the first agent, begins. `handoffs` says who may hand over to whom, by name; without it
    everybody may to everybody. An agent hands over by calling `handoff_to_NAME(reason, context="")`, which is taken
    when every other call of its turn is answered, and is one row, `handoff:N`. The next agent reads the whole
    conversation under a system prompt of its own, and each goes on counting its turns where it had left off. The rows
    of an agent lie under its name, `billing/turn:0`. Of guardrails at the input those of the first agent are asked.
    `on_text(text, agent)` hears every agent that has no listener of its own.

    `max_handoffs`, and `max_turns`, `max_tokens`, `max_seconds` of all agents together, bound a run over all its
    lifetimes, beside the limits of each agent; reaching one fails the run, which a resume with a raised bound carries
    on. The output is that of the agent which answers, whose name is `final_state["agent"]`.
    """

    kind = "swarm"

    def __init__(
        self,
        name: str,
        agents: Iterable[Agent],
        entrypoint: str | None = None,
        handoffs: Mapping[str, Iterable[str]] | None = None,
        *,
        max_handoffs: int = 8,
        max_turns: int | None = None,
        max_tokens: int | None = None,
        max_seconds: float | None = None,
        on_text: Callable[[str, str], object] | None = None,
        checkpointer: Checkpointer | Literal[False] | None = None,
    ) -> None:
        super().__init__(name, checkpointer)
        who = f"swarm {name!r}"
        bounds = {"max_handoffs": (max_handoffs, 0), "max_turns": (max_turns, None), "max_tokens": (max_tokens, None)}
        check_bounds(who, **bounds)
        check_seconds(who, max_seconds)
        self._agents = _named(agents, who)
        self.entrypoint = next(iter(self._agents)) if entrypoint is None else entrypoint
        self.handoffs = _allowed(self._agents, self.entrypoint, handoffs, who)
        self.max_handoffs, self._max_turns, self._max_tokens = max_handoffs, max_turns, max_tokens
        self.max_seconds = max_seconds
        self.on_text = checked_listener(on_text, who)
        self._members = {agent.name: self._member(agent) for agent in self._agents.values()}

    def _member(self, agent: Agent) -> Agent:
        """The agent as it is in this swarm: it may hand over."""
        member = copy(agent)
        vars(member).pop("specs", None)
        ways = [Handoff(to) for to in self.handoffs[agent.name]]
        twice = next((way.name for way in ways if way.name in agent.tools), None)
        if twice is not None:
            message = f"agent {agent.name!r} of swarm {self.name!r} has a tool called {twice!r}; give it another name="
            raise GraphError(message)
        member.tools = {**agent.tools, **{way.name: way for way in ways}}
        member.handing = _Handing(self)
        return member

    def validate(self) -> None:
        """Raise `GraphError` naming what is wrong with an agent; starting and resuming call it."""
        for member in self._members.values():
            _ = member.specs
        check_inside(self)

    def runners(self) -> list[tuple[str, Runner]]:
        """The agents."""
        return [*self._agents.items()]

    def functions(self) -> list[tuple[str, Callable[..., Any]]]:
        """The models and tools of the agents."""
        return [(f"{name}/{place}", fn) for name, agent in self._agents.items() for place, fn in agent.functions()]

    def _shown(self, result: RunResult) -> RunResult:
        if result.status != "completed":
            return result
        output = self._agents[result.final_state["agent"]].output
        return result if output is None else replace(result, output=output.read(json.dumps(result.output)))

    # -- the machine ---------------------------------------------------------------------------------------------------

    def graph(self) -> Frozen:
        """The topology as data; who may hand over to whom is its edges."""
        edges: Any = [[source, to, None, None] for source, targets in self.handoffs.items() for to in targets]
        shapes = {name: member.graph() for name, member in self._members.items()}
        return {"name": self.name, "kind": self.kind, "entries": [self.entrypoint], "nodes": shapes, "edges": edges}

    def child(self, place: str) -> Machine:
        """The agent at `place`."""
        return self._members[place]

    def begin(self, data: State) -> State:
        """The state of a new frame. Without a key `input` the whole of `data` is the input."""
        state: dict[str, Any] = {
            "data": _talk.opened(data),
            "active": self.entrypoint,
            "spans": [[self.entrypoint, 0, 0]],
            "members": {},
            "out": "output",
        }
        return self._guards.input(state) or state

    @property
    def _guards(self) -> Guards:
        """Who is asked about the input: the guardrails of the agent that reads it first."""
        return self._agents[self.entrypoint].guards

    @property
    def guarded(self) -> bool:  # type: ignore[override] # a runner without guardrails has a constant
        """Whether guardrails are asked about the input."""
        return self._guards.at("input")

    def admitted(self, state: State) -> State:
        """The state of a new frame whose guardrails have been asked before it began."""
        return {key: part for key, part in state.items() if key not in ("guards", "step")}

    def addresses(self, state: State) -> list[str]:
        """The agent at work."""
        of: Any = state
        return [of["active"]]

    def next(self, state: State) -> Step:
        """A guardrail, the agent at work, else the end."""
        of: dict[str, Any] = state
        if "guards" in of:
            return self._guards.step(of, 0, {}, 0)
        if "gives" in of:
            return Return()
        active = of["active"]
        return Push(active, count(state, active) + 1, -1, self._members[active], of["data"])

    def apply(self, state: State, step: Going, outcome: Outcome) -> State:
        """The state after a guardrail was asked, or an agent has answered."""
        if isinstance(step, Call):
            assert isinstance(outcome, Done), outcome
            asked, through = self._guards.judged(dict(state), outcome.value)
            return asked if through is None else self.admitted(asked)
        ended: Any = outcome
        after: dict[str, Any] = _left(state, step.node, ended)
        theirs = ended["data"]
        said = {key: theirs[key] for key in ("history", "messages", "output")}
        data = {**after["data"], **said, "agent": step.node}
        return {**after, "data": data, "touched": ["output", "agent"], "gives": "output"}

    def into(self, above: State, state: State) -> Became:
        """What comes of the handoff that is due in the `state` of the agent at work."""
        of: dict[str, Any] = state
        source: Any = above["active"]
        call = of["calls"][0]
        to, told = call["to"], _taken_over(source, call)
        left: dict[str, Any] = _left(above, source, state)
        before = left["members"].pop(to, {"usage": [0, 0]})
        after = _talk.handed(of, told, before)
        number = after["handoffs"]
        spans = [*left["spans"], [to, len(after["data"]["messages"]), after["turn"]]]
        mark = Mark(f"handoff:{number}", 1, number, "handoff", {"input": call["args"], "from": source, "to": to})
        return Became({**left, "active": to, "spans": spans}, mark, to, count(left, to) + 1, after)

    def over(self, frame: Frame, step: Going, *, here: bool) -> Exception | None:  # noqa: ARG002 - an agent is here
        """The limit of all agents together that a step would break."""
        what, who = spends(step), f"Swarm {self.name!r}"
        state: dict[str, Any] = frame.state
        if what == "turn":
            at_work: Any = frame.children[0].state
            turns = at_work["turn"] + sum(member["turn"] for member in state["members"].values())
            if self._max_turns is not None and turns >= self._max_turns:
                return AgentLimitError(f"{who} has taken {turns} turns, its max_turns. {WAY}")
            over = spent_error(who, sum(usage_in(frame)), self._max_tokens)
            if over is not None:
                return over
        return slow_error(who, state.get("seconds", 0.0), self.max_seconds)


class _Handing:
    """What an agent may do in a swarm."""

    def __init__(self, swarm: Swarm) -> None:
        self._swarm = swarm
        self.into = swarm.into

    def over(self, handoffs: int) -> AgentLimitError | None:
        """The error of one more handoff than there may be."""
        if handoffs < self._swarm.max_handoffs:
            return None
        return AgentLimitError(f"Swarm {self._swarm.name!r} has handed over {handoffs} times, its max_handoffs. {WAY}")


def _left(above: State, name: str, state: Any) -> State:
    """The state of a swarm after an agent has spoken: what it counts for that one, and what was done below it."""
    members: Any = above["members"]
    inside = {key: state[key] for key in ("below", "again") if key in state}
    after = with_below(above, inside, name)
    counter, visits = with_visit(above, name, count(above, name) + 1, again=True)
    return {**after, counter: visits, "members": {**members, name: _talk.counted(state)}}


def _taken_over(source: str, call: Any) -> str:
    """What the next agent reads in answer to the handoff."""
    why: Any = thaw(call["args"])
    more = f" Context: {why['context']}" if why.get("context") else ""
    return f"{source} has handed over to {call['to']}, who goes on from here. Reason: {why['reason']}{more}"


def _named(agents: Iterable[Agent], who: str) -> dict[str, Agent]:
    found: dict[str, Agent] = {}
    given: Iterable[Any] = agents
    for agent in given:
        if not isinstance(agent, Agent):
            message = f"{who} is made of agents, and {agent!r} is none; make it a RunnerTool of one"
            raise GraphError(message)
        checked_tool_name(f"handoff_to_{agent.name}")  # it stands in addresses, and may have to be handed over to
        if agent.name in found:
            message = f"{who} has two agents called {agent.name!r}; give one of them another name"
            raise GraphError(message)
        found[agent.name] = agent
    if not found:
        message = f"{who} has no agents; give at least one"
        raise GraphError(message)
    return found


def _allowed(
    agents: Mapping[str, Agent], entrypoint: str, handoffs: Mapping[str, Iterable[str]] | None, who: str
) -> dict[str, list[str]]:
    """Whom each agent may hand over to. Raises `GraphError` for a name that nobody has."""
    if handoffs is None:
        handoffs = {name: [to for to in agents if to != name] for name in agents}
    found = {name: [*handoffs.get(name, ())] for name in agents}
    named = [("entrypoint", entrypoint), *(("handoffs", name) for name in handoffs)]
    named += [(f"handoffs of {name!r}", to) for name, targets in found.items() for to in targets]
    for where, name in named:
        if name not in agents:
            message = f"{where} of {who} names {name!r}, and there are only: {', '.join(agents)}"
            raise GraphError(message)
    for name, targets in found.items():
        if name in targets or len({*targets}) < len(targets):
            message = f"handoffs of {name!r} in {who} are {targets!r}; name each other agent once"
            raise GraphError(message)
    return found
