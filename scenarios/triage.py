"""A complaint is judged by a language model, and goes the way that the model says.

    judge ─┬─ refund ──> promise
           └─ else ────> hand_over

A model that is asked again says something else. If the call is not recorded, a crash after it lets the run go another
way than the one it was on, with whatever was done on the first. Recorded, the answer is the answer for as long as the
run lives. Between the answer and its record is the one window: what was said there is lost, and the model is asked
again. Nothing was done with the first answer then, but it is another one, and it has been paid for. Where the gateway
in front of the model takes a key, it is the same one.

    python -m scenarios.triage
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastdur import Chain, effect_key, idempotent
from scenarios._http import ask, under_key
from scenarios._story import State, tell
from scenarios.model_server import ModelServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdur import Checkpointer, Resume

Answer = dict[str, str]

INPUT: State = {"complaint": "the cup came in two pieces"}
ANSWERS: dict[str, Resume] = {}
EFFECTS = {"answers": "at-least-once"}


def asked(url: str, prompt: str, key: str | None = None) -> Answer:
    """What the model says."""
    answer: Answer = ask(url, "POST", "/answers", {"prompt": prompt}, under_key(key))
    return answer


def to_refund(state: State) -> bool:
    """Whether the model would pay."""
    return bool(state["answer"]["verdict"] == "refund")


def promise(state: State) -> State:
    """Tell the customer."""
    return {"told": f"you get your money back, because {state['complaint']}"}


def hand_over(state: State) -> State:
    """Tell a colleague."""
    return {"told": f"please look at this: {state['complaint']}"}


def chain(checkpointer: Checkpointer, model: Callable[[str], Answer]) -> Chain:
    """The graph, around any way of asking."""
    return (
        Chain("triage", checkpointer)
        .add_node("judge", lambda state: {"answer": model(state["complaint"])})
        .add_node("promise", promise)
        .add_node("hand_over", hand_over)
        .connect("judge", "promise", when=to_refund)
        .connect("judge", "hand_over")
    )


def build(checkpointer: Checkpointer, url: str) -> Chain:
    """The complaint as it should be judged."""

    @idempotent(name="model")
    def model(prompt: str) -> Answer:
        return asked(url, prompt, effect_key())

    return chain(checkpointer, model)


def stopping(checkpointer: Checkpointer, url: str) -> Chain:
    """A model that takes no key, and no answer may get lost: a human looks it up in the model's log."""

    @idempotent(name="model", on_unknown="raise")
    def model(prompt: str) -> Answer:
        return asked(url, prompt)

    return chain(checkpointer, model)


def broken_no_idempotent(checkpointer: Checkpointer, url: str) -> Chain:
    """Broken: the model is asked by a plain call.

    A crash after the answer and before the commit of its node asks again, and is told something else. A sweep says
    FD09 DIVERGED.
    """

    def model(prompt: str) -> Answer:
        return asked(url, prompt)

    return chain(checkpointer, model)


def broken_no_key(checkpointer: Checkpointer, url: str) -> Chain:
    """Recorded, but without a key: all right, but for the one window.

    A crash in it asks again. Nothing was done with the answer that was lost, so this may be good enough; the run is
    still another one than without the crash. A sweep says FD09 DIVERGED, in the window and nowhere else.
    """

    @idempotent(name="model")
    def model(prompt: str) -> Answer:
        return asked(url, prompt)

    return chain(checkpointer, model)


if __name__ == "__main__":
    tell(build, INPUT, ANSWERS, ModelServer())
