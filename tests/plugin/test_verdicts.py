"""Every verdict is reached by a story, a store or an engine that is broken on purpose, and its token reaches it again."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import pytest

from fastdur import Chain, _drivers
from fastdur._effects import Append
from fastdur.errors import SimulatedCrash
from pytest_fastdur.sweep import Story, explore
from pytest_fastdur.verdicts import Verdict
from tests.plugin import stories
from tests.plugin.broken import drafts

HAPPENED = set()
COUNT = [0]


def codes(report):
    assert report.stopped is None, report.stopped
    return {finding.code for finding in report.findings}


def finding(report, code):
    return next(found for found in report.findings if found.code == code)


@pytest.mark.parametrize("faults", ["crash", "raise", "kill"])
def test_the_right_story_passes_every_point(ledger, faults):
    report = explore(stories.refund(ledger), faults)
    assert report.ok, report.render()
    assert report.points == report.ordered == 2 * len(report.rows)
    assert set(report.cells.values()) == {"ok"}


def test_the_right_story_passes_with_a_second_crash_in_each_recovery(ledger):
    report = explore(stories.refund(ledger), depth=2, at="* pay")
    assert report.ok, report.render()
    assert report.pairs > 50


def test_a_decision_that_is_kept_in_memory_is_a_lost_commit_and_names_the_claim(ledger):
    report = explore(stories.refund(ledger, store=stories.Forgetful))
    lost = finding(report, "FD02")
    assert "review (resumed resumed) was acknowledged and is not in the store" in lost.what
    assert lost.points[0] == "crash resume#1/after claim interrupt review"


def test_an_error_of_the_driver_is_a_wrong_error(ledger):
    def fresh():
        stories.Leaky.failed = False

    report = explore(stories.refund(ledger, store=stories.Leaky, fresh=fresh))
    assert codes(report) == {"FD12"}
    assert "OperationalError" in report.findings[0].what


@pytest.mark.parametrize("wrong", [{"recorded": False}, {"keyed": False}])
@pytest.mark.parametrize("faults", ["crash", "kill", "raise"])
def test_an_effect_that_repeats_is_found_with_its_cure(ledger, wrong, faults):
    story = stories.refund(ledger, pay=stories.charging(ledger, **wrong))
    report = explore(story, faults)
    assert codes(report) == {"FD07"}
    assert "'charge' happened 2 times, in the uninterrupted run once" in report.findings[0].what
    assert "effect_key()" in report.findings[0].cure
    assert codes(explore(story, replay=report.findings[0].token)) == {"FD07"}


def test_a_repeat_is_what_at_least_once_allows(ledger):
    pay = stories.charging(ledger, keyed=False)
    assert explore(stories.refund(ledger, pay=pay, effects={"charge": "at-least-once"})).ok


def test_a_repeat_is_what_at_most_once_forbids_even_with_a_key(ledger):
    report = explore(stories.refund(ledger, effects={"charge": "at-most-once"}))
    assert codes(report) == {"FD07"}


def test_the_count_of_the_provider_stands_above_the_ledger(ledger):
    charged = []

    def pay(state):
        charged.append(state["amount"])
        return {"charged": True}

    story = stories.refund(ledger, pay=pay, fresh=charged.clear, provider=lambda: {"charge": len(charged)})
    assert codes(explore(story)) == {"FD07"}


def test_an_effect_that_something_else_remembers_is_lost(ledger):
    provider = ledger.wrap("charge", lambda: None)

    def pay(state):
        if not HAPPENED:
            HAPPENED.add("charge")
            ledger_call()
        return {"charged": True}

    def ledger_call():
        charge()

    @stories.idempotent
    def charge():
        stories.effect_key()
        provider()

    report = explore(stories.refund(ledger, pay=pay, fresh=HAPPENED.clear))
    assert codes(report) == {"FD08"}, report.render()


@pytest.mark.parametrize("faults", ["crash", "kill"])
def test_a_node_that_keeps_a_global_diverges(ledger, faults):
    def fresh():
        COUNT[0] = 0

    def count(state):
        COUNT[0] += 1
        return {"number": COUNT[0] + state.get("seen", 0)}

    if faults == "crash":
        report = explore(stories.refund(ledger, nodes={"count": count}, fresh=fresh), faults, at="* count")
    else:
        report = explore(drafts(ledger, None).story, faults, at="*append first")
    assert codes(report) == {"FD09"}, report.render()
    assert "state['" in report.findings[0].what


def test_a_boundary_that_is_not_reached_is_named(ledger):
    report = explore(stories.refund(ledger), replay="fd1:resume#1/append nowhere=crash after")
    assert codes(report) == {"FD15"}
    assert "resume#1/after append nowhere was not reached" in report.findings[0].what
    report = explore(stories.refund(ledger), replay="fd1:resume#7/look=crash after")
    assert codes(report) == {"FD15"}


def test_a_crash_that_is_swallowed_has_not_fired(ledger, monkeypatch):
    tell = _drivers.tell

    def deaf(observers, boundary):
        try:
            tell(observers, boundary)
        except SimulatedCrash:
            return

    monkeypatch.setattr(_drivers, "tell", deaf)
    report = explore(stories.refund(ledger), at="after append pay")
    assert codes(report) == {"FD16"}


def test_a_death_that_was_not_ordered_is_told_apart(ledger, monkeypatch):
    tell = _drivers.tell

    def translating(observers, boundary):
        try:
            tell(observers, boundary)
        except SimulatedCrash:
            raise KeyError(boundary.name) from None

    monkeypatch.setattr(_drivers, "tell", translating)
    report = explore(stories.refund(ledger), at="before append pay")
    assert codes(report) == {"FD17"}
    assert "KeyError" in report.findings[0].what


def test_a_child_that_dies_by_itself_is_told_apart(ledger):
    def fresh():
        COUNT[0] += 1

    def leave(state):
        if COUNT[0] > 2:  # not in the control runs
            os._exit(3)
        return {}

    COUNT[0] = 0
    report = explore(stories.refund(ledger, nodes={"leave": leave}, fresh=fresh), "kill", at="after append leave")
    assert codes(report) == {"FD17"}
    assert "exit status 3" in report.findings[0].what


def test_a_crash_cannot_be_caught_by_the_story(ledger):
    charge = stories.charging(ledger)

    def stubborn(state):
        try:
            return charge(state)
        except BaseException:
            ledger.record("charge")  # a dead process reaches nobody
            return {"charged": True}

    assert explore(stories.refund(ledger, pay=stubborn), at="*effect*").ok


def test_an_error_that_the_story_deals_with_may_lead_another_way(ledger):
    charge = stories.charging(ledger)

    def pay(state):
        try:
            return charge(state)
        except RuntimeError:
            return {"charged": False}

    report = explore(stories.refund(ledger, pay=pay), "raise", at="before effect charge@pay")
    assert report.ok
    assert set(report.cells.values()) == {"alt"}


def test_a_clock_in_a_node_is_not_deterministic(ledger):
    report = explore(stories.refund(ledger, nodes={"check": lambda state: {"at": time.time_ns()}}))
    assert not report.ok
    assert report.points == 0
    assert report.stopped.startswith("not deterministic: after check, state['at'] is ")


def test_an_effect_that_varies_is_not_deterministic(ledger):
    COUNT[0] = 0

    def pay(state):
        COUNT[0] += 1
        for _ in range(COUNT[0]):
            ledger.record("charge")

    report = explore(stories.refund(ledger, pay=pay))
    assert "effect 'charge' happened 1 times in the first run and 2 times in the second" in report.stopped


def test_a_pause_that_is_swallowed_stops_the_sweep_and_says_so(ledger):
    def careless(state):
        try:
            return stories.review(state)
        except BaseException:
            return {"approved": True}

    report = explore(stories.refund(ledger, nodes={"review": careless}))
    assert "does not complete without a fault" in report.stopped
    assert "InterruptSwallowed" in report.stopped


def test_every_verdict_has_a_code_a_cause_and_a_cure():
    assert [verdict.code for verdict in Verdict] == [f"FD{number:02}" for number in range(1, 18)]
    assert all(verdict.cause and verdict.cure for verdict in Verdict)


def test_points_with_one_cause_are_one_finding(ledger):
    report = explore(drafts(ledger, None).story, "crash,raise,kill")
    what = [found.what for found in report.findings]
    assert len(what) == len(set(what))
    assert sum(len(found.points) for found in report.findings) > len(report.findings)


def test_an_ordered_error_that_becomes_another_is_a_wrong_error(ledger, monkeypatch):
    def translated(life, effect, error):
        raise KeyError(effect.name) from error

    monkeypatch.setattr(_drivers.Lifetime, "_injected", translated)
    report = explore(stories.refund(ledger), "raise", at="before append pay")
    assert codes(report) == {"FD12"}
    assert "the ordered RuntimeError became KeyError" in report.findings[0].what


def test_a_refusal_that_changes_the_store_is_a_wrong_error(ledger):
    report = explore(stories.refund(ledger, store=stories.Grumpy, fresh=stories.Grumpy.calm))
    assert "FD12" in codes(report)
    assert "was refused and changed the store" in finding(report, "FD12").what


def test_a_store_that_cannot_be_read_is_corrupt(ledger):
    report = explore(stories.refund(ledger, store=stories.Scribbling), at="before node send")
    assert codes(report) == {"FD01"}
    assert "the store cannot be read" in report.findings[0].what


def test_a_question_that_only_the_recovery_asks_is_a_divergence(ledger):
    COUNT[0] = 0

    def fresh():
        COUNT[0] = 0

    def check(state):
        COUNT[0] += 1
        return {} if COUNT[0] == 1 else {"why": stories.interrupt("why again?").approved}

    report = explore(stories.refund(ledger, nodes={"check": check}, fresh=fresh), at="after node check")
    assert codes(report) == {"FD09"}
    assert "in the uninterrupted run nothing asks this" in report.findings[0].what


def test_a_retry_and_a_timeout_are_swept_alike(ledger):
    charge = stories.charging(ledger)

    def build(store):
        made = Chain("retried", store).add_node("pay", charge, retry=1, timeout=60)
        return made.add_node("end", stories.send).connect("pay", "end")

    story = Story("retried", build, stories.INPUT, {}, {"charge": "exactly-once"}, ledger)
    report = explore(story, "crash,raise")
    assert report.ok, report.render()


@pytest.mark.parametrize("faults", ["crash", "kill", "raise"])
def test_a_recovery_that_fails_once_and_then_goes_on_is_a_divergence(ledger, tmp_path, faults):
    """The uninterrupted run enters the node once. Entered again, it fails; entered a third time, it does not."""
    entries = tmp_path / "entries"

    def send(state):
        with entries.open("a") as file:
            file.write("x")
        if len(entries.read_text()) == 2:
            raise ValueError("second time")
        return {"sent": True}

    story = stories.refund(ledger, nodes={"send": send}, fresh=lambda: entries.unlink(missing_ok=True))
    report = explore(story, faults)
    assert codes(report) == {"FD09"}, report.render()
    assert "failed in the recovery, which the uninterrupted run does not: ValueError: second time" in (
        report.findings[0].what
    )


def test_a_refusal_that_another_call_gets_past_is_a_wrong_error(ledger):
    class Shy(stories.SQLiteCheckpointer):
        """Refuses to carry on the first time, and says that somebody else does."""

        def claim_execution(self, seen, *args, **kwargs):
            if not COUNT[0]:
                COUNT[0] = 1
                raise stories.RunInProgress(seen.execution_id)
            return super().claim_execution(seen, *args, **kwargs)

    def fresh():
        COUNT[0] = 0

    report = explore(stories.refund(ledger, store=Shy, fresh=fresh), at="after claim interrupt review")
    assert codes(report) == {"FD12"}, report.render()
    assert "was refused although nothing hinders it: RunInProgress" in report.findings[0].what


def test_an_error_that_the_engine_swallows_at_a_boundary_of_its_own_has_not_fired(ledger, monkeypatch):
    perform = _drivers.Lifetime.perform

    def deaf(life, effect):
        try:
            return perform(life, effect)
        except RuntimeError:
            if effect.name != "append pay":
                raise

    monkeypatch.setattr(_drivers.Lifetime, "perform", deaf)
    report = explore(stories.refund(ledger), "raise", at="after append pay")
    assert codes(report) == {"FD16"}, report.render()


def test_an_error_of_a_store_that_the_engine_turns_into_a_failed_run_is_a_wrong_error(ledger, monkeypatch):
    """A fault of the store is never a step's result."""
    perform = _drivers.Lifetime.perform
    frames = []

    def blaming(life, effect):
        try:
            answer = perform(life, effect)
        except RuntimeError:
            if effect.name != "append pay":
                raise
        else:
            frames.extend([effect.row.frames] if isinstance(effect, Append) else [])
            return answer
        row = replace(effect.row, node_id="run_end", step_type="run_end", status="failed", frames=frames[-1])
        perform(life, replace(effect, row=row, status="failed"))
        raise KeyError("pay")

    monkeypatch.setattr(_drivers.Lifetime, "perform", blaming)
    report = explore(stories.refund(ledger), "raise", at="before append pay")
    assert codes(report) == {"FD12"}, report.render()
    assert "the run is failed" in report.findings[0].what
