"""Guardrails of agents: asked at four positions, they pass, block, mask or send back."""

from __future__ import annotations

import pytest

from fastdur import (
    Agent,
    Block,
    Chain,
    FunctionModel,
    GraphError,
    Guardrail,
    GuardrailBlocked,
    InterruptNotAllowed,
    Mask,
    NodeIsAsync,
    NodeResultError,
    NotStorable,
    ReAsk,
    RunnerTool,
    SQLiteCheckpointer,
    Supervisor,
    Swarm,
    ToolCall,
    Worker,
    idempotent,
    interrupt,
    tool,
)
from tests.unit.running import crashed
from tests.unit.teams import RUN, YES, Ledger, called, ids, scripted

SECRET = "4711-0815-secret"
HIDDEN = "<hidden>"


@pytest.fixture
def ledger():
    return Ledger()


@pytest.fixture
def file(tmp_path):
    """A store in a file, and everything that is in the files of it."""
    store = SQLiteCheckpointer(tmp_path / "runs.db")

    def bytes_of():
        return b"".join(path.read_bytes() for path in tmp_path.iterdir())

    yield store, bytes_of
    store.close()


def hide(text):
    return Mask(text.replace(SECRET, HIDDEN)) if SECRET in text else None


def hide_in_call(call):
    args = {key: value.replace(SECRET, HIDDEN) for key, value in call.arguments.items()}
    return Mask(args) if args != call.arguments else None


def hide_in_result(message):
    return hide(message.content)


async def ahide(text):
    return hide(text)


async def ahide_in_call(call):
    return hide_in_call(call)


async def ahide_in_result(message):
    return hide_in_result(message)


def find(text):
    """Look for a text."""
    return f"found {text} and {SECRET}"


def seen(model):
    """All that a model was told."""
    return repr([[*request.messages] for request in model.calls])


def guarded(store, *guardrails, script=("fine",), tools=(), **options):
    return Agent("a", scripted(*script), tools, guardrails=guardrails, checkpointer=store, **options)


def saying(verdict):
    """A guardrail that notes what it was asked about."""

    def guard(value):
        guard.asked.append(value)
        return verdict(value) if callable(verdict) else verdict

    guard.asked = []
    return guard


# -- masks ---------------------------------------------------------------------------------------------------------------


SYNC = (hide, hide_in_call, hide_in_result, hide)
ASYNC = (ahide, ahide_in_call, ahide_in_result, ahide)


@pytest.mark.parametrize(("go", "fns"), [("sync", SYNC), ("async", SYNC), ("async", ASYNC)], indirect=["go"])
def test_what_is_masked_is_never_in_the_store_nor_told_to_a_model(file, fns, go):
    store, bytes_of = file
    places = ("input", "tool_call", "tool_result", "output")
    rails = [Guardrail(fn, at, name=at) for fn, at in zip(fns, places, strict=True)]
    agent = guarded(store, *rails, script=[called(1, "find", text=SECRET), f"It is {SECRET}."], tools=[find])
    result = go(agent.run, f"I am {SECRET}.", RUN)
    assert result.output == f"It is {HIDDEN}."
    assert result.tool_calls[0]["arguments"] == {"text": HIDDEN}
    assert result.tool_calls[0]["output"] == f"found {HIDDEN} and {HIDDEN}"
    assert SECRET not in seen(agent.model)
    assert f"I am {HIDDEN}." in seen(agent.model)
    assert HIDDEN.encode() in bytes_of()
    assert SECRET.encode() not in bytes_of()
    assert go(agent.fork, RUN, input=f"now {SECRET}").final_state["input"] == f"now {HIDDEN}"
    assert SECRET.encode() not in bytes_of()


def test_the_value_that_is_searched_for_is_found_where_nothing_masks_it(file, go):
    store, bytes_of = file
    go(guarded(store).run, SECRET, RUN)
    assert SECRET.encode() in bytes_of()


def test_what_fails_the_run_holds_no_answer_of_a_model_that_was_in_question(file):
    """The failed marker has the state; a model's answer that no guardrail has let through is not in it."""
    store, bytes_of = file
    wrong = [RuntimeError("down")]

    def shaky(value):
        if wrong:
            raise wrong.pop()
        return hide(value) if isinstance(value, str) else hide_in_call(value)

    for position, script in (("output", [f"It is {SECRET}."]), ("tool_call", [called(1, "find", text=SECRET), "ok"])):
        wrong[:] = [RuntimeError("down")]
        agent = guarded(
            store, Guardrail(shaky, position), script=script, tools=[tool(name="find")(lambda text: "none")]
        )
        with pytest.raises(RuntimeError, match="down"):
            agent.run("hi", position)
        assert [row.status for row in store.list(position)] == ["completed", "failed"]
        done = agent.resume(position)
        assert (done.status, done.wasted_tokens) == ("completed", 11)
        assert len(agent.model.calls) == len(script) + 1
        assert SECRET.encode() not in bytes_of()


