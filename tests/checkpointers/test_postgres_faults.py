"""Faults between a Postgres store and its server: each write happens once, and no driver's error comes out."""

from __future__ import annotations

import os
import threading
from contextlib import closing
from itertools import count

import psycopg
import pytest

from fastdur.checkpointers import _postgres_server, postgres
from fastdur.checkpointers._patience import Again
from fastdur.checkpointers._postgres_server import Connection, understood
from fastdur.checkpointers.postgres import PostgresCheckpointer
from fastdur.errors import InTransaction, NotStorable, RunExists, StoreCorrupt, StoreUnavailable
from pytest_fastdur.postgres import start_for
from tests.checkpointers.stores import effect, head, paused, question, renewed, row, start


def terminate(admin, store):
    """End every session of the store's schema that is not this one."""
    admin.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'fastdur'"
        " AND datname = current_database() AND pid <> pg_backend_pid()"
    )


@pytest.mark.case("S61")
def test_a_session_that_the_server_has_ended_is_replaced_before_use(postgres_checkpointer, admin):
    store = postgres_checkpointer
    unclear = []
    claim = start(store)
    store._waiting = unclear.append
    for _ in range(5):
        store.put(claim, row(claim), "running")
        terminate(admin, store)
    store.put(claim, row(claim), "completed")
    terminate(admin, store)
    assert head(store).status == "completed"
    assert [r.seq for r in store.list("r")] == [1, 2, 3, 4, 5, 6]
    assert unclear == [1] * 6


WRITES = {
    "start": lambda store, at: start(store, "new"),
    "put": lambda store, at: store.put(at, row(at, {"n": 1}), "running"),
    "pause": lambda store, at: store.record_interrupt(at, row(at), [question(at, "a"), question(at, "b")], "paused"),
    "claim": lambda store, at: store.claim_execution(head(store), "second", "you"),
    "claim with a row": lambda store, at: store.claim_execution(head(store), "second", "you", row(at), {"new": 1}),
    "answer": lambda store, at: store.delete_pending_interrupt_atomic(
        head(store, "asked"), "second", "you", "ask#1/1", row(head(store, "asked"))
    ),
    "decide": lambda store, at: store.decide(head(store, "asked"), "ask#1/1", row(head(store, "asked")), "running"),
    "cancel": lambda store, at: store.cancel(head(store, "asked"), row(head(store, "asked"))),
    "renew": renewed,
    "release": lambda store, at: store.release(at),
    "begin": lambda store, at: store.begin_idempotent(at, effect("new")),
    "end": lambda store, at: store.put_idempotent(at, effect(status="done", result=7)),
    "failed ending": lambda store, at: store.put(at, row(at), "failed", clear_failed="work#1"),
}
CHANGES = ("INSERT", "UPDATE", "DELETE")


def everything(admin, store):
    """All that is stored, without what the clock wrote and what chance gave."""
    schema = store.location.rpartition("/")[2]
    return {
        "heads": admin.execute(
            f"SELECT execution_id, status, seq, epoch, token, attempts FROM {schema}.executions ORDER BY 1"
        ).fetchall(),
        "rows": admin.execute(f"SELECT count(*), sum(length(body)) FROM {schema}.checkpoints").fetchall(),
        "starts": admin.execute(f"SELECT graph, input FROM {schema}.starts ORDER BY run").fetchall(),
        "asked": admin.execute(f"SELECT interrupt_id FROM {schema}.pending_interrupts ORDER BY id").fetchall(),
        "effects": admin.execute(
            f"SELECT key, status, attempt, result FROM {schema}.idempotency_cache ORDER BY id"
        ).fetchall(),
    }


def given(store):
    """A run with an effect begun and one failed, and another that waits."""
    claim = start(store)
    store.begin_idempotent(claim, effect())
    store.begin_idempotent(claim, effect("failed"))
    store.put_idempotent(claim, effect("failed", status="failed"))
    paused(store, "asked")
    return claim


