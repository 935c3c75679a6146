"""A contract: take a deposit, have it cleared by two departments, take the balance.

    deposit ──> clearance ─┬─ cleared ──> balance
                │          └─ else ─────> give_back
                └ a chain of its own: summary ──> review ──> verdict

The clearance is a chain inside a chain. Its `review` asks two questions one after the other, and each pause inside it
is a pause of the whole run. When the second answer comes, `review` runs again from its top, and the first `interrupt`
returns the answer that was given before. What was done before, the deposit, is not done again.

    python -m scenarios.nested
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastdur import Chain, Resume, effect_key, idempotent, interrupt
from scenarios._http import Payments
from scenarios._story import State, Wrap, tell, unwatched

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdur import Checkpointer

DEPARTMENTS = ("legal", "finance")

INPUT: State = {"contract": "C-7", "customer": "ada", "deposit": 20, "balance": 80}
ANSWERS = {
    "legal_clearance": Resume(approved=True, metadata={"by": "ruth"}),
    "finance_clearance": Resume(approved=True, metadata={"by": "emmy"}),
}
EFFECTS = {"charges": "exactly-once"}


def summary(state: State) -> State:
    """What the departments get to read."""
    return {"summary": f"{state['contract']} over {state['total']}"}


def review(state: State) -> State:
    """Ask one department after the other."""
    answers = {name: interrupt(f"{name}_clearance", {"summary": state["summary"]}) for name in DEPARTMENTS}
    return {"cleared_by": {name: answer.metadata["by"] for name, answer in answers.items() if answer.approved}}


def verdict(state: State) -> State:
    """All of them, or it is not cleared."""
    return {"cleared": set(state["cleared_by"]) == set(DEPARTMENTS)}


def total(state: State) -> State:
    """What the inner chain starts from."""
    return {"contract": state["contract"], "total": state["deposit"] + state["balance"]}


def cleared(state: State) -> bool:
    """Whether the inner chain ended with a yes."""
    return bool(state["clearance"]["cleared"])


def build(checkpointer: Checkpointer, payments_url: str, wrap: Wrap = unwatched) -> Chain:
    """The contract as it should be."""
    return chain(checkpointer, payments_url, wrap)


def chain(
    checkpointer: Checkpointer,
    payments_url: str,
    wrap: Wrap,
    reviewing: Callable[[State], State] = review,
) -> Chain:
    """The graph, around any way of reviewing."""
    payments = Payments(payments_url)
    charge_deposit = wrap("deposit", payments.charge)
    charge_balance = wrap("balance", payments.charge)
    refund_deposit = wrap("give_back", payments.refund)

    @idempotent(name="deposit")
    def take_deposit(customer: str, amount: int) -> str:
        return charge_deposit(customer, amount, effect_key())["id"]

    @idempotent(name="balance")
    def take_balance(customer: str, amount: int) -> str:
        return charge_balance(customer, amount, effect_key())["id"]

    @idempotent(name="give_back")
    def give_back(customer: str, amount: int) -> str:
        return refund_deposit(customer, amount, effect_key())["id"]

    clearance = (
        Chain("clearance")
        .add_node("summary", summary)
        .add_node("review", reviewing)
        .add_node("verdict", verdict)
        .connect("summary", "review")
        .connect("review", "verdict")
    )
    return (
        Chain("nested", checkpointer)
        .add_node("deposit", lambda state: {"first": take_deposit(state["customer"], state["deposit"])})
        .add_node("clearance", clearance, input=total, output_key="clearance")
        .add_node("balance", lambda state: {"second": take_balance(state["customer"], state["balance"])})
        .add_node("give_back", lambda state: {"returned": give_back(state["customer"], state["deposit"])})
        .connect("deposit", "clearance")
        .connect("clearance", "balance", when=cleared)
        .connect("clearance", "give_back")
    )


def broken_swallowed(checkpointer: Checkpointer, payments_url: str, wrap: Wrap = unwatched) -> Chain:
    """Broken: the review catches everything, the pause included, and takes it for a yes.

    No department is asked. The run does not go on as if one had agreed: it fails at `review` with `InterruptSwallowed`,
    without any crash. Catch `Exception`, which a pause is not.
    """

    def careless(state: State) -> State:
        try:
            return review(state)
        except BaseException:  # this is the mistake
            return {"cleared_by": dict.fromkeys(DEPARTMENTS, "nobody")}

    return chain(checkpointer, payments_url, wrap, reviewing=careless)


if __name__ == "__main__":
    tell(build, INPUT, ANSWERS)
