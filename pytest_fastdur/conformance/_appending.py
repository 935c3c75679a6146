"""APPEND: rows, one after another, written once and never changed."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from fastdur.errors import CheckpointExists, StaleRun
from fastdur.records import Frame
from pytest_fastdur.conformance._bench import Bench
from pytest_fastdur.conformance._clause import Group, clause
from pytest_fastdur.conformance._made import copy_of, effect, ending, everything, head, row, shown, start, states


class Appending(Group):
    """The clauses of `put`."""

    @clause("claims", "rows")
    def test_append_01_a_row_is_read_back(self, bench: Bench) -> None:
        """A row is returned as stored and read back with all its fields by `get_last`, `get_by_id` and `list`."""
        claim = start(bench.store)
        frames = Frame("", 2, {"data": {"n": [1, {"a": None}]}, "out": ["n"]}, (), (Frame("team", 3, {"data": {}}),))
        written = row(
            claim,
            frames=frames,
            node_id="team/work",
            node_index=7,
            step_type="tool_call",
            agent_path="team",
            extra={"input": {"x": 1.5}},
            parent_checkpoint_id="9-9-q",
            created_at=12.25,
        )
        assert shown(bench.store.put(claim, written, "running")) == shown(written)
        assert shown(bench.store.get_last("r")) == shown(written)
        assert shown(bench.store.get_by_id("r", written.checkpoint_id)) == shown(written)
        assert [shown(each) for each in bench.store.list("r")] == [shown(written)]

    @clause("claims", "rows")
    def test_append_02_rows_follow_one_another(self, bench: Bench) -> None:
        """Rows have the seqs 1, 2, 3 … without gaps, and the claim and the head move on with each."""
        claim = start(bench.store)
        for seq in range(1, 6):
            bench.store.put(claim, row(claim), "running")
            assert (claim.seq, head(bench.store).seq) == (seq, seq)
        assert [each.seq for each in bench.store.list("r")] == [1, 2, 3, 4, 5]

    @clause("claims", "rows")
    def test_append_03_the_same_row_again_is_done(self, bench: Bench) -> None:
        """A row sent again with the same id and content is done: it is there once, whatever came after it."""
        claim = start(bench.store)
        held = copy_of(claim)
        written = row(claim, {"n": True})
        bench.store.put(claim, written, "running")
        before = everything(bench.store)
        assert shown(bench.store.put(held, written, "running")) == shown(written)
        assert everything(bench.store) == before
        bench.store.put(claim, row(claim), "completed")
        before = everything(bench.store)
        bench.store.put(copy_of(held), written, "running")
        assert everything(bench.store) == before

    @clause("claims", "rows")
    def test_append_04_an_id_is_not_taken_twice(self, bench: Bench) -> None:
        """An id that is taken by other content, even of another type, is `CheckpointExists`; the first content stays."""
        claim = start(bench.store)
        held = copy_of(claim)
        bench.store.put(claim, row(claim, {"n": 1}, nonce="x"), "running")
        before = everything(bench.store)
        for other in ({"n": 2}, {"n": True}, {"n": 1.0}):
            with pytest.raises(CheckpointExists):
                bench.store.put(copy_of(held), row(held, other, nonce="x"), "running")
        assert everything(bench.store) == before
        bench.store.put(claim, row(claim), "running")

    @clause("claims", "rows")
    def test_append_05_a_row_that_does_not_come_next_is_refused(self, bench: Bench) -> None:
        """A row that leaves a gap, repeats a seq under a new id or belongs to another run is refused, and nothing is written."""
        claim, other = start(bench.store), start(bench.store, "other")
        for _ in range(2):
            bench.store.put(claim, row(claim), "running")
        before = everything(bench.store), everything(bench.store, "other")
        for wrong in (row(claim, seq=4), row(claim, seq=2), row(other), row(other, seq=3)):
            with pytest.raises((StaleRun, ValueError)):
                bench.store.put(claim, wrong, "running")
        assert (everything(bench.store), everything(bench.store, "other")) == before
        bench.store.put(claim, row(claim), "running")
        assert head(bench.store).seq == 3

    @clause("claims", "rows")
    def test_append_06_a_status_is_set_with_its_row(self, bench: Bench) -> None:
        """The status is the head's with the row; one other than running gives up the claim unless it is to be kept."""
        kinds: tuple[Literal["paused", "completed", "failed"], ...] = ("paused", "completed", "failed")
        for status in kinds:
            for keep in (True, False):
                name = f"{status}-{keep}"
                claim = start(bench.store, name)
                bench.store.put(claim, row(claim), status, keep=keep)
                found = head(bench.store, name)
                assert (found.status, found.owned, found.lease_live) == (status, keep, keep)
        claim = start(bench.store, "on")
        bench.store.put(claim, row(claim), "paused", keep=True)
        bench.store.put(claim, row(claim), "running")
        assert (head(bench.store, "on").status, head(bench.store, "on").owned) == ("running", True)

    @clause("claims", "rows", "effects")
    def test_append_07_a_failed_ending_clears_failed_effects_of_its_path(self, bench: Bench) -> None:
        """`clear_failed` removes the failed effect records of that path, no others, and none where the row is refused."""
        claim = start(bench.store)
        for key, path, status in (
            ("a", "work#1", "failed"),
            ("b", "work#2", "failed"),
            ("c", "work#1", "done"),
            ("d", "work#1", "started"),
        ):
            bench.store.begin_idempotent(claim, effect(key, path=path))
            if status != "started":
                bench.store.put_idempotent(claim, effect(key, path=path, status=status))
        bench.store.put(claim, ending(claim), "failed", clear_failed="work#1")
        assert [each.key for each in bench.store.list_idempotent("r")] == ["b", "c", "d"]
        with pytest.raises(StaleRun):
            bench.store.put(claim, row(claim), "failed", clear_failed="work#2")
        assert [each.key for each in bench.store.list_idempotent("r")] == ["b", "c", "d"]

    @clause("claims", "rows")
    def test_append_08_states_come_back_whatever_changes_between_rows(self, bench: Bench) -> None:
        """Each row gives back its own state, whatever was added, changed, removed, reordered or nested between them."""
        big = [{"i": i, "t": "x" * 50} for i in range(40)]
        history: list[Any] = [
            {"a": 1, "list": big},
            {"a": 1, "list": [*big, "more"]},
            {"list": [*big, "more"], "a": 1},
            {"list": big[:-3], "a": True},
            {"list": big[3:], "a": {"list": big}},
            {"a": {"list": [*big[:5], "new", *big[6:]], "b": []}},
            {"a": {"b": {}}, "$": "$"},
            {},
            None,
            [1, 1.0, True],
            {"a": 1, "list": [*reversed(big)]},
        ]
        claim = start(bench.store)
        for state in history:
            bench.store.put(claim, row(claim, state), "running")
        assert [repr(each) for each in states(bench.store)] == [repr(state) for state in history]
        assert repr(bench.store.list("r", limit=2)[0].state_snapshot) == repr(history[-2])
        again = [bench.store.get_by_id("r", each.checkpoint_id) for each in bench.store.list("r")]
        assert [repr(each and each.state_snapshot) for each in again] == [repr(state) for state in history]

    @clause("claims", "rows")
    def test_append_09_a_refusal_leaves_the_store_usable(self, bench: Bench) -> None:
        """After a refused write the same store object takes the next one."""
        claim = start(bench.store)
        held = copy_of(claim)
        bench.store.put(claim, row(claim), "running")
        for _ in range(3):
            with pytest.raises(StaleRun):
                bench.store.put(copy_of(held), row(held), "running")
            bench.store.put(claim, row(claim), "running")
        assert [each.seq for each in bench.store.list("r")] == [1, 2, 3, 4]

    @clause("claims", "rows")
    def test_append_10_a_row_never_changes(self, bench: Bench) -> None:
        """Rows, failed endings and claims that come later leave every earlier row as it was."""
        claim = start(bench.store)
        bench.store.put(claim, row(claim, {"n": [1]}), "running")
        bench.store.put(claim, row(claim, {"n": [1, 2]}), "failed")
        before = [shown(each) for each in bench.store.list("r")]
        seen = head(bench.store)
        taken = bench.store.claim_execution(seen, "second", "you", row(seen, {"n": []}))
        assert taken is not None
        bench.store.put(taken, row(taken, {"n": [3]}), "completed")
        assert [shown(each) for each in bench.store.list("r")][:2] == before

    @clause("claims", "rows")
    def test_append_11_a_claim_without_memory_writes_on(self, bench: Bench) -> None:
        """A claim is known by run, epoch, token and seq alone: what a store remembers with it may be lost."""
        claim = start(bench.store)
        for state in ({"n": ["x" * 2000]}, {"n": ["x" * 2000, 2]}, {"n": ["x" * 2000, 2, 3]}):
            bench.store.put(claim, row(claim, state), "running")
            claim = copy_of(claim)
        assert [len(state["n"]) for state in states(bench.store)] == [1, 2, 3]
