"""Transactional effects: the user's statements and the record are one commit."""

import asyncio
import os
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import psycopg
import pytest

from fastdur import (
    Chain,
    IdempotencyError,
    InTransaction,
    PostgresCheckpointer,
    Resume,
    ScopeError,
    SimulatedCrash,
    SQLiteCheckpointer,
    StaleRun,
    StoreUnavailable,
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
from fastdur.checkpointers._cursor import TransactionCursor
from fastdur.checkpointers.protocol import Start
from fastdur.errors import NotStorable
from fastdur.scope import current
from tests.checkpointers.stores import effect
from tests.unit.books import Books
from tests.unit.running import WAIT, Gate, at, attempts, flow, raising

DIE = raising(SimulatedCrash())


@pytest.fixture(params=["memory", "file", "postgres"])
def books(request, tmp_path):
    """A store, with a table of the user's beside its own."""
    if request.param == "postgres":
        yield Books(request.getfixturevalue("postgres_checkpointer"))
        return
    with closing(SQLiteCheckpointer(":memory:" if request.param == "memory" else tmp_path / "store.db")) as store:
        yield Books(store)


@pytest.fixture
def lite(tmp_path):
    """The same in a file of SQLite."""
    with closing(SQLiteCheckpointer(tmp_path / "store.db")) as store:
        yield Books(store)


@pytest.fixture
def big(postgres_checkpointer):
    """The same on Postgres."""
    return Books(postgres_checkpointer)


def story(books, book, **options):
    def a(state):
        book(5)
        return {"booked": True}

    return flow(books.store, a, **options)


def once(errors):
    """Raises each of these once."""

    def do():
        if errors:
            raise errors.pop()

    return do


# -- one commit ----------------------------------------------------------------------------------------------------------


def test_what_it_writes_and_its_record_are_there_together_and_it_happens_once(books, go):
    book = books.booking()

    def a(state):
        return {"ids": [book(5), book(5), book(6)], "answer": interrupt("ok?").approved}

    made = flow(books.store, a)
    go(made.execute, execution_id="r")
    assert go(made.resume, "r", Resume(True)).output == {"ids": [1, 1, 2], "answer": True}
    assert books.amounts() == [5, 6]
    assert attempts(books.store) == [("book", "done"), ("book", "done")]


def test_the_first_call_is_no_hit_and_the_second_is_one(books, go):
    book = books.booking()

    def a(state):
        book(5)

    def b(state):
        book(5)

    go(flow(books.store, a, b).execute, execution_id="r")
    assert [row.extra for row in books.store.list("r")][:2] == [{}, {"hits": ["book"]}]


@pytest.mark.parametrize("where", ["before effect transaction book@a", "after effect transaction book@a"])
def test_a_crash_around_it_leaves_nothing_unknown_and_it_happens_once(books, go, where):
    made = story(books, books.booking())
    with at(where, DIE), pytest.raises(SimulatedCrash):
        go(made.execute, execution_id="r")
    assert list_unknown("r", books.store) == []
    assert go(made.resume, "r").output == {"booked": True}
    assert books.amounts() == [5]


def test_a_crash_that_strikes_while_the_body_runs_commits_nothing_of_it(books):
    """It struck in another thread of the same process; the body itself comes to its end."""

    def crash():
        current.get().node.host.crash()

    made = story(books, books.booking(after=crash))
    with pytest.raises(SimulatedCrash):
        made.execute(execution_id="r")
    assert (books.amounts(), attempts(books.store)) == ([], [])
    assert story(books, books.booking()).resume("r").status == "completed"
    assert books.amounts() == [5]


@pytest.mark.parametrize("error", [ValueError("no"), sqlite3.IntegrityError("twice"), KeyboardInterrupt()])
def test_a_body_that_raises_leaves_nothing_and_runs_again(books, go, error):
    made = story(books, books.booking(after=once([error])))
    with pytest.raises(type(error)):
        go(made.execute, execution_id="r")
    assert books.amounts() == []
    assert attempts(books.store) == []
    assert go(made.resume, "r").output == {"booked": True}
    assert books.amounts() == [5]


def test_an_error_of_a_statement_is_the_users_own_and_a_failure_that_was_caught_is_replayed(books, go):
    kinds = (sqlite3.IntegrityError, psycopg.errors.UniqueViolation)

    @idempotent(name="book", transactional=True, raises=kinds)
    def book():
        for _ in range(2):
            books.insert(transaction(), 1, id=1)

    caught = []

    def a(state):
        try:
            book()
        except kinds as error:
            caught.append((type(error), str(error)))
        return {"answer": interrupt("ok?").approved}

    made = flow(books.store, a)
    go(made.execute, execution_id="r")
    go(made.resume, "r", Resume(True))
    assert (len(caught), caught[0] == caught[1], books.amounts()) == (2, True, [])


def test_a_result_that_cannot_be_stored_leaves_nothing(books, go):
    makers = {"lock": threading.Lock, "coroutine": asyncio.Event().wait}

    @idempotent(name="book", transactional=True)
    def book(kind):
        books.insert(transaction(), 5)
        return makers[kind]()

    def a(state):
        for kind in makers:
            with pytest.raises(IdempotencyError, match="Nothing was committed"):
                book(kind)

    go(flow(books.store, a).execute, execution_id="r")
    assert books.amounts() == []
    assert attempts(books.store) == [("book", "failed")] * 2  # the node has caught it, and a replay goes the same way


def test_a_result_longer_than_the_store_takes_leaves_nothing(lite):
    lite.store._kept.writer.driver.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10_000)

    @idempotent(name="book", transactional=True)
    def book():
        lite.insert(transaction(), 5)
        return "x" * 20_000

    def a(state):
        book()

    with pytest.raises(IdempotencyError, match="Nothing was committed") as caught:
        flow(lite.store, a).execute(execution_id="r")
    assert isinstance(caught.value.__cause__, NotStorable)
    assert (lite.amounts(), attempts(lite.store)) == ([], [])


