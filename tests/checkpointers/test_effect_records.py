"""Effect records: written under the claim, never lost, never written twice."""

from __future__ import annotations

from contextlib import closing, contextmanager

import pytest

from fastdur.checkpointers._cursor import inside
from fastdur.checkpointers.postgres import PostgresCheckpointer
from fastdur.checkpointers.sqlite import SQLiteCheckpointer
from fastdur.errors import StaleRun
from tests.checkpointers.stores import effect, faulty, head, opened, row, start
from tests.unit.books import Books

ODD = 'k"\\\u0000\ud800'


def test_a_record_is_begun_ended_and_read_back(store):
    claim = start(store)
    assert store.begin_idempotent(claim, effect()) is None
    assert store.get_idempotent("r", "k") == effect()
    done = effect(status="done", result={"paid": [1, None]})
    store.put_idempotent(claim, done)
    assert store.get_idempotent("r", "k") == done
    assert store.get_idempotent("r", "other") is None


def test_texts_of_every_kind_are_kept(store):
    claim = start(store)
    odd = effect(ODD, name=ODD, args=ODD, path=ODD)
    store.begin_idempotent(claim, odd)
    failed = effect(ODD, name=ODD, args=ODD, path=ODD, status="failed", error=["ValueError", ODD])
    store.put_idempotent(claim, failed)
    assert store.list_idempotent("r") == [failed]


@pytest.mark.parametrize("result", [None, False, 0, "", {}, []])
def test_a_finished_record_answers_whatever_its_value(store, result):
    claim = start(store)
    store.begin_idempotent(claim, effect())
    done = effect(status="done", result=result)
    store.put_idempotent(claim, done)
    answer = store.begin_idempotent(claim, effect(attempt="a2"))
    assert answer == done
    assert type(answer.result) is type(result)


def test_an_unstorable_result_is_not_run_again(store):
    claim = start(store)
    store.begin_idempotent(claim, effect())
    store.put_idempotent(claim, effect(status="unstorable", error="socket"))
    assert store.begin_idempotent(claim, effect(attempt="a2")).status == "unstorable"


@pytest.mark.parametrize("status", ["started", "failed"])
def test_an_attempt_that_is_over_or_failed_is_replaced(store, status):
    claim = start(store)
    store.begin_idempotent(claim, effect())
    if status == "failed":
        store.put_idempotent(claim, effect(status="failed", error="no"))
    assert store.begin_idempotent(claim, effect(attempt="a2", path="work#2")) is None
    assert store.get_idempotent("r", "k") == effect(attempt="a2", path="work#2")
    with pytest.raises(StaleRun):
        store.put_idempotent(claim, effect(attempt="a1", status="done"))
    store.put_idempotent(claim, effect(attempt="a2", path="work#2", status="done"))


def test_the_same_end_again_is_done_and_another_end_is_refused(store):
    claim = start(store)
    store.begin_idempotent(claim, effect())
    store.put_idempotent(claim, effect(status="done", result=1))
    store.put_idempotent(claim, effect(status="done", result=1))
    with pytest.raises(StaleRun):
        store.put_idempotent(claim, effect(status="done", result=True))
    assert store.get_idempotent("r", "k").result == 1


def test_an_end_without_a_begin_is_refused(store):
    claim = start(store)
    with pytest.raises(StaleRun):
        store.put_idempotent(claim, effect(status="done"))


def test_a_begun_record_outlives_rows_and_is_ended_under_the_same_claim(store):
    claim = start(store)
    store.begin_idempotent(claim, effect())
    store.put(claim, row(claim), "running")
    store.put_idempotent(claim, effect(status="done", result=2))
    assert store.get_idempotent("r", "k").status == "done"


def test_a_zombie_can_neither_begin_nor_end_an_effect(store):
    zombie = start(store)
    store.begin_idempotent(zombie, effect("mine"))
    store.begin_idempotent(zombie, effect("done"))
    store.put_idempotent(zombie, effect("done", status="done"))
    owner = store.claim_execution(head(store), "second", "you")
    for key in ("mine", "done", "new"):
        with pytest.raises(StaleRun):
            store.begin_idempotent(zombie, effect(key))
    with pytest.raises(StaleRun):
        store.put_idempotent(zombie, effect("mine", status="done"))
    store.put_idempotent(zombie, effect("done", status="done"))  # it has been stored: that is true whoever asks
    assert [(e.key, e.status) for e in store.list_idempotent("r")] == [("mine", "started"), ("done", "done")]
    assert store.begin_idempotent(owner, effect("mine", attempt="a2")) is None


