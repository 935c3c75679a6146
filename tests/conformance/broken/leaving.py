"""Defects of branches, and of how runs leave."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta

from fastdur import Pruned, RunExists
from fastdur.checkpointers.sqlite import SQLiteCheckpointer
from tests.conformance.broken.defects import breaks
from tests.conformance.shelf import ShelfStore


@breaks("BRANCH-01")
class KeepsTheIdOfTheOrigin(ShelfStore):
    def start_execution(self, start):
        claim = super().start_execution(start)
        for row in self._runs()[start.execution_id].rows[:1] if start.origin is not None else ():
            self._runs()[start.execution_id].rows[0] = replace(row, checkpoint_id=start.origin.checkpoint_id)
        return claim


@breaks("BRANCH-02")
class WritesTheOriginAgain(ShelfStore):
    def start_execution(self, start):
        there = start.execution_id in self._runs()
        claim = super().start_execution(start)
        rows = self._runs()[start.execution_id].rows
        rows += rows[:1] if there else []
        return claim


@breaks("BRANCH-03")
class InheritsWhatIsNotFinished(ShelfStore):
    def _inherited(self, start):
        sources = [run for run in self._runs().values() if run.head.run == start.parent_run]
        return {key: each for run in sources for key, each in run.effects.items()}


@breaks("BRANCH-04")
class AlwaysInherits(ShelfStore):
    def _inherited(self, start):
        return super()._inherited(replace(start, recorded=True))


@breaks("BRANCH-05")
class InheritsBeforeItLooks(ShelfStore):
    def start_execution(self, start):
        there = self._runs().get(start.execution_id)
        try:
            return super().start_execution(start)
        except RunExists:
            there.effects.update(self._inherited(start))
            raise


@breaks("BRANCH-06", "DELETE-03")
class StartsBelowAnybody(ShelfStore):
    def start_execution(self, start):
        return super().start_execution(replace(start, parent_token=None))


@breaks("BRANCH-07")
class FindsParentsWithoutCase(ShelfStore):
    def list_executions(self, *, parent=None, limit=None, **asked):
        found = super().list_executions(**asked)
        runs = {each.run for each in found if parent is not None and each.execution_id.upper() == parent.upper()}
        return [each for each in found if parent is None or each.parent_run in runs][:limit]


@breaks("BRANCH-08")
class BranchesOffWhatIsGone(ShelfStore):
    def start_execution(self, start):
        return super().start_execution(replace(start, parent_run=None))


@breaks("BRANCH-09")
class FindsParentsByTheirNames(ShelfStore):
    def list_executions(self, *, parent=None, limit=None, **asked):
        found = super().list_executions(**asked)
        return [each for each in found if parent in (None, each.parent_id)][:limit]


@breaks("BRANCH-10")
class HandsNothingOnToChildRuns(ShelfStore):
    def _inherited(self, start):
        return {} if start.parent_token is not None else super()._inherited(start)


@breaks("DELETE-01", "DELETE-06", "PRUNE-01")
class LeavesTheRecords(ShelfStore):
    def _remove(self, head):
        self._shelf.left = getattr(self._shelf, "left", {}) | {
            head.execution_id: self.list_idempotent(head.execution_id)
        }
        super()._remove(head)

    def list_idempotent(self, execution_id):
        return getattr(self._shelf, "left", {}).get(execution_id) or super().list_idempotent(execution_id)


@breaks("DELETE-02")
class DeletesThoseThatHaveNotMoved(ShelfStore):
    def delete_execution(self, seen):
        gone = [super(DeletesThoseThatHaveNotMoved, self).delete_execution([head]) for head in seen]
        return all(gone)


@breaks("DELETE-04")
class AnswersAReadingOfNothing(ShelfStore):
    def cancel(self, seen, row):
        return self._run(seen) is None or super().cancel(seen, row)


@breaks("DELETE-05")
class CannotSayThatItIsGone(ShelfStore):
    def delete_execution(self, seen):
        return all(self._run(head) is not None for head in seen) and super().delete_execution(seen)


@breaks("DELETE-07")
class LooksAndThenDeletes(ShelfStore):
    def __init__(self, shelf):
        super().__init__(shelf)
        self.claimed = threading.Event()

    def claim_execution(self, seen, token, owner, row=None, graph=None):
        claim = super().claim_execution(seen, token, owner, row, graph)
        self.claimed.set()
        return claim

    def delete_execution(self, seen):
        with self._shelf.lock:
            as_seen = all(run and run.head.epoch == head.epoch for head in seen for run in (self._run(head),))
        self.claimed.wait(5)
        if as_seen:
            with self._shelf.lock:
                for head in seen:
                    self._remove(head)
        return as_seen


class PrunesOtherwise(ShelfStore):
    def prune(self, older_than, failed=None, **more):
        return super().prune(*self.ages(older_than, failed), **more)

    def ages(self, older_than, failed):
        raise AssertionError


@breaks("PRUNE-02")
class HasOneAgeForAll(PrunesOtherwise):
    def ages(self, older_than, failed):
        return older_than, failed and older_than


@breaks("PRUNE-03")
class PrunesUnderAnOwner(ShelfStore):
    def prune(self, older_than, failed=None, **more):
        for run in self._runs().values():
            run.head = replace(run.head, token=None)
        return super().prune(older_than, failed, **more)


@breaks("PRUNE-09")
class KeepsWhatHasAToken(ShelfStore):
    def _shown(self, run):
        return replace(super()._shown(run), lease_live=run.head.owned)


@breaks("PRUNE-04")
class PrunesDry(ShelfStore):
    def prune(self, older_than, failed=None, *, dry_run=False, **more):
        return replace(super().prune(older_than, failed, **more), dry_run=dry_run)


@breaks("PRUNE-05", "PRUNE-06")
class PrunesEachByItself(ShelfStore):
    def prune(self, older_than, failed=None, *, dry_run=False, after=0, limit=None):
        gone = [head for head in self.list_executions() if head.status in ("completed", "cancelled")]
        for head in gone:
            self._remove(head)
        return Pruned({"flow": len(gone)})


@breaks("PRUNE-07")
class BeginsAnewWithEachBatch(ShelfStore):
    def prune(self, older_than, failed=None, *, after=0, limit=None, **more):
        return replace(super().prune(older_than, failed, limit=limit, **more), after=None)


@breaks("PRUNE-08")
class TakesSeconds(ShelfStore):
    def prune(self, older_than, failed=None, **more):
        ages = [
            each if isinstance(each, timedelta | None) else timedelta(seconds=each) for each in (older_than, failed)
        ]
        return super().prune(*ages, **more)


@breaks("CRASH-13")
class DeletesInSeveralWrites(SQLiteCheckpointer):
    def delete_execution(self, seen):
        for head in seen:
            self._write(lambda session, run=head.run: session.change(self._sql.remove_rows, [f"[[{run}, 0, 0]]"]))
        return super().delete_execution(seen)
