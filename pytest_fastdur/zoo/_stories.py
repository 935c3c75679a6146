"""The stories that animals are looked for in: as small as what they show."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from fastdur import Chain, Resume, effect_key, idempotent, interrupt
from pytest_fastdur.story import Story

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdur.checkpointers.protocol import Checkpointer
    from pytest_fastdur.ledger import EffectLedger

State = dict[str, Any]

SITUATIONS = {"unborn": "nothing", "died": "start/after start", "alone": "start/after start"}
"""How a run stands when callers race for it, where it is not at its question."""

_ANSWERS = {
    "may I?": Resume(approved=True, metadata={"by": "ada"}),
    "and you?": Resume(approved=False, metadata={"by": "bob"}),
}


def _check(state: State) -> State:
    return {"risk": state["amount"] > 100}  # noqa: PLR2004 - an amount


def _ask(state: State) -> State:
    answer = interrupt("may I?", {"amount": state["amount"]})
    return {"approved": answer.approved}


def _ask_two(state: State) -> State:
    answers = [interrupt(why, {"amount": state["amount"]}) for why in _ANSWERS]
    return {"approved": [answer.approved for answer in answers]}


def _send(state: State) -> State:
    return {"sent": state["charged"]}


def _paying(ledger: EffectLedger, result: object = None, on_unknown: Any = "rerun") -> Callable[[State], State]:
    def provide(amount: int, key: str) -> object:  # noqa: ARG001 - as a provider takes it
        return result

    provider = ledger.wrap("charge", provide)

    @idempotent(name="charge", on_unknown=on_unknown)
    def charge(amount: int) -> object:
        return provider(amount, effect_key())

    def pay(state: State) -> State:
        return {"charged": charge(state["amount"])}

    return pay


def _line(store: Checkpointer, *nodes: tuple[str, Callable[[State], State]]) -> Chain:
    chain = Chain("order", store)
    for name, fn in nodes:
        chain.add_node(name, fn)
    for (one, _), (other, _) in pairwise(nodes):
        chain.connect(one, other)
    return chain


def _looping(store: Checkpointer, ledger: EffectLedger) -> Chain:
    def work(state: State) -> State:
        return {"rounds": state.get("rounds", 0) + 1}

    return (
        Chain("order", store)
        .add_node("check", _check)
        .add_node("work", work)
        .add_node("pay", _paying(ledger))
        .connect("check", "work")
        .connect("work", "check", when=lambda state: state["rounds"] < 3, max_iterations=2)  # noqa: PLR2004
        .connect("work", "pay")
    )


def _nesting(store: Checkpointer, ledger: EffectLedger) -> Chain:
    inner = _line(store, ("check", _check), ("pay", _paying(ledger)), ("send", _send))
    return Chain("order", store).add_node("first", _check).add_node("inner", inner).connect("first", "inner")


def story_named(name: str, ledger: EffectLedger) -> Story:
    """A story."""
    pay = _paying(ledger, 7 if name == "result" else None, "raise" if name in ("once", "alone") else "rerun")
    builds: dict[str, Callable[[Any], Chain]] = {
        "died": lambda store: _line(store, ("check", _check), ("pay", pay)),
        "loop": lambda store: _looping(store, ledger),
        "nested": lambda store: _nesting(store, ledger),
        "alone": lambda store: _line(store, ("pay", pay)),
        "once": lambda store: _line(store, ("ask", _ask), ("pay", pay)),
        "twice": lambda store: _line(store, ("ask", _ask_two), ("pay", pay)),
    }
    usual = builds.get(
        name, lambda store: _line(store, ("check", _check), ("ask", _ask), ("pay", pay), ("send", _send))
    )
    silent = {key: dict[str, Resume]() for key in ("died", "alone", "loop", "nested")}
    asked = {"twice": _ANSWERS, **silent}.get(name, {"may I?": _ANSWERS["may I?"]})
    return Story(name, usual, {"amount": 120}, asked, {"charge": "exactly-once"}, ledger)