def test_an_input_that_is_a_whole_state_is_looked_at_as_the_model_reads_it(store, go):
    agent = guarded(store, Guardrail(hide, "input"))
    go(agent.execute, {"topic": SECRET}, RUN)
    assert store.get_execution(RUN).input == {"input": f'{{"topic":"{HIDDEN}"}}'}
    go(agent.execute, {"topic": "tin"}, "other")
    assert store.get_execution("other").input == {"topic": "tin"}


def test_masked_arguments_are_checked_like_those_of_the_model(store, ledger):
    guard = Guardrail(lambda call: Mask({"text": 5 if call.arguments["text"] == "a" else "c"}), "tool_call", name="g")
    script = [[called(1, "note", text="a"), called(2, "note", text="b")], "done"]
    result = guarded(store, guard, script=script, tools=[ledger.note()]).run("x")
    assert ledger == [("note", "c")]
    assert [call["status"] for call in result.tool_calls] == ["error", "ok"]


def test_a_call_that_cannot_be_made_stays_so_and_its_arguments_are_masked_as_well(file):
    store, bytes_of = file
    handoffs = [called(n, "handoff_to_b", reason=SECRET) for n in (1, 2)]
    first = Agent(
        "a", scripted([called(0, "nothing", text=SECRET), *handoffs]), guardrails=[Guardrail(hide_in_call, "tool_call")]
    )
    result = Swarm("s", [first, Agent("b", scripted("b says so"))], checkpointer=store).run("hi", RUN)
    assert [call["status"] for call in result.tool_calls] == ["error", "error", "ok"]
    assert SECRET.encode() not in bytes_of()


def test_a_chain_that_is_a_tool_gets_the_masked_arguments(store):
    def look(state):
        return {"output": state["input"].upper()}

    inner = Chain("inner").add_node("look", look)
    agent = guarded(
        store,
        Guardrail(hide_in_call, "tool_call"),
        Guardrail(hide_in_result, "tool_result"),
        script=[called(1, "inner", input=SECRET), "ok"],
        tools=[RunnerTool(inner, "Looks.")],
    )
    assert agent.run("hi", RUN).tool_calls[0]["output"] == f'{{"output":"{HIDDEN.upper()}"}}'


# -- blocks --------------------------------------------------------------------------------------------------------------


def test_a_blocked_input_starts_nothing(store, go):
    agent = guarded(store, Guardrail(saying(Block("no")), "input", name="polite"))
    with pytest.raises(GuardrailBlocked, match="Guardrail 'polite' of agent 'a' has blocked the input: no") as caught:
        go(agent.run, "hi", RUN)
    assert (caught.value.guardrail, caught.value.position) == ("polite", "input")
    assert store.get_execution(RUN) is None
    assert agent.model.calls == []


@pytest.mark.parametrize(("position", "turns"), [("tool_call", 2), ("tool_result", 1), ("output", 2)])
def test_a_block_fails_the_run_and_a_resume_repeats_no_tool(store, ledger, position, turns, go):
    verdicts = [Block("not this")]
    guard = Guardrail(lambda _: verdicts.pop() if verdicts else None, position, name="strict")
    script = ["done"] if position == "output" else [called(1, "note", text="x"), "done"]
    agent = guarded(store, guard, script=script, tools=[ledger.note()])
    with pytest.raises(GuardrailBlocked, match=f"has blocked the {position}: not this"):
        go(agent.run, "hi", RUN)
    marker = store.list(RUN)[-1]
    assert (marker.status, marker.extra["error_type"]) == ("failed", "GuardrailBlocked")
    assert marker.extra["node"].endswith("/guardrail:strict")
    assert marker.agent_path == "agent:a/guardrail:strict"
    assert len(ledger) == (position == "tool_result")
    assert go(agent.resume, RUN).output == "done"
    assert ledger == ([] if position == "output" else [("note", "x")])
    assert len(agent.model.calls) == (turns if position != "tool_result" else 2) + (position == "tool_call")


