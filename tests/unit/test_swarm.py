"""A swarm: one conversation that agents hand over to each other."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from fastdur import (
    Agent,
    AgentLimitError,
    Chain,
    FunctionModel,
    GraphChanged,
    GraphError,
    RunnerTool,
    Swarm,
    tool,
)
from fastdur.boundaries import observe
from fastdur.errors import SimulatedCrash
from pytest_fastdur.sweep import Story, explore
from tests.unit.teams import NO, RUN, YES, Ledger, boss, called, desk, ids, payer, scripted
from tests.unit.test_agent import answered_once


@pytest.fixture
def ledger():
    return Ledger()


def to(name, number=9, **more):
    return called(number, f"handoff_to_{name}", reason="because", **more)


def ring(store, *names, rounds=1, **options):
    """Agents that each hand over to the next; after so many rounds the last one answers."""

    def model(name, after):
        return scripted(*[to(after)] * (rounds if name != names[-1] else rounds - 1), f"{name} says so")

    agents = [Agent(name, model(name, names[(at + 1) % len(names)])) for at, name in enumerate(names)]
    return Swarm("ring", agents, checkpointer=store, **options)


# -- handing over --------------------------------------------------------------------------------------------------------


def test_a_handoff_is_one_row_and_the_next_agent_reads_the_whole_conversation(store, go):
    front = Agent("front", scripted(to("back", context="order 7")), system_prompt="You are the front.")
    back = Agent("back", scripted("done"), system_prompt="You are the back.")
    result = go(Swarm("s", [front, back], checkpointer=store).run, "hi", RUN)
    assert (result.output, result.final_state["agent"], result.tokens) == ("done", "back", 22)
    assert ids(store) == ["front/turn:0", "handoff:1", "back/turn:0", "back/turn:1", "back", "run_end"]
    row = store.list(RUN)[1]
    assert (row.step_type, row.agent_path, row.extra["from"], row.extra["to"]) == (
        "handoff",
        "swarm:s/agent:front",
        "front",
        "back",
    )
    assert row.node_input == {"reason": "because", "context": "order 7"}
    (asked,) = back.model.calls
    assert [(message.role, message.content) for message in asked.messages] == [
        ("system", "You are the back."),
        ("user", "hi"),
        ("assistant", ""),
        ("tool", "front has handed over to back, who goes on from here. Reason: because Context: order 7"),
    ]
    assert result.messages[0].content == "hi"
    assert [message.role for message in result.messages] == ["user", "assistant", "tool", "assistant"]
    assert result.tool_calls[0]["place"] == "front"


def test_an_agent_that_gets_the_conversation_back_goes_on_counting_its_turns_and_visits(store, go):
    result = go(ring(store, "a", "b", rounds=3).run, "hi", RUN)
    assert result.output == "b says so"
    turns = [node for node in ids(store) if "turn" in node]
    assert turns == ["a/turn:0", "b/turn:0", "a/turn:1", "b/turn:1", "a/turn:2", "b/turn:2", "b/turn:3"]
    assert [(each["place"], each["turn"]) for each in result.tool_calls] == [
        ("a", 0),
        ("b", 0),
        ("a", 1),
        ("b", 1),
        ("a", 2),
    ]
    assert result.tokens == 6 * 11


def test_handoffs_are_offered_to_those_who_may_and_to_nobody_else(store, go):
    def offered(swarm):
        found = {}
        for agent in swarm.runners():
            found[agent[0]] = [name for name in swarm.child(agent[0]).tools if name.startswith("handoff")]
        return found

    three = [Agent(name, scripted("x")) for name in "abc"]
    assert offered(Swarm("s", three)) == {
        "a": ["handoff_to_b", "handoff_to_c"],
        "b": ["handoff_to_a", "handoff_to_c"],
        "c": ["handoff_to_a", "handoff_to_b"],
    }
    assert offered(Swarm("s", three, handoffs={"a": ["c"]})) == {"a": ["handoff_to_c"], "b": [], "c": []}
    three[0].model = scripted(to("b"), "I did it myself")
    result = go(Swarm("s", three, handoffs={"a": ["c"]}, checkpointer=store).run, "hi", RUN)
    assert (result.output, result.tool_calls[0]["status"]) == ("I did it myself", "error")
    assert "There is no tool 'handoff_to_b'" in result.tool_calls[0]["output"]
    assert three[0].tools == {}  # alone, the agent has nobody to hand over to


def test_the_entrypoint_is_the_first_agent_or_the_one_that_is_named(store, go):
    two = [Agent(name, scripted(f"{name} says so")) for name in "ab"]
    assert go(Swarm("s", two, checkpointer=store).run, "hi").output == "a says so"
    assert go(Swarm("s", two, "b", checkpointer=store).run, "hi").output == "b says so"


def test_a_handoff_is_taken_when_every_other_call_of_its_turn_is_answered_and_only_one_is(store, go, ledger):
    turn = [to("back", 0), called(1, "note", text="x"), to("side", 2), called(3, "missing")]
    front = Agent("front", scripted(turn), [ledger.note()])
    back = Agent("back", scripted("done"))
    swarm = Swarm("s", [front, back, Agent("side", scripted("no"))], checkpointer=store)
    result = go(swarm.run, "hi", RUN)
    assert (result.output, [*ledger]) == ("done", [("note", "x")])
    (asked,) = back.model.calls
    assert answered_once(asked.messages)
    assert [(each["tool_call_id"], each["status"]) for each in result.tool_calls] == [
        ("c1", "ok"),
        ("c2", "error"),
        ("c3", "error"),
        ("c0", "ok"),
    ]
    assert "goes to back already" in result.tool_calls[1]["output"]


def test_a_handoff_whose_arguments_do_not_fit_is_told_and_not_taken(store, go):
    front = Agent("front", scripted(called(0, "handoff_to_back"), "so be it"))
    result = go(Swarm("s", [front, Agent("back", scripted("x"))], checkpointer=store).run, "hi", RUN)
    assert result.output == "so be it"
    assert "The arguments do not fit: reason" in result.tool_calls[0]["output"]


@pytest.mark.case("S42")
def test_after_a_pause_the_siblings_are_not_made_and_the_handoff_of_the_turn_is_still_taken(store, go, ledger):
    turn = [to("back", 0), called(1, "charge", amount=5), called(2, "note", text="x")]
    back = Agent("back", scripted("done"))
    front = Agent("front", scripted(turn), [ledger.charge(), ledger.note()])
    swarm = Swarm("s", [front, back], checkpointer=store)
    go(swarm.run, "hi", RUN)
    result = go(swarm.resume, RUN, NO)
    assert (result.output, [*ledger]) == ("done", [])
    (asked,) = back.model.calls
    assert answered_once(asked.messages)
    assert [each["status"] for each in result.tool_calls] == ["refused", "skipped", "ok"]


@pytest.mark.case("S49")
@pytest.mark.case("S50")
def test_a_second_approval_in_a_swarm_pauses_where_it_is_asked_and_the_first_stays_answered(store, go, ledger):
    def team():
        return desk(
            ledger,
            store,
            first=(called(0, "note", text="x"), to("payer"), "bye"),
            second=(called(1, "charge", amount=1), called(2, "charge", amount=2), to("front")),
        )

    def swarm():
        made = team()
        made.child("front").tools["note"] = ledger.note()
        return made

    question = go(swarm().run, "hi", RUN).pending_interrupt
    assert question.interrupt_id == "payer#1/turn:0#1/tool:charge#1/1"
    question = go(swarm().resume, RUN, YES).pending_interrupt
    assert question.interrupt_id == "payer#1/turn:1#1/tool:charge#1/1"
    assert ledger == [("note", "x"), ("charge", 1)]
    result = go(swarm().resume, RUN, NO)
    assert (result.output, result.final_state["agent"]) == ("bye", "front")
    assert ledger == [("note", "x"), ("charge", 1)]
    assert [each["status"] for each in result.tool_calls if each["name"] == "charge"] == ["ok", "refused"]


def test_what_runners_inside_an_agent_have_called_stays_with_the_agent_that_called_them(store, go, ledger):
    inner = Agent("inner", scripted(called(0, "note", text="deep"), "told"), [ledger.note()])
    front = Agent("front", scripted(called(1, "inner", input="x"), to("back")), [RunnerTool(inner, "Knows.")])
    back = Agent("back", scripted(called(2, "inner", input="y"), "done"), [RunnerTool(inner, "Knows.")])
    result = go(Swarm("s", [front, back], checkpointer=store).run, "hi", RUN)
    assert result.tokens == 11 * 8
    assert [(each["place"], each["name"]) for each in result.tool_calls] == [
        ("front", "inner"),
        ("front", "handoff_to_back"),
        ("back", "inner"),
        ("front/turn:0/tool:inner", "note"),
        ("back/turn:0/tool:inner", "note"),
    ]


def test_a_question_below_a_swarm_has_the_calls_of_those_that_run_in_the_result(store, go, ledger):
    front = Agent("front", scripted(called(0, "payer", input="x")), [RunnerTool(payer(ledger, 1, 2), "Pays.")])
    swarm = Swarm("s", [front], checkpointer=store)
    go(swarm.run, "hi", RUN)
    result = go(swarm.resume, RUN, YES)
    assert result.status == "paused"
    assert [(each["place"], each["name"]) for each in result.tool_calls] == [("front/turn:0/tool:payer", "charge")]


def test_a_supervisor_may_be_one_of_a_swarm(store, go, ledger):
    chief = boss(ledger, called(0, "delegate_to_money", task="pay"), to("back"))
    swarm = Swarm("s", [chief, Agent("back", scripted("done"))], checkpointer=store)
    question = go(swarm.run, "hi", RUN).pending_interrupt
    assert question.agent_path == "swarm:s/supervisor:boss/worker:money/tool:charge"
    result = go(swarm.resume, RUN, YES)
    assert (result.output, result.tokens, [*ledger]) == ("done", 11 * 5, [("charge", 5)])
    assert [each["place"] for each in result.tool_calls] == ["boss", "boss", "boss/turn:0/tool:delegate_to_money"]


class Quote(BaseModel):
    """A typed answer."""

    amount: int


def test_the_answer_has_the_type_of_the_agent_that_gives_it(store, go):
    front = Agent("front", scripted(to("back")))
    back = Agent("back", scripted('{"amount": 5}'), output_type=Quote)
    swarm = Swarm("s", [front, back], checkpointer=store)
    assert go(swarm.run, "hi", RUN).output == Quote(amount=5)
    assert go(swarm.result, RUN).output == Quote(amount=5)
    assert go(Swarm("t", [Agent("a", scripted("text"))], checkpointer=store).run, "hi").output == "text"
    flow = Chain("c", store).add_node("s", swarm).add_node("end", lambda state: {"got": state["output"]})
    assert go(flow.connect("s", "end").execute, {"input": "hi"}).final_state == {
        "input": "hi",
        "output": {"amount": 5},
        "agent": "back",
        "got": {"amount": 5},
    }


# -- limits --------------------------------------------------------------------------------------------------------------


def test_the_bound_of_handoffs_counts_over_crashes_and_a_raised_one_leads_on(store, go):
    dead = []

    def die(boundary):
        if (boundary.when, boundary.name) == ("after", "append handoff:2") and not dead:
            dead.append(boundary)
            raise SimulatedCrash("x")

    with observe(die, store), pytest.raises(SimulatedCrash):
        ring(store, "a", "b", rounds=3, max_handoffs=3).run("hi", RUN)
    with pytest.raises(AgentLimitError, match="handed over 3 times"):
        go(ring(store, "a", "b", rounds=3, max_handoffs=3).resume, RUN)
    assert store.list(RUN)[-1].extra["node"] == "b/turn:1"
    result = go(ring(store, "a", "b", rounds=3, max_handoffs=5).resume, RUN)
    assert result.output == "b says so"
    assert [node for node in ids(store) if node.startswith("handoff")] == [f"handoff:{n}" for n in range(1, 6)]


def test_nobody_hands_over_where_no_handoff_may_be(store, go):
    with pytest.raises(AgentLimitError, match="0 times"):
        go(ring(store, "a", "b", max_handoffs=0).run, "hi", RUN)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_turns": 3}, "Swarm 'ring' has taken 3 turns"),
        ({"max_tokens": 33}, "Swarm 'ring' has used 33 tokens of its 33"),
    ],
)
def test_turns_and_tokens_of_all_agents_together_are_bound(store, go, options, said):
    with pytest.raises(AgentLimitError, match=said):
        go(ring(store, "a", "b", rounds=3, **options).run, "hi", RUN)
    assert store.list(RUN)[-1].extra["node"] == "b/turn:1"
    assert go(ring(store, "a", "b", rounds=3).resume, RUN).output == "b says so"


def test_the_bound_of_one_agent_counts_its_own_turns_and_tokens_over_handoffs(store, go):
    def swarm(**options):
        a = Agent("a", scripted(to("b"), to("b"), "no"), **options)
        b = Agent("b", scripted(to("a"), to("a"), "b says so"))
        return Swarm("s", [a, b], checkpointer=store)

    with pytest.raises(AgentLimitError, match="Agent 'a' has taken 2 turns"):
        go(swarm(max_turns=2).run, "hi", RUN)
    with pytest.raises(AgentLimitError, match="Agent 'a' has used 22 tokens of its 22"):
        go(swarm(max_tokens=22).resume, RUN)
    assert go(swarm(max_tokens=23).resume, RUN).output == "no"


def test_the_time_of_an_agent_and_of_the_swarm_are_counted_apart(store, go, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("fastdur._drivers.monotonic", lambda: now[0])

    def slow(*script):
        model = scripted(*script)
        plain = model.complete

        def complete(request):
            now[0] += 1
            return plain(request)

        model.complete = complete
        return model

    def swarm(one, both):
        a = Agent("a", slow(to("b"), to("b"), "no"), max_seconds=one)
        return Swarm("s", [a, Agent("b", slow(to("a"), to("a")))], max_seconds=both, checkpointer=store)

    with pytest.raises(AgentLimitError, match="Agent 'a' has run for 2 s of its 2"):
        go(swarm(2, 9).run, "hi", RUN)
    with pytest.raises(AgentLimitError, match="Swarm 's' has run for 4 s of its 4"):
        go(swarm(9, 4).resume, RUN)
    assert go(swarm(9, 9).resume, RUN).output == "no"


# -- what does not fit ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda a, b: Swarm("s", []), "has no agents"),
        (lambda a, b: Swarm("s", [a, Chain("c")]), "is none; make it a RunnerTool"),
        (lambda a, b: Swarm("s", [a, a]), "two agents called 'a'"),
        (lambda a, b: Swarm("s", [a, b], "c"), "entrypoint of swarm 's' names 'c'"),
        (lambda a, b: Swarm("s", [a, b], handoffs={"c": []}), "handoffs of swarm 's' names 'c'"),
        (lambda a, b: Swarm("s", [a, b], handoffs={"a": ["c"]}), "handoffs of 'a' of swarm 's' names 'c'"),
        (lambda a, b: Swarm("s", [a, b], handoffs={"a": ["a"]}), "name each other agent once"),
        (lambda a, b: Swarm("s", [a, b], handoffs={"a": ["b", "b"]}), "name each other agent once"),
        (lambda a, b: Swarm("s", [a, b], max_handoffs=-1), "max_handoffs of swarm 's' is -1"),
        (lambda a, b: Swarm("s", [a, b], max_turns=0), "max_turns of swarm 's' is 0"),
        (lambda a, b: Swarm("s", [a, b], max_seconds=-1), "max_seconds of swarm 's' is -1"),
        (lambda a, b: Swarm("s", [a, Agent("b c", a.model)]), "handoff_to_b c"),
        (lambda a, b: Swarm("s", [Agent("a/b", a.model)]), "handoff_to_a/b"),
    ],
)
def test_a_swarm_that_cannot_be_is_refused_when_it_is_made(make, said):
    with pytest.raises(GraphError, match=said):
        make(Agent("a", scripted("x")), Agent("b", scripted("x")))


def test_a_tool_with_the_name_of_a_handoff_is_refused():
    @tool
    def handoff_to_b() -> str:
        return ""

    with pytest.raises(GraphError, match="has a tool called 'handoff_to_b'"):
        Swarm("s", [Agent("a", scripted("x"), [handoff_to_b]), Agent("b", scripted("x"))])


def test_an_agent_that_cannot_be_is_refused_before_anything_is_stored(store, go):
    loose = Agent("a", scripted("x"))
    swarm = Swarm("s", [loose], checkpointer=store)
    loose.tools = {"s": RunnerTool(swarm, "Itself.")}
    with pytest.raises(GraphError, match="stands inside itself"):
        go(swarm.run, "hi", RUN)
    assert store.list_executions() == []


def test_an_agent_or_a_way_that_is_gone_while_the_run_needs_it_is_refused(store, go, ledger):
    go(desk(ledger, store).run, "hi", RUN)
    others = Swarm("desk", [Agent("front", scripted("x"))], checkpointer=store)
    closed = desk(ledger, store, handoffs={"payer": ["front"]})
    for changed in (others, closed):
        with pytest.raises(GraphChanged):
            go(changed.resume, RUN, YES)
    assert go(closed.resume, RUN, YES, accept_graph=True).status == "completed"


def test_a_waiting_handoff_to_an_agent_that_is_gone_is_refused(store, go):
    with pytest.raises(AgentLimitError):
        go(ring(store, "a", "b", max_handoffs=0).run, "hi", RUN)
    with pytest.raises(GraphChanged, match="handoff_to_b"):
        go(ring(store, "a", max_handoffs=9).resume, RUN)


# -- crashes at every boundary -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["crash", "raise"])
def test_handoffs_there_and_back_hold_whatever_fault_strikes_them_and_their_recovery(fault):
    def build(store):
        return ring(store, "a", "b", rounds=2)

    report = explore(Story("ring", build, {"input": "hi"}), (fault,), depth=2)
    assert report.ok, report.render()


def test_an_async_swarm_holds_whatever_crash_strikes_it():
    report = explore(Story("async", _async_ring, {"input": "hi"}), ("crash",))
    assert report.ok, report.render()


def _async_ring(store):
    async def say(messages):
        return to("b") if len(messages) == 1 else "x"

    async def answer(messages):
        return "done"

    return Swarm("s", [Agent("a", FunctionModel(say)), Agent("b", FunctionModel(answer))], checkpointer=store)
