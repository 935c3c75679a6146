"""Driving the engine's generators by hand, and making the records that it works on."""

from __future__ import annotations

from itertools import pairwise

from fastdur import Chain, Resume
from fastdur._effects import Reading
from fastdur._steps import Done
from fastdur.records import Checkpoint, Execution, Frame, Question, frozen_answer

RUN = "r"
YES = Resume(approved=True, metadata={"by": "ada"})
NO = Resume(approved=False)


def play(steps, *turns):
    """Drive `steps` through exactly these turns, pairs of the name of the effect that must come and its answer.

    An answer that is an exception is thrown, one that is a function is called with the effect. Returns what the steps
    return and the effects, in order.
    """
    seen = []
    try:
        effect = next(steps)
        for name, answer in turns:
            assert effect.name == name
            seen.append(effect)
            if isinstance(answer, BaseException):
                effect = steps.throw(answer)
            else:
                effect = steps.send(answer(effect) if callable(answer) else answer)
    except StopIteration as stop:
        assert len(seen) == len(turns), f"ended before {turns[len(seen) :]}"
        return stop.value, seen
    raise AssertionError(f"went on with {effect.name}")


def chain(*nodes, name="c", edges=None):
    """A valid chain of these nodes, one after another or along `edges`; a pair is an id and a function or runner."""
    made = Chain(name, checkpointer=False)
    ids = []
    for node in nodes:
        id, fn = node if isinstance(node, tuple) else (node, lambda state: None)
        made.add_node(id, fn)
        ids.append(id)
    for edge in pairwise(ids) if edges is None else edges:
        made.connect(*edge)
    made.validate()
    return made


def done(**changed):
    """A function of the user's that returned `changed`."""
    return lambda effect: Done({**effect.call.data, **changed}, tuple(changed), list(changed))


def frame(data=None, place="", visit=0, questions=(), children=(), **state):
    return Frame(place, visit, {"data": data or {}, **state}, tuple(questions), tuple(children))


def question(interrupt_id="a#1/1", reason="ok?", context=None, answer=None):
    return Question(interrupt_id, reason, context, None if answer is None else frozen_answer(answer))


def head(status="running", seq=1, **fields):
    known = {
        "run": 1, "runner": "c", "kind": "chain", "epoch": 1, "token": None, "owner": None, "lease_live": False,
        "graph": None, "input": {}, **fields,
    }  # fmt: skip
    return Execution(RUN, status=status, seq=seq, **known)


def row(frames, seq=1, node_id="a", step_type="node", status="completed", **extra):
    return Checkpoint(RUN, seq, f"1-{seq}-x", node_id, 0, step_type, status, frames, "chain:c", extra)


def kept(effect):
    """The row of an `Append`, as a store gives it back."""
    of = effect.row
    return row(of.frames, 1, of.node_id, of.step_type, of.status, **of.extra)


def reading(frames=None, status="running", *, alive=False, last=None, **fields):
    """How a run stands whose newest row has these frames; without frames it has no row."""
    last = row(frames) if frames is not None and last is None else last
    return Reading(head(status, 0 if last is None else last.seq, **fields), last, alive)
