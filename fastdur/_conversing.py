"""What agents and teams have in common: a run of theirs begins with a text, and its branches may too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastdur._codec import thaw
from fastdur._functions import is_async
from fastdur._runner import Runner
from fastdur.errors import AgentLimitError, GraphError
from fastdur.llm.messages import frozen_message, is_message, unfit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fastdur._codec import Frozen
    from fastdur.llm.messages import Message
    from fastdur.records import RunResult

WAY = "Resume it with a raised limit."


class Conversing(Runner):
    """A runner that is spoken to."""

    async_start = "arun"

    def run(
        self,
        input: str,
        execution_id: str | None = None,
        *,
        history: Iterable[Message] = (),
        context: object = None,
    ) -> RunResult:
        """Start a run on a text and carry it on until a model has given the answer or a tool pauses.

        `history` is what was said before; a call in it without its answer is given a note, an answer without its call
        is left out. Durable before each question to a model, and before every tool. The result has `output`,
        `messages`, `tool_calls`, `tokens`. An exception of a model fails the run, which stays resumable at that turn;
        one of a tool is told to the model. `run("hi")` is `execute({"input": "hi"})`; it raises like that, and
        `AgentLimitError`, `AgentOutputError`.
        """
        return self.execute(given(input, history), execution_id, context=context)

    async def arun(
        self,
        input: str,
        execution_id: str | None = None,
        *,
        history: Iterable[Message] = (),
        context: object = None,
    ) -> RunResult:
        """`run` on the running event loop: an async model and async tools are awaited, sync ones run in threads."""
        return await self.aexecute(given(input, history), execution_id, context=context)

    def unfit(self, changes: Mapping[str, Frozen]) -> str | None:
        """Why a conversation could not go on after these changes."""
        return unfit(changes)

    def _begun_by(self, input: Any) -> Any:
        return {"input": input} if type(input) is str else input


def given(input: Any, history: Iterable[Message]) -> dict[str, Any]:
    """What a run begins with. Raises `TypeError` where it is no text, or a message is none."""
    if type(input) is not str:
        message = f"the input of an agent is {type(input).__qualname__}; give a str"
        raise TypeError(message)
    before: list[Any] = [*history]
    wrong = next((place for place, each in enumerate(before) if not is_message(each)), None)
    if wrong is not None:
        message = f"history[{wrong}] is {before[wrong]!r}; give a Message, with texts"
        raise TypeError(message)
    said = [thaw(frozen_message(each)) for each in before]
    return {"input": input, **({"history": said} if said else {})}


def check_bounds(who: str, **bounds: tuple[Any, float | None]) -> None:
    """Raise `GraphError` for a bound that is no whole number from its least one; one without a least may be None."""
    for what, (bound, least) in bounds.items():
        if bound is None and least is None:
            continue
        if type(bound) is not int or bound < (1 if least is None else least):
            message = f"{what} of {who} is {bound!r}; give a whole number from {1 if least is None else least}"
            raise GraphError(message)


def checked_listener(on_text: Any, who: str) -> Any:
    """Who hears the models speak. Raises `GraphError` for what cannot be called at once."""
    if on_text is not None and (not callable(on_text) or is_async(on_text)):
        message = f"on_text of {who} is {on_text!r}; give a plain function on_text(text, agent), no async one"
        raise GraphError(message)
    return on_text


def checked_memory(memory: Any, who: str) -> Any:
    """A memory. Raises `GraphError` for what is none."""
    missing = [name for name in ("get_context", "add") if not callable(getattr(memory, name, None))]
    if memory is not None and missing:
        message = f"memory of {who} is {memory!r}, which has no {missing[0]}(); give an AgentMemory"
        raise GraphError(message)
    return memory


def check_seconds(who: str, seconds: Any) -> None:
    """Raise `GraphError` for a limit of time that is none."""
    if seconds is not None and (type(seconds) not in (int, float) or not seconds > 0):
        message = f"max_seconds of {who} is {seconds!r}; give seconds above 0"
        raise GraphError(message)


def spent_error(who: str, tokens: int, bound: int | None) -> AgentLimitError | None:
    """The error of one that may use no more tokens."""
    if bound is None or tokens < bound:
        return None
    return AgentLimitError(f"{who} has used {tokens} tokens of its {bound}. {WAY}")


def slow_error(who: str, seconds: float, bound: float | None) -> AgentLimitError | None:
    """The error of one that may take no more time."""
    if bound is None or seconds < bound:
        return None
    return AgentLimitError(f"{who} has run for {seconds:.3g} s of its {bound:.3g}. {WAY}")
