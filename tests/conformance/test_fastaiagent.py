"""What FastAIAgent's own stores, on SQLite and on Postgres, promise, held against our clauses. What fails is expected to.

Those stores have no owners, heads or fences; here they are kept beside them, so that the clauses of rows, questions and
effects can be asked at all. Only clauses whose subject is their own are asked.
"""

from __future__ import annotations

import importlib.util
import itertools
import warnings
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar

import pytest

from fastdur import Checkpoint, Execution, PendingInterrupt
from fastdur.checkpointers.protocol import Start
from fastdur.records import Claim, EffectRecord, Frame
from pytest_fastdur.conformance import StoreSuite, run_suite

HELD = (
    *("APPEND-01", "APPEND-02", "APPEND-10", "LIST-01", "LIST-06"),
    *("ASK-07", "THREAD-03", "INSTANCE-03"),
)
BROKEN = {
    "APPEND-03": "a row sent again is a driver's error",
    "APPEND-04": "so is an id that is taken",
    "APPEND-08": "a limit keeps the oldest rows",
    "ASK-01": "a run has one open question",
    "LIST-02": "a limit keeps the oldest rows",
    "LIST-03": "the newest row is the one with the newest time",
    "LIST-07": "only the first hundred rows are listed",
    "ASK-04": "questions are listed newest first, by their times",
    "ASK-05": "a question asked again is a driver's error",
    "ASK-08": "an answer takes whatever question the run has",
    "EFFECT-01": "a begin leaves no record",
    "EFFECT-02": "an effect whose result is None is run again",
    "EFFECT-05": "a second end replaces the first",
}

BROKEN_ON_POSTGRES = {**BROKEN, "APPEND-01": "its columns of JSON reorder the keys of a state"}


class Borrowed:
    """Their store behind our protocol."""

    def __init__(self, theirs: Any, heads: dict[str, Execution]) -> None:
        self.theirs, self.heads = theirs, heads

    def setup(self) -> None:
        self.theirs.setup()

    def close(self) -> None:
        self.theirs.close()

    def start_execution(self, start: Start) -> Claim:
        # fmt: off
        self.heads[start.execution_id] = Execution(
            start.execution_id, len(self.heads) + 1, start.runner, start.kind, "running", 0, 1, start.token,
            start.owner, True, start.graph, start.input, created_at=1.0, updated_at=1.0,
        )
        # fmt: on
        return Claim(start.execution_id, self.heads[start.execution_id].run, 1, start.token, 0)

    def get_execution(self, execution_id: str) -> Execution | None:
        return self.heads.get(execution_id)

    def claim_execution(self, seen: Execution, token: str, owner: str, row: Any = None, graph: Any = None) -> Claim:
        return self._moved(seen, row, epoch=seen.epoch + 1, token=token, owner=owner, status="running")

    def _moved(self, at: Any, row: Checkpoint | None, **change: Any) -> Claim:
        if row is not None:
            self.theirs.put(_theirs(row))
        seq = at.seq if row is None else row.seq
        head = self.heads[at.execution_id] = replace(self.heads[at.execution_id], seq=seq, **change)
        return Claim(head.execution_id, head.run, head.epoch, head.token or "", seq)

    def put(self, claim: Claim, row: Checkpoint, status: Any, *, keep: bool = False, clear_failed: Any = None) -> Any:
        gone = {} if keep or status == "running" else {"token": None, "owner": None}
        claim.seq = self._moved(claim, row, status=status, **gone).seq
        return row

    def record_interrupt(self, claim: Claim, row: Checkpoint, pending: Any, status: Any, *, keep: bool = False) -> Any:
        from fastaiagent.checkpointers import PendingInterrupt as Theirs

        for asked in list(pending)[:1]:  # a run has one at most there
            # fmt: off
            self.theirs.record_interrupt(_theirs(row), Theirs(
                execution_id=row.execution_id, chain_name=asked.runner, node_id=asked.node_id, reason=asked.reason,
                context=asked.context, agent_path=f"{asked.agent_path}|{asked.interrupt_id}",
                created_at=_time(asked.created_at),
            ))
            # fmt: on
        gone = {} if keep or status == "running" else {"token": None, "owner": None}
        self._moved(row, None, status=status, **gone)
        claim.seq = row.seq
        return row

    def delete_pending_interrupt_atomic(
        self, seen: Execution, token: str, owner: str, interrupt_id: str, row: Checkpoint, graph: Any = None
    ) -> Claim | None:
        taken = self.theirs.delete_pending_interrupt_atomic(seen.execution_id)
        return None if taken is None else self.claim_execution(seen, token, owner, row)

    def decide(self, seen: Execution, interrupt_id: str, row: Checkpoint, status: Any) -> bool:
        return self.delete_pending_interrupt_atomic(seen, "decided", "page", interrupt_id, row) is not None

    def list_pending_interrupts(self, execution_id: str | None = None, *, limit: int | None = None) -> list[Any]:
        found = [
            PendingInterrupt(
                each.execution_id,
                each.agent_path.partition("|")[2],
                each.chain_name,
                each.node_id,
                each.reason,
                each.context,
                each.agent_path.partition("|")[0],
                datetime.fromisoformat(each.created_at).timestamp(),
            )
            for each in self.theirs.list_pending_interrupts(**({} if limit is None else {"limit": limit}))
        ]
        return [each for each in found if execution_id in (None, each.execution_id)]

    def get_last(self, execution_id: str) -> Checkpoint | None:
        return _ours(self.theirs.get_last(execution_id))

    def get_by_id(self, execution_id: str, checkpoint_id: str) -> Checkpoint | None:
        return _ours(self.theirs.get_by_id(execution_id, checkpoint_id))

    def begin_idempotent(self, claim: Claim, record: EffectRecord) -> EffectRecord | None:
        return self.get_idempotent(claim.execution_id, record.key)

    def put_idempotent(self, claim: Claim, record: EffectRecord) -> None:
        self.theirs.put_idempotent(claim.execution_id, record.key, record.result)

    def get_idempotent(self, execution_id: str, key: str) -> EffectRecord | None:
        result = self.theirs.get_idempotent(execution_id, key)
        return None if result is None else EffectRecord(key, "charge", "digest", "done", "a1", "work#1", result)

    def list_idempotent(self, execution_id: str) -> list[EffectRecord]:
        return []

    def list(self, execution_id: str, *, limit: int | None = None) -> list[Any]:
        found = self.theirs.list(execution_id, **({} if limit is None else {"limit": limit}))
        return [_ours(each) for each in found]


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")


