"""A swarm that answers a customer: the front hands over to billing, billing to sales, and each of them asks a human.

    front ── handoff:1 ──> billing  pay_back (needs approval)
                              └── handoff:2 ──> sales  sell (needs approval) ──> the answer

There is one conversation, and each agent reads all of it under a prompt of its own. A handoff is one row; whoever
resumes the run finds the agent that was at work, and the approval that one agent was given stays its own. Sales may
hand over to nobody: it is not on the list.

    python -m scenarios.support_swarm
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastdur import Agent, Resume, Swarm, ToolCall, effect_key, idempotent, tool
from scenarios._http import Payments
from scenarios._models import Scripted
from scenarios._story import State, Wrap, tell, unwatched

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdur import Checkpointer

INPUT: State = {"input": "My lamp arrived broken. I want my money back, and a new one."}
ANSWERS = {
    "approve_pay_back": Resume(approved=True, metadata={"by": "grace"}),
    "approve_sell": Resume(approved=True, metadata={"by": "ruth"}),
}
EFFECTS = {"charges": "exactly-once", "refunds": "exactly-once"}


def build(checkpointer: Checkpointer, payments_url: str, wrap: Wrap = unwatched) -> Swarm:
    """The swarm as it should be."""
    payments = Payments(payments_url)
    refund, charge = wrap("refund", payments.refund), wrap("sale", payments.charge)

    @idempotent(name="refund")
    def pay_out(customer: str, amount: int) -> str:
        return refund(customer, amount, effect_key())["id"]

    @idempotent(name="sale")
    def pay_in(customer: str, amount: int) -> str:
        return charge(customer, amount, effect_key())["id"]

    return swarm(checkpointer, pay_out, pay_in)


def swarm(checkpointer: Checkpointer, pay_out: Callable[[str, int], str], pay_in: Callable[[str, int], str]) -> Swarm:
    """The swarm, around any way of paying."""

    @tool(needs_approval=True)
    def pay_back(customer: str, amount: int) -> str:
        """Pay money back to a customer."""
        return f"paid back as {pay_out(customer, amount)}"

    @tool(needs_approval=True)
    def sell(customer: str, price: int) -> str:
        """Sell a new one to a customer."""
        return f"sold as {pay_in(customer, price)}"

    def handoff(number: int, to: str) -> ToolCall:
        return ToolCall(f"handoff_{number}", f"handoff_to_{to}", {"reason": f"{to} can do it"})

    paid = ToolCall("pay_back", "pay_back", {"customer": "ada", "amount": 40})
    sold = ToolCall("sell", "sell", {"customer": "ada", "price": 45})
    front = Agent("front", Scripted(handoff(1, "billing")), system_prompt="You greet.")
    # Billing says both in one turn: it is paid back first, and then handed over.
    billing = Agent("billing", Scripted([handoff(2, "sales"), paid]), [pay_back], "You pay back.")
    sales = Agent("sales", Scripted(sold, "40 are on their way back, and so is a new lamp."), [sell], "You sell.")
    ways = {"front": ["billing"], "billing": ["sales"]}
    return Swarm("support_swarm", [front, billing, sales], "front", ways, max_handoffs=2, checkpointer=checkpointer)


def broken_no_key(checkpointer: Checkpointer, payments_url: str, wrap: Wrap = unwatched) -> Swarm:
    """Broken: the effects are recorded, and the provider is given no key.

    A crash between a payment and its record pays again: the record alone cannot know. Hand `effect_key()` on. A sweep
    says FD07 EFFECT_REPEATED.
    """
    payments = Payments(payments_url)
    refund, charge = wrap("refund", payments.refund), wrap("sale", payments.charge)

    @idempotent(name="refund")
    def pay_out(customer: str, amount: int) -> str:
        return refund(customer, amount, None)["id"]  # this is the mistake

    @idempotent(name="sale")
    def pay_in(customer: str, amount: int) -> str:
        return charge(customer, amount, None)["id"]  # and this

    return swarm(checkpointer, pay_out, pay_in)


if __name__ == "__main__":
    tell(build, INPUT, ANSWERS)
