"""Guardrails of an agent: functions that look at what goes in and out of it, and may block it, mask it or ask again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from fastdur.errors import GraphError
from fastdur.tools import checked_tool_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Position = Literal["input", "output", "tool_call", "tool_result"]


@dataclass(frozen=True, slots=True)
class Block:
    """A guardrail refuses: the run fails with `GuardrailBlocked`, which gives this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Mask:
    """A guardrail puts `value` in place of what it has looked at: a text, or the arguments of a tool as a dict."""

    value: Any


@dataclass(frozen=True, slots=True)
class ReAsk:
    """A guardrail sends back what the model or a tool has said; the model is told this reason, in its next turn."""

    reason: str


class Guardrail:
    """A function, sync or async, that is asked about each value at one position of an agent, before it is used.

    It returns None to let it pass, or `Block(reason)`, `Mask(value)`, `ReAsk(reason)`; anything else, and anything that
    it raises, fails the run. `position` says what it is asked about: `input` the text that the agent is given, `output`
    the text of the final answer, before it is read as `output_type`; `tool_call` a `ToolCall` before it is made and
    before it has a row; `tool_result` the `Message` that a model would read of it. `tools` names the tools whose calls
    and results it is asked about, by default all. `name`, by default that of the function, is in errors and addresses.

    Several at one position are asked in the order in which the agent has them, each about what the one before has left.
    A verdict that was stored with what it was about is never asked for again; where a process dies before that row, the
    guardrail is asked again, as the model is. Pausing in a guardrail is refused.
    """

    def __init__(
        self,
        fn: Callable[[Any], Any],
        position: Position,
        *,
        name: str | None = None,
        tools: Iterable[str] | None = None,
    ) -> None:
        given: Any = fn
        if not callable(given):
            message = f"a guardrail is made of {fn!r}; give a function of the value that it is asked about"
            raise GraphError(message)
        self.fn = fn
        called = getattr(fn, "__name__", type(fn).__name__) if name is None else name
        self.name = checked_tool_name(called, "guardrail")
        if position not in get_args(Position):
            known = ", ".join(get_args(Position))
            message = f"position of guardrail {self.name!r} is {position!r}; it is one of {known}"
            raise GraphError(message)
        if tools is not None and (not position.startswith("tool") or isinstance(tools, str)):
            message = f"tools= of guardrail {self.name!r} is {tools!r}; give names of tools, at tool_call, tool_result"
            raise GraphError(message)
        self.position: Position = position
        self.tools = None if tools is None else frozenset(tools)

    def is_about(self, tool: str) -> bool:
        """Whether it is asked about this tool."""
        return self.tools is None or tool in self.tools
