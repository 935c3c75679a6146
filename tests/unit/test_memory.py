"""What one lifetime knows of its effects."""

import threading

import pytest

from fastdur import IdempotencyError, IdempotencyMismatch
from fastdur._memory import Flight, Memory
from fastdur.records import EffectRecord


def record(status="done", key="k", *, args="digest", path="a#1"):
    error = ["builtins.KeyError", "no", []] if status == "failed" else None
    return EffectRecord(key, "charge", args, status, "attempt", path, error=error)


@pytest.fixture
def memory():
    return Memory()


@pytest.mark.parametrize("status", ["done", "unstorable"])
def test_what_the_store_knows_as_over_answers_the_call(memory, status):
    memory.load([record(status)])
    assert memory.enter("k", "digest", "me") == record(status)


@pytest.mark.parametrize("status", ["started", "failed"])
def test_what_the_store_knows_as_begun_or_failed_is_run(memory, status):
    memory.load([record(status)])
    assert memory.enter("k", "digest", "me") is None


def test_a_settled_record_answers_and_another_key_does_not(memory):
    memory.settle(record())
    assert memory.enter("k", "digest", "me") == record()
    assert memory.enter("other", "digest", "me") is None


def test_the_same_key_with_other_arguments_is_refused(memory):
    memory.settle(record())
    with pytest.raises(IdempotencyMismatch, match="charge"):
        memory.enter("k", "other", "me")
    memory.load([record("failed", "f")])
    with pytest.raises(IdempotencyMismatch):
        memory.failure("f", "other", "a#1", 0)


# -- failures of earlier lifetimes ---------------------------------------------------------------------------------------


def test_a_recorded_failure_is_given_out_once_in_its_visit(memory):
    memory.load([record("failed")])
    assert memory.failure("k", "digest", "a#1", 0) == record("failed")
    assert memory.failure("k", "digest", "a#1", 0) is None


@pytest.mark.parametrize(("path", "attempt"), [("a#2", 0), ("a#1", 1)])
def test_a_recorded_failure_is_given_to_no_other_visit_and_to_no_retry(memory, path, attempt):
    memory.load([record("failed")])
    assert memory.failure("k", "digest", path, attempt) is None
    assert memory.failure("k", "digest", "a#1", 0) is None


# -- doubts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["started", "unknown"])
def test_what_the_store_knows_without_an_outcome_is_unknown_until_it_is_settled(memory, status):
    assert memory.unknown("k", "digest") is None
    memory.load([record(status)])
    assert memory.unknown("k", "digest") == record(status)
    with pytest.raises(IdempotencyMismatch):
        memory.unknown("k", "other")
    memory.settle(record())
    assert memory.unknown("k", "digest") is None


def test_a_doubt_of_this_lifetime_stands_until_it_is_known_not_to_have_happened(memory):
    memory.doubt(record("unknown"), sure=False)
    assert memory.unknown("k", "digest") == record("unknown")
    memory.doubt(record("failed"), sure=True)
    assert memory.unknown("k", "digest") is None


# -- names ---------------------------------------------------------------------------------------------------------------


def test_a_name_belongs_to_one_function(memory):
    memory.name("charge", len, "a#1", 0)
    memory.name("charge", len, "b#1", 0)
    memory.name("refund", print, "b#1", 0)
    for path, attempt in (("b#1", 0), ("b#2", 0), ("b#2", 1), ("a#1", 0)):
        with pytest.raises(IdempotencyError, match=r"'charge'.*name="):
            memory.name("charge", print, path, attempt)


def test_a_retry_of_the_same_visit_may_bring_a_new_function(memory):
    memory.name("charge", len, "a#1", 0)
    memory.name("charge", print, "a#1", 1)
    memory.name("charge", print, "a#1", 1)
    with pytest.raises(IdempotencyError):
        memory.name("charge", len, "a#1", 1)


# -- flights -------------------------------------------------------------------------------------------------------------


def test_the_second_of_two_finds_the_flight_of_the_first(memory):
    assert memory.enter("k", "digest", "me") is None
    flight = memory.enter("k", "digest", "other")
    assert isinstance(flight, Flight)
    assert flight.owner == "me"


def test_a_flight_is_over_when_its_owner_leaves_and_everybody_who_watched_is_told(memory):
    told = []
    memory.enter("k", "digest", "me")
    events = [memory.watch("k", lambda who=who: told.append(who)) for who in "ab"]
    memory.leave("k", "other")
    assert not events[0].is_set()
    memory.leave("k", "me")
    assert told == ["a", "b"]
    assert all(event.is_set() for event in events)
    assert memory.watch("k", lambda: told.append("late")) is None
    assert memory.enter("k", "digest", "next") is None


def test_leaving_without_a_flight_does_nothing(memory):
    memory.leave("k", "me")
    memory.enter("k", "digest", "me")
    memory.leave("k", "somebody else")
    assert isinstance(memory.enter("k", "digest", "other"), Flight)


def test_of_many_threads_one_gets_the_flight(memory):
    barrier, found = threading.Barrier(8), []

    def enter(owner):
        barrier.wait(30)
        found.append(memory.enter("k", "digest", owner))

    threads = [threading.Thread(target=enter, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [each for each in found if each is None] == [None]
    assert len({id(each) for each in found}) == 2
