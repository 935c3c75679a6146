"""LIST: rows come back in the order of their seq, all of them, whatever clocks say."""

from __future__ import annotations

from pytest_fastdur.conformance._bench import Bench
from pytest_fastdur.conformance._clause import Group, clause
from pytest_fastdur.conformance._made import head, row, shown, start, states


class Listing(Group):
    """The clauses of `list`, `get_last` and `get_by_id`."""

    @clause("claims", "rows")
    def test_list_01_rows_ascend_by_seq(self, bench: Bench) -> None:
        """`list` gives every row of the run, ascending by seq."""
        claim = start(bench.store)
        for _ in range(12):
            bench.store.put(claim, row(claim), "running")
        assert [each.seq for each in bench.store.list("r")] == list(range(1, 13))

    @clause("claims", "rows")
    def test_list_02_a_limit_keeps_the_newest(self, bench: Bench) -> None:
        """With a limit `list` gives the newest that many rows, still ascending; more than there are is all."""
        claim = start(bench.store)
        for _ in range(5):
            bench.store.put(claim, row(claim), "running")
        asked = {limit: [each.seq for each in bench.store.list("r", limit=limit)] for limit in (0, 1, 2, 5, 9)}
        assert asked == {0: [], 1: [5], 2: [4, 5], 5: [1, 2, 3, 4, 5], 9: [1, 2, 3, 4, 5]}

    @clause("claims", "rows")
    def test_list_03_no_clock_decides_what_is_newest(self, bench: Bench) -> None:
        """The newest row is the one with the highest seq though its time is the oldest, or the same."""
        claim = start(bench.store)
        for created in (50.0, 40.0, 60.0, 60.0, 0.0):
            bench.store.put(claim, row(claim, created_at=created), "running")
        assert [each.created_at for each in bench.store.list("r")] == [50.0, 40.0, 60.0, 60.0, 0.0]
        last = bench.store.get_last("r")
        assert last is not None
        assert last.seq == 5
        assert [each.seq for each in bench.store.list("r", limit=2)] == [4, 5]

    @clause("claims", "rows")
    def test_list_04_the_last_row_is_one(self, bench: Bench) -> None:
        """`get_last`, the end of `list` and the head's seq are the same row, through endings, claims and resumes."""
        claim = start(bench.store)
        for status in ("running", "failed", "running", "completed"):
            if not head(bench.store).owned:
                taken = bench.store.claim_execution(head(bench.store), f"t{claim.seq}", "you")
                assert taken is not None
                claim = taken
            bench.store.put(claim, row(claim), "failed" if status == "failed" else "running")
            last = bench.store.get_last("r")
            assert shown(last) == shown(bench.store.list("r")[-1])
            assert last is not None
            assert last.seq == head(bench.store).seq

    @clause("claims", "rows")
    def test_list_05_a_row_is_found_by_its_own_id_only(self, bench: Bench) -> None:
        """`get_by_id` gives None for an id that is made up, malformed, cut short, or of another run."""
        claim, other = start(bench.store), start(bench.store, "other")
        mine, theirs = row(claim), row(other)
        bench.store.put(claim, mine, "running")
        bench.store.put(other, theirs, "running")
        strange = ("", "-", "x", "1", "1-1", "1-1-", f"{claim.run}-1-made-up", f"{claim.run}-{'9' * 30}-x", "1-x-y")
        wrong = (*strange, mine.checkpoint_id[:-1], mine.checkpoint_id + "0", theirs.checkpoint_id, "\u0661-\u0661-x")
        assert [each for each in wrong if bench.store.get_by_id("r", each) is not None] == []
        assert shown(bench.store.get_by_id("r", mine.checkpoint_id)) == shown(mine)

    @clause("claims", "rows")
    def test_list_06_runs_do_not_mix(self, bench: Bench) -> None:
        """Rows of runs that are written in turns come back each with its own run."""
        claims = [start(bench.store, each) for each in ("a", "b", "A")]
        for number in range(4):
            for claim in claims:
                bench.store.put(claim, row(claim, {"of": claim.execution_id, "n": number}), "running")
        for claim in claims:
            expected = [{"of": claim.execution_id, "n": number} for number in range(4)]
            assert states(bench.store, claim.execution_id) == expected

    @clause("claims", "rows")
    def test_list_07_no_limit_is_hidden(self, bench: Bench) -> None:
        """A run of 700 rows is listed whole, and its last row is the newest."""
        claim = start(bench.store)
        for _ in range(700):
            bench.store.put(claim, row(claim), "running")
        assert [each.seq for each in bench.store.list("r")] == list(range(1, 701))
        last = bench.store.get_last("r")
        assert last is not None
        assert (last.seq, last.state_snapshot) == (700, {"n": 700})
