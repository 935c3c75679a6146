"""Broken engines are caught, each by the cheapest tool that should, and the real one is clean under the same budgets."""

from __future__ import annotations

import pytest

from pytest_fastdur.zoo import ANIMALS, hunt, is_clean, loose
from pytest_fastdur.zoo._animal import Animal

FAST = [
    "claims_by_read_then_delete",
    "ends_before_its_last_row",
    "finds_the_newest_by_clock",
    "forgets_the_decision",
    "pauses_in_two_transactions",
    "prunes_runs_that_wait",
    "takes_a_lost_answer_for_a_refusal",
    "takes_live_runs_over",
    "takes_none_for_no_record",
]
TOOLS = {(animal.tool, animal.story): animal for animal in ANIMALS.values()}


def caught(animal: Animal):
    catch = hunt(animal)
    assert catch.code in animal.verdicts, f"{animal.name}: {catch}"
    assert catch.points <= animal.budget


def test_the_zoo_has_enough_animals():
    assert len(ANIMALS) >= 25
    assert all(animal.what.endswith(".") for animal in ANIMALS.values())


@pytest.mark.parametrize("name", FAST)
def test_an_animal_is_caught(name):
    caught(ANIMALS[name])


@pytest.mark.sweep
@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", sorted(set(ANIMALS) - set(FAST)))
def test_every_animal_is_caught(name):
    caught(ANIMALS[name])


@pytest.mark.sweep
@pytest.mark.timeout(60)
@pytest.mark.parametrize("animal", TOOLS.values(), ids=[f"{tool}, {story}" for tool, story in TOOLS])
def test_the_real_engine_is_clean_under_the_same_budgets(animal):
    assert is_clean(animal).code is None


def test_an_animal_is_gone_when_its_block_ends():
    before = [vars(owner).copy() for owner in owners()]
    for animal in ANIMALS.values():
        with loose(animal):
            assert [vars(owner) for owner in owners()] != before, animal.name
        assert [vars(owner).copy() for owner in owners()] == before, animal.name


def owners():
    from fastdur import _branching, _drivers, _ending, _engine, _memory, _owner
    from fastdur.checkpointers import sqlite
    from fastdur.checkpointers._store import Store

    return [
        Store,
        _owner,
        _engine,
        _drivers.Lifetime,
        _memory.Memory,
        _branching,
        _ending,
        sqlite,
        sqlite.SQLiteCheckpointer,
    ]


SUITE = """
    from fastdur import Chain, Resume, idempotent, interrupt

    def build(store, effects):
        @idempotent(name="pay")
        def pay():
            effects.record("pay")

        def node(state):
            pay()
            return {"paid": True}

        return Chain("c", store).add_node("ask", lambda s: {"ok": interrupt("ok?", {}).approved}).add_node(
            "pay", node
        ).connect("ask", "pay")

    def test_a_happy_day(sqlite_checkpointer, effects):
        chain = build(sqlite_checkpointer, effects)
        chain.execute({}, "r")
        assert chain.resume("r", Resume(approved=True)).status == "completed"
        assert effects.count("pay") == 1
"""


def test_a_suite_is_told_which_broken_engines_it_does_not_notice(pytester):
    pytester.makepyfile(SUITE)
    result = pytester.runpytest_subprocess("--fastdur-zoo=starts_over_what_is_there,numbers_rows_with_gaps")
    result.stdout.fnmatch_lines(
        [
            "*starts_over_what_is_there*not noticed*",
            "*numbers_rows_with_gaps*not noticed*",
            "*of 2 broken engines 0 were noticed*",
        ]
    )
    assert result.ret == 1


def test_a_misspelt_animal_is_refused(pytester):
    pytester.makepyfile(SUITE)
    result = pytester.runpytest_subprocess("--fastdur-zoo=unicorn")
    result.stderr.fnmatch_lines(["*there is no animal 'unicorn'*"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_a_suite_that_is_red_by_itself_is_not_taken_to_the_zoo(pytester):
    pytester.makepyfile("def test_red(): assert False")
    result = pytester.runpytest_subprocess("--fastdur-zoo=starts_over_what_is_there")
    result.stdout.fnmatch_lines(["*fail without any broken engine*"])
    assert result.ret == 1
