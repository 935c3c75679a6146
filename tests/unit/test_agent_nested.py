"""Agents inside chains, chains and agents inside agents: one run, one store, each level where it was."""

from __future__ import annotations

import pytest

from fastdur import (
    Agent,
    AlreadyResumed,
    Chain,
    ChainResumeError,
    FunctionModel,
    GraphChanged,
    GraphError,
    NodeResultError,
    Resume,
    RunnerTool,
    TestModel,
    ToolCall,
    interrupt,
    tool,
)
from fastdur.errors import SimulatedCrash
from pytest_fastdur.sweep import Story, explore
from tests.unit.test_agent import Ledger, Quote, dying

RUN = "r"
YES = Resume(approved=True)
NO = Resume(approved=False)


@pytest.fixture
def ledger():
    return Ledger()


def payer(ledger, store=None, **options):
    """An agent whose tool needs approval."""
    model = TestModel([ToolCall("1", "charge", {"amount": 5}), "paid"])
    return Agent("payer", model, ledger.tools(needs_approval=True), checkpointer=store, **options)


def boss(ledger, store=None, tasks=("first",)):
    """An agent that hands tasks to `payer`."""
    script = [*(ToolCall(str(at), "payer", {"input": task}) for at, task in enumerate(tasks)), "all done"]
    tools = [RunnerTool(payer(ledger), "Pays.")]
    return Agent("boss", TestModel(script), tools, checkpointer=store)


def in_chain(agent, store, **options):
    return (
        Chain("flow", store)
        .add_node("before", lambda state: {"input": "pay"})
        .add_node("team", agent, **options)
        .add_node("after", lambda state: {"seen": state.get("output", state.get("said"))})
        .connect("before", "team")
        .connect("team", "after")
    )


def ids(store, run=RUN):
    return [row.node_id for row in store.list(run)]


# -- an agent as a node --------------------------------------------------------------------------------------------------


def test_an_agent_as_a_node_takes_the_key_input_and_leaves_its_output(store, go, ledger):
    flow = in_chain(Agent("a", TestModel("fine")), store)
    result = go(flow.execute, {"messages": ["mine"], "usage": "mine"}, RUN)
    assert result.final_state == {
        "messages": ["mine"],
        "usage": "mine",
        "input": "pay",
        "output": "fine",
        "seen": "fine",
    }
    assert ids(store) == ["before", "team/turn:0", "team/turn:1", "team", "after", "run_end"]
    assert [row.agent_path for row in store.list(RUN)][1:4] == ["chain:flow/agent:a"] * 2 + ["chain:flow"]


def test_its_output_stands_under_output_key_as_it_is_stored(store, go):
    agent = Agent("a", TestModel('{"amount": 5}'), output_type=Quote)
    result = go(in_chain(agent, store, output_key="said").execute, {}, RUN)
    assert result.final_state["seen"] == {"amount": 5, "currency": "EUR"}


def test_input_says_what_it_is_asked_and_without_a_text_it_is_the_whole_state(store, go):
    echo = FunctionModel(lambda messages: messages[-1].content)
    asked = in_chain(Agent("a", echo), store, input=lambda state: {"input": state["input"].upper()})
    assert go(asked.execute, {}).output == {"seen": "PAY"}
    whole = Chain("c", store).add_node("a", Agent("a", echo), output_key="said")
    assert go(whole.execute, {"n": [1]}).output == '{"n":[1]}'


@pytest.mark.case("S36")
def test_a_state_that_no_model_can_read_fails_the_run_before_the_model_is_asked(store, go):
    model = TestModel()
    with pytest.raises(NodeResultError, match="no model can read"):
        go(in_chain(Agent("a", model), store, input=lambda state: {"input": b"x"}).execute, {}, RUN)
    assert model.calls == []
    assert go(in_chain(Agent("a", model), store).resume, RUN, modified_state={"input": "text"}).status == "completed"


@pytest.mark.case("S27")
def test_an_agent_that_fails_inside_a_chain_fails_the_run_there_and_the_next_node_does_not_run(store, go):
    down = [OSError("down")]

    def say(messages):
        if down:
            raise down.pop()
        return "up"

    flow = in_chain(Agent("a", FunctionModel(say)), store)
    with pytest.raises(OSError, match="down"):
        go(flow.execute, {}, RUN)
    assert ids(store) == ["before", "team/turn:0", "run_end"]
    assert store.list(RUN)[-1].extra["node"] == "team/turn:0"
    assert go(flow.resume, RUN).output == {"seen": "up"}


# -- a pause on any level ------------------------------------------------------------------------------------------------


