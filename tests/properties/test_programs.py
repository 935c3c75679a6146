"""Drawn programs: each survives any number of crashes, and is the same on every store, sync and async."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from pytest_fastdur.backends import Memory, Schemas
from pytest_fastdur.ledger import EffectLedger
from pytest_fastdur.programs import (
    KINDS,
    Node,
    Program,
    Relay,
    Talk,
    Team,
    agents,
    chains,
    outcome,
    supervisors,
    swarms,
)
from pytest_fastdur.sweep import explore
from pytest_fastdur.zoo import ANIMALS, loose

SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
FEW = settings(max_examples=8, deadline=None, suppress_health_check=SLOW)
MANY = settings(max_examples=1500 if "FASTDUR_DEEP" in os.environ else 60, deadline=None, suppress_health_check=SLOW)


def survives(program):
    with EffectLedger() as ledger:
        report = explore(program.story(ledger), backend=Memory())
    assert report.ok, f"{program}\n{report.render()}"


def is_the_same_everywhere(program, stores):
    usual = outcome(program)
    assert outcome(program, Memory()) == usual
    assert outcome(program, Schemas(stores)) == usual
    if isinstance(program, Program):
        assert outcome(replace(program, awaited=True)) == usual


@FEW
@given(program=chains(most=2, rounds=0))
def test_a_drawn_chain_survives_any_number_of_crashes(program):
    survives(program)


@FEW
@given(program=agents(most=1))
def test_a_drawn_agent_survives_any_number_of_crashes(program):
    survives(program)


@FEW
@given(program=chains(most=2, rounds=1) | agents(most=1))
def test_a_drawn_program_is_the_same_on_every_store_sync_and_async(fastdur_postgres, program):
    is_the_same_everywhere(program, fastdur_postgres)


@settings(FEW, max_examples=4)
@given(program=supervisors(most=1, workers=1) | swarms(most=1, members=2))
def test_a_drawn_team_survives_any_number_of_crashes(program):
    survives(program)


@pytest.mark.sweep
@pytest.mark.timeout(3600)
@MANY
@given(program=chains() | agents() | supervisors() | swarms())
def test_many_drawn_programs_survive_any_number_of_crashes(program):
    survives(program)


@pytest.mark.sweep
@pytest.mark.timeout(3600)
@MANY
@given(program=chains() | agents() | supervisors() | swarms())
def test_many_drawn_programs_are_the_same_everywhere(fastdur_postgres, program):
    is_the_same_everywhere(program, fastdur_postgres)


@pytest.mark.sweep
def test_a_program_of_every_kind_of_node_survives():
    survives(Program(tuple(Node(kind, 1) for kind in KINDS), rounds=1, skips=True))
    survives(Talk((("charge", "gate"), ("look", "charge"))))
    survives(Team(((0, 1), ("gate", 0)), ((("charge",), ("gate",)), (("look", "charge"),))))
    survives(Relay(((("charge",),), (("gate", "charge"),), (("look",),))))


def test_a_program_with_a_cycle_and_a_way_around_survives():
    survives(Program((Node("effect visit", 1), Node("value", 2), Node("value", 3)), rounds=1, skips=True))


def test_teams_of_a_task_an_approval_and_a_handoff_survive():
    survives(Team(((0, "charge"),), ((("gate", "charge"),),)))
    survives(Relay(((("charge",),), (("gate",),))))


def test_a_provider_that_is_asked_settles_a_drawn_effect():
    """Wrong: what was begun is taken for done, and nobody asks."""
    program = Program((Node("effect told", 7),))
    survives(program)
    with loose(ANIMALS["takes_begun_for_done"]), EffectLedger() as ledger:
        report = explore(program.story(ledger), backend=Memory())
    assert report.findings[0].code == "FD08"
