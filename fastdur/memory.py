"""The memory of an agent: what it is reminded of before a run, and told of after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from fastdur.llm.messages import Message


class AgentMemory(Protocol):
    """What an agent remembers over its runs. Each method is a plain function or an `async def`."""

    def get_context(self, query: str) -> Iterable[Message] | Awaitable[Iterable[Message]]:
        """What was said before that matters to `query`, the input of a run.

        Asked once, before the first question to the model; the messages are stored in the run, in front of its own
        history, so that a resumed run sees the same. Asked again where a process died before the row `turn:0`. What it
        raises fails the run, which a resume carries on here.
        """
        ...

    def add(self, message: Message) -> Any:
        """Keep a message: first the input of a run, then its final answer, each once the run has its answer.

        Each is an effect behind the row of the answer: a recorded one is not repeated, and where a process died in it
        it runs again, with the same `effect_key()`. What it raises fails the run; a resume goes on here, and neither
        asks the model nor calls a tool again.
        """
        ...
