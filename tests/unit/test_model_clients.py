"""Models over the official SDKs, against servers as strict as the real ones."""

from __future__ import annotations

import asyncio
import sys
from contextlib import closing
from dataclasses import dataclass

import pytest

from fastdur import (
    Agent,
    AnthropicClient,
    AsyncAnthropicClient,
    AsyncOpenAIClient,
    GraphError,
    LLMError,
    LLMRequest,
    LLMResponse,
    Message,
    OpenAIClient,
    Resume,
    SQLiteCheckpointer,
    ToolCall,
    ToolSpec,
    Usage,
    tool,
)
from fastdur.llm import _anthropic_wire, _openai_wire, _sdk, _wire

WAYS = ("chat", "responses", "anthropic")
ASKED = [Message("system", "Be kind."), Message("user", "hi")]


@pytest.fixture(params=WAYS)
def provider(request, strict_openai, strict_anthropic):
    """A strict provider, and how its clients are made."""
    found = strict_anthropic if request.param == "anthropic" else strict_openai
    api = {} if request.param == "anthropic" else {"api": request.param}
    kinds = (
        (AnthropicClient, AsyncAnthropicClient) if request.param == "anthropic" else (OpenAIClient, AsyncOpenAIClient)
    )

    def made(*, is_async=False, **options):
        return kinds[is_async]("any", **found.client, **api, **options)

    found.made, found.way = made, request.param
    return found


def asked(provider, request, *, is_async=False, **options):
    """One answer to one request."""
    if not is_async:
        with closing(provider.made(**options)) as model:
            return model.complete(request)

    async def once():
        model = provider.made(is_async=True, **options)
        try:
            return await model.complete(request)
        finally:
            await model.aclose()

    return asyncio.run(once())


def listening(messages=ASKED, **options):
    said = []
    return LLMRequest(messages, on_text=said.append, **options), said


CALLS = [ToolCall("call_1", "add", {"a": 1}), ToolCall("call_2", "add", {"a": [{"b": "ü"}]})]
TOOLS = (ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {}}}),)


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_texts_calls_and_tokens_arrive_whole(provider, is_async, streams):
    said = []
    on_text = said.append if streams else None
    provider.script = [LLMResponse("Well, then.", tuple(CALLS), Usage(7, 3)), "Good morning."]
    response = asked(provider, LLMRequest(ASKED, TOOLS, on_text=on_text), is_async=is_async)
    assert response == LLMResponse("Well, then.", tuple(CALLS), Usage(7, 3))
    answers = [Message("tool", str(n), tool_call_id=f"call_{n}", status="ok") for n in (1, 2)]
    more = [*ASKED, Message("assistant", "Well, then.", tuple(CALLS)), *answers]
    response = asked(provider, LLMRequest(more, TOOLS, on_text=on_text), is_async=is_async)
    assert (response.content, response.usage) == ("Good morning.", Usage(10, 5))
    assert "".join(said) == ("Well, then.Good morning." if streams else "")
    assert (len(provider.requests), provider.refused) == (2, [])
    assert all(bool(each.body.get("stream")) is streams for each in provider.requests)


def test_what_models_make_up_is_sent_as_the_provider_takes_it(provider):
    long = "x" * 90
    odd = (ToolCall(long, "tool.with dots", "no json"), ToolCall("1", ""), ToolCall("2", "add", {"a": 1.5}))
    replies = [Message("tool", "", tool_call_id=call.id, status="error") for call in odd]
    again = (ToolCall("1", "add"),)
    messages = [
        Message("assistant", "I begin."),
        *ASKED,
        Message("user", " "),
        Message("assistant", "", odd),
        *replies,
        Message("assistant", "", again),
        Message("tool", "2", tool_call_id="1", status="ok"),
        Message("assistant", "done"),
        Message("user", "more"),
    ]
    assert asked(provider, LLMRequest(messages)).content == "ok"
    assert asked(provider, LLMRequest(messages, TOOLS)).content == "ok"
    assert provider.refused == []


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("streams", [False, True])
def test_arguments_that_are_no_json_are_those_that_the_model_wrote(strict_openai, api, streams):
    call = ToolCall("call_1", "add", "{a: 1")
    strict_openai.script = [call]
    request = LLMRequest(ASKED, TOOLS, on_text=[].append if streams else None)
    with closing(OpenAIClient("any", api=api, **strict_openai.client)) as model:
        assert model.complete(request).tool_calls == (call,)


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_an_agent_goes_on_after_arguments_that_are_no_json(strict_openai, api):
    calls = []

    @tool
    def add(a: int) -> int:
        calls.append(a)
        return a

    strict_openai.script = [ToolCall("call_1", "add", "{a: 1"), ToolCall("call_2", "add", {"a": 2}), "done"]
    with closing(OpenAIClient("any", api=api, **strict_openai.client)) as model:
        done = Agent("a", model, [add], checkpointer=SQLiteCheckpointer(":memory:")).run("go", "r-1")
    assert [each["status"] for each in done.tool_calls] == ["error", "ok"]
    assert (done.output, calls, strict_openai.refused) == ("done", [2], [])


