"""One effect, many callers and real processes: frozen ones that were replaced, and ones killed in the one window."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from fastdur import EffectUnknown, Happened, StoreUnavailable, list_unknown, resolve_unknown
from tests.cases._effect_process import CALLERS, ROUNDS, chain, crowd, effect, ledger_of, line, opened
from tests.unit.books import Books

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """Where a store of its own is, for this process and others."""
    if request.param == "sqlite":
        yield ("sqlite", str(tmp_path / "store.db"), "-")
        return
    server = request.getfixturevalue("fastdur_postgres")
    with server.schemas() as fresh:
        yield ("postgres", server.dsn, fresh())


@pytest.fixture
def ledger(tmp_path):
    return str(tmp_path / "ledger")


def process(place, ledger, how, policy="rerun"):
    command = [sys.executable, "-m", "tests.cases._effect_process", *place, ledger, how, policy]
    return subprocess.Popen(command, cwd=ROOT)


@pytest.mark.case("S19")
@pytest.mark.parametrize("policy", ["rerun", "async"])
def test_threads_tasks_and_a_frozen_owner_that_was_replaced_run_a_body_once(place, ledger, policy):
    """100 runs. In each a process stops itself in the node; this one takes the run over, wakes the other in its own
    node, and eight threads and eight tasks of each call the effect at the same time.
    """
    with closing(opened(*place)) as store:
        store.setup()
        zombie = process(place, ledger, "freeze", policy)
        made = chain(store, crowd(effect(ledger, policy), lambda: os.kill(zombie.pid, signal.SIGCONT)))
        try:
            for number in range(ROUNDS):
                _, status = os.waitpid(zombie.pid, os.WUNTRACED)
                assert os.WIFSTOPPED(status), number
                ended = asyncio.run(made.aresume(f"r{number}", takeover=True))
                assert ended.output == {"ended": [repr(f"r{number}")] * 2 * CALLERS}
            assert zombie.wait() == 0
        finally:
            zombie.kill()
            zombie.wait()
        assert sorted(run for run, _ in ledger_of(ledger)) == sorted(f"r{number}" for number in range(ROUNDS))
        assert {len(store.list_idempotent(f"r{number}")) for number in range(ROUNDS)} == {1}


@pytest.mark.case("S15")
@pytest.mark.parametrize(("policy", "times"), [("rerun", 2), ("raise", 1), ("ask", 1)])
def test_a_process_killed_between_a_body_and_its_record_leaves_what_its_policy_says(place, ledger, policy, times):
    with closing(opened(*place)) as store:
        store.setup()
        assert process(place, ledger, "die", policy).wait() == -signal.SIGKILL
        assert len(ledger_of(ledger)) == 1
        (unknown,) = list_unknown("r", store)
        pay = effect(ledger, policy)
        made = chain(store, lambda state: {"paid": pay(state["run"])})
        if policy == "raise":
            with pytest.raises(EffectUnknown):
                made.resume("r")
            assert len(ledger_of(ledger)) == 1
            resolve_unknown("r", unknown.key, Happened("r"), store)
        assert made.resume("r").output == {"paid": "r"}
        assert ledger_of(ledger) == [["r", unknown.effect_key]] * times
        assert list_unknown("r", store) == []


@pytest.mark.parametrize("place", ["postgres"], indirect=True)
def test_an_owner_frozen_in_a_transaction_holds_its_rows_no_longer_than_a_lease_and_wakes_to_nothing(place, ledger):
    """The new owner's body runs into the line of the old one, waits, and writes it when the server has let go."""
    with closing(opened(*place, lease=1.0)) as store:
        books = Books(store)
        zombie = process(place, ledger, "hold")
        try:
            _, status = os.waitpid(zombie.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            write = line(books)
            assert chain(store, lambda state: {"paid": write()}).resume("r", takeover=True).output == {"paid": 5}
            os.kill(zombie.pid, signal.SIGCONT)
            assert zombie.wait() == 0
        finally:
            zombie.kill()
            zombie.wait()
        assert books.amounts() == [5]
        assert [record.status for record in store.list_idempotent("r")] == ["done"]


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_an_owner_frozen_in_a_transaction_on_sqlite_is_waited_for_within_the_bound_and_leaves_nothing(place, ledger):
    """There is one writer of a file. Whoever waits is told so; when the frozen process dies, its transaction goes."""
    with closing(opened(*place)) as store:
        books = Books(store)
        store.busy_bound = 0.3
        zombie = process(place, ledger, "hold")
        try:
            _, status = os.waitpid(zombie.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            write = line(books)
            made = chain(store, lambda state: {"paid": write()})
            with pytest.raises(StoreUnavailable):
                made.resume("r", takeover=True)
        finally:
            zombie.kill()
            zombie.wait()
        assert (books.amounts(), store.list_idempotent("r")) == ([], [])
        assert made.resume("r").output == {"paid": 5}
        assert books.amounts() == [5]
