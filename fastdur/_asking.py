"""What the calls of an agent run: a question to the model, and the check of its final answer.

They run as user code does, invoked by a driver; what they return is plain data for the machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from fastdur._codec import freeze
from fastdur._functions import chained, is_async
from fastdur._schema import misfit
from fastdur._streaming import listener
from fastdur.errors import AgentOutputError, NodeResultError
from fastdur.idempotent import idempotent
from fastdur.llm.client import LLMRequest, LLMResponse
from fastdur.llm.messages import (
    Conversation,
    Message,
    ToolCall,
    answered,
    frozen_message,
    is_message,
    message_of,
    prompt_of,
)
from fastdur.tools import Handoff, RunnerTool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fastdur._codec import Frozen
    from fastdur._schema import Typed
    from fastdur.agent import Agent
    from fastdur.memory import AgentMemory
    from fastdur.tools import AnyTool


def question(agent: Agent, data: Any, turn: int, asks: int, *, edited: bool) -> Callable[[Any], Any]:
    """Ask the model with the history in `data`; the answer is data for the machine, see `_digest`.

    What was said before the run, and what was `edited` since, may be cut anywhere, and is mended.

    With `replay_model` it is recorded under the turn and the number of times that its answer was thrown away.
    """
    ask = chained(agent.model.complete, partial(_digest, agent.tools, agent.name, turn))
    if agent.replay_model:
        # A name of its own for each agent, and a key for each turn: the visit is part of it.

        def key(_: LLMRequest) -> int:
            return asks

        ask = idempotent(name=f"model of {agent.name}", key_fn=key, per="visit")(ask)

    def request() -> LLMRequest:
        system = [Message("system", agent.system_prompt)] if agent.system_prompt else []
        before = [*system, *answered(map(message_of, data.get("history", ()))), prompt_of(data["input"])]
        if edited:
            messages: Sequence[Message] = [*before, *answered(map(message_of, data["messages"]))]
        else:
            messages = Conversation(before, data["messages"])
        return LLMRequest(messages, agent.specs, agent.output_schema, turn, listener(agent.name))

    def asked(_: Any) -> Any:
        return ask(request())

    async def aasked(_: Any) -> Any:
        return await ask(request())

    return aasked if agent.model_is_async else asked


def _digest(tools: Mapping[str, AnyTool], who: str, turn: int, response: Any) -> dict[str, Any]:
    """A model's answer as the machine takes it: `message`, `usage`, and its calls with what is wrong with each."""
    if not isinstance(response, LLMResponse):
        message = (
            f"The model of agent {who!r} returned {type(response).__qualname__}; complete() returns an LLMResponse"
        )
        raise NodeResultError(message)
    calls = [(call, checked_call(tools, call)) for call in _with_ids(response.tool_calls, turn)]
    # A handoff is taken when every other call of its turn is answered, and there is one at most.
    handoffs = [checked for _, checked in calls if "to" in checked]
    for late in handoffs[1:]:
        late["error"] = f"The conversation goes to {handoffs[0]['to']} already. Nobody else was called."
    calls.sort(key=lambda each: "to" in each[1] and "error" not in each[1])
    return {
        "message": frozen_message(Message("assistant", response.content, tuple(call for call, _ in calls))),
        "usage": [response.usage.prompt_tokens, response.usage.completion_tokens],
        "calls": [checked for _, checked in calls],
    }


def _with_ids(calls: tuple[ToolCall, ...], turn: int) -> tuple[ToolCall, ...]:
    """The calls, each with an id of its own in this turn: what a model leaves out or repeats is given one."""
    seen: set[str] = set()
    found: list[ToolCall] = []
    for number, call in enumerate(calls):
        known = call.id if call.id and call.id not in seen else f"call_{turn}_{number}"
        seen.add(known)
        found.append(ToolCall(known, call.name, call.arguments))
    return tuple(found)


def checked_call(tools: Mapping[str, AnyTool], call: ToolCall) -> dict[str, Frozen]:
    """A call as it is stored, with what the model is told where it cannot be made."""
    known: dict[str, Frozen] = {"id": call.id, "name": call.name, "args": freeze(call.arguments, "arguments")}
    tool = tools.get(call.name)
    if tool is None:
        there = f"there are: {', '.join(tools)}" if tools else "there is none"
        return {**known, "error": f"There is no tool {call.name!r}; {there}."}
    wrong = tool.problem(call.arguments)
    if wrong is not None:
        return {**known, "error": f"The arguments do not fit: {wrong}. Nothing was called."}
    if isinstance(tool, Handoff):
        return {**known, "to": tool.to}
    return {**known, "data": freeze(tool.taken(call.arguments), "arguments")} if isinstance(tool, RunnerTool) else known


def check(kind: Typed | None, who: str, answer: Message, left: int) -> Callable[[Any], dict[str, Frozen]]:
    """Check a final answer: its value as plain JSON, or what the model is told to mend."""

    def checked(_: Any) -> dict[str, Frozen]:
        if kind is None:  # the type was taken away while the answer waited for its check
            return {"value": freeze(answer.content, "output")}
        wrong = misfit(kind.read, answer.content)
        if wrong is None:
            return {"value": freeze(kind.plain(answer.content), "output")}
        if not left:
            message = (
                f"The answer of agent {who!r} does not fit its output_type: {wrong}. A resume asks the model again."
            )
            raise AgentOutputError(message)
        return {"again": f"This does not fit what is asked for: {wrong}. Answer again, with JSON that fits the schema."}

    return checked


def recall(memory: AgentMemory, who: str, given: Frozen) -> Callable[[Any], Any]:
    """Ask a memory what it knows, as messages in stored form."""
    ask = chained(memory.get_context, partial(_recalled, who))

    def asked(_: Any) -> Any:
        return ask(prompt_of(given).content)

    async def aasked(_: Any) -> Any:
        return await ask(prompt_of(given).content)

    return aasked if is_async(memory.get_context) else asked


def _recalled(who: str, messages: Any) -> list[Frozen]:
    if not isinstance(messages, Iterable):
        message = f"The memory of agent {who!r} knows of {messages!r}; get_context() returns Messages, none as []"
        raise NodeResultError(message)
    found: list[Any] = [*cast("Iterable[object]", messages)]
    wrong = next((each for each in found if not is_message(each)), found)
    if wrong is not found:
        what = f"{wrong!r}" if type(wrong) is Message else type(wrong).__qualname__
        message = f"The memory of agent {who!r} knows of {what}; get_context() returns Messages"
        raise NodeResultError(message)
    return [frozen_message(message) for message in found]


def remember(memory: AgentMemory, who: str, given: Frozen, answer: Frozen) -> Callable[[Any], Any]:
    """Tell a memory of the input of a run and of its answer, each as an effect of its own."""

    def key(_: Message, number: int) -> int:
        return number

    add: Any = memory.add

    def told(message: Message, _: int) -> None:
        add(message)

    async def atold(message: Message, _: int) -> None:
        await add(message)

    effect = idempotent(name=f"memory of {who}", key_fn=key, per="visit")

    def remembered(_: Any) -> None:
        tell = effect(told)
        for number, message in enumerate((prompt_of(given), message_of(answer))):
            tell(message, number)

    async def aremembered(_: Any) -> None:
        tell = effect(atold)
        for number, message in enumerate((prompt_of(given), message_of(answer))):
            await tell(message, number)

    return aremembered if is_async(memory.add) else remembered
