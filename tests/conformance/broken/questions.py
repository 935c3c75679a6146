"""Defects of questions, answers and effects."""

from __future__ import annotations

import json
from dataclasses import replace

from fastdur.errors import StaleRun
from fastdur.records import Claim
from tests.conformance.broken.defects import breaks
from tests.conformance.shelf import ShelfStore


@breaks("ASK-01")
class LosesTheQuestion(ShelfStore):
    def record_interrupt(self, claim, row, pending, status, *, keep=False):
        return super().record_interrupt(claim, row, list(pending)[1:], status, keep=keep)


@breaks("ASK-03")
class KeepsContextsAsJson(ShelfStore):
    def list_pending_interrupts(self, execution_id=None, *, limit=None):
        found = super().list_pending_interrupts(execution_id, limit=limit)
        return [replace(each, context=json.loads(json.dumps(each.context, default=repr))) for each in found]


@breaks("ASK-04")
class ListsQuestionsByClock(ShelfStore):
    def list_pending_interrupts(self, execution_id=None, *, limit=None):
        found = super().list_pending_interrupts(execution_id)
        return sorted(found, key=lambda each: (each.created_at, each.interrupt_id))[:limit]


@breaks("ASK-05")
class AsksOnceAndForAll(ShelfStore):
    def record_interrupt(self, claim, row, pending, status, *, keep=False):
        new = [each for each in pending if (claim.execution_id, each.interrupt_id) not in self._shelf.questions]
        return super().record_interrupt(claim, row, new, status, keep=keep)


class AnswersOtherwise(ShelfStore):
    """Does something else with the question that is answered."""

    def _advance(self, seen, seq, row, head, answered=None, asked=()):
        questions = self._shelf.questions
        known = dict(questions)
        moved = super()._advance(seen, seq, row, head, answered, asked)
        if answered is not None:
            self.afterwards(known, (seen.execution_id, answered), moved=moved)
        return moved

    def afterwards(self, known, key, *, moved):
        raise AssertionError


@breaks("ASK-06", "ASK-07", "ASK-11", "THREAD-03")
class LeavesTheQuestion(AnswersOtherwise):
    def afterwards(self, known, key, *, moved):
        self._shelf.questions.update(known)

    def _take(self, seen, token, owner, row, graph, answered):
        head = self._runs()[seen.execution_id].head
        if answered is None or head.seq == seen.seq:
            return super()._take(seen, token, owner, row, graph, answered)
        return Claim(seen.execution_id, seen.run, seen.epoch + 1, token, seen.seq + 1)


@breaks("ASK-10")
class AnswersAllQuestions(AnswersOtherwise):
    def afterwards(self, known, key, *, moved):
        for other in [each for each in self._shelf.questions if moved and each[0] == key[0]]:
            del self._shelf.questions[other]


@breaks("ASK-08")
class AnswersWhatIsNotAsked(ShelfStore):
    def _take(self, seen, token, owner, row, graph, answered):
        known = (seen.execution_id, answered) in self._shelf.questions
        return super()._take(seen, token, owner, row, graph, answered if known else None)


@breaks("ASK-11")
class DecideClaims(ShelfStore):
    def decide(self, seen, interrupt_id, row, status):
        return self._take(seen, f"decided-{row.checkpoint_id}", "page", row, None, interrupt_id) is not None


@breaks("ASK-12")
class DoubtsItsOwnDecision(ShelfStore):
    def decide(self, seen, interrupt_id, row, status):
        asked = (seen.execution_id, interrupt_id) in self._shelf.questions
        return asked and super().decide(seen, interrupt_id, row, status)


@breaks("ASK-13")
class AsksAnew(ShelfStore):
    def record_interrupt(self, claim, row, pending, status, *, keep=False):
        asked = list(pending)
        stored = super().record_interrupt(claim, row, asked, status, keep=keep)
        self._shelf.questions.update({(claim.execution_id, each.interrupt_id): each for each in asked})
        return stored


@breaks("ASK-14", "FENCE-02")
class AsksBeforeItIsFenced(ShelfStore):
    def record_interrupt(self, claim, row, pending, status, *, keep=False):
        asked = list(pending)
        self._shelf.questions.update({(claim.execution_id, each.interrupt_id): each for each in asked})
        return super().record_interrupt(claim, row, asked, status, keep=keep)


@breaks("CANCEL-01")
class CancelLeavesTheQuestions(ShelfStore):
    def cancel(self, seen, row):
        known = dict(self._shelf.questions)
        moved = super().cancel(seen, row)
        self._shelf.questions.update(known)
        return moved


