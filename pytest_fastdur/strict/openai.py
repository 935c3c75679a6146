"""OpenAI: chat completions and responses, what they refuse, and how they answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

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

_CHAT = frozenset(
    [
        "model",
        "messages",
        "tools",
        "tool_choice",
        "response_format",
        "temperature",
        "top_p",
        "max_tokens",
        "max_completion_tokens",
        "n",
        "seed",
        "stop",
        "stream",
        "stream_options",
        "parallel_tool_calls",
        "user",
        "metadata",
        "reasoning_effort",
        "store",
    ]
)
_RESPONSES = frozenset(
    [
        "model",
        "input",
        "instructions",
        "tools",
        "tool_choice",
        "text",
        "temperature",
        "top_p",
        "max_output_tokens",
        "stream",
        "store",
        "parallel_tool_calls",
        "user",
        "metadata",
        "reasoning",
        "include",
        "previous_response_id",
        "truncation",
    ]
)
_LONGEST_ID = {"chat": 40, "responses": 64}


class OpenAI:
    """The interface under `/v1`."""

    name = "openai"
    prefix = "/v1"
    paths: tuple[str, ...] = ("/v1/chat/completions", "/v1/responses")

    def admit(self, path: str, headers: Mapping[str, str], body: Any) -> int:
        """How often the model has spoken in this request. Raises `RefusedError`."""
        if not headers.get("authorization", "").startswith("Bearer "):
            message = "You didn't provide an API key."
            raise RefusedError(message, 401)
        return _chat(body) if path.endswith("completions") else _responses(body)

    def error(self, refused: RefusedError) -> Any:
        """The body of a refusal."""
        return {"error": {"message": str(refused), "type": refused.kind, "param": None, "code": None}}

    def answer(self, path: str, body: Any, said: LLMResponse) -> Any:
        """The body of an answer."""
        return _completion(body, said) if path.endswith("completions") else _response(body, said)

    def events(self, path: str, answer: Any) -> Iterator[tuple[str | None, Any]]:
        """The events of an answer that is streamed."""
        return _chunks(answer) if path.endswith("completions") else _response_events(answer)


def _chat(body: Any) -> int:
    only(body, _CHAT, ("model", "messages"), "body")
    messages: Any = body["messages"]
    check(is_list(messages) and messages, "messages: at least one is required")
    check("stream_options" not in body or body.get("stream"), "stream_options: only allowed with stream")
    place, spoken = 0, 0
    while place < len(messages):
        message, where = messages[place], f"messages[{place}]"
        place += 1
        asked = _message(message, where)
        spoken += message["role"] == "assistant"
        answers: list[str] = []
        while place < len(messages) and is_object(messages[place]) and messages[place].get("role") == "tool":
            _message(messages[place], f"messages[{place}]")
            answers.append(messages[place]["tool_call_id"])
            place += 1
        answered_in_order(asked, answers, where)
    _tools(body, [each.get("function") for each in body.get("tools") or () if is_object(each)])
    form = _object(body.get("response_format"), "response_format")
    if form.get("type") == "json_schema":
        shape = _object(form.get("json_schema"), "response_format.json_schema")
        check(shape.get("name"), "response_format.json_schema.name: field required")
        schema_of_object(shape.get("schema"), "response_format.json_schema.schema")
    return spoken


_FIELDS = {
    "system": frozenset({"role", "content", "name"}),
    "developer": frozenset({"role", "content", "name"}),
    "user": frozenset({"role", "content", "name"}),
    "assistant": frozenset({"role", "content", "name", "tool_calls", "refusal"}),
    "tool": frozenset({"role", "content", "tool_call_id"}),
}


def _message(message: Any, where: str) -> list[str]:
    """The ids of the calls in a message. Raises where it is none."""
    role: Any = message.get("role") if is_object(message) else None
    check(role in _FIELDS, f"{where}.role: {role!r} is none of {[*_FIELDS]}")
    only(message, _FIELDS[role], ("tool_call_id",) if role == "tool" else (), where)
    calls: Any = message.get("tool_calls")
    silent = role == "assistant" and calls
    check(isinstance(message.get("content"), str) or (silent and message.get("content") is None), f"{where}.content")
    if calls is None:
        return []
    check(calls, f"{where}.tool_calls: at least one is required")
    for call in calls:
        only(call, frozenset({"id", "type", "function"}), ("id", "type", "function"), f"{where}.tool_calls")
        only(call["function"], frozenset({"name", "arguments"}), ("name",), f"{where}.tool_calls.function")
        check(call["type"] == "function", f"{where}.tool_calls.type")
        _called(call["id"], call["function"], f"{where}.tool_calls", "chat")
    ids = [call["id"] for call in calls]
    check(len({*ids}) == len(ids), f"{where}.tool_calls: ids must be unique")
    return ids


def _called(given: Any, function: Any, where: str, api: str) -> None:
    check(isinstance(given, str) and 0 < len(given) <= _LONGEST_ID[api], f"{where}.id: {given!r} is too long, or none")
    unique([function["name"]], f"{where}.name")
    check(isinstance(function.get("arguments"), str), f"{where}.arguments: a string of JSON is required")


def _tools(body: Any, told: list[Any]) -> None:
    if body.get("tools") is None:
        check("tool_choice" not in body, "tool_choice: only allowed with tools")
        return
    check(
        is_list(body["tools"]) and body["tools"] and len(told) == len(body["tools"]), "tools: at least one is required"
    )
    for tool in body["tools"]:
        check(is_object(tool) and tool.get("type") == "function", "tools.type: must be 'function'")
    for function in told:
        only(function, frozenset({"type", "name", "description", "parameters", "strict"}), ("name",), "tools.function")
        schema_of_object(function.get("parameters", {"type": "object"}), f"tools.{function['name']}.parameters")
    unique([function["name"] for function in told], "tools.name")


def _responses(body: Any) -> int:
    only(body, _RESPONSES, ("model", "input"), "body")
    items: Any = [{"role": "user", "content": body["input"]}] if isinstance(body["input"], str) else body["input"]
    check(is_list(items) and items, "input: at least one item is required")
    asked: list[str] = []
    answers: list[str] = []
    spoken, speaking = 0, False
    for number, item in enumerate(items):
        where = f"input[{number}]"
        check(is_object(item), f"{where}: an object is required")
        kind = item.get("type", "message")
        if kind == "function_call_output":
            only(item, frozenset({"type", "call_id", "output", "id", "status"}), ("call_id",), where)
            check(isinstance(item.get("output"), str), f"{where}.output: field required")
            answers.append(item["call_id"])
            speaking = False
            continue
        if answers:
            answered_in_order(asked, answers, where)
            asked, answers = [], []
        by_model = kind == "function_call" or item.get("role") == "assistant"
        spoken += by_model and not speaking
        speaking = by_model
        if kind == "function_call":
            needed = ("call_id", "name")
            only(item, frozenset({"type", "call_id", "name", "arguments", "id", "status"}), needed, where)
            _called(item["call_id"], item, where, "responses")
            asked.append(item["call_id"])
            continue
        check(kind == "message", f"{where}.type: {kind!r} is unknown")
        answered_in_order(asked, answers, where)
        only(item, frozenset({"type", "role", "content"}), ("role",), where)
        check(item["role"] in ("system", "developer", "user", "assistant"), f"{where}.role: {item['role']!r}")
        check(isinstance(item.get("content"), str), f"{where}.content: field required")
    answered_in_order(asked, answers, "input")
    _tools(body, [*(body.get("tools") or ())])
    form = _object(_object(body.get("text"), "text").get("format"), "text.format")
    if form.get("type") == "json_schema":
        check(form.get("name"), "text.format.name: field required")
        schema_of_object(form.get("schema"), "text.format.schema")
    return spoken


def _object(value: Any, where: str) -> Any:
    """What may be left out, and is an object where it is there."""
    check(value is None or is_object(value), f"{where}: must be an object")
    return value or {}


def _completion(body: Any, said: LLMResponse) -> Any:
    calls = [
        {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": _written(c.arguments)}}
        for c in said.tool_calls
    ]
    message = {"role": "assistant", "content": said.content or None, "refusal": None}
    choice = {
        "index": 0,
        "finish_reason": "tool_calls" if calls else "stop",
        "logprobs": None,
        "message": {**message, **({"tool_calls": calls} if calls else {})},
    }
    paid = said.usage
    usage = {
        "prompt_tokens": paid.prompt_tokens,
        "completion_tokens": paid.completion_tokens,
        "total_tokens": paid.total_tokens,
    }
    known = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": body["model"]}
    return {**known, "choices": [choice], "usage": usage}


def _written(arguments: Any) -> str:
    """The arguments as the model writes them; a text is one that is no JSON, perhaps."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _chunks(answer: Any) -> Iterator[tuple[str | None, Any]]:
    choice = answer["choices"][0]
    known = {"id": answer["id"], "object": "chat.completion.chunk", "created": 0, "model": answer["model"]}
    deltas: list[Any] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in pieces(choice["message"]["content"] or "")]
    for place, call in enumerate(choice["message"].get("tool_calls", ())):
        name, written = call["function"]["name"], call["function"]["arguments"]
        first = {"index": place, "id": call["id"], "type": "function", "function": {"name": name, "arguments": ""}}
        deltas.append({"tool_calls": [first]})
        deltas += [{"tool_calls": [{"index": place, "function": {"arguments": part}}]} for part in pieces(written)]
    for delta in deltas:
        yield None, {**known, "choices": [{"index": 0, "delta": delta, "finish_reason": None}], "usage": None}
    end: Any = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    yield None, {**known, "choices": [end], "usage": None}
    yield None, {**known, "choices": [], "usage": answer["usage"]}
    yield None, "[DONE]"


