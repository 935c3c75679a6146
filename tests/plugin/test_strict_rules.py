"""Each rule of the strict providers: what is valid is answered, and what breaks just that rule is refused in place."""

from __future__ import annotations

import json
from copy import deepcopy
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}}
GONE = object()
"""In place of a value: the key is taken out."""


def chat_call(known):
    return {"id": known, "type": "function", "function": {"name": "add", "arguments": "{}"}}


def chat_tool(name):
    return {"type": "function", "function": {"name": name, "description": "", "parameters": OBJECT}}


CHAT = {
    "model": "any",
    "messages": [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [chat_call("c1"), chat_call("c2")]},
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
        {"role": "tool", "tool_call_id": "c2", "content": "2"},
        {"role": "assistant", "content": "Well."},
        {"role": "user", "content": "more"},
    ],
    "tools": [chat_tool("add"), chat_tool("pay")],
    "tool_choice": "auto",
    "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": OBJECT}},
}
CALL = ("messages", 2, "tool_calls")
CHAT_RULES = [
    ("body.model: field required", {("model",): GONE}),
    ("body.messages: field required", {("messages",): GONE}),
    ("body.extra: extra", {("extra",): 1}),
    ("messages: at least one", {("messages",): []}),
    ("messages: at least one", {("messages",): "hi"}),
    ("stream_options: only", {("stream_options",): {"include_usage": True}}),
    ("messages[1].role: 'robot'", {("messages", 1, "role"): "robot"}),
    ("messages[1].role", {("messages", 1): "hi"}),
    ("messages[1].status: extra", {("messages", 1, "status"): "ok"}),
    ("messages[1].content", {("messages", 1, "content"): GONE}),
    ("messages[1].content", {("messages", 1, "content"): {"a": 1}}),
    ("messages[1].tool_calls: extra", {("messages", 1, "tool_calls"): [chat_call("c1")]}),
    ("messages[5].content", {("messages", 5, "content"): None}),
    ("messages[5].tool_calls: at least one", {("messages", 5, "tool_calls"): []}),
    ("messages[3].tool_call_id: field required", {("messages", 3, "tool_call_id"): GONE}),
    ("messages[3].content", {("messages", 3, "content"): None}),
    ("messages[2].tool_calls.id: field required", {(*CALL, 0, "id"): GONE}),
    ("messages[2].tool_calls.type: field required", {(*CALL, 0, "type"): GONE}),
    ("messages[2].tool_calls.function: field required", {(*CALL, 0, "function"): GONE}),
    ("messages[2].tool_calls.function.name: field required", {(*CALL, 0, "function", "name"): GONE}),
    ("messages[2].tool_calls.function.extra: extra", {(*CALL, 0, "function", "extra"): 1}),
    ("messages[2].tool_calls.type", {(*CALL, 0, "type"): "custom"}),
    (
        "messages[2].tool_calls.id: 'xxxxx",
        {(*CALL, 0, "id"): "x" * 41, ("messages", 3, "tool_call_id"): "x" * 41},
    ),
    ("messages[2].tool_calls.name: 'a b'", {(*CALL, 0, "function", "name"): "a b"}),
    ("messages[2].tool_calls.name: 'xxxxx", {(*CALL, 0, "function", "name"): "x" * 65}),
    ("messages[2].tool_calls.arguments: a string", {(*CALL, 0, "function", "arguments"): {}}),
    ("messages[2].tool_calls: ids must be unique", {(*CALL, 1, "id"): "c1", ("messages", 4): GONE}),
    ("messages[2]: these calls have no answer right behind them: c2", {("messages", 4): GONE}),
    ("messages[2]: these answers have no call right before them: c2", {(*CALL, 1): GONE}),
    ("messages[2]: a call is answered twice", {(*CALL, 1): GONE, ("messages", 4, "tool_call_id"): "c1"}),
    (
        "messages[2]: the answers are not in the order",
        {("messages", 3, "tool_call_id"): "c2", ("messages", 4, "tool_call_id"): "c1"},
    ),
    ("tool_choice: only", {("tools",): GONE}),
    ("tools: at least one", {("tools",): []}),
    ("tools.type", {("tools", 0, "type"): "custom"}),
    ("tools: at least one", {("tools", 0): "add"}),
    ("tools.function: an object", {("tools", 0, "function"): GONE}),
    ("tools.function.name: field required", {("tools", 0, "function", "name"): GONE}),
    ("tools.function.extra: extra", {("tools", 0, "function", "extra"): 1}),
    ("tools.add.parameters: must be", {("tools", 0, "function", "parameters"): {"type": "array"}}),
    ("tools.name: 'a.b'", {("tools", 0, "function", "name"): "a.b"}),
    ("tools.name: names must be unique", {("tools", 1, "function", "name"): "add"}),
    ("response_format: must be an object", {("response_format",): "json"}),
    ("response_format: must be an object", {("response_format",): 0}),
    ("response_format.json_schema: must be an object", {("response_format", "json_schema"): ["x"]}),
    ("response_format.json_schema.name: field", {("response_format", "json_schema"): GONE}),
    ("response_format.json_schema.name: field", {("response_format", "json_schema", "name"): GONE}),
    ("response_format.json_schema.schema: must", {("response_format", "json_schema", "schema"): {"type": "array"}}),
]