# -- whose it is ---------------------------------------------------------------------------------------------------------


def taken_over(store):
    store.claim_execution(store.get_execution("r"), "other", "somebody")


def test_an_owner_that_was_replaced_does_not_run_the_body(books):
    made = story(books, books.booking(before=raising(AssertionError("the body was run"))))
    with at("before effect transaction book@a", lambda: taken_over(books.store)), pytest.raises(StaleRun):
        made.execute(execution_id="r")
    assert (books.amounts(), attempts(books.store)) == ([], [])


def test_an_owner_that_is_replaced_in_the_body_commits_nothing(big):
    """On SQLite nobody can take the run meanwhile: a claim is a write, and one at a time writes."""

    def elsewhere():
        with ThreadPoolExecutor(1) as pool:
            pool.submit(taken_over, big.store).result(WAIT)

    with pytest.raises(StaleRun):
        story(big, big.booking(after=elsewhere)).execute(execution_id="r")
    assert (big.amounts(), attempts(big.store)) == ([], [])


# -- what there is not in the body ---------------------------------------------------------------------------------------


@idempotent(name="other")
def other():
    return 1


@idempotent(name="aother")
async def aother():
    return 1


@idempotent(name="third", transactional=True)
def third():
    return 1


OTHERS = {
    "effect": lambda store: other(),
    "async effect": lambda store: asyncio.run(aother()),
    "transactional effect": lambda store: third(),
    "question": lambda store: interrupt("ok?"),
    "run": lambda store: Chain("c", store).add_node("n", lambda state: {}).execute(),
    "run without a store": lambda store: Chain("c", False).add_node("n", lambda state: {}).execute(),
    "resume": lambda store: Chain("c", store).add_node("n", lambda state: {}).resume("r"),
    "result": lambda store: result("r", store),
    "unknown": lambda store: list_unknown("r", store),
    "read of the store": lambda store: store.list("r"),
    "head in the store": lambda store: store.get_execution("r"),
    "write to the store": taken_over,
    "renewal": lambda store: store.renew([replace(current.get().node.host.claim)]),
    "setup": lambda store: store.setup(),
    "close": lambda store: store.close(),
    "rest": lambda store: store.rest(),
    "other store": lambda store: SQLiteCheckpointer(":memory:").list_executions(),
    "plain": lambda store: other.plain() and call_plainly(lambda: store.list("r")),
}


