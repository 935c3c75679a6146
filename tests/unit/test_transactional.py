"""Transactional effects: the user's statements and the record are one commit."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from fastdur import (
    Chain,
    IdempotencyError,
    InTransaction,
    Resume,
    ScopeError,
    ScopeLost,
    SimulatedCrash,
    SQLiteCheckpointer,
    StaleRun,
    carry,
    effect_key,
    execution_id,
    fence,
    idempotent,
    interrupt,
    list_unknown,
    result,
    transaction,
)
from tests.unit.running import WAIT, at, attempts, flow, raising

ROOT = Path(__file__).parents[2]
DIE = raising(SimulatedCrash())


@pytest.fixture
def books(store):
    """The store, with a table of the user's beside its own."""
    store._write(lambda session: session.change("CREATE TABLE ledger (id INTEGER PRIMARY KEY, amount INTEGER)", ()))
    return store


def booked(store):
    return [amount for (amount,) in store._read(lambda session: session.rows("SELECT amount FROM ledger", ()))]


def booking(before=lambda: None, after=lambda: None, **options):
    @idempotent(name="book", transactional=True, **options)
    def book(amount):
        before()
        cursor = transaction()
        cursor.execute("INSERT INTO ledger (amount) VALUES (?)", (amount,))
        after()
        return cursor.lastrowid

    return book


def story(store, book, **options):
    def a(state):
        return {"id": book(5)}

    return flow(store, a, **options)


def test_what_it_writes_and_its_record_are_there_together_and_it_happens_once(books, go):
    book = booking()

    def a(state):
        return {"ids": [book(5), book(5), book(6)], "answer": interrupt("ok?").approved}

    made = flow(books, a)
    go(made.execute, execution_id="r")
    assert go(made.resume, "r", Resume(True)).output == {"ids": [1, 1, 2], "answer": True}
    assert booked(books) == [5, 6]
    assert attempts(books) == [("book", "done"), ("book", "done")]


def test_the_first_call_is_no_hit_and_the_second_is_one(books, go):
    book = booking()

    def a(state):
        book(5)

    def b(state):
        book(5)

    go(flow(books, a, b).execute, execution_id="r")
    assert [row.extra for row in books.list("r")][:2] == [{}, {"hits": ["book"]}]


@pytest.mark.parametrize("where", ["before effect transaction book@a", "after effect transaction book@a"])
def test_a_crash_around_it_leaves_nothing_unknown_and_it_happens_once(books, go, where):
    made = story(books, booking())
    with at(where, DIE), pytest.raises(SimulatedCrash):
        go(made.execute, execution_id="r")
    assert list_unknown("r", books) == []
    assert go(made.resume, "r").output == {"id": 1}
    assert booked(books) == [5]


@pytest.mark.parametrize("error", [ValueError("no"), sqlite3.IntegrityError("twice"), KeyboardInterrupt()])
def test_a_body_that_raises_leaves_nothing_and_runs_again(books, go, error):
    errors = [error]

    def after():
        if errors:
            raise errors.pop()

    made = story(books, booking(after=after))
    with pytest.raises(type(error)):
        go(made.execute, execution_id="r")
    assert booked(books) == []
    assert attempts(books) == []
    assert go(made.resume, "r").output == {"id": 1}
    assert booked(books) == [5]


def test_an_error_of_a_statement_is_the_users_own_and_a_failure_that_was_caught_is_replayed(books, go):
    @idempotent(name="book", transactional=True, raises=sqlite3.IntegrityError)
    def book():
        transaction().executemany("INSERT INTO ledger (id, amount) VALUES (?, ?)", [(1, 1), (1, 2)])

    caught = []

    def a(state):
        try:
            book()
        except sqlite3.IntegrityError as error:
            caught.append(str(error))
        return {"answer": interrupt("ok?").approved}

    made = flow(books, a)
    go(made.execute, execution_id="r")
    go(made.resume, "r", Resume(True))
    assert (len(caught), caught[0] == caught[1], booked(books)) == (2, True, [])


def test_a_result_that_cannot_be_stored_leaves_nothing(books, go):
    @idempotent(name="book", transactional=True)
    def book():
        transaction().execute("INSERT INTO ledger (amount) VALUES (5)")
        return threading.Lock()

    def a(state):
        book()

    with pytest.raises(IdempotencyError, match="Nothing was committed"):
        go(flow(books, a).execute, execution_id="r")
    assert (booked(books), attempts(books)) == ([], [])


