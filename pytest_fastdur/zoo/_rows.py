"""Animals that do not keep what they have said is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fastdur.checkpointers import sqlite
from fastdur.checkpointers._store import Store
from pytest_fastdur.zoo._animal import Change, animal, raw


@animal("FD02")
def writes_behind(change: Change) -> None:
    """Says that a row is stored, and stores it with the next one."""
    held: dict[int, Any] = {}

    def put(real: Any, self: Any, claim: Any, row: Any, status: Any, **more: Any) -> Any:
        flush(real, self)
        if status != "running":
            return real(self, claim, row, status, **more)
        held[id(self)] = (replace(claim), row, status, more)
        claim.seq, claim.tail = row.seq, None
        return row

    def flush(write: Any, store: Any) -> None:
        if id(store) in held:
            claim, row, status, more = held.pop(id(store))
            write(store, claim, row, status, **more)

    real_put = Store.put

    def ask(real: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        flush(real_put, self)
        return real(self, *args, **kwargs)

    change(Store, "record_interrupt", ask)
    change(Store, "put", put)


@animal("FD03")
def tidies_old_rows_up(change: Change) -> None:
    """Changes the first row when a run is carried on."""

    def claim(real: Any, self: Any, seen: Any, *args: Any, **kwargs: Any) -> Any:
        raw(self, "UPDATE {t}checkpoints SET node_index = 99 WHERE id = ?", (seen.run << 32) + 1)
        return real(self, seen, *args, **kwargs)

    change(Store, "claim_execution", claim)


@animal("FD01", "FD02", "FD03")
def drops_old_rows(change: Change) -> None:
    """Removes the first row when a run is carried on."""

    def claim(real: Any, self: Any, seen: Any, *args: Any, **kwargs: Any) -> Any:
        raw(
            self,
            "DELETE FROM {t}checkpoints WHERE id = ? AND id < ?",
            (seen.run << 32) + 1,
            (seen.run << 32) + seen.seq,
        )
        return real(self, seen, *args, **kwargs)

    change(Store, "claim_execution", claim)


@animal("FD10", "FD09", "FD12", "FD01", "FD06", story="loop")
def finds_the_newest_by_place(change: Change) -> None:
    """Takes the row of the node that stands last in the graph for the newest."""

    def last(real: Any, self: Any, execution_id: str) -> Any:
        rows = self.list(execution_id)
        newest = real(self, execution_id)
        best = max(rows, key=lambda row: row.node_index, default=None)
        return newest if best is None or newest is None else replace(newest, frames=best.frames)

    change(Store, "get_last", last)


@animal("FD12", "FD09", tool="sweep locked")
def lets_errors_of_the_driver_out(change: Change) -> None:
    """Hands "database is locked" to whoever calls."""

    def broken(_: Any, error: Any, __: str) -> Any:
        return error

    change(sqlite, "understood", broken)


@animal("control")
def numbers_rows_with_gaps(change: Change) -> None:
    """Leaves a number out when a run is carried on with an answer."""

    def answer(real: Any, self: Any, seen: Any, token: str, owner: str, asked: str, row: Any, graph: Any = None) -> Any:
        claim = real(self, seen, token, owner, asked, row, graph)
        if claim is not None:
            raw(self, "UPDATE {t}executions SET seq = seq + 1 WHERE run = ?", seen.run)
            claim.seq, claim.tail = claim.seq + 1, None
        return claim

    change(Store, "delete_pending_interrupt_atomic", answer)


@animal("FD06", "FD09", "FD01", tool="interleave resume kills=1", story="alone")
def ends_before_its_last_row(change: Change) -> None:
    """Says that a run has completed, and then writes the row of its last node."""

    def put(real: Any, self: Any, claim: Any, row: Any, status: Any, **more: Any) -> Any:
        if row.step_type == "node" and not row.frames.state.get("due"):
            raw(self, "UPDATE {t}executions SET status = 'completed' WHERE run = ?", claim.run)
        return real(self, claim, row, status, **more)

    change(Store, "put", put)


@animal("FD10", "FD09", "FD12", "FD06", tool="sweep clock-")
def finds_the_newest_by_clock(change: Change) -> None:
    """Takes the row with the latest time for the newest."""

    def last(real: Any, self: Any, execution_id: str) -> Any:
        newest = real(self, execution_id)
        best = max(self.list(execution_id), key=lambda row: row.created_at, default=None)
        return newest if best is None or newest is None else replace(newest, frames=best.frames)

    change(Store, "get_last", last)


@animal("FD02", tool="sweep power", story="alone", budget=400)
def sells_normal_as_durable(change: Change) -> None:
    """Says `full`, and lets SQLite sync as seldom as under `normal`."""

    def prepare(real: Any, self: Any, connection: Any, version: int) -> None:
        real(self, connection, version)
        connection.execute("PRAGMA synchronous = NORMAL")

    change(sqlite.SQLiteCheckpointer, "_prepare", prepare)