def call_plainly(do):
    return idempotent(name="plainly")(do).plain()


@pytest.mark.parametrize("what", OTHERS)
def test_in_it_there_is_no_other_effect_no_question_no_run_and_no_store(books, go, what):
    books.store.busy_bound = 0.3
    made = story(books, books.booking(after=lambda: OTHERS[what](books.store)))
    with pytest.raises(InTransaction, match=r"book\(\)"):
        go(made.execute, execution_id="r")
    assert (books.amounts(), attempts(books.store)) == ([], [])
    assert story(books, books.booking()).resume("r").status == "completed"


@pytest.mark.parametrize("what", OTHERS)
def test_nor_in_a_thread_that_carries_it(books, what):
    books.store.busy_bound = 0.3

    def elsewhere():
        with ThreadPoolExecutor(1) as pool:
            pool.submit(carry(OTHERS[what]), books.store).result(WAIT)

    with pytest.raises(InTransaction):
        story(books, books.booking(after=elsewhere)).execute(execution_id="r")
    assert books.amounts() == []


def test_nor_in_a_task_that_carries_it(books):
    async def elsewhere():
        await asyncio.get_running_loop().run_in_executor(None, carry(lambda: books.store.list("r")))

    async def inside():
        await carry(elsewhere)()

    with pytest.raises(InTransaction):
        story(books, books.booking(after=lambda: asyncio.run(inside()))).execute(execution_id="r")
    assert books.amounts() == []


def test_a_thread_that_knows_nothing_of_it_and_that_the_body_waits_for_is_let_go_within_the_bound(lite):
    lite.store.busy_bound = 0.3

    def elsewhere():
        with ThreadPoolExecutor(1) as pool, pytest.raises(StoreUnavailable, match="for itself"):
            pool.submit(taken_over, lite.store).result(WAIT)

    story(lite, lite.booking(after=elsewhere)).execute(execution_id="r")
    assert lite.amounts() == [5]
    assert lite.store.get_execution("r").epoch == 1


def test_so_is_another_body(lite):
    lite.store.busy_bound = 0.3
    second = lite.store.start_execution(Start("second", "c", "chain", {}, {}, "t", "me"))

    def elsewhere():
        never = raising(AssertionError("the second body was run"))
        with ThreadPoolExecutor(1) as pool, pytest.raises(StoreUnavailable, match="for itself"):
            pool.submit(lite.store.transact_idempotent, second, effect(), never).result(WAIT)

    story(lite, lite.booking(after=elsewhere)).execute(execution_id="first")
    assert lite.amounts() == [5]


def test_leases_are_not_waited_for_while_a_body_has_the_store(lite):
    def elsewhere():
        claim = current.get().node.host.claim
        with ThreadPoolExecutor(1) as pool, pytest.raises(StoreUnavailable, match="is busy"):
            pool.submit(lite.store.renew, [claim]).result(WAIT)

    story(lite, lite.booking(after=elsewhere)).execute(execution_id="r")
    assert lite.amounts() == [5]


def test_the_body_knows_its_run_its_key_and_its_fence(books, go):
    seen = []
    made = story(books, books.booking(before=lambda: seen.append((execution_id(), len(effect_key()), fence()))))
    go(made.execute, execution_id="r")
    assert seen == [("r", 32, 1)]


# -- its cursor ----------------------------------------------------------------------------------------------------------


STATEMENTS = [
    "COMMIT",
    " rollback;",
    "-- now\nBEGIN",
    "/* x */ SAVEPOINT s",
    ";END",
    "\ufeffCOMMIT",
    "commit--",
    "COMMIT/**/",
    "PRAGMA user_version = 7",
    "VACUUM",
    "SET search_path = x",
    "SET LOCAL synchronous_commit = off",
    "RESET ALL",
    "DISCARD ALL",
    "PREPARE TRANSACTION 'x'",
    "ABORT",
    "START TRANSACTION",
    "ATTACH 'x' AS x",
    "DETACH x",
    "RELEASE s",
    "COPY x FROM STDIN",
    "LISTEN x",
    "UNLISTEN *",
    "DEALLOCATE ALL",
    "LOAD 'x'",
    "/* /* */ COMMIT",
    "/* /* */ */ COMMIT",
]


