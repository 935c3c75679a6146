"""A supervisor with two workers: one reads, the other buys a report once a human has approved.

    editor ── delegate_to_reader ──> reads two sources, in one turn
           ── delegate_to_buyer ───> buys a report (needs approval)
           ── the summary

Each worker has a conversation of its own, whose rows lie under the call that began it, and a pause of the buyer is a
pause of the whole run. When it is answered the buyer goes on where it asked: the reader, which has finished, does not
read again, and the editor's model is not asked what to do once more.

    python -m scenarios.research_team
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastdur import Agent, Resume, Supervisor, ToolCall, Worker, effect_key, idempotent, tool
from scenarios._http import Payments
from scenarios._models import Scripted
from scenarios._story import State, Wrap, tell, unwatched

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdur import Checkpointer

INPUT: State = {"input": "How did the price of tin move?"}
ANSWERS = {"approve_buy_report": Resume(approved=True, metadata={"by": "grace"})}
EFFECTS = {"charges": "exactly-once"}

SOURCES = {"almanac": "tin rose in spring", "gazette": "tin fell in autumn"}


def build(checkpointer: Checkpointer, payments_url: str, wrap: Wrap = unwatched) -> Supervisor:
    """The team as it should be."""
    charge = wrap("report", Payments(payments_url).charge)

    @idempotent(name="report")
    def pay(customer: str, amount: int) -> str:
        return charge(customer, amount, effect_key())["id"]

    return team(checkpointer, read, pay)


def read(source: str) -> str:
    """What a source says."""
    return SOURCES[source]


def team(checkpointer: Checkpointer, look: Callable[[str], str], pay: Callable[[str, int], str]) -> Supervisor:
    """The team, around any way of reading and of paying."""

    @tool
    def read_source(source: str) -> str:
        """Read what a source says.

        Args:
            source: its name
        """
        return look(source)

    @tool(needs_approval=True)
    def buy_report(topic: str, price: int) -> str:
        """Buy a report.

        Args:
            topic: what it is about
            price: how much it may cost, in euros
        """
        return f"the report on {topic}, paid as {pay('desk', price)}"

    sources = [ToolCall(f"read_{name}", "read_source", {"source": name}) for name in SOURCES]
    reader = Agent("reader", Scripted(sources, "It rose, then it fell."), [read_source], "You read.")
    bought = ToolCall("buy", "buy_report", {"topic": "tin", "price": 80})
    buyer = Agent("buyer", Scripted(bought, "I have the report."), [buy_report], "You buy.")
    script = (
        ToolCall("ask_reader", "delegate_to_reader", {"task": "Read the sources on tin."}),
        ToolCall("ask_buyer", "delegate_to_buyer", {"task": "Buy a report on tin."}),
        "Tin rose, then fell; the report agrees.",
    )
    workers = [Worker(reader, description="Reads sources."), Worker(buyer, description="Buys reports.")]
    return Supervisor("research_team", Scripted(*script), workers, "You are the editor.", checkpointer=checkpointer)


def broken_no_idempotent(checkpointer: Checkpointer, payments_url: str, wrap: Wrap = unwatched) -> Supervisor:
    """Broken: the buyer pays with a plain call.

    That a worker does it, two levels down, changes nothing: a crash after the payment and before the next row calls
    the tool again, with the approval that was given. A sweep says FD07 EFFECT_REPEATED.
    """
    charge = wrap("report", Payments(payments_url).charge)

    def pay(customer: str, amount: int) -> str:
        return charge(customer, amount, None)["id"]  # this is the mistake

    return team(checkpointer, read, pay)


def broken_shelf(checkpointer: Checkpointer, payments_url: str, wrap: Wrap = unwatched) -> Supervisor:
    """Broken: the reader keeps in the process what it has read, and counts it.

    A process that takes the run over, or that reads a source a second time after a crash, has another shelf, and the
    team ends with other findings. What a tool returns must come from its arguments, or from outside. A sweep says FD09
    DIVERGED.
    """
    shelf: list[str] = []
    charge = wrap("report", Payments(payments_url).charge)

    def look(source: str) -> str:
        shelf.append(source)  # this is the mistake
        return f"{SOURCES[source]} ({len(shelf)} of {len(SOURCES)})"

    @idempotent(name="report")
    def pay(customer: str, amount: int) -> str:
        return charge(customer, amount, effect_key())["id"]

    return team(checkpointer, look, pay)


if __name__ == "__main__":
    tell(build, INPUT, ANSWERS)
