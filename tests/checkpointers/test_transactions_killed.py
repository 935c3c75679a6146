"""A process that dies in a transaction, at any of its statements, has done all of it or nothing."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing

import pytest

from fastdur import Chain, PostgresCheckpointer, Resume, SQLiteCheckpointer, cancel, list_unknown, transaction
from tests.checkpointers.stores import ROOT, effect, row, start, twins
from tests.unit.books import Books


def dying(place, number, when, what="book"):
    command = [sys.executable, "-m", "tests.checkpointers.killed", *place, str(number), when, what]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(params=["sqlite", "postgres"])
def fresh(request, tmp_path):
    """Makes places that have the table, and opens them."""
    if request.param == "sqlite":
        paths = iter(str(tmp_path / f"{number}.db") for number in range(100))
        yield lambda: ("sqlite", next(paths), "-")
        return
    server = request.getfixturevalue("fastdur_postgres")
    with server.schemas() as schemas:
        yield lambda: ("postgres", server.dsn, schemas())


def opened(place):
    backend, where, schema = place
    return closing(SQLiteCheckpointer(where) if backend == "sqlite" else PostgresCheckpointer(where, schema))


@pytest.mark.case("S15")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_that_is_killed_at_any_statement_inside_has_done_all_of_it_or_nothing(fresh, when):
    """Begin, look, two statements of the body, what tidies up, the record with its fence, commit, and on Postgres what
    gives up the locks: a real SIGKILL at each.
    """
    found = []
    number, statements, commit = 0, 0, 7
    while number <= statements:
        place = fresh()
        with opened(place) as store:
            Books(store)
        died = dying(place, number, when)
        if number == 0:
            statements = int(died.stdout)
            assert statements == commit + (place[0] == "postgres")
        else:
            assert died.returncode == -9
        with opened(place) as store:
            books = Books(store, made=True)
            done = [record.status for record in store.list_idempotent("r")]
            assert books.amounts() == ([5, -5] if done else [])
            assert list_unknown("r", store) == []
            found.append(done)
            if number:
                book = books.booking(after=lambda books=books: books.insert(transaction(), -5))
                Chain("c", store).add_node("a", lambda state, book=book: {"count": book(5)}).resume("r")
                assert books.amounts() == [5, -5]
        number += 1
    undone = commit - (when == "after")
    assert found == [["done"], *[[]] * undone, *[["done"]] * (statements - undone)]


def grow(store):
    """An ended run with more than a thousand child runs, three deep; each has a row and a record."""
    for number in range(1005):
        name, above = ("p", None) if not number else (f"c{number}", "p" if number < 1003 else f"c{number - 1}")
        claim = start(store, name, parent_id=above, parent_address=above and "n#1")
        if number % 100 == 0:
            store.begin_idempotent(claim, effect())
        store.put(claim, row(claim), "completed")


def left(store):
    return len(store.list_executions()), len(store.list("c1004")), len(store.list_idempotent("c100"))


@pytest.mark.parametrize("what", ["prune", "delete"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_that_is_killed_at_any_statement_of_a_removal_has_removed_a_whole_tree_or_nothing(fresh, when, what):
    """Wrong: a tree that goes in several transactions, so that a death in between leaves child runs without a parent."""
    place = fresh()
    with opened(place) as store:
        store._durability = "normal"
        grow(store)
        whole = left(store)
    assert whole == (1005, 1, 1)
    last = {"sqlite": 7, "postgres": 1}[place[0]] + (when == "before")  # begin, five statements, commit; or all in one
    number, found = 0, whole
    while found == whole:
        number += 1
        died = dying(place, number, when, what)
        with opened(place) as store:
            found = left(store)
    assert (found, number) == ((0, 0, 0), last)
    assert died.returncode == (0 if place[0] == "postgres" and when == "before" else -9)


WAITING = [("p", "paused", 2, 0, 1), ("p/call#1/below", "paused", 2, 1, 1)]
KILLED_STATES = {
    "fork": [WAITING, [*WAITING, ("f", "running", 1, 1, 0)], [*WAITING, ("f", "paused", 2, 1, 1)]],
    "cancel": [
        WAITING,
        [("p", "cancelled", 3, 0, 0), WAITING[1]],
        [("p", "cancelled", 3, 0, 0), ("p/call#1/below", "cancelled", 3, 1, 0)],
    ],
}
"""What may be found of each run: its status, and how many rows, finished records and questions it has."""


def found_of(store):
    names = [head.execution_id for head in reversed(store.list_executions())]
    return [
        (
            name,
            store.get_execution(name).status,
            len(store.list(name)),
            len(store.list_idempotent(name)),
            len(store.list_pending_interrupts(name)),
        )
        for name in names
    ]


@pytest.mark.parametrize("what", ["fork", "cancel"])
def test_a_process_that_is_killed_at_any_statement_of_a_fork_or_a_cancel_has_done_whole_steps_of_it(fresh, what):
    """Wrong: a branch without its row or its records, or a status that its questions do not fit."""
    passed, number, died = [], 0, None
    while died is None or died.returncode:
        number += 1
        place = fresh()
        with opened(place) as store:
            store._durability = "normal"
            _, above = twins(store)
            above.execute({}, "p")
            assert found_of(store) == WAITING
            source = store.list("p/call#1/below"), store.list_idempotent("p/call#1/below")
        died = dying(place, number, "before", what)
        assert died.returncode in (0, -9), died.stderr
        with opened(place) as store:
            found = found_of(store)
            assert found in KILLED_STATES[what], found
            passed.append(KILLED_STATES[what].index(found))
            if what == "fork":
                assert (store.list("p/call#1/below"), store.list_idempotent("p/call#1/below")) == source
                if found != WAITING:
                    branch = twins(store)[0]
                    assert found[-1][1] == "paused" or branch.resume("f").status == "paused"
                    assert branch.resume("f", Resume(approved=True)).final_state == {"paid": 5, "ok": True}
            else:
                cancel("p", store)
                assert found_of(store) == KILLED_STATES[what][-1]
    assert passed == sorted(passed)
    assert [*dict.fromkeys(passed)] == [0, 1, 2]