@pytest.mark.parametrize("sql", STATEMENTS)
def test_it_neither_begins_nor_ends_a_transaction_nor_changes_the_connection(books, sql):
    made = story(books, books.booking(after=lambda: transaction().execute(sql)))
    with pytest.raises(InTransaction, match="one commit"):
        made.execute(execution_id="r")
    made = story(books, books.booking(after=lambda: transaction().executemany(sql, [()])))
    with pytest.raises(InTransaction, match="one commit"):
        made.execute(execution_id="s")
    assert books.amounts() == []


@pytest.mark.parametrize("what", ["commit", "rollback", "executescript"])
def test_it_has_no_way_to_end_the_transaction(books, what):
    def after():
        getattr(transaction(), what)(*(["SELECT 1"] if what == "executescript" else []))

    with pytest.raises(InTransaction, match=what):
        story(books, books.booking(after=after)).execute(execution_id="r")
    assert books.amounts() == []


def test_two_statements_in_one_text_are_refused_before_the_first_is_run(books):
    def after():
        transaction().execute(f"DELETE FROM {books.table}; COMMIT")

    with pytest.raises((sqlite3.Error, sqlite3.Warning, psycopg.errors.SyntaxError)):
        story(books, books.booking(after=after)).execute(execution_id="r")
    assert (books.amounts(), attempts(books.store)) == ([], [])


def test_words_that_are_no_statements_are_not_taken_for_them(books):
    def after():
        cursor = transaction()
        seen.extend(cursor.execute("/* commit */ -- rollback\n SELECT 'COMMIT' AS set_value").fetchone())
        seen.append(cursor.execute("SELECT 1 WHERE 1 = 2").fetchone())

    seen = []
    story(books, books.booking(after=after)).execute()
    assert seen == ["COMMIT", None]


def test_where_sqlite_gives_the_transaction_up_nothing_is_kept(lite, go):
    def after():
        with pytest.raises(sqlite3.IntegrityError):
            transaction().execute("INSERT OR ROLLBACK INTO ledger (id, amount) VALUES (1, 9)")

    with pytest.raises(InTransaction, match="rolled the transaction back"):
        go(story(lite, lite.booking(after=after)).execute, execution_id="r")
    assert (lite.amounts(), attempts(lite.store)) == ([], [])
    with pytest.raises(InTransaction):
        go(story(lite, lite.booking(after=lambda: (after(), transaction().execute("SELECT 1")))).execute)
    assert lite.amounts() == []


def test_an_error_of_a_statement_that_sqlite_has_undone_alone_may_be_caught(lite):
    def after():
        with pytest.raises(sqlite3.IntegrityError):
            lite.insert(transaction(), 9, id=1)

    story(lite, lite.booking(after=after)).execute()
    assert lite.amounts() == [5]


def test_an_error_that_was_caught_has_spoilt_a_transaction_of_postgres(big, go):
    def after():
        with pytest.raises(psycopg.errors.UniqueViolation):
            [big.insert(transaction(), 9, id=7) for _ in range(2)]

    with pytest.raises(InTransaction, match="spoilt"):
        go(story(big, big.booking(after=after)).execute, execution_id="r")
    assert (big.amounts(), attempts(big.store)) == ([], [])


def test_what_is_checked_at_the_commit_only_is_the_users_own_failure(big, go):
    def before():
        constraint = f"ALTER TABLE {big.table} ADD CONSTRAINT late UNIQUE (amount) DEFERRABLE INITIALLY DEFERRED"
        transaction().execute(constraint)
        big.insert(transaction(), 5)

    with pytest.raises(psycopg.errors.UniqueViolation):
        go(story(big, big.booking(before=before)).execute, execution_id="r")
    assert (big.amounts(), attempts(big.store)) == ([], [])


