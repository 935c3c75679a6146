"""An agent whose answer has a type: it buys figures, writes a report, and is asked again until the report fits.

    turn:0  buy_figures ──> turn:1  no JSON ──> turn:2  a field is missing ──> turn:3  the report

The first answer does not fit, and the answer to the first re-ask does not either; the second re-ask is the last there
is. Each answer is a row before it is checked, and the re-asks are counted in the run: a process that takes it over asks
neither more often nor less, and the figures, which were bought in turn 0, are not bought again.

    python -m scenarios.report
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastdur import Agent, ToolCall, effect_key, idempotent, tool
from scenarios._http import Payments
from scenarios._models import Scripted
from scenarios._story import State, Wrap, tell, unwatched

if TYPE_CHECKING:
    from fastdur import Checkpointer, LLMClient, LLMRequest, Resume

INPUT: State = {"input": "Write a report on tin."}
ANSWERS: dict[str, Resume] = {}
EFFECTS = {"charges": "exactly-once"}

BUY = ToolCall("buy", "buy_figures", {"topic": "tin"})
ANSWERS_OF_THE_MODEL = ("Tin rose.", '{"topic": "tin"}', '{"topic": "tin", "change": 12}')


@dataclass
class Report:
    """What is asked for."""

    topic: str
    change: int


def build(checkpointer: Checkpointer, payments_url: str, wrap: Wrap = unwatched) -> Agent:
    """The agent as it should be."""
    return agent(checkpointer, payments_url, wrap, Scripted(BUY, *ANSWERS_OF_THE_MODEL))


def agent(checkpointer: Checkpointer, payments_url: str, wrap: Wrap, model: LLMClient) -> Agent:
    """The agent, around any model."""
    charge = wrap("figures", Payments(payments_url).charge)

    @idempotent(name="figures")
    def pay(topic: str) -> str:
        return charge(topic, 30, effect_key())["id"]

    @tool(output_type=dict[str, str])
    def buy_figures(topic: str) -> dict[str, str]:
        """Buy the figures on a topic."""
        return {"figures": "1, 2, 3", "bill": pay(topic)}

    options: dict[str, Any] = {"output_type": Report, "output_retries": 2, "max_turns": 4}
    return Agent("report", model, [buy_figures], "You write reports.", checkpointer=checkpointer, **options)


def broken_counter(checkpointer: Checkpointer, payments_url: str, wrap: Wrap = unwatched) -> Agent:
    """Broken: the client of the model counts for itself how often it was asked.

    A process that takes the run over begins to count anew, so that the model is told to buy where it should write. What
    a model is asked must come from the request, which holds the whole conversation. A sweep says FD09 DIVERGED.
    """
    return agent(checkpointer, payments_url, wrap, Counting())


class Counting:
    """A model that goes by how often it was asked in this process."""

    def __init__(self) -> None:
        self._asked = 0

    def complete(self, request: LLMRequest) -> Any:
        """What is said next."""
        said = (BUY, *ANSWERS_OF_THE_MODEL)[self._asked % 4]  # this is the mistake
        self._asked += 1
        return Scripted(said).complete(request)


if __name__ == "__main__":
    tell(build, INPUT, ANSWERS)
