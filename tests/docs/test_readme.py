"""The README is true: its code runs, its crash test passes, and its red report is the one that comes out."""

from __future__ import annotations

import re

import pytest

from tests.docs import pages

README = pages.ROOT / "README.md"
PAGE = pages.read(README)
RED = re.search(r"^```text red\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_first_chain_prints_what_the_readme_says(tmp_path):
    printed = pages.run(PAGE, tmp_path)
    assert printed == [part.printed for part in PAGE.parts]
    assert (tmp_path / ".fastdur/fastdur.db").is_file()


@pytest.mark.parametrize(("file", "most"), [("refund.py", 20), ("test_refund.py", 12)])
def test_the_first_files_are_short(file, most):
    lines = [line for line in PAGE.files[file].splitlines()[1:] if line]
    assert len(lines) <= most


def test_the_first_crash_test_passes_without_configuration(pytester):
    outcome = run(pytester, PAGE.files)
    outcome.assert_outcomes(passed=1)
    outcome.stdout.fnmatch_lines(["*boundaries, crash before and after:*all ok"])


def test_the_red_report_is_the_one_that_comes_out(pytester):
    assert RED is not None
    outcome = run(pytester, broken())
    outcome.assert_outcomes(failed=1)
    assert RED[1].rstrip() == report(outcome.stdout.str())


def test_the_line_of_the_red_report_replays_it(pytester):
    assert RED is not None
    found = re.search(r"--fastdur-replay='([^']+)'", RED[1])
    assert found is not None
    outcome = run(pytester, broken(), f"--fastdur-replay={found[1]}")
    outcome.assert_outcomes(failed=1)
    assert report(outcome.stdout.str()).count("FD07 EFFECT_REPEATED") == 1
    run(pytester, PAGE.files, f"--fastdur-replay={found[1]}").assert_outcomes(passed=1)


def broken():
    """The files with the mistake that the README tells to make."""
    assert PAGE.files["refund.py"].count("key=effect_key()") == 1
    return {**PAGE.files, "refund.py": PAGE.files["refund.py"].replace("key=effect_key()", "key=None")}


@pytest.fixture(autouse=True)
def at_home(monkeypatch):
    """Pytest repeats whole messages in its summary where it takes itself to be on a build server."""
    for name in ("CI", "BUILD_NUMBER"):
        monkeypatch.delenv(name, raising=False)


def run(pytester, files, *options):
    for name, code in files.items():
        (pytester.path / name).write_text(code, encoding="utf-8")
    return pytester.runpytest_subprocess("-p", "no:randomly", *options)


def report(output):
    """What pytest shows of the failed test: from the summary of the sweep to the line that replays it."""
    (block,) = re.findall(r"^test_refund_survives.*?^  replay: .*?$", output, re.MULTILINE | re.DOTALL)
    return block
