"""The rows of the re-entry table for forks: what is refused, in which state of the source, and what that leaves."""

from __future__ import annotations

import pytest

from tests.cases.conftest import RUN
from tests.cases.test_forks import STATES, cancelled, completed, failed


class Bad:
    """Not storable, and can be sent to another process."""


REFUSED = {
    "a run that is not there": ("RunNotFound", ("another",), {}),
    "a row that is not there": ("CheckpointNotFound", (RUN, "1-77-0123456789abcdef"), {}),
    "no id of a row": ("CheckpointNotFound", (RUN, "the newest"), {}),
    "an id that is taken": ("RunExists", (RUN,), {"new_execution_id": RUN}),
    "a state that is no dict": ("TypeError", (RUN,), {"modified_state": ["a"]}),
    "an input that is no dict": ("TypeError", (RUN,), {"input": "text"}),
    "a value that is not storable": ("NotStorable", (RUN,), {"modified_state": {"a": {"b": Bad()}}}),
    "an input that is not storable": ("NotStorable", (RUN,), {"input": {1: 2}}),
    "effects of a third kind": ("ValueError", (RUN,), {"effects": "none"}),
    "a new id that is none": ("TypeError", (RUN,), {"new_execution_id": ""}),
    "a row that is no text": ("TypeError", (RUN, 3), {}),
}


def refused(play, name, args, keywords, **more):
    """What a fork raised; not one row of any table may have changed, and nothing have run."""
    before, marks = play.dump(), play.marks
    came = play("fork", *args, **{"new_execution_id": "f", **keywords}, **more)
    assert came.error == name, came
    after = play.dump()
    assert {table: after[table] for table in before} == before
    assert play.marks == marks
    return came


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("what", REFUSED)
def test_a_fork_that_is_refused_changes_nothing_whatever_its_source_is_doing(play, state, what):
    """Wrong: a head of the branch that is left behind, or a source that was claimed to look at it."""
    state(play)
    error, args, keywords = REFUSED[what]
    came = refused(play, error, args, keywords)
    if error == "RunNotFound":
        with play.store() as store:
            assert store.location in came.text
    if error == "CheckpointNotFound":
        assert "history" in came.text


@pytest.mark.parametrize("state", [completed, failed, cancelled])
def test_the_marker_of_every_ending_is_refused(play, state):
    state(play)
    refused(play, "ForkRefused", (RUN, play.rows()[-1].checkpoint_id), {})


def test_a_row_of_another_run_is_refused(play):
    completed(play)
    play.start("three", run="other")
    refused(play, "CheckpointNotFound", (RUN, play.rows("other")[0].checkpoint_id), {})


@pytest.mark.parametrize("story", ["asking_renamed", "asking_removed", "three", "five"])
def test_a_graph_that_does_not_fit_what_has_run_is_refused(play, story):
    play.start("asking")
    came = refused(play, "GraphChanged", (RUN,), {}, story=story)
    assert "does not fit the stored run" in came.text


def test_a_graph_that_was_changed_is_taken_where_that_is_said(play):
    play.start("asking")
    assert refused(play, "GraphChanged", (RUN,), {}, story="three").error == "GraphChanged"
    came = play("fork", RUN, new_execution_id="f", story="three", accept_graph=True)
    assert (came.error, came.status) == (None, "completed"), came.text
    assert play.head("f").runner == "three"
