"""What the tests of the stores are made of: runs, rows and questions with ids that are the same every time."""

from __future__ import annotations

import itertools
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from fastdur import Chain, idempotent, interrupt
from fastdur.checkpointers.protocol import Start
from fastdur.checkpointers.sqlite import SQLiteCheckpointer
from fastdur.errors import StoreUnavailable
from fastdur.records import Checkpoint, Claim, EffectRecord, Execution, Frame, PendingInterrupt

ROOT = Path(__file__).parents[2]
TABLES = ("executions", "starts", "checkpoints", "pending_interrupts", "idempotency_cache", "schema_version")
_numbers = itertools.count()


def renewed(store, claim):
    """A renewal as the renewing thread does it: it waits for nothing, and is asked again."""
    try:
        store.renew([claim])
    except StoreUnavailable:
        store.renew([claim])


def start(store: Any, execution_id: str = "r", token: str = "first", **fields: Any) -> Claim:
    known: dict[str, Any] = {"runner": "flow", "kind": "chain", "graph": {"nodes": {}}, "input": {"n": 1}, **fields}
    return store.start_execution(Start(execution_id=execution_id, token=token, owner="me", **known))


PAD = "p" * 1200  # small states are stored in full; with this beside them they are not


def frame(data: Any, **state: Any) -> Frame:
    return Frame("", 1, {"data": data, "pad": PAD, **state})


def row(at: Claim | Execution, data: Any = ..., *, nonce: str | None = None, **fields: Any) -> Checkpoint:
    """The row that comes after `at`."""
    seq = fields.pop("seq", at.seq + 1)
    nonce = nonce or f"{next(_numbers):016x}"
    frames = fields.pop("frames", None) or frame({"n": seq} if data is ... else data)
    known: dict[str, Any] = {"node_id": "work", "node_index": seq, "step_type": "node", "status": "completed", **fields}
    return Checkpoint(at.execution_id, seq, f"{at.run}-{seq}-{nonce}", frames=frames, **known)


def question(at: Claim | Execution, interrupt_id: str = "ask#1/1", **fields: Any) -> PendingInterrupt:
    known: dict[str, Any] = {"runner": "flow", "node_id": "ask", "reason": "why?", "context": {"sum": 5}, **fields}
    return PendingInterrupt(
        execution_id=at.execution_id, interrupt_id=interrupt_id, agent_path="", created_at=1.5, **known
    )


def effect(key: str = "k", attempt: str = "a1", status: str = "started", **fields: Any) -> EffectRecord:
    known: dict[str, Any] = {"name": "charge", "args": "digest", "path": "work#1", **fields}
    return EffectRecord(key, status=status, attempt=attempt, **known)


def paused(store: Any, execution_id: str = "r", **fields: Any) -> Execution:
    """A run that waits for one answer."""
    claim = start(store, execution_id)
    pause = row(claim, step_type="hitl_pause", status="interrupted")
    store.record_interrupt(claim, pause, [question(claim, **fields)], "paused")
    return head(store, execution_id)


def head(store: Any, execution_id: str = "r") -> Execution:
    found = store.get_execution(execution_id)
    assert found is not None
    return found


def tables(path: str) -> dict[str, list[tuple[Any, ...]]]:
    """Everything that is stored, read by a connection of its own; without what the database's clock wrote."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        return {
            table: [
                tuple(
                    line[name]
                    for name in line.keys()  # noqa: SIM118 - a Row is no dict
                    if table != "executions" or name not in ("lease_until", "created_at", "updated_at")
                )
                for line in connection.execute(
                    f"SELECT * FROM {table} ORDER BY 1, 2"
                    if table != "schema_version"
                    else "SELECT * FROM schema_version"
                )
            ]
            for table in TABLES
        }


def corrupt(path: str, statement: str, *values: object) -> None:
    """Change the file behind the store's back."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement, values)
        connection.commit()


def process(code: str, *arguments: str) -> subprocess.Popen[str]:
    """A fresh process that runs `code`; it is told and asked through its pipes."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def faulty(commit: int, *, after: bool, every: bool = False, **error: Any) -> type[sqlite3.Connection]:
    """A driver whose `commit`-th COMMIT (and with `every` each later one) fails, before or after it has happened.

    The commits that make the tables are not counted.
    """
    seen = itertools.count(1)
    counting = False

    class Faulty(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            nonlocal counting
            if sql.startswith(("UPDATE executions SET", "INSERT INTO executions")):
                counting = True
            if sql != "COMMIT" or not counting:
                return super().execute(sql, *values)
            number = next(seen)
            failing = number == commit or (every and number > commit)
            if failing and not after:
                raise failure("disk I/O error", **error)
            cursor = super().execute(sql, *values)
            if failing:
                raise failure("disk I/O error", **error)
            return cursor

    return Faulty


def failure(text: str, code: int = sqlite3.SQLITE_IOERR) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    error.sqlite_errorname = "SQLITE_IOERR"
    return error


def opened(path: object, **options: Any) -> closing[SQLiteCheckpointer]:
    """A store that is closed at the end of the `with`."""
    return closing(SQLiteCheckpointer(path, **options))  # type: ignore[arg-type]


def twins(store):
    """A chain that pays and asks, and one whose node begins such a run and asks too."""
    pay = idempotent(name="pay")(lambda: 5)
    below = Chain("below", store).add_node("pay", lambda state: {"paid": pay()})
    below.add_node("ask", lambda state: {"ok": interrupt("ok?").approved}).connect("pay", "ask")
    above = Chain("above", store).add_node("call", lambda state: {"below": below.execute({}).status})
    return below, above.add_node("ask", lambda state: {"ok": interrupt("ok?").approved}).connect("call", "ask")
