"""The reference model of a store: what is kept, and what each call does to it, as plain data and nothing else.

Every rule of the store's contract stands here once, without a database, a lock or a clock of its own. Stores are
driven beside it, call by call, and must answer the same (`pytest_fastdur.lockstep`). It takes and gives the records of
`fastdur.records`, but only one caller at a time, and it keeps what it is given: callers do not change that.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fastdur._codec import dumps
from fastdur.errors import CheckpointExists, RunExists, RunNotFound, StaleRun
from fastdur.records import Checkpoint, Claim, EffectRecord, Execution, PendingInterrupt, Status
from pytest_fastdur.model_retention import Retained

if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterable, Iterator, Sequence

    from fastdur._codec import Frozen
    from fastdur.checkpointers.protocol import Start


@dataclass(slots=True)
class RunModel:
    """A run: its head, and what belongs to it."""

    head: Execution
    started_by: str
    lease_until: float
    changed: float
    rows: list[Checkpoint] = field(default_factory=list[Checkpoint])
    effects: dict[str, EffectRecord] = field(default_factory=dict[str, EffectRecord])

    def is_held_by(self, claim: Claim) -> bool:
        """Whether this claim is the run's."""
        return (self.head.epoch, self.head.token) == (claim.epoch, claim.token)

    def is_old(self, now: float, ended: float, failed: float) -> bool:
        """Whether it ended no later than one of these moments, as which it did, and nobody is at work on it now."""
        latest = {"completed": ended, "cancelled": ended, "failed": failed}.get(self.head.status)
        at_work = self.head.owned and self.lease_until > now
        return not at_work and latest is not None and self.changed <= latest