@dataclass
class Part:
    name: str


@pytest.mark.parametrize("structured", ["native", "prompt"])
@pytest.mark.parametrize(
    ("kind", "said", "value"),
    [
        (Part, '{"name": "a"}', Part("a")),
        (list[Part], '[{"name": "a"}]', [Part("a")]),
        (dict[str, int], '{"b": 1}', {"b": 1}),
    ],
)
def test_typed_answers_of_any_type_are_asked_for_and_read(provider, structured, kind, said, value):
    native = structured == "native" and not (provider.way == "anthropic" and kind == dict[str, int])
    wrapped = native and kind == list[Part]
    provider.script = [f'{{"value": {said}}}' if wrapped else f"```json\n{said}\n```"]
    with closing(provider.made(structured=structured)) as model:
        agent = Agent("typed", model, output_type=kind, checkpointer=SQLiteCheckpointer(":memory:"))
        assert agent.run("Which?", "t-1").output == value
    body = provider.requests[0].body
    assert any(key in body for key in ("response_format", "text", "output_config")) is native
    assert ("fits this JSON schema" in str(body)) is not native
    assert provider.refused == []


def test_an_answer_that_is_no_wrapped_value_is_left_to_the_check(provider):
    provider.script = ["[1]", '{"value": [1]}']
    with closing(provider.made()) as model:
        agent = Agent("typed", model, output_type=list[int], checkpointer=SQLiteCheckpointer(":memory:"))
        assert agent.run("Which?", "t-1").output == [1]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(("status", "retryable"), [(400, False), (404, False), (429, True), (500, True)])
def test_an_error_says_whether_it_may_pass(provider, is_async, status, retryable):
    provider.fail(status, message="because")
    with pytest.raises(LLMError, match="because") as error:
        asked(provider, LLMRequest(ASKED), is_async=is_async, max_retries=0)
    assert (error.value.status, error.value.retryable, error.value.retry_after) == (status, retryable, None)


def test_what_may_pass_is_tried_again_by_the_client(provider):
    provider.fail(503, times=2)
    assert asked(provider, LLMRequest(ASKED)).content == "ok"
    assert len(provider.requests) == 3


def test_a_provider_that_is_not_there_may_come_back(provider):
    request = LLMRequest(ASKED)
    kept = provider.made
    provider.__exit__()
    try:
        with pytest.raises(LLMError, match="did not answer") as error, closing(kept(max_retries=0)) as model:
            model.complete(request)
        assert (error.value.status, error.value.retryable) == (None, True)
    finally:
        provider.__exit__ = lambda *_: None


def test_a_run_that_the_provider_has_failed_is_resumed_at_that_turn(provider):
    calls = []

    @tool
    def add(a: int) -> int:
        calls.append(a)
        return a

    provider.script = [ToolCall("call_1", "add", {"a": 1}), "done"]
    with closing(provider.made(max_retries=0)) as model:
        agent = Agent("a", model, [add], checkpointer=SQLiteCheckpointer(":memory:"))
        provider.fail(500)
        with pytest.raises(LLMError):
            agent.run("go", "r-1")
        assert agent.resume("r-1").output == "done"
    assert (calls, provider.refused) == ([1], [])


def test_a_pause_in_one_of_several_calls_goes_on_with_requests_that_are_valid(provider):
    @tool(needs_approval=True)
    def pay(amount: int) -> str:
        return f"paid {amount}"

    @tool
    def add(a: int) -> int:
        return a

    script = [ToolCall("c1", "add", {"a": 1}), ToolCall("c2", "pay", {"amount": 5}), ToolCall("c3", "add", {"a": 2})]
    provider.script = [script, "done"]
    store = SQLiteCheckpointer(":memory:")
    with closing(provider.made()) as model:
        assert Agent("a", model, [add, pay], "Be.", checkpointer=store).run("go", "r-1").status == "paused"
    with closing(provider.made()) as model:
        done = Agent("a", model, [add, pay], "Be.", checkpointer=store).resume("r-1", Resume(approved=True))
    assert [each["status"] for each in done.tool_calls] == ["ok", "ok", "skipped"]
    assert (done.output, len(provider.requests), provider.refused) == ("done", 2, [])


