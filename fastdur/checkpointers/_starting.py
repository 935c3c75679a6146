"""How a run begins in a store on an SQL database: at its start, or at a row of another run."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from fastdur._codec import dumps
from fastdur.checkpointers._patience import Patient
from fastdur.checkpointers._rows import Tail, body_after, row_values
from fastdur.checkpointers._values import indexed, plain, plain_or_none
from fastdur.errors import RunExists, RunNotFound, StaleRun
from fastdur.records import Claim

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastdur.checkpointers._patience import Piece, Session
    from fastdur.checkpointers._sql import Sql
    from fastdur.checkpointers.protocol import Start
    from fastdur.errors import FastdurError


class Starting(Patient):
    """`start_execution`."""

    _sql: Sql
    _lease: float

    clock_offset: float = 0.0
    """Seconds added to the database's clock. Only tests move it."""

    small: ClassVar[int] = 1024
    """How long the text of a state is that is written in full each time, in place of what is new in it."""

    def start_execution(self, start: Start) -> Claim:
        """Write the head of a new run, claimed, with what a fork begins with."""
        sql, execution_id = self._sql, indexed(start.execution_id, "The execution_id")
        beside: list[Piece] = []
        tail = Tail(0, status="running")
        if start.origin is not None:
            body, tail = body_after(tail, start.origin.frames, "running", self.small)
            _, *values = row_values(0, start.origin.checkpoint_id, start.origin, body, tail)
            beside.append((sql.origin, [*values, execution_id]))
        if start.recorded:
            beside += self._inherited(start, execution_id)
        texts = (dumps(start.graph), dumps(start.input), int(start.recorded), execution_id)
        pieces = [self._head(start, tail.seq), (sql.start_texts, texts), *beside]

        def work(session: Session) -> Claim:
            session.move(pieces)
            for run, token in session.rows(sql.started, (execution_id,)):
                if token == start.token:
                    return Claim(start.execution_id, run, 1, start.token, tail.seq, tail)
                message = f"Run {start.execution_id!r} has been started before; resume it or choose another id."
                raise RunExists(message)
            raise self._not_started(start)

        return self._write(work)

    def _inherited(self, start: Start, execution_id: str) -> Iterator[Piece]:
        """The finished records that a run begins with which answers effects from records only."""
        if start.parent_run is not None:
            yield self._sql.inherit, (start.parent_run, execution_id)
        above = plain(start.parent_id or "")
        if start.parent_token is not None and execution_id.startswith(f"{above}/"):
            place = f"{execution_id[len(above) :]}/"
            after = len(place)
            yield self._sql.inherit_here, (after, after + 2, after, execution_id, above, after, place)

    def _not_started(self, start: Start) -> FastdurError:
        """Why nothing has been started, and the id is not taken."""
        if start.parent_run is not None:
            message = (
                f"Run {start.parent_id!r} in {self.location} was deleted or pruned while it was being forked; "
                "nothing was started."
            )
            return RunNotFound(message)
        message = (
            f"Run {start.execution_id!r} was not started: the run {start.parent_id!r}, a node of which it is for, "
            "was taken over, cancelled or deleted."
        )
        return StaleRun(message)

    def _head(self, start: Start, seq: int) -> Piece:
        now, parent = self.clock_offset, plain_or_none(start.parent_id)
        values: list[object] = [
            indexed(start.execution_id, "The execution_id"),
            indexed(start.runner, "The name of the runner"),
            plain(start.kind),
            seq,
            start.token,
            start.token,
            plain(start.owner),
            now + self._lease,
            parent,
            plain_or_none(start.parent_address),
            plain_or_none(start.parent_checkpoint_id),
            now,
            now,
        ]
        if start.parent_run is not None:
            return self._sql.start_beside, [*values, start.parent_run]
        if start.parent_token is not None:
            return self._sql.start_below, [*values, parent, start.parent_token]
        return self._sql.start, [*values, parent]
