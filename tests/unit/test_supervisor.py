"""A supervisor and its workers: addresses, pauses, what is not repeated, what is counted."""

from __future__ import annotations

import asyncio

import pytest

import fastdur
from fastdur import (
    Agent,
    AgentLimitError,
    AlreadyResumed,
    Chain,
    FunctionModel,
    GraphChanged,
    GraphError,
    Resume,
    RunCancelled,
    Supervisor,
    Worker,
    interrupt,
)
from fastdur.boundaries import observe
from fastdur.errors import SimulatedCrash
from pytest_fastdur.sweep import Story, explore
from tests.unit.teams import COST, FORMS, NO, RUN, YES, Ledger, boss, called, ids, payer, scripted, writer


@pytest.fixture
def ledger():
    return Ledger()


@pytest.mark.case("S95")
@pytest.mark.parametrize("stored", [True, False])
def test_two_tasks_for_one_worker_in_one_turn_and_in_two_are_told_apart(store, go, ledger, stored):
    script = [[called(0, "delegate_to_writer", task="a"), called(1, "delegate_to_writer", task="b")]]
    team = boss(ledger, *script, called(2, "delegate_to_writer", task="c"), store=store if stored else False)
    result = go(team.run, "go", RUN)
    assert ledger == [("note", "a"), ("note", "b"), ("note", "c")]
    own = [each for each in result.tool_calls if not each["place"]]
    assert [each["output"] for each in own] == ["A", "B", "C"]
    if not stored:
        return
    assert ids(store) == [
        "turn:0",
        "turn:0/tool:delegate_to_writer",
        "turn:0/tool:delegate_to_writer/turn:0",
        "turn:0/tool:delegate_to_writer/turn:0/tool:note",
        "turn:0/tool:delegate_to_writer/turn:1",
        "turn:0/tool:delegate_to_writer/turn:2",
        "turn:0/tool:delegate_to_writer",
        "turn:0/tool:delegate_to_writer#2",
        "turn:0/tool:delegate_to_writer#2/turn:0",
        "turn:0/tool:delegate_to_writer#2/turn:0/tool:note",
        "turn:0/tool:delegate_to_writer#2/turn:1",
        "turn:0/tool:delegate_to_writer#2/turn:2",
        "turn:0/tool:delegate_to_writer#2",
        "turn:1",
        "turn:1/tool:delegate_to_writer",
        "turn:1/tool:delegate_to_writer/turn:0",
        "turn:1/tool:delegate_to_writer/turn:0/tool:note",
        "turn:1/tool:delegate_to_writer/turn:1",
        "turn:1/tool:delegate_to_writer/turn:2",
        "turn:1/tool:delegate_to_writer",
        "turn:2",
        "turn:3",
        "run_end",
    ]
    paths = {row.agent_path for row in store.list(RUN) if "tool:note" in row.node_id}
    assert paths == {"supervisor:boss/worker:writer/tool:note"}


@pytest.mark.case("S20")
@pytest.mark.case("S21")
@pytest.mark.case("S49")
@pytest.mark.parametrize("answer", [YES, NO], ids=["approved", "refused"])
@pytest.mark.parametrize("form", FORMS)
def test_the_gate_of_one_agent_holds_in_every_form_with_a_path_that_tells_them_apart(store, go, ledger, form, answer):
    build, path, place = FORMS[form]
    given = {"input": "pay 5"}
    question = go(build(ledger, store).execute, given, RUN).pending_interrupt
    assert (question.agent_path, question.node_id, question.reason) == (path, place, "approve_charge")
    assert ledger == []
    result = go(build(Ledger() if not answer.approved else ledger, store).resume, RUN, answer)
    assert result.status == "completed"
    assert ledger == ([("charge", 5)] if answer.approved else [])
    charge = next(each for each in result.tool_calls if each["name"] == "charge")
    assert charge["status"] == ("ok" if answer.approved else "refused")
    assert answer.approved or "too much" in charge["output"]
    with pytest.raises(AlreadyResumed):
        go(build(ledger, store).resume, RUN, answer)


