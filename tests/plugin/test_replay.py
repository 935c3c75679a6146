"""What was found once is played first: from the cache, from a mark, from a mark that the plugin wrote itself."""

from __future__ import annotations

import subprocess

import pytest

from pytest_fastdur.report.regressions import patch_of
from pytest_fastdur.sweep import Order, carry_out, explore
from tests.plugin import stories
from tests.plugin.test_plugin import RIGHT, WRONG, token_of


def test_what_was_found_last_time_is_played_first_and_forgotten_once_it_holds(suite):
    pytester = suite(WRONG)
    first = pytester.runpytest_inprocess("--fastdur-seed=1")
    first.stdout.no_fnmatch_line("*played first*")
    again = pytester.runpytest_inprocess("--fastdur-budget=1")
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines(["  1 known history was played first", "FD07 EFFECT_REPEATED *"])
    assert token_of(again) == token_of(first)
    suite(RIGHT)
    pytester.runpytest_inprocess().assert_outcomes(passed=1)
    pytester.runpytest_inprocess().stdout.no_fnmatch_line("*played first*")


def test_a_mark_is_played_in_every_run_and_must_fit(suite):
    token = token_of(suite(WRONG).runpytest_inprocess("-p", "no:cacheprovider"))
    marked = f"@pytest.mark.fastdur_replay({token!r})\n{WRONG.strip()}\n"
    result = suite(marked).runpytest_inprocess("--strict-markers", "-p", "no:cacheprovider", "--fastdur-budget=1")
    result.assert_outcomes(failed=1)
    assert token_of(result) == token
    other = marked.replace("wrong", "right").replace(
        "input=stories.INPUT", "input=stories.INPUT, answers=stories.ANSWERS"
    )
    result = suite(other).runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["DivergenceError: *"])


@pytest.mark.parametrize(("mark", "said"), [("()", "takes one token"), ("('nonsense')", "is no replay token")])
def test_a_mark_that_makes_no_sense_is_refused(suite, mark, said):
    result = suite(f"@pytest.mark.fastdur_replay{mark}\n{RIGHT.strip()}\n").runpytest_inprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"SweepError: *{said}*"])


def test_the_patch_that_is_written_makes_what_was_found_a_mark(suite):
    pytester = suite(WRONG)
    result = pytester.runpytest_inprocess("--fastdur-write-regressions")
    result.stdout.fnmatch_lines(["fastdur: fastdur-regressions.patch marks the tests with what they found; *"])
    subprocess.run(["git", "apply", "fastdur-regressions.patch"], cwd=pytester.path, check=True)
    text = (pytester.path / "test_refund.py").read_text()
    assert f"@pytest.mark.fastdur_replay({token_of(result)!r})\ndef test_refund(" in text
    again = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--fastdur-write-regressions")
    again.stdout.fnmatch_lines(["  1 known history was played first"])
    assert (pytester.path / "test_refund.py").read_text() == text


def test_a_patch_imports_what_it_needs_below_what_must_come_first(tmp_path):
    (tmp_path / "test_a.py").write_text("from __future__ import annotations\n\nimport os\n\ndef test_a():\n    pass\n")
    patch = patch_of(tmp_path, [("test_a.py", 4, "t"), ("test_a.py", 4, "t")])
    added = [line for line in patch.splitlines() if line.startswith("+") and not line.startswith("+++")]
    assert added == ["+import pytest", "+@pytest.mark.fastdur_replay('t')"]
    assert patch_of(tmp_path, []) == ""


@pytest.mark.parametrize("fault", ["crash", "raise", "kill", "zombie"])
def test_the_token_of_every_finding_finds_it_again(ledger, fault):
    story = stories.refund(ledger, pay=stories.charging(ledger, keyed=False))
    report = explore(story, fault)
    assert report.findings
    for finding in report.findings:
        again = carry_out(story, Order(replay=finding.token))
        assert [each.code for each in again.findings] == [finding.code]
        assert again.findings[0].token == finding.token
