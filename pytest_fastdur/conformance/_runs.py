"""RUNS: the heads of runs, listed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_fastdur.conformance._bench import Bench
from pytest_fastdur.conformance._clause import Group, clause
from pytest_fastdur.conformance._made import ending, head, row, start

if TYPE_CHECKING:
    from fastdur.checkpointers.protocol import Checkpointer
    from fastdur.records import Status


def _ids(store: Checkpointer, **asked: Any) -> str:
    return "".join(each.execution_id for each in store.list_executions(**asked))


def _five(store: Checkpointer) -> None:
    """Runs a to e, one for each status; a, c and e of runner x."""
    ends: tuple[Status, ...] = ("completed", "failed", "paused", "running")
    for name, runner, status in zip("abcd", "xyxy", ends, strict=True):
        claim = start(store, name, runner=runner)
        store.put(claim, row(claim), status)
    start(store, "e", runner="x")
    assert store.cancel(head(store, "e"), ending(head(store, "e")))


class Runs(Group):
    """The clauses of `list_executions`."""

    @clause("claims", "rows", "runs")
    def test_runs_01_the_newest_comes_first(self, bench: Bench) -> None:
        """Runs are listed newest start first, whatever was written to them since."""
        _five(bench.store)
        assert _ids(bench.store) == "edcba"
        claim = bench.store.claim_execution(head(bench.store, "b"), "again", "me")
        assert claim is not None
        bench.store.put(claim, row(claim), "running")
        assert _ids(bench.store) == "edcba"

    @clause("claims", "rows", "runs")
    def test_runs_02_a_status_chooses(self, bench: Bench) -> None:
        """With a status only runs that have it now are listed."""
        _five(bench.store)
        found = {each: _ids(bench.store, status=each) for each in ("completed", "failed", "paused", "cancelled")}
        assert found == {"completed": "a", "failed": "b", "paused": "c", "cancelled": "e"}
        assert _ids(bench.store, status="running") == "d"

    @clause("claims", "rows", "runs")
    def test_runs_03_a_runner_chooses(self, bench: Bench) -> None:
        """With a runner only its runs are listed, by its exact name."""
        _five(bench.store)
        assert (_ids(bench.store, runner="x"), _ids(bench.store, runner="y")) == ("eca", "db")
        assert (_ids(bench.store, runner="X"), _ids(bench.store, runner="%")) == ("", "")

    @clause("claims", "rows", "runs")
    def test_runs_04_unfinished_is_what_can_go_on(self, bench: Bench) -> None:
        """`unfinished` leaves out completed and cancelled runs, and nothing else."""
        _five(bench.store)
        assert _ids(bench.store, unfinished=True) == "dcb"

    @clause("claims", "rows", "runs")
    def test_runs_05_what_is_asked_holds_together(self, bench: Bench) -> None:
        """Status, runner, unfinished and limit hold together; the limit counts what fits, and 0 is nothing."""
        _five(bench.store)
        assert _ids(bench.store, runner="x", unfinished=True) == "c"
        assert _ids(bench.store, status="completed", unfinished=True) == ""
        assert _ids(bench.store, status="failed", runner="x") == ""
        assert [_ids(bench.store, limit=each) for each in (0, 1, 2, 9)] == ["", "e", "ed", "edcba"]
        assert _ids(bench.store, runner="y", limit=1) == "d"

    @clause("claims", "rows", "runs")
    def test_runs_06_a_listed_head_is_the_head(self, bench: Bench) -> None:
        """What is listed of a run is what `get_execution` reads of it."""
        _five(bench.store)
        assert bench.store.list_executions() == [head(bench.store, each) for each in "edcba"]

    @clause("claims", "rows", "runs", "clock")
    def test_runs_07_times_are_the_stores(self, bench: Bench) -> None:
        """`updated_at` moves on with each row by the store's clock; `created_at` stays."""
        claim = start(bench.store)
        began = head(bench.store)
        self.move_clock(bench.store, 500)
        bench.store.put(claim, row(claim, created_at=1.0), "running")
        found = head(bench.store)
        assert found.created_at == began.created_at
        assert 499 < found.updated_at - began.updated_at < 600
        assert _ids(bench.store) == "r"
