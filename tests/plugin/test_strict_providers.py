"""Agents over the official SDKs, crashed everywhere: every request that arrives is valid."""

from __future__ import annotations

from contextlib import closing

import pytest

from fastdur import Agent, AnthropicClient, OpenAIClient, Resume, ToolCall, effect_key, idempotent, tool


@pytest.mark.parametrize("which", ["openai", "anthropic"])
def test_an_agent_that_is_crashed_everywhere_sends_only_valid_requests(
    crash_sweep, effects, strict_openai, strict_anthropic, which
):
    p = strict_openai if which == "openai" else strict_anthropic
    model = (OpenAIClient if which == "openai" else AnthropicClient)("any", **p.client)
    p.script = [
        [ToolCall("c1", "add", {"a": 1}), ToolCall("c2", "pay", {"amount": 5}), ToolCall("c3", "add", {"a": 2})],
        "done",
    ]

    def build(store):
        @idempotent(name="charge")
        def charge(amount):
            effect_key()
            return effects.wrap("charge", lambda: amount)()

        @tool
        def add(a: int) -> int:
            return a

        @tool(needs_approval=True)
        def pay(amount: int) -> str:
            return f"paid {charge(amount)}"

        return Agent("a", model, [add, pay], checkpointer=store)

    with closing(model):
        crash_sweep(build, input={"input": "go"}, answers={"approve_pay": Resume(approved=True)})
    assert p.requests
    assert p.refused == []
