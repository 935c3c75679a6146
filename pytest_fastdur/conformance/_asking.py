"""ASK, CANCEL: questions, their answers, and the end of both."""

from __future__ import annotations

import pytest

from fastdur.errors import StaleRun
from pytest_fastdur.conformance._bench import Bench
from pytest_fastdur.conformance._clause import Group, clause
from pytest_fastdur.conformance._made import (
    answer,
    copy_of,
    ending,
    everything,
    head,
    pause,
    paused,
    question,
    row,
    start,
)


class Asking(Group):
    """The clauses of `record_interrupt`, `delete_pending_interrupt_atomic`, `decide`, `cancel` and their listing."""

    @clause("claims", "rows", "interrupts")
    def test_ask_01_a_pause_is_one_write(self, bench: Bench) -> None:
        """A pause writes its row, its questions and the status, and gives up the claim."""
        claim = start(bench.store)
        asked = [question(claim), question(claim, "ask#1/2", reason="and?")]
        written = bench.store.record_interrupt(claim, pause(claim), iter(asked), "paused")
        assert written.seq == claim.seq == 1
        assert bench.store.list_pending_interrupts("r") == asked
        assert [each.step_type for each in bench.store.list("r")] == ["hitl_pause"]
        assert (head(bench.store).status, head(bench.store).owned) == ("paused", False)

    @clause("claims", "rows", "interrupts")
    def test_ask_02_a_pause_may_keep_its_claim(self, bench: Bench) -> None:
        """With `keep`, or while the run goes on beside its question, the claim stands and writes on."""
        claim = start(bench.store)
        bench.store.record_interrupt(claim, pause(claim), [question(claim)], "paused", keep=True)
        assert (head(bench.store).status, head(bench.store).owned) == ("paused", True)
        bench.store.record_interrupt(claim, pause(claim), [question(claim, "b#1/1")], "running")
        bench.store.put(claim, row(claim), "running")
        assert len(bench.store.list_pending_interrupts("r")) == 2

    @clause("claims", "rows", "interrupts")
    def test_ask_03_a_question_is_read_back(self, bench: Bench) -> None:
        """A question is listed with every field as it was asked, its context with the types of its values."""
        context = {"t": (1, 2.0, True), 3: b"x", "none": None, "deep": [{"a": {"b"}}]}
        paused(bench.store, "r", runner="x", node_id="team/ask", reason="why?", context=context, agent_path="team")
        (found,) = bench.store.list_pending_interrupts()
        assert (found.execution_id, found.interrupt_id, found.runner) == ("r", "ask#1/1", "x")
        assert (found.node_id, found.reason, found.agent_path, found.created_at) == ("team/ask", "why?", "team", 1.5)
        assert repr(found.context) == repr(context)

    @clause("claims", "rows", "interrupts")
    def test_ask_04_questions_are_listed_oldest_first(self, bench: Bench) -> None:
        """Open questions come oldest first, of one run or of all, and a limit keeps the oldest; no clock decides."""
        for name, created in (("z", 9.0), ("a", 3.0), ("m", 5.0)):
            paused(bench.store, name, "q#1/2", "q#1/1", created_at=created)
        found = [(each.execution_id, each.interrupt_id) for each in bench.store.list_pending_interrupts()]
        assert found == [(name, each) for name in "zam" for each in ("q#1/2", "q#1/1")]
        assert len(bench.store.list_pending_interrupts("a")) == 2
        assert [each.execution_id for each in bench.store.list_pending_interrupts(limit=3)] == ["z", "z", "a"]
        assert len(bench.store.list_pending_interrupts("m", limit=1)) == 1
        assert bench.store.list_pending_interrupts(limit=0) == []

    @clause("claims", "rows", "interrupts")
    def test_ask_05_a_question_asked_again_is_open_once(self, bench: Bench) -> None:
        """A question asked again under its id is open once, with its newest context."""
        claim = start(bench.store)
        for context in ({"is": "older"}, {"is": "newer"}):
            asked = [question(claim, context=context)]
            bench.store.record_interrupt(claim, pause(claim), asked, "paused", keep=True)
        assert [each.context for each in bench.store.list_pending_interrupts("r")] == [{"is": "newer"}]
        assert len(bench.store.list("r")) == 2

    @clause("claims", "rows", "interrupts")
    def test_ask_06_an_answer_is_one_write(self, bench: Bench) -> None:
        """An answer takes the question away, appends the decision, claims the run and replaces the graph."""
        seen = paused(bench.store)
        claim = bench.store.delete_pending_interrupt_atomic(
            seen, "second", "you", "ask#1/1", answer(seen), {"nodes": 2}
        )
        assert claim is not None
        assert (claim.epoch, claim.token, claim.seq) == (seen.epoch + 1, "second", seen.seq + 1)
        assert bench.store.list_pending_interrupts() == []
        assert [each.step_type for each in bench.store.list("r")] == ["hitl_pause", "resumed"]
        found = head(bench.store)
        assert (found.status, found.token, found.owner, found.graph) == ("running", "second", "you", {"nodes": 2})
        bench.store.put(claim, row(claim), "completed")

    @clause("claims", "rows", "interrupts")
    def test_ask_07_a_question_is_answered_once(self, bench: Bench) -> None:
        """Of two answers to one question as of one reading the second is None, and nothing of it is stored."""
        seen = paused(bench.store)
        assert bench.store.delete_pending_interrupt_atomic(seen, "b", "you", "ask#1/1", answer(seen)) is not None
        before = everything(bench.store)
        assert bench.store.delete_pending_interrupt_atomic(seen, "c", "they", "ask#1/1", answer(seen)) is None
        now = head(bench.store)
        assert bench.store.delete_pending_interrupt_atomic(now, "d", "they", "ask#1/1", answer(now)) is None
        assert bench.store.decide(now, "ask#1/1", answer(now), "running") is False
        assert everything(bench.store) == before

    @clause("claims", "rows", "interrupts")
    def test_ask_08_what_is_not_asked_is_not_answered(self, bench: Bench) -> None:
        """An answer to a question that is not open, or is another run's, is None or False and changes nothing."""
        paused(bench.store, "other", "theirs#1/1")
        seen = paused(bench.store)
        before = everything(bench.store), everything(bench.store, "other")
        for wrong in ("ask#9/1", "theirs#1/1", "ASK#1/1", ""):
            assert bench.store.delete_pending_interrupt_atomic(seen, "b", "you", wrong, answer(seen)) is None
            assert bench.store.decide(seen, wrong, answer(seen), "running") is False
        assert (everything(bench.store), everything(bench.store, "other")) == before

    @clause("claims", "rows", "interrupts")
    def test_ask_09_an_answer_sent_again_is_done(self, bench: Bench) -> None:
        """An answer sent again with its own token and row is the same claim; the decision is there once."""
        seen = paused(bench.store)
        decision = answer(seen)
        taken = [
            bench.store.delete_pending_interrupt_atomic(seen, "second", "you", "ask#1/1", decision) for _ in range(2)
        ]
        assert [claim and (claim.epoch, claim.token, claim.seq) for claim in taken] == [(2, "second", 2)] * 2
        assert len(bench.store.list("r")) == 2

    @clause("claims", "rows", "interrupts")
    def test_ask_10_one_answer_leaves_the_other_questions(self, bench: Bench) -> None:
        """An answer takes away its own question and no other, of its run or of another."""
        paused(bench.store, "other", "a#1/1", "b#1/1")
        seen = paused(bench.store, "r", "a#1/1", "b#1/1", "a#1/2")
        claim = bench.store.delete_pending_interrupt_atomic(seen, "second", "you", "a#1/1", answer(seen))
        assert claim is not None
        assert [each.interrupt_id for each in bench.store.list_pending_interrupts("r")] == ["b#1/1", "a#1/2"]
        assert len(bench.store.list_pending_interrupts("other")) == 2

    @clause("claims", "rows", "interrupts")
    def test_ask_11_a_decision_claims_nothing(self, bench: Bench) -> None:
        """`decide` takes the question away and appends the decision; the run has the status given and no owner."""
        seen = paused(bench.store, "r", "a#1/1", "b#1/1")
        assert bench.store.decide(seen, "a#1/1", answer(seen), "running") is True
        found = head(bench.store)
        assert (found.status, found.owned, found.seq, found.epoch) == ("running", False, 2, seen.epoch)
        assert [each.interrupt_id for each in bench.store.list_pending_interrupts()] == ["b#1/1"]
        assert bench.store.claim_execution(found, "second", "you") is not None

    @clause("claims", "rows", "interrupts")
    def test_ask_12_a_decision_sent_again_is_done(self, bench: Bench) -> None:
        """`decide` sent again with its own row is True and stores it once; another decision as of that reading is False."""
        seen = paused(bench.store)
        decision = answer(seen)
        assert bench.store.decide(seen, "ask#1/1", decision, "running") is True
        before = everything(bench.store)
        assert bench.store.decide(seen, "ask#1/1", decision, "running") is True
        assert bench.store.decide(seen, "ask#1/1", answer(seen), "running") is False
        assert everything(bench.store) == before

    @clause("claims", "rows", "interrupts")
    def test_ask_13_a_pause_sent_late_asks_nothing_anew(self, bench: Bench) -> None:
        """A pause sent again after its question was answered is done and does not open the question again."""
        claim = start(bench.store)
        held, written, asked = copy_of(claim), pause(claim), [question(claim)]
        bench.store.record_interrupt(claim, written, asked, "paused")
        bench.store.record_interrupt(copy_of(held), written, asked, "paused")
        assert len(bench.store.list_pending_interrupts()) == 1
        seen = head(bench.store)
        assert bench.store.decide(seen, "ask#1/1", answer(seen), "running")
        before = everything(bench.store)
        bench.store.record_interrupt(copy_of(held), written, asked, "paused")
        assert everything(bench.store) == before

    @clause("claims", "rows", "interrupts")
    def test_ask_14_a_refused_pause_asks_nothing(self, bench: Bench) -> None:
        """A pause that is refused leaves no question, also where another row has been written at its seq."""
        claim = start(bench.store)
        other = copy_of(claim)
        bench.store.put(claim, row(claim), "running")
        with pytest.raises(StaleRun):
            bench.store.record_interrupt(other, pause(other), [question(other)], "paused")
        assert bench.store.list_pending_interrupts() == []
        assert head(bench.store).status == "running"

    @clause("claims", "rows", "interrupts")
    def test_cancel_01_a_cancel_is_one_write(self, bench: Bench) -> None:
        """A cancel drops every question of the run, appends the end marker, sets the status and leaves no owner."""
        paused(bench.store, "other")
        seen = paused(bench.store, "r", "a#1/1", "b#1/1")
        assert bench.store.cancel(seen, ending(seen)) is True
        found = head(bench.store)
        assert (found.status, found.owned, found.seq, found.unfinished) == ("cancelled", False, 2, False)
        assert [each.execution_id for each in bench.store.list_pending_interrupts()] == ["other"]
        assert bench.store.list("r")[-1].step_type == "run_end"

    @clause("claims", "rows", "interrupts")
    def test_cancel_02_an_old_reading_cancels_nothing(self, bench: Bench) -> None:
        """A cancel as of a reading that has moved since is False and changes nothing."""
        claim = start(bench.store)
        seen = head(bench.store)
        bench.store.record_interrupt(claim, pause(claim), [question(claim)], "paused")
        before = everything(bench.store)
        assert bench.store.cancel(seen, ending(seen)) is False
        assert everything(bench.store) == before

    @clause("claims", "rows", "interrupts")
    def test_cancel_03_a_cancel_sent_again_is_done(self, bench: Bench) -> None:
        """A cancel sent again with its own row is True; the marker is there once."""
        seen = paused(bench.store)
        marker = ending(seen)
        assert [bench.store.cancel(seen, marker) for _ in range(2)] == [True, True]
        assert len(bench.store.list("r")) == 2
