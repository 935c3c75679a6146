"""`Supervisor`: an agent that hands tasks to workers, each of which is a part of its run."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fastdur.agent import Agent
from fastdur.errors import GraphError
from fastdur.tools import RunnerTool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Literal

    from fastdur._runner import Runner
    from fastdur._steps import Machine
    from fastdur.checkpointers.protocol import Checkpointer
    from fastdur.guardrails import Guardrail
    from fastdur.llm.client import LLMClient
    from fastdur.memory import AgentMemory
    from fastdur.tools import AnyTool


@dataclass
class Task:
    """What a worker is given."""

    task: str


class Worker(RunnerTool):
    """A runner with a role in the team of a supervisor: an agent, a chain, or a team of its own.

    `role` is the name under which the supervisor's model calls it, `delegate_to_ROLE`, by default the runner's name;
    `description` is what the model is told. The model gives a `task`, a text, which is the input of the worker; each
    delegation is a new conversation. The same runner may be a worker of several teams, and be run alone.
    """

    def __init__(self, runner: Runner, role: str | None = None, description: str | None = None) -> None:
        self.role = getattr(runner, "name", None) if role is None else role
        told = f"Give a task to {self.role}, and get what comes of it." if description is None else description
        super().__init__(runner, told, name=f"delegate_to_{self.role}", parameters=Task)

    @cached_property
    def machine(self) -> Machine:
        """The runner under the name of its role."""
        worker: Any = copy(self.runner)
        worker.kind, worker.name = "worker", self.role
        machine: Machine = worker
        return machine

    def taken(self, arguments: Any) -> Any:
        """What the runner begins with: its task."""
        return {"input": arguments["task"]}


class Supervisor(Agent):
    """A model that gives tasks to workers until it answers, durable step by step.

    It is an agent, with all that agents have: `tools` of its own, `output_type`, limits over all lifetimes. Each
    delegation is a tool call, `turn:N/tool:delegate_to_ROLE`, with the rows of the worker under that address; two to
    one worker are two conversations. A pause of a worker is a pause of the run and is answered there; workers and tools
    that have finished are not run again. `max_tokens` and `max_seconds` count what the workers spend, and stop them
    too; a failure inside a worker fails the run, which resumes there.
    """

    kind = "supervisor"

    def __init__(
        self,
        name: str,
        model: LLMClient,
        workers: Iterable[Worker],
        system_prompt: str = "",
        *,
        tools: Iterable[AnyTool | Callable[..., Any]] = (),
        output_type: Any = None,
        output_retries: int = 2,
        max_turns: int = 10,
        max_tokens: int | None = None,
        max_seconds: float | None = None,
        replay_model: bool = False,
        guardrails: Iterable[Guardrail] = (),
        memory: AgentMemory | None = None,
        on_text: Callable[[str, str], object] | None = None,
        checkpointer: Checkpointer | Literal[False] | None = None,
    ) -> None:
        team: list[Any] = [*workers]
        wrong = next((each for each in team if not isinstance(each, Worker)), None)
        if wrong is not None or not team:
            what = "no worker" if wrong is None else f"{wrong!r} among its workers"
            message = f"supervisor {name!r} has {what}; give Worker(agent, role, description)"
            raise GraphError(message)
        super().__init__(
            name,
            model,
            [*team, *tools],
            system_prompt,
            output_type=output_type,
            output_retries=output_retries,
            max_turns=max_turns,
            max_tokens=max_tokens,
            max_seconds=max_seconds,
            replay_model=replay_model,
            guardrails=guardrails,
            memory=memory,
            on_text=on_text,
            checkpointer=checkpointer,
        )
