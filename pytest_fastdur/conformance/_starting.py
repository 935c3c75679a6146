"""START: a run begins once, durably and claimed, and is read back as it was begun."""

from __future__ import annotations

import pytest

from fastdur.errors import RunExists, StaleRun
from pytest_fastdur.conformance._bench import Bench
from pytest_fastdur.conformance._clause import Group, clause
from pytest_fastdur.conformance._made import everything, head, row, start


class Starting(Group):
    """The clauses of `start_execution`, `setup` and `get_execution`."""

    @clause("claims")
    def test_start_01_a_start_is_read_back(self, bench: Bench) -> None:
        """A started run is read back with the runner, kind, graph, input, token and owner that it was started with."""
        start(bench.store, runner="x", kind="agent", graph={"a": [1]}, input=["y"], owner="w")
        found = head(bench.store)
        assert (found.execution_id, found.runner, found.kind) == ("r", "x", "agent")
        assert (found.graph, found.input) == ({"a": [1]}, ["y"])
        assert (found.token, found.owner) == ("first", "w")

    @clause("claims")
    def test_start_02_a_new_run_is_running_and_claimed(self, bench: Bench) -> None:
        """A new run is running, at seq 0 and epoch 1, claimed with a live lease, and its claim says the same."""
        claim = start(bench.store)
        found = head(bench.store)
        assert (found.status, found.seq, found.epoch, found.attempts) == ("running", 0, 1, 0)
        assert (found.owned, found.lease_live, found.unfinished) == (True, True, True)
        assert (claim.execution_id, claim.run, claim.epoch) == ("r", found.run, 1)
        assert (claim.token, claim.seq) == ("first", 0)
        assert found.created_at == found.updated_at > 0

    @clause("claims", "rows")
    def test_start_03_a_start_writes_no_row(self, bench: Bench) -> None:
        """A start writes a head and nothing else."""
        start(bench.store)
        assert bench.store.get_last("r") is None
        assert bench.store.list("r") == []

    @clause("claims")
    def test_start_04_an_id_is_started_once(self, bench: Bench) -> None:
        """A start under an id that exists is refused with `RunExists` and changes nothing."""
        start(bench.store)
        before = head(bench.store)
        with pytest.raises(RunExists):
            start(bench.store, token="second", input="other")
        assert head(bench.store) == before

    @clause("claims")
    def test_start_05_a_start_sent_again_is_done(self, bench: Bench) -> None:
        """A start sent again with its own token is done: the same claim, nothing written twice."""
        first, second = start(bench.store), start(bench.store)
        assert (first.run, first.epoch, first.token) == (second.run, second.epoch, second.token)
        assert len(bench.store.list_executions()) == 1

    @clause("claims", "rows")
    def test_start_06_a_start_sent_late_takes_nothing_back(self, bench: Bench) -> None:
        """A start sent again after another has claimed the run neither fails nor takes the run back."""
        start(bench.store)
        owner = bench.store.claim_execution(head(bench.store), "second", "you")
        assert owner is not None
        late = start(bench.store)
        assert (head(bench.store).token, head(bench.store).epoch) == ("second", 2)
        with pytest.raises(StaleRun):
            bench.store.put(late, row(late), "running")
        bench.store.put(owner, row(owner), "running")

    @clause("claims")
    def test_start_07_a_parent_is_kept(self, bench: Bench) -> None:
        """The parent's id, address and checkpoint are read back; without a parent they are None."""
        start(bench.store, "child", parent_id="p", parent_address="p/n#1", parent_checkpoint_id="1-2-c")
        start(bench.store, "alone")
        child, alone = head(bench.store, "child"), head(bench.store, "alone")
        assert (child.parent_id, child.parent_address, child.parent_checkpoint_id) == ("p", "p/n#1", "1-2-c")
        assert (alone.parent_id, alone.parent_address, alone.parent_checkpoint_id) == (None, None, None)

    @clause("claims")
    def test_start_08_ids_are_told_apart_exactly(self, bench: Bench) -> None:
        """Ids that differ in case, blanks or form of a letter are different runs, each with a key of its own."""
        ids = ["run", "RUN", "run ", " run", "r\u00fcn", "ru\u0308n", "", "%", "r_n"]
        keys = {start(bench.store, each).run for each in ids}
        assert len(keys) == len(ids)
        assert [head(bench.store, each).execution_id for each in ids] == ids

    @clause("claims", "rows", "interrupts", "effects")
    def test_start_09_an_unknown_run_reads_as_nothing(self, bench: Bench) -> None:
        """Reading a run that is not there gives None or an empty list."""
        start(bench.store)
        assert everything(bench.store, "no") == {"head": None, "rows": [], "questions": [], "effects": []}
        assert bench.store.get_last("no") is None
        assert bench.store.get_by_id("no", "1-1-x") is None
        assert bench.store.get_idempotent("no", "k") is None

    @clause("claims", "rows")
    def test_start_10_setup_may_be_called_again(self, bench: Bench) -> None:
        """`setup` called again keeps everything."""
        claim = start(bench.store)
        bench.store.put(claim, row(claim), "running")
        before = everything(bench.store)
        bench.store.setup()
        bench.store.setup()
        assert everything(bench.store) == before
