"""`fastdur show`."""

from __future__ import annotations

import json
import re
import shlex
from contextlib import suppress

import pytest

from fastdur import (
    Agent,
    AgentLimitError,
    Chain,
    EffectForbidden,
    EffectUnknown,
    InterruptMismatch,
    Resume,
    SQLiteCheckpointer,
    delete_execution,
    idempotent,
    interrupt,
    list_unknown,
    tool,
)
from fastdur.checkpointers.protocol import Start
from fastdur.llm.messages import ToolCall
from fastdur.llm.testing import TestModel
from tests.cli.conftest import elsewhere, normal, pay, refund

WAITING = """\
run        waiting
runner     chain refund
status     paused
seq        2
claims     1
last step  check
owner      none
started    TIME, 0 s ago
changed    TIME, 0 s ago
input      {"amount": 40}

rows
  1  check    node        completed    checked
  2  approve  hitl_pause  interrupted  asks over_limit

questions
  approve#1/1  over_limit  {"amount": 40}

to carry it on
  chain.resume('waiting', Resume(approved=..., interrupt_id='approve#1/1'))
    # chain is the chain 'refund'; say True or False
"""

BROKEN = """\
rows
  1  check    node        completed    checked
  2  approve  hitl_pause  interrupted  asks over_limit
  3  approve  resumed     resumed      approved approve#1/1
  4  approve  node        completed    approved
  5  run_end  run_end     failed       ValueError: no money\\nleft

error
  ValueError: no money\\nleft

to carry it on
  chain.resume('broken')
    # chain is the chain 'refund'; once the cause is mended
"""


def ways_on(said):
    """The calls that are offered."""
    return re.findall(r"^  ((?:chain\.|fastdur ).*)$", said.out.partition("to carry it on")[2], re.MULTILINE)


def test_a_run_is_shown_with_all_that_is_known_of_it(fastdur_apart, store):
    said = fastdur_apart("show", "waiting", "--store", store.location)
    assert (said.code, normal(said.out), said.err) == (0, WAITING, "")


def test_a_failed_run_is_shown_with_its_error(fastdur_here, store):
    said = fastdur_here("show", "broken", "--store", store.location)
    assert "rows\n" + said.out.partition("rows\n")[2] == BROKEN


@pytest.mark.parametrize(
    ("run", "offered"),
    [
        ("dead", ["chain.resume('dead')"]),
        ("stopped", ["chain.resume('stopped', reopen=True)"]),
        ("done", []),
    ],
)
def test_the_line_that_carries_a_run_on_fits_how_it_stands(fastdur_here, store, run, offered):
    assert ways_on(fastdur_here("show", run, "--store", store.location)) == offered


@pytest.mark.parametrize("run", ["broken", "stopped"])
def test_the_line_that_is_offered_does_carry_the_run_on(fastdur_here, store, run):
    (line,) = ways_on(fastdur_here("show", run, "--store", store.location))
    chain = Chain("refund", store)
    for name in ("check", "approve", "payout"):
        chain.add_node(name, lambda state: None)
    chain.connect("check", "approve").connect("approve", "payout")
    assert eval(line, {"chain": chain}).status == "completed"


def test_the_line_for_a_question_decides_nothing(fastdur_here, store):
    (line,) = ways_on(fastdur_here("show", "waiting", "--store", store.location))
    known = {"chain": refund(store), "Resume": Resume}
    with pytest.raises(TypeError, match="say True or False"):
        eval(line, known)
    assert eval(line.replace("approved=...", "approved=False"), known).final_state["approved"] is False


def test_a_bound_that_is_used_up_asks_for_a_higher_one(fastdur_here, tmp_path):
    held = SQLiteCheckpointer(tmp_path / "runs.db")
    chain = Chain("loop", held).add_node("again", lambda state: None)
    chain.connect("again", "again", when=lambda state: True, max_iterations=1)
    with pytest.raises(Exception, match="its bound"):
        chain.execute({}, "r")
    said = fastdur_here("show", "r", "--store", held.location)
    assert ways_on(said) == ["chain.resume('r', accept_graph=True)"]


def test_the_same_is_there_for_programs(fastdur_here, store):
    shown = json.loads(fastdur_here("show", "done", "--store", store.location, "--json").out)
    assert [row["seq"] for row in shown["rows"]] == [1, 2, 3, 4, 5, 6]
    assert shown["rows"][2] == shown["rows"][2] | {"approved": True, "metadata": {"by": "ada"}}
    assert [(each["name"], each["status"], each["result"]) for each in shown["effects"]] == [("pay", "done", "paid 10")]
    assert shown["next"] == []