RESPONSES = {
    "model": "any",
    "input": [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "hi"},
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "add", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "1"},
        {"type": "function_call_output", "call_id": "c2", "output": "2"},
        {"role": "user", "content": "more"},
    ],
    "tools": [{"type": "function", "name": name, "parameters": OBJECT, "strict": False} for name in ("add", "pay")],
    "tool_choice": "auto",
    "text": {"format": {"type": "json_schema", "name": "answer", "schema": OBJECT, "strict": False}},
    "store": False,
}
RESPONSES_RULES = [
    ("body.model: field required", {("model",): GONE}),
    ("body.input: field required", {("input",): GONE}),
    ("body.messages: extra", {("messages",): []}),
    ("input: at least one", {("input",): []}),
    ("input[1]: an object", {("input", 1): "hi"}),
    ("input[1].type: 'robot' is unknown", {("input", 1, "type"): "robot"}),
    ("input[1].role: field required", {("input", 1, "role"): GONE}),
    ("input[1].role: 'tool'", {("input", 1, "role"): "tool"}),
    ("input[1].content: field required", {("input", 1, "content"): None}),
    ("input[1].status: extra", {("input", 1, "status"): "ok"}),
    ("input[2].call_id: field required", {("input", 2, "call_id"): GONE}),
    ("input[2].name: field required", {("input", 2, "name"): GONE}),
    ("input[2].extra: extra", {("input", 2, "extra"): 1}),
    ("input[2].id: 'xxxxx", {("input", 2, "call_id"): "x" * 65}),
    ("input[2].name: 'a b'", {("input", 2, "name"): "a b"}),
    ("input[2].arguments: a string", {("input", 2, "arguments"): {}}),
    ("input[4].call_id: field required", {("input", 4, "call_id"): GONE}),
    ("input[4].output: field required", {("input", 4, "output"): GONE}),
    ("input[4].extra: extra", {("input", 4, "extra"): 1}),
    ("input[5]: these calls have no answer right behind them: c2", {("input", 5): GONE}),
    ("input[4]: these calls have no answer right behind them: c1, c2", {("input", 4): GONE, ("input", 5): GONE}),
    ("input: these calls have no answer right behind them: c2", {("input", 5): GONE, ("input", 6): GONE}),
    ("input[5]: these answers have no call right before them: c2", {("input", 3): GONE}),
    ("input[5]: a call is answered twice", {("input", 3): GONE, ("input", 5, "call_id"): "c1"}),
    ("input[6]: the answers are not in the order", {("input", 4, "call_id"): "c2", ("input", 5, "call_id"): "c1"}),
    ("tool_choice: only", {("tools",): GONE}),
    ("tools: at least one", {("tools",): []}),
    ("tools.type", {("tools", 0, "type"): "custom"}),
    ("tools.type", {("tools", 0): "add"}),
    ("tools.function.name: field required", {("tools", 0, "name"): GONE}),
    ("tools.function.function: extra", {("tools", 0, "function"): {}}),
    ("tools.add.parameters: must be", {("tools", 0, "parameters"): {"type": "array"}}),
    ("tools.name: 'a.b'", {("tools", 0, "name"): "a.b"}),
    ("tools.name: names must be unique", {("tools", 1, "name"): "add"}),
    ("text: must be an object", {("text",): "json"}),
    ("text: must be an object", {("text",): []}),
    ("text.format: must be an object", {("text", "format"): "json"}),
    ("text.format.name: field required", {("text", "format", "name"): GONE}),
    ("text.format.schema: must be", {("text", "format", "schema"): {"type": "array"}}),
]


def used(known):
    return {"type": "tool_use", "id": known, "name": "add", "input": {}}


def result(known):
    return {"type": "tool_result", "tool_use_id": known, "content": "1"}


