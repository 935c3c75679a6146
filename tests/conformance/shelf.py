"""A store of a third party, as small as it may be: runs kept in a dict, for as long as the process lives.

Every method holds one lock, looks first and writes then, so that a call is all or nothing. What is handed in and out
is copied by the text it freezes to. `Shelf()` is the data; each `ShelfStore(shelf)` is one store object on it.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from threading import RLock
from typing import Any

from fastdur import (
    Checkpoint,
    CheckpointExists,
    Execution,
    PendingInterrupt,
    Pruned,
    RunExists,
    RunNotFound,
    StaleRun,
    StoreClosed,
)
from fastdur.checkpointers.protocol import Start, age
from fastdur.records import Claim, EffectRecord, Status


@dataclass
class Run:
    """All that is kept of a run."""

    head: Execution
    start_token: str
    lease_until: float
    rows: list[Checkpoint] = field(default_factory=list)
    effects: dict[str, EffectRecord] = field(default_factory=dict)


class Shelf:
    """The data: runs by id, and the open questions of all of them in the order in which they were asked."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.runs: dict[str, Run] = {}
        self.started = 0
        self.questions: dict[tuple[str, str], PendingInterrupt] = {}


class ShelfStore:
    """A `fastdur.Checkpointer` over a `Shelf`."""

    clock_offset = 0.0
    lease = 30.0
    location = "a shelf in this process"

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._closed = False

    def setup(self) -> None:
        self._runs()

    def close(self) -> None:
        self._closed = True

    # -- the one writing function ------------------------------------------------------------------------------------

    def _runs(self) -> dict[str, Run]:
        if self._closed:
            raise StoreClosed(f"The store {self.location} was closed; make a new store object.")
        return self._shelf.runs

    def _run(self, seen: Claim | Execution) -> Run | None:
        """The run that was seen; None where it is gone, even if another has its id now."""
        run = self._runs().get(seen.execution_id)
        return run if run is not None and run.head.run == seen.run else None

    def _now(self) -> float:
        return time.time() + self.clock_offset

    def _advance(
        self,
        seen: Claim | Execution,
        seq: int,
        row: Checkpoint | None,
        head: dict[str, Any],
        answered: str | None = None,
        asked: Iterable[PendingInterrupt] = (),
    ) -> bool | None:
        """Move the head on where it is still as it was seen; None where this very write is stored already."""
        asked = list(asked)
        run = self._run(seen)
        if row is not None:
            self._fits(row, seen, seq + 1)
        if run is None:
            return False
        if row is not None and self._stored(run, row):
            return None
        now, here = run.head, seen.execution_id
        if row is None and "epoch" in head and now.token == head["token"]:
            return None
        if (now.epoch, now.token, now.seq) != (seen.epoch, seen.token, seq):
            return False
        if answered is not None and (here, answered) not in self._shelf.questions:
            return False
        if answered is not None:
            del self._shelf.questions[here, answered]
        if row is None:
            head["attempts"] = now.attempts + 1
        else:
            run.rows.append(copy.deepcopy(row))
            head |= {"seq": row.seq, "attempts": 0}
        run.head = replace(now, updated_at=self._now(), **head)
        run.lease_until = self._now() + self.lease
        for question in asked:
            self._shelf.questions[here, question.interrupt_id] = copy.deepcopy(question)
        return True

    def _stored(self, run: Run, row: Checkpoint) -> bool:
        known = run.rows[row.seq - 1 : row.seq]
        if not known or known[0].checkpoint_id != row.checkpoint_id:
            return False
        if repr(known[0]) != repr(row):
            raise CheckpointExists(f"Checkpoint {row.checkpoint_id} exists with other content.")
        return True

    def _fits(self, row: Checkpoint, seen: Claim | Execution, seq: int) -> None:
        if row.seq != seq or row.execution_id != seen.execution_id or not row.checkpoint_id.startswith(f"{seen.run}-"):
            raise ValueError(f"row {row.checkpoint_id!r} does not come next")

    # -- ownership ---------------------------------------------------------------------------------------------------

    def start_execution(self, start: Start) -> Claim:
        with self._shelf.lock:
            runs = self._runs()
            if start.execution_id not in runs:
                parent = runs.get(start.parent_id or "")
                if start.parent_token is not None and (parent is None or parent.head.token != start.parent_token):
                    raise StaleRun(f"Run {start.parent_id!r} no longer belongs to this call.")
                if start.parent_run is not None and (parent is None or parent.head.run != start.parent_run):
                    raise RunNotFound(f"Run {start.parent_id!r} is gone.")
                self._shelf.started += 1
                now, key = self._now(), self._shelf.started
                rows = [] if start.origin is None else [copy.deepcopy(start.origin)]
                rows = [replace(row, checkpoint_id=f"{key}-1-{row.checkpoint_id}") for row in rows]
                graph, given = copy.deepcopy((start.graph, start.input))
                # fmt: off
                head = Execution(
                    start.execution_id, key, start.runner, start.kind, "running", len(rows), 1, start.token, start.owner, True,
                    graph, given, 0, start.parent_id, start.parent_address, start.parent_checkpoint_id, now, now,
                    start.recorded, None if parent is None else parent.head.run,
                )
                # fmt: on
                effects = self._inherited(start)
                runs[start.execution_id] = Run(head, start.token, now + self.lease, rows, effects)
            run = runs[start.execution_id]
            if run.start_token != start.token:
                raise RunExists(f"Run {start.execution_id!r} has been started before.")
            return Claim(start.execution_id, run.head.run, 1, start.token, int(start.origin is not None))

    def _inherited(self, start: Start) -> dict[str, EffectRecord]:
        parent = self._runs().get(start.parent_id or "")
        if not start.recorded or parent is None:
            return {}
        found = self._below(parent, "")
        if start.parent_token is not None:
            place = start.execution_id[len(parent.head.execution_id) :] + "/"
            found = [(key[len(place) :], each) for key, each in parent.effects.items() if key.startswith(place)]
            found = [(key[1:] if key.startswith("/") else f"/{key}", each) for key, each in found]
        known: dict[str, EffectRecord] = {}
        for key, each in found:
            if each.status in ("done", "unstorable", "failed"):
                known.setdefault(key, copy.deepcopy(replace(each, key=key, epoch=1)))
        return known

    def _below(self, above: Run, place: str) -> list[tuple[str, EffectRecord]]:
        own = f"{place}//" if place else ""
        found = [((place if key.startswith("/") else own) + key, each) for key, each in above.effects.items()]
        for run in self._runs().values():
            name, whose = run.head.execution_id, above.head.execution_id
            if run.head.is_child and run.head.parent_run == above.head.run and name.startswith(f"{whose}/"):
                found += self._below(run, place + name[len(whose) :])
        return found

    def claim_execution(
        self, seen: Execution, token: str, owner: str, row: Checkpoint | None = None, graph: Any = None
    ) -> Claim | None:
        return self._take(seen, token, owner, row, graph, None)

    def delete_pending_interrupt_atomic(
        self, seen: Execution, token: str, owner: str, interrupt_id: str, row: Checkpoint, graph: Any = None
    ) -> Claim | None:
        return self._take(seen, token, owner, row, graph, interrupt_id)

    def _take(
        self, seen: Execution, token: str, owner: str, row: Checkpoint | None, graph: Any, answered: str | None
    ) -> Claim | None:
        head = {"epoch": seen.epoch + 1, "token": token, "owner": owner, "status": "running"}
        if graph is not None:
            head["graph"] = copy.deepcopy(graph)
        with self._shelf.lock:
            if self._advance(seen, seen.seq, row, head, answered) is False:
                return None
        return Claim(seen.execution_id, seen.run, seen.epoch + 1, token, seen.seq + (row is not None))

    def decide(self, seen: Execution, interrupt_id: str, row: Checkpoint, status: Status) -> bool:
        with self._shelf.lock:
            return self._advance(seen, seen.seq, row, _nobody(status), interrupt_id) is not False

    def cancel(self, seen: Execution, row: Checkpoint) -> bool:
        with self._shelf.lock:
            moved = self._advance(seen, seen.seq, row, _nobody("cancelled"))
            for key in [key for key in self._shelf.questions if moved and key[0] == seen.execution_id]:
                del self._shelf.questions[key]
            return moved is not False

    def renew(self, claims: Sequence[Claim]) -> None:
        with self._shelf.lock:
            for claim in claims:
                if self._holds(claim):
                    self._runs()[claim.execution_id].lease_until = self._now() + self.lease

    def release(self, claim: Claim) -> None:
        with self._shelf.lock:
            if self._holds(claim):
                run = self._runs()[claim.execution_id]
                run.head = replace(run.head, token=None, owner=None)

    def _holds(self, claim: Claim) -> bool:
        run = self._run(claim)
        return run is not None and (run.head.epoch, run.head.token) == (claim.epoch, claim.token)

    # -- rows --------------------------------------------------------------------------------------------------------

    def put(
        self, claim: Claim, row: Checkpoint, status: Status, *, keep: bool = False, clear_failed: str | None = None
    ) -> Checkpoint:
        with self._shelf.lock:
            self.record_interrupt(claim, row, (), status, keep=keep)
            effects = self._runs()[claim.execution_id].effects
            for record in [each for each in effects.values() if (each.path, each.status) == (clear_failed, "failed")]:
                del effects[record.key]
        return row

    def record_interrupt(
        self, claim: Claim, row: Checkpoint, pending: Iterable[PendingInterrupt], status: Status, *, keep: bool = False
    ) -> Checkpoint:
        head = {"status": status} if keep or status == "running" else _nobody(status)
        with self._shelf.lock:
            if self._advance(claim, row.seq - 1, row, head, asked=pending) is False:
                raise StaleRun(f"Run {claim.execution_id!r} no longer belongs to this call.")
        claim.seq = max(claim.seq, row.seq)
        return row

    def get_last(self, execution_id: str) -> Checkpoint | None:
        return next(iter(self.list(execution_id, limit=1)), None)

    def get_by_id(self, execution_id: str, checkpoint_id: str) -> Checkpoint | None:
        return next((row for row in self.list(execution_id) if row.checkpoint_id == checkpoint_id), None)

    def list_pending_interrupts(
        self, execution_id: str | None = None, *, limit: int | None = None
    ) -> list[PendingInterrupt]:
        with self._shelf.lock:
            self._runs()
            found = [each for (run, _), each in self._shelf.questions.items() if execution_id in (None, run)]
            return copy.deepcopy(found[:limit])

    # -- effects -----------------------------------------------------------------------------------------------------

    def begin_idempotent(self, claim: Claim, record: EffectRecord) -> EffectRecord | None:
        with self._shelf.lock:
            if not self._holds(claim):
                raise StaleRun(f"Run {claim.execution_id!r} no longer belongs to this call.")
            effects = self._runs()[claim.execution_id].effects
            known = effects.get(record.key)
            if known is not None and known.status in ("done", "unstorable"):
                return copy.deepcopy(known)
            epoch = self._runs()[claim.execution_id].head.epoch
            effects[record.key] = copy.deepcopy(replace(record, epoch=epoch))
            return None

    def put_idempotent(self, claim: Claim, record: EffectRecord) -> None:
        with self._shelf.lock:
            run = self._run(claim)
            known = None if run is None else run.effects.get(record.key)
            if alike(known, record):
                return
            begun = known is not None and (known.attempt, known.status) == (record.attempt, "started")
            if not begun or not self._holds(claim):
                raise StaleRun(f"Run {claim.execution_id!r} no longer belongs to this call.")
            self._runs()[claim.execution_id].effects[record.key] = copy.deepcopy(replace(record, epoch=known.epoch))

    def get_idempotent(self, execution_id: str, key: str) -> EffectRecord | None:
        return next((record for record in self.list_idempotent(execution_id) if record.key == key), None)

    def list_idempotent(self, execution_id: str) -> list[EffectRecord]:
        with self._shelf.lock:
            run = self._runs().get(execution_id)
            return copy.deepcopy(list(run.effects.values())) if run else []

    def list_unknown(self, execution_id: str) -> list[EffectRecord]:
        return [each for each in self.list_idempotent(execution_id) if each.status in ("started", "unknown")]

    def resolve_unknown(self, seen: Execution, record: EffectRecord, outcome: EffectRecord) -> bool:
        with self._shelf.lock:
            run = self._run(seen)
            known = None if run is None else run.effects.get(record.key)
            unknown = known is not None and known.status in ("started", "unknown") and known.attempt == record.attempt
            if not unknown or (run.head.epoch, run.head.token) != (seen.epoch, seen.token):
                return alike(known, outcome)
            run.effects[record.key] = copy.deepcopy(replace(outcome, epoch=known.epoch))
            return True

    # -- runs --------------------------------------------------------------------------------------------------------

    def get_execution(self, execution_id: str) -> Execution | None:
        with self._shelf.lock:
            run = self._runs().get(execution_id)
            return None if run is None else self._shown(run)

    def _shown(self, run: Run) -> Execution:
        live = run.head.owned and run.lease_until > self._now()
        return replace(copy.deepcopy(run.head), lease_live=live)

    def list_executions(
        self,
        *,
        status: Status | None = None,
        runner: str | None = None,
        parent: str | None = None,
        unfinished: bool = False,
        limit: int | None = None,
    ) -> list[Execution]:
        with self._shelf.lock:
            heads = [self._shown(run) for run in reversed(self._runs().values())]
        return [
            head
            for head in heads
            if status in (None, head.status) and runner in (None, head.runner) and (head.unfinished or not unfinished)
            if parent is None or head.parent_run in [head.run for head in heads if head.execution_id == parent]
        ][:limit]

    def delete_execution(self, seen: Sequence[Execution]) -> bool:
        with self._shelf.lock:
            for head in seen:
                self.release(Claim(head.execution_id, head.run, head.epoch, head.token or "", head.seq))
            found = [run.head for run in map(self._run, seen) if run is not None]
            as_seen = [(head.run, head.epoch, head.seq, None) for head in seen]
            if found and [(head.run, head.epoch, head.seq, head.token) for head in found] != as_seen:
                return False
            for head in found:
                self._remove(head)
            return True

    def _remove(self, head: Execution) -> None:
        del self._runs()[head.execution_id]
        for key in [key for key in self._shelf.questions if key[0] == head.execution_id]:
            del self._shelf.questions[key]

    def prune(
        self,
        older_than: timedelta,
        failed: timedelta | None = None,
        *,
        dry_run: bool = False,
        after: int = 0,
        limit: int | None = None,
    ) -> Pruned:
        ages = {"completed": age(older_than), "cancelled": age(older_than)}
        if failed is not None:
            ages["failed"] = age(failed)
        with self._shelf.lock:
            heads = [run.head for run in self._runs().values()]
            old = [
                h
                for h in map(self._shown, self._runs().values())
                if h.status in ages and not h.lease_live and self._now() - h.updated_at >= ages[h.status]
            ]
            there = {head.run for head in heads}
            roots = [h for h in old if h.run > after and not (h.is_child and h.parent_run in there)][:limit]
            counts: dict[str, int] = {}
            for root in roots:
                tree = [root]
                for above in tree:
                    tree += [h for h in heads if h.is_child and h.parent_run == above.run]
                for head in tree if {head.run for head in tree} <= {head.run for head in old} else ():
                    counts[head.runner] = counts.get(head.runner, 0) + 1
                    if not dry_run:
                        self._remove(head)
        more = limit is not None and 0 < limit == len(roots)
        return Pruned(counts, dry_run, roots[-1].run if more else None)

    def list(self, execution_id: str, *, limit: int | None = None) -> list[Checkpoint]:
        with self._shelf.lock:
            run = self._runs().get(execution_id)
            rows = [] if run is None else run.rows
            return copy.deepcopy(rows if limit is None else rows[len(rows) - min(limit, len(rows)) :])


def _nobody(status: Status) -> dict[str, Any]:
    return {"status": status, "token": None, "owner": None}


def alike(known: EffectRecord | None, record: EffectRecord) -> bool:
    """Whether two records say the same, types included; the epoch is the store's own."""
    return known is not None and repr(replace(known, epoch=0)) == repr(replace(record, epoch=0))
