"""The state of an agent, from one answer to the next. Pure: dicts of stored values in, dicts out.

`step` says what is due: `recall` (what a memory knows), `turn` and `ask` (the row, then the question to the model),
`tool` and `call` (the row, then the first of `calls`), `handoff` (that call, the last of its turn), `answer` and
`check` (the row of the final answer, then its check), `remember` (what a memory is told), `end`; `guard` comes in
between. In `data` is what users see: `input`, `history`, `messages`, `usage`, at the end `output`.
`again` holds what only a repetition leaves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastdur._codec import dumps, thaw
from fastdur.llm.messages import Message, frozen_message
from fastdur.records import sealed_output

if TYPE_CHECKING:
    from fastdur.llm.messages import CallStatus

Talk = dict[str, Any]

SKIPPED = "This call was not made, because another call of the same turn had to wait for a human. Ask again if needed."


def begun(data: Talk, step: str) -> Talk:
    """The state that an agent begins with. Without a key `input` the whole of `data` is its input."""
    return {
        "data": {**opened(data), "messages": [], "usage": [0, 0]},
        "turn": 0,
        "step": step,
        "out": "output",
    }


def opened(data: Talk) -> Talk:
    """What a conversation begins with. Without a key `input` the whole of `data` is its input."""
    given = {"input": data["input"], "history": data.get("history", [])} if "input" in data else {"input": data}
    return {"history": [], **given}


def waiting(state: Talk) -> list[Any]:
    """The calls of this turn that are to be made, the one at work first."""
    return [call for call in state.get("calls", ()) if "error" not in call]


def asks(state: Talk) -> int:
    """How often the model was asked anew after its answer had failed its check."""
    return int(state.get("again", {}).get("asks", 0))


def let_in(state: Talk, step: str) -> Talk:
    """The guardrails have been asked about the input, and `step` is due."""
    return {**_without(state, "guards"), "step": step}


def released(state: Talk) -> Talk:
    """The guardrails have been asked about the calls of the answer that is held, and it is taken."""
    return taken(_without(state, "reply", "cost"), state["reply"])


def told_at_last(state: Talk) -> Talk:
    """The guardrails have been asked about what came of a call, and the model is told what is left of it."""
    return told(_without(state, "told"), *state["told"])


def recalled(state: Talk, messages: list[Any]) -> Talk:
    """A memory knows these messages, which come before all others."""
    data = state["data"]
    return {**state, "data": {**data, "history": [*messages, *data["history"]]}, "step": "turn"}


def marked(state: Talk, *, checks: bool, remembers: bool) -> Talk:
    """The row that was due is written; `checks` where an answer is checked, `remembers` where a memory is told."""
    if state["step"] == "answer" and not checks:
        return accepted(state, state["answer"]["content"], remembers=remembers)
    return {**state, "step": {"turn": "ask", "tool": "call", "answer": "check"}[state["step"]]}


def spent(state: Talk, answer: Talk, *, again: bool) -> Talk:
    """What an answer costs is counted; `again` where it may have been paid for before, by a lifetime that was lost."""
    used = answer["usage"]
    usage = [before + new for before, new in zip(state["data"]["usage"], used, strict=True)]
    after = {**state, "data": {**state["data"], "usage": usage}}
    if again:
        after["again"] = {**state.get("again", {}), "wasted": wasted(state) + sum(used)}
    return after


def taken(state: Talk, answer: Talk) -> Talk:
    """The model has answered, with calls or for good."""
    if not answer["calls"]:
        return {**state, "answer": answer["message"], "cost": answer["usage"], "step": "answer"}
    return _onwards({**_said(state, answer["message"]), "calls": _placed(answer["calls"], state["turn"])})


def wasted(state: Talk) -> int:
    """The tokens that were spent on questions that may have been answered before."""
    return int(state.get("again", {}).get("wasted", 0))


def handed(state: Talk, text: str, before: Talk) -> Talk:
    """The state of an agent that takes a conversation over; `before` is what it has counted when it spoke last.

    The handoff, which is the call at work, is answered by `text`.
    """
    after = _said(state, reply(state["calls"][0], "ok", text))
    after = _without(after, "calls", "asked", *OWN)
    counted = {key: part for key, part in before.items() if key != "usage"}
    data = {**after["data"], "usage": before["usage"]}
    return {**after, "turn": 0, **counted, "data": data, "step": "turn", "handoffs": state.get("handoffs", 0) + 1}


OWN = ("turn", "seconds", "reasks", "below")


def counted(state: Talk) -> Talk:
    """What is counted for an agent alone: its turns with the one under way, tokens, seconds and re-asks."""
    found: Talk = {key: state[key] for key in ("seconds", "reasks") if key in state}
    return {"turn": state["turn"] + 1, **found, "usage": state["data"]["usage"]}


def told(state: Talk, status: CallStatus, text: str) -> Talk:
    """The call at work has ended, and this is what the model is told of it."""
    call, *rest = state["calls"]
    return _onwards({**_said(state, reply(call, status, text)), "calls": rest})


def checked(state: Talk, verdict: Talk, *, remembers: bool = False) -> Talk:
    """The answer fits, or is to be given again."""
    if "value" in verdict:
        return accepted(state, verdict["value"], remembers=remembers)
    mend = frozen_message(Message("user", verdict["again"]))
    after = _without(_said(state, state["answer"], mend), "answer", "cost")
    return {**after, "turn": state["turn"] + 1, "step": "turn", "reasks": state.get("reasks", 0) + 1}


def accepted(state: Talk, value: Any, *, remembers: bool) -> Talk:
    """The answer is taken; where a memory is told of it first, the state holds it until that has happened."""
    return {**state, "value": value, "step": "remember"} if remembers else ended(state, value)


def ended(state: Talk, value: Any) -> Talk:
    """The answer is the output of the run."""
    after = _without(_said(state, state["answer"]), "answer", "cost", "value")
    data = {**after["data"], "output": value}
    return {**after, "data": data, "step": "end", "touched": ["output"], "gives": "output"}


def unanswered(state: Talk) -> Talk:
    """The answer is thrown away, and what it cost is wasted; the model is asked again in the same turn."""
    cost = state.get("cost", [0, 0])
    usage = [spent - lost for spent, lost in zip(state["data"]["usage"], cost, strict=True)]
    again = {**state.get("again", {}), "asks": asks(state) + 1, "wasted": wasted(state) + sum(cost)}
    data = {**state["data"], "usage": usage}
    return {**_without(state, "answer", "cost"), "data": data, "step": "ask", "again": again}


def output_text(state: Any) -> str:
    """What a model is told of a runner that has ended: its output, as text or JSON."""
    value = sealed_output(state).frozen
    return value if type(value) is str else dumps(value)


def _onwards(state: Talk) -> Talk:
    """To the next call that can be made, past those that cannot; after the last to the next turn."""
    calls = state["calls"]
    while calls and ("error" in calls[0] or (state.get("asked") and "to" not in calls[0])):
        call, *calls = calls
        wrong = call.get("error")
        state = _said(state, reply(call, "error", wrong) if wrong else reply(call, "skipped", SKIPPED))
    if calls:
        return {**state, "calls": calls, "step": "handoff" if "to" in calls[0] else "tool"}
    return {**_without(state, "calls", "asked"), "turn": state["turn"] + 1, "step": "turn"}


def _placed(calls: list[Talk], turn: int) -> list[Talk]:
    """The calls with the address of each that can be made; from the second one of a tool it is numbered."""
    seen: dict[str, int] = {}
    found: list[Talk] = []
    for call in calls:
        if "error" not in call and "to" not in call:
            number = seen[call["name"]] = seen.get(call["name"], 0) + 1
            place = f"turn:{turn}/tool:{call['name']}" + (f"#{number}" if number > 1 else "")
            found.append({**call, "place": place})
        else:
            found.append(call)
    return found


def reply(call: Talk, status: CallStatus, text: str) -> Any:
    """The message that answers a call."""
    name = thaw(call["name"])
    return frozen_message(Message("tool", text, tool_call_id=thaw(call["id"]), name=name, status=status))


def _said(state: Talk, *messages: Any) -> Talk:
    data = state["data"]
    return {**state, "data": {**data, "messages": [*data["messages"], *messages]}}


def _without(state: Talk, *keys: str) -> Talk:
    return {key: part for key, part in state.items() if key not in keys}
