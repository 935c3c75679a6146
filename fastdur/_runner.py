"""What every runner offers, written once: start, resume, read, decide, cancel and recover, sync and async."""

from __future__ import annotations

import os
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from fastdur import _branching, _engine, _owner, _runs
from fastdur._codec import checked_name
from fastdur._drivers import Lifetime
from fastdur._forking import Forking, checked_changes
from fastdur._functions import asked_by, is_async
from fastdur._live import Snapshot
from fastdur._nested import holds
from fastdur._reentry import Request
from fastdur._runs import (
    adrive,
    checked_answer,
    checked_flag,
    checked_id,
    checked_store,
    drive,
    outcome,
    store_or_default,
)
from fastdur._threads import in_thread
from fastdur.checkpointers.nowhere import Nowhere
from fastdur.errors import AlreadyResumed, ChainResumeError, FastdurError, GraphError, NodeIsAsync
from fastdur.scope import active, parent_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Literal

    from fastdur._branching import Branch
    from fastdur._codec import Frozen
    from fastdur._engine import Ended, Steps
    from fastdur._steps import Going, Machine, Outcome, State, Step
    from fastdur._unknown import Outcome as Settled
    from fastdur.checkpointers.protocol import Checkpointer
    from fastdur.records import Execution, Frame, Resume, RunResult, UnknownEffect

MAX_ATTEMPTS = 3