def test_an_owner_that_was_replaced_commits_nothing(books):
    """The fence is the last statement: what the body wrote before is undone."""
    made = story(books, booking())
    claim, advance = books.transact_idempotent, books.claim_execution

    def transact_late(mine, record, body):
        advance(books.get_execution("r"), "other", "somebody")
        return claim(mine, record, body)

    books.transact_idempotent = transact_late
    with pytest.raises(StaleRun):
        made.execute(execution_id="r")
    assert (booked(books), attempts(books)) == ([], [])


@idempotent(name="other")
def other():
    return 1


@idempotent(name="aother")
async def aother():
    return 1


@pytest.mark.parametrize(
    "what",
    [
        lambda store: other(),
        lambda store: asyncio.run(aother()),
        lambda store: interrupt("ok?"),
        lambda store: booking()(7),
        lambda store: Chain("c", store).add_node("n", lambda state: {}).execute(),
        lambda store: Chain("c", store).add_node("n", lambda state: {}).resume("r"),
        lambda store: result("r", store),
    ],
)
def test_in_it_there_is_no_other_effect_no_question_and_no_run(books, go, what):
    made = story(books, booking(after=lambda: what(books)))
    with pytest.raises(InTransaction, match=r"book\(\)"):
        go(made.execute, execution_id="r")
    assert (booked(books), attempts(books)) == ([], [])


def test_so_it_is_in_a_thread_that_carries_it(books):
    def elsewhere():
        with ThreadPoolExecutor(1) as pool:
            pool.submit(carry(other)).result(WAIT)

    with pytest.raises(InTransaction):
        story(books, booking(after=elsewhere)).execute(execution_id="r")
    assert booked(books) == []


def test_the_body_knows_its_run_its_key_and_its_fence(books, go):
    seen = []
    made = story(books, booking(before=lambda: seen.append((execution_id(), len(effect_key()), fence()))))
    go(made.execute, execution_id="r")
    assert seen == [("r", 32, 1)]


@pytest.mark.parametrize(
    "sql",
    ["COMMIT", " rollback;", "-- now\nBEGIN", "/* x */ SAVEPOINT s", ";END", "PRAGMA user_version = 7", "VACUUM"],
)
def test_it_neither_begins_nor_ends_a_transaction_by_itself(books, go, sql):
    made = story(books, booking(after=lambda: transaction().execute(sql)))
    with pytest.raises(InTransaction, match="one commit"):
        go(made.execute, execution_id="r")
    assert booked(books) == []


def test_where_the_database_gives_the_transaction_up_nothing_is_kept(books, go):
    def after():
        with pytest.raises(sqlite3.IntegrityError):
            transaction().execute("INSERT OR ROLLBACK INTO ledger (id, amount) VALUES (1, 9)")

    with pytest.raises(InTransaction, match="rolled the transaction back"):
        go(story(books, booking(after=after)).execute, execution_id="r")
    assert (booked(books), attempts(books)) == ([], [])
    with pytest.raises(InTransaction):
        go(story(books, booking(after=lambda: (after(), transaction().execute("SELECT 1")))).execute)
    assert booked(books) == []


def test_the_cursor_reads_and_is_closed_with_the_body(books, go):
    kept = []

    @idempotent(name="read", transactional=True)
    def read():
        cursor = transaction()
        kept.append(cursor)
        cursor.executemany("INSERT INTO ledger (amount) VALUES (?)", [(n,) for n in range(6)])
        count = cursor.rowcount
        cursor.execute("SELECT amount FROM ledger")
        names = [column[0] for column in cursor.description]
        rows = [cursor.fetchone(), *cursor.fetchmany(), *cursor.fetchmany(2), *cursor.fetchall()]
        empty = cursor.execute("-- nothing").fetchone()
        return [count, names, len(rows), list(cursor.execute("SELECT 1")), empty]

    def a(state):
        return {"read": read()}

    assert go(flow(books, a).execute).output == {"read": [6, ["amount"], 6, [(1,)], None]}
    with pytest.raises(InTransaction, match="ends with the body"):
        kept[0].fetchall()


def test_each_body_runs_in_its_own_thread_and_knows_its_own_effect(books):
    """Writes of several threads share a transaction; bodies do not, for they are run by nobody else."""
    seen, everyone = {}, threading.Barrier(8)
    book = booking(before=lambda: seen.setdefault(threading.get_ident(), []).append(effect_key()))

    def call(number):
        everyone.wait(WAIT)
        return threading.get_ident(), book(number)

    def a(state):
        with ThreadPoolExecutor(8) as pool:
            return {"by": list(pool.map(carry(call), range(8)))}

    ids = flow(books, a).execute(execution_id="r").output["by"]
    assert [len(seen.get(thread, [])) for thread, _ in ids] == [1] * 8
    assert len({key for keys in seen.values() for key in keys}) == 8
    assert sorted(id for _, id in ids) == list(range(1, 9))


