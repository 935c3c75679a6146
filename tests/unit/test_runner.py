"""What every runner offers: starting, resuming, reading, deciding, cancelling, recovering; and what is refused first."""

import asyncio

import pytest

import fastdur
from fastdur import (
    AlreadyResumed,
    Chain,
    ChainResumeError,
    GraphChanged,
    GraphError,
    NodeIsAsync,
    NotStorable,
    Recovered,
    Resume,
    RunCancelled,
    RunExists,
    RunInProgress,
    RunNotFound,
    SimulatedCrash,
    SQLiteCheckpointer,
    UnknownInterrupt,
    interrupt,
)
from tests.unit.running import at, dump, flow, kinds, last, raising

DIE = raising(SimulatedCrash())
YES = Resume(True)


def asks(state):
    return {"answer": interrupt("ok?").approved}


async def later(state):
    return {"n": 1}


def crash(made, where, **options):
    with at(where, DIE), pytest.raises(SimulatedCrash):
        made.execute(**options)


# -- starting ------------------------------------------------------------------------------------------------------------


def test_a_run_is_named_by_its_caller_or_gets_a_fresh_name(store, go):
    made = flow(store, last)
    assert go(made.execute, execution_id="r").execution_id == "r"
    names = {go(made.execute).execution_id for _ in range(3)}
    assert len(names) == 3
    assert all(len(name) == 32 for name in names)


def test_a_run_that_was_started_before_is_not_started_again(store, go):
    made = flow(store, last)
    go(made.execute, {"n": 1}, "r")
    before = dump(store)
    with pytest.raises(RunExists, match="'r'"):
        go(made.execute, {"n": 2}, "r")
    assert dump(store) == before


@pytest.mark.parametrize("id", ["", 5, b"r", ["r"]])
def test_a_name_that_is_no_text_is_refused(store, go, id):
    made = flow(store, last)
    for call in (lambda: go(made.execute, None, id), lambda: go(made.resume, id), lambda: go(made.result, id)):
        with pytest.raises(TypeError, match="execution_id"):
            call()
    assert store.list_executions() == []


@pytest.mark.parametrize("input", [5, "text", [("n", 1)], {1, 2}])
def test_an_input_that_is_no_dict_is_refused(store, go, input):
    with pytest.raises(TypeError, match="input of chain 'c'"):
        go(flow(store, last).execute, input)


def test_an_input_that_cannot_be_stored_is_refused_naming_it(store, go):
    with pytest.raises(NotStorable, match=r"input\['x'\]"):
        go(flow(store, last).execute, {"x": object()})
    assert store.list_executions() == []


def test_the_input_is_not_the_callers_dict(store, go):
    def a(state):
        state["items"].append(1)

    given = {"items": []}
    assert go(flow(store, a).execute, given).final_state == {"items": [1]}
    assert given == {"items": []}


def test_a_run_without_input_begins_with_an_empty_state(store, go):
    assert go(flow(store, last).execute).final_state == go(flow(store, last).execute, {}).final_state == {}


# -- resuming ------------------------------------------------------------------------------------------------------------


@pytest.mark.case("S22")
def test_a_paused_run_is_resumed_with_one_answer(store, go):
    made = flow(store, last, asks)
    assert go(made.execute, execution_id="r").status == "paused"
    assert go(made.resume, "r", YES).output == {"answer": True}
    assert kinds(store) == [
        ("last", "completed"), ("asks", "interrupted"), ("asks", "resumed"), ("asks", "completed"),
        ("run_end", "completed"),
    ]  # fmt: skip


@pytest.mark.parametrize("answer", [True, "yes", {"approved": True}])
def test_an_answer_that_is_no_answer_is_refused(store, go, answer):
    made = flow(store, asks)
    go(made.execute, execution_id="r")
    for call in (lambda: go(made.resume, "r", answer), lambda: go(made.decide, "r", answer)):
        with pytest.raises(TypeError, match="Resume"):
            call()
    with pytest.raises(TypeError, match=r"decide\(\) needs an answer"):
        go(made.decide, "r", None)
    assert go(made.result, "r").status == "paused"


