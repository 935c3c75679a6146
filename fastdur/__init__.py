"""fastdur: durable execution for chains and agents. A run survives being killed anywhere.

    from fastdur import Chain, Resume, idempotent, interrupt

Start with `Chain`; the README has a first chain in 20 lines and a first crash test in 10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastdur._codec import storable
from fastdur._runner import Recovered, Runner, arecover, recover
from fastdur._runs import acancel, adecide, aresult, cancel, decide, result
from fastdur.boundaries import Boundary, Inject, observe
from fastdur.chain import Chain
from fastdur.checkpointers.protocol import Checkpointer
from fastdur.checkpointers.sqlite import SQLiteCheckpointer
from fastdur.errors import (
    AlreadyResumed,
    AmbiguousResume,
    ChainError,
    ChainResumeError,
    CheckpointExists,
    CycleLimitError,
    EffectDeadlock,
    EffectFailed,
    FastdurError,
    GraphChanged,
    GraphError,
    IdempotencyError,
    IdempotencyMismatch,
    InterruptError,
    InterruptMismatch,
    InterruptNotAllowed,
    InterruptSignal,
    InterruptSwallowed,
    NodeIsAsync,
    NodeResultError,
    NodeTimeout,
    NotStorable,
    RoutingError,
    RunCancelled,
    RunExists,
    RunFailed,
    RunInProgress,
    RunNotFound,
    ScopeEnded,
    ScopeError,
    ScopeLost,
    SimulatedCrash,
    StaleRun,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreTooNew,
    StoreUnavailable,
    UnknownInterrupt,
)
from fastdur.idempotent import idempotent
from fastdur.interrupt import interrupt
from fastdur.records import Checkpoint, Execution, PendingInterrupt, Resume, RunResult
from fastdur.scope import effect_key, execution_id, run_context

if TYPE_CHECKING:
    from fastdur.checkpointers.postgres import PostgresCheckpointer

__version__ = "0.1.0"

__all__ = [
    "AlreadyResumed",
    "AmbiguousResume",
    "Boundary",
    "Chain",
    "ChainError",
    "ChainResumeError",
    "Checkpoint",
    "CheckpointExists",
    "Checkpointer",
    "CycleLimitError",
    "EffectDeadlock",
    "EffectFailed",
    "Execution",
    "FastdurError",
    "GraphChanged",
    "GraphError",
    "IdempotencyError",
    "IdempotencyMismatch",
    "Inject",
    "InterruptError",
    "InterruptMismatch",
    "InterruptNotAllowed",
    "InterruptSignal",
    "InterruptSwallowed",
    "NodeIsAsync",
    "NodeResultError",
    "NodeTimeout",
    "NotStorable",
    "PendingInterrupt",
    "PostgresCheckpointer",
    "Recovered",
    "Resume",
    "RoutingError",
    "RunCancelled",
    "RunExists",
    "RunFailed",
    "RunInProgress",
    "RunNotFound",
    "RunResult",
    "Runner",
    "SQLiteCheckpointer",
    "ScopeEnded",
    "ScopeError",
    "ScopeLost",
    "SimulatedCrash",
    "StaleRun",
    "StoreClosed",
    "StoreCorrupt",
    "StoreError",
    "StoreTooNew",
    "StoreUnavailable",
    "UnknownInterrupt",
    "acancel",
    "adecide",
    "arecover",
    "aresult",
    "cancel",
    "decide",
    "effect_key",
    "execution_id",
    "idempotent",
    "interrupt",
    "observe",
    "recover",
    "result",
    "run_context",
    "storable",
]


def __getattr__(name: str) -> Any:
    """Load what needs a driver of its own at first use."""
    if name != "PostgresCheckpointer":
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from fastdur.checkpointers.postgres import PostgresCheckpointer

    return PostgresCheckpointer
