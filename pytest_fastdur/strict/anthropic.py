"""Anthropic: messages, what they refuse, and how they answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_fastdur.strict.openai import pieces
from pytest_fastdur.strict.refusing import (
    RefusedError,
    answered_in_order,
    check,
    is_list,
    is_object,
    only,
    schema_of_object,
    unique,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fastdur.llm.client import LLMResponse

_BODY = frozenset(
    [
        "model",
        "messages",
        "max_tokens",
        "system",
        "tools",
        "tool_choice",
        "temperature",
        "top_p",
        "top_k",
        "stop_sequences",
        "stream",
        "metadata",
        "output_config",
        "thinking",
        "service_tier",
    ]
)


class Anthropic:
    """The interface under `/v1/messages`."""

    name = "anthropic"
    prefix = ""
    paths: tuple[str, ...] = ("/v1/messages",)

    def admit(self, path: str, headers: Mapping[str, str], body: Any) -> int:
        """How often the model has spoken in this request. Raises `RefusedError`."""
        del path
        if not headers.get("x-api-key") and not headers.get("authorization"):
            message = "x-api-key header is required"
            raise RefusedError(message, 401, "authentication_error")
        check(headers.get("anthropic-version"), "anthropic-version: header is required")
        return _messages(body)

    def error(self, refused: RefusedError) -> Any:
        """The body of a refusal."""
        return {"type": "error", "error": {"type": refused.kind, "message": str(refused)}, "request_id": "req_1"}

    def answer(self, path: str, body: Any, said: LLMResponse) -> Any:
        """The body of an answer."""
        del path
        blocks: list[Any] = [{"type": "text", "text": said.content}] if said.content else []
        blocks += [{"type": "tool_use", "id": c.id, "name": c.name, "input": c.arguments} for c in said.tool_calls]
        usage = {"input_tokens": said.usage.prompt_tokens, "output_tokens": said.usage.completion_tokens}
        known = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"]}
        reason = "tool_use" if said.tool_calls else "end_turn"
        return {**known, "content": blocks, "stop_reason": reason, "stop_sequence": None, "usage": usage}

    def events(self, path: str, answer: Any) -> Iterator[tuple[str | None, Any]]:
        """The events of an answer that is streamed."""
        del path
        usage = {**answer["usage"], "output_tokens": 1}
        begun: Any = {**answer, "content": [], "stop_reason": None, "usage": usage}
        told: list[Any] = [{"type": "message_start", "message": begun}, {"type": "ping"}]
        for place, block in enumerate(answer["content"]):
            text = block["type"] == "text"
            empty: Any = {**block, "text": ""} if text else {**block, "input": {}}
            written = block["text"] if text else json.dumps(block["input"])
            told.append({"type": "content_block_start", "index": place, "content_block": empty})
            for piece in pieces(written):
                part = {"type": "text_delta", "text": piece}
                delta = part if text else {"type": "input_json_delta", "partial_json": piece}
                told.append({"type": "content_block_delta", "index": place, "delta": delta})
            told.append({"type": "content_block_stop", "index": place})
        end = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
        paid = {"output_tokens": answer["usage"]["output_tokens"]}
        told += [{"type": "message_delta", "delta": end, "usage": paid}, {"type": "message_stop"}]
        for event in told:
            yield event["type"], event


def _messages(body: Any) -> int:
    only(body, _BODY, ("model", "messages", "max_tokens"), "body")
    longest: Any = body["max_tokens"]
    check(isinstance(longest, int) and longest > 0, "max_tokens: must be greater than 0")
    messages: Any = body["messages"]
    check(is_list(messages) and messages, "messages: at least one message is required")
    system: Any = body.get("system", "-")
    check(isinstance(system, str) and system.strip(), "system: text content blocks must be non-empty")
    asked: list[str] = []
    seen: set[str] = set()
    for number, message in enumerate(messages):
        where = f"messages.{number}"
        only(message, frozenset({"role", "content"}), ("role",), where)
        due = "user" if number % 2 == 0 else "assistant"
        check(message["role"] == due, f"{where}.role: roles must alternate, beginning with 'user'; expected {due!r}")
        given: Any = message.get("content")
        blocks: Any = [{"type": "text", "text": given}] if isinstance(given, str) else given
        check(is_list(blocks) and blocks, f"{where}: all messages must have non-empty content")
        answers = _blocks(blocks, due, where)
        answered_in_order(asked, answers, where)
        asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
        check(not seen & {*asked} and len({*asked}) == len(asked), f"{where}: `tool_use` ids must be unique")
        seen.update(asked)
    check(len(messages) % 2, "messages: the conversation must end with a user message")
    check(not seen or body.get("tools"), "tools: requests with tool_use or tool_result blocks must define tools")
    _tools(body)
    return len(messages) // 2


_KEYS = {
    "text": frozenset({"type", "text", "cache_control"}),
    "tool_use": frozenset({"type", "id", "name", "input", "cache_control"}),
    "tool_result": frozenset({"type", "tool_use_id", "content", "is_error", "cache_control"}),
}
_OF_ROLE = {"user": ("text", "tool_result"), "assistant": ("text", "tool_use")}


def _blocks(blocks: Any, role: str, where: str) -> list[str]:
    """The ids that are answered in the blocks of a message. Raises where one does not belong there."""
    answers: list[str] = []
    for number, block in enumerate(blocks):
        at = f"{where}.content.{number}"
        check(is_object(block), f"{at}: an object is required")
        kind = block.get("type")
        check(kind in _OF_ROLE[role], f"{at}: {kind!r} blocks can not be in {role} messages")
        if kind == "text":
            only(block, _KEYS[kind], ("type",), at)
            check(str(block.get("text") or "").strip(), f"{at}: text content blocks must contain non-whitespace text")
        elif kind == "tool_use":
            only(block, _KEYS[kind], ("id", "name", "input"), at)
            unique([block["id"]], f"{at}.id")
            unique([block["name"]], f"{at}.name")
            check(is_object(block["input"]), f"{at}.input: input should be a valid dictionary")
        else:
            only(block, _KEYS[kind], ("tool_use_id",), at)
            check(len(answers) == number, f"{at}: tool_result blocks must come first")
            answers.append(block["tool_use_id"])
    return answers


def _tools(body: Any) -> None:
    tools: Any = body.get("tools") or []
    check(tools or "tool_choice" not in body, "tool_choice: may only be specified while providing tools")
    for tool in tools:
        known = frozenset({"type", "name", "description", "input_schema", "strict", "cache_control"})
        only(tool, known, ("name", "input_schema"), "tools")
        schema_of_object(tool["input_schema"], f"tools.{tool['name']}.input_schema")
    unique([tool["name"] for tool in tools], "tools")
    config: Any = body.get("output_config")
    check(config is None or is_object(config), "output_config: must be an object")
    form: Any = (config or {}).get("format")
    check(form is None or is_object(form), "output_config.format: must be an object")
    if form is not None:
        schema_of_object(form.get("schema"), "output_config.format.schema")
        _closed(form["schema"])


def _closed(schema: Any) -> None:
    """Refuse an object that may have more keys."""
    if is_list(schema):
        for part in schema:
            _closed(part)
    elif is_object(schema):
        closed = schema.get("type") != "object" or schema.get("additionalProperties") is False
        check(closed, "output_config.format.schema: for 'object' type, 'additionalProperties' must be false")
        for part in schema.values():
            _closed(part)