class StoreModel(Retained):
    """All runs, and the open questions of all of them in the order in which they were asked first.

    `clock` is what the store's clock shows: seconds from the making of the model.
    """

    def __init__(self, lease: float = 30.0) -> None:
        self.lease = lease
        self.clock = 0.0
        self.runs: dict[str, RunModel] = {}
        self.questions: dict[tuple[str, str], PendingInterrupt] = {}
        self._started = 0

    @property
    def location(self) -> str:
        """Nowhere."""
        return "the model"

    def setup(self) -> None:
        """There is nothing to make."""

    def close(self) -> None:
        """There is nothing to give back."""

    # -- the one rule of writing -------------------------------------------------------------------------------------

    def _advance(
        self,
        seen: Claim | Execution,
        seq: int,
        row: Checkpoint | None,
        change: dict[str, Any],
        *,
        answered: str | None = None,
        asked: Iterable[PendingInterrupt] = (),
    ) -> bool:
        """Move the head on where it is still as it was seen, and the question is open. True where it moved so, now or
        by this very write before.
        """
        _must_come_next(row, seen, seq)
        run, name = self.run_of(seen), seen.execution_id
        if run is None:
            return False
        unmoved = (run.head.epoch, run.head.token, run.head.seq) == (seen.epoch, seen.token, seq)
        if not unmoved or (answered is not None and (name, answered) not in self.questions):
            return self._is_there(run, row) if row is not None else run.head.token == change.get("token", "")
        if row is not None:
            run.rows.append(row)
        if answered is not None:
            del self.questions[name, answered]
        for question in asked:
            self.questions[name, question.interrupt_id] = question
        attempts = run.head.attempts + 1 if row is None else 0
        run.head = replace(run.head, seq=len(run.rows), attempts=attempts, **change)
        run.lease_until = self.clock + self.lease
        run.changed = self.clock
        return True

    def _held(self, claim: Claim) -> RunModel:
        run = self.run_of(claim)
        if run is None or not run.is_held_by(claim):
            raise StaleRun(claim.execution_id)
        return run

    def _is_there(self, run: RunModel, row: Checkpoint) -> bool:
        """Whether this very row is stored."""
        stored = run.rows[row.seq - 1] if row.seq <= len(run.rows) else None
        if stored is None or stored.checkpoint_id != row.checkpoint_id:
            return False
        if _content(stored) != _content(row):
            raise CheckpointExists(row.checkpoint_id)
        return True

    # -- ownership ---------------------------------------------------------------------------------------------------

    def start_execution(self, start: Start) -> Claim:
        """Begin a run that is not there yet; the same start again is the same claim."""
        run = self.runs.get(start.execution_id)
        if run is None:
            parent = self.runs.get(start.parent_id or "")
            if start.parent_token is not None and (parent is None or parent.head.token != start.parent_token):
                raise StaleRun(start.execution_id)
            if start.parent_run is not None and (parent is None or parent.head.run != start.parent_run):
                raise RunNotFound(start.parent_id)
            self._started += 1
            first = start.origin
            rows = [] if first is None else [replace(first, checkpoint_id=f"{self._started}-1-{first.checkpoint_id}")]
            head = Execution(
                start.execution_id,
                self._started,
                start.runner,
                start.kind,
                "running",
                len(rows),
                1,
                start.token,
                start.owner,
                lease_live=True,
                graph=start.graph,
                input=start.input,
                parent_id=start.parent_id,
                parent_address=start.parent_address,
                parent_checkpoint_id=start.parent_checkpoint_id,
                recorded=start.recorded,
                parent_run=None if parent is None else parent.head.run,
            )
            run = RunModel(head, start.token, self.clock + self.lease, self.clock, rows, self._inherited(start))
            self.runs[start.execution_id] = run
        if run.started_by != start.token:
            raise RunExists(start.execution_id)
        return Claim(start.execution_id, run.head.run, 1, start.token, int(start.origin is not None))

    def _inherited(self, start: Start) -> dict[str, EffectRecord]:
        """What a run that answers effects from records only begins with, by the key it has there."""
        found: dict[str, EffectRecord] = {}
        if not start.recorded or start.parent_id not in self.runs:
            return found
        above = self.runs[start.parent_id]
        for record in self._records(above) if start.parent_run is not None else above.effects.values():
            key: str | None = record.key
            if start.parent_token is not None:
                key = _key_below(record.key, start.execution_id.removeprefix(start.parent_id))
            if key is not None and record.status in ("done", "unstorable", "failed"):
                found.setdefault(key, replace(record, key=key, epoch=1))
        return found

    def _records(self, source: RunModel) -> Iterator[EffectRecord]:
        """The records of a run, then those of its child runs under their places."""
        yield from source.effects.values()
        name = source.head.execution_id
        for run in self.runs.values():
            if (
                run.head.is_child
                and run.head.parent_run == source.head.run
                and run.head.execution_id[: len(name) + 1] == f"{name}/"
            ):
                place = run.head.execution_id[len(name) :]
                for record in self._records(run):
                    yield replace(
                        record, key=place + record.key if record.key.startswith("/") else f"{place}//{record.key}"
                    )

    def claim_execution(
        self, seen: Execution, token: str, owner: str, row: Checkpoint | None = None, graph: Frozen = None
    ) -> Claim | None:
        """Own the run from now on."""
        return self._take(seen, token, owner, row, None, graph)

    def delete_pending_interrupt_atomic(
        self, seen: Execution, token: str, owner: str, interrupt_id: str, row: Checkpoint, graph: Frozen = None
    ) -> Claim | None:
        """Answer a question and own the run from now on."""
        return self._take(seen, token, owner, row, interrupt_id, graph)

    def _take(
        self, seen: Execution, token: str, owner: str, row: Checkpoint | None, answered: str | None, graph: Frozen
    ) -> Claim | None:
        change: dict[str, Any] = {"epoch": seen.epoch + 1, "token": token, "owner": owner, "status": "running"}
        if graph is not None:
            change["graph"] = graph
        if not self._advance(seen, seen.seq, row, change, answered=answered):
            return None
        return Claim(seen.execution_id, seen.run, seen.epoch + 1, token, seen.seq + (row is not None))

    def decide(self, seen: Execution, interrupt_id: str, row: Checkpoint, status: Status) -> bool:
        """Answer a question and leave the run to whoever claims it."""
        return self._advance(seen, seen.seq, row, _unowned(status), answered=interrupt_id)

    def cancel(self, seen: Execution, row: Checkpoint) -> bool:
        """End the run, and every question of it."""
        run = self.run_of(seen)
        newest = 0 if run is None else run.head.seq
        done = self._advance(seen, seen.seq, row, _unowned("cancelled"))
        if run is not None and run.head.seq > newest:
            self.questions = {key: asked for key, asked in self.questions.items() if key[0] != seen.execution_id}
        return done

    def renew(self, claims: Sequence[Claim]) -> None:
        """Begin the leases of these claims anew."""
        for claim in claims:
            run = self.run_of(claim)
            if run is not None and run.is_held_by(claim):
                run.lease_until = self.clock + self.lease

    def release(self, claim: Claim) -> None:
        """Own the run no longer."""
        run = self.run_of(claim)
        if run is not None and run.is_held_by(claim):
            run.head = replace(run.head, token=None, owner=None)

    # -- rows --------------------------------------------------------------------------------------------------------

    def put(
        self, claim: Claim, row: Checkpoint, status: Status, *, keep: bool = False, clear_failed: str | None = None
    ) -> Checkpoint:
        """Append a row."""
        run = self.run_of(claim)
        newest = 0 if run is None else run.head.seq
        stored = self.record_interrupt(claim, row, (), status, keep=keep)
        if run is not None and run.head.seq > newest:
            kept = {
                key: each for key, each in run.effects.items() if (each.path, each.status) != (clear_failed, "failed")
            }
            run.effects = kept
        return stored

    def record_interrupt(
        self, claim: Claim, row: Checkpoint, pending: Iterable[PendingInterrupt], status: Status, *, keep: bool = False
    ) -> Checkpoint:
        """Append a row and ask questions."""
        change: dict[str, Any] = {"status": status} if keep or status == "running" else _unowned(status)
        if not self._advance(claim, row.seq - 1, row, change, asked=pending):
            raise StaleRun(claim.execution_id)
        claim.seq = max(claim.seq, row.seq)
        return row

    def get_last(self, execution_id: str) -> Checkpoint | None:
        """The newest row."""
        return next(iter(self.list(execution_id, limit=1)), None)

    def get_by_id(self, execution_id: str, checkpoint_id: str) -> Checkpoint | None:
        """One row."""
        return next((row for row in self.list(execution_id) if row.checkpoint_id == checkpoint_id), None)

    def list_pending_interrupts(
        self, execution_id: str | None = None, *, limit: int | None = None
    ) -> builtins.list[PendingInterrupt]:
        """The open questions."""
        return [asked for (name, _), asked in self.questions.items() if execution_id in (None, name)][:limit]

    # -- effects -----------------------------------------------------------------------------------------------------

    def begin_idempotent(self, claim: Claim, record: EffectRecord) -> EffectRecord | None:
        """Begin an effect that has no outcome to keep."""
        run = self._held(claim)
        known = run.effects.get(record.key)
        if known is not None and known.status in ("done", "unstorable"):
            return known
        run.effects[record.key] = replace(record, epoch=run.head.epoch)
        return None

    def put_idempotent(self, claim: Claim, record: EffectRecord) -> None:
        """End an effect that this attempt has begun; of what was begun only status, result and error change."""
        run = self.run_of(claim)
        known = None if run is None else run.effects.get(record.key)
        begun = known is not None and (known.attempt, known.status) == (record.attempt, "started")
        if run is not None and known is not None and begun and run.is_held_by(claim):
            ended = replace(known, status=record.status, result=record.result, error=record.error)
            run.effects[record.key] = ended
        elif known is None or not _alike(known, record):
            raise StaleRun(claim.execution_id)

    def list_unknown(self, execution_id: str) -> builtins.list[EffectRecord]:
        """The effect records without an outcome."""
        return [each for each in self.list_idempotent(execution_id) if each.status in ("started", "unknown")]

    def resolve_unknown(self, seen: Execution, record: EffectRecord, outcome: EffectRecord) -> bool:
        """Give a record that has no outcome one, from outside."""
        run = self.run_of(seen)
        known = None if run is None else run.effects.get(record.key)
        if run is None or known is None:
            return False
        unknown = known.attempt == record.attempt and known.status in ("started", "unknown")
        if unknown and (run.head.epoch, run.head.token) == (seen.epoch, seen.token):
            run.effects[record.key] = replace(
                known, status=outcome.status, path=outcome.path, result=outcome.result, error=outcome.error
            )
            return True
        return _alike(known, outcome)

    def get_idempotent(self, execution_id: str, key: str) -> EffectRecord | None:
        """One effect record."""
        run = self.runs.get(execution_id)
        return None if run is None else run.effects.get(key)

    def list_idempotent(self, execution_id: str) -> builtins.list[EffectRecord]:
        """The effect records of a run."""
        run = self.runs.get(execution_id)
        return [] if run is None else [*run.effects.values()]

    # -- runs --------------------------------------------------------------------------------------------------------

    def get_execution(self, execution_id: str) -> Execution | None:
        """The head of a run."""
        run = self.runs.get(execution_id)
        return None if run is None else self._shown(run)

    def _shown(self, run: RunModel) -> Execution:
        return replace(run.head, lease_live=run.head.owned and run.lease_until > self.clock)

    def list_executions(
        self,
        *,
        status: Status | None = None,
        runner: str | None = None,
        parent: str | None = None,
        unfinished: bool = False,
        limit: int | None = None,
    ) -> builtins.list[Execution]:
        """The heads of runs."""
        heads = [self._shown(run) for run in reversed(self.runs.values())]
        return [
            head
            for head in heads
            if status in (None, head.status) and runner in (None, head.runner) and (head.unfinished or not unfinished)
            if parent is None or (parent in self.runs and self.runs[parent].head.run == head.parent_run)
        ][:limit]

    def list(self, execution_id: str, *, limit: int | None = None) -> list[Checkpoint]:
        """The rows of a run."""
        run = self.runs.get(execution_id)
        rows = [] if run is None else run.rows
        return rows[:] if limit is None else rows[max(0, len(rows) - limit) :]


