"""What code inside a node may ask: which run it belongs to, and the key of the effect it is in."""

from __future__ import annotations

import os
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Protocol, TypeVar, cast

from fastdur._functions import is_async
from fastdur.checkpointers._cursor import inside
from fastdur.errors import ScopeEnded, ScopeError, ScopeLost, SimulatedCrash, StaleRun, StoreError
from fastdur.records import provider_key

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from fastdur._codec import Frozen
    from fastdur._effects import Effect, Invoke
    from fastdur._memory import Memory
    from fastdur._steps import Machine
    from fastdur.checkpointers._cursor import TransactionCursor
    from fastdur.checkpointers.protocol import Checkpointer
    from fastdur.records import Claim, EffectRecord, Question

E = TypeVar("E", bound=BaseException)
P = ParamSpec("P")
R = TypeVar("R")


class _Process:
    """How many forks lie between this process and the one that was started: asking for the pid is a system call."""

    forks = 0


process = _Process()


def _forked() -> None:
    process.forks += 1
    active.clear()


if hasattr(os, "register_at_fork"):  # pragma: no branch - everywhere but on Windows
    os.register_at_fork(after_in_child=_forked)


class Host(Protocol):
    """The lifetime that a node runs in, as far as code inside the node may reach it."""

    execution_id: str
    epoch: int
    context: object
    machine: Machine | None
    durable: bool
    poisoned: bool
    recorded: bool
    deaf: list[object]
    memory: Memory
    store: Checkpointer
    claim: Claim | None

    def once(self, node: NodeCall, steps: Generator[Effect[Any], Any, Any]) -> Any:
        """Perform a small generator of effects from inside user code."""
        ...

    def aonce(self, node: NodeCall, steps: Generator[Effect[Any], Any, Any]) -> Coroutine[Any, Any, Any]:
        """The same on the running event loop."""
        ...


class NodeCall:
    """One invocation of a user function, and the memory of what was raised into it."""

    __slots__ = (
        "address",
        "asked",
        "attempt",
        "begun",
        "born",
        "calls",
        "children",
        "closed",
        "fn",
        "host",
        "kind",
        "notes",
        "on_text",
        "path",
        "questions",
        "raised",
        "refused",
    )  # fmt: skip

    def __init__(self, host: Host, effect: Invoke) -> None:
        self.host = host
        self.kind = effect.call.kind
        self.fn = effect.call.fn
        self.address = effect.address
        self.path = effect.path
        self.questions = effect.questions
        self.on_text = effect.on_text
        self.attempt = effect.attempt
        self.born = process.forks
        self.calls = 0
        self.children: dict[str, int] = {}
        self.asked: Question | None = None
        self.raised: BaseException | None = None
        self.refused: Exception | None = None
        self.closed = False
        self.begun: list[str] = []
        self.notes: dict[str, Frozen] = {}

    def check(self) -> None:
        """Refuse what comes after a crash, after the end of the node, or in a child made by fork."""
        if self.host.poisoned:
            message = "this process has been crashed on purpose; nothing is written any more"
            raise self.remember(SimulatedCrash(message))
        if self.closed:
            message = f"Node {self.address!r} of run {self.host.execution_id!r} has ended; it can begin nothing more."
            raise ScopeEnded(message)
        if self.born != process.forks:
            message = "A child made by fork owns no part of its parent's run; do this in the parent."
            raise ScopeEnded(message)

    def remember(self, error: E) -> E:
        """Keep what is raised into user code, so that nothing the code does with it counts."""
        if self.raised is None or isinstance(error, SimulatedCrash):
            self.raised = error
        return error

    def note(self, what: str, value: Frozen) -> None:
        """Put a remark into the row of this node."""
        noted: Any = self.notes.setdefault(what, [])
        if value not in noted:
            noted.append(value)

    def once(self, steps: Generator[Effect[Any], Any, Any]) -> Any:
        """Perform effects from inside this call."""
        self.check()
        try:
            return self.host.once(self, steps)
        except (SimulatedCrash, StaleRun, StoreError) as error:
            self.remember(error)
            raise

    async def aonce(self, steps: Generator[Effect[Any], Any, Any]) -> Any:
        """Perform effects from inside this call, on the running event loop."""
        self.check()
        try:
            return await self.host.aonce(self, steps)
        except (SimulatedCrash, StaleRun, StoreError) as error:
            self.remember(error)
            raise


@dataclass(slots=True, eq=False)
class Scope:
    """Where the code that asks is: in a node, and in the body of an effect if any; a key function may not ask."""

    node: NodeCall
    effect: EffectRecord | None = None
    asks: bool = True


current: ContextVar[Scope | Literal[False] | None] = ContextVar("fastdur_scope", default=None)
"""Where the code that asks is. None where nobody has said so, False where it is outside of every run on purpose.

It is set inside the `try` whose `finally` sets it back: a signal can come right after any call, and a thread that it
has thrown out of a node must not stay in the run.
"""

active: set[Host] = set()
"""The lifetimes of this process that own a run: while there are any, a thread without a scope may belong to one."""


def here(what: str, otherwise: str = "") -> Scope | None:
    """Where `what`, which asks, is: None outside of every run. Raises `ScopeLost` where that cannot be told."""
    scope = current.get()
    if scope is None and active:
        message = (
            f"{what} in a thread or task that does not know its run, while a run is active in this process. "
            f"Hand the thread fastdur.carry(fn) in place of fn{otherwise}."
        )
        raise ScopeLost(message)
    return scope or None