class Runner(Forking):
    """A topology with a name and a store. Subclasses say what is due; everything about durability is here."""

    kind: str
    max_seconds: float | None = None
    """How long the calls of a run may take together; None if nobody counts."""
    guarded: bool = False
    """Whether guardrails are asked about what a run begins with."""
    on_text: Callable[[str, str], object] | None = None
    """Who hears what the models say while they say it."""
    async_start = "aexecute"
    """The name of the call that starts a run on an event loop."""

    def __init__(self, name: str, checkpointer: Checkpointer | Literal[False] | None = None) -> None:
        if type(name) is not str or not name:
            message = f"the name of a {self.kind} is {name!r}; give a non-empty str"
            raise TypeError(message)
        given: Any = checkpointer
        if given is not None and given is not False:
            checked_store(given)
        self.name = checked_name(name, f"the name of a {self.kind}")
        self._given = checkpointer

    # -- the machine, given by each topology ---------------------------------------------------------------------------

    @abstractmethod
    def validate(self) -> None:
        """Raise `GraphError` naming what is wrong with the topology."""

    @abstractmethod
    def graph(self) -> Frozen:
        """The topology as data."""

    @abstractmethod
    def runners(self) -> list[tuple[str, Runner]]:
        """The runners one level down, with the place each stands at."""

    @abstractmethod
    def functions(self) -> list[tuple[str, Callable[..., Any]]]:
        """Every function of the user's with the place it stands at."""

    @abstractmethod
    def begin(self, data: State) -> State:
        """The state of a new frame."""

    @abstractmethod
    def next(self, state: State) -> Step:
        """What is due."""

    @abstractmethod
    def apply(self, state: State, step: Going, outcome: Outcome) -> State:
        """The state after a step was answered."""

    @abstractmethod
    def child(self, place: str) -> Machine:
        """The machine one level down."""

    @abstractmethod
    def addresses(self, state: State) -> list[str]:
        """The nodes that a state will enter by name."""

    def admitted(self, state: State) -> State:
        """The state of a new frame whose guardrails have been asked: as it was, where a topology has none."""
        return state

    def paused(self, state: State) -> State:
        """The state after a question was asked in it or below it: as it was, where a topology has no rule for it."""
        return state

    def failed(self, state: State, step: Going) -> State:  # noqa: ARG002 - of the protocol
        """The state that a run goes on from after a failure: the one it failed in, but for a topology with a rule."""
        return state

    def over(self, frame: Frame, step: Going, *, here: bool) -> Exception | None:  # noqa: ARG002 - of the protocol
        """The limit that a step would break: none, but for topologies that have limits."""
        return None

    def unfit(self, changes: Mapping[str, Frozen]) -> str | None:  # noqa: ARG002 - of the protocol
        """Why a run could not go on after these changes from outside: it always can, but for some topologies."""
        return None

    def misfits(self, state: State) -> list[str]:  # noqa: ARG002 - of the protocol
        """What in a state does not fit beside what `graph` and `addresses` say: nothing, but for some topologies."""
        return []

    # -- running -------------------------------------------------------------------------------------------------------

    def execute(
        self, input: Mapping[str, Any] | None = None, execution_id: str | None = None, *, context: object = None
    ) -> RunResult:
        """Start a run on the state `input` and carry it on until it ends or pauses.

        Durable before any node runs, and after every node. The exception of a failing node is raised as it is; the run
        stays resumable at that node. Raises `RunExists` where `execution_id` is taken, `NodeIsAsync`, `GraphError`,
        `NotStorable`, `StoreError`. `context` is handed to the nodes by `run_context()` and never stored.
        """
        self._check(self.async_start)
        return self._shown(outcome(drive(*self._starting(input, execution_id, context))))

    async def aexecute(
        self, input: Mapping[str, Any] | None = None, execution_id: str | None = None, *, context: object = None
    ) -> RunResult:
        """`execute` on the running event loop: async nodes are awaited, sync ones and the store run in threads."""
        self._check(None)
        return self._shown(outcome(await adrive(*self._starting(input, execution_id, context))))

    # -- resuming ------------------------------------------------------------------------------------------------------

    @property
    def checkpointer(self) -> Checkpointer:
        """The store of this runner."""
        if self._given is None or not isinstance(self._given, bool):
            return store_or_default(self._given)
        return cast("Checkpointer", Nowhere())

    def _resumed(
        self,
        execution_id: str,
        resume_value: Resume | None = None,
        *,
        modified_state: Mapping[str, Any] | None = None,
        agent_path_prefix: str | None = None,
        context: object = None,
        takeover: bool = False,
        accept_graph: bool = False,
        reopen: bool = False,
    ) -> tuple[Steps, Lifetime]:
        """What is asked of a resume, once it is checked."""
        self.validate()
        self.stored()
        changes = checked_changes(modified_state, "modified_state")
        given = {"takeover": takeover, "accept_graph": accept_graph, "reopen": reopen}
        flags = {name: checked_flag(flag, name) for name, flag in given.items()}
        value = checked_answer(resume_value)
        return self._resuming(Request(checked_id(execution_id), value, changes, agent_path_prefix, **flags), context)

    @asked_by(_resumed)
    def resume(self, begun: tuple[Steps, Lifetime]) -> RunResult:
        """Carry a stored run on, in any process, from where it stopped.

        Without an answer it goes on where the run crashed or failed; with a `Resume` it answers the open question the
        answer fits, and exactly one caller of many wins. Everything that can be checked is checked before the claim: a
        refusal changes nothing in the store. The interrupted node runs again from its top; nothing that was committed
        does.

        `modified_state` is merged into the state the next step sees, in a row of its own. `agent_path_prefix` aims the
        answer at the one question at or under that address, path or agent path. `takeover` states that the owner is
        gone. `accept_graph` takes a changed graph where the addresses of the run still exist. `reopen` carries a
        cancelled run on; it asks its questions again. Raises `AlreadyResumed`, `RunInProgress`, `ChainResumeError` and
        its kinds, `NodeIsAsync`, `NotStorable`, `StoreError`, and the exception of a node that fails.
        """
        self._check("aresume")
        return self._shown(outcome(drive(*begun)))

    @asked_by(_resumed)
    async def aresume(self, begun: tuple[Steps, Lifetime]) -> RunResult:
        """`resume` on the running event loop."""
        self._check(None)
        return self._shown(outcome(await adrive(*begun)))

    def result(self, execution_id: str) -> RunResult:
        """`fastdur.result` on this runner's store."""
        return self._shown(_runs.result(execution_id, self.stored()))

    async def aresult(self, execution_id: str) -> RunResult:
        """`result` on the running event loop."""
        return self._shown(await _runs.aresult(execution_id, self.stored()))

    def decide(self, execution_id: str, resume_value: Resume) -> None:
        """`fastdur.decide` on this runner's store."""
        _runs.decide(execution_id, resume_value, self.stored())

    async def adecide(self, execution_id: str, resume_value: Resume) -> None:
        """`decide` on the running event loop."""
        await _runs.adecide(execution_id, resume_value, self.stored())

    def cancel(self, execution_id: str) -> None:
        """`fastdur.cancel` on this runner's store."""
        _runs.cancel(execution_id, self.stored())

    async def acancel(self, execution_id: str) -> None:
        """`cancel` on the running event loop."""
        await _runs.acancel(execution_id, self.stored())

    def list_unknown(self, execution_id: str) -> list[UnknownEffect]:
        """`fastdur.list_unknown` on this runner's store."""
        return _runs.list_unknown(execution_id, self.stored())

    async def alist_unknown(self, execution_id: str) -> list[UnknownEffect]:
        """`list_unknown` on the running event loop."""
        return await _runs.alist_unknown(execution_id, self.stored())

    def resolve_unknown(self, execution_id: str, key: str, outcome: Settled) -> None:
        """`fastdur.resolve_unknown` on this runner's store."""
        _runs.resolve_unknown(execution_id, key, outcome, self.stored())

    async def aresolve_unknown(self, execution_id: str, key: str, outcome: Settled) -> None:
        """`resolve_unknown` on the running event loop."""
        await _runs.aresolve_unknown(execution_id, key, outcome, self.stored())

    def recover(self, *, max_attempts: int = MAX_ATTEMPTS) -> list[Recovered]:
        """`fastdur.recover` for the runs of this runner."""
        return recover([self], max_attempts=max_attempts)

    async def arecover(self, *, max_attempts: int = MAX_ATTEMPTS) -> list[Recovered]:
        """`recover` on the running event loop."""
        return await arecover([self], max_attempts=max_attempts)

    def carry_on(self, head: Execution, max_attempts: int) -> Recovered | None:
        """Resume one run that was left alone; its failure is part of the report, None where others have finished it."""
        request = Request(head.execution_id)
        try:
            _bounded(head, max_attempts)
            self._check("arecover")
            return _reported(drive(*self._resuming(request, None)))
        except FastdurError as error:
            return _not_recovered(head, error)

    async def acarry_on(self, head: Execution, max_attempts: int) -> Recovered | None:
        """`carry_on` on the running event loop."""
        request = Request(head.execution_id)
        try:
            _bounded(head, max_attempts)
            self._check(None)
            return _reported(await adrive(*self._resuming(request, None)))
        except FastdurError as error:
            return _not_recovered(head, error)

    # -- parts ---------------------------------------------------------------------------------------------------------

    def stored(self) -> Checkpointer:
        """The store of this runner; raises `ChainResumeError` where it has none."""
        if self._given is False:
            message = f"{self.kind} {self.name!r} has checkpointer=False: its runs are kept nowhere. Give it a store."
            raise ChainResumeError(message)
        return self.checkpointer

    def _check(self, async_call: str | None) -> None:
        """What must hold before anything is stored or claimed; `async_call` is what a sync call should have been."""
        self.validate()
        if async_call is None:
            return
        for place, fn in self.functions():
            if is_async(fn):
                message = f"Node {place!r} of {self.kind} {self.name!r} is an `async def`; call {async_call}() instead."
                raise NodeIsAsync(message)

    def _starting(
        self, input: Mapping[str, Any] | None, execution_id: str | None, context: object
    ) -> tuple[Steps, Lifetime]:
        if input is not None and not isinstance(input, dict):
            message = (
                f"the input of {self.kind} {self.name!r} is {type(input).__qualname__}; give a dict, the first state"
            )
            raise TypeError(message)
        data: Any = Snapshot.of({**(input or {})}, "input").frozen
        given = None if execution_id is None else checked_id(execution_id)
        parent = None if self._given is False else parent_of(self.name)
        if parent is not None:
            run_id = given or parent.child_id
            steps = _engine.start_child(self, run_id, data, parent)
        else:
            run_id = given or os.urandom(16).hex()
            steps = _engine.start(self, run_id, data)
        life = self._lifetime(run_id, context)
        life.parent_store = None if parent is None else parent.store
        return steps, life

    def _branching(self, branch: Branch) -> Steps:
        return _branching.fork(self, branch)

    def _resuming(self, request: Request, context: object) -> tuple[Steps, Lifetime]:
        return _engine.resume(self, request), self._lifetime(request.execution_id, context)

    def _lifetime(self, execution_id: str, context: object) -> Lifetime:
        life = Lifetime(execution_id, self.name, self.checkpointer, durable=self._given is not False, context=context)
        life.machine = self
        return life

    def _check_idle(self, what: str) -> None:
        """Refuse to change a topology under a run: it would take nodes twice, or never."""
        for life in [*active]:
            if isinstance(life.machine, Runner) and holds(life.machine, self):
                message = (
                    f"{what} while run {life.execution_id!r} of {self.kind} {self.name!r} goes through it; "
                    f"build the {self.kind} before it starts, or make another one."
                )
                raise GraphError(message)


