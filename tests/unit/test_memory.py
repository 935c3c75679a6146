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
    assert memory.enter("k", "digest", "a#1", "me") == record(status)


@pytest.mark.parametrize("status", ["started", "failed"])
def test_what_the_store_knows_as_begun_or_failed_is_run(memory, status):
    memory.load([record(status)])
    assert memory.enter("k", "digest", "a#1", "me") is None


def test_a_settled_record_answers_and_another_key_does_not(memory):
    memory.settle(record())
    assert memory.enter("k", "digest", "a#1", "me") == record()
    assert memory.enter("other", "digest", "a#1", "me") is None


def test_the_same_key_with_other_arguments_is_refused(memory):
    memory.settle(record())
    with pytest.raises(IdempotencyMismatch, match="charge"):
        memory.enter("k", "other", "a#1", "me")
    memory.load([record("failed", "f")])
    with pytest.raises(IdempotencyMismatch):
        memory.failure("f", "other", "a#1", 0)


# -- failures of earlier lifetimes ---------------------------------------------------------------------------------------


def test_a_recorded_failure_is_given_out_once_in_its_visit(memory):
    memory.load([record("failed")])
    assert memory.failure("k", "digest", "a#1", 0) == record("failed")
    assert memory.failure("k", "digest", "a#1", 0) is None


def test_a_recorded_failure_is_given_to_no_retry_and_to_nobody_after_it(memory):
    memory.load([record("failed")])
    assert memory.failure("k", "digest", "a#1", 1) is None
    assert memory.failure("k", "digest", "a#1", 0) is None


def test_a_recorded_failure_is_given_to_no_other_visit_and_waits_for_its_own(memory):
    memory.load([record("failed")])
    assert memory.failure("k", "digest", "a#2", 0) is None
    assert memory.failure("k", "digest", "a#1", 0) == record("failed")


def test_each_visit_has_the_failures_that_it_ran_into_and_what_came_of_the_last(memory):
    first = record("failed")
    memory.load([first])
    key, _ = memory.next_try("k", "a#2", 0)
    assert key not in ("k", "k/2")
    second = record("failed", key, path="a#2")
    last = record("done", memory.next_try("k", "a#3", 0)[0], path="a#3")
    again = Memory()
    again.load([first, second, last])
    for failed in (first, second):
        assert again.recorded("k", "digest", failed.path) is None
        assert again.failure("k", "digest", failed.path, 0) == failed
    assert again.recorded("k", "digest", "a#2") == again.recorded("k", "digest", "a#3") == last


def test_a_failure_that_somebody_has_settled_belongs_to_no_visit(memory):
    memory.load([record("failed", path="")])
    assert memory.next_try("k", "a#1", 0)[0] == "k"
    assert memory.failure("k", "digest", "a#1", 0) is None


def test_what_belongs_to_a_child_run_is_not_its_parent_s(memory):
    memory.load([record(key="/n#1/c//k"), record("failed", "/n#1/c//f")])
    assert memory.recorded("k", "digest", "a#1") is None
    assert memory.recorded("", "digest", "a#1") is None


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
    assert memory.enter("k", "digest", "a#1", "me") is None
    flight = memory.enter("k", "digest", "a#1", "other")
    assert isinstance(flight, Flight)
    assert flight.owner == "me"


def test_a_flight_is_over_when_its_owner_leaves_and_everybody_who_watched_is_told(memory):
    told = []
    memory.enter("k", "digest", "a#1", "me")
    events = [memory.watch("k", lambda who=who: told.append(who)) for who in "ab"]
    memory.leave("k", "other")
    assert not events[0].is_set()
    memory.leave("k", "me")
    assert told == ["a", "b"]
    assert all(event.is_set() for event in events)
    assert memory.watch("k", lambda: told.append("late")) is None
    assert memory.enter("k", "digest", "a#1", "next") is None


def test_leaving_without_a_flight_does_nothing(memory):
    memory.leave("k", "me")
    memory.enter("k", "digest", "a#1", "me")
    memory.leave("k", "somebody else")
    assert isinstance(memory.enter("k", "digest", "a#1", "other"), Flight)


def test_of_many_threads_one_gets_the_flight(memory):
    barrier, found = threading.Barrier(8), []

    def enter(owner):
        barrier.wait(30)
        found.append(memory.enter("k", "digest", "a#1", owner))

    threads = [threading.Thread(target=enter, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [each for each in found if each is None] == [None]
    assert len({id(each) for each in found}) == 2