def pieces(text: str) -> list[str]:
    """A text as a stream cuts it."""
    return [text[start : start + 5] for start in range(0, len(text), 5)]


def _response(body: Any, said: LLMResponse) -> Any:
    text: Any = {"type": "output_text", "text": said.content, "annotations": []}
    words: Any = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    output: list[Any] = [words] if said.content else []
    output += [
        {
            "type": "function_call",
            "id": f"fc_{place}",
            "call_id": call.id,
            "name": call.name,
            "arguments": _written(call.arguments),
            "status": "completed",
        }
        for place, call in enumerate(said.tool_calls)
    ]
    paid = said.usage
    usage = {
        "input_tokens": paid.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": paid.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": paid.total_tokens,
    }
    known = {"id": "resp_1", "object": "response", "created_at": 0, "model": body["model"], "status": "completed"}
    rest: Any = {
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
    }
    return {**known, **rest, "output": output, "usage": usage}


def _response_events(answer: Any) -> Iterator[tuple[str | None, Any]]:
    begun: Any = {**answer, "status": "in_progress", "output": [], "usage": None}
    told: list[Any] = [{"type": "response.created", "response": begun}]
    for place, item in enumerate(answer["output"]):
        if item["type"] == "message":
            at: Any = {"output_index": place, "item_id": item["id"], "content_index": 0, "logprobs": []}
            delta = "response.output_text.delta"
            told += [{"type": delta, "delta": piece, **at} for piece in pieces(item["content"][0]["text"])]
    for number, event in enumerate([*told, {"type": "response.completed", "response": answer}]):
        yield event["type"], {**event, "sequence_number": number}
