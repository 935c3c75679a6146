"""What happens to any run sooner or later."""

from __future__ import annotations

from contextlib import closing

import pytest

from fastdur import Chain, Resume, SimulatedCrash, SQLiteCheckpointer, interrupt, observe, recover
from tests.cases._server import attempt
from tests.cases.conftest import RUN

YES = Resume(approved=True, metadata={"by": "ada"})


@pytest.mark.case("S92")
@pytest.mark.parametrize("times", [1, 2])
def test_a_node_that_fails_after_its_approval_is_resumed_without_asking_again(play, times):
    """Wrong: the decision is spent by the attempt that failed, or the human is asked twice."""
    play.start("asking")
    play.world.shatter("b")
    assert play.resume(YES).error == "Broken"
    for _ in range(times - 1):
        assert play.resume().error == "Broken"
    assert play.pending() == []
    play.world.mend("b")
    done = play.resume()
    assert (done.status, done.final_state["b said"]) == ("completed", [[True, {"by": "ada"}]])
    assert play.world.count("pay c") == 1
    assert [row.step_type for row in play.rows()].count("hitl_pause") == 1


@pytest.mark.case("S93")
@pytest.mark.parametrize("die", ["after append judge", "before node refuse", "refuse", "before append refuse"])
def test_a_run_that_was_sent_to_refuse_never_pays(play, die):
    """Wrong: asking the router again, whose second answer is another."""
    play.start("routed", die=die)
    done = play.resume()
    assert (done.status, done.final_state["path"]) == ("completed", ["judge", "refuse"])
    assert not {"pay", "pay pay"} & set(play.marks)
    assert play.world.count("route") == 1


@pytest.mark.case("S93")
def test_a_route_that_failed_is_asked_again_and_its_node_is_not(play):
    """Wrong: running the node again because its way out is not known."""
    play.world.shatter("route")
    assert play.start("routed_breakable").error == "Broken"
    assert play.path() == ["judge"]
    play.world.mend("route")
    assert play.resume().final_state["path"] == ["judge", "refuse"]
    assert play.world.count("judge") == 1


@pytest.mark.case("S94")
@pytest.mark.parametrize(
    "die",
    [
        "after append start",
        "before node b",
        "b",
        "pay b",
        "after effect end pay@b",
        "after append b",
        "before node join",
    ],
)
def test_a_kill_in_a_branch_completes_every_branch_once_and_joins_once(play, die):
    """Wrong: siblings that are lost or done twice, or a join for each branch."""
    play.start("fanned", die=die)
    done = play.resume()
    assert done.final_state["path"] == ["start", "a", "b", "c", "join"]
    assert play.path() == ["start", "a", "b", "c", "join"]
    assert [play.world.count(f"pay {node}") for node in ("a", "c", "join")] == [1, 1, 1]
    assert play.world.count("pay b") == 1 + (die == "pay b")


@pytest.mark.case("S94")
def test_a_pause_in_a_branch_completes_every_branch_once_and_joins_once(play):
    """Wrong: a join that does not wait for the branch that paused."""
    assert play.start("fanned_asking").status == "paused"
    assert play.marks[-1] == "pay b"
    done = play.resume(YES)
    assert (done.status, done.final_state["path"]) == ("completed", ["start", "a", "b", "c", "join"])
    assert [play.world.count(f"pay {node}") for node in ("a", "b", "c", "join")] == [1, 1, 1, 1]


@pytest.mark.case("S97")
def test_a_loop_of_three_passes_publishes_once_and_its_exit_sees_the_state_after_the_pass(play):
    """Wrong: a condition on the state before the pass: one pass more, or a publish after each."""
    done = play.start("three_passes")
    assert (done.status, done.final_state["round"]) == ("completed", 3)
    assert play.marks == ["work", "saw 1", "work", "saw 2", "work", "saw 3", "publish", "pay publish"]
    assert done.final_state["path"] == ["work", "work", "work", "publish"]


TRICKY = [
    "$add",
    "{{ 7 * 7 }}",
    "${HOME}",
    "state['route']",
    "route",
    "b->a",
    "%s %d",
    "\x00\ud83d\ude00' OR 1=1 --",
    {"$set": {"route": "pay"}},
    {"__type__": "datetime", "value": "2024"},
    {"t": "dt", "v": []},
    {"$": ["enum", "x"], "~": 1},
    ["-1", {"0": "x"}],
    [-1, {"0": "x"}],
    [-2, 1, [2]],
    [[]],
    [{"v": 1}],
]


@pytest.mark.case("S99")
@pytest.mark.parametrize("value", TRICKY, ids=lambda value: ascii(value)[:20])
def test_a_value_that_looks_like_an_operator_a_template_or_a_key_is_data(play, value):
    """Wrong: stored differences, tags or templates that are told from data by how they look."""
    given = {"route": "refuse", "value": value, "keys": {str(value)[:5]: value}, "list": [value, value]}
    play.start("tricky", given, die="after append second")
    done = play.resume()
    assert done.final_state["path"] == ["first", "second", "refuse"]
    expected = {"value": value, "keys": given["keys"], "list": [value, value, value], "again": value}
    assert {key: done.final_state[key] for key in expected} == expected
    assert play.rows()[0].state_snapshot["value"] == value


@pytest.mark.case("S99")
@pytest.mark.parametrize("node", ["$add", "{{x}}", "a.b", "a b", "ü\U0001f600", "->", "1", "*", "%s", "'; --", "(2)"])
def test_a_node_id_that_looks_like_something_else_is_an_id(here, node):
    """Wrong: an id that is split, formatted or matched."""
    here.world.shatter(node)
    here.chain = Chain(node, checkpointer=here.store).add_node(node, here.world.step(node, pays=True, asks=("?",)))
    assert here("execute", {}, node).pending_interrupt.interrupt_id == f"{node}#1/1"
    assert attempt(here.chain, "resume", here.flavour, node, YES).error == "Broken"
    here.world.mend(node)
    assert here("resume", node).final_state["path"] == [node]
    assert [row.node_id for row in here.store.list(node)] == [node, node, "run_end", node, "run_end"]
    assert here.store.get_execution(RUN) is None


def test_a_correction_that_comes_with_an_answer_is_stored_with_it(tmp_path):
    # An engine that stored the answer first and the correction after it would pay 1000 when it dies in between.
    paid = []

    def pay(state):
        if interrupt("pay?", {"amount": state["amount"]}).approved:
            paid.append(state["amount"])

    with closing(SQLiteCheckpointer(tmp_path / "s.db")) as store:
        chain = Chain("pay", store).add_node("pay", pay)
        chain.execute({"amount": 1000}, "r")

        def die(boundary):
            if str(boundary) == "after claim interrupt pay":
                raise SimulatedCrash

        with observe(die), pytest.raises(SimulatedCrash):
            chain.resume("r", Resume(approved=True), modified_state={"amount": 10})
        (recovered,) = recover([chain])
        assert recovered.result.status == "completed"
    assert paid == [10]