def transaction() -> TransactionCursor:
    """A cursor on the store's own connection, in the body of an `@idempotent(transactional=True)` function.

    What is written through it is committed together with the record of the effect, or not at all. Statements and the
    marks of their parameters are those of the database (`?` on SQLite, `%s` on Postgres). It begins and ends no
    transaction itself, and is closed with the body; what would, and what would change the connection, raises
    `InTransaction`. Raises `ScopeError` anywhere else.
    """
    cursor = inside.get()
    if here("transaction() was called") is None or cursor is None:
        message = "transaction() is asked outside the body of an @idempotent(transactional=True) function."
        raise ScopeError(message)
    return cursor


def carry(fn: Callable[P, R]) -> Callable[P, R]:
    """`fn`, sync or async, knowing in any thread the run that `carry` was called in.

    A new thread, and one of a pool, knows no run: an effect or a question there raises `ScopeLost`. What `carry`
    returns takes the node and the effect that it was made in along, for `Thread(target=carry(fn))`,
    `pool.submit(carry(fn), ...)`, `pool.map(carry(fn), ...)` and `loop.run_in_executor(None, carry(fn), ...)`; tasks
    and `asyncio.to_thread` know them without. It may be called any number of times, in several threads at once. After
    the node has ended it begins no effect and asks nothing: `ScopeEnded`. Outside a run it is `fn` itself.
    """
    scope, cursor = current.get(), inside.get()
    if scope is None:
        return fn
    if is_async(fn):
        body = cast("Callable[..., Coroutine[Any, Any, Any]]", fn)

        @wraps(fn)
        async def acarried(*args: P.args, **kwargs: P.kwargs) -> Any:
            before, within = current.get(), inside.get()
            try:
                current.set(scope)
                inside.set(cursor)
                return await body(*args, **kwargs)
            finally:
                inside.set(within)
                current.set(before)

        return cast("Callable[P, R]", acarried)

    @wraps(fn)
    def carried(*args: P.args, **kwargs: P.kwargs) -> R:
        before, within = current.get(), inside.get()
        try:
            current.set(scope)
            inside.set(cursor)
            return fn(*args, **kwargs)
        finally:
            try:
                inside.set(within)
            finally:
                current.set(before)

    return carried


@dataclass(frozen=True, slots=True)
class Parent:
    """The node, with its visit, that starts a run; the token that its run is held under; a name for the new one."""

    execution_id: str
    path: str
    token: str
    recorded: bool
    child_id: str
    store: Checkpointer | None = None


def parent_of(name: str) -> Parent | None:
    """Whose child a run of the runner `name` is when it is started here; None outside a node of a stored run.

    The id comes from the place alone, so that a node entered again finds the same child: the run, the path, the effect
    it is in if any, and how many of that name were started there before. Raises `ScopeEnded` like an effect.
    """
    scope = current.get()
    if not scope or not scope.node.host.durable:
        return None
    node = scope.node
    node.check()
    inside = f"/{scope.effect.key[:12]}" if scope.effect is not None else ""
    whose = "" if node.kind == "node" else f"{node.kind}:"  # a way out is decided at the path of its node
    place = f"{node.host.execution_id}/{node.path}{inside}/{whose}{name}"
    number = node.children[place] = node.children.get(place, 0) + 1
    token = node.host.claim.token if node.host.claim is not None else ""
    child_id = place if number == 1 else f"{place} ({number})"
    return Parent(node.host.execution_id, node.path, token, node.host.recorded, child_id, node.host.store)


def is_inside() -> bool:
    """Whether the code that asks is inside a node of a stored run."""
    scope = current.get()
    return scope.node.host.durable if scope else False


def execution_id() -> str:
    """The id of the run that the calling code belongs to. Raises `ScopeLost` outside a run."""
    scope = here("execution_id() was called")
    if scope is None:
        message = "There is no run here; execution_id() is for code inside a node."
        raise ScopeLost(message)
    return scope.node.host.execution_id


def run_context() -> Any:
    """The `context` object that was passed to `execute` or `resume`; None where none was. It is never stored."""
    scope = current.get()
    return scope.node.host.context if scope else None


def fence() -> int:
    """A number that grows with each owner of the run: the epoch of the claim this code runs under; 0 outside a run.

    An owner that was replaced and does not know it yet has a smaller one. A system that keeps the highest number it has
    seen for this run, and refuses a smaller one, refuses what such an owner still sends. Raises `ScopeLost` in a thread
    that was started without `carry`.
    """
    scope = here("fence() was called")
    return 0 if scope is None else scope.node.host.epoch


def effect_key() -> str:
    """A key for the provider's own idempotency header: the same on every retry, resume and process.

    Ask for it inside the body of an `@idempotent` function. It is 32 hexadecimal digits and differs between runs.
    Outside a run, where the function runs plainly, every call gets a fresh one. Raises `ScopeError` in a node outside
    an effect, `ScopeLost` in a thread that the body has started without `carry`.
    """
    scope = here("effect_key() was called")
    if scope is None:
        return os.urandom(16).hex()
    if scope.effect is None:
        message = "effect_key() is asked in a node, outside an effect; ask for it inside an @idempotent function."
        raise ScopeError(message)
    scope.node.note("keyed", scope.effect.name)
    return provider_key(scope.node.host.execution_id, scope.effect.key)
