"""What an agent asks of a model, whoever serves it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from fastdur.llm.messages import ToolCall, Usage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from fastdur.llm.messages import Message


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model is told of it: `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LLMRequest:
    """One question to a model.

    Every tool call in `messages` has exactly one answer, right behind the message that asked for it and in its order:
    what providers accept. `output_schema` is the JSON schema that the final answer must fit, None where it is text.
    `turn` is how often the model has answered in this run. `on_text`, where there is one, is called with each piece of
    the answer's text as it comes; a model that cannot do this need not.
    """

    messages: Sequence[Message]
    tools: tuple[ToolSpec, ...] = ()
    output_schema: Mapping[str, Any] | None = None
    turn: int = 0
    on_text: Callable[[str], object] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class LLMResponse:
    """A model's answer: text, or tools that it asks for, and what it cost."""

    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)


class LLMClient(Protocol):
    """A model. Implement `complete` as a plain function, or as an `async def` for runs on an event loop."""

    def complete(self, request: LLMRequest) -> LLMResponse | Awaitable[LLMResponse]:
        """Answer a request.

        It is asked again where a process died before the answer was stored. What it raises fails the run, which stays
        resumable at this turn.
        """
        ...
