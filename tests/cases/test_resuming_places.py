"""A run goes on where it stopped, nowhere else."""

from __future__ import annotations

import pytest

from fastdur import Resume

YES = Resume(approved=True, metadata={"by": "ada"})


@pytest.mark.case("S22")
def test_a_pause_in_the_middle_needs_one_resume_and_repeats_only_the_node_that_asked(play):
    """Wrong: starting at the first node again, skipping the one that asked, or a second resume for the rest."""
    paused = play.start("asking")
    assert (paused.status, paused.pending_interrupt.reason) == ("paused", "ok?")
    done = play.resume(YES)
    assert (done.status, done.final_state["path"]) == ("completed", ["a", "b", "c"])
    assert done.final_state["b said"] == [[True, {"by": "ada"}]]
    assert play.marks == ["a", "b", "b", "c", "pay c"]
    assert play.path() == ["a", "b", "c"]


@pytest.mark.case("S23")
def test_a_node_that_failed_runs_again_and_those_before_it_do_not(play):
    """Wrong: resuming behind the failed node, or at the first one."""
    play.world.shatter("c")
    assert play.start("five").error == "Broken"
    play.world.mend("c")
    done = play.resume()
    assert done.final_state["path"] == ["a", "b", "c", "d", "e"]
    assert play.marks == ["a", "b", "pay b", "c", "pay c", "c", "d", "e", "pay e"]


@pytest.mark.case("S23")
@pytest.mark.parametrize(
    ("die", "again"),
    [
        ("after start", []),
        ("before node a", []),
        ("a", ["a"]),
        ("after node a", ["a"]),
        ("before append a", ["a"]),
        ("after append a", []),
        ("c", ["c"]),
        ("after effect begin pay@c", ["c"]),
        ("pay c", ["c", "pay c"]),
        ("before effect end pay@c", ["c", "pay c"]),
        ("after effect end pay@c", ["c"]),
        ("before append c", ["c"]),
        ("after append c", []),
        ("before append e", ["e"]),
        ("after append e", []),
        ("before append run_end", []),
    ],
)
def test_wherever_the_process_is_killed_only_what_was_not_committed_runs_again(play, die, again):
    """Wrong: losing a row that was acknowledged, or running on from the row before it."""
    once = ["a", "b", "pay b", "c", "pay c", "d", "e", "pay e"]
    play.start("five", die=die)
    done = play.resume()
    assert (done.status, done.final_state["path"]) == ("completed", ["a", "b", "c", "d", "e"])
    assert sorted(play.marks) == sorted(once + again)
    assert [row.node_id for row in play.rows()] == ["a", "b", "c", "d", "e", "run_end"]


@pytest.mark.case("S24")
def test_a_bound_of_a_cycle_counts_through_two_crashes(play):
    """Wrong: counters kept in memory, so that each process starts from nought."""
    play.start("endless", die="work#3")
    play.resume(die="work#5")
    assert play.resume().error == "CycleLimitError"
    assert play.world.count("work") == 5 + 2
    assert play.path() == ["work"] * 5
    assert play.resume().error == "CycleLimitError"
    assert play.world.count("work") == 5 + 2
    assert play.world.count("publish") == 0


@pytest.mark.case("S24")
def test_a_bound_of_a_cycle_counts_through_a_pause_and_a_crash(play):
    """Wrong: a resume that takes the state of the pause without the counters of it."""
    assert play.start("asking_round").status == "paused"
    play.resume(YES, die="work#5")
    assert play.resume().error == "CycleLimitError"
    assert play.world.count("work") == 5 + 2
    assert play.path() == ["work"] * 5
    assert play.rows()[-1].iteration_counters == {"work->work": 4}


@pytest.mark.case("S24")
def test_a_bound_of_a_cycle_trips_in_one_process_where_it_trips_in_several(play):
    assert play.start("endless").error == "CycleLimitError"
    assert play.marks == ["work"] * 5
    assert play.path() == ["work"] * 5


