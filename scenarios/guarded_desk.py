"""An agent behind guardrails, with a memory: nobody but the customer knows their card, and no refund is too high.

    input masked ──> recall ──> turn:0  look_up_order (result masked) ──> turn:1  pay_refund of 500, sent back
        ──> turn:2  pay_refund of 120 ──> turn:3  the answer, masked ──> turn:4  the memory is told

What is masked is in no row: the number of the card is not in the store, and no model reads it. What a guardrail has
said is stored together with what it was asked about, so a process that takes the run over does not ask again about
what is stored. The memory is a service that is told of the question and of the answer, each as an effect behind the
row of the answer; here it writes on the books of the payment server, where everybody can see that each was told once.

    python -m scenarios.guarded_desk
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastdur import Agent, Guardrail, Mask, Message, ReAsk, ToolCall, effect_key, idempotent, tool
from scenarios._http import Payments
from scenarios._models import Scripted
from scenarios._story import State, Wrap, tell, unwatched

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdur import Checkpointer, Resume

CARD = "4242-4242"
HIDDEN = "<card>"

INPUT: State = {"input": f"Order A-1001 arrived broken. Pay me back to {CARD}."}
ANSWERS: dict[str, Resume] = {}
EFFECTS = {"charges": "exactly-once", "refunds": "exactly-once"}


def hidden(text: str) -> Mask | None:
    """A card is nobody's business."""
    return Mask(text.replace(CARD, HIDDEN)) if CARD in text else None


def hidden_result(message: Message) -> Mask | None:
    """Nor is one that is kept with the order."""
    return hidden(message.content)


def bounded(call: ToolCall) -> ReAsk | None:
    """Nobody gets back more than was paid."""
    return ReAsk("At most 150 were paid.") if call.arguments["amount"] > 150 else None  # noqa: PLR2004 - of the order


class Books:
    """A memory: what is known of a customer, and where it is written down."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    def get_context(self, _query: str) -> list[Message]:
        """What is known before."""
        return [Message("user", "I am Ada."), Message("assistant", "Welcome back.")]

    def add(self, message: Message) -> None:
        """Write a message down."""
        self._write(message.content)


def build(checkpointer: Checkpointer, payments_url: str, wrap: Wrap = unwatched) -> Agent:
    """The agent as it should be."""
    charge = wrap("memory", Payments(payments_url).charge)
    return agent(checkpointer, payments_url, wrap, Books(lambda text: charge(text, 1, effect_key())))


def agent(checkpointer: Checkpointer, payments_url: str, wrap: Wrap, memory: Books) -> Agent:
    """The agent, around any memory."""
    refund = wrap("pay", Payments(payments_url).refund)

    @idempotent(name="pay")
    def pay(customer: str, amount: int) -> str:
        return refund(customer, amount, effect_key())["id"]

    @tool
    def look_up_order(order: str) -> State:
        """Look up who ordered."""
        return {"order": order, "customer": "ada", "paid": 150, "card": CARD}

    @tool
    def pay_refund(customer: str, amount: int) -> str:
        """Pay money back to a customer."""
        return f"paid as {pay(customer, amount)}"

    model = Scripted(
        ToolCall("look", "look_up_order", {"order": "A-1001"}),
        ToolCall("high", "pay_refund", {"customer": "ada", "amount": 500}),
        ToolCall("right", "pay_refund", {"customer": "ada", "amount": 120}),
        f"120 were paid back to {CARD}.",
    )
    guardrails = [
        Guardrail(hidden, "input", name="card_in"),
        Guardrail(hidden_result, "tool_result", name="card_kept", tools=["look_up_order"]),
        Guardrail(bounded, "tool_call", tools=["pay_refund"]),
        Guardrail(hidden, "output", name="card_out"),
    ]
    options: dict[str, Any] = {"guardrails": guardrails, "memory": memory, "checkpointer": checkpointer}
    return Agent("guarded_desk", model, [look_up_order, pay_refund], "You handle refunds.", **options)


def broken_no_key(checkpointer: Checkpointer, payments_url: str, wrap: Wrap = unwatched) -> Agent:
    """Broken: the memory does not say which message is the same one again.

    Where a process dies after the service was told and before that is recorded, it is told again, and has no means to
    see it. Hand it `effect_key()`. A sweep says FD07 EFFECT_REPEATED.
    """
    charge = wrap("memory", Payments(payments_url).charge)
    return agent(checkpointer, payments_url, wrap, Books(lambda text: charge(text, 1, None)))  # this is the mistake


if __name__ == "__main__":
    tell(build, INPUT, ANSWERS)