def test_the_cursor_reads_and_is_closed_with_the_body(books, go):
    kept = []

    @idempotent(name="read", transactional=True)
    def read():
        with transaction() as cursor:
            kept.append(cursor)
        insert = f"INSERT INTO {books.table} (amount) VALUES ({books.mark})"
        cursor.executemany(insert, [(n,) for n in range(6)])
        count = cursor.rowcount
        cursor.execute(insert, [6])
        assert cursor.lastrowid == (7 if books.mark == "?" else None)
        cursor.execute(f"SELECT amount FROM {books.table}")
        names = [column[0] for column in cursor.description]
        rows = [cursor.fetchone(), *cursor.fetchmany(), *cursor.fetchmany(2), *cursor.fetchall()]
        return [count, names, len(rows), list(cursor.execute("SELECT 1"))]

    def a(state):
        return {"read": read()}

    assert go(flow(books.store, a).execute).output == {"read": [6, ["amount"], 7, [(1,)]]}
    with pytest.raises(InTransaction, match="ends with the body"):
        kept[0].fetchall()


def test_a_statement_that_another_thread_still_runs_is_waited_for_and_in_the_commit(lite, monkeypatch):
    gate, opened = Gate(), []
    lite.store._kept.writer.driver.create_function("wait", 0, gate)
    end = TransactionCursor.end

    def ending(cursor):
        opened.append(gate.opened.set())
        end(cursor)

    monkeypatch.setattr(TransactionCursor, "end", ending)
    threads = []

    def after():
        sql = "INSERT INTO ledger (amount) VALUES (coalesce(wait(), 7))"
        threads.append(threading.Thread(target=transaction().execute, args=(sql,)))
        threads[0].start()
        assert gate.reached.wait(WAIT)

    story(lite, lite.booking(after=after)).execute()
    threads[0].join(WAIT)
    assert (lite.amounts(), opened) == ([5, 7], [None, None])


def test_each_body_runs_in_its_own_thread_and_knows_its_own_effect(books):
    """Writes of several threads share a transaction; bodies do not, for they are run by nobody else."""
    seen, everyone = {}, threading.Barrier(8)
    book = books.booking(before=lambda: seen.setdefault(threading.get_ident(), []).append(effect_key()))

    def call(number):
        everyone.wait(WAIT)
        return threading.get_ident(), book(number)

    def a(state):
        with ThreadPoolExecutor(8) as pool:
            return {"by": list(pool.map(carry(call), range(8)))}

    ids = flow(books.store, a).execute(execution_id="r").output["by"]
    assert [len(seen.get(thread, [])) for thread, _ in ids] == [1] * 8
    assert len({key for keys in seen.values() for key in keys}) == 8
    assert len({id for _, id in ids}) == len(books.amounts()) == 8


def test_eight_threads_share_one_commit(books):
    book, everyone = books.booking(), threading.Barrier(8)

    def call(_):
        everyone.wait(WAIT)
        return book(5)

    def a(state):
        with ThreadPoolExecutor(8) as pool:
            return {"ids": list(pool.map(carry(call), range(8)))}

    assert flow(books.store, a).execute().output == {"ids": [1] * 8}
    assert books.amounts() == [5]


def test_a_child_made_by_fork_in_the_body_has_no_part_in_it(books):
    """On a file of SQLite the parent loses its transaction too: a connection must not cross a fork."""

    def fork():
        child = os.fork()
        if child == 0:
            code = 1
            try:
                books.insert(transaction(), 6)
            except InTransaction:
                code = 0 if books.store.location == ":memory:" or books.store.list_executions() else 2
            finally:
                os._exit(code)
        codes.append(os.waitpid(child, 0)[1])

    codes = []
    made = story(books, books.booking(after=fork))
    if books.store.location.endswith(".db"):
        with pytest.raises(InTransaction, match="has forked in the body"):
            made.execute(execution_id="r")
        assert attempts(books.store) == []
        made = story(books, books.booking())
        made.resume("r")
    else:
        made.execute(execution_id="r")
    assert (codes, books.amounts()) == ([0], [5])


