"""What a sweep tries, in which order, and what it refuses to try."""

from __future__ import annotations

import warnings

import pytest

from fastdur import Chain, Resume, boundaries, interrupt
from pytest_fastdur.control import ControlError
from pytest_fastdur.faults import DivergenceError, SweepError
from pytest_fastdur.report.data import SweepReport
from pytest_fastdur.sweep import Story, boundary_names, explore
from tests.plugin import stories


@pytest.mark.case("S82")
def test_a_node_with_an_effect_more_is_more_points_without_touching_the_test(ledger):
    before = explore(stories.refund(ledger))
    more = stories.refund(ledger, nodes={"repay": stories.charging(ledger, name="repay")})
    after = explore(more)
    new = {name for _, name in after.rows} - {name for _, name in before.rows}
    effects = {f"effect {kind}repay@repay" for kind in ("begin ", "", "end ")}
    assert new == {"node repay", "append repay"} | effects
    assert after.points == before.points + 2 * len(new)
    assert after.ok


@pytest.mark.case("S82")
def test_every_write_and_every_effect_has_a_point_before_and_after_it(ledger):
    report = explore(stories.refund(ledger))
    names = {name for _, name in report.rows}
    assert {"start", "pause review", "claim interrupt review", "append run_end", "effect charge@pay"} <= names
    assert all(set(cells) == {"crash before", "crash after"} for _, _, cells in report.matrix)


@pytest.mark.case("S80")
def test_twice_the_same_seed_is_twice_the_same_sweep_and_the_same_failure(ledger):
    story = stories.refund(ledger, pay=stories.charging(ledger, recorded=False))
    one, two = explore(story, seed=17), explore(story, seed=17)
    assert one.plain() == two.plain()
    assert one.findings[0].points != explore(story, seed=18).findings[0].points
    assert one.replay(one.findings[0]) in one.render()


@pytest.mark.case("S80")
def test_a_budget_tries_the_same_points_and_is_never_a_pass(ledger):
    story = stories.refund(ledger)
    one, two = explore(story, budget=7, seed=3), explore(story, budget=7, seed=3)
    assert one.plain() == two.plain()
    assert (one.points, one.complete, one.ok) == (7, False, False)
    assert one.findings == []
    assert "7 of 34 points" in one.render()
    assert "CUT OFF, no pass" in one.render()


@pytest.mark.case("S81")
def test_a_point_that_does_not_exist_is_an_error_that_lists_those_that_fired(ledger):
    with pytest.raises(SweepError, match="is called 'after append nowhere'") as error:
        explore(stories.refund(ledger), at="after append nowhere")
    assert all(name in str(error.value) for name in boundary_names(stories.refund(ledger)))


@pytest.mark.case("S81")
def test_a_point_that_is_not_reached_is_a_failure(ledger):
    report = explore(stories.refund(ledger), replay="fd1:start/append send=crash after")
    assert not report.ok
    assert report.findings[0].code == "FD15"


@pytest.mark.case("S81")
def test_a_story_without_a_store_has_no_points_and_is_refused():
    with pytest.raises(SweepError, match="must return a runner on the store"):
        explore(Story("nowhere", lambda store: Chain("nowhere", False).add_node("a", lambda state: {})))


def test_an_answer_to_what_nothing_asks_stops_the_sweep_unless_it_is_a_function():
    """Wrong: green although the gate that the story is about has vanished, or its name was misspelt."""

    def build(store):
        return Chain("c", store).add_node("ask", lambda state: {"ok": interrupt("ok?").approved})

    yes = Resume(approved=True)
    report = explore(Story("s", build, answers={"ok?": yes, "okay?": yes}))
    assert "answer to 'okay?', and nothing asks that" in report.stopped
    for known in ("ok?", "ask", "ask#1/1"):
        assert explore(Story("s", build, answers={known: yes, "okay?": lambda pending: yes}), at="*append*").ok


def test_what_varies_in_a_child_run_is_not_deterministic():
    """Wrong: only the story's own run is compared, and its children may hold anything."""
    drawn = iter(range(1000))

    def build(store):
        child = Chain("child", store).add_node("draw", lambda state: {"drawn": next(drawn)})
        return Chain("c", store).add_node("call", lambda state: {"status": child.execute().status})

    report = explore(Story("s", build))
    assert "not deterministic: run 2: after draw, state['drawn'] is" in report.stopped


def test_a_child_run_that_ends_otherwise_after_a_crash_has_diverged():

    def build(store):
        lives = []

        def first(state):
            lives.append(1)
            return {}

        child = Chain("child", store).add_node("first", first).add_node("second", lambda state: {"fresh": bool(lives)})
        child.connect("first", "second")
        return Chain("c", store).add_node("call", lambda state: {"status": child.execute().status})

    report = explore(Story("s", build))
    assert {finding.code for finding in report.findings} == {"FD09"}
    assert "run 2: after second, state['fresh'] is True" in report.render()


def test_an_effect_that_is_declared_and_never_happens_stops_the_sweep(ledger):
    report = explore(stories.refund(ledger, effects={"chrage": "exactly-once"}))
    assert "effect 'chrage' is declared and did not happen; what happened: 'charge'" in report.stopped
    with pytest.raises(ControlError, match="chrage"):
        boundary_names(stories.refund(ledger, effects={"chrage": "exactly-once"}))


