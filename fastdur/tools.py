"""Tools of an agent: functions, and runners, that a model may ask for."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, overload

from fastdur._functions import chained, is_async
from fastdur._runner import Runner
from fastdur._schema import Arguments, Typed, documented, misfit, text_of
from fastdur.errors import GraphError
from fastdur.interrupt import interrupt
from fastdur.llm.client import ToolSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fastdur._steps import Machine
    from fastdur.llm.messages import CallStatus

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class FunctionTool:
    """A function that a model may ask for; `@tool` makes one.

    Its JSON schema comes from the type hints and the docstring; arguments are checked against it before the tool's row
    is written, and a call that does not fit is answered with what is wrong. The function is called again, with the
    stored arguments, where a process died in it: what it does outside belongs under `@idempotent`. What it returns is
    told to the model, a text as it is and anything else as JSON; bytes are refused, and what does not fit
    `output_type`, any type that pydantic knows. An exception of its own is tried again `retries` times, each try with
    `timeout` seconds, and then told to the model; no error of fastdur is.
    `needs_approval` pauses the run before the body, with the question `approve_NAME`; a refusal is told to the model.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: float | None = None,
        retries: int = 0,
        needs_approval: bool = False,
        output_type: Any = None,
    ) -> None:
        given: Any = fn
        if not callable(given):
            message = f"a tool is made of {fn!r}; give a function, or RunnerTool(...) for a runner"
            raise GraphError(message)
        self.fn = fn
        self.name = checked_tool_name(getattr(fn, "__name__", type(fn).__name__) if name is None else name)
        if type(retries) is not int or retries < 0:
            message = f"retries= of tool {self.name!r} is {retries!r}; give a whole number from 0"
            raise GraphError(message)
        if timeout is not None and not timeout > 0:
            message = f"timeout= of tool {self.name!r} is {timeout!r}; give seconds above 0"
            raise GraphError(message)
        self.timeout, self.retries, self.needs_approval = timeout, retries, needs_approval
        self._description, self._output_type = description, output_type

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, as outside of an agent."""
        return self.fn(*args, **kwargs)

    @cached_property
    def arguments(self) -> Arguments:
        """What it takes. Raises `GraphError` where that has no schema."""
        return Arguments(self.fn, self.name)

    @cached_property
    def output(self) -> Typed | None:
        """What it returns, None for anything. Raises `GraphError` where that is no type."""
        kind = self._output_type
        return None if kind is None else Typed(kind, f"output_type= of tool {self.name!r}")

    @cached_property
    def spec(self) -> ToolSpec:
        """The tool as a model is told of it. Raises `GraphError` for what has no schema."""
        _ = self.output
        told = documented(getattr(self.fn, "__doc__", None) or "")[0]
        return ToolSpec(self.name, told if self._description is None else self._description, self.arguments.schema)

    def problem(self, arguments: Any) -> str | None:
        """What is wrong with the arguments of a call; None where they fit."""
        return _problem(self.arguments.bound, arguments)

    def call(self, arguments: Any) -> Callable[[Any], Any]:
        """A call with these arguments, which fit, as the function that a driver invokes."""
        tell = chained(self.fn, partial(_told, f"tool {self.name!r}", self.output))

        def called(_: Any) -> Any:
            refusal = self._refusal(arguments)
            return tell(**self.arguments.bound(arguments)) if refusal is None else refusal

        async def acalled(_: Any) -> Any:
            refusal = self._refusal(arguments)
            return await tell(**self.arguments.bound(arguments)) if refusal is None else refusal

        return acalled if is_async(self.fn) else called

    def _refusal(self, arguments: Any) -> tuple[CallStatus, str] | None:
        if not self.needs_approval:
            return None
        answer = interrupt(f"approve_{self.name}", {"tool": self.name, "arguments": arguments})
        if answer.approved:
            return None
        said: Any = answer.metadata
        reason: Any = said.get("reason") if hasattr(said, "get") else None
        return "refused", "A human refused this call; it was not made." + (f" Reason: {reason}" if reason else "")


class RunnerTool:
    """A chain, an agent or a team that a model may ask for; its run is part of the agent's run, durable step by step.

    `description` is what the model is told. `parameters` is a pydantic model, a TypedDict or a dataclass whose fields
    become the first state of a chain, by default one text, `input`, which is what an agent takes. The model is told the
    output. A failure inside fails the run, which resumes there: it is no text for the model.
    """

    needs_approval = False

    def __init__(self, runner: Runner, description: str, *, name: str | None = None, parameters: Any = None) -> None:
        given: Any = runner
        if not isinstance(given, Runner):
            message = f"RunnerTool is made of {runner!r}; give a Chain or an Agent, or a team of agents"
            raise GraphError(message)
        self.runner, self.description = runner, description
        self._parameters = Input if parameters is None else parameters
        self.name = checked_tool_name(runner.name if name is None else name)

    @cached_property
    def machine(self) -> Machine:
        """The runner as the agent sees it."""
        return self.runner

    @cached_property
    def takes(self) -> Typed:
        """What it takes. Raises `GraphError` where that has no schema."""
        return Typed(self._parameters, f"parameters= of tool {self.name!r}")

    @cached_property
    def spec(self) -> ToolSpec:
        """The tool as a model is told of it."""
        return ToolSpec(self.name, self.description, self.takes.schema)

    def problem(self, arguments: Any) -> str | None:
        """What is wrong with the arguments of a call; None where they fit."""
        return _problem(lambda given: self.takes.read(json.dumps(given)), arguments)

    def taken(self, arguments: Any) -> Any:
        """What the runner begins with: the arguments, which fit, with what they leave to defaults."""
        return self.takes.plain(json.dumps(arguments))


class Handoff:
    """The call by which an agent of a swarm hands its conversation over to another."""

    needs_approval = False

    def __init__(self, to: str) -> None:
        self.to, self.name = to, checked_tool_name(f"handoff_to_{to}")

    @cached_property
    def takes(self) -> Typed:
        """What it takes."""
        return Typed(Reason, f"the arguments of {self.name!r}")

    @cached_property
    def spec(self) -> ToolSpec:
        """The call as a model is told of it."""
        return ToolSpec(self.name, f"Hand the conversation over to {self.to}, who goes on with it.", self.takes.schema)

    def problem(self, arguments: Any) -> str | None:
        """What is wrong with the arguments of a call; None where they fit."""
        return _problem(lambda given: self.takes.read(json.dumps(given)), arguments)


AnyTool = FunctionTool | RunnerTool | Handoff


@overload
def tool(fn: Callable[..., Any], /) -> FunctionTool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    retries: int = 0,
    needs_approval: bool = False,
    output_type: Any = None,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a tool: `@tool`, or `@tool(needs_approval=True)` with the options of `FunctionTool`."""
    return partial(FunctionTool, **options) if fn is None else FunctionTool(fn, **options)


