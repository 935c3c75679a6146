"""Rows: what is appended is read back, once, in order, at a size that grows with what has changed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random
from string import ascii_letters

import pytest

from fastdur.errors import CheckpointExists, NotStorable, StaleRun, StoreCorrupt, StoreTooNew
from fastdur.records import Claim, Frame, Question
from tests.checkpointers.stores import corrupt, effect, head, opened, question, row, start, tables

ODD = 'quote " back \\ nul \u0000 lone \ud800 snow \u2603'


def test_a_row_is_read_back_as_it_was_written(store):
    claim = start(store, ODD, runner=ODD, kind=ODD, parent_id=ODD, parent_address=ODD, parent_checkpoint_id=ODD)
    frames = Frame(
        "",
        3,
        {"data": {ODD: ODD, "f": -0.0, "i": 10**30, "e": 1e16}, "out": None},
        (Question("a#1/1", ODD, {"c": [1]}, [True, {}]), Question("a#1/2", "why", None)),
        (Frame("child", 1, {"data": [[]]}),),
    )
    written = row(
        claim,
        frames=frames,
        node_id=ODD,
        node_index=7,
        step_type="tool_call",
        status="interrupted",
        agent_path=ODD,
        extra={"reason": ODD, "input": {"a": [1.5, None]}},
        parent_checkpoint_id=ODD,
        created_at=1234567890.125,
    )
    assert store.put(claim, written, "running") is written
    assert store.get_last(ODD) == written
    assert store.list(ODD) == [written]
    assert store.get_by_id(ODD, written.checkpoint_id) == written
    found = head(store, ODD)
    assert [found.runner, found.kind, found.parent_id, found.parent_address, found.parent_checkpoint_id] == [ODD] * 5


@pytest.mark.case("S31")
@pytest.mark.case("S28")
def test_the_order_is_the_order_of_writing_though_the_clock_stands_still(store):
    claim = start(store)
    written = [store.put(claim, row(claim, created_at=5.0, node_id=f"n{n}"), "running") for n in range(50)]
    written.append(store.put(claim, row(claim, created_at=4.0, step_type="run_end"), "completed"))
    assert store.list("r") == written
    assert store.get_last("r") == store.list("r")[-1] == written[-1]
    assert [r.seq for r in written] == list(range(1, 52))


def test_a_limit_keeps_the_newest_rows_ascending(store):
    claim = start(store)
    written = [store.put(claim, row(claim, {"n": n, "pad": "x" * 50}), "running") for n in range(20)]
    assert store.list("r", limit=3) == written[-3:]
    assert store.list("r", limit=500) == written
    assert store.list("r", limit=0) == []
    assert store.list("r", limit=-1) == []


def test_a_status_that_no_run_can_have_is_refused(store):
    with pytest.raises(ValueError, match=r"'done'; it is one of running, paused"):
        store.list_executions(status="done")


LISTINGS = {
    "rows": lambda store, limit: store.list("r", limit=limit),
    "runs": lambda store, limit: store.list_executions(limit=limit),
    "questions": lambda store, limit: store.list_pending_interrupts(limit=limit),
    "pruned": lambda store, limit: range(store.prune(timedelta(0), dry_run=True, limit=limit).total),
}


@pytest.mark.parametrize("listing", LISTINGS.values(), ids=LISTINGS)
def test_a_limit_means_the_same_everywhere_and_below_nothing_is_nothing(store, listing):
    for name in ("r", "s"):
        claim = start(store, name)
        store.record_interrupt(claim, row(claim), [question(claim, "a")], "paused")
    for name in ("t", "u"):
        claim = start(store, name)
        store.put(claim, row(claim, step_type="run_end"), "completed")
    every = len(listing(store, 50))
    assert every >= 1
    assert [len(listing(store, limit)) for limit in (True, 1, 2**40, 2**80)] == [1, 1, every, every]
    for limit in (0, -1, -(2**80)):
        assert list(listing(store, limit)) == []
    for limit in (1.5, "1"):
        with pytest.raises(TypeError):
            listing(store, limit)
    assert len(listing(store, 50)) == every


def test_every_row_is_found_by_its_id_and_by_nothing_else(store):
    claim, other = start(store), start(store, "other")
    written = [store.put(claim, row(claim, {"n": n, "pad": "x" * 50}), "running") for n in range(12)]
    foreign = store.put(other, row(other), "running")
    for each in written:
        assert store.get_by_id("r", each.checkpoint_id) == each
    run = claim.run
    for wrong in (
        foreign.checkpoint_id,
        written[0].checkpoint_id + "x",
        written[0].checkpoint_id.replace("-1-", "-01-", 1),
        written[0].checkpoint_id.replace("-1-", "-2-", 1),
        f"{run}-99-x",
        f"{run}-{'9' * 30}-x",
        f"{run}-\u0663-x",
        f"{run}--1-x",
        "nothing",
        "",
    ):
        assert store.get_by_id("r", wrong) is None


@pytest.mark.case("S96")
def test_seven_hundred_rows_are_all_there_and_the_newest_is_the_last(store):
    claim = start(store)
    data = {"log": []}
    written = []
    for number in range(700):
        data = {"log": [*data["log"], f"line {number}"]}
        written.append(store.put(claim, row(claim, data), "running"))
    found = store.list("r")
    assert found == written
    assert found[-1].state_snapshot["log"][-1] == "line 699"
    assert store.get_last("r") == written[-1]
    again = store.claim_execution(head(store), "second", "you")
    store.put(again, row(again, {"log": [*data["log"], "end"]}), "completed")
    assert len(store.get_last("r").state_snapshot["log"]) == 701


@pytest.mark.case("S66")
@pytest.mark.case("S62")
def test_an_id_taken_by_other_content_is_refused_and_the_first_content_stays(store):
    claim = start(store)
    first = store.put(claim, row(claim, {"v": 1}), "running")
    second = store.put(claim, row(claim, {"v": 2}), "running")
    for written in (first, second):
        for changed in (
            {"frames": Frame("", 1, {"data": {"v": True}})},
            {"node_id": "elsewhere"},
            {"extra": {"note": 1}},
            {"created_at": 9.0},
        ):
            with pytest.raises(CheckpointExists, match=written.checkpoint_id):
                store.put(claim, replace(written, **changed), "running")
    assert store.list("r") == [first, second]
    third = store.put(claim, row(claim, {"v": 3}), "running")
    assert store.list("r") == [first, second, third]


def test_the_same_row_again_is_done(store):
    claim = start(store)
    lost = Claim("r", claim.run, claim.epoch, claim.token, 0)
    first = store.put(claim, row(claim, {"v": 1, "pad": "x" * 99}), "running")
    second = store.put(claim, row(claim, {"v": 2, "pad": "x" * 99}), "running")
    assert store.put(claim, first, "running") == first
    assert claim.seq == 2
    lost.seq = 1
    assert store.put(lost, second, "running") == second
    assert lost.seq == 2
    third = store.put(lost, row(lost, {"v": 3, "pad": "x" * 99}), "running")
    assert store.list("r") == [first, second, third]


@pytest.mark.parametrize("wrong", [{"seq": 5}, {"execution_id": "s"}, {"checkpoint_id": "987654-1-x"}])
def test_a_row_that_does_not_come_next_is_refused_as_a_mistake(store, wrong):
    claim = start(store)
    with pytest.raises(ValueError, match="cannot follow row"):
        store.put(claim, replace(row(claim), **wrong), "running")
    with pytest.raises(ValueError, match="cannot follow"):
        store.cancel(head(store), replace(row(claim), checkpoint_id="987654-1-x"))
    assert store.list("r") == []


def test_a_store_with_a_claim_from_elsewhere_writes_on(store):
    claim = start(store)
    store.put(claim, row(claim, {"a": 1, "pad": "x" * 99}), "running")
    rebuilt = Claim("r", claim.run, claim.epoch, claim.token, claim.seq)
    store.put(rebuilt, row(rebuilt, {"a": 2, "pad": "x" * 99}), "paused", keep=True)
    store.put(rebuilt, row(rebuilt, {"a": 3, "pad": "x" * 99}), "completed")
    assert [r.state_snapshot["a"] for r in store.list("r")] == [1, 2, 3]
    assert head(store).status == "completed"


CHANGES = {
    "a counter": lambda n, old: {**old, "n": n},
    "a growing list": lambda n, old: {**old, "l": [*old.get("l", []), f"{n}" * 9]},
    "a list that shrinks again": lambda n, old: {**old, "l": ["x" * 20] * (n % 7)},
    "keys that come and go": lambda n, old: {f"k{n % 5}": n, **({"pad": "y" * 30} if n % 3 else {})},
    "keys in another order": lambda n, old: dict(sorted({**old, f"k{n}": n}.items(), reverse=bool(n % 2))),
    "other types": lambda n, old: [{"v": n}, [n], str(n), n, None, 1.0, True][n % 7],
    "nothing": lambda n, old: old,
    "deep": lambda n, old: {"a": {"b": [{"c": n}, {"c": 0}, *old.get("a", {}).get("b", [])[2:], n]}},
}


@pytest.mark.parametrize("change", CHANGES, ids=str)
@pytest.mark.parametrize("every", [1, 3, 1000], ids=lambda every: f"claimed every {every}")
def test_states_are_read_back_whatever_changes_between_rows(path, change, every):
    states = [{}]
    for n in range(40):
        states.append(CHANGES[change](n, states[-1]))
    with opened(path) as store:
        claim = start(store)
        for n, data in enumerate(states):
            if n % every == every - 1:
                assert n == 0 or store.get_last("r").state_snapshot == states[n - 1]
                claim = store.claim_execution(head(store), f"t{n}", "me")
            store.put(claim, row(claim, data), "running")
    with opened(path) as fresh:
        assert repr([r.state_snapshot for r in fresh.list("r")]) == repr(states)
        for r, data in zip(fresh.list("r"), states, strict=True):
            assert fresh.get_by_id("r", r.checkpoint_id).state_snapshot == data
        assert fresh.list("r", limit=7) == fresh.list("r")[-7:]


def stored_bytes(path):
    return sum(len(line[9]) for line in tables(path)["checkpoints"])


@pytest.mark.case("S89")
def test_a_constant_of_a_megabyte_is_stored_once_and_a_fresh_process_does_not_store_it_again(path):
    constant = "c" * 1_000_000
    with opened(path) as store:
        claim = start(store)
        for n in range(100):
            store.put(claim, row(claim, {"constant": constant, "n": n}), "running")
    for n in range(20):
        with opened(path) as fresh:
            assert fresh.get_last("r").state_snapshot["constant"] == constant
            claim = fresh.claim_execution(head(fresh), f"t{n}", "me", row(head(fresh), {"constant": constant, "m": n}))
            fresh.put(claim, row(claim, {"constant": constant, "n": n}), "running")
    assert stored_bytes(path) < 1_010_000


@pytest.mark.case("S88")
def test_a_list_that_grows_by_a_kilobyte_costs_about_a_kilobyte_each_time(path):
    with opened(path) as store:
        claim = start(store)
        data = {"log": []}
        for n in range(200):
            data = {"log": [*data["log"], f"{n:04}" * 256]}
            store.put(claim, row(claim, data), "running")
    assert 200 * 1024 < stored_bytes(path) < 200 * 1024 * 1.05


def test_a_small_state_that_is_replaced_again_and_again_is_stored_in_full_now_and_then(path):
    with opened(path) as store:
        claim = start(store)
        for n in range(200):
            store.put(claim, row(claim, {"n": n, "pad": "x" * 200}), "running")
    seqs = [line[0] & 0xFFFFFFFF for line in tables(path)["checkpoints"]]
    bases = [line[7] for line in tables(path)["checkpoints"]]
    assert 3 < len(set(bases)) < 12
    assert max(seq - base for seq, base in zip(seqs, bases, strict=True)) < 80


def test_a_state_that_is_small_is_stored_in_full_each_time(path):
    with opened(path) as store:
        claim = start(store)
        for n in range(20):
            store.put(claim, row(claim, frames=Frame("", 1, {"data": {"n": n}})), "running")
    assert [line[7] for line in tables(path)["checkpoints"]] == list(range(1, 21))


def test_a_state_of_fifty_megabytes_is_kept_and_so_is_what_is_added_to_it(store):
    claim = start(store)
    data = {"blob": Random(1).randbytes(25_000_000).hex(), "n": 0}
    store.put(claim, row(claim, data), "running")
    store.put(claim, row(claim, {**data, "n": 1}), "running")
    assert store.get_last("r").state_snapshot == {**data, "n": 1}
    assert store.list("r")[0].state_snapshot == data
    store.begin_idempotent(claim, effect())
    store.put_idempotent(claim, effect(status="done", result=data))
    assert store.get_idempotent("r", "k").result == data


@pytest.mark.parametrize("odd", ["a", "\u2603", "\ud800"], ids=ascii)
def test_what_is_looked_up_by_has_one_bound_on_every_store_and_what_is_longer_is_refused_before_it_is_written(
    store, odd
):
    long = odd * 2001
    most = "".join(Random(1).choices(ascii_letters, k=2000))
    claim = start(store, most, runner=most)
    asked = row(claim, step_type="hitl_pause", status="interrupted")
    for what, call in {
        "execution_id": lambda: start(store, long),
        "name of the runner": lambda: start(store, "r", runner=long),
        "id of the question": lambda: store.record_interrupt(claim, asked, [question(claim, long)], "paused"),
        "key of the effect": lambda: store.begin_idempotent(claim, effect(long)),
    }.items():
        with pytest.raises(NotStorable, match=f"{what}.*may have 2,000.*Nothing was written"):
            call()
    assert [found.execution_id for found in store.list_executions()] == [most]
    assert (store.list(most), store.list_pending_interrupts(), store.list_idempotent(most)) == ([], [], [])
    assert store.get_execution(long) is None
    assert store.get_idempotent(most, long) is None
    store.record_interrupt(claim, asked, [question(claim, most)], "paused")
    assert [found.interrupt_id for found in store.list_pending_interrupts(most)] == [most]


def test_a_damaged_row_is_named(path):
    with opened(path) as store:
        claim = start(store)
        rows = [store.put(claim, row(claim, {"n": n, "pad": "x" * 99}), "running") for n in range(3)]
        for text in ("{", "7", '{"s":{"data":{"gone":{"x":1}}}}', "[1,2]", '["' + "[" * 5000 + '"]', "[" * 5000):
            corrupt(path, "UPDATE checkpoints SET body = ? WHERE id % 4294967296 = 2", text)
            with pytest.raises(StoreCorrupt, match=rows[1].checkpoint_id):
                store.list("r")
        corrupt(path, "UPDATE checkpoints SET extra = '{' WHERE id % 4294967296 = 1")
        with pytest.raises(StoreCorrupt, match=rows[0].checkpoint_id):
            store.get_by_id("r", rows[0].checkpoint_id)
        with pytest.raises(StaleRun):
            store.put(Claim("r", claim.run, claim.epoch, claim.token, 7), row(claim, seq=8), "running")


def test_a_damaged_row_is_named_when_a_later_one_is_read(path):
    """Wrong: texts that are read as one, so that the damage of one is not seen, or shifts the others."""
    with opened(path) as store:
        claim = start(store)
        rows = [store.put(claim, row(claim, {"n": n, "pad": "x" * 9999}), "running") for n in range(4)]
        for text in ("{", "null,null", "]", "[" * 5000):
            corrupt(path, "UPDATE checkpoints SET body = ? WHERE id % 4294967296 = 2", text)
            with pytest.raises(StoreCorrupt, match=rows[1].checkpoint_id):
                store.get_last("r")


def test_a_row_of_a_newer_format_is_refused(path):
    with opened(path) as store:
        claim = start(store)
        written = store.put(claim, row(claim), "running")
        corrupt(path, "UPDATE checkpoints SET format = 2")
        with pytest.raises(StoreTooNew, match=written.checkpoint_id):
            store.get_last("r")


def test_a_pause_and_its_questions_are_written_together_or_not_at_all(store):
    claim = start(store)
    other = Claim("r", claim.run, claim.epoch, claim.token, 0)
    store.record_interrupt(claim, row(claim), [question(claim, "a"), question(claim, "b")], "paused")
    with pytest.raises(StaleRun):
        store.record_interrupt(other, row(other), [question(other, "c")], "paused")
    assert [p.interrupt_id for p in store.list_pending_interrupts("r")] == ["a", "b"]
    assert len(store.list("r")) == 1