@pytest.mark.parametrize("form", FORMS)
def test_result_decide_cancel_and_fork_know_every_form(store, go, ledger, form):
    build, _, place = FORMS[form]
    runner = build(ledger, store)
    go(runner.execute, {"input": "pay 5"}, RUN)
    assert go(runner.result, RUN).status == "paused"
    asked = [row.seq for row in store.list(RUN) if row.step_type == "hitl_pause"]
    again = go(runner.fork, RUN, new_execution_id="branch")
    assert again.pending_interrupt.node_id == place
    go(runner.cancel, "branch")
    with pytest.raises(RunCancelled):
        go(runner.resume, "branch", YES)
    assert go(runner.resume, "branch", reopen=True).pending_interrupt.node_id == place
    assert go(runner.resume, "branch", NO).status == "completed"
    assert ledger == []
    go(runner.decide, RUN, YES)
    assert ledger == []
    result = go(build(ledger, store).resume, RUN)
    assert (result.status, [*ledger]) == ("completed", [("charge", 5)])
    read = go(runner.result, RUN)
    assert (read.tool_calls, read.tokens) == (result.tool_calls, result.tokens)
    assert [row.seq for row in read.history if row.step_type == "hitl_pause"] == asked


@pytest.mark.case("S45")
def test_two_paused_runs_of_one_team_are_resumed_interleaved_each_with_its_own_decision(store, go, ledger):
    def team():
        two = payer(ledger, 5, 6)
        return boss(ledger, called(0, "delegate_to_money", task="pay"), store=store, workers=[Worker(two, "money")])

    one = team()
    for run in ("a", "b"):
        go(one.run, f"pay for {run}", run)
    answers = {"a": [YES, NO], "b": [NO, YES]}
    for turn in range(2):
        for run, said in answers.items():
            result = go(one.resume, run, said[turn])
            assert result.execution_id == run
    statuses = {
        run: [each["status"] for each in one.result(run).tool_calls if each["name"] == "charge"] for run in answers
    }
    assert statuses == {"a": ["ok", "refused"], "b": ["refused", "ok"]}
    assert ledger == [("charge", 5), ("charge", 6)]


@pytest.mark.case("S50")
def test_a_worker_that_pauses_three_times_is_answered_by_three_and_nothing_finished_is_repeated(store, go, ledger):
    def team():
        three = payer(ledger, 1, 2, 3)
        script = [called(0, "delegate_to_writer", task="x"), called(1, "delegate_to_money", task="pay")]
        workers = [Worker(writer(ledger), "writer"), Worker(three, "money")]
        return boss(ledger, *script, store=store, workers=workers)

    result = go(team().run, "go", RUN)
    for number in range(3):
        assert result.pending_interrupt.node_id == f"turn:1/tool:delegate_to_money/turn:{number}/tool:charge"
        result = go(team().resume, RUN, YES)
    assert result.output == "all done"
    assert ledger == [("note", "x"), ("charge", 1), ("charge", 2), ("charge", 3)]
    assert [row.node_id for row in store.list(RUN)].count("turn:1/tool:delegate_to_money/turn:1") == 1


def test_a_chain_and_a_team_are_workers_too(store, go, ledger):
    ask = Chain("ask").add_node("ask", lambda state: {"said": interrupt("who", {}).metadata, "of": state["input"]})
    inner = boss(ledger, called(0, "delegate_to_writer", task="deep"))

    def team():
        script = [called(0, "delegate_to_ask", task="x"), called(1, "delegate_to_inner", task="y")]
        return boss(ledger, *script, store=store, workers=[Worker(ask), Worker(inner, "inner")])

    question = go(team().run, "go", RUN).pending_interrupt
    assert (question.agent_path, question.reason) == ("supervisor:boss/worker:ask", "who")
    result = go(team().resume, RUN, Resume(approved=True, metadata={"by": "ada"}))
    assert [each["output"] for each in result.tool_calls if not each["place"]] == [
        '{"said":{"by":"ada"},"of":"x"}',
        "all done",
    ]
    note = next(row for row in store.list(RUN) if row.node_id.endswith("tool:note"))
    assert note.agent_path == "supervisor:boss/worker:inner/worker:writer/tool:note"


def test_a_failure_in_a_worker_fails_the_run_which_goes_on_in_that_worker(store, go, ledger):
    down = [OSError("down")]

    def say(messages):
        if len(messages) > 1 and down:
            raise down.pop()
        return called(0, "note", text="x") if len(messages) == 1 else "written"

    def team():
        worker = Worker(Agent("w", FunctionModel(say, usage=COST), [ledger.note()]), "writer")
        return boss(ledger, called(0, "delegate_to_writer", task="x"), store=store, workers=[worker])

    with pytest.raises(OSError, match="down"):
        go(team().run, "go", RUN)
    failed = store.list(RUN)[-1]
    assert (failed.status, failed.extra["node"]) == ("failed", "turn:0/tool:delegate_to_writer/turn:1")
    result = go(team().resume, RUN)
    assert (result.output, [*ledger]) == ("all done", [("note", "x")])
    assert result.tool_calls[0]["output"] == "written"


