"""A human agrees to a payout on the balance they were shown; meanwhile the balance changes.

    agree ─┬─ yes ──> pay ──> say
           └─ else ─────────> say

What the human saw is the context of the question. It is frozen when the question is asked, it is recorded, and it comes
back with the answer, whatever the node offers on its second pass: so anyone can tell later on what was agreed to. What
is true when the answer comes is another matter, and has to be looked at again: after the answer, and in an effect,
because the payout itself changes what a second look would find.

    python -m scenarios.balance
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from fastdur import Chain, Resume, effect_key, idempotent, interrupt
from scenarios import _story
from scenarios._http import Payments
from scenarios._story import State, tell

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdur import Checkpointer

OPENED_WITH = 100
RENT = 50

INPUT: State = {"customer": "ada", "amount": 40}
ANSWERS = {"payout": Resume(approved=True, metadata={"by": "grace"})}
EFFECTS = {"refunds": "exactly-once"}


class RentIsDue(_story.World):
    """An account that holds 100; while the human thinks the rent is taken from it."""

    def begin(self) -> None:
        """Open the account."""
        super().begin()
        self.server.client.charge("ada", OPENED_WITH, "opened")

    def meanwhile(self) -> None:
        """Take the rent."""
        self.server.client.refund("ada", RENT, "rent")


WORLD = RentIsDue


def say(state: State) -> State:
    """What became of it, and on what it was agreed."""
    became = "declined" if state.get("payment") is None else f"paid: {state['payment']}"
    return {"said": f"{became} (agreed on a balance of {state['shown']})"}


def chain(
    checkpointer: Checkpointer,
    url: str,
    enough: Callable[[State], bool],
    pay: Callable[[str, int], str] | None = None,
    on_changed: Literal["ignore", "raise"] = "ignore",
) -> Chain:
    """The graph, around any way of telling whether there is enough."""
    payments = Payments(url)

    @idempotent(name="pay")
    def pay_once(customer: str, amount: int) -> str:
        return payments.refund(customer, amount, effect_key())["id"]

    def agree(state: State) -> State:
        # fastdur: ignore[FDL03] it is only shown, and frozen with the question
        seen = {"amount": state["amount"], "balance": payments.balance(state["customer"])}
        answer = interrupt("payout", seen, on_changed_context=on_changed)
        return {"agreed": answer.approved, "shown": answer.context["balance"]}

    def payout(state: State) -> State:
        return {"payment": (pay or pay_once)(state["customer"], state["amount"]) if enough(state) else None}

    return (
        Chain("balance", checkpointer)
        .add_node("agree", agree)
        .add_node("pay", payout)
        .add_node("say", say)
        .connect("agree", "pay", when=lambda state: state["agreed"])
        .connect("agree", "say")
        .connect("pay", "say")
    )


def looking(url: str) -> Callable[[State], bool]:
    """Look at the balance in an effect: what was seen is recorded before anything is done on it."""
    payments = Payments(url)

    @idempotent(name="balance")
    def balance(customer: str) -> int:
        return payments.balance(customer)

    return lambda state: balance(state["customer"]) >= state["amount"]


def build(checkpointer: Checkpointer, url: str) -> Chain:
    """The payout as it should be."""
    return chain(checkpointer, url, looking(url))


def stopping(checkpointer: Checkpointer, url: str) -> Chain:
    """The same with a bank that takes no key: where nobody knows, a human asks it."""
    payments = Payments(url)

    @idempotent(name="pay", on_unknown="raise")
    def pay(customer: str, amount: int) -> str:
        return payments.refund(customer, amount)["id"]

    return chain(checkpointer, url, looking(url), pay)


def strict(checkpointer: Checkpointer, url: str) -> Chain:
    """What was agreed to must still be so: if not, the run fails with `InterruptMismatch`, and nothing is paid."""
    return chain(checkpointer, url, looking(url), on_changed="raise")


def broken_second_look(checkpointer: Checkpointer, url: str) -> Chain:
    """Broken: the node that pays looks at the balance by a plain call.

    When it runs again, its own payment is gone from the balance already. It may have paid and say that it has declined.
    A sweep says FD09 DIVERGED.
    """
    payments = Payments(url)
    return chain(checkpointer, url, lambda state: payments.balance(state["customer"]) >= state["amount"])


def broken_frozen(checkpointer: Checkpointer, url: str) -> Chain:
    """Broken: it is paid on what the human was shown.

    The account is overdrawn if it has changed meanwhile. No crash is needed for that, so no sweep sees it: without a
    crash it is just as wrong.
    """
    return chain(checkpointer, url, lambda state: state["shown"] >= state["amount"])


if __name__ == "__main__":
    tell(build, INPUT, ANSWERS, around=WORLD)