def test_a_result_that_is_in_question_is_not_lost_where_its_guardrail_was_taken_away(store, ledger):
    script = [called(1, "note", text="x"), "done"]
    with pytest.raises(GuardrailBlocked):
        guarded(
            store, Guardrail(saying(Block("no")), "tool_result", name="g"), script=script, tools=[ledger.note()]
        ).run("hi", RUN)
    result = guarded(store, script=script, tools=[ledger.note()]).resume(RUN)
    assert (result.output, result.tool_calls[0]["output"]) == ("done", "noted x")
    assert ledger == [("note", "x")]


@pytest.mark.parametrize("error", [ValueError("broken"), "yes", True, ReAsk("again"), Mask(5)])
def test_what_is_no_verdict_is_never_a_pass(store, error):
    def guard(_):
        if isinstance(error, Exception):
            raise error
        return error

    with pytest.raises((ValueError, NodeResultError)):
        guarded(store, Guardrail(guard, "input")).run("hi", RUN)
    assert store.get_execution(RUN) is None


def test_a_mask_that_no_store_keeps_fails_the_run(store, ledger):
    agent = guarded(
        store,
        Guardrail(saying(Mask({"text": object()})), "tool_call", name="g"),
        script=[called(1, "note", text="x")],
        tools=[ledger.note()],
    )
    with pytest.raises(NotStorable):
        agent.run("hi", RUN)
    assert ledger == []


@pytest.mark.parametrize("reason", [None, 5, {"a": 1}, object()], ids=lambda reason: type(reason).__name__)
@pytest.mark.parametrize("position", ["tool_call", "tool_result", "output"])
def test_a_reason_that_no_model_can_read_fails_the_run_and_is_told_to_none(store, ledger, position, reason):
    guard = Guardrail(saying(ReAsk(reason)), position, name="g")
    agent = guarded(store, guard, script=[called(1, "note", text="x"), "done"], tools=[ledger.note()])
    with pytest.raises(NodeResultError, match="give the reason as a str"):
        agent.run("hi", RUN)
    assert seen(agent.model).count("Nothing was called") == 0
    assert ledger == ([] if position == "tool_call" else [("note", "x")])
    agent.guards.all[0].fn = saying(None)
    assert agent.resume(RUN).output == "done"
    assert ledger == [("note", "x")]


@pytest.mark.parametrize("position", ["input", "tool_call", "tool_result", "output"])
def test_a_block_without_a_reason_blocks_all_the_same(store, ledger, position):
    agent = guarded(
        store,
        Guardrail(saying(Block(None)), position, name="g"),
        script=[called(1, "note", text="x"), "done"],
        tools=[ledger.note()],
    )
    with pytest.raises(GuardrailBlocked):
        agent.run("hi", RUN)
    assert ledger == ([] if position in ("input", "tool_call") else [("note", "x")])


# -- sent back -----------------------------------------------------------------------------------------------------------


def test_an_output_that_is_sent_back_is_given_again_with_the_reason_and_counts_as_a_turn(store, go):
    guard = Guardrail(lambda text: ReAsk("Be polite.") if text == "no" else None, "output", name="polite")
    agent = guarded(store, guard, script=["no", "no, thank you"])
    result = go(agent.run, "hi", RUN)
    assert result.output == "no, thank you"
    assert result.messages[2].content == "This answer is not taken: Be polite. Answer again."
    assert ids(store) == ["turn:0", "turn:1", "turn:2", "run_end"]


def test_an_output_is_sent_back_as_often_as_output_retries_allows(store):
    agent = guarded(store, Guardrail(saying(ReAsk("No.")), "output", name="never"), output_retries=1)
    with pytest.raises(GuardrailBlocked, match="Guardrail 'never' of agent 'a' has sent the output back too often: No"):
        agent.run("hi", RUN)
    assert len(agent.model.calls) == 2


def test_a_call_that_is_sent_back_is_not_made_and_the_others_are(store, ledger, go):
    guard = Guardrail(lambda call: ReAsk("Not a.") if call.arguments["text"] == "a" else None, "tool_call", name="g")
    script = [[called(1, "note", text="a"), called(2, "note", text="b")], "done"]
    agent = guarded(store, guard, script=script, tools=[ledger.note()])
    result = go(agent.run, "hi", RUN)
    assert ledger == [("note", "b")]
    assert [(call["status"], call["output"]) for call in result.tool_calls] == [
        ("error", "Not a. Nothing was called."),
        ("ok", "noted b"),
    ]


