"""DELETE, PRUNE: runs that leave the store, whole or not at all."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from fastdur.errors import StaleRun
from pytest_fastdur.conformance._bench import Bench
from pytest_fastdur.conformance._clause import Group, clause
from pytest_fastdur.conformance._made import (
    answer,
    effect,
    ending,
    everything,
    head,
    paused,
    question,
    row,
    start,
)

if TYPE_CHECKING:
    from fastdur.checkpointers.protocol import Checkpointer
    from fastdur.records import Claim, Execution, Status

_NOW: Final = timedelta(0)
_HOUR: Final = timedelta(hours=1)
_ROUNDS: Final = 5
_NOTHING: Final[dict[str, object]] = {"head": None, "rows": [], "questions": [], "effects": []}


def _full(store: Checkpointer, name: str = "r", status: Status = "running", **fields: Any) -> Claim:
    """A run with rows, a record and, while it runs, a question."""
    claim = start(store, name, **fields)
    store.begin_idempotent(claim, effect())
    store.put_idempotent(claim, effect(status="done", result=1))
    store.put(claim, row(claim), "running")
    if status == "running":
        store.record_interrupt(claim, row(claim), [question(claim)], status, keep=True)
    elif status == "cancelled":
        store.cancel(head(store, name), ending(head(store, name)))
    else:
        store.put(claim, row(claim), status)
    return claim


def _one_of_each(store: Checkpointer) -> None:
    statuses: tuple[Status, ...] = ("completed", "failed", "cancelled", "paused", "running")
    for status in statuses:
        _full(store, status, status)


def _names(store: Checkpointer) -> list[str]:
    return sorted(each.execution_id for each in store.list_executions())


def _deletes_or_claims(store: Checkpointer, seen: Execution, racer: int) -> str:
    if racer:
        return "deleted" if store.delete_execution([seen]) else "lost"
    return "claimed" if store.claim_execution(seen, "t1", "o") else "lost"


class Leaving(Group):
    """The clauses of `delete_execution` and `prune`."""

    @clause("claims", "rows", "interrupts", "effects", "runs", "retention")
    def test_delete_01_a_deleted_run_leaves_nothing(self, bench: Bench) -> None:
        """Head, rows, questions and records of a deleted run are gone; those of every other run are as they were."""
        for name in "arz":
            _full(bench.store, name, token=f"of {name}")
        before = [everything(bench.store, name) for name in "az"]
        assert bench.store.delete_execution([head(bench.store)]) is True
        assert everything(bench.store) == _NOTHING
        assert bench.store.get_idempotent("r", "k") is None
        assert _names(bench.store) == ["a", "z"]
        assert [everything(bench.store, name) for name in "az"] == before

    @clause("claims", "rows", "interrupts", "effects", "retention")
    def test_delete_02_several_go_together_or_stay(self, bench: Bench) -> None:
        """Of several runs none is removed where the head of one has moved since it was read; the answer is False."""
        for name in "ab":
            _full(bench.store, name, "completed")
        seen = [head(bench.store, name) for name in "ab"]
        assert bench.store.claim_execution(seen[1], "second", "me") is not None
        before = [everything(bench.store, name) for name in "ab"]
        assert bench.store.delete_execution(seen) is False
        assert [everything(bench.store, name) for name in "ab"] == before
        assert bench.store.delete_execution([head(bench.store, name) for name in "ab"]) is True
        assert [everything(bench.store, name) for name in "ab"] == [_NOTHING, _NOTHING]

    @clause("claims", "rows", "effects", "retention")
    def test_delete_03_the_owner_of_a_deleted_run_writes_nothing(self, bench: Bench) -> None:
        """Under the claim of a run that was deleted no row, question or effect is written, nor a child started."""
        claim = _full(bench.store)
        assert bench.store.delete_execution([head(bench.store)])
        with pytest.raises(StaleRun):
            bench.store.put(claim, row(claim), "running")
        with pytest.raises(StaleRun):
            bench.store.record_interrupt(claim, row(claim), [question(claim)], "paused")
        with pytest.raises(StaleRun):
            bench.store.begin_idempotent(claim, effect("new"))
        with pytest.raises(StaleRun):
            bench.store.put_idempotent(claim, effect(status="done"))
        with pytest.raises(StaleRun):
            start(bench.store, "child", parent_id="r", parent_address="n#1", parent_token=claim.token)
        bench.store.release(claim)
        bench.store.renew([claim])
        assert everything(bench.store) == _NOTHING

    @clause("claims", "rows", "interrupts", "retention")
    def test_delete_04_a_reading_of_a_deleted_run_writes_nothing(self, bench: Bench) -> None:
        """As of a reading of a run that was deleted nothing is claimed, answered, decided or cancelled."""
        seen = paused(bench.store)
        assert bench.store.delete_execution([seen])
        assert bench.store.claim_execution(seen, "mine", "you") is None
        assert bench.store.delete_pending_interrupt_atomic(seen, "mine", "you", "ask#1/1", answer(seen)) is None
        assert bench.store.decide(seen, "ask#1/1", answer(seen), "running") is False
        assert bench.store.cancel(seen, ending(seen)) is False
        assert everything(bench.store) == _NOTHING

    @clause("claims", "rows", "retention")
    def test_delete_05_a_delete_sent_again_is_done(self, bench: Bench) -> None:
        """A delete that is sent again, when nothing is left, is True."""
        for name in "ab":
            _full(bench.store, name, "completed")
        seen = [head(bench.store, name) for name in "ab"]
        assert bench.store.delete_execution(seen) is True
        assert bench.store.delete_execution(seen) is True

    @clause("claims", "rows", "interrupts", "effects", "retention")
    def test_delete_06_an_id_begins_anew(self, bench: Bench) -> None:
        """A run that is started under the id of a deleted one has another key, and nothing old touches it."""
        zombie = _full(bench.store)
        seen = head(bench.store)
        assert bench.store.delete_execution([seen])
        again = start(bench.store, token="again")
        assert again.run != zombie.run
        bench.store.put(again, row(again), "running")
        before = everything(bench.store)
        assert (len(bench.store.list("r")), before["effects"], before["questions"]) == (1, [], [])
        with pytest.raises(StaleRun):
            bench.store.put(zombie, row(zombie), "running")
        assert bench.store.cancel(seen, ending(seen)) is False
        assert bench.store.delete_execution([seen]) is True
        assert everything(bench.store) == before

    @clause("claims", "rows", "threads", "retention")
    def test_delete_07_of_a_claim_and_a_delete_one_wins(self, bench: Bench) -> None:
        """Of a claim and a delete as of one reading, at once, one takes effect: the run is claimed, or gone."""
        for number in range(_ROUNDS):
            name = f"r{number}"
            _full(bench.store, name, "failed")
            seen = head(bench.store, name)
            came = bench.in_threads(2, partial(_deletes_or_claims, bench.store, seen))
            found = bench.store.get_execution(name)
            assert sorted(came) == ["deleted", "lost"] if found is None else ["claimed", "lost"]
            assert found is None or found.epoch == 2

    @clause("claims", "rows", "interrupts", "effects", "runs", "clock", "retention")
    def test_prune_01_what_has_ended_goes_by_its_age(self, bench: Bench) -> None:
        """Completed and cancelled runs go, whole, once they ended that long ago by the store's clock, and not before."""
        _one_of_each(bench.store)
        before = {name: everything(bench.store, name) for name in ("failed", "paused", "running")}
        assert bench.store.prune(_HOUR).total == 0
        self.move_clock(bench.store, 3700)
        assert _names(bench.store) == ["cancelled", "completed", "failed", "paused", "running"]
        assert (bench.store.prune(_HOUR).runs, bench.store.prune(_HOUR).total) == ({"flow": 2}, 0)
        assert everything(bench.store, "completed") == everything(bench.store, "cancelled") == _NOTHING
        self.move_clock(bench.store, 0)
        assert {name: everything(bench.store, name) for name in before} == before

    @clause("claims", "rows", "runs", "clock", "retention")
    def test_prune_02_a_failed_run_has_an_age_of_its_own(self, bench: Bench) -> None:
        """Failed runs go only with `failed`, and by that age, whatever the other is."""
        _one_of_each(bench.store)
        self.move_clock(bench.store, 3700)
        assert bench.store.prune(_NOW, 2 * _HOUR).total == 2
        assert bench.store.prune(_NOW, _HOUR).total == 1
        assert _names(bench.store) == ["paused", "running"]

    @clause("claims", "rows", "runs", "retention")
    def test_prune_03_what_somebody_owns_stays(self, bench: Bench) -> None:
        """A run under a claim stays, however it stands: its owner may be about to write."""
        claim = start(bench.store)
        bench.store.put(claim, row(claim), "failed", keep=True)
        assert bench.store.prune(_NOW, _NOW).total == 0
        bench.store.release(claim)
        assert bench.store.prune(_NOW, _NOW).total == 1

    @clause("claims", "rows", "runs", "clock", "retention")
    def test_prune_09_a_claim_that_nobody_renews_keeps_nothing(self, bench: Bench) -> None:
        """A run that has ended under a claim that stands goes once its lease has run out, and not while it is renewed."""
        claim = start(bench.store)
        bench.store.put(claim, row(claim), "completed", keep=True)
        self.move_clock(bench.store, 3700)
        bench.store.renew([claim])
        assert bench.store.prune(_NOW).total == 0
        self.move_clock(bench.store, 7400)
        assert bench.store.prune(_NOW).total == 1
        assert everything(bench.store) == _NOTHING

    @clause("claims", "rows", "runs", "retention")
    def test_prune_04_a_dry_run_counts(self, bench: Bench) -> None:
        """`dry_run` says how many of which runner would go, and removes nothing."""
        for name, runner in (("a", "x"), ("b", "y"), ("c", "x")):
            _full(bench.store, name, "completed", runner=runner)
        before = [everything(bench.store, name) for name in "abc"]
        counted = bench.store.prune(_NOW, dry_run=True)
        assert (dict(counted.runs), counted.dry_run, counted.after) == ({"x": 2, "y": 1}, True, None)
        assert [everything(bench.store, name) for name in "abc"] == before
        assert dict(bench.store.prune(_NOW).runs) == {"x": 2, "y": 1}

    @clause("claims", "rows", "interrupts", "runs", "retention")
    def test_prune_05_a_run_goes_with_what_its_nodes_have_started_or_stays(self, bench: Bench) -> None:
        """A run with its child runs, at any depth, goes once all of them may, and else none of them does."""
        _full(bench.store, "a", "completed")
        _full(bench.store, "b", "completed", parent_id="a", parent_address="n#1")
        last = start(bench.store, "c", parent_id="b", parent_address="n#1")
        assert bench.store.prune(_NOW).total == 0
        bench.store.put(last, row(last), "completed")
        assert bench.store.prune(_NOW).total == 3
        assert _names(bench.store) == []

    @clause("claims", "rows", "runs", "retention")
    def test_prune_06_a_child_run_never_goes_before_its_parent(self, bench: Bench) -> None:
        """An ended child run stays while its parent is there; one whose parent is gone goes, and so does a fork."""
        parent = start(bench.store, "p")
        for name, of, where in (("child", "p", "n#1"), ("orphan", "gone", "n#1"), ("fork", "p", None)):
            _full(bench.store, name, "completed", parent_id=of, parent_address=where)
        assert bench.store.prune(_NOW).total == 2
        assert _names(bench.store) == ["child", "p"]
        bench.store.put(parent, row(parent), "completed")
        assert bench.store.prune(_NOW).total == 2

    @clause("claims", "rows", "runs", "retention")
    def test_prune_07_a_limit_looks_at_that_many(self, bench: Bench) -> None:
        """With a limit that many runs are looked at, the oldest first, and `after` says where to go on."""
        for name in "abcde":
            _full(bench.store, name, "completed")
        pruned = bench.store.prune(_NOW, limit=2)
        assert (pruned.total, _names(bench.store)) == (2, ["c", "d", "e"])
        assert pruned.after is not None
        pruned = bench.store.prune(_NOW, after=pruned.after, limit=2)
        assert (pruned.total, _names(bench.store)) == (2, ["e"])
        assert pruned.after is not None
        pruned = bench.store.prune(_NOW, after=pruned.after, limit=2)
        assert (pruned.total, pruned.after, _names(bench.store)) == (1, None, [])

    @clause("claims", "retention")
    def test_prune_08_what_is_no_age_is_refused(self, bench: Bench) -> None:
        """An age that is no timedelta is a `TypeError`, one that lies in the future a `ValueError`."""
        wrong: Any = 3600
        for ages in ((wrong, None), (_NOW, wrong)):
            with pytest.raises(TypeError):
                bench.store.prune(*ages)
        with pytest.raises(ValueError, match="future"):
            bench.store.prune(-_HOUR)
        with pytest.raises(ValueError, match="future"):
            bench.store.prune(_NOW, -_HOUR)
