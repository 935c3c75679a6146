"""Defects that show when several are at work, when something fails, and when somebody dies."""

from __future__ import annotations

import copy
import os
import threading
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path

from fastdur.checkpointers.sqlite import SQLiteCheckpointer
from fastdur.errors import RunExists, StaleRun, StoreClosed, StoreUnavailable
from fastdur.records import Claim
from tests.conformance.broken.defects import breaks
from tests.conformance.shelf import ShelfStore

# -- threads and store objects ----------------------------------------------------------------------------------------

_gate = threading.Barrier(4)


def meanwhile() -> None:
    """Others come to the same place; only among the threads of a race."""
    if threading.current_thread().name.startswith("ThreadPoolExecutor"):
        with suppress(threading.BrokenBarrierError):
            _gate.wait(5)


@breaks("THREAD-01", "THREAD-02", "THREAD-03", "THREAD-04", "INSTANCE-04")
class ReadsThenWrites(ShelfStore):
    def __init__(self, shelf):
        super().__init__(shelf)
        shelf.lock = nullcontext()

    def start_execution(self, start):
        known = start.execution_id in self._runs()
        meanwhile()
        if not known:
            self._runs().pop(start.execution_id, None)
        return super().start_execution(start)

    def _advance(self, seen, seq, row, head, answered=None, asked=()):
        run = self._runs()[seen.execution_id]
        fits = (run.head.epoch, run.head.token, run.head.seq) == (seen.epoch, seen.token, seq)
        meanwhile()
        if not fits:
            return False
        if row is not None:
            run.rows.append(row)
            head = {**head, "seq": row.seq}
        run.head = replace(run.head, **head)
        self._shelf.questions.pop((seen.execution_id, answered), None)
        self._shelf.questions |= {(seen.execution_id, each.interrupt_id): each for each in asked}
        return True


@breaks("THREAD-05")
class SharesItsPlaceOfWork(ShelfStore):
    def put(self, claim, row, status, *, keep=False, clear_failed=None):
        self.row = copy.deepcopy(row)
        meanwhile()
        mine = replace(
            self.row, execution_id=row.execution_id, checkpoint_id=f"{claim.run}-{self.row.checkpoint_id}", seq=row.seq
        )
        return super().put(claim, mine, status, keep=keep, clear_failed=clear_failed)


@breaks("THREAD-06")
class PausesInSeveralWrites(ShelfStore):
    def __init__(self, shelf):
        super().__init__(shelf)
        self.read = threading.Event()

    def record_interrupt(self, claim, row, pending, status, *, keep=False):
        stored = super().record_interrupt(claim, row, (), status, keep=keep)
        for each in pending:
            with self._shelf.lock:
                self._shelf.questions[claim.execution_id, each.interrupt_id] = each
            self.read.clear()
            self.read.wait(0.05)
        return stored

    def list_pending_interrupts(self, execution_id=None, *, limit=None):
        found = super().list_pending_interrupts(execution_id, limit=limit)
        self.read.set()
        return found


@breaks("INSTANCE-01")
class RemembersWhatItHasRead(ShelfStore):
    def __init__(self, shelf):
        super().__init__(shelf)
        self.known = {}

    def record_interrupt(self, claim, row, pending, status, *, keep=False):
        self.known.clear()
        return super().record_interrupt(claim, row, pending, status, keep=keep)

    def list(self, execution_id, *, limit=None):
        return self.known.setdefault((execution_id, limit), super().list(execution_id, limit=limit))


@breaks("INSTANCE-02")
class TrustsWhatItHasWritten(ShelfStore):
    def __init__(self, shelf):
        super().__init__(shelf)
        self.known = {}

    def _advance(self, seen, seq, row, head, answered=None, asked=()):
        now = self._runs()[seen.execution_id].head
        if row is not None and self.known.get(seen.execution_id) == (seen.epoch, seq):
            seen, seq = Claim(seen.execution_id, seen.run, now.epoch, now.token, now.seq), now.seq
            row = replace(row, seq=seq + 1)
        moved = super()._advance(seen, seq, row, head, answered, asked)
        if moved:
            self.known[seen.execution_id] = (seen.epoch, seq + 1)
        return moved


# -- processes --------------------------------------------------------------------------------------------------------


@breaks("PROCESS-01")
class StartsForAnybody(SQLiteCheckpointer):
    def start_execution(self, start):
        try:
            return super().start_execution(start)
        except RunExists:
            return Claim(start.execution_id, 1, 1, start.token, 0)