def test_a_result_that_is_sent_back_is_withheld_and_the_later_guardrails_are_not_asked(store, go):
    later = saying(None)
    agent = guarded(
        store,
        Guardrail(lambda _: ReAsk("Look elsewhere."), "tool_result", name="first"),
        Guardrail(later, "tool_result", name="later"),
        script=[called(1, "find", text="x"), "done"],
        tools=[find],
    )
    result = go(agent.run, "hi", RUN)
    assert (result.tool_calls[0]["status"], result.tool_calls[0]["output"]) == ("error", "Look elsewhere.")
    assert later.asked == []


# -- who is asked about what ---------------------------------------------------------------------------------------------


def test_each_is_asked_about_what_the_one_before_has_left_and_only_about_its_tools(store, ledger):
    louder = Guardrail(lambda message: Mask(message.content.upper()), "tool_result", name="louder")
    asked, other = saying(None), saying(None)
    agent = guarded(
        store,
        louder,
        Guardrail(asked, "tool_result", name="asked", tools=["note"]),
        Guardrail(other, "tool_call", name="other", tools=["find"]),
        script=[called(1, "note", text="x"), called(2, "find", text="y"), "done"],
        tools=[ledger.note(), find],
    )
    agent.run("hi", RUN)
    assert [(message.name, message.content) for message in asked.asked] == [("note", "NOTED X")]
    assert other.asked == [ToolCall("c2", "find", {"text": "y"})]


def test_an_error_of_a_tool_is_looked_at_like_a_result(store):
    @tool
    def leak() -> str:
        raise ValueError(SECRET)

    agent = guarded(store, Guardrail(hide_in_result, "tool_result"), script=[called(1, "leak"), "done"], tools=[leak])
    assert agent.run("hi", RUN).tool_calls[0]["output"] == f"Error: ValueError: {HIDDEN}"


def test_the_input_of_a_worker_is_looked_at_before_its_first_turn_and_its_block_fails_the_run_there(store, go):
    verdicts = [Block("not me"), Mask("something else")]
    worker = Agent(
        "w",
        scripted("done"),
        guardrails=[Guardrail(lambda _: verdicts.pop(0) if verdicts else None, "input", name="g")],
    )
    boss = Supervisor(
        "boss", scripted(called(1, "delegate_to_w", task="it"), "all done"), [Worker(worker)], checkpointer=store
    )
    with pytest.raises(GuardrailBlocked, match="Guardrail 'g' of agent 'w' has blocked the input: not me"):
        go(boss.run, "hi", RUN)
    assert store.list(RUN)[-1].agent_path == "supervisor:boss/worker:w/guardrail:g"
    assert go(boss.resume, RUN).output == "all done"
    assert [message.content for message in worker.model.calls[0].messages] == ["something else"]
    assert len(boss.model.calls) == 2


def test_in_a_swarm_the_first_agents_guardrails_are_asked_about_the_input_once(file, go):
    store, bytes_of = file
    guard = saying(hide)
    first = Agent(
        "a", scripted(called(1, "handoff_to_b", reason="x")), guardrails=[Guardrail(guard, "input", name="g")]
    )
    second = Agent("b", scripted("done"), guardrails=[Guardrail(saying(Block("never asked")), "input", name="h")])
    swarm = Swarm("s", [first, second], checkpointer=store)
    result = go(swarm.run, f"I am {SECRET}", RUN)
    assert (result.output, result.final_state["input"]) == ("done", f"I am {HIDDEN}")
    assert guard.asked == [f"I am {SECRET}"]
    assert SECRET.encode() not in bytes_of()


def test_a_swarm_inside_a_chain_asks_there(store, go):
    guards = [Guardrail(hide, "input", name="one"), Guardrail(saying(None), "input", name="two")]
    swarm = Swarm("s", [Agent("a", scripted("done"), guardrails=guards)])
    go(Chain("c", store).add_node("team", swarm, output_key="said").execute, {"input": SECRET}, RUN)
    assert [message.content for message in swarm._agents["a"].model.calls[0].messages] == [HIDDEN]


# -- crashes, places, what is refused ------------------------------------------------------------------------------------


def test_a_verdict_that_was_stored_is_not_asked_for_again(store, ledger):
    """Each guardrail says something else the second time; what came of the first time counts."""
    verdicts = {"input": [Mask("masked")], "tool_call": [Mask({"text": "masked"})]}

    def fickle(position):
        return lambda _: verdicts[position].pop() if verdicts[position] else Block("changed its mind")

    rails = [Guardrail(fickle(position), position, name=position) for position in verdicts]
    agent = guarded(store, *rails, script=[called(1, "note", text="raw"), "done"], tools=[ledger.note()])
    crashed(store, lambda: agent.run("raw", RUN), "after append turn:0/tool:note")
    assert agent.resume(RUN).final_state["input"] == "masked"
    assert ledger == [("note", "masked")]


