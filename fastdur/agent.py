"""`Agent`: a model and tools, turn by turn, durable before every model call and every tool."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from fastdur import _asking, _guarding, _talk
from fastdur._codec import thaw
from fastdur._conversing import (
    WAY,
    Conversing,
    check_bounds,
    check_seconds,
    checked_listener,
    checked_memory,
    slow_error,
    spent_error,
)
from fastdur._functions import is_async
from fastdur._guarding import Guards
from fastdur._nested import check_inside
from fastdur._schema import Typed
from fastdur._spoken import usage_in, with_below
from fastdur._steps import Become, Call, Done, Failed, Mark, Push, Return, kind_of, spends
from fastdur.errors import AgentLimitError, GraphError
from fastdur.llm.messages import message_of
from fastdur.tools import FunctionTool, RunnerTool, as_tools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Literal

    from fastdur._codec import Frozen
    from fastdur._runner import Runner
    from fastdur._steps import Became, Going, Machine, Outcome, State, Step
    from fastdur.checkpointers.protocol import Checkpointer
    from fastdur.guardrails import Guardrail
    from fastdur.llm.client import LLMClient, ToolSpec
    from fastdur.llm.messages import CallStatus
    from fastdur.memory import AgentMemory
    from fastdur.records import Frame, RunResult
    from fastdur.tools import AnyTool

NOTHING: State = {}
"""The state of the calls of an agent: what they need, the machine gives them."""


class Handing(Protocol):
    """What an agent may do in a swarm beside what it does alone: hand over."""

    def into(self, above: State, state: State) -> Became:
        """What comes of the handoff that is due in `state`."""
        ...

    def over(self, handoffs: int) -> AgentLimitError | None:
        """The error of one more handoff than there may be."""
        ...


class Agent(Conversing):
    """A model that may call tools until it answers, durable step by step.

    `model` is an `LLMClient`. `tools` are functions, made by `@tool` or plain, and runners as `RunnerTool`. With
    `output_type`, any type that pydantic knows, the final answer is JSON of that type; one that does not fit is asked
    for again up to `output_retries` times. `max_turns`, `max_tokens` and `max_seconds` bound one run over all its
    lifetimes; tokens and time are those of the runners inside it too. Reaching one fails the run, which a resume with a
    raised bound carries on. `replay_model=True` records the model's answers,
    so that no resumed run asks twice for what was answered; without it a model is asked again where a process died
    before the next row. `checkpointer` is as for a chain.

    `guardrails` are asked about what goes in and out, see `Guardrail`; those that are asked about what a model says
    cannot be had with `replay_model`, which records it before. `memory`, an `AgentMemory`, is asked before the first
    turn and told after the last. `on_text(text, agent)` hears each piece of a model's text as it comes, with the name
    of the agent that speaks, of those inside this one too; nothing that it does changes the run, a piece is heard
    again where the model is asked again, and it has passed no guardrail yet.

    Rows: `turn:N` before each question to the model, `turn:N/tool:NAME` before each tool with its arguments, and one
    past the last turn with the final answer. The tools of one turn run one after another.
    """

    kind = "agent"
    handing: Handing | None = None
    """What it may do in a swarm."""

    def __init__(
        self,
        name: str,
        model: LLMClient,
        tools: Iterable[AnyTool | Callable[..., Any]] = (),
        system_prompt: str = "",
        *,
        output_type: Any = None,
        output_retries: int = 2,
        max_turns: int = 10,
        max_tokens: int | None = None,
        max_seconds: float | None = None,
        replay_model: bool = False,
        guardrails: Iterable[Guardrail] = (),
        memory: AgentMemory | None = None,
        on_text: Callable[[str, str], object] | None = None,
        checkpointer: Checkpointer | Literal[False] | None = None,
    ) -> None:
        super().__init__(name, checkpointer)
        who = f"{self.kind} {name!r}"
        if not callable(getattr(model, "complete", None)):
            message = f"the model of {who} is {model!r}; give an LLMClient, which has complete(request)"
            raise GraphError(message)
        bounds = {"max_turns": (max_turns, 1), "output_retries": (output_retries, 0), "max_tokens": (max_tokens, None)}
        check_bounds(who, **bounds)
        check_seconds(who, max_seconds)
        if type(system_prompt) is not str:
            message = f"system_prompt of {who} is {system_prompt!r}; give a str"
            raise GraphError(message)
        self.model, self.system_prompt = model, system_prompt
        self.tools: Mapping[str, AnyTool] = as_tools(tools, who)
        self.max_seconds = max_seconds
        self._output_type, self._output_retries = output_type, output_retries
        self._max_turns, self._max_tokens, self.replay_model = max_turns, max_tokens, replay_model
        self.model_is_async = is_async(model.complete)
        self.guards = Guards(guardrails, who)
        if replay_model and self.guards.at("output", "tool_call"):
            message = (
                f"{who} has replay_model=True, which records what the model says as it comes, and guardrails that are "
                "asked about that first. Leave out one of them."
            )
            raise GraphError(message)
        self.memory = checked_memory(memory, who)
        self.on_text = checked_listener(on_text, who)

    def validate(self) -> None:
        """Raise `GraphError` naming what is wrong with a tool or with `output_type`; starting and resuming call it."""
        _ = self.specs, self.output_schema
        check_inside(self)

    @cached_property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as the model is told of them."""
        return tuple(tool.spec for tool in self.tools.values())

    @cached_property
    def output(self) -> Typed | None:
        """The type of the final answer, None for a text."""
        kind = self._output_type
        return None if kind is None or kind is str else Typed(kind, f"output_type of {self.kind} {self.name!r}")

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """Its JSON schema."""
        return None if self.output is None else self.output.schema

    def runners(self) -> list[tuple[str, Runner]]:
        """The tools that are runners."""
        return [(f"tool:{name}", each.runner) for name, each in self.tools.items() if isinstance(each, RunnerTool)]

    def functions(self) -> list[tuple[str, Callable[..., Any]]]:
        """The model and the functions of the tools, nested runners included."""
        found = [(f"{at}/{place}", fn) for at, runner in self.runners() for place, fn in runner.functions()]
        plain = [(f"tool:{name}", each.fn) for name, each in self.tools.items() if isinstance(each, FunctionTool)]
        plain += [(f"guardrail:{each.name}", each.fn) for each in self.guards.all]
        if self.memory is not None:
            plain += [("memory.get_context", self.memory.get_context), ("memory.add", self.memory.add)]
        return [*found, ("model", self.model.complete), *plain]

    def _shown(self, result: RunResult) -> RunResult:
        if result.status != "completed" or self.output is None:
            return result
        return replace(result, output=self.output.read(json.dumps(result.output)))

    # -- the machine ---------------------------------------------------------------------------------------------------

    def graph(self) -> Frozen:
        """The topology as data."""
        each = self.tools.items()
        shapes = {_place(name): tool.machine.graph() if isinstance(tool, RunnerTool) else "node" for name, tool in each}
        return {"name": self.name, "kind": self.kind, "entries": [], "nodes": shapes, "edges": []}

    def child(self, place: str) -> Machine:
        """The runner of the tool at `place`."""
        tool = self.tools[kind_of(place).partition(":")[2]]
        assert isinstance(tool, RunnerTool), tool
        return tool.machine

    def begin(self, data: State) -> State:
        """The state of a new frame. Without a key `input` the whole of `data` is the input."""
        state = _talk.begun(data, self._first)
        guarded = self.guards.input(state) if self.guarded else None
        return state if guarded is None else guarded

    @property
    def _first(self) -> str:
        """What is due when the input is known."""
        return "turn" if self.memory is None else "recall"

    @property
    def guarded(self) -> bool:  # type: ignore[override] # a runner without guardrails has a constant
        """Whether guardrails are asked about the input; in a swarm the swarm asks those of its first agent."""
        return self.handing is None and self.guards.at("input")

    def admitted(self, state: State) -> State:
        """The state of a new frame whose guardrails have been asked before it began."""
        return _talk.let_in(state, self._first)

    def addresses(self, state: State) -> list[str]:
        """The tools that wait to be called."""
        return [f"tool:{call['name']}" for call in _talk.waiting(state)]

    def misfits(self, state: State) -> list[str]:
        """The waiting calls whose stored arguments the tools of today do not take."""
        known = [(call, self.tools[call["name"]]) for call in _talk.waiting(state)]
        found = [(call["name"], tool.problem(thaw(call["args"]))) for call, tool in known]
        return [f"tool {name!r} does not take the stored arguments ({wrong})" for name, wrong in found if wrong]

    def next(self, state: State) -> Step:
        """A row or a call: the question to the model, the first waiting tool, the check of the answer; else the end."""
        of: dict[str, Any] = state
        step, turn = of["step"], of["turn"]
        if step in ("turn", "ask"):
            return self._question(of, turn, row=step == "turn")
        if step == "handoff" and self.handing is not None:
            return Become(f"turn:{turn}", 1, turn, self.handing.into)
        if step in ("tool", "call"):
            return self._tool(of["calls"][0], turn, row=step == "tool")
        if step in ("answer", "check"):
            return self._answer(of, turn + 1, row=step == "answer")
        if step == "guard":
            return self.guards.step(of, turn, self.tools, self._output_retries - of.get("reasks", 0))
        return self._memory(of, turn, step) if step in ("recall", "remember") else Return()

    def _memory(self, state: dict[str, Any], turn: int, step: str) -> Step:
        memory, given = self.memory, state["data"]["input"]
        if step == "recall":
            recall = _asking.recall(memory, self.name, given)
            return Call("memory", f"turn:{turn}/memory", 1, turn, recall, NOTHING)
        remember = _asking.remember(memory, self.name, given, state["answer"])
        return Call("memory", f"turn:{turn + 1}/memory", 1, turn + 1, remember, NOTHING)

    def _question(self, state: dict[str, Any], turn: int, *, row: bool) -> Step:
        if row:
            return Mark(f"turn:{turn}", 1, turn, "llm_call")
        edited = "messages" in state.get("touched", ())
        ask = _asking.question(self, state["data"], turn, _talk.asks(state), edited=edited)
        return Call("model", f"turn:{turn}", 1, turn, ask, NOTHING)

    def _answer(self, state: dict[str, Any], turn: int, *, row: bool) -> Step:
        if row:
            return Mark(f"turn:{turn}", 1, turn, "llm_call", {"answer": True})
        left = self._output_retries - state.get("reasks", 0)
        check = _asking.check(self.output, self.name, message_of(state["answer"]), left)
        return Call("output", f"turn:{turn}", 1, turn, check, NOTHING)

    def _tool(self, call: dict[str, Any], turn: int, *, row: bool) -> Step:
        place = call["place"]
        if row:
            return Mark(place, 1, turn, "tool_call", {"input": call["args"], "tool_call_id": call["id"]})
        tool = self.tools[call["name"]]
        if isinstance(tool, RunnerTool):
            return Push(place, 1, turn, tool.machine, call["data"])
        assert isinstance(tool, FunctionTool), tool
        fn = tool.call(thaw(call["args"]))
        return Call("tool", place, 1, turn, fn, NOTHING, retry=tool.retries, timeout=tool.timeout, catches=True)

    def over(self, frame: Frame, step: Going, *, here: bool) -> Exception | None:
        """The limit that a step would break, one of this agent's or one below it."""
        what, who = spends(step), f"{self.kind.capitalize()} {self.name!r}"
        state: dict[str, Any] = frame.state
        if what == "turn" and here and state["turn"] >= self._max_turns:
            return AgentLimitError(f"{who} has taken {state['turn']} turns, its max_turns. {WAY}")
        if what == "handoff" and here and self.handing is not None:
            return self.handing.over(state.get("handoffs", 0))
        if what == "turn" and self._max_tokens is not None:
            over = spent_error(who, sum(usage_in(frame)), self._max_tokens)
            if over is not None:
                return over
        return slow_error(who, state.get("seconds", 0.0), self.max_seconds)

    def apply(self, state: State, step: Going, outcome: Outcome) -> State:
        """The state after a row was stored, the model or a tool has answered, or the answer was checked."""
        of: dict[str, Any] = state
        if isinstance(step, Mark):
            return _talk.marked(of, checks=self.output is not None, remembers=self.memory is not None)
        if isinstance(step, Push):
            assert isinstance(outcome, dict), outcome
            return self._told(with_below(of, outcome, step.node), "ok", _talk.output_text(outcome))
        assert isinstance(step, Call), step
        if isinstance(outcome, Failed):
            return self._told(of, "error", f"Error: {outcome.text}")
        assert isinstance(outcome, Done), outcome
        if step.kind == "tool":
            return self._told(of, *outcome.value)
        return self._after(of, step, outcome)

    def _after(self, of: dict[str, Any], step: Call, outcome: Done) -> State:
        """The state after a call that is no tool's has returned."""
        if step.kind == "model":
            spent = _talk.spent(of, outcome.value, again=outcome.again and not self.replay_model)
            return self.guards.reply(spent, outcome.value) or _talk.taken(spent, outcome.value)
        if step.kind == "output":
            return _talk.checked(of, outcome.value, remembers=self.memory is not None)
        if step.kind == "guardrail":
            return self._judged(of, outcome.value)
        if of["step"] == "recall":
            return _talk.recalled(of, outcome.value)
        return _talk.ended(of, of["value"])

    def _told(self, state: dict[str, Any], status: CallStatus, text: str) -> State:
        return self.guards.result(state, status, text) or _talk.told(state, status, text)

    def _judged(self, state: dict[str, Any], verdict: Any) -> State:
        after, through = self.guards.judged(state, verdict)
        if through == "input":
            return _talk.let_in(after, self._first)
        if through == "tool_call":
            return _talk.released(after)
        if through == "tool_result":
            return _talk.told_at_last(after)
        return {**after, "step": "answer"} if through == "output" else after

    def paused(self, state: State) -> State:
        """A question was asked in the tool at work: after it no other call of this turn is made."""
        return {**state, "asked": True}

    def failed(self, state: State, step: Going) -> State:
        """After the check of an answer has failed, the model is asked again; tools are not, nor after a guardrail."""
        if isinstance(step, Call) and step.kind == "guardrail":
            return _guarding.failed(state)
        return _talk.unanswered(state) if isinstance(step, Call) and step.kind == "output" else state


def _place(name: str) -> str:
    return f"tool:{name}"