def test_records_are_listed_in_the_order_of_their_begin_each_run_its_own(store):
    one, two = start(store, "one"), start(store, "two")
    for key in ("z", "a", "m"):
        store.begin_idempotent(one, effect(key))
    store.begin_idempotent(two, effect("z", attempt="other"))
    store.put_idempotent(one, effect("a", status="done"))
    assert [e.key for e in store.list_idempotent("one")] == ["z", "a", "m"]
    assert [e.attempt for e in store.list_idempotent("two")] == ["other"]


def test_a_failed_ending_removes_the_failed_records_of_its_path_with_its_row(store):
    claim = start(store)
    for key, path, status in (
        ("a", "work#1", "failed"),
        ("b", "work#2", "failed"),
        ("c", "work#1", "done"),
        ("d", "work#1", None),
    ):
        store.begin_idempotent(claim, effect(key, path=path))
        if status:
            store.put_idempotent(claim, effect(key, path=path, status=status))
    store.put(claim, row(claim, step_type="run_end", status="failed"), "failed", clear_failed="work#1")
    assert [e.key for e in store.list_idempotent("r")] == ["b", "c", "d"]
    with pytest.raises(StaleRun):
        store.put(claim, row(claim), "failed", clear_failed="work#2")
    assert [e.key for e in store.list_idempotent("r")] == ["b", "c", "d"]


def test_a_record_has_the_epoch_of_the_claim_under_which_it_was_begun(store):
    first = start(store)
    store.begin_idempotent(first, effect())
    store.begin_idempotent(first, effect("other"))
    second = store.claim_execution(head(store), "second", "you")
    assert store.get_idempotent("r", "k").epoch == first.epoch
    store.begin_idempotent(second, effect(attempt="a2"))
    store.put_idempotent(second, effect(attempt="a2", status="done"))
    assert [each.epoch for each in store.list_idempotent("r")] == [second.epoch, first.epoch]


def test_records_without_an_outcome_are_listed_in_the_order_of_their_begin(store):
    claim = start(store)
    for key, status in (("z", None), ("b", "done"), ("c", "unknown"), ("d", "failed"), ("a", None)):
        store.begin_idempotent(claim, effect(key))
        if status:
            store.put_idempotent(claim, effect(key, status=status))
    assert [(e.key, e.status) for e in store.list_unknown("r")] == [
        ("z", "started"),
        ("c", "unknown"),
        ("a", "started"),
    ]
    assert store.list_unknown("nobody") == []


@pytest.mark.parametrize("status", ["started", "unknown"])
@pytest.mark.parametrize("owned", [True, False])
def test_an_outcome_from_outside_replaces_the_record(store, status, owned):
    claim = start(store)
    store.begin_idempotent(claim, effect())
    if status == "unknown":
        store.put_idempotent(claim, effect(status="unknown", error=["E", "no", None]))
    if not owned:
        store.release(claim)
    record = store.get_idempotent("r", "k")
    done = effect(status="done", result={"n": [1]}, path="")
    assert store.resolve_unknown(head(store), record, done) is True
    assert store.get_idempotent("r", "k") == done
    assert store.resolve_unknown(head(store), record, done) is True, "sent again after a lost answer"
    assert store.resolve_unknown(head(store), record, effect(status="failed", path="")) is False
    assert store.list_unknown("r") == []


def test_an_outcome_is_refused_where_the_owner_or_the_attempt_has_changed(store):
    claim = start(store)
    store.begin_idempotent(claim, effect())
    seen, record = head(store), store.get_idempotent("r", "k")
    second = store.claim_execution(seen, "second", "you")
    done = effect(status="done", result=1)
    assert store.resolve_unknown(seen, record, done) is False
    store.begin_idempotent(second, effect(attempt="a2"))
    assert store.resolve_unknown(head(store), record, done) is False
    assert store.get_idempotent("r", "k") == effect(attempt="a2")


def test_an_owner_whose_effect_was_settled_from_outside_can_no_longer_end_it(store):
    claim = start(store)
    store.begin_idempotent(claim, effect())
    store.resolve_unknown(head(store), store.get_idempotent("r", "k"), effect(status="done", result="seen"))
    with pytest.raises(StaleRun):
        store.put_idempotent(claim, effect(status="done", result="mine"))
    assert store.begin_idempotent(claim, effect(attempt="a2")).result == "seen"


# -- in one transaction with statements of the user's --------------------------------------------------------------------


@pytest.fixture
def books(store):
    return Books(store)


def noting(books, bodies, result=None):
    def body(cursor):
        bodies.append(1)
        books.insert(cursor, 7)
        return effect(status="done", result=result)

    return body


