"""State machines: what they find, how short, and how fast."""

from __future__ import annotations

import os
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from fastdur import Resume
from pytest_fastdur.backends import Schemas
from pytest_fastdur.model_run import PROMISES, TABLE, Facts, expected
from pytest_fastdur.stateful import (
    DurabilityMachine,
    IdempotentEffectsMachine,
    RunEndMachine,
    SingleWinnerMachine,
)
from pytest_fastdur.zoo import ANIMALS, loose
from pytest_fastdur.zoo._stories import story_named

MACHINES = [IdempotentEffectsMachine, SingleWinnerMachine, RunEndMachine, DurabilityMachine]
QUICK = settings(
    max_examples=40, stateful_step_count=6, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)


def machine(base, backend=None, awaited=False):
    class Orders(base):
        input: ClassVar = {"amount": 120}
        answers: ClassVar = {"may I?": Resume(approved=True, metadata={"by": "ada"})}
        effects: ClassVar = {"charge": "exactly-once"}

        @classmethod
        def build(cls, store, effects):
            runner = story_named("once" if awaited else "order", effects).build(store)
            if awaited:

                async def last(state):
                    return {"last": state["amount"]}

                runner.add_node("last", last).connect("pay", "last")
            return runner

    if backend is not None:
        Orders.backend = classmethod(lambda cls: backend)
    return Orders


@pytest.mark.parametrize("base", MACHINES)
def test_the_real_engine_holds(base):
    run_state_machine_as_test(machine(base), settings=QUICK)


@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
def test_the_real_engine_holds_on_postgres(fastdur_postgres, awaited):
    made = machine(DurabilityMachine, Schemas(fastdur_postgres), awaited=awaited)
    run_state_machine_as_test(made, settings=settings(QUICK, max_examples=15))


def test_the_real_engine_holds_on_an_event_loop():
    run_state_machine_as_test(machine(DurabilityMachine, awaited=True), settings=settings(QUICK, max_examples=20))


@pytest.mark.sweep
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("base", MACHINES)
@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("where", ["sqlite", "postgres"])
def test_every_machine_holds_on_every_store_sync_and_async(request, base, where, awaited):
    backend = Schemas(request.getfixturevalue("fastdur_postgres")) if where == "postgres" else None
    many = settings(QUICK, max_examples=400 if "FASTDUR_DEEP" in os.environ else 60, stateful_step_count=8)
    run_state_machine_as_test(machine(base, backend, awaited=awaited), settings=many)


def found(animal, base, **options):
    with loose(ANIMALS[animal]), pytest.raises(AssertionError) as caught:
        run_state_machine_as_test(machine(base), settings=settings(QUICK, **{"derandomize": True, **options}))
    return caught.value


def test_the_stranded_run_is_found_and_shrinks_to_two_lines():
    error = found("forgets_the_decision", IdempotentEffectsMachine, max_examples=100)
    text = "\n".join([str(error), *getattr(error, "__notes__", [])])
    assert "FD06 STRANDED" in text
    assert "--fastdur-replay='fd1-" in text
    assert text.count("state.start_or_resume(") <= 2


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(20))
def test_the_stranded_run_is_found_every_time(seed):
    found(
        "forgets_the_decision", IdempotentEffectsMachine, max_examples=100, phases=[Phase.generate], derandomize=False
    )


@pytest.mark.parametrize(
    ("animal", "base"),
    [("takes_none_for_no_record", IdempotentEffectsMachine), ("resumes_what_has_completed", RunEndMachine)],
)
def test_a_broken_engine_is_found(animal, base):
    found(animal, base, max_examples=100, phases=[Phase.generate])


def test_a_machine_without_a_story_says_what_is_missing():
    class Empty(DurabilityMachine):
        pass

    with pytest.raises(TypeError, match="Empty must define build"):
        Empty.build(None, None)


def test_the_model_has_every_row_of_the_table():
    no = Facts("no", alive=False, due=False, asked=("a",))
    yes = Resume(approved=True, interrupt_id="a")
    assert expected(None, None) == "RunNotFound"
    assert expected(no, None) == "ChainResumeError"
    assert expected(no, yes) == "goes on"
    assert expected(Facts("no", alive=False, due=True, asked=()), None) == "goes on"
    assert expected(Facts("no", alive=False, due=True, asked=()), yes) == "AlreadyResumed"
    assert expected(Facts("no", alive=False, due=True, asked=()), yes, answered=yes) == "goes on"
    assert expected(Facts("no", alive=True, due=True, asked=()), None) == "RunInProgress"
    assert expected(Facts("completed", alive=False, due=False, asked=()), None) == "AlreadyResumed"
    assert expected(Facts("cancelled", alive=False, due=False, asked=()), yes) == "RunCancelled"
    assert len(TABLE) == 8
    assert sorted(PROMISES) == list(range(1, 17))