def _theirs(row: Checkpoint) -> Any:
    from fastaiagent.chain.checkpoint import Checkpoint as Theirs

    return Theirs(
        checkpoint_id=row.checkpoint_id,
        parent_checkpoint_id=row.parent_checkpoint_id,
        chain_name="flow",
        execution_id=row.execution_id,
        node_id=row.node_id,
        node_index=row.node_index,
        step_type=row.step_type,
        status=row.status,
        state_snapshot=row.frames.tree(),
        node_input=dict(row.extra),
        iteration=row.seq,
        agent_path=row.agent_path,
        created_at=_time(row.created_at),
    )


def _ours(found: Any) -> Checkpoint | None:
    if found is None:
        return None
    return Checkpoint(
        found.execution_id,
        found.iteration,
        found.checkpoint_id,
        found.node_id,
        found.node_index,
        found.step_type,
        found.status,
        Frame.of(found.state_snapshot),
        found.agent_path,
        found.node_input,
        found.parent_checkpoint_id,
        datetime.fromisoformat(found.created_at).timestamp(),
    )


class OnFastAIAgent(StoreSuite):
    capabilities: ClassVar = {"instances"}
    heads: dict[str, Execution] | None = None

    def make_store(self, tmp_path):
        from fastaiagent.checkpointers import SQLiteCheckpointer

        self.heads = {} if self.heads is None else self.heads
        return Borrowed(SQLiteCheckpointer(str(tmp_path / "local.db")), self.heads)


class OnTheirPostgres(OnFastAIAgent):
    dsn: ClassVar[str]
    schema: ClassVar = itertools.count()
    mine: str | None = None

    def make_store(self, tmp_path):
        from fastaiagent.checkpointers.postgres import PostgresCheckpointer

        self.heads = {} if self.heads is None else self.heads
        self.mine = self.mine or f"theirs_{next(self.schema)}"
        return Borrowed(PostgresCheckpointer(self.dsn, schema=self.mine, max_pool_size=4), self.heads)


if importlib.util.find_spec("fastaiagent") is not None:

    @pytest.mark.sweep
    def test_the_store_of_fastaiagent_keeps_these_clauses_and_breaks_those(tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)  # it makes a folder where it is
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = run_suite(OnFastAIAgent, tmp_path, clauses=(*HELD, *BROKEN))
        assert set(table.ids("failed")) == set(BROKEN), table.render()

    @pytest.mark.sweep
    def test_the_store_of_fastaiagent_on_postgres_keeps_these_clauses_and_breaks_those(
        tmp_path, monkeypatch, fastdur_postgres
    ):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(OnTheirPostgres, "dsn", fastdur_postgres.dsn, raising=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = run_suite(OnTheirPostgres, tmp_path, clauses=(*HELD, *BROKEN))
        assert set(table.ids("failed")) == set(BROKEN_ON_POSTGRES), table.render()