@pytest.mark.parametrize("name", WRITES)
def test_a_write_whose_connection_is_lost_at_any_moment_happens_once_and_tells_what_it_did(
    fastdur_postgres, wire, admin, name
):
    with fastdur_postgres.schemas() as fresh:
        with closing(PostgresCheckpointer(fastdur_postgres.dsn, fresh())) as store:
            told = WRITES[name](store, given(store))
            expected = everything(admin, store)
        for when in ("before", "in", "after"):
            with closing(PostgresCheckpointer(wire.dsn, fresh(), 1, 1)) as store:
                claim = given(store)
                if name in ("answer", "decide", "cancel"):
                    wire.arm(when, "UPDATE")
                else:
                    wire.arm(when, {"start": "INSERT", "begin": "INSERT"}.get(name, "UPDATE"))
                outcome = WRITES[name](store, claim)
                assert wire.fired == 1, when
                wire.fired = 0
                assert everything(admin, store) == expected, when
                assert type(outcome) is type(told), when


@pytest.mark.parametrize("when", ["before", "in", "after"])
def test_a_read_whose_connection_is_lost_is_made_again(wired, wire, when):
    claim = start(wired)
    wired.put(claim, row(claim), "running")
    for text, read in (
        ("JOIN", lambda: wired.list("r")),
        ("pending", wired.list_pending_interrupts),
        ("idempotency", lambda: wired.list_idempotent("r")),
        ("starts", lambda: wired.get_execution("r")),
    ):
        expected = read()
        wire.arm(when, text)
        found = read()
        assert found == expected
    assert wire.fired == 4


@pytest.mark.parametrize("when", ["before", "in", "after"])
def test_setting_up_goes_on_after_a_lost_connection(wire, admin, nothing, when):
    for text in ("synchronous_commit", "CREATE SCHEMA", "schema_version", "COMMIT"):
        wire.arm(when, text)
        with closing(PostgresCheckpointer(wire.dsn, nothing)) as store:
            start(store)
        assert wire.fired == 1
        wire.fired = 0
        admin.execute(f"DROP SCHEMA {nothing} CASCADE")


def test_a_store_that_gets_no_connection_says_so_after_its_bound_and_goes_on_when_it_does(wired, wire):
    claim = start(wired)
    wired.busy_bound = 0.05
    wire.stop_listening()
    wire.cut()
    with pytest.raises(StoreUnavailable, match=r"did not answer within about 0.05 s .*nothing was written"):
        wired.put(claim, row(claim), "running")
    wire.listen()
    wired.put(claim, row(claim), "running")
    assert [r.seq for r in wired.list("r")] == [1]


def test_a_write_that_was_under_way_when_everything_went_is_said_to_be_unclear(wired, wire):
    claim = start(wired)
    lost = row(claim)
    wired.busy_bound = 0.05
    wire.arm("after", "UPDATE")
    wired._waiting = lambda attempt: wire.stop_listening()
    with pytest.raises(StoreUnavailable, match="whether the last write was stored is not known"):
        wired.put(claim, lost, "running")
    wire.listen()
    wired._waiting = lambda attempt: None
    assert wired.put(claim, lost, "running") == lost
    assert len(wired.list("r")) == 1


def test_a_server_that_gives_no_sign_of_life_is_given_up_after_the_bound(wired, wire):
    claim = start(wired)
    wired.busy_bound = 0.2
    wire.arm("hold", "UPDATE")
    with pytest.raises(StoreUnavailable, match=r"no sign of life.*not known"):
        wired.put(claim, row(claim), "running")
    wire.release()
    assert len(wired.list("r")) == 1


def test_who_waits_for_a_connection_in_vain_is_told_that_all_are_in_use(wired, wire):
    claim = start(wired)
    wire.arm("hold", "UPDATE")
    first = threading.Thread(target=lambda: wired.put(claim, row(claim), "running"))
    first.start()
    wire.held.wait()
    wired.busy_bound = 0.5
    with pytest.raises(StoreUnavailable, match=r"all 1 are in use.*nothing was written"):
        wired.get_last("r")
    wire.release()
    first.join()
    assert len(wired.list("r")) == 1


def test_a_server_that_takes_no_more_connections_is_waited_for(fastdur_postgres, admin, worker_id, nothing):
    name = f"few_{worker_id}"
    admin.execute(f"CREATE ROLE {name} LOGIN CONNECTION LIMIT 1")
    admin.execute(f"GRANT CREATE ON DATABASE {admin.info.dbname} TO {name}")
    dsn = psycopg.conninfo.make_conninfo(fastdur_postgres.dsn, user=name)
    other = psycopg.connect(dsn)
    with closing(PostgresCheckpointer(dsn, nothing)) as store:
        store._waiting = lambda attempt: other.close()
        start(store)
    admin.execute(f"DROP OWNED BY {name} CASCADE")
    admin.execute(f"DROP ROLE {name}")