MESSAGES = {
    "model": "any",
    "max_tokens": 9,
    "system": "Be kind.",
    "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "text", "text": "Well."}, used("c1"), used("c2")]},
        {"role": "user", "content": [result("c1"), result("c2"), {"type": "text", "text": "Go on."}]},
        {"role": "assistant", "content": [used("c3")]},
        {"role": "user", "content": [result("c3")]},
    ],
    "tools": [{"name": name, "description": "", "input_schema": OBJECT} for name in ("add", "pay")],
    "tool_choice": {"type": "auto"},
    "output_config": {"format": {"type": "json_schema", "schema": {**OBJECT, "additionalProperties": False}}},
}
SAID, ANSWERED = ("messages", 1, "content"), ("messages", 2, "content")
SCHEMA = ("output_config", "format", "schema")
MESSAGES_RULES = [
    ("body.model: field required", {("model",): GONE}),
    ("body.messages: field required", {("messages",): GONE}),
    ("body.max_tokens: field required", {("max_tokens",): GONE}),
    ("body.extra: extra", {("extra",): 1}),
    ("max_tokens: must be", {("max_tokens",): 0}),
    ("max_tokens: must be", {("max_tokens",): "9"}),
    ("messages: at least one", {("messages",): []}),
    ("system: text content", {("system",): " "}),
    ("messages.0: an object", {("messages", 0): "hi"}),
    ("messages.0.role: field required", {("messages", 0, "role"): GONE}),
    ("messages.0.name: extra", {("messages", 0, "name"): "ada"}),
    ("messages.0.role: roles must alternate", {("messages", 0): GONE}),
    ("messages.0.role: roles must alternate", {("messages", 0, "role"): "system"}),
    ("messages.1.role: roles must alternate", {("messages", 1, "role"): "user"}),
    ("messages.0: all messages must have", {("messages", 0, "content"): GONE}),
    ("messages.0: all messages must have", {("messages", 0, "content"): []}),
    ("messages.0.content.0: text content blocks", {("messages", 0, "content"): ""}),
    ("messages.1.content.0: an object", {(*SAID, 0): "Well."}),
    ("messages.1.content.0: text content blocks", {(*SAID, 0, "text"): " \n"}),
    ("messages.1.content.0.extra: extra", {(*SAID, 0, "extra"): 1}),
    ("messages.1.content.0: 'image' blocks", {(*SAID, 0, "type"): "image"}),
    ("messages.1.content.0: 'tool_result' blocks can not be in assistant", {(*SAID, 0): result("c1")}),
    ("messages.2.content.2: 'tool_use' blocks can not be in user", {(*ANSWERED, 2): used("c4")}),
    ("messages.1.content.1.id: field required", {(*SAID, 1, "id"): GONE}),
    ("messages.1.content.1.name: field required", {(*SAID, 1, "name"): GONE}),
    ("messages.1.content.1.input: field required", {(*SAID, 1, "input"): GONE}),
    ("messages.1.content.1.extra: extra", {(*SAID, 1, "extra"): 1}),
    ("messages.1.content.1.id: 'c 1'", {(*SAID, 1, "id"): "c 1"}),
    ("messages.1.content.1.name: 'a.b'", {(*SAID, 1, "name"): "a.b"}),
    ("messages.1.content.1.input: input should be", {(*SAID, 1, "input"): "{}"}),
    ("messages.1: `tool_use` ids must be unique", {(*SAID, 2, "id"): "c1"}),
    (
        "messages.3: `tool_use` ids must be unique",
        {("messages", 3, "content", 0, "id"): "c1", ("messages", 4, "content", 0, "tool_use_id"): "c1"},
    ),
    ("messages.2.content.0.tool_use_id: field required", {(*ANSWERED, 0, "tool_use_id"): GONE}),
    ("messages.2.content.0.extra: extra", {(*ANSWERED, 0, "extra"): 1}),
    (
        "messages.2.content.1: tool_result blocks must come first",
        {(*ANSWERED, 0): {"type": "text", "text": "Go on."}},
    ),
    ("messages.2: these calls have no answer right behind them: c2", {(*ANSWERED, 1): GONE}),
    ("messages.2: these answers have no call right before them: c2", {(*SAID, 2): GONE}),
    ("messages.2: a call is answered twice", {(*SAID, 2): GONE, (*ANSWERED, 1, "tool_use_id"): "c1"}),
    (
        "messages.2: the answers are not in the order",
        {(*ANSWERED, 0, "tool_use_id"): "c2", (*ANSWERED, 1, "tool_use_id"): "c1"},
    ),
    ("messages: the conversation must end", {("messages", 4): GONE}),
    ("tools: requests with tool_use", {("tools",): GONE, ("tool_choice",): GONE}),
    (
        "tool_choice: may only be",
        {("messages",): [{"role": "user", "content": "hi"}], ("tools",): GONE},
    ),
    ("tools: an object", {("tools", 0): "add"}),
    ("tools.name: field required", {("tools", 0, "name"): GONE}),
    ("tools.input_schema: field required", {("tools", 0, "input_schema"): GONE}),
    ("tools.parameters: extra", {("tools", 0, "parameters"): OBJECT}),
    ("tools.add.input_schema: must be", {("tools", 0, "input_schema"): {"type": "array"}}),
    ("tools: 'a.b' does not match", {("tools", 0, "name"): "a.b"}),
    ("tools: names must be unique", {("tools", 1, "name"): "add"}),
    ("output_config: must be an object", {("output_config",): "json"}),
    ("output_config: must be an object", {("output_config",): []}),
    ("output_config.format: must be an object", {("output_config", "format"): "json"}),
    ("output_config.format.schema: must be", {SCHEMA: {"type": "array"}}),
    ("output_config.format.schema: for 'object'", {(*SCHEMA, "additionalProperties"): GONE}),
    ("output_config.format.schema: for 'object'", {(*SCHEMA, "properties", "a"): {"anyOf": [OBJECT]}}),
]

