"""How an agent asks its guardrails, and what becomes of what they were asked about.

What is in question is held in the state, and in no row, until all have been asked: in `data` the input, in `reply` the
calls of a model's answer, in `answer` a final one, in `told` what came of a call. `guards` says at which position the
agent stands and how many were asked. Only where asking fails, or a runner inside has ended, does a row hold it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from fastdur import _talk
from fastdur._asking import checked_call
from fastdur._codec import freeze, thaw
from fastdur._functions import chained, is_async
from fastdur._steps import Call
from fastdur.errors import GraphError, GuardrailBlocked, NodeResultError
from fastdur.guardrails import Block, Guardrail, Mask, ReAsk
from fastdur.llm.messages import ToolCall, frozen_message, message_of, prompt_of
from fastdur.scope import current

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fastdur._talk import Talk
    from fastdur.llm.messages import CallStatus
    from fastdur.tools import AnyTool

About = tuple[Guardrail, int]
"""A guardrail that is to be asked, and about which call of the answer."""


class Guards:
    """The guardrails of one agent."""

    def __init__(self, given: Iterable[Guardrail], who: str) -> None:
        self.all, self._who = (*given,), who
        wrong: Any = next((each for each in self.all if type(each) is not Guardrail), None)
        if wrong is not None:
            message = f"{who} has {wrong!r} among its guardrails; give Guardrail(fn, position)"
            raise GraphError(message)
        names = [each.name for each in self.all]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            message = f"{who} has two guardrails called {twice!r}; give one of them another name="
            raise GraphError(message)

    def at(self, *positions: str) -> bool:
        """Whether any is asked at one of these positions."""
        return any(each.position in positions for each in self.all)

    # -- what is held --------------------------------------------------------------------------------------------------

    def input(self, state: Talk) -> Talk | None:
        """The state while the input is in question; None where nobody asks."""
        return self._held(state, "input")

    def reply(self, state: Talk, answer: Talk) -> Talk | None:
        """The state while what a model has answered is in question: its calls, or its final answer."""
        held = {**state, "reply": answer, "cost": answer["usage"]} if answer["calls"] else _talk.taken(state, answer)
        return self._held(held, "tool_call" if answer["calls"] else "output")

    def result(self, state: Talk, status: CallStatus, text: str) -> Talk | None:
        """The state while what the model would be told of the call at work is in question."""
        return self._held({**state, "told": [status, text]}, "tool_result")

    def _held(self, state: Talk, position: str) -> Talk | None:
        held = {**state, "step": "guard", "guards": [position, 0]}
        return held if self._about(held) else None

    def _about(self, state: Talk) -> list[About]:
        """Who is asked at the position where a state stands, and about what, in order."""
        position = state["guards"][0]
        here = [each for each in self.all if each.position == position]
        if position == "tool_call":
            calls = enumerate(state["reply"]["calls"])
            return [(each, number) for number, call in calls for each in here if each.is_about(call["name"])]
        if position == "tool_result":
            return [(each, 0) for each in here if each.is_about(state["calls"][0]["name"])]
        return [(each, 0) for each in here]

    # -- asking --------------------------------------------------------------------------------------------------------

    def step(self, state: Talk, turn: int, tools: Mapping[str, AnyTool], left: int) -> Call:
        """The next guardrail as a call; `left` is how often an answer may still be asked for again."""
        position: str = state["guards"][0]
        number: int = state["guards"][1]
        about = self._about(state)
        if number >= len(about):  # it was taken away while what it was asked about waited
            return Call("guardrail", f"turn:{turn}/guardrail", 1, turn, _passes, {})
        guard, which = about[number]
        judge = partial(self._judged, guard, position, left)
        if position == "input":
            fn = _asking(guard.fn, lambda: prompt_of(state["data"]["input"]).content, judge, outside=True)
        elif position == "tool_call":
            known = state["reply"]["calls"][which]
            judge = partial(self._judged_call, tools, known, judge)
            fn = _asking(guard.fn, lambda: ToolCall(*(thaw(known[key]) for key in ("id", "name", "args"))), judge)
        elif position == "output":
            fn = _asking(guard.fn, lambda: message_of(state["answer"]).content, judge)
        else:
            call, (status, text) = state["calls"][0], state["told"]
            fn = _asking(guard.fn, lambda: message_of(_talk.reply(call, status, text)), judge)
        return Call("guardrail", f"turn:{turn}/guardrail:{guard.name}", 1, turn, fn, {})

    def _judged(self, guard: Guardrail, position: str, left: int, said: Any) -> Talk:
        """What a guardrail has said, as data; raises where it blocks, or says what it may not."""
        if said is None:
            return {}
        what = f"guardrail {guard.name!r} of {self._who}"
        if type(said) is Block:
            _blocked(guard, f"{what} has blocked the {position}: {said.reason}")
        if type(said) is Mask:
            wanted: type[Any] = dict if position == "tool_call" else str
            if type(said.value) is not wanted:
                message = (
                    f"{what} masks the {position} by {type(said.value).__qualname__}; give a {wanted.__qualname__}"
                )
                raise NodeResultError(message)
            return {"mask": freeze(said.value, f"the value of {what}")}
        if type(said) is ReAsk and position != "input":
            reason: Any = said.reason
            if type(reason) is not str:
                message = f"{what} sends the {position} back with {type(reason).__qualname__}; give the reason as a str"
                raise NodeResultError(message)
            if position == "output" and not left:
                _blocked(guard, f"{what} has sent the output back too often: {said.reason}")
            return {"again": said.reason}
        known = "None, Block(reason) or Mask(value)" + ("" if position == "input" else ", or ReAsk(reason)")
        message = f"{what} returned {type(said).__qualname__} at {position}; return {known}"
        raise NodeResultError(message)

    def _judged_call(self, tools: Mapping[str, AnyTool], known: Talk, judge: Callable[[Any], Talk], said: Any) -> Talk:
        """The same for a call: masked arguments are checked as those of the model were."""
        verdict = judge(said)
        if "mask" not in verdict:
            return verdict
        call = checked_call(tools, ToolCall(thaw(known["id"]), thaw(known["name"]), said.value))
        return {"call": {**call, **({"error": known["error"]} if "error" in known else {})}}

    # -- what comes of it ----------------------------------------------------------------------------------------------

    def judged(self, state: Talk, verdict: Talk) -> tuple[Talk, str | None]:
        """The state after one has been asked, and the position that is through with it, None where more are asked."""
        position: str = state["guards"][0]
        number: int = state["guards"][1]
        if position == "output" and "again" in verdict:
            return _talk.checked(_let_go(state), {"again": _sent_back(verdict["again"])}), "done"
        after = _changed(state, position, self._about(state)[number][1], verdict) if verdict else state
        if position == "tool_result" and "again" in verdict:
            return _let_go(after), position
        after = {**after, "guards": [position, number + 1]}
        return (_let_go(after), position) if number + 1 >= len(self._about(after)) else (after, None)


def failed(state: Talk) -> Talk:
    """The state after a guardrail has failed: what a model has said is thrown away, a result is kept."""
    position = state["guards"][0]
    if position in ("input", "tool_result"):
        return {**state, "guards": [position, 0]}
    return _talk.unanswered({key: part for key, part in state.items() if key not in ("guards", "reply")})


def _changed(state: Talk, position: str, which: int, verdict: Talk) -> Talk:
    """The state with what a verdict puts in the place of what was asked about."""
    if position == "input":
        return {**state, "data": {**state["data"], "input": verdict["mask"]}}
    if position == "output":
        return {**state, "answer": {**state["answer"], "content": verdict["mask"]}}
    if position == "tool_result":
        status, _ = state["told"]
        return {**state, "told": [status, verdict["mask"]] if "mask" in verdict else ["error", verdict["again"]]}
    reply = state["reply"]
    calls, message = [*reply["calls"]], message_of(reply["message"])
    if "call" in verdict:
        asked = [*message.tool_calls]
        calls[which] = verdict["call"]
        asked[which] = ToolCall(asked[which].id, asked[which].name, thaw(verdict["call"]["args"]))
        message = type(message)(message.role, message.content, tuple(asked))
    else:
        calls[which] = {**calls[which], "error": f"{verdict['again']} Nothing was called."}
    return {**state, "reply": {**reply, "calls": calls, "message": frozen_message(message)}}


def _let_go(state: Talk) -> Talk:
    return {key: part for key, part in state.items() if key != "guards"}


def _sent_back(reason: str) -> str:
    return f"This answer is not taken: {reason} Answer again."


def _blocked(guard: Guardrail, message: str) -> NoReturn:
    raise GuardrailBlocked(message[0].upper() + message[1:], guard.name, guard.position)


def _passes(_: Any) -> Talk:
    return {}


def _asking(
    fn: Callable[[Any], Any], value: Callable[[], Any], judge: Callable[[Any], Talk], *, outside: bool = False
) -> Callable[[Any], Any]:
    """`fn` asked about a value, as a driver invokes it; `outside` of every run, where there is none yet."""
    ask = chained(fn, judge)

    def called(_: Any) -> Any:
        token = current.set(False) if outside else None
        try:
            return ask(value())
        finally:
            if token is not None:
                current.reset(token)

    async def acalled(_: Any) -> Any:
        if outside:
            current.set(False)  # in the task of this call alone
        return await ask(value())

    return acalled if is_async(fn) else called
