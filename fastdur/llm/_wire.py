"""What every provider asks for of a conversation, and what their answers have in common. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol

from fastdur._codec import dumps, freeze
from fastdur.errors import LLMError
from fastdur.llm.messages import ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fastdur.llm.client import LLMRequest, LLMResponse
    from fastdur.llm.messages import Message

_LONGEST_ID = 40
_LONGEST_NAME = 64
_BARE = re.compile(rf"[a-zA-Z0-9_-]{{1,{_LONGEST_ID}}}")
_FENCED = re.compile(r"\s*```(?:json)?\s*\n(?P<inside>.*?)\n?\s*```\s*", re.DOTALL)


class Collector(Protocol):
    """Puts an answer together from the events of a stream."""

    def take(self, event: Any) -> str:
        """Take the next event, as plain data, in; returns the text in it."""
        ...

    def answer(self) -> Any:
        """The whole answer, in the form of one that was not streamed."""
        ...


class Wire(Protocol):
    """How one interface of a provider wants its requests, and how it answers."""

    method: str
    """The method of the SDK's client."""

    def sent(self, request: LLMRequest) -> dict[str, Any]:
        """The arguments of that method."""
        ...

    def streamed(self) -> dict[str, Any]:
        """Those that it has besides where the answer is to be streamed."""
        ...

    def collector(self) -> Collector:
        """A new collector for a stream."""
        ...

    def read(self, answer: Any, request: LLMRequest) -> LLMResponse:
        """The answer of plain data. Raises `LLMError` where it is not whole."""
        ...


def presentable(messages: Iterable[Message]) -> list[Message]:
    """The messages with ids and names of calls that every provider takes, each id once in the conversation.

    What a model has made up, or another provider has given, may be longer, or hold more than letters and digits.
    """
    seen: set[str] = set()
    ids: dict[str | None, str] = {}
    found: list[Message] = []
    for message in messages:
        if message.tool_calls:
            ids = {call.id: _fresh(_bare_id(call.id), seen) for call in message.tool_calls}
            seen.update(ids.values())
            calls = tuple(ToolCall(ids[c.id], _bare_name(c.name), c.arguments) for c in message.tool_calls)
            found.append(replace(message, tool_calls=calls))
        elif message.role == "tool":
            found.append(replace(message, tool_call_id=ids[message.tool_call_id]))
        else:
            found.append(message)
    return found


def _bare_id(given: str) -> str:
    return given if _BARE.fullmatch(given) else f"call_{sha256(given.encode(errors='replace')).hexdigest()[:24]}"


def _fresh(known: str, seen: set[str]) -> str:
    """The id, or where an earlier message has it one that is made of it."""
    number = 1
    found = known
    while found in seen:
        number += 1
        found = _bare_id(f"{known}_{number}")
    return found


def _bare_name(given: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", given)[:_LONGEST_NAME] or "_"


def json_text(arguments: Any) -> str:
    """The arguments of a call as JSON; what a model has written that is none is given back as it was."""
    return arguments if isinstance(arguments, str) else dumps(freeze(arguments, "arguments"))


def parsed(text: str) -> Any:
    """The arguments in the JSON of a model, or its text where that is no JSON: the agent tells it so."""
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text


def as_object(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema of an object, which is what providers take: another one becomes that of the only key, `value`."""
    if schema.get("type") == "object":
        return dict(schema)
    inside = {key: part for key, part in schema.items() if key != "$defs"}
    defs = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    wrapped = {"type": "object", "properties": {"value": inside}, "required": ["value"], "additionalProperties": False}
    return {**wrapped, **defs}


def answered_text(text: str, schema: Mapping[str, Any] | None) -> str:
    """The answer as an agent checks it: without a fence around it, and without the object of `as_object`."""
    if schema is None:
        return text
    fenced = _FENCED.fullmatch(text)
    text = fenced["inside"] if fenced else text
    if schema.get("type") == "object":
        return text
    inside = parsed(text)
    return json.dumps(inside["value"]) if type(inside) is dict and [*inside] == ["value"] else text


def asked_for(schema: Mapping[str, Any]) -> str:
    """What a model is told where the schema goes into the prompt."""
    return f"Give the final answer as JSON alone, without a fence, that fits this JSON schema:\n{json.dumps(schema)}"


def cut_off(why: str, way: str) -> LLMError:
    """The error of an answer that is not whole."""
    return LLMError(f"The answer of the model is not whole ({why}). {way}")


LONGER = "Give the model a higher max_tokens=, and resume the run."
DECLINED = "It was stopped by the provider. Change what is asked, and resume or fork the run."
