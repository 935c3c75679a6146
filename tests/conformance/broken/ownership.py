"""Defects of starting, claiming, leases and the fence."""

from __future__ import annotations

import time
from dataclasses import replace

from fastdur.errors import RunExists, StaleRun
from fastdur.records import Checkpoint, Claim, Frame
from tests.conformance.broken.defects import breaks
from tests.conformance.shelf import ShelfStore

# -- start ------------------------------------------------------------------------------------------------------------


@breaks("START-01")
class ForgetsTheGraph(ShelfStore):
    def start_execution(self, start):
        return super().start_execution(replace(start, graph=None))


@breaks("START-02")
class StartsUnclaimed(ShelfStore):
    def start_execution(self, start):
        claim = super().start_execution(start)
        self.release(claim)
        return claim


@breaks("START-03")
class StartsWithARow(ShelfStore):
    def start_execution(self, start):
        claim = super().start_execution(start)
        first = Checkpoint(start.execution_id, 1, f"{claim.run}-1-start", "", 0, "node", "completed", Frame("", 1, {}))
        self._shelf.runs[start.execution_id].rows.append(first)
        return claim


@breaks("START-04")
class StartsAnew(ShelfStore):
    def start_execution(self, start):
        self._runs().pop(start.execution_id, None)
        return super().start_execution(start)


@breaks("START-05")
class RefusesItsOwnStart(ShelfStore):
    def start_execution(self, start):
        if start.execution_id in self._runs():
            raise RunExists(start.execution_id)
        return super().start_execution(start)


@breaks("START-06")
class StartTakesBack(ShelfStore):
    def start_execution(self, start):
        claim = super().start_execution(start)
        run = self._runs()[start.execution_id]
        run.head = replace(run.head, token=start.token, owner=start.owner, epoch=1)
        return claim


@breaks("START-07")
class ForgetsTheParent(ShelfStore):
    def start_execution(self, start):
        return super().start_execution(replace(start, parent_address=None))


@breaks("START-08")
class TakesIdsForTheSame(ShelfStore):
    """As a column with a collation that knows no case and no blanks."""

    def start_execution(self, start):
        return super().start_execution(replace(start, execution_id=start.execution_id.strip().lower()))

    def get_execution(self, execution_id):
        return super().get_execution(execution_id.strip().lower())


@breaks("START-09")
class StumblesOverUnknownRuns(ShelfStore):
    def list(self, execution_id, *, limit=None):
        assert self._runs()[execution_id]
        return super().list(execution_id, limit=limit)


@breaks("START-10")
class SetsUpAnew(ShelfStore):
    def setup(self):
        self._runs().clear()


# -- claim ------------------------------------------------------------------------------------------------------------


@breaks("CLAIM-01", "THREAD-02")
class ClaimKeepsTheEpoch(ShelfStore):
    def claim_execution(self, seen, token, owner, row=None, graph=None):
        claim = super().claim_execution(seen, token, owner, row, graph)
        run = self._runs()[seen.execution_id]
        if claim:
            run.head = replace(run.head, epoch=seen.epoch)
        return claim


class FenceBy(ShelfStore):
    """Looks at a part of the head only: what it does not look at, it takes as it is now."""

    trusts: tuple[str, ...] = ()

    def _advance(self, seen, seq, row, head, answered=None, asked=()):
        now = self._runs()[seen.execution_id].head
        known = {"epoch": seen.epoch, "token": seen.token} | {name: getattr(now, name) for name in self.trusts}
        return super()._advance(Claim(seen.execution_id, seen.run, **known, seq=seq), seq, row, head, answered, asked)


@breaks("FENCE-08")
class LooksAtNoEpoch(FenceBy):
    trusts = ("epoch",)


@breaks("CLAIM-04", "CLAIM-08", "FENCE-07", "FENCE-08")
class LooksAtNoToken(FenceBy):
    trusts = ("token",)


@breaks("CLAIM-02", "FENCE-01", "FENCE-02", "FENCE-05", "LEASE-04")
class HasNoFence(FenceBy):
    trusts = ("epoch", "token")


@breaks("CLAIM-03", "FENCE-06", "APPEND-09", "ASK-14")
class LooksAtNoSeq(ShelfStore):
    def _advance(self, seen, seq, row, head, answered=None, asked=()):
        now = self._runs()[seen.execution_id].head.seq
        if row is not None and seq < now:
            row = replace(row, seq=now + 1)
        return super()._advance(seen, now, row, head, answered, asked)


