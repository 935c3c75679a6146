"""The guide to side effects shows what is in the scenarios, and what the sweep says of them."""

from __future__ import annotations

import re
import textwrap

import pytest

from scenarios.stories import EXAMPLES
from scenarios.sweep import IN_THE_STORE, main, names, shown
from tests.docs import pages

GUIDE = (pages.ROOT / "docs/side-effects.md").read_text(encoding="utf-8")
BLOCKS = pages.FENCE.findall(GUIDE)
SHOWN = [info.rpartition(" ")[2] for info, _ in BLOCKS if info.startswith("text python -m scenarios.sweep ")]


def sentence(name):
    """What the table of the guide has to say of a variant."""
    module, _, variant = name.partition(".")
    example = EXAMPLES[module]
    if name == IN_THE_STORE or (variant or "build") in example.right:
        return "ok"
    return "asks" if variant == "stopping" else example.broken.get(variant, "sees nothing")


def lines(code):
    """Code without its blank lines, of which an excerpt may have others."""
    return "".join(f"{line}\n" for line in code.splitlines() if line.strip())


def test_every_example_is_part_of_a_scenario():
    code = [(info, text) for info, text in BLOCKS if info.startswith("python")]
    assert len(code) > len(EXAMPLES)
    for info, text in code:
        language, _, file = info.partition(" ")
        assert language == "python", info
        source = lines((pages.ROOT / file).read_text(encoding="utf-8"))
        excerpt = textwrap.dedent(text)
        assert any(lines(textwrap.indent(excerpt, " " * depth)) in source for depth in (0, 4, 8)), f"{info}\n{text}"


def test_what_a_sweep_says_is_what_the_guide_shows():
    assert len(SHOWN) >= 4
    assert shown(GUIDE) == GUIDE, "python -m scenarios.sweep --into docs/side-effects.md writes it anew"


@pytest.mark.parametrize(("name", "exit_code", "said"), [("triage", 0, "all ok"), ("triage.broken_no_key", 1, "FD09")])
def test_by_hand_a_variant_is_swept_and_its_finding_can_be_replayed(name, exit_code, said, capsys):
    assert main([name]) == exit_code
    out = capsys.readouterr().out
    assert said in out
    for token in re.findall(r"python -m scenarios\.sweep \S+ --replay='([^']+)'", out):
        assert main([name, f"--replay={token}"]) == exit_code


def test_by_hand_a_name_that_is_none_is_a_usage_error(capsys):
    for arguments in ([], ["refund.perfect"]):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2


def test_the_tables_list_every_variant_with_what_its_sweep_says():
    listed = re.findall(r"^\| `([\w.]+)` \|.*\| ([^|]+) \|$", GUIDE, re.MULTILINE)
    assert sorted(listed) == sorted((name, sentence(name)) for name in names())