def test_an_effect_whose_owner_died_in_its_body_is_called_unknown(fastdur_here, tmp_path):
    held = SQLiteCheckpointer(tmp_path / "runs.db")
    elsewhere(held, "conftest.dies_in_an_effect(store).execute({}, 'r')")
    assert (
        "  charge  started, outcome unknown  at charge#1\n" in fastdur_here("show", "r", "--store", held.location).out
    )


def test_each_effect_has_its_line(fastdur_here, tmp_path):
    held = SQLiteCheckpointer(tmp_path / "runs.db")
    Chain("twice", held).add_node("n", lambda state: {"paid": [pay(1), pay(2)]}).execute({}, "r")
    said = fastdur_here("show", "r", "--store", held.location)
    assert "effects\n  pay  done  at n#1\n  pay  done  at n#1\n" in said.out


def test_a_child_names_its_parent(fastdur_here, tmp_path):
    held = SQLiteCheckpointer(tmp_path / "runs.db")
    held.start_execution(Start("child", "inner", "chain", {}, {}, "token", "nobody", "parent", "node#1"))
    said = fastdur_here("show", "child", "--store", held.location).out
    assert "parent     parent at node#1, which is no longer there\n" in said
    held.start_execution(Start("parent", "outer", "chain", {}, {}, "token", "nobody"))
    said = fastdur_here("show", "child", "--store", held.location).out
    assert "parent     parent at node#1, which is no longer there\n" in said  # a later run of that id is another
    held.delete_execution([held.get_execution("child")])
    held.start_execution(Start("child", "inner", "chain", {}, {}, "token", "nobody", "parent", "node#1"))
    assert "parent     parent at node#1\n" in fastdur_here("show", "child", "--store", held.location).out
    said = fastdur_here("show", "parent", "--store", held.location).out
    assert "runs from here\n  child  started at node#1  running\n" in said
    assert "  child of parent\n" in fastdur_here("runs", "--store", held.location).out


def test_a_fork_names_the_row_it_came_from_and_its_source_names_it(fastdur_here, store):
    runner = refund(store)
    row = store.list("done")[0].checkpoint_id
    runner.fork("done", row, new_execution_id="branch", modified_state={"why": "again"}, effects="recorded")
    said = fastdur_here("show", "branch", "--store", store.location).out
    assert f"fork of    done at row {row}\neffects    from records only\n" in said
    assert "1  fork_origin  fork_origin  completed    changed why\n" in said
    assert "  fork of done\n" in fastdur_here("runs", "--store", store.location).out
    assert "runs from here\n  branch  fork  " in fastdur_here("show", "done", "--store", store.location).out
    told = json.loads(fastdur_here("show", "done", "--json", "--store", store.location).out)
    assert [each["execution_id"] for each in told["branches"]] == ["branch"]
    told = json.loads(fastdur_here("show", "branch", "--json", "--store", store.location).out)
    assert (told["fork"], told["forked_from"], told["parent"], told["recorded"]) == (True, row, "done", True)


def test_another_run_under_the_id_of_a_source_that_is_gone_is_not_taken_for_it(fastdur_here, store):
    row = store.list("done")[0].checkpoint_id
    refund(store).fork("done", row, new_execution_id="branch")
    delete_execution("done", store)
    refund(store).execute({"amount": 10}, "done")
    said = fastdur_here("show", "branch", "--store", store.location).out
    assert f"fork of    done at row {row}, which is no longer there\n" in said
    assert "runs from here" not in fastdur_here("show", "done", "--store", store.location).out


def test_nothing_is_to_be_done_for_a_run_that_has_completed(fastdur_here, store):
    said = fastdur_here("show", "done", "--store", store.location)
    assert said.out.endswith("  nothing: it has completed. chain.result('done') reads its outcome\n")


@pytest.mark.case("S87")
def test_the_refusal_is_the_same_in_process(fastdur_here, store):
    said = fastdur_here("show", "nobody", "--store", store.location)
    assert (said.code, said.err.startswith(f"fastdur: No run 'nobody' in {store.location}")) == (1, True)


def test_changes_from_outside_and_a_reopening_are_told(fastdur_here, store):
    with pytest.raises(ValueError, match="no money"):
        refund(store).resume("broken", modified_state={"why": "again"})
    assert "resumed      changed why\n" in fastdur_here("show", "broken", "--store", store.location).out
    refund(store).resume("stopped", reopen=True)
    assert "resumed      reopened\n" in fastdur_here("show", "stopped", "--store", store.location).out


def test_an_output_key_is_the_key_that_changed(fastdur_here, tmp_path):
    held = SQLiteCheckpointer(tmp_path / "runs.db")
    Chain("keyed", held).add_node("n", lambda state: 7, output_key="seven").execute({}, "r")
    assert "n        node        completed    seven\n" in fastdur_here("show", "r", "--store", held.location).out