APIS = {
    "chat": ("/v1/chat/completions", CHAT, CHAT_RULES),
    "responses": ("/v1/responses", RESPONSES, RESPONSES_RULES),
    "messages": ("/v1/messages", MESSAGES, MESSAGES_RULES),
}


def broken(valid, changes):
    """A request with the changes, each given by its place."""
    found = deepcopy(valid)
    taken_out = []
    for path, value in changes.items():
        inside = found
        for key in path[:-1]:
            inside = inside[key]
        if value is GONE:
            taken_out.append((inside, path[-1]))
        else:
            inside[path[-1]] = deepcopy(value)
    for inside, key in reversed(taken_out):
        inside.pop(key, None) if isinstance(inside, dict) else inside.pop(key)
    return found


@pytest.fixture
def post(request):
    """Send a body, as data or as it is, to an interface; returns status and answer."""

    def posted(api, body, *, without=None, path=None):
        provider = request.getfixturevalue("strict_anthropic" if api == "messages" else "strict_openai")
        root = provider.base_url.removesuffix("/v1")
        headers = {"content-type": "application/json", "authorization": "Bearer key"}
        if api == "messages":
            headers = {"content-type": "application/json", "x-api-key": "key", "anthropic-version": "2023-06-01"}
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {key: value for key, value in headers.items() if key != without}
        asked = Request(root + (path or APIS[api][0]), sent, headers, method="POST")
        try:
            with urlopen(asked, timeout=10) as answer:
                found = answer.status, json.load(answer)
        except HTTPError as error:
            with error:
                found = error.code, json.load(error)
        refused = [each.refused for each in provider.refused]
        assert refused == ([] if found[0] == 200 else [found[1]["error"]["message"]])
        return found

    return posted


def is_error_of(api, answer, kind):
    """Whether this has the shape of the provider's errors."""
    if api == "messages":
        return (answer["type"], answer["error"]["type"], {*answer}) == ("error", kind, {"type", "error", "request_id"})
    return ({*answer}, {*answer["error"]}, answer["error"]["type"]) == (
        {"error"},
        {"message", "type", "param", "code"},
        kind,
    )


@pytest.mark.parametrize("api", APIS)
def test_a_valid_request_is_answered(post, api):
    assert post(api, APIS[api][1])[0] == 200


def test_a_text_alone_is_an_input(post):
    assert post("responses", {"model": "any", "input": "hi"})[0] == 200


@pytest.mark.parametrize(
    ("api", "message", "changes"), [(api, *rule) for api, (_, _, rules) in APIS.items() for rule in rules]
)
def test_a_request_that_breaks_one_rule_is_refused_with_its_place(post, api, message, changes):
    status, answer = post(api, broken(APIS[api][1], changes))
    assert (status, is_error_of(api, answer, "invalid_request_error")) == (400, True)
    assert answer["error"]["message"].startswith(message)


@pytest.mark.parametrize(
    ("api", "header", "kind", "message"),
    [
        ("chat", "authorization", "invalid_request_error", "API key"),
        ("responses", "authorization", "invalid_request_error", "API key"),
        ("messages", "x-api-key", "authentication_error", "x-api-key"),
    ],
)
def test_a_request_without_a_key_is_refused(post, api, header, kind, message):
    status, answer = post(api, APIS[api][1], without=header)
    assert (status, is_error_of(api, answer, kind)) == (401, True)
    assert message in answer["error"]["message"]


def test_a_request_without_a_version_is_refused(post):
    status, answer = post("messages", MESSAGES, without="anthropic-version")
    assert (status, answer["error"]["message"]) == (400, "anthropic-version: header is required")


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("body", [b"{", b"[]", b""])
def test_a_body_that_is_no_object_is_refused(post, api, body):
    status, answer = post(api, body)
    assert (status, answer["error"]["message"]) == (400, "body: an object is required")


@pytest.mark.parametrize("api", APIS)
def test_a_path_that_does_not_exist_is_refused(post, api):
    status, answer = post(api, APIS[api][1], path="/v1/completions")
    assert (status, answer["error"]["message"]) == (400, "no such path: /v1/completions")