@dataclass(frozen=True, slots=True)
class Recovered:
    """What came of one run that was left alone: its result, or why it did not go on."""

    execution_id: str
    result: RunResult | None = None
    error: BaseException | None = None


def recover(runners: Iterable[Runner], *, max_attempts: int = MAX_ATTEMPTS) -> list[Recovered]:
    """Carry on every run of these runners that is due and whose owner is gone; safe in many workers at once.

    A run that waits for a human, that failed, or that a live owner works on is left alone. A run that was claimed
    `max_attempts` times without storing a row is reported with its error and not tried again. No lock outlives this
    process: what it does not finish, the next `recover` does.
    """
    came = [runner.carry_on(head, max_attempts) for runner, head in _left_alone(runners, max_attempts)]
    return [each for each in came if each is not None]


async def arecover(runners: Iterable[Runner], *, max_attempts: int = MAX_ATTEMPTS) -> list[Recovered]:
    """`recover` on the running event loop, one run after another."""
    left = await in_thread(_left_alone, runners, max_attempts)
    came = [await runner.acarry_on(head, max_attempts) for runner, head in left]
    return [each for each in came if each is not None]


def _left_alone(runners: Iterable[Runner], max_attempts: int) -> list[tuple[Runner, Execution]]:
    found: list[tuple[Runner, Execution]] = []
    given: Any = runners
    if isinstance(given, Runner):
        message = f"recover() takes several runners; give [{given.kind}]"
        raise TypeError(message)
    if type(max_attempts) is not int or max_attempts < 1:
        message = f"max_attempts is {max_attempts!r}; give a whole number from 1"
        raise TypeError(message)
    every: list[Any] = [*given]
    for runner in every:
        if not isinstance(runner, Runner):
            message = f"recover() takes runners, chains or agents or teams, not {type(runner).__qualname__}"
            raise TypeError(message)
    for runner in every:
        heads: list[Execution] = runner.stored().list_executions(runner=runner.name, status="running")
        found += [(runner, head) for head in reversed(heads) if head.kind == runner.kind and not _owner.at_work(head)]
    return found


def _bounded(head: Execution, max_attempts: int) -> None:
    if head.attempts >= max_attempts:
        message = (
            f"Run {head.execution_id!r} was carried on {head.attempts} times without getting any further and is left "
            f"alone; find out what ends its process, then call resume({head.execution_id!r})."
        )
        raise ChainResumeError(message)


def _not_recovered(head: Execution, error: FastdurError) -> Recovered | None:
    """A run that another worker has completed in between is no run that was left alone."""
    return None if type(error) is AlreadyResumed else Recovered(head.execution_id, error=error)


def _reported(ended: Ended) -> Recovered:
    return Recovered(ended.result.execution_id, ended.result, ended.error)
