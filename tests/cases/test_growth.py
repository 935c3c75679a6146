"""What is stored grows with the work done, not with its square; no limit decides what is newest."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from fastdur import Chain
from tests.cases._opened import on_files
from tests.cases._server import attempt
from tests.cases.conftest import RUN

MB = 1_000_000


def bytes_stored(file):
    with closing(sqlite3.connect(file)) as connection:
        (size,) = connection.execute(
            "SELECT sum(length(body) + coalesce(length(extra), 0)) FROM checkpoints"
        ).fetchone()
        pages, size_of_one = (
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")
        )
    return size, pages * size_of_one


@on_files
@pytest.mark.case("S89")
def test_a_constant_of_one_megabyte_is_not_stored_once_for_each_of_a_hundred_nodes(here):
    """Wrong: a whole snapshot in every row: 100 MB."""
    chain = Chain("constant", checkpointer=here.store)
    for number in range(100):
        chain.add_node(f"n{number}", here.world.step(f"n{number}"))
        if number:
            chain.connect(f"n{number - 1}", f"n{number}")
    here.chain = chain
    done = here("execute", {"constant": "x" * MB, "list": [str(n) for n in range(1_000)]}, RUN)
    assert (done.status, len(done.final_state["constant"])) == ("completed", MB)
    rows, file = bytes_stored(here.file)
    assert rows < 3 * MB
    assert file < 6 * MB
    assert [len(row.state_snapshot["constant"]) for row in here.store.list(RUN)[:3]] == [MB] * 3


@on_files
@pytest.mark.case("S89")
def test_a_megabyte_that_is_handed_down_into_nested_chains_is_not_stored_at_each_step(here):
    """Wrong: differences at the outermost level only."""
    inner = Chain("inner")
    for number in range(50):
        inner.add_node(f"n{number}", here.world.step(f"n{number}"))
        if number:
            inner.connect(f"n{number - 1}", f"n{number}")
    here.chain = Chain("outer", checkpointer=here.store).add_node("in", inner)
    assert here("execute", {"constant": "x" * MB}, RUN).status == "completed"
    assert bytes_stored(here.file)[0] < 8 * MB


@pytest.mark.case("S96")
@pytest.mark.parametrize("answers", [0, 1])
def test_a_run_of_seven_hundred_rows_that_fails_at_its_last_step_goes_on_there(play, answers):
    """Wrong: a page size, a LIMIT or a recursion limit that decides which row is the newest."""
    play.story = "seven_hundred"
    play.world.shatter("last")
    if answers:
        play.start("seven_hundred", die="after append round (400)")
        assert play.resume().error == "Broken"
    else:
        assert play.start("seven_hundred").error == "Broken"
    rows = play.rows()
    assert [row.seq for row in rows] == list(range(1, 701))
    assert (rows[-1].node_id, rows[-2].node_id) == ("run_end", "round")
    assert play.read("get_last", RUN) == rows[-1] == play("result", RUN).history[-1]
    assert play.read("list", RUN, limit=2) == rows[-2:]
    play.world.mend("last")
    done = play.resume()
    assert (done.status, done.final_state["round"]) == ("completed", 699)
    assert (play.world.count("round"), play.world.count("last")) == (699, 2)
    assert [row.node_id for row in play.rows()[-2:]] == ["last", "run_end"]
    assert play.resume().error == "AlreadyResumed"


@on_files
def test_a_late_step_of_a_long_run_writes_no_more_than_an_early_one(here):
    """Wrong: lists of everything that has run, written anew at each step."""
    here.build("seven_hundred")
    attempt(here.chain, "execute", here.flavour, {}, RUN)
    with closing(sqlite3.connect(here.file)) as connection:
        sizes = [size for (size,) in connection.execute("SELECT length(body) FROM checkpoints ORDER BY id")]
    early, late = sum(sizes[100:150]), sum(sizes[600:650])
    assert late < 1.5 * early
