"""Every small program survives any number of crashes, and a broken engine is seen by one of them."""

from __future__ import annotations

from itertools import islice

import pytest

from pytest_fastdur.small import KINDS, programs, prove
from pytest_fastdur.zoo import ANIMALS, loose

PARTS = 4
"""Into so many tests they are divided, for as many processes."""


def hold(part, record_property, length):
    some = [program for program in programs(length) if len(program.kinds) == length]
    proof = prove(islice(some, part, None, PARTS))
    record_property("proven", f"any number of crashes, {length} nodes, part {part + 1} of {PARTS}: {proof}")
    assert not proof.red, "\n".join(proof.red)
    assert proof.programs == len(range(part, len(KINDS) ** length, PARTS))
    assert proof.points > proof.lifetimes > proof.programs


@pytest.mark.parametrize("length", [1, 2])
@pytest.mark.parametrize("part", range(PARTS))
def test_every_program_of_up_to_two_nodes_survives_any_number_of_crashes(part, length, record_property):
    hold(part, record_property, length)


@pytest.mark.sweep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_program_of_three_nodes_survives_any_number_of_crashes(part, record_property):
    hold(part, record_property, 3)


@pytest.mark.parametrize(
    ("name", "seen_by"),
    [
        ("forgets_the_decision", "ask"),
        ("refuses_a_run_that_was_answered", "ask"),
        ("takes_begun_for_done", "effect"),
        ("records_before_the_body", "effect"),
        ("loses_the_counters_of_cycles", "router"),
    ],
)
def test_a_broken_engine_is_seen_by_a_program_of_one_node(name, seen_by):
    with loose(ANIMALS[name]):
        proof = prove(programs(1), first=True)
    assert len(proof.red) == 1
    assert proof.red[0].startswith(f"{seen_by}: ")
    assert any(f"\n{code} " in proof.red[0] for code in ANIMALS[name].verdicts), proof.red[0]
    assert str(proof).endswith("1 RED")
