"""What a step costs below the driver, counted: the same on every run and every disk."""

from __future__ import annotations

import pytest

from tests.checkpointers.syscalls import counted

STEPS = 1000

RUN = """
import sys
sys.path.insert(0, ".")
from fastdur.checkpointers.sqlite import SQLiteCheckpointer
from tests.checkpointers.stores import effect, row, start
path, durability, what, steps = sys.argv[1:]
store = SQLiteCheckpointer(path, durability)
claim = start(store)
data = {"pad": "x" * 180, "n": 0, "log": []}
store.put(claim, row(claim, data), "running")
print("counting", flush=True)
for n in range(int(steps)):
    if what == "step":
        data = {**data, "n": n}
        store.put(claim, row(claim, data), "running")
    elif what == "list":
        data = {**data, "log": [*data["log"], f"{n:04}" * 256]}
        store.put(claim, row(claim, data), "running")
    elif what == "effect":
        store.begin_idempotent(claim, effect(f"k{n}"))
        store.put_idempotent(claim, effect(f"k{n}", status="done"))
    else:
        store.renew([claim])
import os
os._exit(0)
"""


TALK = """
import sys
sys.path.insert(0, ".")
from fastdur.checkpointers.sqlite import SQLiteCheckpointer
from tests.checkpointers.agents import talker
path, turns, replay = sys.argv[1:]
store = SQLiteCheckpointer(path)
talker(store, int(turns), lambda: print("counting", flush=True), replay_model=replay == "replay").run("hi")
import os
os._exit(0)
"""


@pytest.mark.parametrize(("replay", "syncs"), [("", 2), ("replay", 4)])
def test_a_turn_of_an_agent_costs_a_sync_for_each_of_its_rows_and_two_where_its_answer_is_recorded(path, replay, syncs):
    turns = 200
    counted_syncs, written = counted(TALK, path, str(turns), replay)
    assert syncs <= counted_syncs / turns <= 1.04 * syncs
    assert written / turns <= 9_000 * syncs


def per_step(path, durability, what):
    syncs, written = counted(RUN, path, durability, what, str(STEPS))
    return syncs / STEPS, written / STEPS


def test_a_step_costs_one_sync_and_less_than_nine_kilobytes(path):
    syncs, written = per_step(path, "full", "step")
    assert 1 <= syncs <= 1.02
    assert written <= 3000


def test_a_step_without_power_cut_safety_costs_no_sync_but_those_of_the_folding(path):
    syncs, written = per_step(path, "normal", "step")
    assert syncs <= 0.02
    assert written <= 3000


@pytest.mark.case("S88")
def test_a_list_that_grows_by_a_kilobyte_a_step_writes_as_much_in_the_end_as_in_the_beginning(path):
    syncs, written = per_step(path, "full", "list")
    assert syncs <= 1.04
    assert written <= 7_000


def test_an_effect_costs_two_syncs_and_a_renewal_one(path):
    assert per_step(path, "full", "effect")[0] <= 2.06
    assert per_step(path + "2", "full", "renew")[0] <= 1.02
