"""What a suite says: in the terminal, across workers, as a table, and about a wrong declaration."""

from __future__ import annotations

import pytest

from pytest_fastdur.conformance import CORE, OPTIONAL, StoreSuite, run_suite
from tests.conformance.broken.defects import OnAShelf
from tests.conformance.shelf import Shelf, ShelfStore

SUITE = """
from pytest_fastdur.conformance import StoreSuite
from tests.conformance.shelf import Shelf, ShelfStore

class Forgetful(ShelfStore):
    def list_executions(self, *, status=None, runner=None, unfinished=False, limit=None):
        return super().list_executions(runner=runner, unfinished=unfinished, limit=limit)

class TestForgetful(StoreSuite):
    lacking = {"values": "values are somebody else's business"}

    def make_store(self, tmp_path):
        return Forgetful(Shelf())
"""


@pytest.fixture
def suite(pytester):
    pytester.makeini("[pytest]\naddopts = -p no:randomly\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makepyfile(test_mine=SUITE)
    return pytester


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "two workers"])
def test_a_suite_ends_with_a_table_of_its_clauses(suite, workers):
    done = suite.runpytest_subprocess("-k", "test_runs or test_value or test_fork", *workers)
    assert done.ret == 1
    done.stdout.fnmatch_lines(
        [
            "*fastdur conformance*",
            "test_mine.py::TestForgetful: 4 passed, 2 failed, 8 not-implemented",
            "  FORK      01-02 not-implemented ('processes' is not claimed)",
            "  RUNS      01 03-04 06 passed; 02 05 failed; 07 not-implemented ('clock' is not claimed)",
            "  VALUE     01-05 not-implemented (values are somebody else's business)",
            "  RUNS-02 FAILED: With a status only runs that have it now are listed.",
            "*2 failed, 4 passed,*8 not-implemented in *",
        ]
    )


def test_a_quiet_run_names_only_what_failed(suite):
    done = suite.runpytest_subprocess("-q", "-q", "-k", "runs")
    text = done.stdout.str()
    assert "RUNS-02 FAILED" in text
    assert "RUNS      " not in text


def test_what_is_not_claimed_is_told_to_every_report(suite):
    suite.runpytest_subprocess("--junitxml=report.xml", "-k", "value_01")
    text = (suite.path / "report.xml").read_text()
    assert 'name="fastdur.clause" value="VALUE-01"' in text
    assert 'name="fastdur.not-implemented" value="values are somebody else\'s business"' in text


def test_a_run_without_a_suite_says_nothing_of_it(pytester):
    pytester.makepyfile("def test_one(): pass")
    assert "conformance" not in pytester.runpytest_subprocess().stdout.str()


class Shelves(OnAShelf):
    store = ShelfStore


def test_a_table_is_made_without_pytest_too(tmp_path):
    table = run_suite(Shelves, tmp_path)
    assert table.ids("failed") == ()
    assert len(table.ids("passed")) + len(table.ids("not-implemented")) == len(Shelves.clauses())
    assert table.render().startswith(f"Shelves: {len(table.ids('passed'))} passed, ")
    with pytest.raises(ValueError, match="NONE-01"):
        run_suite(Shelves, tmp_path, clauses=["NONE-01"])


def test_each_clause_has_an_id_of_its_own_and_says_one_sentence():
    clauses = StoreSuite.clauses()
    assert len({clause.id for clause in clauses}) == len(clauses) > 100
    assert [clause.id for clause in clauses if not clause.rule.endswith(".")] == []
    assert [clause.id for clause in clauses if not set(clause.needs) <= CORE | OPTIONAL] == []


def test_a_wrong_declaration_is_refused_when_it_is_made():
    with pytest.raises(TypeError, match="'proceses'"):
        type("Mine", (StoreSuite,), {"capabilities": {"proceses"}})
    with pytest.raises(TypeError, match="'clock'"):
        type("Mine", (StoreSuite,), {"capabilities": {"clock"}, "lacking": {"clock": "no"}})


def test_a_suite_that_brings_no_store_says_what_is_missing(tmp_path):
    class Empty(StoreSuite):
        capabilities = frozenset(("faults",))

    with pytest.raises(TypeError, match="make_store"):
        Empty().make_store(tmp_path)
    with pytest.raises(TypeError, match="arm"):
        Empty().arm(ShelfStore(Shelf()), "down")