def checked_tool_name(name: Any, what: str = "tool") -> str:
    """The name of a tool, as every provider takes it, or of `what` else has names like that. Raises `GraphError`."""
    if type(name) is not str or not _NAME.fullmatch(name):
        message = f"a {what} is called {name!r}; give name= of up to 64 letters, digits, '_' and '-'"
        raise GraphError(message)
    return name


def as_tools(given: Any, who: str) -> Mapping[str, AnyTool]:
    """The tools of `who` by name; functions are made tools. Raises `GraphError`."""
    found: dict[str, AnyTool] = {}
    for each in given:
        made = each if isinstance(each, (FunctionTool, RunnerTool)) else FunctionTool(each)
        if made.name in found:
            message = f"{who} has two tools called {made.name!r}; give one of them another name="
            raise GraphError(message)
        found[made.name] = made
    return found


def _told(where: str, kind: Typed | None, value: Any) -> tuple[CallStatus, str]:
    return "ok", text_of(value, where) if kind is None else kind.told(value, where)


def _problem(check: Callable[[Any], object], arguments: Any) -> str | None:
    return misfit(check, arguments) if isinstance(arguments, dict) else "the arguments are no JSON object"


@dataclass
class Input:
    """What a runner takes that is given no `parameters`."""

    input: str


@dataclass
class Reason:
    """What a handoff takes."""

    reason: str
    context: str = ""