def test_eight_threads_share_one_commit(books):
    book, everyone = booking(), threading.Barrier(8)

    def call(_):
        everyone.wait(WAIT)
        return book(5)

    def a(state):
        with ThreadPoolExecutor(8) as pool:
            return {"ids": list(pool.map(carry(call), range(8)))}

    assert flow(books, a).execute().output == {"ids": [1] * 8}
    assert booked(books) == [5]


def test_it_is_refused_without_a_store_and_where_it_could_not_be_one_commit():
    with pytest.raises(IdempotencyError, match="SQL store"):
        story(False, booking()).execute()

    async def body():
        pass

    with pytest.raises(TypeError, match="async def"):
        idempotent(transactional=True)(body)
    with pytest.raises(TypeError, match="never unknown"):
        idempotent(transactional=True, on_unknown="raise")(lambda: 1)


def test_elsewhere_there_is_no_transaction(store, go):
    with pytest.raises(ScopeError):
        transaction()

    @idempotent(name="plain")
    def plain():
        transaction()

    def a(state):
        plain()

    with pytest.raises(ScopeError):
        go(flow(store, a).execute)
    assert issubclass(ScopeLost, ScopeError)


KILLED = """
import os, signal, sqlite3, sys
from fastdur import Chain, SQLiteCheckpointer, idempotent, transaction
path, number, when = sys.argv[1], int(sys.argv[2]), sys.argv[3]
inside = []

class Deadly(sqlite3.Connection):
    def execute(self, sql, *values):
        if inside and inside[0] == "body":
            return self.counted(sql, super().execute, sql, *values)
        return super().execute(sql, *values)

    def cursor(self):
        inside[:] = ["body"]
        return super().cursor(factory=lambda c: Cursor(c))

    def counted(self, what, do, *args):
        Deadly.seen += 1
        if when == "before" and Deadly.seen == number:
            os.kill(os.getpid(), signal.SIGKILL)
        came = do(*args)
        if when == "after" and Deadly.seen == number:
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "COMMIT":
            inside.clear()
        return came

    seen = 0

class Cursor(sqlite3.Cursor):
    def execute(self, sql, *values):
        return self.connection.counted(sql, super().execute, sql, *values)

@idempotent(name="book", transactional=True)
def book(amount):
    cursor = transaction()
    for each in (amount, -amount):
        cursor.execute("INSERT INTO ledger (amount) VALUES (?)", (each,))
    return cursor.execute("SELECT count(*) FROM ledger").fetchone()[0]

SQLiteCheckpointer.driver = Deadly
store = SQLiteCheckpointer(path)
made = Chain("c", store).add_node("a", lambda state: {"count": book(5)})
made.execute({}, "r")
print(Deadly.seen)
"""


def dying(path, number, when):
    return subprocess.run(
        [sys.executable, "-c", KILLED, path, str(number), when], cwd=ROOT, capture_output=True, text=True, check=False
    )


def fresh(path):
    with closing(SQLiteCheckpointer(path)) as store:
        store.setup()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE ledger (amount INTEGER)")
        connection.commit()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_that_is_killed_at_any_statement_inside_has_done_all_of_it_or_nothing(tmp_path, when):
    """Three statements of the body, the record with its fence, the commit: a real SIGKILL at each."""
    whole = str(tmp_path / "whole.db")
    fresh(whole)
    statements = int(dying(whole, 0, when).stdout)
    assert statements == 5
    found = []
    for number in range(1, statements + 1):
        path = str(tmp_path / f"{when}{number}.db")
        fresh(path)
        assert dying(path, number, when).returncode == -9
        with closing(SQLiteCheckpointer(path)) as store:
            done = [record.status for record in store.list_idempotent("r")]
            assert booked(store) == ([5, -5] if done else [])
            assert list_unknown("r", store) == []
            found.append(done)

            @idempotent(name="book", transactional=True)
            def book(amount):
                cursor = transaction()
                for each in (amount, -amount):
                    cursor.execute("INSERT INTO ledger (amount) VALUES (?)", (each,))
                return cursor.execute("SELECT count(*) FROM ledger").fetchone()[0]

            made = Chain("c", store).add_node("a", lambda state, book=book: {"count": book(5)})
            assert made.resume("r").output == {"count": 2}
            assert booked(store) == [5, -5]
    assert found == [[]] * 4 + [["done"] if when == "after" else []]
