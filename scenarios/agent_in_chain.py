"""A chain with an agent as a node: an order comes in, an agent settles it, a receipt goes out.

    intake ──> settle ──> receipt
                 └ an agent: turn:0  charge (needs approval) ──> turn:1  the answer

The agent writes into the run of the chain, each of its steps under the address of the node, `settle/turn:0`. So the
pause of its tool is a pause of the chain, and what the model has said is not asked again when the chain goes on.

    python -m scenarios.agent_in_chain
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastdur import Agent, Chain, Resume, ToolCall, effect_key, idempotent, tool
from scenarios._http import Payments
from scenarios._models import Scripted
from scenarios._story import State, Wrap, tell, unwatched

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from fastdur import Checkpointer

INPUT: State = {"order": "A-1002", "customer": "ada", "amount": 60}
ANSWERS = {"approve_charge": Resume(approved=True, metadata={"by": "grace"})}
EFFECTS = {"charges": "exactly-once"}


def intake(state: State) -> State:
    """What the agent is asked."""
    return {"task": f"Settle order {state['order']} of {state['customer']} over {state['amount']}."}


def receipt(state: State) -> State:
    """What the customer gets."""
    return {"receipt": f"{state['order']}: {state['settled']}"}


def build(checkpointer: Checkpointer, payments_url: str, wrap: Wrap = unwatched) -> Chain:
    """The chain as it should be."""
    settle = agent(payments_url, wrap, needs_approval=True)
    return (
        Chain("agent_in_chain", checkpointer)
        .add_node("intake", intake)
        .add_node("settle", settle, input=lambda state: {"input": state["task"]}, output_key="settled")
        .add_node("receipt", receipt)
        .connect("intake", "settle")
        .connect("settle", "receipt")
    )


def agent(payments_url: str, wrap: Wrap, *, needs_approval: bool, checkpointer: Literal[False] | None = None) -> Agent:
    """The agent that settles."""
    pay = paying(payments_url, wrap)

    @tool(needs_approval=needs_approval)
    def charge(customer: str, amount: int) -> str:
        """Take money from a customer."""
        return f"charged as {pay(customer, amount)}"

    script = ToolCall("charge", "charge", {"customer": "ada", "amount": 60}), "settled"
    return Agent("settler", Scripted(*script), [charge], "You settle orders.", checkpointer=checkpointer)


def paying(payments_url: str, wrap: Wrap) -> Callable[[str, int], str]:
    """A way of paying that is an effect; outside of a run there is no key for it."""
    charge = wrap("charge", Payments(payments_url).charge)

    @idempotent(name="charge")
    def pay(customer: str, amount: int) -> str:
        return charge(customer, amount, effect_key())["id"]

    return pay


def broken_by_hand(checkpointer: Checkpointer, payments_url: str, wrap: Wrap = unwatched) -> Chain:
    """Broken: a node runs the agent by hand, and the agent has no store.

    Nothing of what the agent does is recorded, its effects included, so a crash after the payment and before the row of
    the node runs the whole agent again, and pays again. Nor could its tool wait for a human. Make the agent itself the
    node, or give it the store of the chain. A sweep says FD07 EFFECT_REPEATED.
    """

    def settle(state: State) -> State:
        settler = agent(payments_url, wrap, needs_approval=False, checkpointer=False)  # this is the mistake
        return {"settled": settler.run(state["task"]).output}

    return (
        Chain("agent_in_chain", checkpointer)
        .add_node("intake", intake)
        .add_node("settle", settle)
        .add_node("receipt", receipt)
        .connect("intake", "settle")
        .connect("settle", "receipt")
    )


if __name__ == "__main__":
    tell(build, INPUT, ANSWERS)
