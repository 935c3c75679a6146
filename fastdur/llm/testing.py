"""Models for tests: an answer for each turn, or a function."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from fastdur._functions import is_async
from fastdur.llm.client import LLMResponse
from fastdur.llm.messages import ToolCall, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fastdur.llm.client import LLMRequest

Scripted = Any
"""A text, a `ToolCall`, a list of them, or an `LLMResponse`."""


class TestModel:
    """A model that answers with `response`, or in turn n with the n-th of a list; the last one repeats.

    An answer is a text, a `ToolCall`, a list of them, or an `LLMResponse`. Which one is due is read from the request,
    not counted, so a model that is asked again, or built anew in another process, gives the same answer. `usage` is
    what each costs. `calls` are the requests it was asked.
    """

    __test__ = False

    def __init__(self, response: Scripted = "ok", *, usage: Usage | None = None) -> None:
        self._script: list[Any] = [*response] if type(response) is list else [response]
        if not self._script:
            message = "TestModel([]) has nothing to say; give at least one answer"
            raise ValueError(message)
        self._usage = usage or Usage()
        self.calls: list[LLMRequest] = []

    def complete(self, request: LLMRequest) -> LLMResponse:
        """The answer that is due."""
        self.calls.append(request)
        return _spoken(response_of(self._script[min(request.turn, len(self._script) - 1)], self._usage), request)


class FunctionModel:
    """A model that is a function of the messages, sync or async: `fn(messages)` returns what `TestModel` takes."""

    def __init__(self, fn: Callable[[Any], Any], *, usage: Usage | None = None) -> None:
        self._fn, self._usage = fn, usage or Usage()
        self.calls: list[LLMRequest] = []
        self.complete: Callable[[LLMRequest], Any] = self._awaited if is_async(fn) else self._called

    def _called(self, request: LLMRequest) -> LLMResponse:
        self.calls.append(request)
        return _spoken(response_of(self._fn(request.messages), self._usage), request)

    async def _awaited(self, request: LLMRequest) -> LLMResponse:
        self.calls.append(request)
        return _spoken(response_of(await self._fn(request.messages), self._usage), request)


def _spoken(response: LLMResponse, request: LLMRequest) -> LLMResponse:
    """The response, its text told to whoever listens, word by word."""
    if request.on_text is not None:
        for word in re.findall(r"\s*\S+\s*$|\s*\S+|\s+", response.content):
            request.on_text(word)
    return response


def response_of(said: Scripted, usage: Usage) -> LLMResponse:
    """The response that an answer of a script stands for. Raises `TypeError` for anything else."""
    if isinstance(said, LLMResponse):
        return said
    if isinstance(said, str):
        return LLMResponse(said, usage=usage)
    calls: Any = [said] if isinstance(said, ToolCall) else said
    if type(calls) is list and calls and {ToolCall}.issuperset(map(type, cast("Iterable[object]", calls))):
        return LLMResponse(tool_calls=tuple(cast("Iterable[ToolCall]", calls)), usage=usage)
    message = f"a model answers with a text, a ToolCall, a list of them or an LLMResponse, not {said!r}"
    raise TypeError(message)
