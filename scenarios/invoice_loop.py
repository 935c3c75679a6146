"""An invoice that is drafted again until its total is right: a cycle with a bound, and a router.

    draft ──> check ─┬─ wrong, at most 3 times ──> draft
                     └─ else ────────────────────> send

The input needs four drafts, so the way back is taken three times, which is all that is allowed: a count that was lost
or doubled in a crash would show. All that a draft knows is in the state, and so is the count of the way back.

    python -m scenarios.invoice_loop
"""

from __future__ import annotations

from itertools import count
from random import Random
from typing import TYPE_CHECKING

from fastdur import Chain, effect_key, idempotent
from scenarios._http import Payments
from scenarios._story import State, Wrap, tell, unwatched

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdur import Checkpointer, Resume

REDRAFTS = 3

INPUT: State = {"customer": "ada", "order": [40, 25, 20, 15], "agreed": 100, "lines": [], "drafts": 0}
ANSWERS: dict[str, Resume] = {}
EFFECTS = {"charges": "exactly-once"}


def draft(state: State) -> None:
    """Take one more line of the order over. What a node changes in place counts like what it returns."""
    state["lines"].append(state["order"][len(state["lines"])])
    state["drafts"] += 1


def check(state: State) -> State:
    """Add up."""
    return {"total": sum(state["lines"])}


def wrong(state: State) -> bool:
    """Whether the total is not yet what was agreed."""
    return bool(state["total"] != state["agreed"])


def build(checkpointer: Checkpointer, payments_url: str, wrap: Wrap = unwatched) -> Chain:
    """The invoice as it should be."""
    return chain(checkpointer, payments_url, wrap)


def chain(
    checkpointer: Checkpointer,
    payments_url: str,
    wrap: Wrap,
    drafting: Callable[[State], None] = draft,
    redraft: Callable[[State], bool] = wrong,
) -> Chain:
    """The graph, around any way of drafting and any route back."""
    charge = wrap("send", Payments(payments_url).charge)

    @idempotent(name="send")
    def send(customer: str, total: int) -> str:
        return charge(customer, total, effect_key())["id"]

    return (
        Chain("invoice_loop", checkpointer)
        .add_node("draft", drafting)
        .add_node("check", check)
        .add_node("send", lambda state: {"charge": send(state["customer"], state["total"])})
        .connect("draft", "check")
        .connect("check", "draft", when=redraft, max_iterations=REDRAFTS)
        .connect("check", "send")
    )


def broken_counter(checkpointer: Checkpointer, payments_url: str, wrap: Wrap = unwatched) -> Chain:
    """Broken: the drafts are counted in a variable of the process.

    It starts at one again in the process that takes over, and counts a draft twice that ran again in the same process.
    The state after a crash is not the state without one. A sweep says FD09 DIVERGED.
    """
    drafts = count(1)

    def counted(state: State) -> None:
        draft(state)
        state["drafts"] = next(drafts)

    return chain(checkpointer, payments_url, wrap, drafting=counted)


def broken_dice(checkpointer: Checkpointer, payments_url: str, wrap: Wrap = unwatched) -> Chain:
    """Broken: the route back rolls dice. A seed makes two runs alike, but not a run and its continuation.

    The first roll says draft again, the second says send. The process that takes over begins with the first roll. A
    sweep says FD09 DIVERGED.
    """
    dice = Random(1)  # noqa: S311 - dice, not secrets

    def roll(_: State) -> bool:
        return dice.random() < 0.5  # noqa: PLR2004 - heads or tails

    return chain(checkpointer, payments_url, wrap, redraft=roll)


if __name__ == "__main__":
    tell(build, INPUT, ANSWERS)
