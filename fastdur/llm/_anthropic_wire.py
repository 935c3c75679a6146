"""The interface of Anthropic: messages. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastdur.llm._wire import (
    DECLINED,
    LONGER,
    answered_text,
    as_object,
    asked_for,
    cut_off,
    json_text,
    parsed,
    presentable,
)
from fastdur.llm.client import LLMResponse
from fastdur.llm.messages import ToolCall, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastdur.llm.client import LLMRequest
    from fastdur.llm.messages import Message

_NOTHING = "(nothing)"
"""What stands for a text that is empty, which is refused."""


class Messages:
    """Messages: user and assistant by turns, the answers of tools first in what the user says."""

    method = "messages.create"

    def __init__(self, options: dict[str, Any], strict: Callable[[dict[str, Any]], Any] | None) -> None:
        self._options, self._strict = options, strict

    def sent(self, request: LLMRequest) -> dict[str, Any]:
        """The arguments of a request."""
        messages = presentable(request.messages)
        found: dict[str, Any] = {**self._options, "messages": _turns(messages)}
        system = [message.content for message in messages if message.role == "system" and message.content.strip()]
        schema = request.output_schema
        shape = self._shape(request)
        if shape is not None:
            found["output_config"] = {"format": {"type": "json_schema", "schema": shape}}
        elif schema is not None:
            system.append(asked_for(schema))
        if system:
            found["system"] = "\n\n".join(system)
        tools = [{"name": t.name, "description": t.description, "input_schema": t.parameters} for t in request.tools]
        called = {call.name: 0 for message in messages for call in message.tool_calls}
        if called and not tools:
            # A conversation with calls must come with tools; none of these may be called any more.
            tools = [{"name": name, "input_schema": {"type": "object"}} for name in called]
            found["tool_choice"] = {"type": "none"}
        return {**found, "tools": tools} if tools else found

    def _shape(self, request: LLMRequest) -> Any:
        """The schema that the provider is given, None where there is none, or where it goes into the prompt."""
        if request.output_schema is None or self._strict is None:
            return None
        return self._strict(as_object(request.output_schema))

    def streamed(self) -> dict[str, Any]:
        """What a stream is asked for with."""
        return {"stream": True}

    def collector(self) -> MessageCollector:
        """A new collector."""
        return MessageCollector()

    def read(self, answer: Any, request: LLMRequest) -> LLMResponse:
        """The answer. Raises `LLMError`."""
        if answer["stop_reason"] in ("max_tokens", "model_context_window_exceeded"):
            raise cut_off("it has reached the bound of its tokens", LONGER)
        if answer["stop_reason"] == "refusal":
            raise cut_off("the model declines", DECLINED)
        blocks = answer["content"]
        calls = tuple(ToolCall(b["id"], b["name"], b["input"]) for b in blocks if b["type"] == "tool_use")
        text = "".join(b["text"] for b in blocks if b["type"] == "text")
        wrapped = request.output_schema is None or self._shape(request) is not None
        taken = request.output_schema if wrapped else {"type": "object"}
        return LLMResponse(text if calls else answered_text(text, taken), calls, _usage(answer["usage"]))


def _usage(used: Any) -> Usage:
    """What was paid for; what goes into a cache, or comes out of it, is part of the prompt."""
    keys = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return Usage(sum(used.get(key) or 0 for key in keys), used.get("output_tokens") or 0)


def _turns(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The conversation by turns: what one side says in several messages is one."""
    found: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = [] if message.role == "system" else _blocks(message)
        if not blocks:
            continue
        if not found and role == "assistant":
            found.append({"role": "user", "content": [{"type": "text", "text": _NOTHING}]})
        if found and found[-1]["role"] == role:
            found[-1]["content"] += blocks
        else:
            found.append({"role": role, "content": blocks})
    return found


def _blocks(message: Message) -> list[dict[str, Any]]:
    if message.role == "tool":
        result = {"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.content}
        return [{**result, "is_error": True} if message.status == "error" else result]
    text = message.content if message.content.strip() else _NOTHING if message.role == "user" else ""
    said: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    return said + [
        {"type": "tool_use", "id": c.id, "name": c.name, "input": _object(c.arguments)} for c in message.tool_calls
    ]


def _object(arguments: Any) -> Any:
    """The arguments of a call; those that are no object, as one."""
    given: Any = arguments
    return given if isinstance(arguments, dict) else {"arguments": json_text(arguments)}


class MessageCollector:
    """Puts a message together."""

    def __init__(self) -> None:
        self._blocks: list[dict[str, Any]] = []
        self._inputs: dict[int, str] = {}
        self._end: Any = None
        self._usage: dict[str, Any] = {}

    def take(self, event: Any) -> str:
        """Take an event in; returns the text in it."""
        kind = event["type"]
        if kind == "message_start":
            self._usage = dict(event["message"]["usage"])
        elif kind == "content_block_start":
            self._blocks.append({**event["content_block"]})
        elif kind == "content_block_delta":
            place: int = event["index"]
            return self._add(self._blocks[place], place, event["delta"])
        elif kind == "message_delta":
            self._end = event["delta"]["stop_reason"]
            self._usage.update({key: value for key, value in event["usage"].items() if value is not None})
        return ""

    def _add(self, block: dict[str, Any], place: int, delta: Any) -> str:
        if delta["type"] == "input_json_delta":
            self._inputs[place] = self._inputs.get(place, "") + delta["partial_json"]
        if delta["type"] != "text_delta":
            return ""
        block["text"] += delta["text"]
        text: str = delta["text"]
        return text

    def answer(self) -> Any:
        """The message."""
        if self._end is None:
            raise cut_off("its stream has ended early", "Resume the run, which asks again.")
        for place, text in self._inputs.items():
            self._blocks[place]["input"] = parsed(text)
        return {"stop_reason": self._end, "content": self._blocks, "usage": self._usage}
