"""A refund: is it fraud, may it be paid, pay it, write a receipt.

    fraud_check ─┬─ suspicious ───> decline
                 ├─ above_limit ──> approval ─┬─ approved ──> payout
                 │                            └─ else ──────> decline
                 └─ else ─────────> payout ──> receipt

The order is the point. A human is asked before money moves, never after: what has been paid cannot be declined. The
payout is the one step that must not happen twice, so it is an effect, and it hands the payment server a key. If the
process dies after the server has paid and before that is recorded, the next process asks for the same payment under
the same key, and gets the one that was made.

    python -m scenarios.refund
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fastdur import Chain, Happened, NotHappened, Resume, effect_key, idempotent, interrupt
from scenarios._http import Payments
from scenarios._story import State, Wrap, tell, unwatched

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdur import Checkpointer

LIMIT = 100

INPUT: State = {"order": "A-1001", "customer": "ada", "paid": 150, "amount": 120}
ANSWERS = {"manager_approval": Resume(approved=True, metadata={"by": "grace"})}
EFFECTS = {"refunds": "exactly-once"}


def fraud_check(state: State) -> State:
    """Nobody gets back more than was paid."""
    return {"suspicious": state["amount"] > state["paid"]}


def approval(state: State) -> State:
    """Ask a manager. The run waits here, without a process, for as long as it takes."""
    answer = interrupt("manager_approval", {"order": state["order"], "amount": state["amount"]})
    return {"approved": answer.approved, "decided_by": answer.metadata.get("by")}


def receipt(state: State) -> State:
    """Say what was paid."""
    return {"receipt": f"{state['amount']} back to {state['customer']} for {state['order']}: {state['payment']}"}


def decline(state: State) -> State:
    """Say that nothing was paid."""
    return {"receipt": f"nothing back to {state['customer']} for {state['order']}"}


def suspicious(state: State) -> bool:
    """Whether the fraud check found something."""
    return bool(state["suspicious"])


def above_limit(state: State) -> bool:
    """Whether a human has to agree."""
    return bool(state["amount"] > LIMIT)


def approved(state: State) -> bool:
    """Whether the human did."""
    return bool(state["approved"])


def build(checkpointer: Checkpointer, payments_url: str, wrap: Wrap = unwatched) -> Chain:
    """The refund as it should be."""
    refund = wrap("payout", Payments(payments_url).refund)

    @idempotent(name="payout")
    def payout(customer: str, amount: int) -> str:
        return refund(customer, amount, effect_key())["id"]

    return chain(checkpointer, payout)


def chain(
    checkpointer: Checkpointer,
    payout: Callable[[str, int], str],
    check: Callable[[State], State] = fraud_check,
) -> Chain:
    """The graph, around any way of paying and of checking."""

    def pay(state: State) -> State:
        return {"payment": payout(state["customer"], state["amount"])}

    return (
        Chain("refund", checkpointer)
        .add_node("fraud_check", check)
        .add_node("approval", approval)
        .add_node("payout", pay)
        .add_node("receipt", receipt)
        .add_node("decline", decline)
        .connect("fraud_check", "decline", when=suspicious)
        .connect("fraud_check", "approval", when=above_limit)
        .connect("fraud_check", "payout")
        .connect("approval", "payout", when=approved)
        .connect("approval", "decline")
        .connect("payout", "receipt")
    )


def asking(checkpointer: Checkpointer, payments_url: str, wrap: Wrap = unwatched) -> Chain:
    """Right too: where nobody knows, the provider is asked before anything is done again."""
    payments = Payments(payments_url)
    refund = wrap("payout", payments.refund)

    def look_up(key: str, _customer: str, _amount: int) -> Happened | type[NotHappened]:
        made = [each["id"] for each in payments.attempts() if (each["key"], each["outcome"]) == (key, "made")]
        return Happened(made[0]) if made else NotHappened

    @idempotent(name="payout", on_unknown=look_up)
    def payout(customer: str, amount: int) -> str:
        return refund(customer, amount, effect_key())["id"]

    return chain(checkpointer, payout)


def stopping(checkpointer: Checkpointer, payments_url: str, wrap: Wrap = unwatched) -> Chain:
    """For a provider that takes no key and cannot be asked: where nobody knows, the run stops until a human says.

    It stops with `EffectUnknown` after a crash in the one window, and nowhere else.
    """
    refund = wrap("payout", Payments(payments_url).refund)

    @idempotent(name="payout", on_unknown="raise")
    def payout(customer: str, amount: int) -> str:
        return refund(customer, amount, None)["id"]

    return chain(checkpointer, payout)


def broken_no_idempotent(checkpointer: Checkpointer, payments_url: str, wrap: Wrap = unwatched) -> Chain:
    """Broken: the payout is a plain call.

    Nothing records that it was made, so a crash between the payment and the commit of its node pays again.
    A sweep says FD07 EFFECT_REPEATED.
    """
    refund = wrap("payout", Payments(payments_url).refund)

    def payout(customer: str, amount: int) -> str:
        return refund(customer, amount, None)["id"]

    return chain(checkpointer, payout)


def broken_no_key(checkpointer: Checkpointer, payments_url: str, wrap: Wrap = unwatched) -> Chain:
    """Broken: the payout is recorded, but the payment server gets no key.

    A crash after the server has paid and before that is recorded leaves nobody who knows: the effect has to run again,
    and the server cannot tell that it is the same payment. A sweep says FD07 EFFECT_REPEATED.
    """
    refund = wrap("payout", Payments(payments_url).refund)

    @idempotent(name="payout")
    def payout(customer: str, amount: int) -> str:
        return refund(customer, amount, None)["id"]

    return chain(checkpointer, payout)


def broken_clock(checkpointer: Checkpointer, payments_url: str, wrap: Wrap = unwatched) -> Chain:
    """Broken: the fraud check writes down what time it is.

    Two runs of the same refund then differ, and so does a node that runs again after a crash. Hand the time in with
    the input, or read it in an effect, which is recorded. A sweep stops before the first crash: not deterministic.
    """
    refund = wrap("payout", Payments(payments_url).refund)

    def check(state: State) -> State:
        return {**fraud_check(state), "checked_at": time.time_ns()}

    @idempotent(name="payout")
    def payout(customer: str, amount: int) -> str:
        return refund(customer, amount, effect_key())["id"]

    return chain(checkpointer, payout, check)


if __name__ == "__main__":
    tell(build, INPUT, ANSWERS)
