"""Each rule is explained truly: its wrong example is found, its right one is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fastdur.lint._rules import RULES, explained
from tests.unit.lint.linting import report

PRELUDE = """import asyncio, time, httpx, requests, provider
from concurrent.futures import ThreadPoolExecutor
from fastdur import Chain, carry, effect_key, idempotent, interrupt
URL = "https://pay.example"
"""
CHARGE = """
@idempotent(name="charge")
{kind}def charge(amount):
    return provider.charge(amount, key=effect_key())
"""
PAGE = (Path(__file__).parents[3] / "docs/lint.md").read_text(encoding="utf-8")


def program(rule, code: str) -> str:
    """An example with what it takes for granted, its nodes in a chain."""
    nodes = re.findall(r"^(?:async )?def (\w+)\(state\)", code, re.MULTILINE)
    charge = "" if "def charge" in code else CHARGE.format(kind="async " if rule.code == "FDL11" else "")
    chain = "".join(f"Chain({name!r}).add_node({name!r}, {name})\n" for name in nodes)
    return f"{PRELUDE}{charge}\n{code}\n{chain}"


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.code)
def test_the_wrong_example_is_found_and_the_right_one_is_not(tmp_path, rule):
    (tmp_path / "wrong").mkdir()
    (tmp_path / "right").mkdir()
    assert rule.code in {each.code for each in report(tmp_path / "wrong", program(rule, rule.wrong)).findings}
    assert report(tmp_path / "right", program(rule, rule.right)).findings == ()


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.code)
def test_the_page_has_what_the_command_explains(rule):
    (section,) = re.findall(rf"^### {rule.code} {rule.name}$\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    flat = " ".join(section.split())
    for part in (rule.title, rule.why, rule.cure):
        assert " ".join(part.split()) in flat
    assert f"```py\n# wrong\n{rule.wrong}\n```" in section
    assert f"```py\n# right\n{rule.right}\n```" in section
    assert re.search(
        rf"^\| \[{rule.code}\]\(#{rule.code.lower()}-{rule.name}\) \| {re.escape(rule.title)} \|$", PAGE, re.MULTILINE
    )


def test_a_rule_is_explained_in_full():
    said = explained("FDL03")
    assert said.startswith("FDL03 changing-read: A clock, chance, the environment or the network read in a node\n\n")
    assert "    def stamp(state):\n" in said
    assert said.endswith("the record then gives the same value again.")
