"""`fastdur lint`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fastdur.lint._rules import RULES

PAGE = (Path(__file__).parents[2] / "docs/lint.md").read_text(encoding="utf-8")
FLOW = re.search(r"^```py\n# flow\.py\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[1]
SAID = re.search(r"^it says\n\n```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[1]


@pytest.fixture
def flow(tmp_path):
    (tmp_path / "flow.py").write_text(FLOW, encoding="utf-8")
    return tmp_path / "flow.py"


def test_it_says_what_the_page_shows_and_makes_no_store(fastdur_here, flow, tmp_path):
    assert fastdur_here("lint") == (1, SAID, "")
    assert list(tmp_path.iterdir()) == [flow]


def test_where_nothing_is_found_it_says_so(fastdur_here, tmp_path):
    assert fastdur_here("lint") == (0, "Nothing found in 0 files.\n", "")


def test_what_is_looked_for_can_be_chosen(fastdur_here, flow):
    assert fastdur_here("lint", flow, "--select", "FDL03, FDL9").out.count(": FDL") == 1
    assert "FDL03" not in fastdur_here("lint", "flow.py", "--ignore", "changing-read").out
    assert fastdur_here("lint", "--select", "FDL03", "--ignore", "FDL03").code == 0


def test_a_project_says_what_is_linted(fastdur_here, flow, tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.fastdur.lint]\npaths = ['src']\n", encoding="utf-8")
    assert fastdur_here("lint").out == "Nothing found in 0 files.\n"
    assert fastdur_here("lint", ".").code == 1
    (tmp_path / "other.toml").write_text("[tool.fastdur.lint]\nignore = ['FDL']\n", encoding="utf-8")
    assert fastdur_here("lint", ".", "--config", "other.toml").code == 0


def test_programs_get_json_and_sarif(fastdur_here, flow):
    said = fastdur_here("lint", "--format", "json")
    assert (said.code, [each["code"] for each in json.loads(said.out)["findings"]]) == (1, ["FDL01", "FDL03"])
    said = fastdur_here("lint", "--format", "sarif")
    assert (said.code, json.loads(said.out)["version"]) == (1, "2.1.0")


def test_a_file_that_is_no_python_is_an_error_and_the_others_are_linted(fastdur_here, flow, tmp_path):
    (tmp_path / "bad.py").write_text("x = 1\ndef (:\n", encoding="utf-8")
    said = fastdur_here("lint")
    assert (said.code, said.out) == (2, SAID.replace("1 file", "2 files"))
    assert re.fullmatch(r"fastdur: bad\.py:2: is no Python 3\.\d+: .*\n", said.err)


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["nowhere"], "There is nothing at 'nowhere' to lint."),
        (["--select", "FDL77"], "--select names 'FDL77', which is no rule. There are: FDL01"),
        (["--config", "nothing.toml"], "nothing.toml cannot be read: No such file or directory."),
        (["--explain", "FDL77"], "'FDL77' is no rule. There are: FDL01"),
    ],
)
def test_what_it_cannot_do_is_one_clear_error(fastdur_here, args, why):
    said = fastdur_here("lint", *args)
    assert (said.code, said.out) == (2, "")
    assert why in said.err
    assert len(said.err.splitlines()) == 1


@pytest.mark.parametrize("args", [["--format", "xml"], ["--nothing"]])
def test_what_it_does_not_understand_is_a_usage_error(fastdur_here, args):
    assert fastdur_here("lint", *args).code == 2


@pytest.mark.parametrize("asked", ["FDL07", "fdl07", "changing-key"])
def test_a_rule_is_explained(fastdur_here, asked):
    said = fastdur_here("lint", "--explain", asked)
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("FDL07 changing-key: A key_fn that gives another key the next time\n")


def test_the_page_has_every_rule_once():
    assert re.findall(r"^### (FDL\d\d) ", PAGE, re.MULTILINE) == list(RULES)


def test_the_installed_command_lints(fastdur_apart, flow):
    assert fastdur_apart("lint") == (1, SAID, "")


def test_linting_imports_no_extra_and_not_what_it_lints(flow):
    program = (
        "import sys\n"
        "from fastdur.lint._check import lint\n"
        "from fastdur.lint._config import Config\n"
        f"assert lint([{str(flow)!r}], Config()).exit_code == 1\n"
        "assert not {'psycopg', 'typer', 'rich', 'requests', 'flow'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