@pytest.mark.parametrize("changes", [5, [("n", 1)], "text"])
def test_a_modified_state_that_is_no_dict_is_refused(store, go, changes):
    made = flow(store, asks)
    go(made.execute, execution_id="r")
    with pytest.raises(TypeError, match="modified_state"):
        go(made.resume, "r", YES, modified_state=changes)
    with pytest.raises(NotStorable, match=r"modified_state\['x'\]"):
        go(made.resume, "r", YES, modified_state={"x": object()})
    assert len(store.list_pending_interrupts()) == 1


@pytest.mark.case("S46")
@pytest.mark.parametrize(
    "options",
    [
        {"modified_state": {"n": 1}}, {"modified_state": {}}, {"agent_path_prefix": "asks"}, {"context": object()},
        {"takeover": True}, {"accept_graph": True}, {"reopen": True},
        {"modified_state": {"n": 1}, "agent_path_prefix": "asks", "context": 5, "takeover": True, "accept_graph": True,
         "reopen": True},
    ],
)  # fmt: skip
def test_an_answer_counts_whatever_else_is_said(store, go, options):
    made = flow(store, asks)
    go(made.execute, execution_id="r")
    assert go(made.resume, "r", YES, **options).output == {"answer": True}


@pytest.mark.case("S11")
def test_an_answer_to_a_question_that_is_not_there_is_refused_and_consumes_nothing(store, go):
    made = flow(store, asks)
    for run in "rs":
        go(made.execute, execution_id=run)
    go(made.resume, "s", YES)
    before = dump(store)
    with pytest.raises(UnknownInterrupt, match=r"'b#1/1'.*a?sks#1/1"):
        go(made.resume, "r", Resume(True, interrupt_id="b#1/1"))
    with pytest.raises(AlreadyResumed):
        go(made.resume, "s", Resume(True, interrupt_id="asks#1/1"))
    assert dump(store) == before


def test_a_question_that_only_the_history_knows_was_answered_before(store, go):
    inner = flow(False, asks)
    made = Chain("c", store).add_node("b", inner).add_node("z", asks).connect("b", "z")
    go(made.execute, execution_id="r")
    go(made.resume, "r", YES)
    with pytest.raises(AlreadyResumed, match="b#1/asks#1/1"):
        go(made.resume, "r", Resume(True, interrupt_id="b#1/asks#1/1"))
    with pytest.raises(UnknownInterrupt):
        go(made.resume, "r", Resume(True, interrupt_id="x#1/y#1/1"))


@pytest.mark.case("S87")
def test_a_run_that_is_not_there_is_looked_for_in_a_store_that_is_named(tmp_path, go):
    store = SQLiteCheckpointer(tmp_path / "runs.db")
    made = flow(store, last)
    for call in (made.resume, made.result, made.cancel, lambda run: made.decide(run, YES)):
        with pytest.raises(RunNotFound, match=str(tmp_path / "runs.db")):
            call("gone")
    store.close()


@pytest.mark.case("S08")
def test_a_runner_that_does_not_fit_is_refused_and_the_question_stays(store, go):
    made = flow(store, last, asks)
    go(made.execute, execution_id="r")
    before = dump(store)
    with pytest.raises(GraphChanged, match="'asks'"):
        go(flow(store, last).resume, "r", YES)
    assert dump(store) == before
    assert go(made.resume, "r", YES).status == "completed"


# -- runs by their id ----------------------------------------------------------------------------------------------------


def both_ways(name, *args):
    """A function of the package, sync and async."""
    return [
        lambda: getattr(fastdur, name)(*args),
        lambda: asyncio.run(getattr(fastdur, f"a{name}")(*args)),
    ]


@pytest.mark.parametrize("way", [0, 1])
def test_any_run_is_read_decided_and_cancelled_by_its_id(store, way):
    made = flow(store, asks)
    made.execute({"n": 1}, "r")
    made.execute({"n": 1}, "s")
    assert both_ways("result", "r", store)[way]().pending_interrupt.reason == "ok?"
    assert both_ways("decide", "r", YES, store)[way]() is None
    assert both_ways("result", "r", store)[way]().status == "running"
    assert made.resume("r").final_state == {"n": 1, "answer": True}
    both_ways("cancel", "s", store)[way]()
    assert both_ways("result", "s", store)[way]().status == "cancelled"


