"""BRANCH: a run that begins at a row of another, or below a node of another."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from fastdur.errors import RunExists, RunNotFound, StaleRun
from pytest_fastdur.conformance._bench import Bench
from pytest_fastdur.conformance._clause import Group, clause
from pytest_fastdur.conformance._made import effect, ending, everything, head, row, shown, start

if TYPE_CHECKING:
    from fastdur.checkpointers.protocol import Checkpointer
    from fastdur.records import Checkpoint, Claim


def _source(store: Checkpointer) -> Claim:
    """A run with a record of each kind."""
    claim = start(store)
    for key, status in (("b", "done"), ("a", "failed"), ("c", "unstorable"), ("d", "unknown"), ("e", None)):
        store.begin_idempotent(claim, effect(key))
        if status is not None:
            store.put_idempotent(claim, effect(key, status=status, result=[key]))
    store.put(claim, row(claim), "running")
    return claim


def _first(claim: Claim, execution_id: str = "f", nonce: str = "0f") -> Checkpoint:
    """The first row of a branch, with the random part of its id alone."""
    made = row(replace(claim, execution_id=execution_id, seq=0), {"n": [1]}, step_type="fork_origin")
    return replace(made, checkpoint_id=nonce, parent_checkpoint_id=f"{claim.run}-1-x")


def _branch(store: Checkpointer, claim: Claim, **fields: Any) -> Claim:
    known: dict[str, Any] = {
        "token": "branch",
        "parent_id": claim.execution_id,
        "origin": _first(claim),
        "parent_run": claim.run,
        "recorded": True,
        **fields,
    }
    return start(store, "f", **known)


class Branching(Group):
    """The clauses of `start_execution` with an origin or a parent's token, and of finding what has a parent."""

    @clause("claims", "rows")
    def test_branch_01_a_branch_begins_with_its_first_row(self, bench: Bench) -> None:
        """A start with an origin writes head and row 1 in one: the row is read back under the store's own id."""
        claim = _branch(bench.store, start(bench.store))
        found = head(bench.store, "f")
        assert (found.seq, found.status, found.epoch, claim.seq) == (1, "running", 1, 1)
        (stored,) = bench.store.list("f")
        wanted = replace(_first(claim), checkpoint_id=f"{found.run}-1-0f", parent_checkpoint_id="1-1-x")
        assert shown(replace(stored, parent_checkpoint_id="1-1-x")) == shown(wanted)
        assert stored.parent_checkpoint_id == f"{head(bench.store).run}-1-x"
        assert shown(bench.store.get_by_id("f", stored.checkpoint_id)) == shown(stored)
        bench.store.put(claim, row(claim), "completed")
        assert [each.seq for each in bench.store.list("f")] == [1, 2]

    @clause("claims", "rows", "effects")
    def test_branch_02_a_branch_sent_again_is_done(self, bench: Bench) -> None:
        """A start with an origin that is sent again with its own token is the same claim, nothing written twice."""
        source = _source(bench.store)
        first = _branch(bench.store, source)
        before = everything(bench.store, "f")
        again = _branch(bench.store, source)
        assert (again.run, again.seq, again.token) == (first.run, first.seq, first.token)
        assert everything(bench.store, "f") == before

    @clause("claims", "rows", "effects")
    def test_branch_03_a_branch_begins_with_finished_records(self, bench: Bench) -> None:
        """One that is `recorded` takes what is done, failed or unstorable, in order, at epoch 1; the source is the same."""
        source = _source(bench.store)
        before = everything(bench.store)
        _branch(bench.store, source)
        found = bench.store.list_idempotent("f")
        assert [(each.key, each.status, each.result) for each in found] == [
            ("b", "done", ["b"]),
            ("a", "failed", ["a"]),
            ("c", "unstorable", ["c"]),
        ]
        assert [each.epoch for each in found] == [1, 1, 1]
        assert everything(bench.store) == before

    @clause("claims", "rows", "effects")
    def test_branch_04_a_branch_begins_with_no_record_unless_it_is_told_to(self, bench: Bench) -> None:
        """One that is not `recorded` has no record; `recorded` is read back, and False where it was not said."""
        source = _source(bench.store)
        _branch(bench.store, source, recorded=False)
        assert bench.store.list_idempotent("f") == []
        assert (head(bench.store, "f").recorded, head(bench.store).recorded) == (False, False)
        bench.store.delete_execution([head(bench.store, "f")])
        _branch(bench.store, source, token="second")
        assert head(bench.store, "f").recorded

    @clause("claims", "rows", "effects")
    def test_branch_05_a_branch_under_an_id_that_is_taken_writes_nothing(self, bench: Bench) -> None:
        """A start with an origin under an id that exists is `RunExists`; no row and no record is added."""
        source = _source(bench.store)
        start(bench.store, "f")
        before = everything(bench.store, "f")
        with pytest.raises(RunExists):
            _branch(bench.store, source)
        assert everything(bench.store, "f") == before

    @clause("claims", "rows")
    def test_branch_06_a_child_starts_while_its_parent_is_held(self, bench: Bench) -> None:
        """With `parent_token` a start is `StaleRun`, and writes nothing, unless the parent is held under that token."""
        claim = start(bench.store)
        below: dict[str, Any] = {"parent_id": "r", "parent_address": "n#1"}
        start(bench.store, "one", parent_token="first", **below)
        bench.store.cancel(head(bench.store), ending(claim))
        for token in ("first", "another"):
            with pytest.raises(StaleRun):
                start(bench.store, "two", parent_token=token, **below)
        with pytest.raises(StaleRun):
            start(bench.store, "two", parent_token="first", parent_id="nobody", parent_address="n#1")
        assert bench.store.get_execution("two") is None
        assert (head(bench.store, "one").is_child, head(bench.store).is_child) == (True, False)

    @clause("claims", "rows", "runs")
    def test_branch_07_a_parent_chooses(self, bench: Bench) -> None:
        """With a parent only runs that name it are listed, newest first; what else is asked holds as well."""
        for name, parent in (("a", None), ("A", None), ("b", "a"), ("c", "a"), ("d", "b"), ("e", "A")):
            start(bench.store, name, parent_id=parent, runner="x" if name == "b" else "y")
        found = {
            asked: "".join(each.execution_id for each in bench.store.list_executions(parent=asked)) for asked in "abA%"
        }
        assert found == {"a": "cb", "b": "d", "A": "e", "%": ""}
        assert [each.execution_id for each in bench.store.list_executions(parent="a", runner="x")] == ["b"]
        assert [each.execution_id for each in bench.store.list_executions(parent="a", limit=1)] == ["c"]

    @clause("claims", "rows", "runs", "retention")
    def test_branch_08_a_branch_begins_while_its_source_is_there(self, bench: Bench) -> None:
        """With `parent_run` a start is `RunNotFound`, and writes nothing, where that run is gone or its id another's."""
        claim = start(bench.store)
        assert bench.store.delete_execution([head(bench.store)])
        with pytest.raises(RunNotFound):
            _branch(bench.store, claim)
        again = start(bench.store, token="again")
        with pytest.raises(RunNotFound):
            _branch(bench.store, claim)
        assert bench.store.get_execution("f") is None
        _branch(bench.store, again)
        assert head(bench.store, "f").parent_run == again.run

    @clause("claims", "rows", "runs", "retention")
    def test_branch_09_a_new_run_has_none_of_what_came_from_another_of_its_id(self, bench: Bench) -> None:
        """A fork or child run of a deleted run keeps its `parent_run`, and is not listed as one of its id's next run."""
        claim = start(bench.store)
        _branch(bench.store, claim)
        start(bench.store, "child", parent_id="r", parent_address="n#1")
        assert [each.execution_id for each in bench.store.list_executions(parent="r")] == ["child", "f"]
        assert bench.store.delete_execution([head(bench.store)])
        assert bench.store.list_executions(parent="r") == []
        again = start(bench.store, token="again")
        assert bench.store.list_executions(parent="r") == []
        assert {head(bench.store, name).parent_run for name in ("f", "child")} == {claim.run}
        start(bench.store, "late", parent_id="r", parent_address="n#1")
        assert [each.execution_id for each in bench.store.list_executions(parent="r")] == ["late"]
        assert (head(bench.store, "late").parent_run, head(bench.store).parent_run) == (again.run, None)

    @clause("claims", "rows", "effects")
    def test_branch_10_a_branch_has_the_records_of_child_runs_and_hands_them_on(self, bench: Bench) -> None:
        """What child runs have finished stands under their places, and goes to those that start there as `recorded`."""
        source = _source(bench.store)
        above = "r"
        for place, key in (("n#1/c", "k"), ("m#2/d", "l")):
            below = start(bench.store, f"{above}/{place}", parent_id=above, parent_address=place.partition("/")[0])
            above = below.execution_id
            for number, status in enumerate(("done", None)):
                bench.store.begin_idempotent(below, effect(f"{key}{number}"))
                if status is not None:
                    bench.store.put_idempotent(below, effect(f"{key}{number}", status=status, result=[key]))
        start(bench.store, "elsewhere", parent_id="r", parent_address="n#1")
        branch = _branch(bench.store, source)
        keys = [each.key for each in bench.store.list_idempotent("f")]
        assert keys[:3] == ["b", "a", "c"]
        assert sorted(keys[3:]) == ["/n#1/c//k0", "/n#1/c/m#2/d//l0"]
        for place, wanted in (("/n#1/c", ["/m#2/d//l0", "k0"]), ("/n#1/c/m#2/d", ["l0"]), ("/n#1/c (2)", [])):
            name = f"f{place}"
            of = "f/n#1/c" if wanted == ["l0"] else "f"
            token = branch.token if of == "f" else "child"
            start(bench.store, name, "child", parent_id=of, parent_address="x", parent_token=token, recorded=True)
            assert sorted(each.key for each in bench.store.list_idempotent(name)) == wanted
        start(bench.store, "f/n#1/live", parent_id="f", parent_address="x", parent_token=branch.token)
        assert bench.store.list_idempotent("f/n#1/live") == []
