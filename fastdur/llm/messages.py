"""What an agent and a model say to each other, and the form in which it is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, overload

from fastdur._codec import dumps, freeze, thaw
from fastdur._frozen import TAG, class_of, is_tag
from fastdur.errors import NodeResultError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fastdur._codec import Frozen

UNANSWERED = "The answer to this call is not part of this conversation."

Role = Literal["system", "user", "assistant", "tool"]
CallStatus = Literal["ok", "error", "refused", "skipped"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model asks for a tool: the id that the answer must name, the tool, the arguments as the model wrote them."""

    id: str
    name: str
    arguments: Any = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation.

    `tool_calls` are what an `assistant` asks for; a `tool` message answers the one that `tool_call_id` names. `status`
    says how a tool call ended: `ok`, `error` (it raised, or was called wrongly), `refused` (by a human) or `skipped`.
    """

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    status: CallStatus | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens that were paid for."""

    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Both together."""
        return self.prompt_tokens + self.completion_tokens


def frozen_message(message: Message) -> Frozen:
    """The message as it is stored: what it does not have is left out. Raises `NotStorable`."""
    parts: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        parts["tool_calls"] = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in message.tool_calls]
    for key in ("tool_call_id", "name", "status"):
        if getattr(message, key) is not None:
            parts[key] = getattr(message, key)
    return freeze(parts, "message")


def message_of(frozen: Frozen) -> Message:
    """The message that `frozen` was made from. Raises `TypeError` or `KeyError` for what is none."""
    parts: dict[str, Any] = thaw(frozen)
    calls = tuple(ToolCall(**call) for call in parts.pop("tool_calls", ()))
    return Message(tool_calls=calls, **parts)


class Conversation(Sequence[Message]):
    """The messages of a run so far, read only. Each is made when it is asked for: a long one is as cheap to hand on."""

    def __init__(self, before: Iterable[Message], frozen: Sequence[Frozen]) -> None:
        self._before, self._frozen = tuple(before), frozen

    def __len__(self) -> int:
        """How many there are."""
        return len(self._before) + len(self._frozen)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        """The message at a place, or a list of several."""
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        first = len(self._before)
        return self._before[place] if place < first else message_of(self._frozen[place - first])


def answered(messages: Iterable[Message]) -> list[Message]:
    """A conversation in which each call has exactly one answer, in order: what providers accept.

    For one that was cut or edited: an answer without its call is left out, a call without its answer is given a note.
    """
    given = [*messages]
    kept: list[Message] = []
    place = 0
    while place < len(given):
        message = given[place]
        place += 1
        if message.role == "tool":
            continue
        kept.append(message)
        answers: dict[str | None, Message] = {}
        while place < len(given) and given[place].role == "tool":
            answers.setdefault(given[place].tool_call_id, given[place])
            place += 1
        for call in message.tool_calls:
            note = Message("tool", UNANSWERED, tool_call_id=call.id, name=call.name, status="skipped")
            kept.append(answers.get(call.id, note))
    return kept


def tool_records(messages: Iterable[Message], first: int = 0) -> list[dict[str, Any]]:
    """Every answered tool call of a conversation: turn, name, arguments, id, and its output with the status.

    `first` is the turn of the first answer of a model.
    """
    found: list[dict[str, Any]] = []
    asked: dict[str | None, dict[str, Any]] = {}
    turn = first - 1
    for message in messages:
        turn += message.role == "assistant"
        for call in message.tool_calls:
            asked[call.id] = {"turn": turn, "name": call.name, "arguments": call.arguments, "tool_call_id": call.id}
        if message.role == "tool":
            known = asked.pop(message.tool_call_id, {"tool_call_id": message.tool_call_id})
            found.append({**known, "output": message.content, "status": message.status})
    return found


def prompt_of(given: Frozen) -> Message:
    """An agent's input as the model reads it: a text, or plain JSON. Raises `NodeResultError` for anything else."""
    if type(given) is not str and f'"{TAG}"' in dumps(given):
        what = type(thaw(given)).__qualname__ if is_tag(given) else "a value that holds more than JSON does"
        message = f"the input of an agent is {what}, which no model can read; give a text, or plain JSON"
        raise NodeResultError(message)
    return Message("user", given if type(given) is str else dumps(given))


def conversation_of(data: Mapping[str, Any]) -> list[Message]:
    """The messages in an agent's state, without the system prompt, which is the agent's own."""
    said = [prompt_of(data["input"])] if "input" in data else []
    return [*map(message_of, data.get("history", ())), *said, *map(message_of, data.get("messages", ()))]


_ROLES = ("system", "user", "assistant", "tool")


def unfit(changes: Mapping[str, Any]) -> str | None:
    """Why an agent could not go on after these changes of its state; None where it can."""
    for key in ("messages", "history"):
        messages: Any = changes.get(key, [])
        if class_of(messages) is not list:
            return f"{key} is {thaw(messages)!r}; give a list of messages as the state has them"
        wrong = next((place for place, each in enumerate(messages) if not _is_message(each)), None)
        if wrong is not None:
            return f"{key}[{wrong}] is {thaw(messages[wrong])!r}; give a message as the state has it"
    usage: Any = changes.get("usage", [0, 0])
    tokens: Any = usage if class_of(usage) is list else []
    if [*map(type, tokens)] != [int, int] or min(tokens) < 0:
        told: Any = thaw(changes["usage"])
        return f"usage is {told!r}; give [prompt tokens, completion tokens]"
    return None


def _is_message(frozen: Frozen) -> bool:
    try:
        message = message_of(frozen)
    except (TypeError, KeyError, ValueError, AttributeError):
        return False
    return is_message(message)


def is_message(given: Any) -> bool:
    """Whether it is a message that a model can be given: with a role that there is, and texts where texts belong."""
    if type(given) is not Message or given.role not in _ROLES or type(given.tool_calls) is not tuple:
        return False
    texts: list[Any] = [given.content, given.tool_call_id or "", given.name or ""]
    return {str}.issuperset(map(type, texts)) and {ToolCall}.issuperset(map(type, given.tool_calls))
