"""Any number of crashes: every durable state is carried on once, and what only many crashes show is found."""

from __future__ import annotations

import os

import pytest

from fastdur import Chain
from pytest_fastdur.backends import Memory, Schemas
from pytest_fastdur.sweep import Order, Story, carry_out, explore
from tests.plugin import stories


@pytest.fixture(params=["files", "memory", "postgres"])
def backend(request):
    if request.param == "files":
        return None
    return Memory() if request.param == "memory" else Schemas(request.getfixturevalue("fastdur_postgres"))


def plain_refund(ledger, **more):
    """The refund on the backend's own store."""
    return stories.refund(ledger, store=None, **more)


def test_a_right_story_is_closed_on_every_store_after_the_same_search(ledger, backend):
    report = explore(plain_refund(ledger), backend=backend)
    assert report.ok, report.render()
    assert (report.points, report.states, report.instants, report.deepest) == (34, 15, 218, 2)
    assert "any number of crashes: 218 in recoveries, from 15 durable states, none left" in report.render()


def impatient(ledger, tmp_path):
    """A provider that takes two requests: one more than the uninterrupted run makes."""
    requests = tmp_path / "requests"

    def charge(amount, key):
        with requests.open("a") as file:
            file.write("x")
        if len(requests.read_text()) > 2:
            raise ValueError("too many requests")

    provider = ledger.wrap("charge", charge)

    @stories.idempotent(name="charge")
    def paid(amount):
        provider(amount, stories.effect_key())

    def pay(state):
        paid(state["amount"])
        return {"charged": True}

    def fresh():
        requests.unlink(missing_ok=True)

    return stories.refund(ledger, pay=pay, fresh=fresh)


def test_what_takes_two_crashes_is_found_by_the_shortest_way_and_replayed(ledger, tmp_path):
    story = impatient(ledger, tmp_path)
    assert explore(story, depth=1).ok
    report = explore(story)
    (found,) = report.findings
    assert (found.code, found.token.count("=crash"), report.deepest) == ("FD09", 2, 2)
    assert "ValueError: too many requests" in found.what
    again = explore(story, replay=found.token)
    assert [(each.code, each.lifetimes) for each in again.findings] == [(found.code, found.lifetimes)]


def test_a_budget_that_cuts_the_search_off_is_printed_and_is_no_pass(ledger, tmp_path):
    story = impatient(ledger, tmp_path)
    whole = explore(story)
    report = explore(story, budget=whole.points + 1)
    assert (report.findings, report.closed, report.ok) == ([], False, False)
    assert "CUT OFF before all were tried" in report.render()
    assert "CUT OFF, no pass" in report.render()


def test_with_a_depth_of_one_only_the_uninterrupted_run_is_crashed(ledger):
    report = explore(plain_refund(ledger), depth=1)
    assert (report.ok, report.states, report.instants) == (True, 0, 0)


def test_a_cycle_that_stays_below_its_bound_is_named(ledger):
    def build(store, *, most):
        chain = Chain("loop", store).add_node("draft", lambda state: {"drafts": state.get("drafts", 0) + 1})
        return chain.connect("draft", "draft", when=lambda state: state["drafts"] < 3, max_iterations=most)

    used = explore(Story("loop", lambda store: build(store, most=2)))
    assert (used.ok, used.notes) == (True, [])
    unused = explore(Story("loop", lambda store: build(store, most=9)))
    assert unused.ok
    assert "the cycle draft->draft may be taken 9 times and is taken 2 times" in unused.notes[0]
    assert "may be taken 9 times" in unused.render()


def test_a_nested_cycle_that_stays_below_its_bound_is_named(ledger):
    def build(store):
        inner = Chain("inner").add_node("draft", lambda state: {"drafts": state.get("drafts", 0) + 1})
        inner.connect("draft", "draft", when=lambda state: state["drafts"] < 3, max_iterations=4)
        return Chain("outer", store).add_node("inner", inner)

    assert "may be taken 4 times and is taken 2 times" in explore(Story("outer", build)).notes[0]


def test_rows_that_a_recovery_acknowledges_and_does_not_write_are_found(ledger):
    class Lazy(stories.WriteBehind):
        """Holds rows back, but only in a run that was carried on."""

        def put(self, claim, row, status, **kwargs):
            if claim.epoch > 2:
                return super().put(claim, row, status, **kwargs)
            return stories.SQLiteCheckpointer.put(self, claim, row, status, **kwargs)

    report = explore(stories.refund(ledger, store=Lazy))
    assert {finding.code for finding in report.findings} == {"FD02"}
    assert report.findings[0].token.count("=crash") == 2


def test_real_kills_leave_what_played_crashes_leave(ledger):
    order = Order(sample=True)
    report = carry_out(plain_refund(ledger), order)
    assert report.ok, report.render()
    assert report.sampled == 16  # before and after of eight kinds of boundary
    assert "; 16 real kills leave the same" in " ".join(report.render().split())


def test_a_played_crash_that_leaves_something_else_than_a_real_kill_is_found(ledger):
    """What is in memory is gone with a process, and stays where its death is played."""
    drafts = []

    def check(state):
        drafts.append(1)
        return {"drafts": len(drafts)}

    story = plain_refund(ledger, nodes={"check": check}, fresh=drafts.clear)
    report = carry_out(story, Order(at="after append check"))
    assert report.ok
    drafted = plain_refund(ledger, nodes={"check": lambda state: {"pid": os.getpid()}})
    report = carry_out(drafted, Order(sample=True))
    assert {finding.code for finding in report.findings} == {"FD17"}
    assert "a real kill leaves something else than the played crash: - row 1: check node" in report.findings[0].what


def test_a_kill_sweep_carries_each_state_on_once_and_kills_at_every_point(ledger):
    report = explore(plain_refund(ledger), "kill")
    assert report.ok, report.render()
    assert report.points == 2 * len(report.rows)
    whole = explore(plain_refund(ledger), "kill", depth=1)
    assert whole.ok
    assert report.lifetimes < whole.lifetimes


def test_a_state_that_was_carried_on_badly_is_red_at_every_kill_that_leaves_it(ledger):
    story = plain_refund(ledger, pay=stories.charging(ledger, keyed=False))
    short, whole = explore(story, "kill"), explore(story, "kill", depth=1)
    assert short.cells == whole.cells
    assert "FD07" in short.cells.values()


def test_a_store_that_no_other_process_can_open_has_no_kills_beside_it(ledger):
    report = carry_out(plain_refund(ledger), Order(sample=True), Memory())
    assert (report.ok, report.sampled) == (True, 0)


def test_a_story_that_dies_by_itself_in_a_child_is_not_waited_for(ledger):
    parent = os.getpid()

    def check(state):
        if os.getpid() != parent:
            os._exit(3)
        return {}

    report = carry_out(plain_refund(ledger, nodes={"check": check}), Order(sample=True))
    assert {finding.code for finding in report.findings} == {"FD17"}