@pytest.mark.parametrize("lock", ["UPDATE", "SHARE"])
def test_a_lock_that_is_held_longer_than_the_server_allows_is_waited_for(
    fastdur_postgres, postgres_checkpointer, admin, lock
):
    store = postgres_checkpointer
    claim = start(store)
    schema = store.location.rpartition("/")[2]
    admin.execute(f"ALTER DATABASE {admin.info.dbname} SET lock_timeout = 20")
    store.rest()
    blocker = psycopg.connect(fastdur_postgres.dsn)
    blocker.execute(f"SELECT 1 FROM {schema}.executions FOR {lock}")
    store._waiting = lambda attempt: blocker.close() if attempt == 3 else None
    store.put(claim, row(claim), "running")
    admin.execute(f"ALTER DATABASE {admin.info.dbname} RESET lock_timeout")
    assert blocker.closed
    assert len(store.list("r")) == 1


def test_a_deadlock_and_a_cancelled_statement_are_tried_again(fastdur_postgres, postgres_checkpointer, admin):
    store = postgres_checkpointer
    claim = start(store)
    schema = store.location.rpartition("/")[2]
    admin.execute(f"ALTER DATABASE {admin.info.dbname} SET statement_timeout = 20")
    store.rest()
    blocker = psycopg.connect(fastdur_postgres.dsn)
    blocker.execute(f"SELECT 1 FROM {schema}.executions FOR UPDATE")
    store._waiting = lambda attempt: blocker.close()
    store.put(claim, row(claim), "running")
    admin.execute(f"ALTER DATABASE {admin.info.dbname} RESET statement_timeout")
    assert len(store.list("r")) == 1


def test_a_server_that_is_killed_in_the_middle_of_a_run_comes_back_with_all_that_was_acknowledged():
    server = start_for(os.getpid())
    try:
        with closing(PostgresCheckpointer(server.dsn)) as store:
            claim = start(store)
            for end in (server.kill, server.stop):
                store.put(claim, row(claim), "running")
                end()
                store._waiting = lambda attempt: None if attempt != 3 else server.start()
                store.put(claim, row(claim), "running")
            assert [r.seq for r in store.list("r")] == [1, 2, 3, 4]
            with pytest.raises(RunExists):
                start(store, token="other")
    finally:
        server.remove()


def test_eight_threads_whose_server_is_killed_and_comes_back_lose_nothing_and_soon_go_on():
    """Wrong: connections that are found dead one by one, a pool that waits twice as long after each try in vain."""
    server = start_for(os.getpid())
    try:
        with closing(PostgresCheckpointer(server.dsn, min_pool_size=4, max_pool_size=8)) as store:
            claims = [start(store, f"r{n}") for n in range(8)]
            together, looking = threading.Barrier(9), threading.Lock()
            late = []

            def waiting(_):
                with looking:
                    if server.up:
                        late.append(1)
                    else:
                        server.start()

            store._waiting = waiting

            def work(claim):
                for half in range(2):
                    for _ in range(5):
                        store.put(claim, row(claim), "running")
                    if half == 0:
                        together.wait()
                        together.wait()

            threads = [threading.Thread(target=work, args=(claim,)) for claim in claims]
            for thread in threads:
                thread.start()
            together.wait()
            server.kill()
            together.wait()
            for thread in threads:
                thread.join()
            assert [[each.seq for each in store.list(f"r{n}")] for n in range(8)] == [list(range(1, 11))] * 8
            assert len(late) <= 3 * 8
    finally:
        server.remove()


def test_who_waits_for_one_more_connection_gets_it_as_soon_as_the_server_gives_one(fastdur_postgres, wire, monkeypatch):
    """Wrong: a pool that after tries in vain does not ask for longer and longer."""
    monkeypatch.setattr(postgres, "_FOR_A_CONNECTION", 0.05)
    with fastdur_postgres.schemas() as fresh, closing(PostgresCheckpointer(wire.dsn, fresh(), 1, 1)) as store:
        claim = start(store)
        wire.stop_listening()
        store._kept.pool.resize(1, 2)  # else it might have made the second one ahead of time
        wire.arm("hold", "UPDATE")
        first = threading.Thread(target=lambda: store.put(claim, row(claim), "running"))
        first.start()
        wire.held.wait()
        tries = []
        monkeypatch.setattr(store, "_waiting", lambda number: (tries.append(number), number == 3 and wire.listen()))
        try:
            assert head(store).status == "running"
            assert first.is_alive()
            assert len(tries) <= 5
        finally:
            wire.release()
            first.join()


