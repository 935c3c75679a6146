"""The models of the stories: they follow a script, and are awaited where a story is played on an event loop."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fastdur import LLMResponse, TestModel, Usage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from fastdur import LLMRequest

COST = Usage(prompt_tokens=100, completion_tokens=20)
"""What each answer of a model costs."""

_awaited = [False]


class Scripted:
    """A model that says in turn n what the n-th line of its script says; an async one inside `awaited()`."""

    def __init__(self, *script: Any) -> None:
        self._model = TestModel([*script], usage=COST)
        self.complete: Any = self._later if _awaited[0] else self._model.complete

    async def _later(self, request: LLMRequest) -> LLMResponse | Awaitable[LLMResponse]:
        return self._model.complete(request)


@contextmanager
def awaited() -> Iterator[None]:
    """Models that are made in this block are async."""
    _awaited[0] = True
    try:
        yield
    finally:
        _awaited[0] = False