def test_an_async_client_serves_one_loop_after_another(provider):
    model = provider.made(is_async=True)

    async def once(number):
        agent = Agent("a", model, checkpointer=SQLiteCheckpointer(":memory:"))
        done = await agent.arun("go", f"r-{number}")
        await model.aclose()
        return done.output

    assert [asyncio.run(once(number)) for number in (1, 2)] == ["ok", "ok"]
    asyncio.run(model.aclose())


def test_a_client_of_the_sdk_can_be_given(strict_openai):
    import openai

    with openai.OpenAI(**strict_openai.client) as sdk:
        model = OpenAIClient("any", client=sdk, temperature=0.5, max_tokens=9, options={"user": "ada"})
        assert model.complete(LLMRequest(ASKED)).content == "ok"
        model.close()
        assert not sdk.is_closed()
    body = strict_openai.requests[0].body
    assert (body["temperature"], body["max_completion_tokens"], body["user"]) == (0.5, 9, "ada")


def test_without_a_key_the_error_is_told(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(LLMError, match=r"cannot ask.*OPENAI_API_KEY"):
        OpenAIClient("any").complete(LLMRequest(ASKED))


@pytest.mark.parametrize(("kind", "package"), [(OpenAIClient, "openai"), (AnthropicClient, "anthropic")])
def test_without_the_sdk_the_error_says_what_to_install(monkeypatch, kind, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(LLMError, match=rf"pip install 'fastdur\[{package}\]'"):
        kind("any")


def test_an_sdk_that_misses_something_itself_says_so(monkeypatch):
    def broken(package):
        raise ModuleNotFoundError(package, name="jiter")

    monkeypatch.setattr(_sdk, "import_module", broken)
    with pytest.raises(ModuleNotFoundError) as error:
        OpenAIClient("any")
    assert error.value.name == "jiter"


def test_settings_that_do_not_exist_are_refused():
    with pytest.raises(GraphError, match="chat, responses"):
        OpenAIClient("any", api="completions", api_key="x")
    with pytest.raises(GraphError, match="'native' or 'prompt'"):
        AnthropicClient("any", structured="yes", api_key="x")


REQUEST = LLMRequest(ASKED)


@pytest.mark.parametrize(
    ("wire", "answer", "why"),
    [
        (_openai_wire.Chat({}, native=True), {"choices": []}, "no choices"),
        (_openai_wire.Chat({}, native=True), {"choices": [{"finish_reason": "length"}]}, "higher max_tokens"),
        (_openai_wire.Chat({}, native=True), {"choices": [{"finish_reason": "content_filter"}]}, "stopped by"),
        (
            _openai_wire.Responses({}, native=True),
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            "higher max_tokens",
        ),
        (_openai_wire.Responses({}, native=True), {"status": "failed", "error": {"code": "oops"}}, "oops"),
        (_anthropic_wire.Messages({}, None), {"stop_reason": "max_tokens"}, "higher max_tokens"),
        (_anthropic_wire.Messages({}, None), {"stop_reason": "refusal"}, "declines"),
    ],
)
def test_an_answer_that_is_not_whole_is_none(wire, answer, why):
    with pytest.raises(LLMError, match=why):
        wire.read(answer, REQUEST)


@pytest.mark.parametrize(
    "wire",
    [_openai_wire.Chat({}, native=True), _openai_wire.Responses({}, native=True), _anthropic_wire.Messages({}, None)],
)
def test_a_stream_that_ends_early_is_no_answer(wire):
    with pytest.raises(LLMError, match="ended early"):
        wire.collector().answer()


def test_streams_may_hold_what_is_no_text():
    collector = _anthropic_wire.MessageCollector()
    collector.take({"type": "content_block_start", "content_block": {"type": "thinking"}})
    delta = {"type": "thinking_delta", "thinking": "hm"}
    assert collector.take({"type": "content_block_delta", "index": 0, "delta": delta}) == ""


def test_an_id_that_a_conversation_repeats_is_made_new_and_its_answer_follows():
    call = Message("assistant", "", (ToolCall("1", "x"),))
    reply = Message("tool", "r", tool_call_id="1")
    found = _wire.presentable([call, reply, call, reply, call, reply])
    assert [each.tool_call_id for each in found if each.role == "tool"] == ["1", "1_2", "1_3"]


@pytest.mark.parametrize(("text", "seconds"), [(None, None), ("2", 2.0), ("0.5", 0.5), ("Wed, 21 Oct", None)])
def test_the_wait_that_a_provider_asks_for_is_told_in_seconds(text, seconds):
    assert _sdk._seconds(text) == seconds
