"""Each clause can fail: for each there is a store with one defect on which it goes red."""

from __future__ import annotations

import inspect

import pytest

import tests.conformance.broken.leaving
import tests.conformance.broken.ownership
import tests.conformance.broken.questions
import tests.conformance.broken.races
import tests.conformance.broken.rows  # noqa: F401 - all five fill DEFECTS
from fastdur import Checkpointer
from pytest_fastdur.conformance import StoreSuite, run_suite
from tests.conformance.broken.defects import DEFECTS, suite_of

# What a clause that goes red must not be red from: a mistake in the broken store itself.
MISTAKES = ("TypeError", "AttributeError", "NameError")


@pytest.mark.parametrize("defect", DEFECTS, ids=str)
def test_a_broken_store_fails_the_clauses_that_its_defect_breaks(defect, tmp_path):
    table = run_suite(suite_of(defect), tmp_path, clauses=defect.red)
    assert table.ids("failed") == defect.red, table.render()
    assert not [result for result in table.results if result.reason.startswith(MISTAKES)], table.render()


@pytest.mark.parametrize("defect", DEFECTS, ids=str)
def test_a_broken_store_takes_every_argument_that_a_store_takes(defect):
    for name, method in inspect.getmembers(Checkpointer, inspect.isfunction):
        if not name.startswith("_"):
            args, kwargs = _arguments(method)
            inspect.signature(getattr(defect.store, name)).bind(*args, **kwargs)


def _arguments(method):
    parameters = inspect.signature(method).parameters.values()
    return (
        [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD],
        {each.name: None for each in parameters if each.kind is each.KEYWORD_ONLY},
    )


def test_every_clause_is_red_for_some_broken_store():
    broken = {clause for defect in DEFECTS for clause in defect.red}
    assert sorted({clause.id for clause in StoreSuite.clauses()} - broken) == []


def test_every_broken_store_is_tried():
    assert len({str(defect) for defect in DEFECTS}) == len(DEFECTS)