def test_a_pool_that_gives_nobody_a_connection_although_nobody_has_one_is_made_anew(postgres_checkpointer, monkeypatch):
    monkeypatch.setattr(postgres, "_FOR_A_CONNECTION", 0.05)
    store = postgres_checkpointer
    start(store)
    first = store._kept.pool
    away = [first.getconn() for _ in range(first.max_size)]
    assert head(store).status == "running"
    assert store._kept.pool is not first
    for connection in away:
        first.putconn(connection)


@pytest.mark.case("S65")
def test_of_many_writes_at_once_the_one_that_the_server_refuses_leaves_nothing_and_the_others_are_whole(
    postgres_checkpointer,
):
    """Wrong: a row without its question, or somebody else's write that goes down with it."""
    store = postgres_checkpointer
    claims = [start(store, f"r{n}") for n in range(8)]
    together, came = threading.Barrier(8), {}

    def work(number, claim):
        asked = row(claim, step_type="hitl_pause", status="interrupted", node_index=1 << 70 if number == 3 else 1)
        store.begin_idempotent(claim, effect())
        together.wait()
        try:
            store.record_interrupt(
                claim, asked, [question(claim, "a#1/1"), question(claim, "a#1/2")], "paused", keep=True
            )
        except OverflowError:
            came[number] = "refused"
        store.put_idempotent(claim, effect(status="done"))

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(claims)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert came == {3: "refused"}
    for number in range(8):
        stored = len(store.list(f"r{number}")), len(store.list_pending_interrupts(f"r{number}"))
        assert stored == ((0, 0) if number == 3 else (1, 2))
        assert [each.status for each in store.list_idempotent(f"r{number}")] == ["done"]


@pytest.fixture
def limited(admin):
    """Sets limits of the database, under which sessions that begin from now on work."""
    names = []

    def limit(**settings):
        for name, value in settings.items():
            names.append(name)
            admin.execute(f"ALTER DATABASE {admin.info.dbname} SET {name} = '{value}'")

    yield limit
    for name in names:
        admin.execute(f"ALTER DATABASE {admin.info.dbname} RESET {name}")


def stuck(store, dsn):
    """Hold a lock that every write needs; closing the connection gives it up."""
    blocker = psycopg.connect(dsn)
    blocker.execute(f"LOCK TABLE {store.location.rpartition('/')[2]}.executions")
    return blocker


@pytest.mark.parametrize("limit", ["lock_timeout", "statement_timeout", "transaction_timeout"])
def test_the_time_that_goes_by_in_statements_in_vain_is_part_of_the_bound(dsn, postgres_checkpointer, limited, limit):
    store = postgres_checkpointer
    claim = start(store)
    store.rest()
    store.busy_bound = 1.0
    waits = []
    store._waiting = waits.append
    with closing(stuck(store, dsn)):
        limited(**{limit: "350ms"})  # for the sessions that begin from now on
        with pytest.raises(StoreUnavailable, match=r"about 1 s .* can be resumed"):
            store.put(claim, row(claim), "running")
    assert 1 <= len(waits) <= 10, "each try waits 0.3 s; 30 tries would be ten times the bound"
    assert store.put(claim, row(claim), "running").seq == 1


def test_the_time_that_setting_up_waits_in_vain_is_part_of_the_bound(dsn, postgres_checkpointer, limited):
    store = postgres_checkpointer
    start(store)
    limited(lock_timeout="350ms")
    store.rest()
    store.busy_bound = 1.0
    waits = []
    store._waiting = waits.append
    schema = store.location.rpartition("/")[2]
    with closing(psycopg.connect(dsn)) as blocker:
        blocker.execute(f"LOCK TABLE {schema}.schema_version")
        with pytest.raises(StoreUnavailable, match="about 1 s"):
            head(store)
    assert 1 <= len(waits) <= 10
    assert head(store).status == "running"


