"""The effect ledger counts as a provider does."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from fastdur import Chain, SQLiteCheckpointer, effect_key, idempotent
from fastdur.errors import SimulatedCrash
from pytest_fastdur.ledger import EffectLedger


def run(node):
    store = SQLiteCheckpointer(":memory:")
    Chain("c", store).add_node("node", node).execute()
    store.close()


def test_outside_an_effect_every_call_counts(ledger):
    charge = ledger.wrap("charge", lambda: None)
    charge()
    charge()
    assert (ledger.count("charge"), ledger.calls("charge"), ledger.count("unknown")) == (2, 2, 0)


@pytest.mark.parametrize(("asks", "seen"), [("before", 1), ("inside", 1), ("never", 2)])
def test_inside_an_effect_calls_count_once_if_the_body_asked_for_the_key(ledger, asks, seen):
    reach = ledger.wrap("charge", lambda: effect_key() if asks == "inside" else None)

    @idempotent
    def charge():
        if asks == "before":
            effect_key()
        reach()
        reach()

    run(lambda state: charge())
    assert (ledger.count("charge"), ledger.calls("charge")) == (seen, 2)


def test_different_arguments_are_different_effects(ledger):
    reach = ledger.wrap("charge", lambda key: None)

    @idempotent
    def charge(amount):
        reach(effect_key())

    run(lambda state: {"charged": [charge(1), charge(2), charge(2)]})
    assert ledger.count("charge") == 2


def test_an_async_function_is_noted_and_stays_one(ledger):
    async def fetch(what):
        return what

    assert asyncio.run(ledger.wrap("fetch", fetch)(7)) == 7
    assert ledger.calls("fetch") == 1


def test_a_wrapped_function_keeps_its_name_and_its_result(ledger):
    def charge(amount):
        """Take it."""
        return amount

    wrapped = ledger.wrap("charge", charge)
    assert (wrapped.__name__, wrapped.__doc__, wrapped(3)) == ("charge", "Take it.", 3)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_body_that_raises_was_entered_and_not_finished(ledger, kind):
    def refuse():
        raise ValueError

    async def arefuse():
        raise ValueError

    with pytest.raises(ValueError):
        ledger.wrap("charge", refuse)() if kind == "sync" else asyncio.run(ledger.wrap("charge", arefuse)())
    (entry,) = ledger.tallies()["charge"].entries
    assert (entry.finished, entry.raised, entry.keyed) == (False, True, False)
    assert ledger.calls("charge") == 1


@pytest.mark.parametrize(("asks", "seen"), [(True, 1), (False, 2)])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_bodies_that_all_raise_count_once_if_each_asked_for_the_key_before(ledger, kind, asks, seen):
    def refuse():
        if asks:
            effect_key()
        raise ValueError

    async def arefuse():
        refuse()

    if kind == "sync":
        charge = idempotent(name="charge")(ledger.wrap("charge", refuse))

        def node(state):
            return charge()
    else:
        charge = idempotent(name="charge")(ledger.wrap("charge", arefuse))

        async def node(state):
            return await charge()

    store = SQLiteCheckpointer(":memory:")
    chain = Chain("c", store).add_node("node", node, retry=1)
    with pytest.raises(ValueError):
        chain.execute() if kind == "sync" else asyncio.run(chain.aexecute())
    store.close()
    assert (ledger.calls("charge"), ledger.count("charge")) == (2, seen)


def test_what_a_killed_process_did_is_there(ledger):
    pid = os.fork()
    if pid == 0:
        ledger.record("charge")
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    assert ledger.count("charge") == 1


def test_a_crashed_process_reaches_no_provider(ledger, crash):
    reached = []
    charge = ledger.wrap("charge", lambda: reached.append(1))

    @idempotent
    def first():
        return None

    def node(state):
        try:
            first()
        finally:
            charge()

    store = SQLiteCheckpointer(":memory:")
    with crash.at("before effect first@node"):
        Chain("c", store).add_node("node", node).execute()
    assert (reached, ledger.calls("charge")) == ([], 0)
    store.close()


def test_clearing_forgets_everything_also_what_is_under_way(ledger):
    def forget():
        ledger.clear()

    ledger.wrap("charge", forget)()
    assert ledger.tallies() == {}


def test_a_temporary_ledger_leaves_no_file():
    with EffectLedger() as made:
        made.record("charge")
        assert made.count("charge") == 1
    assert not Path(made.path).exists()


def test_the_signal_of_a_crash_is_no_exception():
    assert not issubclass(SimulatedCrash, Exception)
