"""Faults of the wire: a connection lost at every boundary, and the proxy's word for it that it was."""

from __future__ import annotations

import pytest

from fastdur.errors import StoreUnavailable
from pytest_fastdur.backends import Schemas
from pytest_fastdur.faults import SweepError
from pytest_fastdur.sweep import explore
from tests.plugin import stories

WIRED = ("drop", "lost-commit", "lost-answer")


def gives_up(_perform, _work, again):
    raise StoreUnavailable(str(again))


class Traced(Schemas):
    """Schemas that keep the proxies they hand out."""

    gives_up = False

    def __init__(self, stores):
        super().__init__(stores)
        self.wires = []

    def wire(self):
        self.wires.append(super().wire())
        return self.wires[-1]

    def open(self, place, wire=None):
        store = super().open(place, wire)
        if self.gives_up:
            store._try_again = gives_up
        return store


@pytest.fixture
def backend(fastdur_postgres):
    return Traced(fastdur_postgres)


def swept(ledger, faults, backend, **more):
    return explore(stories.refund(ledger, store=None), faults, backend=backend, **more)


@pytest.mark.parametrize("fault", ["lost-commit", "lost-answer"])
def test_a_lost_statement_is_lost_at_every_boundary_that_sends_one_as_the_proxy_saw(ledger, backend, fault):
    report = swept(ledger, fault, backend)
    assert report.ok, report.render()
    sending = {name for _, name, cells in report.matrix if cells == {f"{fault} before": "ok"}}
    wrote = {name for _, name in report.rows if name.startswith(("start", "append", "pause", "claim", "effect begin"))}
    assert wrote
    assert wrote <= sending
    assert not {name for name in sending if name.startswith(("node", "effect charge"))}
    control, faulted = backend.wires[:2], backend.wires[2:]
    assert [wire.fired for wire in control] == [0, 0]
    assert [wire.fired for wire in faulted] == [1] * report.points
    assert all(len(wire.requests) > len(control[0].requests) for wire in faulted)


def test_a_dropped_connection_strikes_before_and_after_every_boundary(ledger, backend):
    report = swept(ledger, "drop", backend)
    assert report.ok, report.render()
    assert report.points == 2 * len(report.rows)


def test_a_store_that_reports_a_lost_answer_as_a_failure_is_found(ledger, backend):
    backend.gives_up = True
    report = swept(ledger, "lost-answer", backend)
    first = next(finding for finding in report.findings if finding.code == "FD12")
    assert "one connection was lost" in first.what
    assert "StoreUnavailable" in first.what


def test_a_fault_that_is_armed_where_nothing_is_sent_is_a_finding_and_no_pass(ledger, backend):
    report = swept(ledger, ("crash",), backend, replay="fd1:start/node check=lost-answer before")
    assert [finding.code for finding in report.findings] == ["FD16"]
    assert swept(ledger, ("crash",), backend, replay="fd1:start/append check=lost-answer before").ok


def test_the_recovery_of_a_wire_fault_and_other_kinds_beside_it_are_swept_in_one_order(ledger, backend):
    report = swept(ledger, ("kill", "crash", "lost-answer"), backend, at="append check", depth=2)
    assert report.ok, report.render()
    assert report.pairs
    with pytest.raises(SweepError, match="one after the other"):
        swept(ledger, ("crash",), backend, replay="fd1:start/claim=kill before, resume#1/claim=drop before")


@pytest.mark.parametrize("fault", WIRED)
def test_a_store_on_files_says_that_it_has_no_connection_to_lose(ledger, fault):
    with pytest.raises(SweepError, match=f"^{fault} strike a connection to a server, and a store on files has none"):
        explore(stories.refund(ledger, store=None), fault)


def test_an_order_for_both_stores_strikes_the_wire_where_there_is_one(suite):
    text = """
def test_refund(crash_sweep, right):
    crash_sweep(right, input=stories.INPUT, answers=stories.ANSWERS, at="append check")
"""
    result = suite(text).runpytest_subprocess("--fastdur-backends=sqlite,postgres", "--fastdur-faults=crash,drop")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines_random(
        [
            "test_refund?sqlite?: * crash before and after, only at append check, not drop (a store on files has none): *",
            "test_refund?postgres?: * crash+drop before and after, only at append check: 4 points, *",
        ]
    )
    result = suite(text).runpytest_subprocess("--fastdur-backends=sqlite,postgres", "--fastdur-faults=drop")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["SweepError: drop strike a connection to a server, and a store on files has none; *"])
