"""The replay token is text that people read and edit; nothing is lost on the way there and back."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_fastdur.faults import (
    DivergenceError,
    Fault,
    FaultPlan,
    Point,
    Step,
    SweepError,
    check_digest,
    digest_of,
    parse_token,
)

LIFETIMES = st.sampled_from(["start", "start#2", "resume#1", "resume#12"])
POINTS = st.builds(Point, LIFETIMES, st.sampled_from(["before", "after"]), st.text(min_size=1))
PLANS = st.lists(st.builds(Step, POINTS, st.sampled_from(Fault)), min_size=1, max_size=3).map(
    lambda steps: FaultPlan(tuple(steps))
)


def test_a_token_reads_as_it_is_meant():
    step = Step(Point("resume#1", "after", "append review"), Fault.KILL)
    assert FaultPlan((step,)).token("7c4e") == "fd1-7c4e:resume#1/append review=kill after"


@given(PLANS, st.sampled_from(["0000", "7c4e"]))
def test_parsing_undoes_formatting(plan, digest):
    assert parse_token(plan.token(digest)) == (digest, plan)


@given(PLANS)
def test_a_token_survives_a_shell(plan):
    token = plan.token("7c4e")
    assert shlex.split(f"--fastdur-replay='{token}'") == [f"--fastdur-replay={token}"]


@pytest.mark.parametrize("joint", [", ", ",", "; ", ";"])
def test_steps_are_joined_by_a_comma_or_a_semicolon(joint):
    _, plan = parse_token(f"fd1-7c4e:start/append a=crash after{joint}resume#1/look=kill before")
    assert [step.fault for step in plan.steps] == [Fault.CRASH, Fault.KILL]
    assert plan.of("resume#1")[0].point == Point("resume#1", "before", "look")


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ("", "is no replay token"),
        ("fd2-7c4e:start/look=crash before", "is no replay token"),
        ("fd1-7c4e:look=crash before", "is not LIFETIME/BOUNDARY=FAULT"),
        ("fd1-7c4e:start/look=crash", "is not LIFETIME/BOUNDARY=FAULT"),
        ("fd1-7c4e:start/look=crush before", "there is no fault 'crush'"),
    ],
)
def test_a_token_that_is_none_says_what_is_wrong(token, said):
    with pytest.raises(SweepError, match=said):
        parse_token(token)


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (["a", "x", "c"], "the first that differs is number 2, 'x' then and 'b' now"),
        (["a", "b"], "'c' is new"),
        (["a", "b", "c", "d"], "'d' is gone"),
        (None, "cannot be told"),
    ],
)
def test_a_list_that_differs_is_told_by_its_first_difference(known, said):
    recorded = ["a", "b", "c"]
    with pytest.raises(DivergenceError, match=said):
        check_digest("0000" if known is None else digest_of(known), recorded, known)
    check_digest(None, recorded, known)
    check_digest(digest_of(recorded), recorded, known)


def test_a_pattern_fits_the_whole_the_instant_or_the_name():
    point = Point("resume#1", "after", "append review")
    fitting = ["resume#1/after append review", "after append review", "append review", "append *", "resume#1/*"]
    assert all(point.matches(pattern) for pattern in fitting)
    assert not point.matches("before *")
    assert Point("start", "after", "look [2]").matches("after look [2]")
