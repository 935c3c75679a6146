"""What `ci/bench` measures of agents: a run of many turns, each with a tool that returns a kilobyte."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from fastdur import Agent, FunctionModel, ToolCall, tool

if TYPE_CHECKING:
    from fastdur import SQLiteCheckpointer

TURNS = 1000
SIZE = 1000


class Talk(NamedTuple):
    """A run: its seconds, the last tenth of its turns against the first, the bytes of its rows, and where it is."""

    seconds: float
    tenths: float
    stored: int
    location: str
    execution_id: str


def talk(store: SQLiteCheckpointer) -> Talk:
    """Carry out one run, and close the store."""
    marks: list[float] = []

    @tool
    def look(number: int) -> str:
        return f"{number} {'x' * SIZE}"

    def say(messages: Any) -> Any:
        marks.append(time.perf_counter())
        number = len(messages) // 2
        return ToolCall(f"call_{number}", "look", {"number": number}) if number < TURNS else "done"

    run = Agent("talk", FunctionModel(say), [look], max_turns=TURNS + 1, checkpointer=store).run("hi").execution_id
    tenth = TURNS // 10
    location = store.location
    store.close()
    connection = sqlite3.connect(location)
    (stored,) = connection.execute("SELECT sum(length(body) + coalesce(length(extra), 0)) FROM checkpoints").fetchone()
    connection.close()
    tenths = (marks[-1] - marks[-1 - tenth]) / (marks[tenth] - marks[0])
    return Talk(marks[-1] - marks[0], tenths, int(stored), location, run)