def test_tokens_and_calls_of_the_whole_team_are_in_the_result_before_and_after_a_resume(store, go, ledger):
    def team():
        script = [called(0, "delegate_to_writer", task="x"), called(1, "delegate_to_money", task="pay")]
        return boss(ledger, *script, store=store)

    paused = go(team().run, "go", RUN)
    assert paused.tokens == 11 * (2 + 2 + 1)
    assert [(each["place"], each["name"]) for each in paused.tool_calls] == [
        ("", "delegate_to_writer"),
        ("turn:0/tool:delegate_to_writer", "note"),
    ]
    result = go(team().resume, RUN, YES)
    assert result.tokens == 11 * (2 + 3 + 2)
    assert [(each["place"], each["name"]) for each in result.tool_calls] == [
        ("", "delegate_to_writer"),
        ("", "delegate_to_money"),
        ("turn:0/tool:delegate_to_writer", "note"),
        ("turn:1/tool:delegate_to_money", "charge"),
    ]
    assert result.wasted_tokens == 0


def test_tokens_and_calls_of_an_agent_are_those_of_the_chain_around_it(store, go, ledger):
    flow = Chain("flow", store).add_node("a", writer(ledger), output_key="said").add_node("b", lambda state: None)
    result = go(flow.connect("a", "b").execute, {"input": "x"}, RUN)
    assert (result.tokens, result.messages) == (22, [])
    assert [(each["place"], each["name"]) for each in result.tool_calls] == [("a", "note")]


def test_tokens_that_a_worker_asks_for_twice_are_counted_as_wasted(store, go, ledger):
    team = boss(ledger, called(0, "delegate_to_writer", task="x"), store=store)
    dead = []

    def die(boundary):
        if (boundary.when, boundary.name) == ("after", "model turn:0/tool:delegate_to_writer/turn:0") and not dead:
            dead.append(boundary)
            raise SimulatedCrash("x")

    with observe(die, store), pytest.raises(SimulatedCrash):
        team.run("go", RUN)
    result = go(team.resume, RUN)
    assert (result.tokens, result.wasted_tokens) == (11 * 4, 11)


# -- limits --------------------------------------------------------------------------------------------------------------


def test_the_bound_of_tokens_of_a_team_stops_a_worker_and_a_raised_one_leads_on(store, go, ledger):
    script = [called(0, "delegate_to_writer", task="x")]
    with pytest.raises(AgentLimitError, match="Supervisor 'boss' has used 22 tokens of its 20"):
        go(boss(ledger, *script, store=store, max_tokens=20).run, "go", RUN)
    assert store.list(RUN)[-1].extra["node"] == "turn:0/tool:delegate_to_writer/turn:1"
    with pytest.raises(AgentLimitError):
        go(boss(ledger, *script, store=store, max_tokens=22).resume, RUN)
    result = go(boss(ledger, *script, store=store, max_tokens=40).resume, RUN)
    assert (result.status, result.tokens, [*ledger]) == ("completed", 44, [("note", "x")])


