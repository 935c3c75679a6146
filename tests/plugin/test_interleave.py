"""Every interleaving of a few callers on one run, on real stores."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_fastdur.backends import Schemas
from pytest_fastdur.faults import DivergenceError, SweepError
from pytest_fastdur.interleave import interleave
from pytest_fastdur.ledger import EffectLedger
from pytest_fastdur.schedules import Choice, parsed, token
from pytest_fastdur.zoo import ANIMALS, loose
from tests.plugin import stories


@pytest.fixture
def ledger(tmp_path):
    with EffectLedger(tmp_path / "effects") as made:
        yield made


@pytest.fixture(params=["sqlite", "postgres"])
def backend(request):
    return Schemas(request.getfixturevalue("fastdur_postgres")) if request.param == "postgres" else None


def refund(ledger):
    return replace(stories.refund(ledger), store=None)


def small(ledger, **more):
    """A gate, and an effect behind it."""
    nodes = {"ask": stories.review, "pay": stories.charging(ledger)}
    story = stories.refund(ledger, **more)
    kind = more.get("kind", stories.Chain)
    return replace(story, name="small", store=None, build=lambda store: stories.chain(store, *nodes.items(), kind=kind))


def tiny(ledger):
    """One node: a gate, and an effect behind it."""
    pay = stories.charging(ledger)
    story = stories.refund(ledger)

    def node(state):
        return {**stories.review(state), **pay(state)}

    return replace(story, name="tiny", store=None, build=lambda store: stories.chain(store, ("ask", node)))


BEGAN = "start/after start"


@pytest.mark.case("S03")
@pytest.mark.case("S04")
def test_of_two_resumers_of_a_paused_run_one_wins_in_every_schedule(ledger, backend):
    report = interleave(refund(ledger), backend=backend)
    assert report.ok, report.render()
    ends = {outcome for outcomes in report.ends for outcome in outcomes}
    assert ends == {"completed", "AlreadyResumed", "RunInProgress"}
    assert all("completed" in outcomes for outcomes in report.ends)
    assert report.waits > 0  # somebody has met the lock of the other one


@pytest.mark.case("S80")
def test_the_same_race_has_the_same_figures_on_every_run(ledger):
    one, other = (interleave(tiny(ledger), kills=1) for _ in range(2))
    assert (one.schedules, one.states, one.steps, one.ends, one.waits) == (
        other.schedules,
        other.states,
        other.steps,
        other.ends,
        other.waits,
    )


@pytest.mark.case("S05")
@pytest.mark.parametrize("extra", ["kills", "lost", "ticks"])
def test_two_resumers_hold_with_a_death_a_lost_answer_and_the_end_of_a_lease(ledger, extra):
    report = interleave(tiny(ledger), **{extra: 1})
    assert report.ok, report.render()


@pytest.mark.case("S13")
@pytest.mark.case("S06")
def test_a_resumer_and_a_recoverer_never_both_carry_on_a_run_that_was_left_alone(ledger, backend):
    report = interleave(small(ledger), ["resume", "recover"], situation=BEGAN, backend=backend)
    assert report.ok, report.render()


@pytest.mark.parametrize(
    ("other", "situation"),
    [
        ("prune", "paused"),
        ("cancel", "paused"),
        ("delete", "paused"),
        ("start", "paused"),
        ("decide", "paused"),
        ("prune", "completed"),
        ("fork", "completed"),
        ("fork", "paused"),
    ],
)
def test_a_resumer_and_whoever_does_something_else_to_its_run(ledger, other, situation):
    report = interleave(tiny(ledger), ["resume", other], situation=situation)
    assert report.ok, report.render()


def test_a_run_that_is_pruned_while_the_answer_to_its_last_write_is_lost_is_nobody_elses(ledger):
    """Wrong: two winners are seen, where the run had ended and whoever pruned it was allowed to."""
    report = interleave(tiny(ledger), ["resume", "prune"], lost=1)
    assert report.ok, report.render()
    assert report.ends["StaleRun", "done"] == 1


def test_of_two_starts_of_one_id_one_runs(ledger, backend):
    report = interleave(small(ledger), ["start", "start"], situation="nothing", backend=backend)
    assert report.ok, report.render()
    assert {frozenset(outcomes) for outcomes in report.ends} == {frozenset({"paused", "RunExists"})}


def test_three_resumers_with_one_preemption(ledger):
    report = interleave(tiny(ledger), ["resume"] * 3, bound=1)
    assert report.ok, report.render()


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("other", ["resume", "recover", "prune", "cancel", "delete", "start", "decide", "fork"])
@pytest.mark.parametrize("extra", [{}, {"kills": 1}, {"lost": 1}, {"ticks": 1}], ids=["plain", "kill", "lost", "tick"])
def test_every_pair_with_everything_that_can_happen_once(ledger, backend, other, extra):
    report = interleave(tiny(ledger), ["resume", other], backend=backend, **extra)
    assert report.ok, report.render()


@pytest.mark.sweep
def test_three_resumers_with_two_preemptions(ledger):
    report = interleave(refund(ledger), ["resume"] * 3, bound=2)
    assert report.ok, report.render()


def test_a_claim_that_does_not_look_is_found_and_its_schedule_replays(ledger):
    with loose(ANIMALS["claims_without_looking"]):
        report = interleave(small(ledger), situation=BEGAN, first=True)
        (finding, *_) = report.findings
        again = interleave(small(ledger), situation=BEGAN, replay=finding.token)
    assert not report.ok
    assert finding.violation in [each.violation for each in again.findings]
    text = again.render()
    assert "<- preempts" in text
    assert "0 resume" in text
    assert finding.token in text


def test_a_schedule_is_text_that_can_be_read_and_written():
    choices = [Choice("run", 0)] * 3 + [Choice("kill", 1), Choice("tick"), Choice("lose", 0), Choice("run", 12)]
    text = token(choices, "0a1b")
    assert text == "fdi1-0a1b:0x3,kill1,tick,lose0,12"
    assert parsed(text) == ("0a1b", tuple(choices))


@pytest.mark.parametrize("text", ["fd1:x=crash before", "fdi1:0x", "fdi1:spawn3"])
def test_a_schedule_that_is_none_is_refused(text):
    with pytest.raises(SweepError, match="schedule"):
        parsed(text)


def test_a_schedule_that_does_not_fit_is_an_error(ledger):
    with pytest.raises(DivergenceError, match="step 1 is kill0, and possible there is 0, 1"):
        interleave(small(ledger), replay="fdi1:kill0")
    with pytest.raises(SweepError, match="another race"):
        interleave(small(ledger), replay="fdi1-0000:0x3")


def test_an_order_that_makes_no_sense_is_refused(ledger):
    with pytest.raises(SweepError, match="there is no actor 'sing'; there are resume"):
        interleave(small(ledger), ["sing"])
    with pytest.raises(SweepError, match="there is no instant"):
        interleave(small(ledger), situation="nowhere")


def test_a_budget_that_cuts_a_race_off_is_no_pass(ledger):
    report = interleave(small(ledger), budget=3)
    assert not report.ok
    assert "CUT OFF" in report.render()
