"""Messages, and the models of tests."""

from __future__ import annotations

import asyncio

import pytest

from fastdur import FunctionModel, LLMRequest, LLMResponse, Message, NodeResultError, TestModel, ToolCall, Usage
from fastdur._codec import freeze
from fastdur.llm.messages import Conversation, conversation_of, frozen_message, message_of, prompt_of, tool_records

MESSAGES = [
    Message("system", "s"),
    Message("user", "hi \ud83d\ude00"),
    Message("assistant", "", (ToolCall("1", "charge", {"$": [1], "n": None}), ToolCall("2", "x"))),
    Message("tool", "5", tool_call_id="1", name="charge", status="ok"),
]


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_comes_back_as_it_was_stored(message):
    assert message_of(frozen_message(message)) == message


def test_a_conversation_is_a_sequence_that_makes_its_messages_when_asked():
    talk = Conversation(MESSAGES[:2], [frozen_message(each) for each in MESSAGES[2:]])
    assert list(talk) == MESSAGES
    assert (len(talk), talk[-1], talk[1:3]) == (4, MESSAGES[3], MESSAGES[1:3])
    with pytest.raises(IndexError):
        talk[4]
    assert MESSAGES[2] in talk


def test_an_input_that_is_no_text_is_read_as_json_or_refused():
    assert prompt_of({"a": [1]}).content == '{"a":[1]}'
    assert prompt_of("$").content == "$"
    for value in (b"x", {"a": b"x"}):
        with pytest.raises(NodeResultError, match="no model can read"):
            prompt_of(freeze(value, "input"))


def test_an_answer_without_a_question_is_recorded_as_one():
    alone = Message("tool", "5", tool_call_id="9", status="error")
    assert tool_records([alone]) == [{"tool_call_id": "9", "output": "5", "status": "error"}]
    assert conversation_of({}) == []


def test_a_test_model_says_what_is_due_in_each_turn():
    call = ToolCall("1", "x")
    model = TestModel([call, [call, call], LLMResponse("r"), "last"], usage=Usage(1, 2))
    said = [model.complete(LLMRequest((), turn=turn)) for turn in range(6)]
    assert [len(each.tool_calls) for each in said] == [1, 2, 0, 0, 0, 0]
    assert [each.content for each in said][2:] == ["r", "last", "last", "last"]
    assert [each.usage.total_tokens for each in said][:3] == [3, 3, 0]
    assert [each.turn for each in model.calls] == list(range(6))


def test_a_function_model_is_sync_or_async():
    async def later(messages):
        return str(len(messages))

    request = LLMRequest(MESSAGES)
    assert FunctionModel(lambda messages: str(len(messages))).complete(request).content == "4"
    model = FunctionModel(later)
    assert asyncio.run(model.complete(request)).content == "4"
    assert model.calls == [request]


@pytest.mark.parametrize("said", [None, 5, [[]], [5]])
def test_a_script_that_says_nothing_a_model_can_say_is_refused(said):
    with pytest.raises(TypeError, match="a model answers with"):
        TestModel([said]).complete(LLMRequest(()))


def test_an_empty_script_is_refused():
    with pytest.raises(ValueError, match="nothing to say"):
        TestModel([])