@breaks("FENCE-05")
class TakesTheOwnerForTheClaim(ShelfStore):
    def claim_execution(self, seen, token, owner, row=None, graph=None):
        head = self._runs()[seen.execution_id].head
        if head.owner == owner and row is None:
            return Claim(seen.execution_id, seen.run, head.epoch, head.token, head.seq)
        return super().claim_execution(seen, token, owner, row, graph)


@breaks("CLAIM-05", "ASK-06")
class ClaimForgetsTheGraph(ShelfStore):
    def _take(self, seen, token, owner, row, graph, answered):
        return super()._take(seen, token, owner, row, None, answered)


@breaks("CLAIM-06", "ASK-09")
class RefusesItsOwnClaim(ShelfStore):
    def _take(self, seen, token, owner, row, graph, answered):
        if self._runs()[seen.execution_id].head.token == token:
            return None
        return super()._take(seen, token, owner, row, graph, answered)


@breaks("CLAIM-07")
class CountsNoAttempts(ShelfStore):
    def _shown(self, run):
        return replace(super()._shown(run), attempts=0)


@breaks("CLAIM-08")
class ReleaseFails(ShelfStore):
    def release(self, claim):
        super().release(claim)
        run = self._runs()[claim.execution_id]
        run.head = replace(run.head, status="failed")


@breaks("CLAIM-09", "FENCE-05")
class ReleasesForAnybody(ShelfStore):
    def release(self, claim):
        run = self._runs()[claim.execution_id]
        run.head = replace(run.head, token=None, owner=None)


# -- lease ------------------------------------------------------------------------------------------------------------


@breaks("LEASE-01", "RUNS-07")
class ReadsTheCallersClock(ShelfStore):
    def _now(self):
        return time.time()


@breaks("LEASE-02")
class RenewsNothing(ShelfStore):
    def renew(self, claims):
        self._runs()


@breaks("LEASE-02")
class RenewsEverybody(ShelfStore):
    def renew(self, claims):
        for claim in claims:
            self._runs()[claim.execution_id].lease_until = self._now() + self.lease


@breaks("LEASE-03", "LEASE-05")
class WritesRenewNothing(ShelfStore):
    def _advance(self, seen, seq, row, head, answered=None, asked=()):
        run = self._runs()[seen.execution_id]
        until = run.lease_until
        moved = super()._advance(seen, seq, row, head, answered, asked)
        run.lease_until = until
        return moved


@breaks("LEASE-04")
class LeaseFences(ShelfStore):
    def put(self, claim, row, status, *, keep=False, clear_failed=None):
        if self._runs()[claim.execution_id].lease_until < self._now():
            raise StaleRun(claim.execution_id)
        return super().put(claim, row, status, keep=keep, clear_failed=clear_failed)


@breaks("LEASE-06")
class DoubtsLongLeases(ShelfStore):
    def _shown(self, run):
        shown = super()._shown(run)
        return replace(shown, lease_live=shown.lease_live and run.lease_until - self._now() <= self.lease + 1)


# -- fence ------------------------------------------------------------------------------------------------------------


@breaks("FENCE-03", "FENCE-07", "FENCE-08")
class BeginsForAnybody(ShelfStore):
    def begin_idempotent(self, claim, record):
        head = self._runs()[claim.execution_id].head
        owner = Claim(claim.execution_id, claim.run, head.epoch, head.token, head.seq)
        return super().begin_idempotent(owner, record)


@breaks("FENCE-04")
class EndsForAnybody(ShelfStore):
    def put_idempotent(self, claim, record):
        head = self._runs()[claim.execution_id].head
        super().put_idempotent(Claim(claim.execution_id, claim.run, head.epoch, head.token, head.seq), record)


@breaks("FENCE-09")
class CancelLeavesTheOwner(ShelfStore):
    def cancel(self, seen, row):
        with self._shelf.lock:
            moved = super().cancel(seen, row)
            run = self._runs()[seen.execution_id]
            run.head = replace(run.head, token=seen.token)
            return moved


@breaks("FENCE-10", "RUNS-07")
class TouchesEveryRun(ShelfStore):
    def _advance(self, seen, seq, row, head, answered=None, asked=()):
        moved = super()._advance(seen, seq, row, head, answered, asked)
        for run in self._runs().values():
            run.head = replace(run.head, updated_at=self._now(), created_at=self._now())
        return moved
