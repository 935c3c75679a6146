"""What agents have said and spent, wherever in a tree of frames they stand. Pure.

An agent is told by `turn` in its state, a swarm by `active`. What frames that have ended leave to the one above is in
`below`: the tokens, and the calls with the place of the agent that made them; what repetitions have cost is in `again`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from fastdur._codec import freeze, thaw
from fastdur.llm.messages import conversation_of, message_of, tool_records

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastdur._codec import Frozen
    from fastdur.llm.messages import Message

    State = Mapping[str, Frozen]
    Call = dict[str, Any]


class Level(Protocol):
    """What is read of a frame."""

    @property
    def place(self) -> str:
        """Where it stands in the one above."""
        ...

    @property
    def state(self) -> State:
        """Its state."""
        ...

    @property
    def children(self) -> Sequence[Level]:
        """The frames below it."""
        ...


class Ended(NamedTuple):
    """A frame that has ended: only its state is left."""

    state: State
    place: str = ""
    children: Sequence[Level] = ()


class Said:
    """What a result has of the agents of a run, read from its frames: all its lifetimes, not only the last."""

    frames: Any

    @property
    def is_agent(self) -> bool:
        """Whether the run is an agent's, a supervisor's or a swarm's."""
        return self.frames is not None and is_talk(self.frames.state)

    @property
    def messages(self) -> list[Message]:
        """Of an agent's run, or a team's: everything said, without the system prompt; else nothing."""
        return said_in(self.frames) if self.is_agent else []

    @property
    def tool_calls(self) -> list[Call]:
        """Each answered call of every agent: `turn`, `name`, `arguments`, `tool_call_id`, `output`, `status`, `place`.

        First those of the run's own agent, whose `place` is the empty text; then those of the agents inside it, whose
        place is the address that their rows begin with.
        """
        return [] if self.frames is None else calls_in(self.frames, "")

    @property
    def tokens(self) -> int:
        """The tokens of all answers that were used, of every agent in the run."""
        return 0 if self.frames is None else sum(usage_in(self.frames))

    @property
    def wasted_tokens(self) -> int:
        """The tokens of answers that may have been paid for before, by a process that died; of every agent."""
        return 0 if self.frames is None else wasted_in(self.frames)


def is_talk(state: State) -> bool:
    """Whether a frame is an agent's or a swarm's."""
    return "turn" in state or "active" in state


def said_in(frame: Level) -> list[Message]:
    """The conversation in an agent's frame; in a swarm's, that of its agent at work."""
    at_work = frame.children[0] if "active" in frame.state and frame.children else frame
    data: Any = at_work.state["data"]
    return conversation_of(data)


def calls_in(frame: Level, at: str) -> list[Call]:
    """The answered calls of a frame, and of those below it; `at` is its own place."""
    below: Any = frame.state.get("below", {})
    found = _own_calls(frame, at)
    found += [{**thaw(call), "place": _joined(at, call["place"])} for call in below.get("calls", ())]
    for child in frame.children:
        inside = _joined(at, child.place)
        told = calls_in(child, inside)
        # What the agent of a swarm holds is the conversation of all, and was told above.
        found += told[len(_own_calls(child, inside)) :] if "active" in frame.state else told
    return found


def _own_calls(frame: Level, at: str) -> list[Call]:
    state: Any = frame.state
    if not is_talk(state):
        return []
    if "active" not in state:
        return _records(state["data"]["messages"], at, 0)
    data: Any = frame.children[0].state["data"] if frame.children else state["data"]
    messages: list[Frozen] = data.get("messages", [])
    ends = [*(begin for _, begin, _ in state["spans"][1:]), len(messages)]
    found: list[Call] = []
    for (name, begin, turn), end in zip(state["spans"], ends, strict=True):
        found += _records(messages[begin:end], _joined(at, name), turn)
    return found


def _records(messages: Sequence[Frozen], at: str, turn: int) -> list[Call]:
    """The answered calls of messages, the first of which was said in `turn`."""
    return [{**record, "place": at} for record in tool_records(map(message_of, messages), turn)]


def _joined(at: str, place: str) -> str:
    return f"{at}/{place}" if at and place else at or place


def usage_in(frame: Level) -> list[int]:
    """The tokens of prompts and of answers that a frame and those below it have used."""
    state: Any = frame.state
    used = [state["below"]["usage"]] if "below" in state else []
    if "active" in state:
        used += [member["usage"] for member in state["members"].values()]
    elif "turn" in state:
        used.append(state["data"]["usage"])
    return summed(*used, *map(usage_in, frame.children))


def summed(*usages: list[int]) -> list[int]:
    """Several usages as one."""
    return [sum(each) for each in zip([0, 0], *usages, strict=True)]


def wasted_in(frame: Level) -> int:
    """The tokens that repetitions have cost in a frame and below it."""
    again: Any = frame.state.get("again", {})
    return int(again.get("wasted", 0)) + sum(map(wasted_in, frame.children))


def with_below(state: dict[str, Frozen], ended: State, place: str) -> dict[str, Frozen]:
    """The state of a frame after one below it, at `place`, has ended: what that has spent and called is kept."""
    child = Ended(ended)
    usage, calls, wasted = usage_in(child), calls_in(child, place), wasted_in(child)
    if any(usage) or calls:
        before: Any = state.get("below", {"usage": [0, 0], "calls": []})
        kept: Any = freeze(calls, "calls")
        used: Any = summed(before["usage"], usage)
        state = {**state, "below": {"usage": used, "calls": [*before["calls"], *kept]}}
    if wasted:
        again: Any = state.get("again", {})
        state = {**state, "again": {**again, "wasted": again.get("wasted", 0) + wasted}}
    return state
