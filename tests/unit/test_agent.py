"""An agent: turns, tools, pauses, limits, typed answers; in one process, with models of tests."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from pydantic import BaseModel, field_validator

import fastdur
from fastdur import (
    Agent,
    AgentLimitError,
    AgentOutputError,
    AlreadyResumed,
    Chain,
    ChainResumeError,
    FunctionModel,
    GraphChanged,
    GraphError,
    InterruptSwallowed,
    LLMError,
    LLMResponse,
    Message,
    NodeIsAsync,
    NodeResultError,
    NotStorable,
    Resume,
    RunnerTool,
    TestModel,
    ToolCall,
    Usage,
    idempotent,
    interrupt,
    tool,
)
from fastdur.boundaries import Inject, observe
from fastdur.errors import SimulatedCrash
from tests.unit.running import turn

RUN = "r"
YES = Resume(approved=True)
NO = Resume(approved=False, metadata={"reason": "too much"})


class Ledger(list):
    """What was really done, and tools that do it."""

    def tools(self, **options):
        @tool(**options)
        def charge(amount: int) -> str:
            self.append(("charge", amount))
            return f"charged {amount}"

        @tool
        def note(text: str) -> dict[str, str]:
            self.append(("note", text))
            return {"noted": text}

        return [charge, note]


@pytest.fixture
def ledger():
    return Ledger()


def charging(*more):
    return TestModel([[ToolCall("c1", "charge", {"amount": 5}), *more], "done"], usage=Usage(10, 1))


def dying(store, at, *, when="before"):
    """Die at a boundary of this name, once."""
    struck = []

    def watch(boundary):
        if (boundary.when, boundary.name) == (when, at) and not struck:
            struck.append(at)
            raise SimulatedCrash(at)

    return observe(watch, store)


def crashed(agent, store, at, *, when="before", call=None):
    with dying(store, at, when=when), pytest.raises(SimulatedCrash):
        call() if call else agent.run("hi", RUN)


def rows(store, run=RUN):
    return [f"{row.node_id} {row.status}" if row.status != "completed" else row.node_id for row in store.list(run)]


def answered_once(messages):
    """Whether each tool call has exactly one answer, right behind its question, in order: what providers accept."""
    waiting = []
    for message in messages:
        if message.role == "tool":
            if not waiting or waiting.pop(0) != message.tool_call_id:
                return False
        elif waiting:
            return False
        waiting += [call.id for call in message.tool_calls]
    return not waiting


# -- turns ---------------------------------------------------------------------------------------------------------------


def test_a_run_is_a_row_before_each_question_and_each_tool_and_one_for_the_answer(store, go, ledger):
    agent = Agent("a", charging(), ledger.tools(), "Be brief.", checkpointer=store)
    result = go(agent.run, "hi", RUN)
    assert (result.status, result.output, result.tokens, result.wasted_tokens) == ("completed", "done", 22, 0)
    assert rows(store) == ["turn:0", "turn:0/tool:charge", "turn:1", "turn:2", "run_end"]
    kinds = [(row.step_type, row.agent_path, row.node_input) for row in store.list(RUN)]
    assert kinds[0] == ("llm_call", "agent:a", None)
    assert kinds[1] == ("tool_call", "agent:a/tool:charge", {"amount": 5})
    assert ledger == [("charge", 5)]
    assert result.messages == [
        Message("user", "hi"),
        Message("assistant", "", (ToolCall("c1", "charge", {"amount": 5}),)),
        Message("tool", "charged 5", tool_call_id="c1", name="charge", status="ok"),
        Message("assistant", "done"),
    ]
    assert result.tool_calls == [
        {
            "turn": 0,
            "name": "charge",
            "arguments": {"amount": 5},
            "tool_call_id": "c1",
            "output": "charged 5",
            "status": "ok",
            "place": "",
        }
    ]
    assert fastdur.result(RUN, store).messages == agent.result(RUN).messages == result.messages


def test_the_model_is_told_the_prompt_the_history_and_the_tools(store, ledger):
    model = charging()
    agent = Agent("a", model, ledger.tools(), "Be brief.", checkpointer=store)
    result = agent.run("hi", RUN, history=[Message("user", "before"), Message("assistant", "yes")])
    first, second = model.calls
    assert [(each.role, each.content) for each in first.messages] == [
        ("system", "Be brief."),
        ("user", "before"),
        ("assistant", "yes"),
        ("user", "hi"),
    ]
    assert [each.name for each in first.tools] == ["charge", "note"]
    assert second.messages[-1].content == "charged 5"
    assert first.output_schema is None
    assert [each.content for each in result.messages[:3]] == ["before", "yes", "hi"]


def test_without_a_store_it_runs_and_cannot_be_resumed(ledger):
    agent = Agent("a", charging(), ledger.tools(), checkpointer=False)
    assert agent.run("hi").output == "done"
    with pytest.raises(ChainResumeError):
        agent.resume(RUN)


def test_a_chain_has_no_messages(store):
    result = Chain("c", store).add_node("n", lambda state: {"usage": 1}).execute({"messages": []})
    assert (result.messages, result.tool_calls, result.tokens, result.wasted_tokens) == ([], [], 0, 0)


@pytest.mark.parametrize("given", [b"bytes", None, 7])
@pytest.mark.case("S36")
def test_an_input_that_is_no_text_is_refused_before_anything_is_stored(store, given):
    model = TestModel()
    with pytest.raises(TypeError, match="give a str"):
        Agent("a", model, checkpointer=store).run(given)
    assert (store.list_executions(), model.calls) == ([], [])


# -- tools ---------------------------------------------------------------------------------------------------------------


def test_what_a_model_calls_wrongly_is_told_to_it_and_nothing_is_called(store, ledger):
    wrong = [
        ToolCall("1", "missing", {}),
        ToolCall("2", "charge", {"amount": "much"}),
        ToolCall("3", "charge", "no object"),
        ToolCall("4", "charge", {"amount": 1, "more": 2}),
    ]
    agent = Agent("a", TestModel([wrong, "sorry"]), ledger.tools(), checkpointer=store)
    result = agent.run("hi", RUN)
    said = [each["output"] for each in result.tool_calls]
    assert said[0] == "There is no tool 'missing'; there are: charge, note."
    assert said[1].startswith("The arguments do not fit: amount: ")
    assert said[2] == "The arguments do not fit: the arguments are no JSON object. Nothing was called."
    assert "more: " in said[3]
    assert ledger == []
    assert rows(store) == ["turn:0", "turn:1", "turn:2", "run_end"]
    assert (
        Agent("b", TestModel([ToolCall("1", "x"), "ok"]), checkpointer=store)
        .run("hi")
        .tool_calls[0]["output"]
        .endswith("there is none.")
    )


def test_an_exception_of_a_tool_is_told_to_the_model_after_its_retries(store, go):
    tries = []

    @tool(retries=2)
    def shaky(reason: str):
        tries.append(reason)
        raise ValueError(reason)

    agent = Agent("a", TestModel([ToolCall("1", "shaky", {"reason": "no line"}), "sorry"]), [shaky], checkpointer=store)
    result = go(agent.run, "hi", RUN)
    assert tries == ["no line"] * 3
    assert result.tool_calls[0]["status"] == "error"
    assert result.tool_calls[0]["output"] == "Error: ValueError: no line"


def test_an_error_of_fastdur_is_no_text_for_the_model(store, go):
    @tool
    def careless():
        return object()

    @tool
    def raw():
        return {"body": [b"\x00"]}

    @tool
    def swallowing():
        try:
            interrupt("ok?")
        except BaseException:
            return "went on"

    for number, (each, error) in enumerate([
        (careless, NodeResultError),
        (raw, NodeResultError),
        (swallowing, InterruptSwallowed),
    ]):  # fmt: skip
        model = TestModel([ToolCall("1", each.name, {}), "done"])
        with pytest.raises(error):
            go(Agent("a", model, [each], checkpointer=store).run, "hi", f"r{number}")
        assert len(model.calls) == 1
        assert store.get_execution(f"r{number}").status == "failed"


def test_a_tool_that_runs_out_of_time_is_told_to_the_model(store, go):
    import threading

    over = threading.Event()

    @tool(timeout=0.01)
    def slow():
        over.wait(10)

    def let_go(boundary):
        if (boundary.when, boundary.name) == ("after", "tool turn:0/tool:slow"):
            over.set()

    model = FunctionModel(lambda messages: ToolCall("1", "slow") if len(messages) == 1 else "late")
    with observe(let_go, store):
        result = go(Agent("a", model, [slow], checkpointer=store).run, "hi", RUN)
    assert "timeout" in result.tool_calls[0]["output"]


def test_async_tools_and_models_are_awaited_and_a_sync_call_names_the_async_one(store):
    @tool(needs_approval=True)
    async def charge(amount: int) -> int:
        await turn()
        return amount

    async def say(messages):
        await turn()
        return ToolCall("1", "charge", {"amount": 5}) if len(messages) == 1 else messages[-1].content

    agent = Agent("a", FunctionModel(say), [charge], checkpointer=store, replay_model=True)
    with pytest.raises(NodeIsAsync, match="arun"):
        agent.run("hi", RUN)
    assert store.list_executions() == []
    assert asyncio.run(agent.arun("hi", RUN)).status == "paused"
    assert asyncio.run(agent.aresume(RUN, YES)).output == "5"


def test_a_sync_function_that_returns_something_to_await_is_awaited(store):
    async def later(amount):
        return amount

    @tool
    def charge(amount: int):
        return later(amount)

    agent = Agent("a", charging(), [charge], checkpointer=store)
    assert asyncio.run(agent.arun("hi", RUN)).tool_calls[0]["output"] == "5"


def test_effects_inside_tools_are_recorded_and_noted_in_the_next_row(store, go):
    done = []

    @idempotent(name="pay")
    def pay(amount):
        done.append(amount)
        return f"p{amount}"

    @tool
    def charge(amount: int) -> str:
        return pay(amount)

    agent = Agent(
        "a",
        TestModel([ToolCall("1", "charge", {"amount": 5}), ToolCall("2", "charge", {"amount": 5}), "done"]),
        [charge],
        checkpointer=store,
    )
    crashed(agent, store, "append turn:1")
    assert go(agent.resume, RUN).output == "done"
    assert done == [5]
    noted = [row.node_id for row in store.list(RUN) if "hits" in row.extra]
    assert noted == ["turn:2"]


# -- crashes -------------------------------------------------------------------------------------------------------------


def test_a_crash_at_a_turn_asks_the_model_again_with_the_saved_history(store, go, ledger):
    model = charging()
    agent = Agent("a", model, ledger.tools(), checkpointer=store)
    crashed(agent, store, "model turn:1", when="after")
    result = go(agent.resume, RUN)
    assert [len(each.messages) for each in model.calls] == [1, 3, 3]
    assert list(model.calls[1].messages) == list(model.calls[2].messages)
    assert ledger == [("charge", 5)]
    assert (result.tokens, result.wasted_tokens) == (22, 11)
    assert agent.result(RUN).wasted_tokens == 11
    assert rows(store) == ["turn:0", "turn:0/tool:charge", "turn:1", "turn:2", "run_end"]


def test_a_crash_at_a_tool_calls_it_again_with_the_saved_arguments_and_does_not_ask_the_model(store, go, ledger):
    model = charging(ToolCall("c2", "note", {"text": "x"}))
    agent = Agent("a", model, ledger.tools(), checkpointer=store)
    crashed(agent, store, "tool turn:0/tool:charge")
    assert len(model.calls) == 1
    model.calls.clear()
    result = go(agent.resume, RUN)
    assert [len(each.messages) for each in model.calls] == [4]
    assert ledger == [("charge", 5), ("note", "x")]
    assert result.wasted_tokens == 0


def test_with_replay_model_an_answer_that_was_given_is_not_asked_for_again(store, go, ledger):
    model = charging()
    agent = Agent("a", model, ledger.tools(), checkpointer=store, replay_model=True)
    crashed(agent, store, "append turn:0/tool:charge")
    result = go(agent.resume, RUN)
    assert len(model.calls) == 2
    assert (result.output, result.wasted_tokens) == ("done", 0)


def test_a_model_that_raises_fails_the_run_and_a_resume_asks_it_again(store, go, ledger):
    down = [OSError("down")]

    def say(messages):
        if down:
            raise down.pop()
        return "up"

    agent = Agent("a", FunctionModel(say), checkpointer=store)
    with pytest.raises(OSError, match="down"):
        go(agent.run, "hi", RUN)
    assert go(agent.resume, RUN).output == "up"
    assert rows(store) == ["turn:0", "run_end failed", "turn:1", "run_end"]
    with pytest.raises(AlreadyResumed):
        go(agent.resume, RUN)


@pytest.mark.parametrize("said", [None, 5, [], "", {"role": "user"}])
def test_a_model_that_gives_no_answer_fails_the_run(store, said):
    class Silent:
        def complete(self, request):
            return said

    with pytest.raises(NodeResultError, match="LLMResponse"):
        Agent("a", Silent(), checkpointer=store).run("hi")


def test_calls_without_an_id_of_their_own_are_given_one(store, ledger):
    calls = [
        ToolCall("", "note", {"text": "a"}),
        ToolCall("x", "note", {"text": "b"}),
        ToolCall("x", "note", {"text": "c"}),
    ]
    result = Agent("a", TestModel([calls, "done"]), ledger.tools(), checkpointer=store).run("hi", RUN)
    assert [each["tool_call_id"] for each in result.tool_calls] == ["call_0_0", "x", "call_0_2"]
    assert answered_once(result.messages)
    assert [row.node_id for row in store.list(RUN)][1:4] == [
        "turn:0/tool:note",
        "turn:0/tool:note#2",
        "turn:0/tool:note#3",
    ]


def test_arguments_that_cannot_be_stored_fail_the_run_with_their_name(store, ledger):
    model = TestModel([ToolCall("1", "note", {"text": object()}), "done"])
    with pytest.raises(NotStorable, match="arguments"):
        Agent("a", model, ledger.tools(), checkpointer=store).run("hi")


# -- pauses --------------------------------------------------------------------------------------------------------------


@pytest.mark.case("S20")
@pytest.mark.case("S21")
def test_a_tool_that_needs_approval_waits_for_it_and_a_refusal_is_told_to_the_model(store, go, ledger):
    agent = Agent("a", charging(), ledger.tools(needs_approval=True), checkpointer=store)
    result = go(agent.run, "hi", RUN)
    asked = result.pending_interrupt
    assert (asked.reason, asked.context) == ("approve_charge", {"tool": "charge", "arguments": {"amount": 5}})
    assert (asked.node_id, asked.agent_path) == ("turn:0/tool:charge", "agent:a/tool:charge")
    assert asked.interrupt_id == "turn:0#1/tool:charge#1/1"
    assert ledger == []
    with pytest.raises(ChainResumeError):
        go(agent.resume, RUN)
    with pytest.raises(ChainResumeError):
        go(agent.resume, RUN, Resume(approved=True, interrupt_id="turn:0#1/tool:note#1/1"))
    assert ledger == []
    result = go(agent.resume, RUN, NO)
    assert ledger == []
    assert result.tool_calls[0]["status"] == "refused"
    assert result.tool_calls[0]["output"] == "A human refused this call; it was not made. Reason: too much"
    assert result.output == "done"


def test_a_refusal_without_a_reason_is_told_as_one(store, ledger):
    agent = Agent("a", charging(), ledger.tools(needs_approval=True), checkpointer=store)
    agent.run("hi", RUN)
    result = agent.resume(RUN, Resume(approved=False, metadata=[1]))
    assert result.tool_calls[0]["output"] == "A human refused this call; it was not made."


@pytest.mark.case("S42")
@pytest.mark.parametrize("answer", [YES, NO])
def test_after_a_pause_the_other_calls_of_the_turn_are_answered_and_not_made(store, go, ledger, answer):
    model = TestModel([
        [ToolCall("1", "note", {"text": "a"}), ToolCall("2", "charge", {"amount": 5}), ToolCall("3", "note", {"text": "b"})],
        "done",
    ])  # fmt: skip
    agent = Agent("a", model, ledger.tools(needs_approval=True), checkpointer=store)
    go(agent.run, "hi", RUN)
    result = go(agent.resume, RUN, answer)
    assert ledger == [("note", "a"), *([("charge", 5)] if answer.approved else [])]
    assert [each["status"] for each in result.tool_calls] == ["ok", "ok" if answer.approved else "refused", "skipped"]
    assert all(answered_once(request.messages) for request in model.calls)


@pytest.mark.case("S42")
def test_so_it_is_after_a_fork_of_the_paused_run_and_after_a_crash_in_between(store, go, ledger):
    model = TestModel([[ToolCall("1", "charge", {"amount": 5}), ToolCall("2", "note", {"text": "b"})], "done"])
    agent = Agent("a", model, ledger.tools(needs_approval=True), checkpointer=store)
    go(agent.run, "hi", RUN)
    branch = go(agent.fork, RUN, new_execution_id="f")
    assert branch.status == "paused"
    with dying(store, "append turn:1"), pytest.raises(SimulatedCrash):
        agent.resume("f", YES)
    assert [each["status"] for each in go(agent.resume, "f").tool_calls] == ["ok", "skipped"]
    before_the_tool = next(row for row in store.list(RUN) if row.step_type == "tool_call")
    again = go(agent.fork, RUN, before_the_tool.checkpoint_id, new_execution_id="g")
    assert again.status == "paused"
    assert go(agent.resume, "g", NO).status == "completed"
    assert all(answered_once(request.messages) for request in model.calls)


def test_a_fork_with_another_input_asks_that(store):
    model = FunctionModel(lambda messages: messages[-1].content.upper())
    agent = Agent("a", model, checkpointer=store)
    agent.run("hi", RUN)
    first = store.list(RUN)[0].checkpoint_id
    assert agent.fork(RUN, first, input={"input": "ho"}).output == "HO"
    assert agent.fork(RUN, first, input="hey").output == "HEY"


CALLS = Message("assistant", "", (ToolCall("1", "note", {"text": "a"}), ToolCall("2", "note", {"text": "b"})))
ANSWERS = [Message("tool", text, tool_call_id=text, name="note", status="ok") for text in ("1", "2", "3")]


@pytest.mark.case("S42")
@pytest.mark.parametrize("kept", [[ANSWERS[0]], [*ANSWERS], ANSWERS[1::-1], [], [ANSWERS[2], ANSWERS[2]]])
def test_a_history_that_was_cut_has_one_answer_for_each_call_in_order(store, go, ledger, kept):
    model = TestModel("done")
    history = [ANSWERS[2], CALLS, *kept, Message("assistant", "so")]
    go(Agent("a", model, ledger.tools(), checkpointer=store).run, "hi", RUN, history=history)
    (asked,) = model.calls
    assert answered_once(asked.messages)
    roles = [message.role for message in asked.messages]
    assert roles == ["assistant", "tool", "tool", "assistant", "user"]
    given = {message.tool_call_id for message in kept}
    assert [message.status for message in asked.messages if message.role == "tool"] == [
        "ok" if number in given else "skipped" for number in "12"
    ]


@pytest.mark.case("S42")
@pytest.mark.parametrize("cut", [slice(0, 1), slice(1, None), slice(0, 0), slice(0, 3)])
def test_so_it_is_where_the_conversation_is_cut_when_the_run_is_resumed_or_forked(store, go, ledger, cut):
    turn = [ToolCall("1", "note", {"text": "a"}), ToolCall("2", "charge", {"amount": 5})]
    model = TestModel([turn, ToolCall("3", "charge", {"amount": 6}), "done"])
    agent = Agent("a", model, ledger.tools(needs_approval=True), checkpointer=store)
    go(agent.run, "hi", RUN)
    said = agent.result(RUN)
    assert said.status == "paused"
    messages = store.list(RUN)[-1].state_snapshot["messages"]
    branch = go(agent.fork, RUN, input={"messages": messages[cut]}, new_execution_id="f")
    assert branch.status == "paused"
    assert go(agent.resume, "f", YES).status == "paused"
    result = go(agent.resume, RUN, NO, modified_state={"messages": messages[cut]})
    assert result.status == "paused"
    messages = store.list(RUN)[-1].state_snapshot["messages"]
    assert go(agent.resume, RUN, NO, modified_state={"messages": messages[cut]}).status == "completed"
    assert all(answered_once(request.messages) for request in model.calls)


@pytest.mark.case("S51")
def test_a_tool_may_ask_several_questions_one_after_another(store, go):
    @tool
    def contract():
        return [interrupt("legal").metadata["by"], interrupt("finance").metadata["by"]]

    agent = Agent("a", TestModel([ToolCall("1", "contract"), "done"]), [contract], checkpointer=store)
    assert go(agent.run, "hi", RUN).pending_interrupt.reason == "legal"
    assert go(agent.resume, RUN, Resume(approved=True, metadata={"by": "ruth"})).pending_interrupt.reason == "finance"
    result = go(agent.resume, RUN, Resume(approved=True, metadata={"by": "emmy"}))
    assert result.tool_calls[0]["output"] == '["ruth","emmy"]'


def test_a_cancelled_run_that_is_reopened_asks_again(store, go, ledger):
    agent = Agent("a", charging(), ledger.tools(needs_approval=True), checkpointer=store)
    go(agent.run, "hi", RUN)
    go(agent.cancel, RUN)
    assert go(agent.resume, RUN, reopen=True).status == "paused"
    assert go(agent.resume, RUN, YES).output == "done"


@pytest.mark.case("S46")
@pytest.mark.parametrize(
    "options",
    [
        {"modified_state": {"note": 1}},
        {"agent_path_prefix": "agent:a"},
        {"agent_path_prefix": "agent:a/tool:charge"},
        {"agent_path_prefix": "turn:0/tool:charge"},
        {"context": "c"},
        {"takeover": True},
        {"accept_graph": True},
        {
            "modified_state": {},
            "agent_path_prefix": "agent:a/tool:charge",
            "context": 1,
            "takeover": True,
            "accept_graph": True,
        },
    ],
    ids=str,
)
def test_an_answer_is_honoured_with_every_option(store, go, ledger, options):
    agent = Agent("a", charging(), ledger.tools(needs_approval=True), checkpointer=store)
    go(agent.run, "hi", RUN)
    assert go(agent.resume, RUN, YES, **options).status == "completed"
    assert ledger == [("charge", 5)]


@pytest.mark.case("S45")
def test_two_paused_runs_answered_in_turn_get_their_own_answers(store, go, ledger):
    agent = Agent("a", charging(), ledger.tools(needs_approval=True), checkpointer=store)
    for run in "xy":
        go(agent.run, "hi", run)
    results = {run: go(agent.resume, run, answer) for run, answer in (("y", NO), ("x", YES))}
    assert [results[run].tool_calls[0]["status"] for run in "xy"] == ["ok", "refused"]
    assert ledger == [("charge", 5)]


# -- limits --------------------------------------------------------------------------------------------------------------


@pytest.mark.case("S24")
def test_the_bound_of_turns_counts_over_crashes_and_a_raised_one_leads_on(store, go, ledger):
    asked = []

    def say(messages):
        asked.append(len(messages))
        return ToolCall("1", "note", {"text": "x"}) if len(messages) < 9 else "done"

    agent = Agent("a", FunctionModel(say), ledger.tools(), max_turns=3, checkpointer=store)
    crashed(agent, store, "append turn:1")
    crashed(agent, store, "append turn:2", call=lambda: agent.resume(RUN))
    with pytest.raises(AgentLimitError, match="3 turns"):
        go(agent.resume, RUN)
    assert asked == [1, 3, 5]
    with pytest.raises(AgentLimitError):
        go(agent.resume, RUN)
    raised = Agent("a", FunctionModel(say), ledger.tools(), max_turns=9, checkpointer=store)
    assert go(raised.resume, RUN).output == "done"
    assert asked == [1, 3, 5, 7, 9]


def test_the_bound_of_tokens_counts_over_a_pause(store, go, ledger):
    agent = Agent("a", charging(), ledger.tools(needs_approval=True), max_tokens=11, checkpointer=store)
    go(agent.run, "hi", RUN)
    with pytest.raises(AgentLimitError, match="11 tokens of its 11"):
        go(agent.resume, RUN, YES)
    assert go(Agent("a", charging(), ledger.tools(), max_tokens=12, checkpointer=store).resume, RUN).tokens == 22


# -- typed answers -------------------------------------------------------------------------------------------------------


class Quote(BaseModel):
    amount: int
    currency: str = "EUR"


@dataclass
class Plain:
    amount: int


@pytest.mark.parametrize(
    ("kind", "text", "value", "stored"),
    [
        (Quote, '{"amount": 5}', Quote(amount=5), {"amount": 5, "currency": "EUR"}),
        (Plain, '{"amount": 5}', Plain(5), {"amount": 5}),
        (list[int], "[1, 2]", [1, 2], [1, 2]),
        (str, "plain", "plain", "plain"),
    ],
)
def test_an_answer_has_the_type_that_was_asked_for(store, go, kind, text, value, stored):
    model = TestModel(text)
    agent = Agent("a", model, output_type=kind, checkpointer=store)
    assert go(agent.run, "hi", RUN).output == agent.result(RUN).output == value
    assert fastdur.result(RUN, store).output == stored
    assert (model.calls[0].output_schema is None) == (kind is str)


def test_an_answer_that_does_not_fit_is_asked_for_again_so_often_and_over_crashes(store, go):
    model = TestModel(["no JSON", '{"amount": "much"}', '{"amount": 5}'])
    agent = Agent("a", model, output_type=Quote, checkpointer=store)
    crashed(agent, store, "model turn:1")
    result = go(agent.resume, RUN)
    assert result.output == Quote(amount=5)
    assert [each.role for each in result.messages] == ["user", *["assistant", "user"] * 2, "assistant"]
    assert "amount: " in result.messages[4].content
    assert rows(store) == ["turn:0", "turn:1", "turn:1", "turn:2", "turn:2", "turn:3", "run_end"]
    poor = Agent("b", TestModel("no"), output_type=Quote, output_retries=1, checkpointer=store)
    with pytest.raises(AgentOutputError, match="output_type"):
        go(poor.run, "hi", "p")
    assert store.get_execution("p").status == "failed"
    better = Agent("b", TestModel('{"amount": 1}'), output_type=Quote, output_retries=1, checkpointer=store)
    assert go(better.resume, "p").output == Quote(amount=1)


@pytest.mark.case("S15")
@pytest.mark.parametrize("replay", [False, True])
def test_a_failure_after_the_loop_is_resumed_after_the_loop(store, go, ledger, replay):
    broken = [RuntimeError("check is down")]

    class Checked(BaseModel):
        amount: int

        @field_validator("amount")
        @classmethod
        def up(cls, value):
            if broken:
                raise broken.pop()
            return value

    model = TestModel([ToolCall("1", "charge", {"amount": 5}), '{"amount": 5}'])
    agent = Agent("a", model, ledger.tools(), output_type=Checked, checkpointer=store, replay_model=replay)
    with pytest.raises(RuntimeError, match="check is down"):
        go(agent.run, "hi", RUN)
    assert rows(store)[-2:] == ["turn:2", "run_end failed"]
    assert go(agent.resume, RUN).output.amount == 5
    assert ledger == [("charge", 5)]
    assert len(model.calls) == 3  # its answer was thrown away, and it was asked again, once
    assert rows(store)[-3:] == ["run_end failed", "turn:2", "run_end"]


def test_after_a_crash_in_the_check_the_stored_answer_is_used(store, go):
    model = TestModel('{"amount": 5}')
    agent = Agent("a", model, output_type=Quote, checkpointer=store)
    crashed(agent, store, "output turn:1")
    assert go(agent.resume, RUN).output == Quote(amount=5)
    assert len(model.calls) == 1


def test_an_answer_that_waits_for_its_check_is_taken_as_it_is_where_the_type_is_gone(store, go):
    agent = Agent("a", TestModel('{"amount": 5}'), output_type=Quote, checkpointer=store)
    crashed(agent, store, "output turn:1")
    assert go(Agent("a", TestModel(), checkpointer=store).resume, RUN).output == '{"amount": 5}'


# -- what changed in between ---------------------------------------------------------------------------------------------


def test_a_tool_that_is_gone_or_takes_something_else_is_refused_before_the_claim(store, go, ledger):
    agent = Agent("a", charging(), ledger.tools(needs_approval=True), checkpointer=store)
    go(agent.run, "hi", RUN)
    before = store.get_execution(RUN)

    @tool
    def charge(amount: int, currency: str) -> str:
        return currency

    for tools, said in (([], "'tool:charge', where the run stands, is not there"), ([charge], "stored arguments")):
        with pytest.raises(GraphChanged, match=said):
            go(Agent("a", charging(), tools, checkpointer=store).resume, RUN, YES)
    assert store.get_execution(RUN) == before
    assert go(agent.resume, RUN, YES).output == "done"


def test_what_is_stored_about_a_tool_that_became_a_runner_is_refused(store, go, ledger):
    agent = Agent("a", charging(), ledger.tools(needs_approval=True), checkpointer=store)
    go(agent.run, "hi", RUN)
    inner = Chain("charge").add_node("n", lambda state: None)
    with pytest.raises(GraphChanged):
        go(Agent("a", charging(), [RunnerTool(inner, "x")], checkpointer=store).resume, RUN, YES)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Agent("a", "gpt"), "LLMClient"),
        (lambda: Agent("a", TestModel(), max_turns=0), "max_turns"),
        (lambda: Agent("a", TestModel(), max_turns=None), "max_turns"),
        (lambda: Agent("a", TestModel(), max_tokens=0), "max_tokens"),
        (lambda: Agent("a", TestModel(), output_retries=-1), "output_retries"),
        (lambda: Agent("a", TestModel(), system_prompt=None), "system_prompt"),
        (lambda: Agent("a", TestModel(), output_type=Agent).validate(), "output_type"),
        (lambda: Agent("a", TestModel(), [5]), "give a function"),
        (lambda: Agent("a", TestModel(), Ledger().tools() + Ledger().tools()), "two tools called 'charge'"),
    ],
)
def test_a_mistake_in_an_agent_is_refused_when_it_is_seen(make, said):
    with pytest.raises(GraphError, match=said):
        make()


@pytest.mark.case("S52")
def test_inside_a_running_loop_the_sync_call_works_and_the_async_one_too(store, ledger):
    agent = Agent("a", charging(), ledger.tools(needs_approval=True), checkpointer=store)

    async def inside():
        assert agent.run("hi", "s").status == "paused"
        assert (await agent.arun("hi", "t")).status == "paused"
        return agent.resume("s", YES), await agent.aresume("t", NO)

    assert [result.output for result in asyncio.run(inside())] == ["done", "done"]
    assert ledger == [("charge", 5)]


def test_a_value_that_the_store_cannot_take_fails_the_tool_that_made_it(store, ledger):
    def too_big(boundary):
        if (boundary.when, boundary.name) == ("before", "append turn:1"):
            raise Inject(NotStorable("too big"))

    agent = Agent("a", charging(), ledger.tools(), checkpointer=store)
    with observe(too_big, store), pytest.raises(NotStorable, match="too big"):
        agent.run("hi", RUN)
    assert rows(store)[-1] == "run_end failed"
    assert store.list(RUN)[-1].extra["node"] == "turn:0/tool:charge"
    assert agent.resume(RUN).output == "done"
    assert ledger == [("charge", 5), ("charge", 5)]  # what could not be stored was not done


def test_an_answer_is_an_answer_whatever_it_looks_like(store):
    response = LLMResponse("{{state.x}}")
    assert Agent("a", TestModel(response), checkpointer=store).run("{'$': [1]}", RUN).output == "{{state.x}}"


# -- what comes from outside ---------------------------------------------------------------------------------------------


NONSENSE = [
    ({"usage": "x"}, "usage is 'x'; give"),
    ({"usage": [1]}, "usage is"),
    ({"usage": [1, -1]}, "usage is"),
    ({"usage": [1, True]}, "usage is"),
    ({"usage": None}, "usage is None"),
    ({"messages": "hi"}, "messages is 'hi'; give a list"),
    ({"messages": ["hi"]}, "messages\\[0\\] is 'hi'"),
    ({"messages": [{"role": "user", "content": "a"}, {"role": "robot"}]}, "messages\\[1\\] is"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages\\[0\\] is"),
    ({"messages": [{"role": "assistant", "tool_calls": [{"id": "1"}]}]}, "messages\\[0\\] is"),
    ({"messages": [{"role": "assistant", "tool_calls": 5}]}, "messages\\[0\\] is"),
    ({"history": [{"content": "hi"}]}, "history\\[0\\] is"),
    ({"history": None}, "history is None"),
]


@pytest.mark.parametrize(("changes", "said"), NONSENSE)
def test_changes_that_an_agent_could_not_go_on_with_are_refused_and_nothing_is_lost(store, ledger, changes, said):
    model = TestModel([ToolCall("1", "charge", {"amount": 5}), "done"])
    agent = Agent("a", model, ledger.tools(needs_approval=True), checkpointer=store)
    agent.run("hi", RUN)
    before = store.get_execution(RUN), store.list(RUN), store.list_pending_interrupts(RUN)
    with pytest.raises(TypeError, match=f"modified_state of agent 'a': {said}.*Nothing was changed"):
        agent.resume(RUN, YES, modified_state=changes)
    with pytest.raises(TypeError, match=f"input of agent 'a': {said}"):
        agent.fork(RUN, input=changes, new_execution_id="f")
    assert (store.get_execution(RUN), store.list(RUN), store.list_pending_interrupts(RUN)) == before
    assert store.get_execution("f") is None
    assert agent.resume(RUN, YES).output == "done"


def test_changes_that_an_agent_can_go_on_with_are_taken(store, ledger):
    model = TestModel([ToolCall("1", "charge", {"amount": 5}), "done"])
    agent = Agent("a", model, ledger.tools(needs_approval=True), checkpointer=store)
    agent.run("hi", RUN)
    changes = {"usage": [7, 0], "messages": [], "history": [{"role": "user", "content": "before"}]}
    assert agent.resume(RUN, YES, modified_state=changes).tokens == 7


@pytest.mark.parametrize("retries", [0, 1])
def test_an_error_of_a_provider_in_a_plain_tool_is_told_to_the_model_like_any_other(store, go, retries):
    tries = []

    @tool(retries=retries)
    def ask_another():
        tries.append(1)
        raise LLMError("no connection", retryable=True)

    result = go(
        Agent("a", TestModel([ToolCall("1", "ask_another"), "done"]), [ask_another], checkpointer=store).run, "hi", RUN
    )
    assert (result.status, len(tries)) == ("completed", retries + 1)
    assert result.tool_calls[0]["output"] == "Error: LLMError: no connection"


def test_an_error_of_an_agents_own_provider_fails_the_run(store, go):
    def down(_):
        raise LLMError("no connection")

    with pytest.raises(LLMError):
        go(Agent("a", FunctionModel(down), checkpointer=store).run, "hi", RUN)
    assert store.get_execution(RUN).status == "failed"
