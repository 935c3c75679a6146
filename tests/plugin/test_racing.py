"""The fixtures `interleave` and `race`: what they try, how they fail a test, and what plays a finding again."""

from __future__ import annotations

import re

import pytest

from pytest_fastdur.interleave import interleave
from pytest_fastdur.ledger import EffectLedger
from pytest_fastdur.story import Story
from pytest_fastdur.zoo import ANIMALS, loose
from tests.plugin import stories

BROKEN = """
from pytest_fastdur.zoo import ANIMALS, loose

@pytest.fixture(autouse=True)
def broken():
    with loose(ANIMALS["claims_without_looking"]):
        yield
"""
PAIR = """
def test_pair(interleave, right):
    interleave(right, ["resume", "resume"], input=stories.INPUT, answers=stories.ANSWERS,
               situation="start/after start", effects={"charge": "exactly-once"})
"""


def schedule_of(result):
    return re.search(r"--fastdur-replay='(fdi1-[^']*)'", result.stdout.str())[1]


@pytest.fixture(scope="module")
def token():
    """The schedule that such a test finds on a broken engine."""
    with EffectLedger() as ledger, loose(ANIMALS["claims_without_looking"]):
        nodes = ("check", stories.check), ("review", stories.review), ("pay", stories.charging(ledger))
        story = Story("pair", lambda store: stories.chain(store, *nodes), stories.INPUT, stories.ANSWERS, ledger=ledger)
        return interleave(story, situation="start/after start", first=True).findings[0].token


def test_every_order_of_two_callers_is_tried_and_told(suite):
    pytester = suite(PAIR)
    pytester.runpytest_inprocess("--junit-xml=junit.xml").assert_outcomes(passed=1)
    assert 'name="fastdur.complete" value="True"' in (pytester.path / "junit.xml").read_text()


def test_a_schedule_that_was_found_is_played_again_alone_by_the_command_line(suite, token):
    pytester = suite(BROKEN + PAIR)
    again = pytester.runpytest_inprocess(f"--fastdur-replay={token}", "--junit-xml=junit.xml")
    assert f'name="fastdur.replay" value="{token}"' in (pytester.path / "junit.xml").read_text()
    again.assert_outcomes(failed=1)
    assert schedule_of(again) == token
    again.stdout.fnmatch_lines(["*: 1 schedules,*"])


def test_a_schedule_on_a_mark_is_played_before_all_others(suite, token):
    marked = f"@pytest.mark.fastdur_replay({token!r})\n{PAIR.strip()}\n"
    red = suite(BROKEN + marked).runpytest_inprocess("--strict-markers")
    red.assert_outcomes(failed=1)
    red.stdout.fnmatch_lines(["*: 1 schedules,*"])
    suite(marked).runpytest_inprocess("--strict-markers").assert_outcomes(passed=1)


def test_a_race_plays_a_schedule_where_one_is_ordered(suite, token):
    racing = PAIR.replace("interleave", "race")
    red = suite(BROKEN + racing).runpytest_inprocess(f"--fastdur-replay={token}")
    red.assert_outcomes(failed=1)
    assert schedule_of(red) == token


def test_processes_race_and_their_rounds_are_told(suite):
    pytester = suite(
        """
def test_four(race, right):
    report = race(right, rounds=2, input=stories.INPUT, answers=stories.ANSWERS)
    assert report.rounds == 2
"""
    )
    pytester.runpytest_inprocess("--junit-xml=junit.xml").assert_outcomes(passed=1)
    assert 'name="fastdur.rounds" value="2"' in (pytester.path / "junit.xml").read_text()


@pytest.mark.parametrize(
    ("test", "options", "said"),
    [
        (PAIR, ["--fastdur-replay=fd1:start/append send=crash after"], "this test plays schedules"),
        (PAIR, ["--fastdur-replay=fdi1-0000:0x3"], "another race"),
        (PAIR, ["--fastdur-backends=memory"], "a store in memory has one"),
        ("def test_c(crash_sweep, right):\n    crash_sweep(right)\n", ["--fastdur-replay=fdi1:0x3"], "is a schedule"),
    ],
)
def test_an_order_that_is_none_for_this_test_is_refused(suite, test, options, said):
    result = suite(test).runpytest_inprocess("-p", "no:cacheprovider", *options)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"*{said}*"])


def test_a_schedule_that_is_none_is_refused_before_any_test(suite):
    result = suite(PAIR).runpytest_inprocess("--fastdur-replay=fdi1:0y3")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
