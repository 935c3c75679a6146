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

from fastdur import EffectUnknown, Happened, list_unknown, resolve_unknown
from tests.cases._effect_process import CALLERS, ROUNDS, chain, crowd, effect, ledger_of, opened

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
def test_threads_tasks_and_a_frozen_owner_that_was_replaced_run_a_body_once(place, ledger):
    """100 runs. In each a process stops itself in the node; this one takes the run over, wakes the other in its own
    node, and eight threads and eight tasks of each call the effect at the same time.
    """
    with closing(opened(*place)) as store:
        store.setup()
        zombie = process(place, ledger, "freeze")
        made = chain(store, crowd(effect(ledger), lambda: os.kill(zombie.pid, signal.SIGCONT)))
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