@pytest.mark.case("S87")
def test_a_run_that_is_not_there_is_not_found_in_a_named_store(fastdur_apart, store):
    said = fastdur_apart("show", "nobody", "--store", store.location)
    assert (said.code, said.out) == (1, "")
    assert f"No run 'nobody' in {store.location}" in said.err


def test_looking_changes_nothing(fastdur_here, store):
    before = store.list_executions(), store.list("dead"), store.list_pending_interrupts()
    for verb in (["runs"], *(["show", run] for run in ("dead", "waiting", "broken", "stopped", "done"))):
        assert fastdur_here(*verb, "--store", store.location).code == 0
    assert (store.list_executions(), store.list("dead"), store.list_pending_interrupts()) == before


def unknown_in(tmp_path):
    """A run that failed because nobody knows whether its effect has happened."""
    held = SQLiteCheckpointer(tmp_path / "my runs.db")

    @idempotent(name="wire", on_unknown="raise")
    def wire():
        raise OSError("cut")

    def pay(state):
        with suppress(OSError):
            wire()
        wire()

    chain = Chain("bank", held).add_node("pay", pay)
    with pytest.raises(EffectUnknown):
        chain.execute({}, "r 1")
    return held


def test_where_nobody_knows_of_an_effect_that_is_to_be_settled_first(fastdur_here, tmp_path):
    held = unknown_in(tmp_path)
    said = fastdur_here("show", "r 1", "--store", held.location)
    store = f"--store '{held.location}'"
    (key,) = [each.key for each in list_unknown("r 1", held)]
    offered = [
        f"fastdur effects list 'r 1' {store}",
        f"fastdur effects resolve 'r 1' {key} {store} --happened JSON",
        "chain.resume('r 1')",
    ]
    assert ways_on(said) == offered
    assert json.loads(fastdur_here("show", "r 1", "--store", held.location, "--json").out)["next"] == offered
    listing, settling, _ = (shlex.split(line)[1:] for line in offered)
    assert "wire" in fastdur_here(*listing).out
    assert fastdur_here(*settling[:-1], '"paid"').code == 0
    assert ways_on(fastdur_here("show", "r 1", "--store", held.location)) == ["chain.resume('r 1')"]


def test_the_default_store_is_not_named(fastdur_here, tmp_path, monkeypatch):
    held = unknown_in(tmp_path)
    monkeypatch.setenv("FASTDUR_DB", held.location)
    assert ways_on(fastdur_here("show", "r 1"))[0] == "fastdur effects list 'r 1'"


def test_a_branch_that_runs_no_effects_is_forked_again_to_run_them(fastdur_here, tmp_path):
    held = SQLiteCheckpointer(tmp_path / "runs.db")
    chain = Chain("paid", held).add_node("look", lambda state: None)
    chain.add_node("pay", lambda state: {"paid": pay(state["amount"])}).connect("look", "pay")
    chain.execute({"amount": 5}, "source")
    row = held.list("source")[0].checkpoint_id
    with pytest.raises(EffectForbidden):
        chain.fork("source", row, modified_state={"amount": 6}, effects="recorded", new_execution_id="branch")
    (line,) = ways_on(fastdur_here("show", "branch", "--store", held.location))
    assert line == "chain.fork('branch', effects=\"live\")"
    assert eval(line, {"chain": chain}).final_state == {"amount": 6, "paid": "paid 6"}


def test_a_node_that_asks_something_else_is_forked_to_ask_again(fastdur_here, tmp_path):
    held = SQLiteCheckpointer(tmp_path / "runs.db")
    asks = ["one?", "two?", "two?"]
    chain = Chain("asks", held).add_node("ask", lambda state: interrupt(asks.pop(0)) and None)
    chain.execute({}, "r")
    with pytest.raises(InterruptMismatch):
        chain.resume("r", Resume(True))
    (line,) = ways_on(fastdur_here("show", "r", "--store", held.location))
    assert line == "chain.fork('r')"
    assert eval(line, {"chain": chain}).pending_interrupt.reason == "two?"


def test_an_agent_at_its_limit_needs_a_higher_one(fastdur_here, tmp_path):
    held = SQLiteCheckpointer(tmp_path / "runs.db")
    agent = Agent("a", TestModel([ToolCall("1", "look", {}), "done"]), [tool(look)], checkpointer=held, max_turns=1)
    with pytest.raises(AgentLimitError):
        agent.run("hi", "r")
    said = fastdur_here("show", "r", "--store", held.location)
    assert ways_on(said) == ["chain.resume('r')"]
    assert "max_turns" in said.out


def look() -> str:
    """Look."""
    return "seen"
