"""A store on an SQL database: every rule, without the database."""

from __future__ import annotations

from itertools import chain
from threading import Event
from typing import TYPE_CHECKING, Final

from fastdur._codec import dumps
from fastdur.checkpointers._effect_records import EffectRecords, stale
from fastdur.checkpointers._retention import Retention
from fastdur.checkpointers._rows import Tail, Tails, body_after, nonce_of, replay, row_values, same_row
from fastdur.checkpointers._sql import RUN_SHIFT
from fastdur.checkpointers._starting import Starting
from fastdur.checkpointers._values import (
    at_most,
    execution,
    plain,
    question,
    question_values,
)
from fastdur.errors import CheckpointExists
from fastdur.records import Claim

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fastdur._codec import Frozen
    from fastdur.checkpointers._patience import Piece, Session
    from fastdur.checkpointers._sql import Hold, Sql
    from fastdur.records import Checkpoint, Execution, PendingInterrupt, Status

_EVERY: Final = 1 << RUN_SHIFT
_SEQ_DIGITS: Final = 10
_ALL: Final[list[Status]] = ["running", "paused", "completed", "failed", "cancelled"]
_UNFINISHED: Final[list[Status]] = ["running", "paused", "failed"]


class Store(Starting, EffectRecords, Retention):
    """The methods of `Checkpointer` over the two primitives of a dialect."""

    def __init__(self, sql: Sql, lease: float, durability: str) -> None:
        if type(lease) not in (int, float) or not 0 < lease < float("inf"):
            message = f"lease is {lease!r}; it must be a number of seconds greater than 0"
            raise ValueError(message)
        if durability not in ("full", "normal"):
            message = f"durability is {durability!r}; it must be 'full' or 'normal'"
            raise ValueError(message)
        super().__init__()
        self._sql = sql
        self._lease = lease
        self._durability = durability
        self._tails = Tails()

    def _forget(self) -> None:
        """Begin anew in a forked child: another thread of the parent may have held any lock."""
        closed = self._closing.is_set()
        self._closing = Event()
        if closed:
            self._closing.set()
        self._tails = Tails()

    @property
    def lease(self) -> float:
        """How many seconds a run stays its owner's without a sign of life."""
        return self._lease

    # -- the one writing function ------------------------------------------------------------------------------------

    def _advance(
        self,
        seen: Claim | Execution,
        tail: Tail,
        hold: Hold,
        status: Status,
        row: Checkpoint | None = None,
        *,
        claimant: tuple[str, str] | None = None,
        answered: str | None = None,
        beside: Sequence[Piece] = (),
    ) -> Tail | None:
        """Move a run's head on, where its epoch, token and seq are still those of `seen` and `tail`, and write what
        belongs to it, all in one transaction: `row`, the end of the question `answered`, and what stands `beside`.

        Returns what is then known of the newest row; None if the head has moved and this write is not what moved it.
        """
        sql, run, seq, now = self._sql, seen.run, tail.seq, self.clock_offset
        new_status = status != tail.status
        head: list[object] = [seq if row is None else seq + 1, now]
        if hold != "drop":
            head.append(now + self._lease)
        if claimant is not None:
            head += claimant
        if new_status:
            head.append(status)
        head += (run, seen.epoch, seen.token, seq)
        pieces: list[Piece] = [
            (sql.move(hold, row=row is not None, status=new_status, asked=answered is not None), head)
        ]
        if answered is not None:
            question = (run, plain(answered))
            head += question
            pieces.append((sql.answer, question))
        if row is None:
            after = Tail(seq, tail.base, tail.size, tail.spent, tail.tree, status)
        else:
            nonce = nonce_of(row, seen, seq + 1)
            body, after = body_after(tail, row.frames, status, self.small)
            pieces.append((sql.append, row_values(run, nonce, row, body, after)))
        pieces += beside

        def work(session: Session) -> Tail | None:
            if session.move(pieces):
                return after
            if row is not None:
                return self._landed(session, seen, row, status)
            return after if claimant and session.rows(sql.claimed, (run, claimant[0])) else None

        return self._write(work)

    def _landed(self, session: Session, seen: Claim | Execution, row: Checkpoint, status: Status) -> Tail | None:
        """What is known of `row` if it is stored already, None if it is not.

        Raises `CheckpointExists` where its id is taken by other content.
        """
        rows = session.rows(self._sql.one, (row.seq, row.seq, plain(seen.execution_id)))
        found = [pair for pair in replay(seen.execution_id, rows, 1) if pair[0].checkpoint_id == row.checkpoint_id]
        if not found:
            return None
        stored, tail = found[0]
        if not same_row(stored, row):
            message = (
                f"Checkpoint {row.checkpoint_id} of run {seen.execution_id!r} exists with other content; "
                "the first content stays. Give each row an id of its own."
            )
            raise CheckpointExists(message)
        return Tail(tail.seq, tail.base, tail.size, tail.spent, tail.tree, status)

    # -- ownership ---------------------------------------------------------------------------------------------------

    def claim_execution(
        self, seen: Execution, token: str, owner: str, row: Checkpoint | None = None, graph: Frozen = None
    ) -> Claim | None:
        """Take ownership as of the reading `seen`."""
        return self._take(seen, token, owner, row, None, graph)

    def delete_pending_interrupt_atomic(
        self, seen: Execution, token: str, owner: str, interrupt_id: str, row: Checkpoint, graph: Frozen = None
    ) -> Claim | None:
        """Take the pending row, append `row` and take ownership, all in one."""
        return self._take(seen, token, owner, row, interrupt_id, graph)

    def _take(
        self, seen: Execution, token: str, owner: str, row: Checkpoint | None, answered: str | None, graph: Frozen
    ) -> Claim | None:
        known = self._tails.get(seen.run, seen.seq)
        beside = [] if graph is None else [(self._sql.regraph, (dumps(graph), seen.run))]
        claimant = (token, plain(owner))
        tail = self._advance(seen, known, "take", "running", row, claimant=claimant, answered=answered, beside=beside)
        return None if tail is None else Claim(seen.execution_id, seen.run, seen.epoch + 1, token, tail.seq, tail)

    def decide(self, seen: Execution, interrupt_id: str, row: Checkpoint, status: Status) -> bool:
        """Take the pending row and append `row`, leaving the run without an owner."""
        known = self._tails.get(seen.run, seen.seq)
        return self._advance(seen, known, "drop", status, row, answered=interrupt_id) is not None

    def cancel(self, seen: Execution, row: Checkpoint) -> bool:
        """Drop the pending rows and append the end marker `row`."""
        known = self._tails.get(seen.run, seen.seq)
        withdrawn = ((self._sql.withdraw, (seen.run,)),)
        return self._advance(seen, known, "drop", "cancelled", row, beside=withdrawn) is not None

    def renew(self, claims: Sequence[Claim]) -> None:
        """Move the leases of these claims on; a busy store is not waited for."""
        until = self.clock_offset + self._lease

        def work(session: Session) -> None:
            for claim in claims:
                session.change(self._sql.renew, (until, claim.run, claim.epoch, claim.token))

        if claims:
            self._write_at_once(work)

    def release(self, claim: Claim) -> None:
        """Give up the claim without a row."""
        self._write(lambda session: session.change(self._sql.release, (claim.run, claim.epoch, claim.token)))

    # -- rows --------------------------------------------------------------------------------------------------------

    def put(
        self, claim: Claim, row: Checkpoint, status: Status, *, keep: bool = False, clear_failed: str | None = None
    ) -> Checkpoint:
        """Append `row` and set the run's status."""
        beside: Sequence[Piece] = ()
        if clear_failed is not None:
            beside = ((self._sql.clear_failed, (claim.run, plain(clear_failed))),)
        return self._append(claim, row, status, keep=keep, beside=beside)

    def record_interrupt(
        self, claim: Claim, row: Checkpoint, pending: Iterable[PendingInterrupt], status: Status, *, keep: bool = False
    ) -> Checkpoint:
        """Append `row`, set the run's status and write the pending rows, in one transaction."""
        asked = [question_values(claim.run, question) for question in pending]
        beside = [(self._sql.ask(len(asked)), [*chain.from_iterable(asked)])] if asked else []
        return self._append(claim, row, status, keep=keep, beside=beside)

    def _append(
        self, claim: Claim, row: Checkpoint, status: Status, *, keep: bool, beside: Sequence[Piece]
    ) -> Checkpoint:
        tail = claim.tail
        if tail is None or tail.seq != row.seq - 1:
            tail = Tail(row.seq - 1)
        hold: Hold = "keep" if keep or status == "running" else "drop"
        after = self._advance(claim, tail, hold, status, row, beside=beside)
        if after is None:
            raise stale(claim)
        if row.seq > claim.seq:
            claim.seq, claim.tail = row.seq, after
        return row

    def get_last(self, execution_id: str) -> Checkpoint | None:
        """The row with the highest seq."""
        rows = self._read(lambda session: session.rows(self._sql.newest, (1, 1, plain(execution_id))))
        for row, tail in replay(execution_id, rows, 1):
            self._tails.put(rows[-1][0] >> RUN_SHIFT, tail)
            return row
        return None

    def get_by_id(self, execution_id: str, checkpoint_id: str) -> Checkpoint | None:
        """One row."""
        seq = checkpoint_id.split("-")[1:2]
        if not seq or not seq[0].isascii() or not seq[0].isdigit() or len(seq[0]) > _SEQ_DIGITS:
            return None
        values = (int(seq[0]), int(seq[0]), plain(execution_id))
        rows = self._read(lambda session: session.rows(self._sql.one, values))
        found = [row for row, _ in replay(execution_id, rows, 1) if row.checkpoint_id == checkpoint_id]
        return found[0] if found else None

    def list_pending_interrupts(
        self, execution_id: str | None = None, *, limit: int | None = None
    ) -> list[PendingInterrupt]:
        """The open questions, oldest first."""
        asked = [] if execution_id is None else [plain(execution_id)]
        values = [*asked, *([] if limit is None else [at_most(limit)])]
        text = self._sql.pending(one_run=execution_id is not None, limited=limit is not None)
        return [question(row) for row in self._read(lambda session: session.rows(text, values))]

    # -- runs --------------------------------------------------------------------------------------------------------

    def get_execution(self, execution_id: str) -> Execution | None:
        """The head of one run."""
        values = (self.clock_offset, plain(execution_id))
        rows = self._read(lambda session: session.rows(self._sql.head, values))
        return execution(rows[0]) if rows else None

    def list_executions(
        self,
        *,
        status: Status | None = None,
        runner: str | None = None,
        parent: str | None = None,
        unfinished: bool = False,
        limit: int | None = None,
    ) -> list[Execution]:
        """The heads of runs, newest first."""
        if status is not None and status not in _ALL:
            message = f"status is {status!r}; it is one of {', '.join(_ALL)}"
            raise ValueError(message)
        statuses: Sequence[Status] = [s for s in (_UNFINISHED if unfinished else _ALL) if status in (None, s)]
        if not statuses:
            return []
        if statuses == _ALL and runner is None:
            statuses = []
        asked = [plain(name) for name in (runner, parent) if name is not None]
        values = [self.clock_offset, *asked, *([] if limit is None else [at_most(limit)])]
        text = self._sql.heads(
            statuses, runner=runner is not None, parent=parent is not None, limited=limit is not None
        )
        return [execution(row) for row in self._read(lambda session: session.rows(text, values))]

    def list(self, execution_id: str, *, limit: int | None = None) -> list[Checkpoint]:
        """Every row of the run, ascending by seq."""
        newest = _EVERY if limit is None else at_most(limit)
        values = (newest, newest, plain(execution_id))
        rows = self._read(lambda session: session.rows(self._sql.newest, values))
        return [row for row, _ in replay(execution_id, rows, newest)]