@breaks("PROCESS-02", "PROCESS-03", "CLAIM-02", "FENCE-08")
class ClaimsWithoutALook(SQLiteCheckpointer):
    def _take(self, seen, token, owner, row, answered, graph):
        claim = super()._take(seen, token, owner, row, answered, graph)
        return claim or Claim(seen.execution_id, seen.run, seen.epoch + 1, token, seen.seq + (row is not None))


@breaks("PROCESS-04", "PROCESS-05")
class KeepsAFileForEachProcess(SQLiteCheckpointer):
    def __init__(self, path):
        super().__init__(f"{path}-{os.getpid()}")


@breaks("FORK-01")
class StaysWithItsProcess(SQLiteCheckpointer):
    def __init__(self, path):
        super().__init__(path)
        self.pid = os.getpid()

    def _write_once(self, work):
        if self.pid != os.getpid():
            raise StoreUnavailable("the connection belongs to another process")
        return super()._write_once(work)


@breaks("FORK-02")
class ClosesForItsParent(SQLiteCheckpointer):
    """As a child that says goodbye to the server on the connection that it has inherited."""

    def __init__(self, path):
        super().__init__(path)
        self.pid, self.gone = os.getpid(), Path(f"{path}-gone")

    def close(self):
        if self.pid != os.getpid():
            self.gone.touch()
        super().close()

    def _check_open(self):
        super()._check_open()
        if self.gone.exists():
            raise StoreClosed("the server has closed the connection")


# -- kills ------------------------------------------------------------------------------------------------------------


@breaks(
    *("CRASH-01", "CRASH-03", "CRASH-04", "CRASH-05", "CRASH-06", "CRASH-08", "CRASH-09"),
    "CRASH-12",
)
class CommitsEachStatement(SQLiteCheckpointer):
    def _perform(self, work):
        return work(self._kept.writer or self._open())


@breaks("CRASH-02", "CRASH-07", "CRASH-10", "CRASH-11", "EFFECT-07")
class KnowsNoneOfItsWritesAgain(SQLiteCheckpointer):
    def claim_execution(self, seen, token, owner, row=None, graph=None):
        if self.get_execution(seen.execution_id) != seen:
            return None
        return super().claim_execution(seen, token, owner, row, graph)

    def release(self, claim):
        self._must_hold(claim)
        super().release(claim)

    def begin_idempotent(self, claim, record):
        known = self.get_idempotent(claim.execution_id, record.key)
        return known or super().begin_idempotent(claim, record)

    def put_idempotent(self, claim, record):
        known = self.get_idempotent(claim.execution_id, record.key)
        if known is None or known.status != "started":
            raise StaleRun(claim.execution_id)
        super().put_idempotent(claim, record)

    def _must_hold(self, claim):
        head = self.get_execution(claim.execution_id)
        if head is None or head.token != claim.token:
            raise StaleRun(claim.execution_id)


# -- faults -----------------------------------------------------------------------------------------------------------


@breaks("FAULT-01", "FAULT-05", "APPEND-03", "CANCEL-03")
class LooksForNoIdOfItsOwn(SQLiteCheckpointer):
    def _landed(self, session, seen, row, status):
        return None


@breaks("FAULT-02")
class GivesUpAtOnce(SQLiteCheckpointer):
    def _try_again(self, perform, work, again):
        raise StoreUnavailable("the write failed")


@breaks("FAULT-03")
class LeaksTheDriversErrors(SQLiteCheckpointer):
    def _failed(self, error, *, committing):
        return error


@breaks("FAULT-04")
class NeverComesBack(SQLiteCheckpointer):
    gone = False

    def _write_once(self, work):
        if self.gone:
            raise StoreUnavailable("the connection is gone")
        return super()._write_once(work)

    def _try_again(self, perform, work, again):
        try:
            return super()._try_again(perform, work, again)
        except StoreUnavailable:
            self.gone = True
            raise


@breaks("FAULT-03")
class ReportsWhatIsNotStored(SQLiteCheckpointer):
    def release(self, claim):
        with suppress(StoreUnavailable):
            super().release(claim)


@breaks("CLOSE-01")
class ReadsAfterItsEnd(ShelfStore):
    def close(self):
        """Stay open."""


@breaks("CLOSE-02")
class KeepsNothing(ShelfStore):
    def close(self):
        super().close()
        self._shelf.runs.clear()
        self._shelf.questions.clear()


@breaks("LINEAR-01")
class AnswersFromAnOldReading(ShelfStore):
    """A cache of heads, which nothing takes anything out of."""

    def get_execution(self, execution_id):
        known = self._shelf.__dict__.setdefault("cache", {})
        known.setdefault(execution_id, super().get_execution(execution_id))
        return known[execution_id]