@pytest.mark.case("S25")
@pytest.mark.parametrize("modified", [None, {}])
def test_an_empty_change_of_state_is_not_a_new_start(play, modified):
    """Wrong: `if modified_state:` and `if state is None:` that take empty for absent, or write a row for nothing."""
    play.start("three", {"seen": 1}, die="before append b")
    done = play.resume(modified_state=modified)
    assert (done.status, done.final_state) == ("completed", {"seen": 1, "path": ["a", "b", "c"]})
    assert play.marks == ["a", "b", "pay b", "b", "c"]
    assert [row.step_type for row in play.rows()] == ["node"] * 3 + ["run_end"]


@pytest.mark.case("S25")
def test_an_answer_without_metadata_goes_on_at_the_saved_point(play):
    """Wrong: an empty answer that counts as no answer."""
    play.start("asking")
    done = play.resume(Resume(approved=True, metadata={}))
    assert done.final_state["b said"] == [[True, {}]]
    assert play.marks == ["a", "b", "b", "c", "pay c"]


@pytest.mark.case("S26")
@pytest.mark.parametrize("die", ["work#2", "before append work (2)", "after append work (2)"])
def test_after_a_crash_in_a_round_that_round_and_all_later_ones_run(play, die):
    """Wrong: a replay that goes on skipping nodes by their names after the first one that was entered again."""
    play.start("four_rounds", die=die)
    done = play.resume()
    assert (done.final_state["round"], done.final_state["path"]) == (4, ["work"] * 4 + ["publish"])
    assert play.world.count("work") == 4 + (not die.startswith("after"))
    assert play.world.count("pay publish") == 1


@pytest.mark.case("S27")
@pytest.mark.parametrize(
    ("story", "broken", "error", "where"),
    [
        ("misreturning", "returns", "NodeResultError", "b"),
        ("two_levels", "y", "Broken", "child/y"),
        ("two_levels_with_input", "input", "Broken", "child"),
        ("two_levels_with_bad_input", "input", "NodeResultError", "child"),
    ],
)
def test_a_node_that_fails_without_raising_fails_the_run_there_and_can_be_mended(play, story, broken, error, where):
    """Wrong: a list merged or dropped in silence, or a failed inner run that counts as a finished node."""
    play.world.shatter(broken)
    assert play.start(story).error == error
    assert not {"c", "q"} & set(play.marks)
    last = play.rows()[-1]
    assert (last.node_id, last.status, last.extra["node"]) == ("run_end", "failed", where)
    assert (play.head().status, last.error.partition(":")[0]) == ("failed", error)
    play.world.mend(broken)
    done = play.resume()
    assert (done.status, done.final_state["path"][-1]) == ("completed", "c" if where == "b" else "q")
    assert max(play.marks.count(first) for first in ("a", "p", "x")) == 1


@pytest.mark.case("S31")
@pytest.mark.parametrize("story", ["four_rounds", "asking_twice", "five"])
def test_all_ways_to_ask_for_the_newest_row_name_the_same_one(play, story):
    """Wrong: ordering by time, by name or by index, where rounds and resumes repeat all three."""

    def agree():
        rows, newest = play.rows(), play.read("get_last", "r-1")
        assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
        assert newest == rows[-1] == play("result", "r-1").history[-1]
        assert play.head().seq == newest.seq
        assert play.read("get_by_id", "r-1", newest.checkpoint_id) == newest
        return newest

    if story == "asking_twice":
        play.start(story)
        assert agree().step_type == "hitl_pause"
        play.resume(YES)
        assert (agree().step_type, agree().extra["reason"]) == ("hitl_pause", "second?")
        play.resume(YES)
    else:
        node = "work (3)" if story == "four_rounds" else "d"
        play.start(story, die=f"after append {node}")
        assert agree().step_type == "node"
        play.resume(die="before append run_end")
        assert agree().step_type == "node"
        play.resume()
    assert (agree().node_id, agree().status) == ("run_end", "completed")
