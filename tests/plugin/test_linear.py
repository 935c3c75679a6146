"""Linearizability by brute force, on histories that were written down."""

from __future__ import annotations

from pytest_fastdur.conformance._made import copy_of, row, start
from pytest_fastdur.linear import UNKNOWN, Caller, Done, order_of, played, shown
from pytest_fastdur.model import StoreModel


def put(store, knows):
    mine = knows["claim"]
    return store.put(mine, row(mine, {}, nonce=knows["nonce"]), "running").seq


def seq(store, knows):
    return store.get_execution("r").seq


def race(*calls):
    """A model with one run, and callers that hold its claim, each with calls: what, from, to, answer."""
    model = StoreModel()
    claim = start(model)
    callers = [Caller([], {"claim": copy_of(claim), "nonce": f"n{number}"}) for number in range(len(calls))]
    history = [[Done(fn.__name__, fn, *rest) for fn, *rest in each] for each in calls]
    return order_of(model, callers, history)


def test_an_order_is_found_where_there_is_one():
    assert race([(put, 1, 4, 1)], [(seq, 2, 3, 0)]) == ["1: seq", "0: put"]
    assert race([(put, 1, 4, 1)], [(seq, 2, 3, 1)]) == ["0: put", "1: seq"]


def test_a_read_that_misses_what_had_ended_before_it_began_has_no_order():
    assert race([(put, 1, 2, 1)], [(seq, 3, 4, 0)]) is None


def test_two_winners_have_no_order():
    assert race([(put, 1, 4, 1)], [(put, 2, 3, 1)]) is None
    assert race([(put, 1, 4, 1)], [(put, 2, 3, "raised StaleRun")]) is not None


def test_an_unknown_outcome_may_have_taken_effect_at_any_time_or_never():
    for answer in (0, 1):
        assert race([(put, 1, float("inf"), UNKNOWN)], [(seq, 5, 6, answer)]) is not None
    assert race([(put, 5, float("inf"), UNKNOWN)], [(seq, 1, 2, 1)]) is None
    assert race([(put, 1, float("inf"), UNKNOWN)], [(seq, 5, 6, 1), (seq, 7, 8, 0)]) is None


def test_callers_are_played_at_once_and_shown_in_order():
    model = StoreModel()
    claim = start(model)
    callers = [Caller([("put", put)], {"claim": copy_of(claim), "nonce": "n1"}), Caller([("seq", seq)])]
    history = played([model, model], callers)
    assert [len(calls) for calls in history] == [1, 1]
    assert "0: put -> 1" in shown(history)
