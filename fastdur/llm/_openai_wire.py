"""The two interfaces of OpenAI: chat completions, which others serve as well, and responses. Pure."""

from __future__ import annotations

import json
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
    from collections.abc import Mapping

    from fastdur.llm.client import LLMRequest
    from fastdur.llm.messages import Message

_NAME = "answer"


class Chat:
    """Chat completions."""

    method = "chat.completions.create"

    def __init__(self, options: dict[str, Any], *, native: bool) -> None:
        self._options, self._native = options, native

    def sent(self, request: LLMRequest) -> dict[str, Any]:
        """The arguments of a request."""
        found: dict[str, Any] = {**self._options, "messages": [*map(_chat_message, presentable(request.messages))]}
        schema = request.output_schema
        if schema is not None and self._native:
            shape = {"name": _NAME, "schema": as_object(schema)}
            found["response_format"] = {"type": "json_schema", "json_schema": shape}
        elif schema is not None:
            found["messages"].insert(0, {"role": "system", "content": asked_for(schema)})
        if request.tools:
            found["tools"] = [
                {
                    "type": "function",
                    "function": {"name": t.name, "description": t.description, "parameters": t.parameters},
                }
                for t in request.tools
            ]
        return found

    def streamed(self) -> dict[str, Any]:
        """What a stream is asked for with."""
        return {"stream": True, "stream_options": {"include_usage": True}}

    def collector(self) -> ChatCollector:
        """A new collector."""
        return ChatCollector()

    def read(self, answer: Any, request: LLMRequest) -> LLMResponse:
        """The answer. Raises `LLMError`."""
        if not answer.get("choices"):
            raise cut_off("it has no choices", "Resume the run, which asks again.")
        choice = answer["choices"][0]
        _whole(choice.get("finish_reason"))
        said = choice["message"]
        calls = tuple(
            ToolCall(call["id"] or "", call["function"]["name"], parsed(call["function"]["arguments"]))
            for call in said.get("tool_calls") or ()
        )
        used: Any = answer.get("usage") or {}
        usage = Usage(used.get("prompt_tokens") or 0, used.get("completion_tokens") or 0)
        text = said.get("content") or said.get("refusal") or ""
        return LLMResponse(text if calls else answered_text(text, _schema(request, native=self._native)), calls, usage)


def _schema(request: LLMRequest, *, native: bool) -> Mapping[str, Any] | None:
    """What the answer is taken out of: where the model read the schema in its prompt, it is not wrapped."""
    return request.output_schema if native or request.output_schema is None else {"type": "object"}


def _whole(reason: Any) -> None:
    if reason in ("length", "max_output_tokens"):
        raise cut_off("it has reached the bound of its tokens", LONGER)
    if reason == "content_filter":
        raise cut_off("the content filter", DECLINED)


def _chat_message(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.content}
    if not message.tool_calls:
        return {"role": message.role, "content": message.content}
    calls = [
        {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": json_text(c.arguments)}}
        for c in message.tool_calls
    ]
    return {"role": "assistant", "content": message.content or None, "tool_calls": calls}


class ChatCollector:
    """Puts a chat completion together."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._calls: dict[int, dict[str, Any]] = {}
        self._reason: Any = None
        self._usage: Any = None

    def take(self, event: Any) -> str:
        """Take a chunk in; returns the text in it."""
        self._usage = event.get("usage") or self._usage
        text = ""
        for choice in event.get("choices") or ():
            self._reason = choice.get("finish_reason") or self._reason
            delta = choice["delta"]
            text += delta.get("content") or delta.get("refusal") or ""
            for part in delta.get("tool_calls") or ():
                self._add(part)
        self._text.append(text)
        return text

    def _add(self, part: Any) -> None:
        call = self._calls.setdefault(part["index"], {"id": "", "function": {"name": "", "arguments": ""}})
        call["id"] = part.get("id") or call["id"]
        told: Any = part.get("function") or {}
        for key in ("name", "arguments"):
            call["function"][key] += told.get(key) or ""

    def answer(self) -> Any:
        """The completion."""
        if self._reason is None:
            raise cut_off("its stream has ended early", "Resume the run, which asks again.")
        said = {"content": "".join(self._text), "tool_calls": [self._calls[place] for place in sorted(self._calls)]}
        return {"choices": [{"finish_reason": self._reason, "message": said}], "usage": self._usage}


class Responses:
    """Responses. Nothing is kept at the provider: each request has the whole conversation."""

    method = "responses.create"

    def __init__(self, options: dict[str, Any], *, native: bool) -> None:
        self._options, self._native = options, native

    def sent(self, request: LLMRequest) -> dict[str, Any]:
        """The arguments of a request."""
        items = [item for message in presentable(request.messages) for item in _items(message)]
        found: dict[str, Any] = {**self._options, "input": items, "store": False}
        schema = request.output_schema
        if schema is not None and self._native:
            found["text"] = {
                "format": {"type": "json_schema", "name": _NAME, "schema": as_object(schema), "strict": False}
            }
        elif schema is not None:
            found["instructions"] = asked_for(schema)
        if request.tools:
            found["tools"] = [
                {
                    "type": "function",
                    "name": t.name,
                    "description": t.description,
                    "parameters": t.parameters,
                    "strict": False,
                }
                for t in request.tools
            ]
        return found

    def streamed(self) -> dict[str, Any]:
        """What a stream is asked for with."""
        return {"stream": True}

    def collector(self) -> ResponsesCollector:
        """A new collector."""
        return ResponsesCollector()

    def read(self, answer: Any, request: LLMRequest) -> LLMResponse:
        """The answer. Raises `LLMError`."""
        if answer.get("status") == "incomplete":
            details: Any = answer.get("incomplete_details") or {}
            _whole(details.get("reason"))
        if answer.get("status") not in ("completed", None):
            why = json.dumps(answer.get("error") or answer.get("status"))
            raise cut_off(why, "Resume the run, which asks again.")
        calls = tuple(
            ToolCall(item["call_id"], item["name"], parsed(item["arguments"]))
            for item in answer["output"]
            if item["type"] == "function_call"
        )
        parts = [part for item in answer["output"] if item["type"] == "message" for part in item["content"]]
        text = "".join(part.get("text") or part.get("refusal") or "" for part in parts)
        used: Any = answer.get("usage") or {}
        usage = Usage(used.get("input_tokens") or 0, used.get("output_tokens") or 0)
        return LLMResponse(text if calls else answered_text(text, _schema(request, native=self._native)), calls, usage)


def _items(message: Message) -> list[dict[str, Any]]:
    if message.role == "tool":
        return [{"type": "function_call_output", "call_id": message.tool_call_id, "output": message.content}]
    said = [{"role": message.role, "content": message.content}] if message.content or not message.tool_calls else []
    return said + [
        {"type": "function_call", "call_id": c.id, "name": c.name, "arguments": json_text(c.arguments)}
        for c in message.tool_calls
    ]


class ResponsesCollector:
    """Waits for the response that ends a stream."""

    def __init__(self) -> None:
        self._answer: Any = None

    def take(self, event: Any) -> str:
        """Take an event in; returns the text in it."""
        kind = event["type"]
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            self._answer = event["response"]
        return event["delta"] if kind in ("response.output_text.delta", "response.refusal.delta") else ""

    def answer(self) -> Any:
        """The response."""
        if self._answer is None:
            raise cut_off("its stream has ended early", "Resume the run, which asks again.")
        return self._answer