@pytest.mark.case("S44")
@pytest.mark.case("S48")
@pytest.mark.case("S49")
def test_a_pause_on_the_third_level_is_answered_once_and_nothing_above_starts_anew(store, go, ledger):
    result = go(in_chain(boss(ledger), store).execute, {}, RUN)
    asked = result.pending_interrupt
    assert asked.node_id == "team/turn:0/tool:payer/turn:0/tool:charge"
    assert asked.agent_path == "chain:flow/agent:boss/agent:payer/tool:charge"
    assert asked.interrupt_id == "team#1/turn:0#1/tool:payer#1/turn:0#1/tool:charge#1/1"
    assert store.list_pending_interrupts(RUN) == [asked]
    result = go(in_chain(boss(ledger), store).resume, RUN, Resume(approved=True, interrupt_id=asked.interrupt_id))
    assert result.output == {"seen": "all done"}
    assert ledger == [("charge", 5)]
    assert ids(store)[4:] == [
        "team/turn:0/tool:payer/turn:0/tool:charge",
        "team/turn:0/tool:payer/turn:0/tool:charge",
        "team/turn:0/tool:payer/turn:0/tool:charge",
        "team/turn:0/tool:payer/turn:1",
        "team/turn:0/tool:payer/turn:2",
        "team/turn:0/tool:payer",
        "team/turn:1",
        "team/turn:2",
        "team",
        "after",
        "run_end",
    ]
    with pytest.raises(AlreadyResumed):
        go(in_chain(boss(ledger), store).resume, RUN, YES)


@pytest.mark.parametrize(
    "prefix",
    [
        "team",
        "team/turn:0/tool:payer",
        "team#1/turn:0#1/tool:payer#1",
        "chain:flow/agent:boss",
        "chain:flow/agent:boss/agent:payer/tool:charge",
    ],
)
def test_an_answer_is_aimed_at_any_level_by_its_address_its_path_or_its_agents(store, go, ledger, prefix):
    flow = in_chain(boss(ledger), store)
    go(flow.execute, {}, RUN)
    with pytest.raises(ChainResumeError):
        go(flow.resume, RUN, YES, agent_path_prefix="chain:flow/agent:other")
    assert go(flow.resume, RUN, YES, agent_path_prefix=prefix).status == "completed"


@pytest.mark.case("S50")
@pytest.mark.case("S95")
def test_tasks_for_one_sub_agent_pause_one_after_another_and_are_told_apart(store, go, ledger):
    team = boss(ledger, store, tasks=("first", "second", "third"))
    asked = [go(team.run, "go", RUN).pending_interrupt]
    for answer in (YES, NO, YES):
        result = go(boss(ledger, store, tasks=("first", "second", "third")).resume, RUN, answer)
        asked.append(result.pending_interrupt)
    assert [each.node_id for each in asked[:3]] == [f"turn:{n}/tool:payer/turn:0/tool:charge" for n in range(3)]
    assert asked[3] is None
    assert result.output == "all done"
    assert ledger == [("charge", 5)] * 2
    own = [each for each in result.tool_calls if not each["place"]]
    assert [each["arguments"] for each in own] == [{"input": task} for task in ("first", "second", "third")]
    inside = [(each["place"], each["status"]) for each in result.tool_calls if each["place"]]
    assert inside == [(f"turn:{n}/tool:payer", status) for n, status in enumerate(["ok", "refused", "ok"])]


def test_two_tasks_for_one_sub_agent_in_one_turn_are_two_frames(store, go):
    helper = Agent("helper", FunctionModel(lambda messages: messages[-1].content.upper()))
    model = TestModel([[ToolCall("1", "helper", {"input": "a"}), ToolCall("2", "helper", {"input": "b"})], "done"])
    result = go(Agent("a", model, [RunnerTool(helper, "Helps.")], checkpointer=store).run, "hi", RUN)
    assert [each["output"] for each in result.tool_calls] == ["A", "B"]
    assert ids(store)[1:8] == [
        "turn:0/tool:helper",
        "turn:0/tool:helper/turn:0",
        "turn:0/tool:helper/turn:1",
        "turn:0/tool:helper",
        "turn:0/tool:helper#2",
        "turn:0/tool:helper#2/turn:0",
        "turn:0/tool:helper#2/turn:1",
    ]
    assert store.list(RUN)[6].state_snapshot["input"] == "b"


@pytest.mark.case("S42")
def test_a_pause_inside_a_runner_leaves_the_other_calls_of_the_turn_unmade(store, go, ledger):
    script = [[ToolCall("1", "payer", {"input": "x"}), ToolCall("2", "note", {"text": "y"})], "done"]
    tools = [RunnerTool(payer(ledger), "Pays."), ledger.tools()[1]]
    team = Agent("boss", TestModel(script), tools, checkpointer=store)
    go(team.run, "go", RUN)
    result = go(team.resume, RUN, YES)
    assert [(each["place"], each["status"]) for each in result.tool_calls] == [
        ("", "ok"),
        ("", "skipped"),
        ("turn:0/tool:payer", "ok"),
    ]
    assert ledger == [("charge", 5)]


# -- a chain as a tool ---------------------------------------------------------------------------------------------------


