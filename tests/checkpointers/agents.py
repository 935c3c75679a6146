"""An agent whose turns are counted: each asks a model, and calls a tool that returns a kilobyte."""

from __future__ import annotations

from fastdur import Agent, FunctionModel, ToolCall, tool


def talker(store, turns, begun, **options):
    """An agent of so many turns; `begun` is called when the first of them is behind it."""

    @tool
    def look(number: int) -> str:
        return f"{number} {'x' * 1000}"

    def say(messages):
        number = len(messages) // 2
        if number == 1:
            begun()
        return ToolCall(f"call_{number}", "look", {"number": number}) if number <= turns else "done"

    return Agent("talk", FunctionModel(say), [look], max_turns=turns + 2, checkpointer=store, **options)
