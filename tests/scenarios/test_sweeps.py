"""Each scenario is crashed at every boundary: the right one holds, its broken twins are named."""

from __future__ import annotations

import pytest

from pytest_fastdur.sweep import explore
from scenarios import (
    agent_in_chain,
    guarded_desk,
    invoice_loop,
    nested,
    refund,
    refund_agent,
    report,
    research_team,
    support_swarm,
)
from scenarios.payments import PaymentServer
from scenarios.stories import SCENARIOS, boundaries, boundaries_file, story

AGENTS = ("refund_agent", "research_team", "support_swarm", "report", "agent_in_chain", "guarded_desk")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with PaymentServer() as running:
        yield running


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_boundaries_of_a_scenario_are_those_in_its_list(name, server):
    assert boundaries(name, server) == boundaries_file(name).read_text(), "python -m scenarios.stories writes it anew"


@pytest.mark.parametrize("fault", ["crash", "raise", "kill"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_holds_whatever_fault_strikes_it_at_whatever_boundary(name, fault, server):
    found = explore(story(SCENARIOS[name], server), (fault,))
    assert found.ok, found.render()
    # Every boundary of the list, before and after, has had its fault.
    assert found.points == len(boundaries_file(name).read_text().splitlines())


@pytest.mark.parametrize("fault", ["crash", "raise"])
@pytest.mark.parametrize("name", AGENTS)
def test_agents_on_an_event_loop_hold_whatever_fault_strikes_them_at_whatever_boundary(name, fault, server):
    found = explore(story(SCENARIOS[name], server, on_a_loop=True), (fault,))
    assert found.ok, found.render()
    assert found.points == len(boundaries_file(name).read_text().splitlines())


@pytest.mark.sweep
@pytest.mark.parametrize("name", AGENTS)
def test_agents_on_an_event_loop_hold_wherever_their_process_is_killed(name, server):
    found = explore(story(SCENARIOS[name], server, on_a_loop=True), ("kill",))
    assert found.ok, found.render()


def test_a_refund_holds_when_its_recovery_is_crashed_too_at_whatever_boundary(server):
    found = explore(story(refund, server), ("crash",), depth=2)
    assert found.ok, found.render()
    assert found.pairs > 500


@pytest.mark.sweep
@pytest.mark.parametrize("fault", ["crash", "raise", "kill"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_holds_for_every_pair_of_faults(name, fault, server):
    found = explore(story(SCENARIOS[name], server), (fault,), depth=2)
    assert found.ok, found.render()


@pytest.mark.parametrize(
    ("scenario", "twin", "verdict"),
    [
        (refund, refund.broken_no_idempotent, "FD07"),
        (refund, refund.broken_no_key, "FD07"),
        (refund_agent, refund_agent.broken_no_idempotent, "FD07"),
        (agent_in_chain, agent_in_chain.broken_by_hand, "FD07"),
        (invoice_loop, invoice_loop.broken_counter, "FD09"),
        (invoice_loop, invoice_loop.broken_dice, "FD09"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
@pytest.mark.parametrize("fault", ["crash", "kill"])
def test_a_broken_twin_is_found_and_the_promise_it_breaks_is_named(scenario, twin, verdict, fault, server):
    found = explore(story(scenario, server, twin), (fault,))
    assert verdict in [finding.code for finding in found.findings], found.render()
    # The line that is printed with a finding finds it again.
    finding = next(each for each in found.findings if each.code == verdict)
    again = explore(story(scenario, server, twin), replay=finding.token)
    assert [each.code for each in again.findings] == [verdict]


@pytest.mark.parametrize(
    ("scenario", "twin", "verdict", "near"),
    [
        (research_team, research_team.broken_no_idempotent, "FD07", "*tool *buy_report"),
        (research_team, research_team.broken_shelf, "FD09", "*tool *read_source*"),
        (support_swarm, support_swarm.broken_no_key, "FD07", "*effect refund*"),
        (report, report.broken_counter, "FD09", "*turn:1"),
        (guarded_desk, guarded_desk.broken_no_key, "FD07", "*effect memory*"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
@pytest.mark.parametrize("fault", ["crash", "kill"])
def test_a_broken_twin_of_several_agents_is_found_near_its_mistake(scenario, twin, verdict, near, fault, server):
    found = explore(story(scenario, server, twin), (fault,), at=near, depth=1)
    assert {finding.code for finding in found.findings} == {verdict}, found.render()
    again = explore(story(scenario, server, twin), replay=found.findings[0].token)
    assert [each.code for each in again.findings] == [verdict]


@pytest.mark.parametrize(
    ("scenario", "twin", "said"),
    [
        (refund, refund.broken_clock, "not deterministic"),
        (nested, nested.broken_swallowed, "InterruptSwallowed"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_twin_that_cannot_be_played_twice_alike_stops_the_sweep_with_the_reason(scenario, twin, said, server):
    found = explore(story(scenario, server, twin))
    assert not found.ok
    assert said in found.render()