def test_a_transaction_that_takes_too_long_is_the_users_only_in_a_body_of_theirs():
    for code in ("25P03", "25P04"):
        assert understood(made(code), "here", sent=True).unclear
        assert type(understood(made(code), "here", sent=False, body=True)) is InTransaction


def made(code, text="told"):
    """A driver's error as the server sends it."""
    return psycopg.errors.lookup(code)(text)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("40001", False),
        ("40P01", False),
        ("55P03", False),
        ("57014", False),
        ("53300", False),
        ("57P03", False),
        ("25006", False),
        ("57P01", True),
        ("08006", True),
        ("40003", True),
    ],
)
def test_errors_after_which_the_write_is_sent_again(code, kind):
    again = understood(made(code), "here", sent=True)
    assert isinstance(again, Again)
    assert again.unclear is kind
    assert not understood(made(code), "here", sent=False).unclear


@pytest.mark.parametrize(
    ("code", "error", "text"),
    [
        ("42501", StoreUnavailable, "grant"),
        ("42939", StoreUnavailable, "another schema"),
        ("53100", StoreUnavailable, "53100"),
        ("54000", NotStorable, "longer"),
        ("42P01", StoreCorrupt, "damaged"),
        ("XX001", StoreCorrupt, "damaged"),
        ("22003", OverflowError, "told"),
    ],
)
def test_errors_after_which_it_is_not(code, error, text):
    found = understood(made(code), "here", sent=True)
    assert type(found) is error
    assert text in str(found)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"user": "nobody_at_all"}, "does not exist"),
        ({"dbname": "no_such_database"}, "does not exist"),
        ({"sslmode": "foo"}, "invalid sslmode value"),
        ({"target_session_attrs": "foo"}, "invalid target_session_attrs value"),
        ({"port": "abc"}, "invalid integer value"),
        ({"port": "99999"}, "invalid port number"),
        ({"port": "1,2,3"}, "could not match"),
        ({"hostaddr": "nonsense"}, "could not parse network address"),
        ({"connect_timeout": "soon"}, "bad value for connect_timeout"),
        ({"service": "none_such"}, "definition of service"),
        ({"options": "-c nosuch=1"}, "unrecognized configuration parameter"),
        ({"options": "-c statement_timeout=x"}, "invalid value for parameter"),
        ({"channel_binding": "require"}, "channel binding required"),
        ({"gssencmode": "require"}, "GSSAPI encryption required"),
        ({"user": "may_not_log_in"}, "is not permitted to log in"),
    ],
)
def test_a_connection_string_that_leads_nowhere_is_refused_without_waiting(dsn, admin, change, text):
    admin.execute("DROP ROLE IF EXISTS may_not_log_in")
    if change.get("user") == "may_not_log_in":
        admin.execute("CREATE ROLE may_not_log_in")
    with closing(PostgresCheckpointer(psycopg.conninfo.make_conninfo(dsn, **change))) as store:
        store._waiting = pytest.fail
        with pytest.raises(StoreUnavailable, match=text):
            store.setup()


def test_a_server_that_is_called_what_an_error_says_is_waited_for_all_the_same():
    text = 'connection to server at "certificate.example", port 5432 failed: Connection refused'
    assert isinstance(understood(psycopg.OperationalError(text), "here", sent=False), Again)


def test_a_connection_that_is_not_made_in_time_counts_as_waited_for():
    again = understood(psycopg.errors.ConnectionTimeout("too long"), "here", sent=True)
    assert (again.unclear, again.waited) == (False, 10)


def test_a_pool_that_another_thread_has_replaced_is_given_up_once(postgres_checkpointer):
    store = postgres_checkpointer
    start(store)
    old = store._kept.pool
    for _ in range(2):
        store._replace(old)
        assert head(store).status == "running"
    assert store._kept.pool is not old
    with pytest.raises(Again):
        store._taken(old)


def test_the_pool_is_made_anew_where_it_gets_no_connection_while_one_can_be_made(wired, monkeypatch):
    store = wired
    start(store)
    store.rest()
    monkeypatch.setattr(postgres, "_FOR_A_CONNECTION", 0.05)
    connect = Connection.connect
    calls = count()
    monkeypatch.setattr(
        _postgres_server.Connection,
        "connect",
        lambda *args, **kwargs: refuse() if next(calls) == 1 else connect(*args, **kwargs),
    )
    assert head(store).status == "running"


def refuse():
    raise psycopg.OperationalError("refused this once")
