"""The children of the suite die where they are told to."""

from __future__ import annotations

import gc

import pytest

from pytest_fastdur.conformance._children import killed_at


class Loop:
    """It goes only with a collection, and says goodbye in a line of its own."""

    def __init__(self):
        self.itself = self

    def __del__(self):
        self.itself = None


@pytest.fixture
def eager():
    """Collect at every chance."""
    before = gc.get_threshold()
    gc.set_threshold(1)
    yield
    gc.set_threshold(*before)


@pytest.fixture
def off():
    """Collect never."""
    gc.disable()
    yield
    gc.enable()


def leave_garbage():
    for _ in range(100):
        Loop()


def test_the_lines_of_finalizers_are_no_lines_of_the_call_that_is_killed(eager):
    first = killed_at(0, leave_garbage)
    gc.disable()
    try:
        assert first == killed_at(0, leave_garbage)
    finally:
        gc.enable()


def test_who_collected_before_collects_again():
    killed_at(0, leave_garbage)
    assert gc.isenabled()


def test_who_did_not_collect_does_not_begin_to(off):
    killed_at(0, leave_garbage)
    assert not gc.isenabled()
