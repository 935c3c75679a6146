"""fastdur: durable execution for chains and agents. A run survives being killed anywhere.

    from fastdur import Chain, Resume, idempotent, interrupt

Start with `Chain`; the README has a first chain in 20 lines and a first crash test in 10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastdur._codec import storable
from fastdur._pruned import Pruned
from fastdur._runner import Recovered, Runner, arecover, recover
from fastdur._runs import (
    acancel,
    adecide,
    adelete_execution,
    alist_unknown,
    aprune,
    aresolve_unknown,
    aresult,
    cancel,
    decide,
    delete_execution,
    list_unknown,
    prune,
    resolve_unknown,
    result,
)
from fastdur.boundaries import Boundary, Inject, observe
from fastdur.chain import Chain
from fastdur.checkpointers.protocol import Checkpointer
from fastdur.checkpointers.sqlite import SQLiteCheckpointer
from fastdur.errors import (
    AgentError,
    AgentLimitError,
    AgentOutputError,
    AlreadyResumed,
    AmbiguousResume,
    ChainError,
    ChainResumeError,
    CheckpointExists,
    CheckpointNotFound,
    CycleLimitError,
    EffectDeadlock,
    EffectFailed,
    EffectForbidden,
    EffectUnknown,
    FastdurError,
    ForkRefused,
    GraphChanged,
    GraphError,
    GuardrailBlocked,
    IdempotencyError,
    IdempotencyMismatch,
    InterruptError,
    InterruptMismatch,
    InterruptNotAllowed,
    InterruptSignal,
    InterruptSwallowed,
    InTransaction,
    LLMError,
    NodeCancelled,
    NodeIsAsync,
    NodeResultError,
    NodeTimeout,
    NotHappened,
    NotStorable,
    OtherStore,
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
from fastdur.records import Checkpoint, Execution, Happened, PendingInterrupt, Resume, RunResult, UnknownEffect
from fastdur.scope import carry, effect_key, execution_id, fence, run_context, transaction

if TYPE_CHECKING:
    from fastdur.agent import Agent
    from fastdur.checkpointers.postgres import PostgresCheckpointer
    from fastdur.guardrails import Block, Guardrail, Mask, ReAsk
    from fastdur.llm.anthropic import AnthropicClient, AsyncAnthropicClient
    from fastdur.llm.client import LLMClient, LLMRequest, LLMResponse, ToolSpec
    from fastdur.llm.messages import Message, ToolCall, Usage
    from fastdur.llm.openai import AsyncOpenAIClient, OpenAIClient
    from fastdur.llm.testing import FunctionModel, TestModel
    from fastdur.memory import AgentMemory
    from fastdur.supervisor import Supervisor, Worker
    from fastdur.swarm import Swarm
    from fastdur.tools import FunctionTool, RunnerTool, tool

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AgentError",
    "AgentLimitError",
    "AgentMemory",
    "AgentOutputError",
    "AlreadyResumed",
    "AmbiguousResume",
    "AnthropicClient",
    "AsyncAnthropicClient",
    "AsyncOpenAIClient",
    "Block",
    "Boundary",
    "Chain",
    "ChainError",
    "ChainResumeError",
    "Checkpoint",
    "CheckpointExists",
    "CheckpointNotFound",
    "Checkpointer",
    "CycleLimitError",
    "EffectDeadlock",
    "EffectFailed",
    "EffectForbidden",
    "EffectUnknown",
    "Execution",
    "FastdurError",
    "ForkRefused",
    "FunctionModel",
    "FunctionTool",
    "GraphChanged",
    "GraphError",
    "Guardrail",
    "GuardrailBlocked",
    "Happened",
    "IdempotencyError",
    "IdempotencyMismatch",
    "InTransaction",
    "Inject",
    "InterruptError",
    "InterruptMismatch",
    "InterruptNotAllowed",
    "InterruptSignal",
    "InterruptSwallowed",
    "LLMClient",
    "LLMError",
    "LLMRequest",
    "LLMResponse",
    "Mask",
    "Message",
    "NodeCancelled",
    "NodeIsAsync",
    "NodeResultError",
    "NodeTimeout",
    "NotHappened",
    "NotStorable",
    "OpenAIClient",
    "OtherStore",
    "PendingInterrupt",
    "PostgresCheckpointer",
    "Pruned",
    "ReAsk",
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
    "RunnerTool",
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
    "Supervisor",
    "Swarm",
    "TestModel",
    "ToolCall",
    "ToolSpec",
    "UnknownEffect",
    "UnknownInterrupt",
    "Usage",
    "Worker",
    "acancel",
    "adecide",
    "adelete_execution",
    "alist_unknown",
    "aprune",
    "arecover",
    "aresolve_unknown",
    "aresult",
    "cancel",
    "carry",
    "decide",
    "delete_execution",
    "effect_key",
    "execution_id",
    "fence",
    "idempotent",
    "interrupt",
    "list_unknown",
    "observe",
    "prune",
    "recover",
    "resolve_unknown",
    "result",
    "run_context",
    "storable",
    "tool",
    "transaction",
]


_LAZY = {
    "ReAsk": "guardrails",
    "Mask": "guardrails",
    "Guardrail": "guardrails",
    "Block": "guardrails",
    "AgentMemory": "memory",
    "Agent": "agent",
    "AnthropicClient": "llm.anthropic",
    "AsyncAnthropicClient": "llm.anthropic",
    "AsyncOpenAIClient": "llm.openai",
    "FunctionModel": "llm.testing",
    "FunctionTool": "tools",
    "LLMClient": "llm.client",
    "LLMRequest": "llm.client",
    "LLMResponse": "llm.client",
    "Message": "llm.messages",
    "OpenAIClient": "llm.openai",
    "PostgresCheckpointer": "checkpointers.postgres",
    "RunnerTool": "tools",
    "Supervisor": "supervisor",
    "Swarm": "swarm",
    "TestModel": "llm.testing",
    "ToolCall": "llm.messages",
    "ToolSpec": "llm.client",
    "Usage": "llm.messages",
    "Worker": "supervisor",
    "tool": "tools",
}
"""What is loaded at first use, because a chain does not need it, and where it is."""


def __getattr__(name: str) -> Any:
    """Load what not every program needs at first use."""
    if name not in _LAZY:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module

    return getattr(import_module(f"fastdur.{_LAZY[name]}"), name)