def order_chain(ledger, fail=()):
    failing = list(fail)

    def check(state):
        if failing:
            raise failing.pop()
        return {"ok": state["amount"] < 10}

    def ask(state):
        return {"by": interrupt("manager", {"amount": state["amount"]}).metadata["by"]}

    return (
        Chain("order")
        .add_node("check", check)
        .add_node("ask", ask)
        .add_node("pay", lambda state: ledger.append(state["amount"]) or {"paid": state["amount"]})
        .connect("check", "ask")
        .connect("ask", "pay")
    )


def ordering(ledger, store, **options):
    model = TestModel([ToolCall("1", "order", {"amount": 5}), "done"])
    tools = [RunnerTool(order_chain(ledger, **options), "Orders.", parameters=Amount)]
    return Agent("a", model, tools, checkpointer=store)


class Amount(Quote):
    """What the chain begins with."""


def test_a_chain_as_a_tool_pauses_and_tells_its_output(store, go, ledger):
    asked = go(ordering(ledger, store).run, "hi", RUN).pending_interrupt
    assert (asked.node_id, asked.context) == ("turn:0/tool:order/ask", {"amount": 5})
    result = go(ordering(ledger, store).resume, RUN, Resume(approved=True, metadata={"by": "ada"}))
    assert result.tool_calls[0]["output"] == '{"paid":5}'
    assert ledger == [5]
    assert [row.node_id for row in store.list(RUN)] == [
        "turn:0",
        "turn:0/tool:order",
        "turn:0/tool:order/check",
        "turn:0/tool:order/ask",
        "turn:0/tool:order/ask",
        "turn:0/tool:order/ask",
        "turn:0/tool:order/pay",
        "turn:0/tool:order",
        "turn:1",
        "turn:2",
        "run_end",
    ]
    assert store.list(RUN)[2].state_snapshot == {"amount": 5, "currency": "EUR", "ok": True}


def test_a_node_that_fails_in_a_chain_that_is_a_tool_fails_the_run_which_goes_on_there(store, go, ledger):
    team = ordering(ledger, store, fail=[ValueError("no line")])
    with pytest.raises(ValueError, match="no line"):
        go(team.run, "hi", RUN)
    assert store.list(RUN)[-1].extra["node"] == "turn:0/tool:order/check"
    assert go(team.resume, RUN).pending_interrupt.node_id == "turn:0/tool:order/ask"


def test_a_runner_that_is_gone_or_became_a_function_is_refused(store, go, ledger):
    go(ordering(ledger, store).run, "hi", RUN)

    @tool
    def order(amount: int, currency: str = "EUR") -> int:
        return amount

    emptied = Chain("order").add_node("x", lambda state: None)
    kept = RunnerTool(order_chain(ledger), "x")  # it takes a text, and not what is stored
    for tools in ([], [order], [RunnerTool(emptied, "x", parameters=Amount)], [kept]):
        with pytest.raises(GraphChanged):
            go(Agent("a", TestModel(), tools, checkpointer=store).resume, RUN, YES)


def test_an_agent_cannot_stand_inside_itself(store):
    chain = Chain("c", store)
    agent = Agent("a", TestModel(), [RunnerTool(chain, "x")], checkpointer=store)
    chain.add_node("a", agent)
    with pytest.raises(GraphError, match="stands inside itself"):
        agent.run("hi")


# -- crashes at every boundary -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["crash", "raise"])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_three_levels_hold_whatever_fault_strikes_them_at_whatever_boundary(fault, kind):
    def build(store):
        ledger = Ledger()
        flow = in_chain(boss(ledger), store)
        if kind == "async":

            async def last(state):
                return {"last": True}

            flow.add_node("last", last).connect("after", "last")
        return flow

    story = Story("levels", build, {}, answers={"approve_charge": YES})
    report = explore(story, (fault,))
    assert report.ok, report.render()
    assert report.points >= 50


def test_an_agent_with_a_typed_answer_and_siblings_holds_at_every_boundary():
    def build(store):
        script = [
            [ToolCall("1", "note", {"text": "a"}), ToolCall("2", "missing"), ToolCall("3", "charge", {"amount": 1})],
            [ToolCall("4", "charge", {"amount": 2}), ToolCall("5", "charge", {"amount": 3})],
            "no JSON",
            '{"amount": 5}',
        ]
        return Agent("a", TestModel(script), Ledger().tools(), output_type=Quote, checkpointer=store)

    for fault in ("crash", "raise"):
        report = explore(Story("typed", build, {"input": "hi"}), (fault,), depth=2 if fault == "crash" else 1)
        assert report.ok, report.render()


def test_a_crash_between_two_calls_of_a_turn_goes_on_with_the_second(store, go, ledger):
    script = [[ToolCall("1", "note", {"text": "a"}), ToolCall("2", "note", {"text": "b"})], "done"]
    agent = Agent("a", TestModel(script), ledger.tools(), checkpointer=store)
    with dying(store, "append turn:0/tool:note#2", when="after"), pytest.raises(SimulatedCrash):
        agent.run("hi", RUN)
    assert go(agent.resume, RUN).output == "done"
    assert ledger == [("note", "a"), ("note", "b")]
