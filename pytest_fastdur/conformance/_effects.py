"""EFFECT: records of effects, begun once and ended once."""

from __future__ import annotations

from typing import Any

import pytest

from fastdur._codec import dumps
from fastdur.errors import StaleRun
from pytest_fastdur.conformance._bench import Bench
from pytest_fastdur.conformance._clause import Group, clause
from pytest_fastdur.conformance._made import effect, head, row, start


class Effects(Group):
    """The clauses of `begin_idempotent`, `put_idempotent`, `get_idempotent` and `list_idempotent`."""

    @clause("claims", "effects")
    def test_effect_01_a_record_is_begun_and_ended(self, bench: Bench) -> None:
        """A key without a record may run: its record is `started`, and what ends it is read back as it was."""
        claim = start(bench.store)
        assert bench.store.begin_idempotent(claim, effect()) is None
        assert bench.store.get_idempotent("r", "k") == effect()
        done = effect(status="done", result={"paid": [1, None]})
        bench.store.put_idempotent(claim, done)
        assert bench.store.get_idempotent("r", "k") == done
        assert bench.store.get_idempotent("r", "K") is None

    @clause("claims", "effects")
    def test_effect_02_a_finished_effect_is_not_run_again(self, bench: Bench) -> None:
        """A record that is `done` or `unstorable` is returned, whatever its value, and left alone."""
        claim = start(bench.store)
        values: tuple[Any, ...] = (None, False, 0, 0.0, "", {}, [], "x")
        for number, value in enumerate(values):
            key = f"k{number}"
            bench.store.begin_idempotent(claim, effect(key))
            bench.store.put_idempotent(claim, effect(key, status="done", result=value))
            again = bench.store.begin_idempotent(claim, effect(key, attempt="a2", args="others"))
            assert again == effect(key, status="done", result=value)
            assert again is not None
            assert type(again.result) is type(value)
        bench.store.begin_idempotent(claim, effect("u"))
        bench.store.put_idempotent(claim, effect("u", status="unstorable", error="socket"))
        again = bench.store.begin_idempotent(claim, effect("u", attempt="a2"))
        assert again == effect("u", status="unstorable", error="socket")
        assert bench.store.get_idempotent("r", "u") == again

    @clause("claims", "effects")
    def test_effect_03_an_attempt_that_is_over_is_replaced(self, bench: Bench) -> None:
        """A record that is `started` or `failed` is replaced whole by the next attempt, which may run."""
        claim = start(bench.store)
        for key, status in (("s", "started"), ("f", "failed")):
            bench.store.begin_idempotent(claim, effect(key))
            if status == "failed":
                bench.store.put_idempotent(claim, effect(key, status="failed", error=["ValueError", "no"]))
            second = effect(key, attempt="a2", path="work#2", args="new", name="renamed")
            assert bench.store.begin_idempotent(claim, second) is None
            assert bench.store.get_idempotent("r", key) == second

    @clause("claims", "effects")
    def test_effect_04_an_attempt_ends_its_own_record_only(self, bench: Bench) -> None:
        """An attempt that was replaced, or never began, ends nothing: `StaleRun`."""
        claim = start(bench.store)
        with pytest.raises(StaleRun):
            bench.store.put_idempotent(claim, effect(status="done"))
        assert bench.store.list_idempotent("r") == []
        bench.store.begin_idempotent(claim, effect())
        bench.store.begin_idempotent(claim, effect(attempt="a2"))
        with pytest.raises(StaleRun):
            bench.store.put_idempotent(claim, effect(status="done", result=1))
        assert bench.store.get_idempotent("r", "k") == effect(attempt="a2")
        bench.store.put_idempotent(claim, effect(attempt="a2", status="done", result=2))

    @clause("claims", "effects")
    def test_effect_05_an_end_sent_again_is_done(self, bench: Bench) -> None:
        """The same end sent again is done; another end, even one equal in all but type, is `StaleRun` and changes nothing."""
        claim = start(bench.store)
        bench.store.begin_idempotent(claim, effect())
        done = effect(status="done", result=1)
        bench.store.put_idempotent(claim, done)
        bench.store.put_idempotent(claim, done)
        for other in (True, 1.0, 2):
            with pytest.raises(StaleRun):
                bench.store.put_idempotent(claim, effect(status="done", result=other))
        with pytest.raises(StaleRun):
            bench.store.put_idempotent(claim, effect(status="failed", error="no"))
        found = bench.store.get_idempotent("r", "k")
        assert found is not None
        assert dumps(found.result) == "1"

    @clause("claims", "effects")
    def test_effect_06_a_stored_end_is_true_whoever_asks(self, bench: Bench) -> None:
        """An end that is stored is done when it is sent again after another has claimed the run."""
        claim = start(bench.store)
        bench.store.begin_idempotent(claim, effect())
        bench.store.put_idempotent(claim, effect(status="done", result=1))
        assert bench.store.claim_execution(head(bench.store), "second", "you") is not None
        bench.store.put_idempotent(claim, effect(status="done", result=1))

    @clause("claims", "effects")
    def test_effect_07_a_begin_sent_again_may_run(self, bench: Bench) -> None:
        """A begin sent again by the same attempt may run; there is one record."""
        claim = start(bench.store)
        assert [bench.store.begin_idempotent(claim, effect()) for _ in range(2)] == [None, None]
        assert bench.store.list_idempotent("r") == [effect()]

    @clause("claims", "rows", "effects")
    def test_effect_08_a_record_outlives_rows_and_owners(self, bench: Bench) -> None:
        """A record stays through rows, a failure and a claim; what one owner has done, the next does not run again."""
        claim = start(bench.store)
        for key in ("done", "open"):
            bench.store.begin_idempotent(claim, effect(key))
        bench.store.put(claim, row(claim), "running")
        bench.store.put_idempotent(claim, effect("done", status="done", result=2))
        bench.store.put(claim, row(claim), "failed")
        owner = bench.store.claim_execution(head(bench.store), "second", "you")
        assert owner is not None
        known = bench.store.begin_idempotent(owner, effect("done", attempt="a2"))
        assert known == effect("done", status="done", result=2)
        assert bench.store.begin_idempotent(owner, effect("open", attempt="a2")) is None

    @clause("claims", "effects")
    def test_effect_09_records_are_listed_in_the_order_of_their_begin(self, bench: Bench) -> None:
        """`list_idempotent` gives the records of one run in the order of their begin, however they end."""
        one, two = start(bench.store, "one"), start(bench.store, "two")
        for key in ("z", "a", "m"):
            bench.store.begin_idempotent(one, effect(key))
        bench.store.begin_idempotent(two, effect("z", attempt="other"))
        bench.store.put_idempotent(one, effect("a", status="done"))
        assert [each.key for each in bench.store.list_idempotent("one")] == ["z", "a", "m"]
        assert [each.attempt for each in bench.store.list_idempotent("two")] == ["other"]

    @clause("claims", "effects")
    def test_effect_10_a_key_belongs_to_its_run(self, bench: Bench) -> None:
        """The same key in two runs is two records."""
        one, two = start(bench.store, "one"), start(bench.store, "two")
        bench.store.begin_idempotent(one, effect())
        bench.store.put_idempotent(one, effect(status="done", result=1))
        assert bench.store.begin_idempotent(two, effect(attempt="b")) is None
        assert bench.store.get_idempotent("two", "k") == effect(attempt="b")
        assert bench.store.get_idempotent("one", "k") == effect(status="done", result=1)

    @clause("claims", "rows", "effects")
    def test_effect_11_effects_do_not_move_the_head(self, bench: Bench) -> None:
        """A begin and an end leave the head's seq, epoch and status, so that a row may be written beside them."""
        claim = start(bench.store)
        before = head(bench.store)
        bench.store.begin_idempotent(claim, effect())
        bench.store.put_idempotent(claim, effect(status="done"))
        after = head(bench.store)
        assert (after.seq, after.epoch, after.status, after.token) == (0, before.epoch, "running", "first")
        bench.store.put(claim, row(claim), "running")

    @clause("claims", "rows", "effects")
    def test_effect_12_records_without_an_outcome_are_listed(self, bench: Bench) -> None:
        """`list_unknown` gives the records that are `started` or `unknown`, in the order of their begin."""
        claim = start(bench.store)
        for key in ("z", "done", "a", "failed"):
            bench.store.begin_idempotent(claim, effect(key))
        bench.store.put_idempotent(claim, effect("done", status="done"))
        bench.store.put_idempotent(claim, effect("failed", status="failed"))
        bench.store.put_idempotent(claim, effect("a", status="unknown"))
        assert [each.key for each in bench.store.list_unknown("r")] == ["z", "a"]
        assert bench.store.list_unknown("nobody") == []

    @clause("claims", "rows", "effects")
    def test_effect_13_an_outcome_said_from_outside_is_the_records(self, bench: Bench) -> None:
        """`resolve_unknown` writes status, path, result and error; sent again it is done; a finished record stays."""
        claim = start(bench.store)
        bench.store.begin_idempotent(claim, effect())
        bench.store.put(claim, row(claim), "failed")
        seen, (record,) = head(bench.store), bench.store.list_unknown("r")
        said = effect(status="done", result={"paid": 1}, path="")
        assert bench.store.resolve_unknown(seen, record, said)
        assert bench.store.get_idempotent("r", "k") == said
        assert bench.store.resolve_unknown(seen, record, said)
        assert not bench.store.resolve_unknown(seen, record, effect(status="failed", error="no"))
        assert bench.store.get_idempotent("r", "k") == said

    @clause("claims", "rows", "effects")
    def test_effect_14_an_outcome_is_fenced_by_the_reading(self, bench: Bench) -> None:
        """False where epoch or token have moved since the reading, or another attempt has replaced the record."""
        claim = start(bench.store)
        bench.store.begin_idempotent(claim, effect())
        bench.store.put(claim, row(claim), "failed")
        seen, (record,) = head(bench.store), bench.store.list_unknown("r")
        owner = bench.store.claim_execution(seen, "second", "you")
        assert owner is not None
        assert not bench.store.resolve_unknown(seen, record, effect(status="done"))
        assert bench.store.begin_idempotent(owner, effect(attempt="a2")) is None
        assert not bench.store.resolve_unknown(head(bench.store), record, effect(status="done"))
        assert bench.store.get_idempotent("r", "k") == effect(attempt="a2")