@breaks("CANCEL-02", "FENCE-08")
class CancelsWithoutALook(ShelfStore):
    def cancel(self, seen, row):
        now = self._runs()[seen.execution_id].head
        row = replace(row, seq=now.seq + 1) if row.seq <= now.seq else row
        return super().cancel(now, row)


@breaks("CANCEL-03")
class DoubtsItsOwnCancel(ShelfStore):
    def cancel(self, seen, row):
        return self._runs()[seen.execution_id].head.status != "cancelled" and super().cancel(seen, row)


# -- effects ----------------------------------------------------------------------------------------------------------


@breaks("EFFECT-01")
class RecordsNoResult(ShelfStore):
    def put_idempotent(self, claim, record):
        super().put_idempotent(claim, replace(record, result=None))


@breaks("EFFECT-02")
class TakesNoneForNothing(ShelfStore):
    def begin_idempotent(self, claim, record):
        known = super().begin_idempotent(claim, record)
        return known if known is not None and (known.result or known.status == "unstorable") else None


@breaks("EFFECT-02")
class RepeatsWhatItCannotStore(ShelfStore):
    def begin_idempotent(self, claim, record):
        known = super().begin_idempotent(claim, record)
        return known if known is not None and known.status == "done" else None


@breaks("EFFECT-03", "EFFECT-07", "EFFECT-08")
class NeverReplacesAnAttempt(ShelfStore):
    def begin_idempotent(self, claim, record):
        known = self.get_idempotent(claim.execution_id, record.key)
        return known or super().begin_idempotent(claim, record)


@breaks("EFFECT-04")
class EndsForAnyAttempt(ShelfStore):
    def put_idempotent(self, claim, record):
        known = self.get_idempotent(claim.execution_id, record.key)
        super().put_idempotent(claim, replace(record, attempt=known.attempt) if known else record)


@breaks("EFFECT-05")
class OverwritesTheEnd(ShelfStore):
    def put_idempotent(self, claim, record):
        effects = self._runs()[claim.execution_id].effects
        if record.key in effects:
            effects[record.key] = replace(effects[record.key], status="started")
        super().put_idempotent(claim, record)


@breaks("EFFECT-05")
class ComparesEndsWithoutTypes(ShelfStore):
    def put_idempotent(self, claim, record):
        if self.get_idempotent(claim.execution_id, record.key) != record:
            super().put_idempotent(claim, record)


@breaks("EFFECT-06")
class DoubtsItsOwnEnd(ShelfStore):
    def put_idempotent(self, claim, record):
        if not self._holds(claim):
            raise StaleRun(claim.execution_id)
        super().put_idempotent(claim, record)


@breaks("EFFECT-08")
class ForgetsEffectsAtAFailure(ShelfStore):
    def put(self, claim, row, status, *, keep=False, clear_failed=None):
        stored = super().put(claim, row, status, keep=keep, clear_failed=clear_failed)
        if status == "failed":
            self._runs()[claim.execution_id].effects.clear()
        return stored


@breaks("EFFECT-09")
class ListsEffectsByKey(ShelfStore):
    def list_idempotent(self, execution_id):
        return sorted(super().list_idempotent(execution_id), key=lambda record: record.key)


@breaks("EFFECT-10")
class KeysOfAllRuns(ShelfStore):
    def begin_idempotent(self, claim, record):
        for run in self._runs().values():
            if record.key in run.effects and run.effects[record.key].status == "done":
                return run.effects[record.key]
        return super().begin_idempotent(claim, record)


@breaks("EFFECT-11")
class EffectsMoveTheHead(ShelfStore):
    def begin_idempotent(self, claim, record):
        known = super().begin_idempotent(claim, record)
        run = self._runs()[claim.execution_id]
        run.head = replace(run.head, seq=run.head.seq + 1)
        return known


@breaks("EFFECT-12")
class ListsEveryEffectAsUnknown(ShelfStore):
    def list_unknown(self, execution_id):
        return self.list_idempotent(execution_id)


@breaks("EFFECT-13")
class LetsAnyoneHaveTheLastWord(ShelfStore):
    def resolve_unknown(self, seen, record, outcome):
        self._runs()[seen.execution_id].effects[record.key] = outcome
        return True


@breaks("EFFECT-14")
class ResolvesWithoutAFence(ShelfStore):
    def resolve_unknown(self, seen, record, outcome):
        return super().resolve_unknown(self._runs()[seen.execution_id].head, record, outcome)