def test_the_statements_and_the_record_are_one_write_and_a_record_answers(books, store):
    claim, bodies = start(store), []
    assert store.transact_idempotent(claim, effect(), noting(books, bodies, "first")) == (
        effect(status="done", result="first"),
        None,
    )
    again = store.transact_idempotent(claim, effect(attempt="a2"), noting(books, bodies, "second"))
    assert again == (effect(status="done", result="first"), None)
    assert (bodies, books.amounts(), store.get_idempotent("r", "k").epoch) == ([1], [7], claim.epoch)


@pytest.mark.parametrize("before", ["failed", "started", "unknown"])
def test_what_failed_or_was_begun_before_is_replaced(books, store, before):
    claim = start(store)
    store.begin_idempotent(claim, effect(status=before))
    ended, _ = store.transact_idempotent(claim, effect(attempt="a2"), noting(books, [], "now"))
    assert store.get_idempotent("r", "k") == ended


def test_what_the_body_raises_is_returned_and_nothing_is_written(books, store):
    claim, error = start(store), ValueError("no")

    def body(cursor):
        books.insert(cursor, 6)
        raise error

    assert store.transact_idempotent(claim, effect(), body) == (None, error)
    assert store.list_idempotent("r") == []
    store.transact_idempotent(claim, effect(), noting(books, []))
    assert books.amounts() == [7]


def test_a_zombie_does_not_even_run_it(books, store):
    zombie, bodies = start(store), []
    owner = store.claim_execution(head(store), "second", "you")
    with pytest.raises(StaleRun):
        store.transact_idempotent(zombie, effect(), noting(books, bodies))
    assert (store.list_idempotent("r"), bodies) == ([], [])
    store.transact_idempotent(owner, effect(), noting(books, bodies))
    assert books.amounts() == [7]


@pytest.mark.parametrize(("after", "times"), [(True, 1), (False, 2)])
def test_a_commit_whose_answer_is_lost_is_found_and_one_that_was_refused_is_made_again(path, monkeypatch, after, times):
    monkeypatch.setattr(SQLiteCheckpointer, "driver", faulty(2, after=after))
    bodies = []
    with opened(path) as store:
        books, claim = Books(store), start(store)
        ended, error = store.transact_idempotent(claim, effect(), noting(books, bodies, 1))
        assert (ended, error, len(bodies)) == (effect(status="done", result=1), None, times)
        assert books.amounts() == [7]


AFTERWARDS = "pg_advisory_unlock_all"
ALL = ["BEGIN", "LEFT JOIN", "ledger", "DISCARD TEMP", "ON CONFLICT", "COMMIT", AFTERWARDS]


@pytest.mark.parametrize("text", ALL)
@pytest.mark.parametrize("when", ["before", "in", "after"])
def test_a_connection_lost_at_any_statement_of_it_leaves_it_done_once(wired, wire, text, when):
    books, claim, bodies = Books(wired), start(wired), []
    wire.arm(when, text)
    ended, error = wired.transact_idempotent(claim, effect(), noting(books, bodies, 1))
    assert (ended, error, wire.fired) == (effect(status="done", result=1), None, 1)
    assert books.amounts() == [7]
    once = text in ("BEGIN", "LEFT JOIN", AFTERWARDS) or (text, when) == ("COMMIT", "after")
    assert len(bodies) == (1 if once else 2)


def test_what_it_sends_is_these_statements_and_no_more(wired, wire):
    books, claim = Books(wired), start(wired)
    del wire.requests[:]
    wired.transact_idempotent(claim, effect(), noting(books, []))
    assert [next(each for each in ALL if each in text) for text in wire.requests] == ALL


def test_a_commit_that_is_still_being_made_when_its_answer_is_given_up_is_waited_for(wired, wire, dsn):
    """The first try is not lost, only late: the second runs into its record, and takes that."""
    books, claim, bodies, first = Books(wired), start(wired), [], []

    def body(cursor):
        if not bodies:  # somebody else, as far as the store can tell
            schema = wired.location.rpartition("/")[2]
            with outside(), closing(PostgresCheckpointer(dsn, schema, 1, 1)) as other:
                first.append(other.transact_idempotent(claim, effect(attempt="a0"), noting(books, bodies, "first")))
        return noting(books, bodies, "second")(cursor)

    assert wired.transact_idempotent(claim, effect(), body) == first[0]
    assert (books.amounts(), len(bodies)) == ([7], 2)


@contextmanager
def outside():
    """As in another process."""
    token = inside.set(None)
    try:
        yield
    finally:
        inside.reset(token)
