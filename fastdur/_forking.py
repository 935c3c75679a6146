"""Forking, as every runner offers it."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from fastdur._branching import Branch
from fastdur._functions import asked_by
from fastdur._live import Snapshot
from fastdur._runs import adrive, checked_id, drive, outcome
from fastdur.errors import ForkRefused
from fastdur.scope import is_inside

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    from fastdur._codec import Frozen
    from fastdur._drivers import Lifetime
    from fastdur._engine import Steps
    from fastdur.checkpointers.protocol import Checkpointer
    from fastdur.records import RunResult


class Forking(ABC):
    """What a runner adds by this: `fork` and `afork`."""

    @abstractmethod
    def stored(self) -> Checkpointer:
        """The store of this runner."""

    @abstractmethod
    def _check(self, async_call: str | None) -> None: ...

    @abstractmethod
    def _lifetime(self, execution_id: str, context: object) -> Lifetime: ...

    def _shown(self, result: RunResult) -> RunResult:
        """A result as this runner hands it out."""
        return result

    def _begun_by(self, input: Any) -> Any:
        """What `input` stands for: the first state, but for runners that are given something else."""
        return input

    @abstractmethod
    def _branching(self, branch: Branch) -> Steps: ...

    def _begun(
        self,
        execution_id: str,
        checkpoint_id: str | None = None,
        *,
        input: Mapping[str, Any] | str | None = None,
        modified_state: Mapping[str, Any] | None = None,
        effects: Literal["live", "recorded"] = "live",
        new_execution_id: str | None = None,
        context: object = None,
        accept_graph: bool = False,
    ) -> tuple[Steps, Lifetime]:
        """What is asked of a fork, once it is checked."""
        self.stored()
        if is_inside():
            message = (
                "fork() was called inside a node, which would begin another branch each time it runs again. "
                "Fork outside of a run, or start a child run with execute()."
            )
            raise ForkRefused(message)
        if checkpoint_id is not None and type(checkpoint_id) is not str:
            message = f"checkpoint_id is {checkpoint_id!r}; give a str, as result(...).history has it"
            raise TypeError(message)
        if effects not in ("live", "recorded"):
            message = f"effects is {effects!r}; it must be 'live' or 'recorded'"
            raise ValueError(message)
        branch = Branch(
            checked_id(execution_id),
            os.urandom(16).hex() if new_execution_id is None else checked_id(new_execution_id),
            checkpoint_id,
            checked_changes(self._begun_by(input), "input"),
            checked_changes(modified_state, "modified_state"),
            effects == "recorded",
            accept_graph,
        )
        return self._branching(branch), self._lifetime(branch.execution_id, context)

    @asked_by(_begun)
    def fork(self, begun: tuple[Steps, Lifetime]) -> RunResult:
        """Begin a new run at a row of a stored one, whatever became of that, and carry it on until it ends or pauses.

        The branch inherits the state of that row and the way decided so far; questions are asked again, answered or
        not, and nothing after a gate runs without an answer. The source is only read. `checkpoint_id` names the row, by
        default the newest that is no end marker. `input`, for an agent or a team a text, is merged into the state of
        the run itself, `modified_state` into the state that the next step sees. With `effects="live"` the branch has no
        records and does its effects anew; with `"recorded"` it begins with those that its source has finished, and a
        call without a record raises `EffectForbidden` and does not run.

        Head, first row and records are one transaction; then the branch is a run like any other, under
        `new_execution_id` or an id of its own, and can be resumed, forked and deleted. Raises `RunNotFound`,
        `CheckpointNotFound`, `ForkRefused` at an end marker and inside a node, `GraphChanged`, `RunExists`,
        `NodeIsAsync`, `NotStorable`, `StoreError`, all before anything is stored; and the exception of a node that
        fails.
        """
        self._check("afork")
        return self._shown(outcome(drive(*begun)))

    @asked_by(_begun)
    async def afork(self, begun: tuple[Steps, Lifetime]) -> RunResult:
        """`fork` on the running event loop."""
        self._check(None)
        return self._shown(outcome(await adrive(*begun)))


def checked_changes(changes: Mapping[str, Any] | None, what: str) -> dict[str, Frozen] | None:
    """Changes of a state in stored form. Raises `TypeError` where they are no dict, `NotStorable`."""
    if changes is None:
        return None
    if not isinstance(changes, dict):
        message = f"{what} is {type(changes).__qualname__}; give a dict"
        raise TypeError(message)
    frozen: Any = Snapshot.of({**changes}, what).frozen
    return frozen  # type: ignore[no-any-return] # a snapshot of a dict is one
