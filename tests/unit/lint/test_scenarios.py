"""The scenarios: nothing is found in the right ones, and the mistake in each broken twin."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from fastdur.lint._check import lint
from fastdur.lint._config import Config

ROOT = Path(__file__).parents[3]
SCENARIOS = ROOT / "scenarios"

TWINS = {
    ("refund", "broken_no_idempotent"): "FDL02",
    ("refund", "broken_no_key"): "FDL10",
    ("refund", "broken_clock"): "FDL03",
    ("invoice_loop", "broken_counter"): "FDL12",
    ("invoice_loop", "broken_dice"): "FDL03",
    ("nested", "broken_swallowed"): "FDL04",
    ("balance", "broken_second_look"): "FDL03",
    ("booking", "broken_no_key"): "FDL10",
    ("booking", "broken_no_idempotent"): "FDL02",
    ("mail", "broken_random_id"): "FDL10",
    ("triage", "broken_no_idempotent"): "FDL02",
    ("triage", "broken_no_key"): "FDL10",
    ("voucher", "broken_clock"): "FDL03",
    ("voucher", "broken_before"): "FDL03",
    ("webhooks", "broken_no_carry"): "FDL14",
    ("webhooks", "broken_no_idempotent"): "FDL02",
    ("refund_agent", "broken_no_idempotent"): "FDL02",
    ("research_team", "broken_no_idempotent"): "FDL02",
    ("research_team", "broken_shelf"): "FDL12",
    ("support_swarm", "broken_no_key"): "FDL10",
}
"""The broken twins, and the rule that finds each."""

UNSEEN = {
    ("archive", "broken_fresh_name"): "what an effect calls its object is a matter of values",
    ("archive", "broken_append"): "what an effect writes is a matter of values",
    ("balance", "broken_frozen"): "which of two balances counts is a matter of the trade",
    ("report", "broken_counter"): "what a client of a model keeps is the client's own",
    ("guarded_desk", "broken_no_key"): "the effect around a memory is the agent's own, and none in the source",
    ("agent_in_chain", "broken_by_hand"): "that a run is kept nowhere may be meant",
    ("mail", "broken_receiver"): "the key is handed over; what the receiver makes of it is not in the source",
}
"""The broken twins whose mistake no reader of the source could tell, and why."""


def broken() -> dict[tuple[str, str], range]:
    """The broken twins in the source, with their lines."""
    return {
        (path.stem, node.name): range(node.lineno, (node.end_lineno or node.lineno) + 1)
        for path in SCENARIOS.glob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("broken")
    }


@pytest.fixture(scope="module")
def findings():
    report = lint([SCENARIOS], Config())
    assert report.problems == ()
    return [(Path(each.place.path).stem, each.place.line, each.code) for each in report.findings]


def test_every_broken_twin_is_known_here():
    assert set(broken()) == set(TWINS) | set(UNSEEN)


@pytest.mark.parametrize(
    ("twin", "code"), TWINS.items(), ids=lambda value: "-".join(value) if isinstance(value, tuple) else value
)
def test_the_mistake_in_each_broken_twin_is_found(findings, twin, code):
    assert code in {found for name, line, found in findings if name == twin[0] and line in broken()[twin]}


def test_nothing_is_found_outside_of_the_broken_twins(findings):
    spans = broken()
    loose = [
        each for each in findings if not any(each[0] == twin[0] and each[1] in lines for twin, lines in spans.items())
    ]
    assert loose == []


def test_nothing_is_found_where_fastdur_is_not_used():
    import httpx
    import rich

    for package in (httpx, rich):
        report = lint([Path(package.__file__).parent], Config())
        assert (report.findings, report.problems) == ((), ())
        assert report.files > 10