def _key_below(key: str, place: str) -> str | None:
    """The key that the child run at a place has a record under; None for a record of another place."""
    after = key.removeprefix(place)
    if not place.startswith("/") or after == key or not after.startswith("/"):
        return None
    return after.removeprefix("//")


def _unowned(status: Status) -> dict[str, Any]:
    return {"status": status, "token": None, "owner": None}


def _must_come_next(row: Checkpoint | None, seen: Claim | Execution, seq: int) -> None:
    if row is not None and (
        row.seq != seq + 1
        or row.execution_id != seen.execution_id
        or not row.checkpoint_id.startswith(f"{seen.run}-{row.seq}-")
    ):
        message = f"row {row.checkpoint_id!r} does not come after row {seq} of run {seen.execution_id!r}"
        raise ValueError(message)


def _content(row: Checkpoint) -> tuple[object, ...]:
    """A row such that two are equal only where their types are."""
    trees = dumps(row.frames.tree()), dumps(dict(row.extra))
    return (trees, replace(row, frames=row.frames.__class__("", 0, {}), extra={}))


def _alike(one: EffectRecord, other: EffectRecord) -> bool:
    """Whether two records say the same, types included; the epoch is the store's own."""
    return repr(replace(one, epoch=0)) == repr(replace(other, epoch=0))
