"""The same sweeps on Postgres: each scenario holds there too, and its broken twins are found."""

from __future__ import annotations

import pytest

from pytest_fastdur.backends import Schemas
from pytest_fastdur.sweep import explore
from scenarios import invoice_loop, refund, research_team, support_swarm
from scenarios.payments import PaymentServer
from scenarios.stories import SCENARIOS, boundaries_file, story

TEAMS = (research_team, support_swarm)
WRITING = ("start", "append", "pause", "claim", "effect begin", "effect end")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with PaymentServer() as running:
        yield running


@pytest.fixture
def backend(fastdur_postgres):
    return Schemas(fastdur_postgres)


@pytest.mark.parametrize("fault", ["crash", "raise", "kill"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_holds_on_postgres_whatever_fault_strikes_it_at_whatever_boundary(name, fault, server, backend):
    report = explore(story(SCENARIOS[name], server), (fault,), backend=backend)
    assert report.ok, report.render()
    assert report.points == len(boundaries_file(name).read_text().splitlines())


@pytest.mark.parametrize("name", ["research_team", "support_swarm"])
def test_a_team_on_an_event_loop_holds_on_postgres(name, server, backend):
    report = explore(story(SCENARIOS[name], server, on_a_loop=True), ("crash",), backend=backend)
    assert report.ok, report.render()


@pytest.mark.sweep
@pytest.mark.parametrize("fault", ["crash", "raise", "kill"])
@pytest.mark.parametrize(
    "name", ["refund_agent", "research_team", "support_swarm", "report", "agent_in_chain", "guarded_desk"]
)
def test_agents_on_an_event_loop_hold_on_postgres_whatever_strikes_them(name, fault, server, backend):
    report = explore(story(SCENARIOS[name], server, on_a_loop=True), (fault,), backend=backend)
    assert report.ok, report.render()


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["research_team", "support_swarm"])
def test_a_team_holds_on_postgres_for_every_pair_of_crashes(name, server, backend):
    report = explore(story(SCENARIOS[name], server), ("crash",), depth=2, backend=backend)
    assert report.ok, report.render()


@pytest.mark.parametrize("fault", ["drop", "lost-commit", "lost-answer"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_holds_whichever_boundary_loses_the_connection(name, fault, server, backend):
    report = explore(story(SCENARIOS[name], server), (fault,), backend=backend)
    assert report.ok, report.render()
    if fault == "drop":
        assert report.points == len(boundaries_file(name).read_text().splitlines())
    else:
        struck = {boundary for _, boundary, cells in report.matrix if cells}
        assert struck >= {boundary for _, boundary in report.rows if boundary.startswith(WRITING)}


@pytest.mark.parametrize(
    ("scenario", "twin", "verdict"),
    [
        (refund, refund.broken_no_key, "FD07"),
        (invoice_loop, invoice_loop.broken_counter, "FD09"),
        (research_team, research_team.broken_shelf, "FD09"),
        (support_swarm, support_swarm.broken_no_key, "FD07"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_broken_twin_is_found_on_postgres_too(scenario, twin, verdict, server, backend):
    report = explore(story(scenario, server, twin), backend=backend, depth=1 if scenario in TEAMS else None)
    assert verdict in [finding.code for finding in report.findings], report.render()
