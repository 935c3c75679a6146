"""A voucher, and a human who thinks for as long as they like: is it still good, and when is that asked?

    offer ──> ask ──> redeem ──> say

Before the question the clock says what was true then. So the voucher is looked at after the answer. But a node that
looks at the clock finds another time when it runs again: it pays, dies, comes back after the deadline, and says that it
was too late. The time that counts has to be written down before anything is done on it: read in an effect (`build`), or
taken from the answer, which is recorded with all that it carries (`by_answer`).

    python -m scenarios.voucher
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from freezegun import freeze_time

from fastdur import Chain, Resume, effect_key, idempotent, interrupt
from scenarios import _story
from scenarios._http import Payments
from scenarios._story import Answers, State, tell

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from fastdur import Checkpointer

MONDAY = datetime(2031, 5, 5, 8, tzinfo=UTC)
THINKS = timedelta(hours=20)
MORNING = timedelta(hours=24)

INPUT: State = {"customer": "ada", "amount": 30, "expires": MONDAY + timedelta(hours=22)}
ANSWERS: Answers = {"redeem": lambda _: Resume(approved=True, metadata={"at": datetime.now(UTC)})}
EFFECTS = {"refunds": "exactly-once"}


class Night(_story.World):
    """The human answers in the night; a process that comes up after the voucher was redeemed comes in the morning."""

    def __enter__(self) -> Self:
        """Stop the clock, but not that of the pool of connections, whose threads wait by it."""
        self._freezer = freeze_time(MONDAY, ignore=["psycopg_pool"])
        self._clock: Any = self._freezer.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Let it go on."""
        self._freezer.stop()

    def begin(self) -> None:
        """Monday."""
        super().begin()
        self._clock.move_to(MONDAY)

    def meanwhile(self) -> None:
        """It gets late."""
        self._clock.move_to(MONDAY + THINKS)

    def come_up(self) -> None:
        """It gets morning."""
        if self.server.counts()["refunds"]:
            self._clock.move_to(MONDAY + MORNING)


WORLD = Night


def offer(state: State) -> State:
    """What the human gets to read."""
    return {"offer": f"{state['amount']} for {state['customer']}"}


def ask(state: State) -> State:
    """Ask whether it is to be redeemed."""
    answer = interrupt("redeem", {"offer": state["offer"], "expires": state["expires"]})
    return {"wanted": answer.approved, "decided_at": answer.metadata["at"]}


def say(state: State) -> State:
    """What became of it."""
    return {"said": "it was too late" if state["payment"] is None else f"paid: {state['payment']}"}


def chain(
    checkpointer: Checkpointer,
    in_time: Callable[[State], bool],
    pay: Callable[[str, int], str],
    offering: Callable[[State], State] = offer,
) -> Chain:
    """The graph, around any way of telling whether the voucher is still good."""

    def redeem(state: State) -> State:
        return {"payment": pay(state["customer"], state["amount"]) if in_time(state) else None}

    return (
        Chain("voucher", checkpointer)
        .add_node("offer", offering)
        .add_node("ask", ask)
        .add_node("redeem", redeem)
        .add_node("say", say)
        .connect("offer", "ask")
        .connect("ask", "redeem", when=lambda state: state["wanted"])
        .connect("redeem", "say")
    )


def paying(url: str) -> Callable[[str, int], str]:
    """Pay the voucher out, once."""
    payments = Payments(url)

    @idempotent(name="pay")
    def pay(customer: str, amount: int) -> str:
        return payments.refund(customer, amount, effect_key())["id"]

    return pay


@idempotent(name="clock")
def clock() -> datetime:
    """What time it is when a run asks, and then for this run for ever."""
    return datetime.now(UTC)


def build(checkpointer: Checkpointer, url: str) -> Chain:
    """The voucher as it should be: the clock is read after the answer, in an effect."""
    return chain(checkpointer, lambda state: clock() < state["expires"], paying(url))


def by_answer(checkpointer: Checkpointer, url: str) -> Chain:
    """Right too: what counts is when the human decided, which came with the decision."""
    return chain(checkpointer, lambda state: state["decided_at"] < state["expires"], paying(url))


def stopping(checkpointer: Checkpointer, url: str) -> Chain:
    """The same with a till that takes no key: where nobody knows, a human looks into it."""
    payments = Payments(url)

    @idempotent(name="pay", on_unknown="raise")
    def pay(customer: str, amount: int) -> str:
        return payments.refund(customer, amount)["id"]

    return chain(checkpointer, lambda state: clock() < state["expires"], pay)


def broken_clock(checkpointer: Checkpointer, url: str) -> Chain:
    """Broken: the node that pays reads the clock.

    When it runs again it is later. It may have paid and say that it was too late. A sweep says FD09 DIVERGED.
    """
    return chain(checkpointer, lambda state: datetime.now(UTC) < state["expires"], paying(url))


def broken_before(checkpointer: Checkpointer, url: str) -> Chain:
    """Broken: the voucher is looked at before the question, and never again.

    A voucher that expires while the human thinks is paid. No crash is needed for that, so no sweep sees it: without a
    crash it is just as wrong.
    """

    def offering(state: State) -> State:
        return {**offer(state), "good": datetime.now(UTC) < state["expires"]}

    return chain(checkpointer, lambda state: state["good"], paying(url), offering)


if __name__ == "__main__":
    tell(build, INPUT, ANSWERS, around=WORLD)
