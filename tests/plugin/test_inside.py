"""Instants below and beside the boundaries of the engine: each statement of a store, each line of a node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import closing
from itertools import permutations

import pytest

from fastdur import SQLiteCheckpointer
from pytest_fastdur import lines, statements
from pytest_fastdur.backends import Files, Memory, Schemas
from pytest_fastdur.faults import SweepError
from pytest_fastdur.sweep import boundary_names, explore
from tests.plugin import stories

PAUSE = ["BEGIN", "UPDATE executions", "INSERT INTO checkpoints", "INSERT INTO pending_interrupts", "COMMIT"]


def codes(report):
    assert report.stopped is None, report.stopped
    return {finding.code for finding in report.findings}


# -- statements --------------------------------------------------------------------------------------------------------


def test_each_statement_is_an_instant_before_and_after_inside_its_boundary(ledger):
    names = boundary_names(stories.refund(ledger, store=None), "sql")
    first, last = names.index("start/before pause review"), names.index("start/after pause review")
    assert names[first + 1 : last] == [
        f"start/{when} sql {done} in pause review" for done in PAUSE for when in ("before", "after")
    ]
    plain = boundary_names(stories.refund(ledger, store=None))
    assert [name for name in names if " sql " not in name] == plain


def test_on_postgres_a_boundary_is_one_statement(ledger, fastdur_postgres):
    report = explore(
        stories.refund(ledger, store=None),
        boundaries="sql",
        at="sql * in pause review",
        backend=Schemas(fastdur_postgres),
    )
    assert report.ok, report.render()
    told = "UPDATE executions, INSERT INTO pending_interrupts, INSERT INTO checkpoints"
    assert {name for _, name, cells in report.matrix if cells} <= {
        f"sql {', '.join(order)} in pause review" for order in permutations(told.split(", "))
    }
    assert report.points == 2


@pytest.mark.parametrize(("fault", "at", "points"), [("crash", None, 122), ("kill", "*pause review", 12)])
def test_a_store_holds_wherever_in_a_transaction_it_is_killed(ledger, fault, at, points):
    report = explore(stories.refund(ledger, store=None), fault, boundaries="sql", at=at)
    assert report.ok, report.render()
    assert report.points == points
    cells = {name: cells for _, name, cells in report.matrix}
    assert cells["sql COMMIT in pause review"] == {f"{fault} before": "ok", f"{fault} after": "ok"}


class TwoTransactions(SQLiteCheckpointer):
    """Writes the row of a pause, and then, in another transaction, the question."""

    def record_interrupt(self, claim, row, questions, *args, **kwargs):
        stored = super().put(claim, row, "paused")
        for each in questions if isinstance(questions, (list, tuple)) else [questions]:
            stories.raw(
                self,
                """INSERT INTO pending_interrupts
                (run, interrupt_id, runner, node_id, reason, context, agent_path, created_at)
                VALUES (?, ?, 'refund', 'review', 'approve', 'null', '', 0)""",
                claim.run,
                each.interrupt_id,
            )
        return stored


def test_a_pause_in_two_transactions_is_found_between_them_and_replayed(ledger):
    story = stories.refund(ledger, store=TwoTransactions)
    assert explore(story, depth=1, at="pause review").ok  # from outside nothing shows
    report = explore(story, depth=1, boundaries="sql", at="sql * in pause review")
    assert codes(report) == {"FD06"}, report.render()  # paused, and nobody can see the question
    finding = report.findings[0]
    assert "after sql COMMIT in pause review" in finding.points[0]
    assert codes(explore(story, replay=finding.token)) == {"FD06"}  # the token itself says what to listen to


def test_an_inner_instant_is_struck_by_what_ends_the_process_only(ledger):
    report = explore(stories.refund(ledger, store=None), "raise", boundaries="sql", at="*append check")
    assert report.ok, report.render()
    assert not [name for _, name, cells in report.matrix if cells and name.startswith("sql")]


def test_what_a_user_sends_in_a_transactional_effect_is_told_too(ledger):
    from fastdur import transaction

    def book(amount):
        transaction().execute("CREATE TABLE IF NOT EXISTS booked (amount)")
        transaction().execute("INSERT INTO booked VALUES (?)", (amount,))

    pay = stories.idempotent(transactional=True, name="charge")(book)
    story = stories.refund(ledger, store=None, pay=lambda state: pay(state["amount"]) or {}, effects={})
    names = boundary_names(story, "sql")
    assert "resume#1/after sql INSERT INTO booked in transact charge@pay" in names or any(
        "INSERT INTO booked" in name for name in names
    )
    report = explore(story, boundaries="sql", at="sql * in *charge*")
    assert report.ok, report.render()


def test_statements_that_cannot_be_heard_are_refused(ledger):
    with pytest.raises(SweepError, match=r"the statements of .* cannot be boundaries"):
        explore(stories.refund(ledger, store=None), boundaries="sql", backend=Memory())
    with pytest.raises(SweepError, match="there are no boundaries 'sqll'; there are engine, sql, lines"):
        explore(stories.refund(ledger, store=None), boundaries="sqll")


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("BEGIN IMMEDIATE", "BEGIN"),
        ("PRAGMA page_size = 2048", "PRAGMA page_size"),
        ("SELECT a FROM executions WHERE b", "SELECT FROM executions"),
        ("INSERT INTO t VALUES (1) ON CONFLICT DO UPDATE SET a = 1", "INSERT INTO t"),
        (
            'WITH a AS (UPDATE "fastdur_7"."executions" SET x = 1), b AS (DELETE FROM fastdur_7.starts) SELECT 1',
            "UPDATE executions, DELETE FROM starts",
        ),
        ("SELECT 1", "SELECT"),
    ],
)
def test_a_statement_is_named_by_what_it_does_alike_in_every_schema(sql, said):
    assert statements.summary(sql) == said


def test_outside_of_a_boundary_nothing_is_told(tmp_path):
    heard = []

    class Hears:
        def statement(self, when, text):
            heard.append((when, statements.summary(text)))

    with closing(Files(str(tmp_path)).open(str(tmp_path / "x.db"))) as store:
        statements.tell(store, Hears())
        heard.clear()
        assert store.list_executions() == []
        assert [when for when, _ in heard] == ["before", "after"]


# -- lines -------------------------------------------------------------------------------------------------------------


def test_each_line_of_a_node_is_an_instant_and_nothing_of_ours(ledger):
    names = [name for name in boundary_names(stories.refund(ledger, store=None), "lines") if " line " in name]
    assert names == [
        "start/before line check+1",
        "start/before line review+1",
        "resume#1/before line review+1",
        "resume#1/before line review+2",
        "resume#1/before line pay+1",
        "resume#1/before line body+1",
        "resume#1/before line <lambda>+0",
        "resume#1/before line pay+2",
        "resume#1/before line send+1",
    ]


@pytest.mark.parametrize("fault", ["crash", "kill", "raise"])
def test_a_story_holds_whichever_line_it_is_struck_at(ledger, fault):
    report = explore(stories.refund(ledger, store=None), fault, boundaries="lines", at="line *")
    assert report.ok, report.render()
    assert report.points == 9


def twice(ledger):
    """Two effects in one node, one after the other, outside of @idempotent."""
    first, second = (ledger.wrap(name, lambda: None) for name in ("first", "second"))

    def pay(state):
        first()
        second()
        return {}

    return stories.refund(ledger, store=None, pay=pay, effects={"first": "at-least-once", "second": "at-most-once"})


def test_what_happens_between_two_lines_of_a_node_is_found_and_replayed(ledger):
    story = twice(ledger)
    between = "resume#1/before line pay+2"
    report = explore(story, boundaries="lines", at="line pay*")
    assert codes(report) == {"FD07"}, report.render()
    token = next(finding.token for finding in report.findings)
    assert between in boundary_names(story, "lines")
    assert codes(explore(story, replay=token)) == {"FD07"}


def test_a_line_counts_once_between_two_boundaries(ledger):
    def check(state):
        total = 0
        for number in range(50):
            total += number
        return {"risk": total > state["amount"]}

    names = boundary_names(stories.refund(ledger, store=None, nodes={"check": check}), "lines")
    assert [name for name in names if " line check" in name] == [
        f"start/before line check+{line}" for line in (1, 2, 3, 4)
    ]


def test_no_finally_of_a_dead_process_reaches_anybody(ledger):
    reach = ledger.wrap("reached", lambda: None)

    def check(state):
        try:
            return {"risk": True}
        finally:
            reach()

    story = stories.refund(ledger, store=None, nodes={"check": check}, effects={"reached": "exactly-once"})
    report = explore(story, at="start/before line check+2", boundaries="lines", depth=1)
    assert report.ok, report.render()


def test_async_nodes_and_their_lines_hold(ledger):
    from tests.plugin.test_faults import awaited

    report = explore(awaited(ledger), boundaries="lines,sql", at="*pay*")
    assert report.ok, report.render()


@pytest.mark.parametrize("other", [True, False])
def test_the_trace_function_that_was_there_hears_everything_and_is_put_back(other):
    heard = []

    def tracing(frame, event, arg):
        if frame.f_code.co_filename == __file__ and frame.f_code.co_name in ("inner", "outer"):
            heard.append((frame.f_code.co_name, event, frame.f_lineno - frame.f_code.co_firstlineno))
        return tracing

    def inner():
        return 1

    def outer():
        inner()
        return 2

    told = []
    before, threads = sys.gettrace(), threading.gettrace()
    sys.settrace(tracing if other else None)
    with lines._Traced(frozenset({__file__}), lambda code, line: told.append(lines.name_of(code, line))):
        outer()
    after = sys.gettrace()
    sys.settrace(before)
    assert after is (tracing if other else None)
    assert threading.gettrace() is threads
    assert [name for name in told if "outer" in name or "inner" in name] == [
        "line outer+1",
        "line inner+1",
        "line outer+2",
    ]
    calls = [
        ("outer", "call", 0),
        ("outer", "line", 1),
        ("inner", "call", 0),
        ("inner", "line", 1),
        ("inner", "return", 1),
    ]
    assert heard == ([*calls, ("outer", "line", 2), ("outer", "return", 2)] if other else [])


COVERED = """
import os, sys
import coverage
from pytest_fastdur.ledger import EffectLedger
from pytest_fastdur.sweep import explore
from tests.plugin import stories

def after():
    one = 1
    two = 2
    return one + two

def swept(ledger):
    report = explore(stories.refund(ledger, store=None), "crash,raise", boundaries=sys.argv[1])
    assert report.ok, report.render()
    return after()

with EffectLedger(sys.argv[2]) as ledger:
    swept(ledger)
last = after()
"""


def test_coverage_measures_the_same_whether_lines_are_boundaries_or_not(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(COVERED)
    found = []
    for boundaries in ("engine", "lines"):
        data = tmp_path / f"{boundaries}.data"
        measured = ["--rcfile=/dev/null", f"--data-file={data}"]
        only = "--include=*/program.py,*/plugin/stories.py"
        for command in (
            ["run", *measured, "--branch", only, program, boundaries, tmp_path / boundaries],
            ["json", "-q", *measured, "-o", tmp_path / "c.json"],
        ):
            here = {**os.environ, "PYTHONPATH": "."}
            subprocess.run([sys.executable, "-m", "coverage", *command], check=True, env=here)
        files = json.loads((tmp_path / "c.json").read_text())["files"]
        found.append({name: (each["executed_lines"], each["executed_branches"]) for name, each in files.items()})
    assert len(found[0]) == 2
    assert found[0] == found[1]