def test_a_runner_reads_decides_and_cancels_its_own_runs(store, go):
    made = flow(store, asks)
    go(made.execute, execution_id="r")
    go(made.decide, "r", YES)
    go(made.decide, "r", YES)
    with pytest.raises(AlreadyResumed, match="another answer"):
        go(made.decide, "r", Resume(False))
    go(made.cancel, "r")
    go(made.cancel, "r")
    assert go(made.result, "r").status == "cancelled"
    with pytest.raises(RunCancelled, match="reopen=True"):
        go(made.resume, "r")
    assert go(made.resume, "r", reopen=True).output == {"answer": True}
    with pytest.raises(AlreadyResumed):
        go(made.cancel, "r")


@pytest.mark.case("S60")
def test_a_cancelled_run_has_no_open_question_and_asks_again_when_it_is_reopened(store, go):
    made = flow(store, asks)
    go(made.execute, execution_id="r")
    go(made.cancel, "r")
    assert store.list_pending_interrupts() == []
    assert go(made.resume, "r", reopen=True).pending_interrupt.interrupt_id == "asks#1/1"


@pytest.mark.case("S14")
def test_a_completed_run_is_refused_with_its_result_and_nothing_runs(store, go):
    runs = []

    def a(state):
        runs.append(1)
        return {"n": len(runs)}

    made = flow(store, a)
    result = go(made.execute, execution_id="r")
    before = dump(store)
    for answer in (None, YES):
        with pytest.raises(AlreadyResumed) as refused:
            go(made.resume, "r", answer)
        assert refused.value.result == result
    assert (runs, dump(store)) == ([1], before)


def test_a_result_holds_the_whole_history_ascending(store, go):
    made = flow(store, last, asks)
    go(made.execute, execution_id="r")
    result = go(made.result, "r")
    assert [row.seq for row in result.history] == [1, 2]
    assert result.status == "paused"
    assert result.pending_interrupts == tuple(store.list_pending_interrupts("r"))


# -- recovering ----------------------------------------------------------------------------------------------------------


@pytest.mark.case("S13")
def test_runs_that_were_left_alone_are_carried_on_in_the_order_they_were_started(store, go):
    made = flow(store, last, asks)
    for run in "abc":
        crash(made, "before append last", execution_id=run)
    assert [(each.execution_id, each.result.status, each.error) for each in go(made.recover)] == [
        ("a", "paused", None), ("b", "paused", None), ("c", "paused", None),
    ]  # fmt: skip
    assert go(made.recover) == []


def test_only_what_is_due_and_whose_owner_is_gone_is_carried_on(store, go):
    def a(state):
        if state.get("fails"):
            raise ValueError
        assert made.recover() == []
        return asks(state)

    made = flow(store, a)
    made.execute(execution_id="paused")
    with pytest.raises(ValueError):
        made.execute({"fails": True}, "failed")
    made.execute(execution_id="cancelled")
    made.cancel("cancelled")
    crash(flow(store, a, name="other"), "before node a", execution_id="of another chain")
    assert go(made.recover) == []


class Team(Chain):
    kind = "team"


def test_a_run_of_another_kind_of_runner_is_left_alone(store, go):
    crash(flow(store, last), "before node last", execution_id="r")
    assert Team("c", store).add_node("last", last).recover() == []
    assert len(go(flow(store, last).recover)) == 1


def test_a_node_that_fails_while_it_is_carried_on_is_part_of_the_report(store, go):
    def a(state):
        raise ValueError("no")

    made = flow(store, a)
    crash(made, "before node a", execution_id="r")
    (report,) = go(made.recover)
    assert (report.result.status, str(report.error)) == ("failed", "no")