def test_its_cursor_knows_its_process(books):
    def after():
        transaction()._process -= 1
        transaction().execute("SELECT 1")

    with pytest.raises(InTransaction, match="fork"):
        story(books, books.booking(after=after)).execute(execution_id="r")
    assert books.amounts() == []


def test_a_child_that_leaves_the_body_as_its_parent_does_commits_nothing(big):
    """It raises up through the store, on connections that are its parent's."""

    def fork():
        children.append(os.fork())

    children = []
    made = story(big, big.booking(after=fork))
    try:
        made.execute(execution_id="r")
    except StaleRun:
        os._exit(7 if big.store.list_executions() else 8)
    except BaseException:
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 7
    assert (big.amounts(), attempts(big.store)) == ([5], [("book", "done")])


# -- faults of the database ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attempt", [{}, {"attempt": "an earlier one"}])
def test_a_commit_that_came_through_after_all_counts_and_not_what_the_next_try_ran_into(books, monkeypatch, attempt):
    transact = books.store.transact_idempotent

    def doubtful(claim, record, body):
        transact(claim, record, lambda cursor: replace(body(cursor), **attempt))
        return None, ValueError("the line is there already")

    monkeypatch.setattr(books.store, "transact_idempotent", doubtful, raising=False)
    story(books, books.booking()).execute(execution_id="r")
    assert (books.amounts(), attempts(books.store)) == ([5], [("book", "done")])


def ended_from_outside(store):
    """The server ends the sessions of this database that are in a transaction."""
    with psycopg.connect(store._conninfo, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database()"
            " AND state = 'idle in transaction'"
        )


@pytest.mark.parametrize("caught", [False, True])
def test_a_body_whose_connection_is_lost_runs_again_and_that_is_no_failure_of_its_own(big, go, caught):
    runs = []

    def after():
        runs.append(1)
        if len(runs) == 1:
            ended_from_outside(big.store)
            try:
                transaction().execute("SELECT 1")
            except psycopg.Error:
                if not caught:
                    raise

    assert go(story(big, big.booking(after=after)).execute, execution_id="r").output == {"booked": True}
    assert (runs, big.amounts(), attempts(big.store)) == ([1, 1], [5], [("book", "done")])


def test_a_connection_that_is_lost_between_the_body_and_the_commit_is_found_out(big):
    runs = []

    def after():
        runs.append(1)
        if len(runs) == 1:
            ended_from_outside(big.store)

    story(big, big.booking(after=after)).execute(execution_id="r")
    assert (runs, big.amounts()) == ([1, 1], [5])


def test_what_the_body_raises_is_its_failure_also_where_nothing_can_be_rolled_back_any_more(big):
    def after():
        ended_from_outside(big.store)
        raise ValueError

    with pytest.raises(ValueError):
        story(big, big.booking(after=after)).execute(execution_id="r")
    assert big.amounts() == []


def test_a_conflict_with_another_transaction_is_no_failure_of_the_bodys_own(big):
    runs = []

    def after():
        runs.append(1)
        if len(runs) == 1:
            transaction().execute("DO $$ BEGIN RAISE serialization_failure; END $$")

    story(big, big.booking(after=after)).execute(execution_id="r")
    assert (runs, big.amounts()) == ([1, 1], [5])


@pytest.mark.parametrize("condition", ["lock_not_available", "query_canceled", "check_violation"])
def test_what_a_statement_has_asked_for_is_the_bodys_own_failure(big, condition):
    runs = []

    def after():
        runs.append(1)
        transaction().execute(f"DO $$ BEGIN RAISE {condition}; END $$")

    with pytest.raises(psycopg.Error):
        story(big, big.booking(after=after)).execute(execution_id="r")
    assert (runs, big.amounts()) == ([1], [])


def test_a_statement_that_the_driver_refuses_is_the_bodys_own_failure(books):
    def after():
        transaction().execute(f"SELECT {books.mark}, {books.mark}", (1,))

    with pytest.raises((sqlite3.ProgrammingError, psycopg.ProgrammingError)):
        story(books, books.booking(after=after)).execute(execution_id="r")
    assert books.amounts() == []