def test_an_effect_is_declared_in_one_of_three_ways_and_counted_by_somebody(ledger):
    with pytest.raises(SweepError, match="'once'; it is one of exactly-once, at-least-once, at-most-once"):
        stories.refund(ledger, effects={"charge": "once"})
    with pytest.raises(SweepError, match="nothing counts them"):
        Story("uncounted", lambda store: Chain("c", store), effects={"charge": "exactly-once"})


def test_a_question_without_an_answer_is_named(ledger):
    story = Story("asks", lambda store: stories.chain(store, ("review", stories.review)), input=stories.INPUT)
    with pytest.raises(SweepError, match=r"asks 'approve' at 'review' and has no answer to it; give answers="):
        explore(story)


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ({"faults": "crsh"}, "there is no fault 'crsh'; there are crash, raise, kill"),
        ({"faults": ()}, "no fault is ordered"),
        ({"depth": 3}, "depth is 3"),
        ({"budget": 0}, "a budget of 0 points"),
        ({"replay": "nonsense"}, "is no replay token"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused(ledger, order, said):
    with pytest.raises(SweepError, match=said):
        explore(stories.refund(ledger), **order)


@pytest.mark.case("S10")
@pytest.mark.parametrize("faults", ["crash", "kill"])
def test_an_answer_arrives_whole_however_it_is_given(ledger, faults):
    def exact(pending):
        assert (pending.reason, pending.context) == ("approve", {"amount": 120})
        return stories.ANSWERS["approve"]

    seen = []

    def send(state):
        seen.append(state["by"])
        assert state["by"] == stories.ANSWERS["approve"].metadata
        return {}

    story = Story(
        "answers",
        lambda store: stories.chain(store, ("review", stories.review), ("send", send)),
        input=stories.INPUT,
        answers={"review": exact},
        ledger=ledger,
    )
    assert explore(story, faults).ok


@pytest.mark.parametrize("faults", ["crash", "raise", "kill"])
def test_an_async_story_is_swept_alike(ledger, faults):
    provider = ledger.wrap("charge", lambda key: None)

    @stories.idempotent
    async def charge():
        provider(stories.effect_key())

    async def pay(state):
        await charge()
        return {"charged": True}

    story = Story(
        "async",
        lambda store: stories.chain(store, ("check", stories.check), ("pay", pay), ("review", stories.review)),
        input=stories.INPUT,
        answers=stories.ANSWERS,
        effects={"charge": "exactly-once"},
        ledger=ledger,
    )
    report = explore(story, faults)
    assert report.ok, report.render()


@pytest.mark.asyncio
async def test_an_async_story_is_swept_from_inside_a_running_loop(ledger):
    async def check(state):
        return {"checked": True}

    assert explore(Story("inside", lambda store: stories.chain(store, ("check", check)), ledger=ledger)).ok


def test_a_cycle_and_a_nested_chain_are_swept_alike(ledger):
    charge = stories.charging(ledger)

    def draft(state):
        return {"drafts": state.get("drafts", 0) + 1}

    def build(store):
        inner = stories.chain(None, ("review", stories.review), ("pay", charge))
        outer = Chain("loops", store).add_node("draft", draft).add_node("inner", inner).add_node("end", stories.send)
        outer.connect("draft", "draft", when=lambda state: state["drafts"] < 3, max_iterations=2)
        return outer.connect("draft", "inner").connect("inner", "end")

    story = Story("loops", build, stories.INPUT, stories.ANSWERS, {"charge": "exactly-once"}, ledger)
    report = explore(story, "crash,raise")
    assert report.ok, report.render()
    assert ("start", "append draft (3)") in report.rows


def test_several_questions_are_answered_one_by_one(ledger):
    def review(state):
        return {name: interrupt(name).approved for name in ("legal", "finance")}

    answers = {"legal": Resume(approved=True), "finance": Resume(approved=False)}
    story = Story("two", lambda store: stories.chain(store, ("review", review)), answers=answers, ledger=ledger)
    report = explore(story, depth=2)
    assert report.ok, report.render()
    assert {lifetime for lifetime, _ in report.rows} == {"start", "resume#1", "resume#2"}


def test_a_token_plays_the_same_history_again(ledger):
    story = stories.refund(ledger, pay=stories.charging(ledger, recorded=False))
    found = explore(story, depth=2, at="after append check").findings[0]
    assert found.token.count("=crash") == 2
    again = explore(story, replay=found.token)
    assert (again.findings[0].code, again.findings[0].lifetimes) == (found.code, found.lifetimes)
    assert again.points == 1


def test_a_token_of_another_list_of_boundaries_is_refused(ledger):
    story = stories.refund(ledger, pay=stories.charging(ledger, recorded=False))
    token = explore(story).findings[0].token
    changed = stories.refund(ledger, pay=stories.charging(ledger, recorded=False), nodes={"another": lambda state: {}})
    with pytest.raises(DivergenceError, match="was recorded on another list of boundaries"):
        explore(changed, replay=token)


def test_nothing_is_left_behind_by_a_sweep_that_found_something(ledger, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        explore(stories.refund(ledger, pay=stories.charging(ledger, recorded=False)), "crash,raise,kill")
    assert boundaries._observers == []


def test_a_report_is_plain_data_and_back(ledger):
    story = stories.refund(ledger, pay=stories.charging(ledger, recorded=False))
    report = explore(story)
    copy = SweepReport.of(report.plain())
    assert copy.render() == report.render()
    assert copy.matrix == report.matrix
    assert all(len(line) <= 100 for line in report.render(100).splitlines() if "replay" not in line)
    assert "\x1b[" in report.render(color=True)