def test_a_run_that_cannot_go_on_is_reported_and_does_not_stop_the_others(store, go):
    crash(flow(store, last, asks), "after append last", execution_id="r")
    made = flow(store, asks)
    crash(made, "before node asks", execution_id="s")
    reports = go(made.recover)
    assert [(each.execution_id, type(each.error)) for each in reports] == [("r", GraphChanged), ("s", type(None))]
    assert reports[0].result is None
    assert reports[1].result.status == "paused"


def test_a_run_that_never_gets_any_further_is_tried_a_bounded_number_of_times(store, go):
    made = flow(store, last)
    crash(made, "before node last", execution_id="r")
    for _ in range(3):
        with at("before node last", DIE), pytest.raises(SimulatedCrash):
            go(made.recover)
    (report,) = go(made.recover)
    assert isinstance(report.error, ChainResumeError)
    assert "3 times without getting any further" in str(report.error)
    assert go(made.recover, max_attempts=9)[0].result.status == "completed"


def test_a_row_makes_the_number_of_attempts_whole_again(store, go):
    made = flow(store, last, asks)
    crash(made, "before append last", execution_id="r")
    for where in ("after append last", "before node asks"):
        with at(where, DIE), pytest.raises(SimulatedCrash):
            go(made.recover, max_attempts=2)
    assert go(made.recover, max_attempts=2)[0].result.status == "paused"


def test_runs_of_several_runners_are_carried_on_together(store):
    one, two = flow(store, last, name="one"), flow(store, last, name="two")
    for made in (one, two):
        crash(made, "before node last", execution_id=made.name)
    assert [type(each) for each in fastdur.recover([one, two])] == [Recovered, Recovered]
    for made in (one, two):
        crash(made, "before node last", execution_id=f"{made.name} again")
    reports = asyncio.run(fastdur.arecover([one, two]))
    assert [each.execution_id for each in reports] == ["one again", "two again"]


def test_an_async_chain_is_not_carried_on_by_a_sync_call_and_says_so(store):
    made = flow(store, later)
    crash_async(made)
    assert isinstance(made.recover()[0].error, NodeIsAsync)
    assert asyncio.run(made.arecover())[0].result.final_state == {"n": 1}


def crash_async(made):
    with at("before node later", DIE), pytest.raises(SimulatedCrash):
        asyncio.run(made.aexecute(execution_id="r"))


# -- the default store ---------------------------------------------------------------------------------------------------


def test_without_a_store_the_default_one_is_used_by_runners_and_functions_alike(tmp_path, monkeypatch, go):
    monkeypatch.setenv("FASTDUR_DB", str(tmp_path / "default.db"))
    made = flow(None, asks)
    go(made.execute, execution_id="r")
    assert made.checkpointer.location == str(tmp_path / "default.db")
    fastdur.decide("r", YES)
    assert go(made.resume, "r").status == "completed"
    assert fastdur.result("r").output == {"answer": True}
    made.checkpointer.close()


# -- taking over ---------------------------------------------------------------------------------------------------------


def test_a_run_at_work_is_taken_over_only_where_that_is_said(store):
    inside = []

    def a(state):
        if not inside:
            inside.append(1)
            with pytest.raises(RunInProgress):
                made.resume("r")
            inside.append(made.resume("r", takeover=True).status)
        return {"n": 1}

    made = flow(store, a)
    with pytest.raises(fastdur.StaleRun):
        made.execute(execution_id="r")
    assert inside == [1, "completed"]


# -- a graph stays as it is while a run goes through it --------------------------------------------------------------------


