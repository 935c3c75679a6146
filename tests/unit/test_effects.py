"""The effects: what their boundaries are called, and that each is answered where it is yielded."""

import pytest

from fastdur._effects import (
    Answer,
    Append,
    AwaitEffect,
    BeginEffect,
    Cancel,
    Decide,
    Effect,
    EndEffect,
    History,
    Invoke,
    Look,
    Release,
    Row,
    RunEffect,
    Start,
    Take,
)
from fastdur._steps import Call
from fastdur.records import EffectRecord
from tests.unit.by_hand import frame, head, question

ROW = Row("team/review", 1, "node", "completed", frame(), "")
RECORD = EffectRecord("k", "shop.pay.charge", "digest", "started", "a1", "review#1")


def call(kind):
    return Call(kind, "review", 1, 0, print, {})


@pytest.mark.parametrize(
    ("effect", "name"),
    [
        (Look("r"), "look"),
        (History("r"), "history"),
        (Start("r", "c", "chain", None, {}), "start"),
        (Take(head(), None, None, frame()), "claim"),
        (Answer(head(), "q", ROW, None), "claim interrupt team/review"),
        (Decide(head(), "q", ROW, "running"), "decide team/review"),
        (Cancel(head(), ROW), "cancel"),
        (Append(ROW, "running"), "append team/review"),
        (Append(ROW, "paused", question()), "pause team/review"),
        (Invoke(call("node"), "team/review", "team#1/review#1", (), 0), "node team/review"),
        (Invoke(call("route"), "review", "review#1", (), 0), "route review"),
        (Invoke(call("input"), "review", "review#1", (), 0), "input review"),
        (Release(), "release"),
        (BeginEffect(RECORD, "review"), "effect begin charge@review"),
        (RunEffect(RECORD, "review", print, (), {}), "effect charge@review"),
        (EndEffect(RECORD, "review"), "effect end charge@review"),
        (AwaitEffect("k", "charge@review"), "effect wait charge@review"),
    ],
)
def test_a_boundary_is_named_after_its_effect(effect, name):
    assert effect.name == name


def test_an_effect_has_a_name():
    with pytest.raises(TypeError, match="abstract"):
        Effect()


def test_an_effect_yields_itself_once_and_gives_back_the_answer():
    effect = Look("r")
    steps = iter(effect)
    assert next(steps) is effect
    with pytest.raises(StopIteration) as answered:
        steps.send("reading")
    assert answered.value.value == "reading"
