"""A connection lost at each statement of a run, before it, in it, and after its commit: the run ends as if nothing was."""

from __future__ import annotations

import os
import threading
from contextlib import closing

import pytest

from fastdur import PostgresCheckpointer
from pytest_fastdur.postgres import start_for
from pytest_fastdur.wire import Wire
from scenarios.payments import PaymentServer
from scenarios.stories import SCENARIOS, story


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with PaymentServer() as running:
        yield running


def played(told, store):
    """From the start to the end, by documented calls only."""
    told.begin()
    result = told.build(store).execute(dict(told.input), execution_id="r")
    while result.status == "paused":
        result = told.build(store).resume("r", told.answer(result.pending_interrupt))
    assert result.status == "completed"
    rows = [(row.node_id, row.step_type, row.status) for row in store.list("r")]
    return result.output, rows, told.counted()


@pytest.mark.parametrize("when", ["before", "in", "after"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_run_is_the_same_whichever_of_its_statements_loses_the_connection(name, when, server, fastdur_postgres):
    told = story(SCENARIOS[name], server)
    with fastdur_postgres.schemas() as fresh, Wire(fastdur_postgres.dsn) as wire:
        with closing(PostgresCheckpointer(wire.dsn, fresh(), 1, 1)) as store:
            store.setup()
            wire.requests.clear()
            expected = played(told, store)
            statements = len(wire.requests)
        for number in range(1, statements + 1):
            schema = fastdur_postgres.take()
            with closing(PostgresCheckpointer(wire.dsn, schema, 1, 1)) as store:
                store.setup()
                wire.arm(when, "", number)
                assert played(told, store) == expected, f"{when} statement {number}"
            fastdur_postgres.give_back(schema)
        assert wire.fired == statements


def test_a_run_whose_server_is_killed_at_any_of_its_statements_completes_and_repeats_nothing(server):
    told = story(SCENARIOS["refund"], server)
    machine = start_for(os.getpid())

    def kill_at(number, back):
        left = iter(range(number - 1, -1, -1))

        def heard(_text):
            if next(left, None) == 0:
                machine.kill()
                machine.start()
                back.set()

        return heard

    try:
        with Wire(machine.dsn) as wire:
            with closing(PostgresCheckpointer(wire.dsn, "s0", 1, 1)) as store:
                store.setup()
                wire.requests.clear()
                expected = played(told, store)
                statements = len(wire.requests)
            for number in range(1, statements + 1):
                with closing(PostgresCheckpointer(wire.dsn, f"s{number}", 1, 1)) as store:
                    store.setup()
                    back = threading.Event()
                    wire.heard = kill_at(number, back)
                    assert played(told, store) == expected, f"statement {number}"
                    # The server answers before its starter has seen that it does: it must not be killed under that.
                    assert back.wait(60)
                    wire.heard = None
    finally:
        machine.remove()
