"""An agent that pays refunds: it looks the order up, pays once a human has approved, and writes a receipt.

    turn:0  look_up_order ──> turn:1  pay_refund (needs approval) ──> turn:2  the receipt

The model decides what to do, and it may be asked again where a process dies before the next row is stored. So what must
not happen twice does not depend on the model: the tool that pays waits for a human, is called again with the stored
arguments after a crash, and pays in an effect that hands the payment server a key.

The model here follows a script, so that the story ends alike each time. What it says in a turn depends on the messages
alone, as a real one's answer does.

    python -m scenarios.refund_agent
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastdur import Agent, Resume, ToolCall, effect_key, idempotent, tool
from scenarios._http import Payments
from scenarios._models import Scripted
from scenarios._story import State, Wrap, tell, unwatched

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdur import Checkpointer, LLMClient

INPUT: State = {"input": "Order A-1001 arrived broken. I want 120 back."}
ANSWERS = {"approve_pay_refund": Resume(approved=True, metadata={"by": "grace"})}
EFFECTS = {"refunds": "exactly-once"}

ORDERS = {"A-1001": {"customer": "ada", "paid": 150}}


def model() -> LLMClient:
    """What the model says, turn by turn."""
    return Scripted(
        ToolCall("call_1", "look_up_order", {"order": "A-1001"}),
        ToolCall("call_2", "pay_refund", {"customer": "ada", "amount": 120}),
        "120 were paid back to ada.",
    )


def build(checkpointer: Checkpointer, payments_url: str, wrap: Wrap = unwatched) -> Agent:
    """The agent as it should be."""
    refund = wrap("pay", Payments(payments_url).refund)

    @idempotent(name="pay")
    def pay(customer: str, amount: int) -> str:
        return refund(customer, amount, effect_key())["id"]

    return agent(checkpointer, pay)


def agent(checkpointer: Checkpointer, pay: Callable[[str, int], str]) -> Agent:
    """The agent, around any way of paying."""

    @tool
    def look_up_order(order: str) -> State:
        """Look up who ordered, and what was paid.

        Args:
            order: the number of the order, such as A-1001
        """
        return ORDERS[order]

    @tool(needs_approval=True)
    def pay_refund(customer: str, amount: int) -> str:
        """Pay money back to a customer.

        Args:
            customer: who gets it
            amount: how much, in euros
        """
        return f"paid as {pay(customer, amount)}"

    tools = [look_up_order, pay_refund]
    return Agent("refund_agent", model(), tools, "You handle refunds.", checkpointer=checkpointer)


def broken_no_idempotent(checkpointer: Checkpointer, payments_url: str, wrap: Wrap = unwatched) -> Agent:
    """Broken: the tool pays with a plain call.

    A crash after the payment and before the next row calls the tool again, with the same arguments and the approval
    that was given, and pays twice. Put `@idempotent` around what happens outside. A sweep says FD07 EFFECT_REPEATED.
    """
    refund = wrap("pay", Payments(payments_url).refund)

    def pay(customer: str, amount: int) -> str:
        return refund(customer, amount, None)["id"]  # this is the mistake

    return agent(checkpointer, pay)


if __name__ == "__main__":
    tell(build, INPUT, ANSWERS)
