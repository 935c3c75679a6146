"""The stores of fastdur and the model of a store answer every call alike."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from psycopg.conninfo import make_conninfo

import tests.conformance.broken.ownership
import tests.conformance.broken.questions
import tests.conformance.broken.rows  # noqa: F401 - all three fill DEFECTS
from fastdur.checkpointers.postgres import PostgresCheckpointer
from fastdur.checkpointers.sqlite import SQLiteCheckpointer
from pytest_fastdur.lockstep import LEASE, StoresInLockstep
from tests.conformance.broken.defects import DEFECTS, Defect
from tests.conformance.shelf import Shelf, ShelfStore


class InAFile(SQLiteCheckpointer):
    """A store in a file of its own, which goes with it."""

    def __init__(self):
        self.folder = tempfile.mkdtemp()
        super().__init__(Path(self.folder) / "runs.db", "normal", lease=LEASE)

    def close(self):
        super().close()
        shutil.rmtree(self.folder, ignore_errors=True)


def in_a_schema(stores):
    """Make what makes an empty store on a server, which gives its schema back with it."""

    class InASchema(PostgresCheckpointer):
        def __init__(self):
            unsynced = make_conninfo(stores.dsn, options="-c synchronous_commit=off")
            super().__init__(unsynced, stores.take(), 1, 1, lease=LEASE, durability="normal")

        def close(self):
            super().close()
            stores.give_back(self._schema)

    return InASchema


def at_length(examples: int, steps: int, **more) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        **more,
    )


@pytest.fixture
def lockstep(fastdur_postgres):
    """In memory, in a file and on a server, side by side."""

    class Lockstep(StoresInLockstep):
        stores: ClassVar = {
            "memory": lambda: SQLiteCheckpointer(":memory:", lease=LEASE),
            "file": InAFile,
            "postgres": in_a_schema(fastdur_postgres),
        }

    return Lockstep


def test_the_stores_and_the_model_answer_every_call_alike(lockstep):
    run_state_machine_as_test(lockstep, settings=at_length(120, 30))


@pytest.mark.sweep
def test_the_stores_and_the_model_answer_every_call_alike_at_length(lockstep):
    run_state_machine_as_test(lockstep, settings=at_length(600, 50))


# What no story of thirty calls shows: rows by the hundred, texts by the megabyte, a value changed behind the store's back.
OUT_OF_REACH = {"HasAHiddenLimit", "CutsLongTexts", "HandsOutItsOwn"}


def is_caught(defect, examples: int) -> bool:
    def make():
        store = defect.store(Shelf())
        store.lease = LEASE
        return store

    class Broken(StoresInLockstep):
        stores: ClassVar = {str(defect): make}

    try:
        run_state_machine_as_test(
            Broken, settings=at_length(examples, 30, derandomize=True, database=None, phases=[Phase.generate])
        )
    except AssertionError as error:
        return "differs from the model" in str(error)
    except KeyError:  # an error of no kind that a store may raise ends a story too
        return True
    return False


ON_A_SHELF = [defect for defect in DEFECTS if issubclass(defect.store, ShelfStore)]


@pytest.mark.parametrize("name", ["HasNoFence", "LeavesTheQuestion", "OverwritesTheEnd"])
def test_a_broken_store_falls_out_of_step(name):
    (defect,) = [each for each in ON_A_SHELF if str(each) == name]
    assert is_caught(defect, 200)


@pytest.mark.sweep
@pytest.mark.parametrize("defect", [each for each in ON_A_SHELF if str(each) not in OUT_OF_REACH], ids=str)
def test_every_broken_store_falls_out_of_step(defect):
    assert is_caught(defect, 1000)


class StandsStill(ShelfStore):
    """Its clock is a server's, and nobody may move it."""

    lease = LEASE

    @property
    def clock_offset(self) -> float:
        return 0.0


@pytest.mark.parametrize("clocks", [False, True])
def test_a_store_whose_clock_cannot_be_moved_keeps_step_where_that_is_said(clocks):
    class Lockstep(StoresInLockstep):
        stores: ClassVar = {"still": lambda: StandsStill(Shelf())}

    Lockstep.clocks = clocks
    story = Lockstep()
    story.begin_with_one(value=1)
    if clocks:
        with pytest.raises(AttributeError, match="clock_offset"):
            story.tick(seconds=100_000)
    else:
        story.tick(seconds=100_000)
        story.all_heads_and_questions_are_the_same()
    story.teardown()


def test_a_right_store_of_a_third_party_keeps_step():
    assert not is_caught(Defect(ShelfStore, ()), 30)
