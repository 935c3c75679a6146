"""A sweep that is written down: judged again without a run, and shown on a page that needs nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from pytest_fastdur.evidence import Evidence
from pytest_fastdur.faults import SweepError
from pytest_fastdur.report.page import write_page
from pytest_fastdur.report.records import judged_again, lines_of, read
from pytest_fastdur.sweep import Order, Recorded, carry_out, faults_named
from tests.plugin import stories

BOTH = """
def test_right(crash_sweep, right):
    crash_sweep(right, input=stories.INPUT, answers=stories.ANSWERS, effects={"charge": "exactly-once"})
def test_wrong(crash_sweep, wrong):
    crash_sweep(wrong, input=stories.INPUT)
"""


def recorded(ledger, faults, tmp_path, **more):
    """The file of a sweep, its report, and what it was made of."""
    kept = Recorded()
    report = carry_out(stories.refund(ledger, **more), Order(faults_named(faults)), None, kept)
    path = tmp_path / "sweep.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines_of(kept, report)))
    return path, report, kept


@pytest.mark.parametrize("faults", ["crash,raise", "kill", "zombie,locked,full"])
def test_a_right_sweep_is_judged_again_alike(ledger, tmp_path, faults):
    path, report, kept = recorded(ledger, faults, tmp_path, store=None)
    (judged,) = judged_again(read(path))
    assert (judged.found, judged.changed, judged.store) == ([], [], "sqlite")
    assert judged.histories == len(kept.histories) >= report.points


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"pay": "unkeyed"}, "FD07"),
        ({"store": stories.Rewriting}, "FD03"),
        ({"store": stories.Immortal}, "FD06"),
        ({"store": stories.Haunted}, "FD11"),
    ],
)
def test_what_was_found_is_found_again(ledger, tmp_path, more, code):
    if "pay" in more:
        more = {"pay": stories.charging(ledger, keyed=False)}
    path, _, kept = recorded(ledger, "crash", tmp_path, **more)
    (judged,) = judged_again(read(path))
    assert judged.changed == []
    assert len(judged.found) == sum(mark == code for _, mark in kept.histories) > 0
    assert all(line.startswith(code) for line in judged.found)


def test_evidence_is_plain_data_and_back(ledger, tmp_path):
    _, _, kept = recorded(ledger, "crash,raise", tmp_path)
    for evidence, _ in kept.histories:
        plain = evidence.plain("0000")
        assert Evidence.of_plain(json.loads(json.dumps(plain))).plain("0000") == plain


def test_a_history_that_is_changed_in_the_file_is_judged_otherwise(ledger, tmp_path):
    path, _, _ = recorded(ledger, "crash", tmp_path)
    path.write_text(
        path.read_text().replace('"counts":{"charge":["exactly-once",1,1]}', '"counts":{"charge":["exactly-once",1,2]}')
    )
    (judged,) = judged_again(read(path))
    assert judged.found
    assert "ok when it was played, FD07 now" in judged.changed[0]


@pytest.mark.parametrize("text", ["nonsense", "[1]", "", '{"sweep": {"format": 99}}'])
def test_a_file_of_something_else_is_refused(tmp_path, text):
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(SweepError, match=r"no file of recorded sweeps|another version"):
        read(path)


def judge(*arguments):
    program = [sys.executable, "-m", "pytest_fastdur", *map(str, arguments)]
    return subprocess.run(program, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_a_report_is_written_judged_and_shown(suite, workers):
    pytester = suite(BOTH)
    (pytester.path / "out").mkdir()
    (pytester.path / "out/old.jsonl").write_text("of an earlier run")
    result = pytester.runpytest_subprocess("--fastdur-report=out", *workers)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["fastdur: the histories are in *index.html"])
    files = sorted((pytester.path / "out").glob("*.jsonl"))
    assert len(files) == 2
    done = judge("judge", *files)
    assert done.returncode == 1
    assert re.search(r"test_right on sqlite: \d+ histories, all hold", done.stdout)
    assert "FD07 EFFECT_REPEATED  crash start/after node pay" in done.stdout
    page = (pytester.path / "out/index.html").read_text()
    assert "EFFECT_REPEATED" in page
    assert not re.search(r"(src|href)=|https?://", page)


def test_the_command_says_how_it_is_used(tmp_path):
    assert (judge().returncode, judge("judge").returncode) == (2, 2)
    missing = judge("judge", tmp_path / "missing.jsonl")
    assert (missing.returncode, "no file of recorded sweeps" in missing.stderr) == (2, True)


def test_no_text_of_a_story_can_end_the_script_of_the_page(ledger, tmp_path):
    recorded(ledger, "crash", tmp_path, nodes={"</script><b>": lambda state: {}})
    page = write_page(tmp_path).read_text()
    assert page.count("</script>") == 1
