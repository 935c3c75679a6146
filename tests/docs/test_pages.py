"""The pages of the documentation say what is so: their code runs, and prints what they say it prints."""

from __future__ import annotations

import re
from inspect import signature

import pytest

from pytest_fastdur.fixtures import CrashSweep
from pytest_fastdur.verdicts import Verdict
from pytest_fastdur.zoo import ANIMALS
from tests.docs import pages

PAGES = sorted((pages.ROOT / "docs").glob("*.md"))
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_code_of_a_page_runs_and_prints_what_the_page_says(path, tmp_path):
    page = pages.read(path)
    if not page.parts:
        return  # a page without a program
    for part, printed in zip(page.parts, pages.run(page, tmp_path), strict=True):
        assert printed == (part.printed or "")


@pytest.mark.parametrize("path", [*PAGES, pages.ROOT / "README.md"], ids=lambda path: path.name)
def test_every_link_of_a_page_leads_somewhere(path):
    for target, anchor in LINK.findall(path.read_text(encoding="utf-8")):
        file = path.parent / target if target else path
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in anchors, f"{target}#{anchor}"


def test_every_page_is_in_the_list_of_contents():
    contents = (pages.ROOT / "docs/index.md").read_text(encoding="utf-8")
    missing = [path.name for path in PAGES if path.name != "index.md" and f"({path.name})" not in contents]
    assert missing == []


def test_the_table_of_the_zoo_is_that_of_the_zoo():
    text = (pages.ROOT / "docs/races.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \((\w+)\) \| (\w+) \|", text, re.MULTILINE)
    assert [each[:4] for each in listed] == [(a.name, a.what, a.tool, a.story) for a in ANIMALS.values()]
    assert [name for name, *_, code in listed if code not in ANIMALS[name].verdicts] == []


@pytest.mark.parametrize("path", ["docs/testing.md", "docs/races.md"])
def test_the_tests_that_a_page_shows_pass(pytester, path):
    page = pages.read(pages.ROOT / path)
    for name, code in page.files.items():
        (pytester.path / name).write_text(code, encoding="utf-8")
    shown = "".join(code for name, code in page.files.items() if name.startswith("test_")).count("def test_")
    shown += "".join(page.files.values()).count(".TestCase")
    pytester.runpytest_subprocess().assert_outcomes(passed=shown)


def test_the_table_of_verdicts_is_that_of_the_plugin():
    text = (pages.ROOT / "docs/testing.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (FD\d\d) \| (\w+) \|", text, re.MULTILINE)
    assert listed == [(verdict.code, verdict.name) for verdict in Verdict]


def test_some_sweep_looks_for_each_verdict():
    source = "".join(
        path.read_text(encoding="utf-8")
        for path in (pages.ROOT / "pytest_fastdur").rglob("*.py")
        if path.name != "verdicts.py"
    )
    assert [verdict.code for verdict in Verdict if not re.search(rf"\bVerdict\.{verdict.name}\b", source)] == []


def test_every_option_and_argument_of_the_plugin_is_on_its_page(pytester):
    text = (pages.ROOT / "docs/testing.md").read_text(encoding="utf-8")
    options = set(re.findall(r"--fastdur-\w+", pytester.runpytest_subprocess("--help").stdout.str()))
    assert options == set(re.findall(r"--fastdur-\w+", text))
    arguments = set(signature(CrashSweep.__call__).parameters) - {"self", "build"}
    assert {name for name in arguments if f"`{name}`" not in text and f"`{name}=" not in text} == set()
