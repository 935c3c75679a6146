"""The report as text, JSON and SARIF."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from fastdur.lint import _output
from fastdur.lint._config import Config
from fastdur.lint._findings import Finding, Place, Problem, Report
from fastdur.lint._rules import RULES
from tests.unit.lint.linting import report

SCHEMA = json.loads((Path(__file__).parents[2] / "data/sarif-2.1.0-rtm.5.json").read_text(encoding="utf-8"))
FLOW = """
import time
from fastdur import Chain

def now():
    return time.time()

Chain("c").add_node("n", lambda state: {"at": now(), "x": SEEN.append(1)})
SEEN = []
"""
SAID = "node 'n' reads the clock (time.time), which is different when it runs again."
AT = Place("a b.py", 3, 5, 3, 9)


@pytest.fixture
def linted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return report(Path(), {"flow.py": FLOW, "bad.py": "def (\n"}, Config())


def test_text_has_a_way_out_for_each_finding_and_a_sum(linted):
    assert _output.text(linted).splitlines() == [
        f"flow.py:6:12: FDL03 {SAID} Way: <lambda> > now (flow.py:8) > time.time.",
        f"    way out: {RULES['FDL03'].cure}",
        "flow.py:8:59: FDL12 node 'n' changes SEEN, which lives in this process and not in the state.",
        f"    way out: {RULES['FDL12'].cure}",
        "2 findings in 2 files. Each rule in full: fastdur lint --explain FDL03 (FDL12)",
    ]


def test_text_of_nothing_says_how_much_was_read():
    assert _output.text(Report((), (), 1)) == "Nothing found in 1 file.\n"
    assert _output.text(Report((), (), 1200)) == "Nothing found in 1,200 files.\n"
    assert _output.text(Report((), (Problem("a.py", 1, "is none"),), 1)) == ""
    one = _output.text(Report((Finding(AT, "FDL03", "it reads."),), (), 1))
    assert one.endswith("1 finding in 1 file. Each rule in full: fastdur lint --explain FDL03\n")


def test_json_has_all_that_is_known(linted):
    data = json.loads(_output.as_json(linted))
    assert data["files"] == 2
    first = data["findings"][0]
    assert (first["path"], first["line"], first["column"], first["end_line"], first["end_column"]) == (
        "flow.py",
        6,
        12,
        6,
        23,
    )
    assert (first["code"], first["rule"], first["way_out"]) == ("FDL03", "changing-read", RULES["FDL03"].cure)
    assert [(step["name"], step["line"]) for step in first["way"]] == [("<lambda>", 8), ("now", 8), ("time.time", 6)]
    assert [(each["path"], each["line"]) for each in data["problems"]] == [("bad.py", 1)]


def test_sarif_is_valid_and_points_into_the_source(linted):
    log = json.loads(_output.sarif(linted, "0.1.0"))
    jsonschema.validate(log, SCHEMA)
    (run,) = log["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == list(RULES)
    result = run["results"][0]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "FDL03"
    (location,) = result["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "flow.py"},
        "region": {"startLine": 6, "startColumn": 12, "endLine": 6, "endColumn": 23},
    }
    steps = result["codeFlows"][0]["threadFlows"][0]["locations"]
    assert [step["location"]["message"]["text"] for step in steps] == ["<lambda>", "now", "time.time"]
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    assert invocation["toolExecutionNotifications"][0]["message"]["text"].startswith("is no Python")


def test_sarif_of_nothing_is_valid_too():
    log = json.loads(_output.sarif(Report((), (), 0), "0.1.0"))
    jsonschema.validate(log, SCHEMA)
    assert log["runs"][0]["results"] == []
    assert log["runs"][0]["invocations"][0]["executionSuccessful"] is True


def test_a_path_is_an_address_in_sarif():
    places = [AT, Place("/away/ü.py", 1, 1, 1, 1)]
    log = json.loads(_output.sarif(Report(tuple(Finding(at, "FDL91", "x") for at in places), (), 2), "0.1.0"))
    jsonschema.validate(log, SCHEMA)
    results = log["runs"][0]["results"]
    uris = [each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in results]
    assert uris == ["a%20b.py", "file:///away/%C3%BC.py"]
    assert "codeFlows" not in results[0]


def test_the_schema_refuses_what_is_not_sarif():
    log = json.loads(_output.sarif(Report((Finding(AT, "FDL03", "x"),), (), 1), "0.1.0"))
    log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] = 0
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(log, SCHEMA)


@pytest.mark.parametrize(("problems", "findings", "code"), [(0, 0, 0), (0, 1, 1), (1, 0, 2), (1, 1, 2)])
def test_the_exit_code_says_which(problems, findings, code):
    found = (Finding(AT, "FDL03", "x"),) * findings
    assert Report(found, (Problem("a.py", 1, "x"),) * problems, 1).exit_code == code