CHANGES = [
    lambda made: made.add_node("x", last),
    lambda made: made.connect("last", "a", when=lambda _: False, max_iterations=2),
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("nested", [False, True])
def test_a_graph_is_not_changed_under_a_run(store, go, change, nested):
    """A node added in the middle of a run could make a join run twice, because it was no longer seen to wait."""
    refused = []

    def a(state):
        with pytest.raises(GraphError, match="while run 'r' of chain") as error:
            change(inner)
        refused.append(str(error.value))

    inner = flow(store, a, last, name="inner")
    made = Chain("outer", store).add_node("inner", inner) if nested else inner
    assert go(made.execute, {}, "r").status == "completed"
    assert len(refused) == 1
    change(inner)


def test_a_graph_may_be_changed_beside_a_run_of_another_one_and_between_two_of_its_own(store):
    other = flow(store, last, name="other")

    def a(state):
        change(other)

    def change(made):
        made.add_node(f"x{len(other.functions())}", last).connect("last", f"x{len(other.functions()) - 1}")

    flow(store, a).execute()
    assert other.execute().status == "completed"
    change(other)
    assert len(other.functions()) == 3
    assert other.execute().status == "completed"


# -- what can be seen to be wrong at once -----------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["$", 5, b"k", "", "\ud83d\ude00"])
@pytest.mark.parametrize("inner", [False, True])
def test_an_output_key_that_no_state_can_have_is_refused_when_it_is_given(key, inner):
    node = Chain("inner", checkpointer=False).add_node("a", last) if inner else last
    if key == "":  # an empty text is a key like any other
        Chain("c", checkpointer=False).add_node("n", node, output_key=key)
        return
    with pytest.raises(GraphError, match="output_key= of node 'n'"):
        Chain("c", checkpointer=False).add_node("n", node, output_key=key)


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan"), 1e10, "5", True])
def test_a_timeout_that_nobody_can_wait_for_is_refused_when_it_is_given(timeout):
    with pytest.raises(GraphError, match="timeout= of node 'n'"):
        Chain("c", checkpointer=False).add_node("n", last, timeout=timeout)


def test_an_input_that_is_no_function_is_refused_when_it_is_given():
    inner = Chain("inner", checkpointer=False).add_node("a", last)
    with pytest.raises(GraphError, match="input= of node 'n'"):
        Chain("c", checkpointer=False).add_node("n", inner, input=5)


@pytest.mark.parametrize("wrong", [5, "runs.db", b"runs.db", object()])
def test_what_is_no_store_is_refused_wherever_a_store_is_given(wrong):
    for call in (lambda: Chain("c", wrong), lambda: fastdur.result("r", wrong), lambda: fastdur.cancel("r", wrong)):
        with pytest.raises(TypeError, match="no store"):
            call()


@pytest.mark.parametrize(
    ("runners", "options", "told"),
    [
        (lambda made: made, {}, r"\[chain\]"),
        (lambda made: [made, "c"], {}, "not str"),
        (lambda made: [made], {"max_attempts": "3"}, "max_attempts"),
        (lambda made: [made], {"max_attempts": 0}, "max_attempts"),
    ],
)
def test_recover_takes_several_runners_and_a_number(store, runners, options, told):
    with pytest.raises(TypeError, match=told):
        fastdur.recover(runners(flow(store, last)), **options)


def test_what_only_looks_like_a_yes_is_none(store):
    with pytest.raises(TypeError, match="takeover='no'"):
        flow(store, last).resume("r", takeover="no")


def test_other_arguments_that_are_no_good_are_refused_by_name(store):
    with pytest.raises(TypeError, match="interrupt_id"):
        Resume(True, interrupt_id=5)
    with pytest.raises(TypeError, match="key_fn"):
        fastdur.idempotent(key_fn=5)(last)
    with pytest.raises(TypeError, match="no text"):
        fastdur.SQLiteCheckpointer(b"runs.db")
    with pytest.raises(ValueError, match="lease"):
        fastdur.SQLiteCheckpointer(":memory:", lease="5")

    def ask(state):
        fastdur.interrupt("ok?", on_changed_context="bogus")

    with pytest.raises(ValueError, match="'bogus'"):
        flow(store, ask).execute()


def test_a_run_that_others_finish_while_recover_is_on_its_way_is_not_reported(store, go):
    """Wrong: an error for a run with which nothing is wrong."""
    made = flow(store, last)
    with at("before node last", DIE), pytest.raises(SimulatedCrash):
        go(made.execute, {}, "r")
    with at("before look", lambda: store.get_execution("r").status == "running" and made.resume("r")):
        assert go(made.recover) == []
    assert made.result("r").status == "completed"
