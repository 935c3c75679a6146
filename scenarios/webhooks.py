"""An event is told to everybody who wants to know, from a pool of threads.

    close ──> tell ──> report

A thread does not know which run it works for. `carry` takes that along; without it an effect in a thread is refused,
because nobody could say whose it is. Each receiver gets a `webhook-id` made of `effect_key()`, by which it knows an
event that comes again.

    python -m scenarios.webhooks
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from fastdur import Chain, carry, effect_key, idempotent
from scenarios._http import ask
from scenarios._story import State, tell
from scenarios.hook_server import HookServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdur import Checkpointer, Resume

# A sweep needs the same order each time, so it gets one thread; what several do at once is tested beside it.
INPUT: State = {"order": "A-1001", "receivers": ["audit", "billing", "stock"], "threads": 1}
ANSWERS: dict[str, Resume] = {}
EFFECTS = {"audit": "exactly-once", "billing": "exactly-once", "stock": "exactly-once"}


def post(url: str, receiver: str, order: str, known_as: str | None = None) -> str:
    """Tell one receiver."""
    headers = {} if known_as is None else {"webhook-id": known_as}
    ask(url, "POST", f"/{receiver}", {"closed": order}, headers)
    return receiver


def close(state: State) -> State:
    """The event."""
    return {"closed": state["order"]}


def report(state: State) -> State:
    """Say who was told."""
    return {"report": f"{state['closed']} is closed; told: {', '.join(state['told'])}"}


def fan_out(state: State, notify: Callable[[str, str], str]) -> State:
    """Tell them all, several at once."""
    with ThreadPoolExecutor(state["threads"]) as pool:
        waiting = [pool.submit(notify, receiver, state["closed"]) for receiver in state["receivers"]]
    return {"told": [each.result() for each in waiting]}


def chain(checkpointer: Checkpointer, telling: Callable[[State], State]) -> Chain:
    """The graph, around any way of telling."""
    return (
        Chain("webhooks", checkpointer)
        .add_node("close", close)
        .add_node("tell", telling)
        .add_node("report", report)
        .connect("close", "tell")
        .connect("tell", "report")
    )


def build(checkpointer: Checkpointer, url: str) -> Chain:
    """The event as it should be told."""

    @idempotent(name="notify")
    def notify(receiver: str, order: str) -> str:
        return post(url, receiver, order, effect_key())

    return chain(checkpointer, lambda state: fan_out(state, carry(notify)))


def stopping(checkpointer: Checkpointer, url: str) -> Chain:
    """Receivers that know no ids: where nobody knows, a human asks the receiver."""

    @idempotent(name="notify", on_unknown="raise")
    def notify(receiver: str, order: str) -> str:
        return post(url, receiver, order)

    return chain(checkpointer, lambda state: fan_out(state, carry(notify)))


def broken_no_carry(checkpointer: Checkpointer, url: str) -> Chain:
    """Broken: the pool gets the effect itself.

    Its threads do not know the run, and refuse: the run fails with `ScopeLost`, without any crash, and tells nobody.
    """

    @idempotent(name="notify")
    def notify(receiver: str, order: str) -> str:
        return post(url, receiver, order, effect_key())

    return chain(checkpointer, lambda state: fan_out(state, notify))


def broken_no_idempotent(checkpointer: Checkpointer, url: str) -> Chain:
    """Broken: the threads make plain calls. Nobody refuses them, and nobody records them.

    A crash before the node has committed tells everybody again. A sweep says FD07 EFFECT_REPEATED.
    """

    def notify(receiver: str, order: str) -> str:
        return post(url, receiver, order)

    return chain(checkpointer, lambda state: fan_out(state, notify))


if __name__ == "__main__":
    tell(build, {**INPUT, "threads": 3}, ANSWERS, HookServer())