def test_a_full_disk_under_a_statement_is_no_failure_of_the_bodys_own(lite):
    def after():
        connection = lite.store._kept.writer.driver
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        try:
            transaction().execute("INSERT INTO ledger (amount) VALUES (zeroblob(100000))")
        finally:
            connection.execute("PRAGMA max_page_count = 100000")

    with pytest.raises(StoreUnavailable, match="full"):
        story(lite, lite.booking(after=after)).execute(execution_id="r")
    assert (lite.amounts(), attempts(lite.store)) == ([], [])
    assert lite.store.get_execution("r").status == "running"
    assert story(lite, lite.booking()).resume("r").status == "completed"


def test_a_body_that_does_nothing_for_a_lease_is_ended_by_the_server(postgres_checkpointer):
    """So a client that is frozen in one holds its locks no longer than that."""
    big = Books(postgres_checkpointer)
    postgres_checkpointer._lease = 0.2
    runs = []

    def after():
        runs.append(1)
        (session,) = transaction().execute("SELECT pg_backend_pid()").fetchone()
        with psycopg.connect(big.store._conninfo, autocommit=True) as admin:
            while admin.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [session]).fetchone():
                pass
        transaction().execute("SELECT 1")

    with pytest.raises(InTransaction, match="too long"):
        story(big, big.booking(after=after)).execute(execution_id="r")
    assert (runs, big.amounts(), attempts(big.store)) == ([1], [], [])


def test_it_works_with_prepared_statements_too(fastdur_postgres):
    with (
        fastdur_postgres.schemas() as fresh,
        closing(PostgresCheckpointer(fastdur_postgres.dsn, fresh(), 1, 1, prepared=True)) as store,
    ):
        big = Books(store)
        book = big.booking()

        def a(state):
            for n in range(5):
                book(n)

        flow(store, a).execute()
        assert big.amounts() == [0, 1, 2, 3, 4]


# -- where it cannot be --------------------------------------------------------------------------------------------------


def test_it_is_refused_without_a_store_and_where_it_could_not_be_one_commit():
    def a(state):
        third()

    with pytest.raises(IdempotencyError, match="SQL store"):
        flow(False, a).execute()

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


@pytest.mark.parametrize("where", ["a", "b"])
def test_a_statement_in_the_parameters_of_another_is_refused_and_nobody_is_held_up(books, go, where):
    """Wrong: the second waits for the first for ever, and the store's file stays locked."""

    @idempotent(name="book", transactional=True)
    def book():
        cursor = transaction()
        text = f"INSERT INTO {books.table} (amount) VALUES ({books.mark})"
        cursor.executemany(text, ((cursor.execute("SELECT 1").fetchone()[0],) for _ in range(2)))

    def node(state):
        book()

    node.__name__ = where
    with pytest.raises(InTransaction, match="while another one is being run"):
        go(flow(books.store, node).execute)
    assert books.amounts() == []
    assert go(story(books, books.booking()).execute).status == "completed"


@pytest.mark.parametrize("returning", [False, True])
def test_rows_that_a_body_leaves_unfetched_hold_nothing_up(books, go, returning):
    """Wrong: a cursor that is still referred to keeps its statement open: no commit, or no write after it."""
    kept = []

    @idempotent(name="book", transactional=True)
    def book():
        cursor = transaction()
        kept.append(cursor)
        for amount in (1, 2):
            books.insert(cursor, amount)
        if returning:
            text = f"INSERT INTO {books.table} (amount) VALUES ({books.mark}), ({books.mark}) RETURNING id"
            return cursor.execute(text, (3, 4)).fetchone()[0]
        return cursor.execute(f"SELECT amount FROM {books.table}").fetchone()[0]

    def node(state):
        return {"got": book()}

    assert go(flow(books.store, node).execute).status == "completed"
    assert books.amounts() == ([1, 2, 3, 4] if returning else [1, 2])
    assert go(story(books, books.booking()).execute).status == "completed"
    assert len(kept) == 1