class Clock:
    """Seconds that pass when a tool or a model says so."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def slow(self, model, seconds):
        plain = model.complete

        def complete(request):
            self.now += seconds
            return plain(request)

        model.complete = complete
        return model


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr("fastdur._drivers.monotonic", made)
    return made


def test_the_limit_of_time_counts_the_time_spent_running_over_pauses_and_crashes(store, go, ledger, clock):
    def agent(seconds):
        slow = payer(ledger, 1, 2, store=store, max_seconds=seconds)
        clock.slow(slow.model, 2)
        return slow

    go(agent(5).run, "go", RUN)
    clock.now += 1000  # a human thinks, and nothing runs
    go(agent(5).resume, RUN, YES)
    with pytest.raises(AgentLimitError, match="Agent 'payer' has run for 4 s of its 4"):
        go(agent(4).resume, RUN, YES)
    assert store.list(RUN)[-1].extra["node"] == "turn:2"
    assert ledger == [("charge", 1), ("charge", 2)]
    assert go(agent(5).resume, RUN).output == "paid"


def test_the_limit_of_time_of_a_team_counts_its_workers_and_stops_them_before_a_tool(store, go, ledger, clock):
    def team(seconds):
        worker = writer(ledger)
        clock.slow(worker.model, 3)
        script = [called(0, "delegate_to_writer", task="x")]
        return boss(ledger, *script, store=store, workers=[Worker(worker, "writer")], max_seconds=seconds)

    with pytest.raises(AgentLimitError, match=r"Supervisor 'boss' has run for 3 s of its 2\.5"):
        go(team(2.5).run, "go", RUN)
    assert ledger == []
    assert store.list(RUN)[-1].extra["node"] == "turn:0/tool:delegate_to_writer/turn:0/tool:note"
    result = go(team(9).resume, RUN)
    assert (result.output, [*ledger]) == ("all done", [("note", "x")])


def test_the_time_of_tries_that_failed_counts_and_that_of_a_failed_model_too(store, go, ledger, clock):
    down = [OSError("down")]

    def say(messages):
        clock.now += 2
        if down:
            raise down.pop()
        return "up"

    with pytest.raises(OSError, match="down"):
        go(Agent("a", FunctionModel(say), max_seconds=2, checkpointer=store).run, "go", RUN)
    with pytest.raises(AgentLimitError, match="2 s of its 2"):
        go(Agent("a", FunctionModel(say), max_seconds=2, checkpointer=store).resume, RUN)
    assert go(Agent("a", FunctionModel(say), max_seconds=2.5, checkpointer=store).resume, RUN).output == "up"


# -- what does not fit ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Supervisor("s", scripted("x"), []), "no worker"),
        (lambda: Supervisor("s", scripted("x"), [Agent("a", scripted("x"))]), "among its workers"),
        (lambda: Worker(len), "give a Chain or an Agent"),
        (lambda: Worker(Agent("a b", scripted("x"))), "delegate_to_a b"),
        (lambda: boss(Ledger(), workers=[Worker(payer(Ledger())), Worker(payer(Ledger()))]), "two tools"),
        (lambda: boss(Ledger(), max_turns=0), "max_turns of supervisor 'boss'"),
        (lambda: boss(Ledger(), max_seconds=0), "max_seconds of supervisor 'boss'"),
        (lambda: Agent("a", scripted("x"), max_seconds="1"), "max_seconds of agent 'a'"),
    ],
)
def test_a_team_that_cannot_be_is_refused_when_it_is_made(make, said):
    with pytest.raises(GraphError, match=said):
        make()


def test_a_worker_that_is_gone_or_asks_elsewhere_is_refused_and_nothing_is_consumed(store, go, ledger):
    go(boss(ledger, called(0, "delegate_to_money", task="pay"), store=store).run, "go", RUN)
    with pytest.raises(GraphChanged):
        go(boss(ledger, store=store, workers=[Worker(writer(ledger))]).resume, RUN, YES)
    other = Worker(Agent("payer", scripted("x"), [ledger.note()]), "money")
    with pytest.raises(GraphChanged):
        go(boss(ledger, store=store, workers=[other]).resume, RUN, YES)
    assert len(store.list_pending_interrupts(RUN)) == 1


# -- runs that a plain function starts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["alone", "worker", "swarm"])
def test_a_team_that_a_plain_node_starts_is_a_child_run_and_goes_on_with_it(store, go, ledger, form):
    def team():
        build = FORMS[form][0]
        return build(ledger, store)

    def begin(state):
        result = team().run("pay", "child")
        return {"status": result.status, "tokens": result.tokens}

    flow = Chain("flow", store).add_node("begin", begin)
    assert flow.execute({}, RUN).output["status"] == "paused"
    assert fastdur.result("child", store).status == "paused"
    assert go(team().resume, "child", YES).status == "completed"
    assert store.get_execution("child").parent_id == RUN


@pytest.mark.case("S52")
def test_a_sync_call_of_a_team_inside_a_running_loop_works_and_blocks_it(store, ledger):
    async def inside():
        team = boss(ledger, called(0, "delegate_to_money", task="pay"), store=store)
        team.run("go", RUN)
        return team.resume(RUN, YES)

    assert asyncio.run(inside()).output == "all done"
    assert ledger == [("charge", 5)]


# -- crashes at every boundary -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["crash", "raise"])
@pytest.mark.parametrize("form", ["worker", "swarm", "swarm in a worker in a chain"])
def test_a_team_holds_whatever_fault_strikes_it_at_whatever_boundary(form, fault):
    story = Story(form, lambda store: FORMS[form][0](Ledger(), store), {"input": "x"}, answers={"approve_charge": YES})
    report = explore(story, (fault,))
    assert report.ok, report.render()