def test_a_run_that_died_right_after_its_start_does_not_ask_about_the_input_again(store):
    guard = saying(hide)
    agent = guarded(store, Guardrail(guard, "input"))
    crashed(store, lambda: agent.run(SECRET, RUN), "after start")
    assert agent.resume(RUN).final_state["input"] == HIDDEN
    assert guard.asked == [SECRET]
    assert agent.fork(RUN).final_state["input"] == HIDDEN
    assert guard.asked == [SECRET]


def test_a_child_run_that_was_started_before_does_not_ask_again(store):
    guard, failing = saying(hide), [ValueError("once")]
    inner = guarded(store, Guardrail(guard, "input"))

    def node(_):
        said = inner.run(SECRET).output
        if failing:
            raise failing.pop()
        return {"said": said}

    flow = Chain("c", store).add_node("node", node)
    with pytest.raises(ValueError, match="once"):
        flow.execute({}, RUN)
    assert flow.resume(RUN).final_state["said"] == "fine"
    assert guard.asked == [SECRET]
    assert len(inner.model.calls) == 1


def test_an_input_guardrail_stands_outside_of_the_run(store, go):
    done = []

    @idempotent
    def look_up(text):
        done.append(text)

    def guard(text):
        look_up(text)

    go(guarded(store, Guardrail(guard, "input")).run, "hi", RUN)
    assert done == ["hi"]
    assert store.list_idempotent(RUN) == []


def test_a_guardrail_cannot_pause(store):
    def asks(_):
        interrupt("may it?")

    for position in ("input", "output"):
        with pytest.raises(InterruptNotAllowed):
            guarded(store, Guardrail(asks, position)).run("hi", position)


def test_a_sync_call_refuses_an_async_guardrail_before_it_starts(store):
    with pytest.raises(NodeIsAsync, match="guardrail:ahide"):
        guarded(store, Guardrail(ahide, "output")).run("hi", RUN)
    assert store.get_execution(RUN) is None


def test_a_paused_tool_is_asked_about_once(store, ledger):
    before, after = saying(None), saying(None)
    rails = [Guardrail(before, "tool_call", name="before"), Guardrail(after, "tool_result", name="after")]
    agent = guarded(store, *rails, script=[called(1, "charge", amount=5), "done"], tools=[ledger.charge()])
    assert agent.run("hi", RUN).status == "paused"
    assert agent.resume(RUN, YES).output == "done"
    assert (len(before.asked), len(after.asked)) == (1, 1)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Guardrail("hide", "input"), "a guardrail is made of 'hide'"),
        (lambda: Guardrail(hide, "inputs"), "position of guardrail 'hide' is 'inputs'; it is one of input, output"),
        (lambda: Guardrail(lambda _: None, "input"), "a guardrail is called '<lambda>'; give name="),
        (lambda: Guardrail(hide, "input", tools=["x"]), "tools= of guardrail 'hide'"),
        (lambda: Guardrail(hide, "tool_call", tools="x"), "tools= of guardrail 'hide' is 'x'; give names of tools"),
        (lambda: guarded(None, hide), "among its guardrails; give Guardrail"),
        (lambda: guarded(None, Guardrail(hide, "input"), Guardrail(hide, "output")), "two guardrails called 'hide'"),
        (
            lambda: guarded(None, Guardrail(hide, "output"), replay_model=True),
            "records what the model says as it comes",
        ),
    ],
)
def test_what_is_wrong_with_a_guardrail_is_said_when_it_is_made(make, said):
    with pytest.raises(GraphError, match=said):
        make()


def test_with_replay_the_input_and_results_can_be_guarded(store):
    rails = [Guardrail(hide, "input", name="in"), Guardrail(hide_in_result, "tool_result", name="out")]
    agent = guarded(store, *rails, script=[called(1, "find", text="x"), "done"], tools=[find], replay_model=True)
    assert agent.run(SECRET, RUN).tool_calls[0]["output"] == f"found x and {HIDDEN}"


def test_a_limit_of_turns_counts_what_was_sent_back(store):
    agent = guarded(store, Guardrail(saying(ReAsk("No.")), "output", name="never"), output_retries=9, max_turns=2)
    with pytest.raises(Exception, match="max_turns"):
        agent.run("hi", RUN)


def test_a_model_that_is_a_function_is_guarded_as_well(store):
    agent = Agent("a", FunctionModel(lambda _: SECRET), guardrails=[Guardrail(hide, "output")], checkpointer=store)
    assert agent.run("hi").output == HIDDEN
