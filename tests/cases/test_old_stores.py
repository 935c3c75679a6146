"""Stores that earlier versions have written are read, resumed and refused as those of this one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest

from fastdur import (
    AlreadyResumed,
    CycleLimitError,
    EffectUnknown,
    Happened,
    PostgresCheckpointer,
    Resume,
    RunCancelled,
    SQLiteCheckpointer,
    delete_execution,
    list_unknown,
    recover,
    resolve_unknown,
    result,
)
from fastdur._codec import dumps, freeze
from fastdur.checkpointers._postgres_sql import ddl
from fastdur.checkpointers._sql import SCHEMA
from fastdur.records import FORMAT
from tests.data import chains

DATA = Path(chains.__file__).parent
SCHEMAS = sorted(
    (path.parent.name for path in DATA.glob("*/sqlite.sql")), key=lambda name: int(name.rpartition("_")[2])
)
YES = Resume(approved=True, metadata={"by": "eve"})


@pytest.fixture(params=["sqlite", "postgres"])
def old(request, schema, tmp_path):
    """A copy of the store that a version with this schema has written."""
    text = (DATA / schema / f"{request.param}.sql").read_text(encoding="ascii")
    if request.param == "sqlite":
        with closing(sqlite3.connect(tmp_path / "runs.db")) as connection:
            connection.executescript(text)
        with closing(SQLiteCheckpointer(tmp_path / "runs.db")) as store:
            yield store
        return
    dsn, name = request.getfixturevalue("fastdur_postgres").dsn, f"old {schema}"
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(text.replace('"fastdur"', f'"{name}"').encode())
        with closing(PostgresCheckpointer(dsn, name)) as store:
            yield store
        admin.execute(f'DROP SCHEMA "{name}" CASCADE')


pytestmark = [pytest.mark.parametrize("schema", SCHEMAS), pytest.mark.case("S72")]


def same(value, other):
    return dumps(freeze(value, "one")) == dumps(freeze(other, "other"))


def rows(store, run):
    return [(row.seq, row.node_id, row.step_type, row.status) for row in store.list(run)]


def test_everything_in_it_is_listed_as_what_it_is(old):
    assert {head.execution_id: head.status for head in old.list_executions()} == {
        **dict.fromkeys(("paused", "answered once", "nested"), "paused"),
        **dict.fromkeys(("decided", "crashed", "values", "unknown", "cycle"), "running"),
        "failed": "failed",
        "finished": "completed",
        "cancelled": "cancelled",
    }
    asked = [(each.execution_id, each.interrupt_id, each.reason) for each in old.list_pending_interrupts()]
    assert asked == [
        ("paused", "ask#1/1", "really?"),
        ("answered once", "ask#1/2", "and why?"),
        ("nested", "child#1/x#1/1", "in the child?"),
    ]
    contexts = [each.context for each in old.list_pending_interrupts()]
    assert same(contexts, [{"sum": Decimal("1.50")}, chains.ODD, None])


def test_a_run_that_waits_is_answered_and_pays_the_rest_once(old):
    paid = []
    chain = chains.asking(old, paid)
    assert chain.resume("paused", YES).pending_interrupt.interrupt_id == "ask#1/2"
    done = chain.resume("paused", YES)
    assert (done.status, paid) == ("completed", ["after"])
    assert done.final_state["said"] == [[True, {"by": "eve"}]] * 2
    assert chain.resume("answered once", YES).final_state["said"] == [[True, {"by": "ada"}], [True, {"by": "eve"}]]
    assert chain.resume("decided").pending_interrupt.interrupt_id == "ask#1/2"
    paid = []
    nested = chains.nesting(old, paid).resume("nested", YES)
    assert (nested.status, nested.final_state["x"], nested.final_state["q"], paid) == (
        "completed",
        {"by": "eve"},
        1,
        ["y"],
    )


def test_a_run_that_died_goes_on_where_it_was_and_repeats_no_effect(old):
    paid = []
    chain = chains.going(old, paid)
    assert rows(old, "crashed") == [(1, "a", "node", "completed")]
    done = chain.resume("crashed")
    assert (done.status, done.final_state) == ("completed", {"n": 1, "a": 1, "b": {"paid": "b"}, "c": 3})
    assert paid == []


def test_a_run_that_died_is_recovered_by_whoever_looks(old):
    known = [getattr(chains, name)(old, []) for name in ("asking", "going", "keeping", "doubting", "looping")]
    found = {one.execution_id: one for one in recover(known)}
    assert found.keys() == {"decided", "crashed", "values", "unknown", "cycle"}
    assert [found[run].result.status for run in ("decided", "crashed", "values")] == [
        "paused",
        "completed",
        "completed",
    ]


def test_values_and_differences_are_what_they_were(old):
    """Wrong: a difference that is applied another way, a type that is no longer known by its name."""
    states = [row.state_snapshot for row in old.list("values")]
    tree = {"deep": {"4": {"n": 4}, "5": {"n": 5}}, "pad": "p" * 3000}
    log = [f"step {n}" for n in range(1, 6)]
    expected = {"n": 5, "log": log, "tree": tree, "replaced": [5] * 5, "values": chains.VALUES}
    assert same(states[-1], expected)
    assert [list(state["tree"]["deep"]) for state in states] == [["1"], ["1", "2"], ["2", "3"], ["3", "4"], ["4", "5"]]
    assert "values" not in states[1]
    assert same([state["values"] for state in states[2:]], [chains.VALUES] * 3)
    done = chains.keeping(old, []).resume("values")
    assert (done.status, done.final_state["n"], len(done.final_state["log"])) == ("completed", 7, 7)
    assert same(done.final_state["values"], chains.VALUES)


def test_an_effect_that_nobody_knows_about_is_still_asked_about(old):
    paid = []
    chain = chains.doubting(old, paid)
    (unknown,) = list_unknown("unknown", old)
    with pytest.raises(EffectUnknown):
        chain.resume("unknown")
    resolve_unknown("unknown", unknown.key, Happened({"paid": "by hand"}), old)
    assert (chain.resume("unknown").final_state["b"], paid) == ({"paid": "by hand"}, [])


def test_a_cycle_trips_where_it_would_have(old):
    """Wrong: a counter that is not found and begins anew."""
    with pytest.raises(CycleLimitError):
        chains.looping(old, []).resume("cycle")
    assert result("cycle", old).final_state == {"n": 6}


def test_what_failed_goes_on_and_what_has_ended_is_refused(old):
    assert result("failed", old).error == f"ValueError: {chains.ODD}"
    assert chains.breaking(old, ["money"]).resume("failed").status == "completed"
    finished = result("finished", old)
    assert (finished.status, finished.output) == ("completed", {"c": 3})
    with pytest.raises(AlreadyResumed) as refused:
        chains.going(old, []).resume("finished")
    assert refused.value.result.final_state == finished.final_state
    with pytest.raises(RunCancelled):
        chains.asking(old, []).resume("cancelled")


@pytest.mark.case("S71")
def test_a_run_that_is_deleted_stays_deleted_when_the_store_is_opened_again(old):
    """Wrong: an upgrade that is done each time, and brings back what it once brought along."""
    others = {head.execution_id for head in old.list_executions()} - {"paused", "finished"}
    for run in ("paused", "finished"):
        delete_execution(run, old)
    old.rest()
    old.setup()
    assert {head.execution_id for head in old.list_executions()} == others
    assert "paused" not in {asked.execution_id for asked in old.list_pending_interrupts()}
    assert chains.going(old, []).execute({"n": 1}, "finished").status == "completed"


def test_the_newest_of_them_are_as_this_version_makes_them(schema):
    """Wrong: a change of what is stored under the number of what was stored before."""
    if schema == SCHEMAS[-1]:
        assert schema == f"schema_{SCHEMA}", "run python -m tests.data.make"
        text = (DATA / schema / "postgres.sql").read_text(encoding="ascii")
        assert [statement for statement in ddl("fastdur") if f"{statement};\n" not in text] == []
        assert f", {FORMAT});\n" in text
