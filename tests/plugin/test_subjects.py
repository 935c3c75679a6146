"""Code on any engine is swept: three functions, real kills, a token that reproduces what was found."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from pytest_fastdur.faults import DivergenceError, SweepError
from pytest_fastdur.foreign import sweep_subject
from pytest_fastdur.subject import checked, is_subject
from tests.plugin import subjects

ROOT = Path(__file__).parents[2]


def verdicts(report):
    return {finding.verdict for finding in report.findings}


def assert_found_again(kind, token, verdict):
    command = [sys.executable, "-m", "pytest_fastdur", "subject", f"tests.plugin.subjects:{kind.__name__}", token]
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (again.returncode, verdict in again.stdout) == (1, True), again.stdout + again.stderr


def test_right_code_over_sqlite_survives_a_kill_at_every_change_and_round_its_effect():
    report = sweep_subject(subjects.Refund())
    assert report.ok, report.render()
    assert report.points == len(report.boundaries) == 16
    assert "start/before effect charge" in report.boundaries
    assert "resume#1/after commit" in report.boundaries


@pytest.mark.parametrize(
    ("kind", "at", "verdict"),
    [
        (subjects.Unkeyed, "start/after effect charge", "FD07 EFFECT_REPEATED"),
        (subjects.Stranding, "resume#1/after commit", "FD06 STRANDED"),
        (subjects.Forgetful, "resume#1/after commit", "FD09 DIVERGED"),
    ],
)
def test_wrong_code_is_found_and_its_token_finds_it_again_in_a_fresh_process(kind, at, verdict):
    report = sweep_subject(kind(), at=at)
    assert verdicts(report) == {verdict}, report.render()
    assert_found_again(kind, report.findings[0].token, verdict)


def test_a_second_process_that_resumes_while_the_first_stands_still_may_not_repeat_the_effect():
    right = sweep_subject(subjects.Refund(), "zombie", at="start/* effect charge")
    assert right.ok, right.render()
    wrong = sweep_subject(subjects.Racing(), "zombie", at="resume#1/before effect pay")
    assert verdicts(wrong) == {"FD04 TWO_WINNERS"}
    assert_found_again(subjects.Racing, wrong.findings[0].token, "FD04 TWO_WINNERS")


@pytest.mark.parametrize(
    ("kind", "at", "verdict"),
    [
        (subjects.OnPostgres, None, None),
        (subjects.UnkeyedOnPostgres, "start/after effect charge", "FD07 EFFECT_REPEATED"),
        (subjects.StrandingOnPostgres, "resume#1/after commit", "FD06 STRANDED"),
        (subjects.ForgetfulOnPostgres, "resume#1/after commit", "FD09 DIVERGED"),
    ],
)
def test_code_over_psycopg_is_swept_in_the_same_way(kind, at, verdict, fastdur_postgres):
    report = sweep_subject(kind(), at=at, dsn=fastdur_postgres.dsn)
    assert verdicts(report) == ({verdict} if verdict else set()), report.render()
    assert report.ok is (verdict is None)
    for finding in report.findings:
        again = sweep_subject(kind(), replay=finding.token, dsn=fastdur_postgres.dsn)
        assert (again.points, verdicts(again)) == (1, {verdict}), again.render()


def test_the_fixture_takes_a_subject_and_a_failure_prints_the_line_that_replays_it(suite):
    pytester = suite(
        """
from tests.plugin import subjects

def test_right(crash_sweep):
    crash_sweep(subjects.Refund(), at="start/after effect charge")

def test_wrong(crash_sweep):
    crash_sweep(subjects.Unkeyed(), at="start/after effect charge")

def test_declared(crash_sweep):
    crash_sweep(subjects.Unkeyed(), at="start/after effect charge", effects={"charge": "at-least-once"})

def test_unfit(crash_sweep):
    crash_sweep(subjects.Refund(), input={"amount": 1})
"""
    )
    result = pytester.runpytest_inprocess("-p", "no:randomly", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(["*--fastdur-replay='fd1-*:start/effect charge=kill after'*"])
    result.stdout.fnmatch_lines(["*a subject is swept without input*"])


def test_what_makes_no_sense_is_refused():
    refund = subjects.Refund()
    with pytest.raises(SweepError, match="raise cannot be played on a subject"):
        sweep_subject(refund, "raise")
    with pytest.raises(SweepError, match="declared 'sometimes'"):
        sweep_subject(refund, effects={"charge": "sometimes"})
    with pytest.raises(SweepError, match="no instant of"):
        sweep_subject(refund, at="nowhere")
    with pytest.raises(DivergenceError):
        sweep_subject(refund, replay="fd1-0000:start/commit=kill after")
    with pytest.raises(SweepError, match="state one of unstarted"):
        checked("done")
    with ExitStack() as nothing:
        assert not is_subject(nothing)


def test_a_status_that_is_none_is_refused_out_of_the_process_that_asked():
    class Unfit(subjects.Refund):
        def status(self, outside):
            return "done"

    with pytest.raises(SweepError, match=r"\Astatus\(\) of a subject returns .*it was 'done'\Z"):
        sweep_subject(Unfit())


def test_a_run_that_does_not_end_without_a_fault_is_not_swept():
    class Stuck(subjects.Refund):
        def resume(self, outside):
            raise LookupError("never")

    report = sweep_subject(Stuck())
    assert not report.ok
    assert "the run without a fault does not complete" in report.stopped
    assert "LookupError: never" in report.stopped
