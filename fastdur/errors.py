"""Every exception of fastdur, as one tree.

    FastdurError
    ├── ChainError
    │   ├── GraphError              the graph itself is wrong (also a ValueError)
    │   ├── RoutingError            strict=True and no edge out of a node was true
    │   ├── CycleLimitError         a back edge would be taken more often than its bound
    │   ├── NodeResultError         a node returned something that cannot be merged
    │   ├── NodeTimeout             a node ran longer than its timeout (also a TimeoutError)
    │   ├── NodeCancelled           something that a node waited for was cancelled, and the run was not
    │   ├── RunFailed               the stored outcome of a run that failed
    │   └── ChainResumeError        this run cannot be resumed in this way
    │       ├── RunNotFound
    │       ├── GraphChanged
    │       ├── UnknownInterrupt
    │       ├── AmbiguousResume
    │       ├── RunCancelled
    │       ├── CheckpointNotFound  the run has no row with this id
    │       └── ForkRefused         no branch can begin here
    ├── AgentError
    │   ├── AgentLimitError         an agent or a team would take more turns, tokens, time or handoffs than it may
    │   ├── GuardrailBlocked        a guardrail of an agent has refused what it was asked about
    │   ├── AgentOutputError        the model's answer does not fit output_type, asked again as often as allowed
    │   └── LLMError                a provider of models did not answer, or not with a whole answer
    ├── AlreadyResumed              the run has ended, or the question has its answer
    │   └── RunInProgress           a live owner is working on the run
    ├── RunExists                   a run with this id has been started before
    ├── OtherStore                  a node started a run that is kept in another store than its own
    ├── NodeIsAsync                 a sync call met an `async def`; names the async call
    ├── StaleRun                    this owner was replaced; it wrote nothing
    ├── InterruptError
    │   ├── InterruptMismatch       call k of a node asks something else than it did before
    │   ├── InterruptNotAllowed     interrupt() where nobody could answer
    │   └── InterruptSwallowed      user code ate the pause
    ├── ScopeError
    │   ├── ScopeLost               an effect or a question in a thread without a scope
    │   └── ScopeEnded              an effect or a question after its node has ended
    ├── IdempotencyError
    │   ├── IdempotencyMismatch     one key, other arguments
    │   ├── EffectFailed            the recorded failure of an effect whose class is not known here
    │   ├── EffectForbidden         a branch that runs no effects met one that has no record
    │   ├── EffectUnknown           nobody knows whether an effect has happened; resolve_unknown leads on
    │   ├── InTransaction           something else in the body of a transactional effect
    │   └── EffectDeadlock          an effect waits for itself
    ├── NotStorable                 a value that no store keeps unchanged (also a TypeError)
    └── StoreError
        ├── StoreUnavailable        the store did not answer within its bound; the run stays resumable
        ├── StoreTooNew             written by a newer fastdur
        ├── StoreCorrupt            not a fastdur store, or damaged
        ├── StoreClosed             the store object was closed
        └── CheckpointExists        this checkpoint id is taken by other content

Two signals are no errors and derive from BaseException, so that `except Exception` does not eat them:
`InterruptSignal` (a pause on its way out of a node) and `SimulatedCrash` (a death ordered by a test). `NotHappened` is
raised, or returned, by users' code and so derives from Exception alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastdur.records import RunResult


class FastdurError(Exception):
    """Base of everything that fastdur raises on purpose."""


class ChainError(FastdurError):
    """A chain, its graph or one of its runs is at fault."""


class GraphError(ChainError, ValueError):
    """The graph is wrong: a missing node, a duplicate id, a cycle without a bound, an unreachable node."""


class RoutingError(ChainError):
    """`strict=True` and none of the edges out of a node was true."""


class CycleLimitError(ChainError):
    """A back edge would be taken more often than its `max_iterations`.

    Raise the bound and resume with `accept_graph=True`, fork from an earlier row, or cancel.
    """


class NodeResultError(ChainError):
    """A node returned something that is neither a dict nor None and has no `output_key`."""


class NodeTimeout(ChainError, TimeoutError):
    """A node ran longer than its `timeout`."""


class NodeCancelled(ChainError):
    """A node ended with a `CancelledError` although nobody cancelled this call.

    Something that it waited for was cancelled. Counts as an exception of the node's own: its `retry` applies.
    """


class RunFailed(ChainError):
    """The stored failure of a run: the text and the type name of the error that ended it."""


class ChainResumeError(ChainError):
    """The run cannot be resumed in this way. Nothing was written, claimed or consumed."""


class RunNotFound(ChainResumeError):
    """No run with this id is in the store that was looked in; the message names that store."""


class GraphChanged(ChainResumeError):
    """The runner does not fit what the run has already done; the message names the difference."""


class UnknownInterrupt(ChainResumeError):
    """The answer fits no question of this run; the message lists the open ones."""


class AmbiguousResume(ChainResumeError):
    """The answer fits several open questions; name one by its `interrupt_id`."""


class RunCancelled(ChainResumeError):
    """The run was cancelled; only `reopen=True` leads on."""


class CheckpointNotFound(ChainResumeError):
    """The run has no row with this checkpoint id; the message says where its rows are listed."""


class ForkRefused(ChainResumeError):
    """No branch can begin here: at an end marker, or inside a node."""


class AgentError(FastdurError):
    """Something about an agent."""


class AgentLimitError(AgentError):
    """An agent or a team would take more turns, tokens, time or handoffs than it may.

    The run failed; resume it with a raised limit.
    """


class AgentOutputError(AgentError):
    """The final answer did not fit `output_type`, after all re-asks. The run failed; a resume asks the model again."""


class GuardrailBlocked(AgentError):
    """A guardrail refused what it was asked about, which is said by `position`; `guardrail` is its name.

    At the input of a run nothing was started. Else the run failed: a resume asks the model again, or the guardrail
    about the same result of a tool, which is not called again.
    """

    def __init__(self, message: str, guardrail: str = "", position: str = "") -> None:
        super().__init__(message)
        self.guardrail, self.position = guardrail, position


class LLMError(AgentError):
    """A provider of models did not answer, or not with a whole answer. The run failed; a resume asks it again.

    `retryable` says whether the same request may work when it is sent again: it is true for a lost connection, a limit
    on the rate and an error of the provider's own, after the client has tried again itself; and false for a request
    that was refused, and for an answer that was cut off. `status` is that of HTTP, None where there was none, and
    `retry_after` the seconds that the provider asks to wait, None where it does not say.
    """

    def __init__(
        self, message: str, *, retryable: bool = False, status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.retryable, self.status, self.retry_after = retryable, status, retry_after


class AlreadyResumed(FastdurError):
    """The run has ended, or this question has been answered before.

    `result` is the stored outcome where the run has completed, else None.
    """

    result: RunResult | None = None

    def __init__(self, message: str, result: RunResult | None = None) -> None:
        super().__init__(message)
        self.result = result


class RunInProgress(AlreadyResumed):
    """A live owner is working on this run."""


class RunExists(FastdurError):
    """A run with this `execution_id` has been started before; resume it or choose another id."""


class OtherStore(FastdurError):
    """A node started a run of a runner whose store is another one than that of its own run. Nothing was started."""


class NodeIsAsync(FastdurError, TypeError):
    """A synchronous call would meet an `async def`; call the `a…` form instead. Nothing was started or claimed."""


class StaleRun(FastdurError):
    """This call no longer owns the run. It wrote nothing and marked nothing failed."""


class InterruptError(FastdurError):
    """`interrupt()` was used where it cannot work."""


class InterruptMismatch(InterruptError):
    """The k-th `interrupt()` of a node asks for something else than it did when it was answered."""


class InterruptNotAllowed(InterruptError):
    """`interrupt()` in a place where nobody could answer: no store, an effect body, a route, an input function."""


class InterruptSwallowed(InterruptError):
    """User code caught a pause and went on. The run fails here; it never continues as if approved."""


class ScopeError(FastdurError):
    """An effect or a question outside the node it belongs to."""


class ScopeLost(ScopeError):
    """An effect or a question in a thread that does not know which run it belongs to."""


class ScopeEnded(ScopeError):
    """An effect or a question after its node has ended."""


class IdempotencyError(FastdurError):
    """An `@idempotent` call has no safe key, or its result cannot be stored."""


class IdempotencyMismatch(IdempotencyError):
    """The same key was used before in this run with other arguments."""


class EffectFailed(IdempotencyError):
    """The recorded failure of an effect whose exception class is not known to this process.

    `type_name` is the class name as it was recorded.
    """

    def __init__(self, message: str, type_name: str = "") -> None:
        super().__init__(message)
        self.type_name = type_name


class EffectForbidden(IdempotencyError):
    """An effect without a record was called in a fork with `effects="recorded"`. Its body did not run."""


class EffectUnknown(IdempotencyError):
    """An effect under `on_unknown="raise"` was begun and nobody recorded what came of it.

    `execution_id` and `key` name it for `resolve_unknown`; after that the run can be resumed.
    """

    def __init__(self, message: str, execution_id: str = "", key: str = "") -> None:
        super().__init__(message)
        self.execution_id = execution_id
        self.key = key


class NotHappened(Exception):
    """Says that an effect has not happened, so that its body may run again.

    A body raises it where it knows; a function given as `on_unknown=` returns it, or raises it, and `resolve_unknown`
    takes it: the class, or an instance with a text. To a retry it is an exception like any other.
    """


class InTransaction(IdempotencyError):
    """In the body of a transactional effect there can be no other effect, no question and no run: it is one commit."""


class EffectDeadlock(IdempotencyError):
    """An effect body waits for an effect that is in flight, and so might wait for itself."""


class NotStorable(FastdurError, TypeError):
    """A value that no store keeps unchanged; the message names the path and the type of the bad leaf."""


class StoreError(FastdurError):
    """The store is at fault, never the step that was being stored."""


class StoreUnavailable(StoreError):
    """The store did not take a write or answer a read within its bound. The run stays resumable."""


class StoreTooNew(StoreError):
    """The store, or a row in it, was written by a newer fastdur."""


class StoreCorrupt(StoreError):
    """The file is damaged, or is not a fastdur store."""


class StoreClosed(StoreError):
    """The store object was closed."""


class CheckpointExists(StoreError):
    """This checkpoint id is taken by a row with other content; the first content stays."""


class InterruptSignal(BaseException):
    """A pause on its way out of a node; raised by `interrupt()`, never to be caught by user code."""

    def __init__(self, reason: str, context: object = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.context = context


class SimulatedCrash(BaseException):
    """A process death played in process: raised by an observer of boundaries, handled by nobody."""
