"""The event stream: who is told, and what an observer can do to a run."""

import pytest

from fastdur import Boundary, Inject, SimulatedCrash, observe
from fastdur._effects import Release
from fastdur.boundaries import observers_of, tell


def at(name="append a"):
    return Boundary("after", name, "r", Release())


def test_a_boundary_reads_as_people_say_it():
    assert str(at("append review")) == "after append review"


def test_an_observer_watches_from_the_beginning_of_the_block_to_its_end():
    seen = []
    with observe(seen.append):
        assert observers_of("store") == [seen.append]
    assert observers_of("store") == []


def test_an_observer_of_a_store_watches_that_store_only():
    store, other, seen = object(), object(), []
    with observe(seen.append, store):
        assert observers_of(store) == [seen.append]
        assert observers_of(other) == observers_of(None) == []


def test_the_same_observer_attached_twice_is_told_twice_and_taken_out_one_by_one():
    seen = []
    with observe(seen.append):
        with observe(seen.append):
            tell(observers_of(None), at())
        tell(observers_of(None), at())
    assert len(seen) == 3


def test_an_observer_is_taken_out_when_its_block_raises():
    with pytest.raises(ZeroDivisionError), observe(print):
        raise ZeroDivisionError
    assert observers_of(None) == []


def test_observers_are_told_in_the_order_they_were_attached():
    told = []
    tell([lambda _: told.append(1), lambda _: told.append(2)], at())
    assert told == [1, 2]


@pytest.mark.parametrize("order", [Inject(ValueError()), SimulatedCrash(), KeyboardInterrupt()])
def test_an_order_of_an_observer_is_passed_on_and_it_stays(order):
    def ordering(boundary):
        raise order

    observers, told = [ordering], []
    with pytest.raises(type(order)) as passed:
        tell([*observers, told.append], at())
    assert passed.value is order
    assert (observers, told) == ([ordering], [])


def test_an_observer_that_breaks_is_detached_with_a_warning_and_the_others_go_on():
    told = []

    def broken(boundary):
        raise RuntimeError("oops")

    observers = [broken, told.append]
    with pytest.warns(RuntimeWarning, match=r"broken.*oops.*after append a.*detached"):
        tell(observers, at())
    tell(observers, at())
    assert (len(told), observers) == (2, [told.append])


def test_an_injected_error_is_told_by_its_order():
    error = ValueError("no")
    assert Inject(error).error is error


def test_an_observer_that_breaks_changes_nothing_even_where_warnings_are_errors(capsys):
    def broken(boundary):
        raise ValueError("no")

    with observe(broken):
        watching = observers_of("store")
        tell(watching, at())  # the suite makes warnings errors
        assert watching == []
        # It is detached for the calls to come too.
        assert observers_of("store") == []
    assert "is detached" in capsys.readouterr().err
