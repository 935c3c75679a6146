"""A small refund, right and wrong in every way that a sweep should notice."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from itertools import pairwise
from sqlite3 import OperationalError

from fastdur import Chain, Resume, RunInProgress, SQLiteCheckpointer, effect_key, idempotent, interrupt
from pytest_fastdur.sweep import Story

ANSWERS = {"approve": Resume(approved=True, metadata={"by": {"name": "grace", "roles": ["manager"]}})}
INPUT = {"amount": 120}


def check(state):
    return {"risk": state["amount"] > 100}


def review(state):
    answer = interrupt("approve", {"amount": state["amount"]})
    return {"approved": answer.approved, "by": answer.metadata}


def send(state):
    return {"sent": True}


def charging(ledger, *, keyed=True, recorded=True, name="charge", **options):
    """A node with one effect: recorded or not, its provider told the key or not."""
    provider = ledger.wrap(name, lambda amount, key: None)

    def body(amount):
        provider(amount, effect_key() if keyed and recorded else None)

    charge = idempotent(name=name, **options)(body) if recorded else body

    def pay(state):
        charge(state["amount"])
        return {"charged": True}

    return pay


def chain(store, *nodes, kind=Chain):
    made = kind("refund", store)
    for name, fn in nodes:
        made.add_node(name, fn)
    for (one, _), (other, _) in pairwise(nodes):
        made.connect(one, other)
    return made


def refund(ledger, *, pay=None, nodes=None, store=SQLiteCheckpointer, kind=Chain, **more):
    """The story; `nodes` replaces or adds nodes by name."""
    given = {
        "check": check,
        "review": review,
        "pay": pay or charging(ledger),
        "send": send,
        **(nodes or {}),
    }
    more.setdefault("effects", {"charge": "exactly-once"})
    return Story(
        "refund",
        lambda handle: chain(handle, *given.items(), kind=kind),
        input=INPUT,
        answers=ANSWERS,
        ledger=ledger,
        store=store,
        **more,
    )


def raw(store, sql, *values):
    """What no store does by itself."""
    return store._write(lambda session: session.change(sql, values))


class Gapped(SQLiteCheckpointer):
    """Drops the first row when a run is carried on."""

    def claim_execution(self, seen, *args, **kwargs):
        raw(self, "DELETE FROM checkpoints WHERE id = ?", (seen.run << 32) + 1)
        return super().claim_execution(seen, *args, **kwargs)


class WriteBehind(SQLiteCheckpointer):
    """Says that a row is stored, and stores it with the next call."""

    held = None

    def put(self, claim, row, status, **kwargs):
        self.flush()
        if status != "running":
            return super().put(claim, row, status, **kwargs)
        self.held = (replace(claim), row, status, kwargs)
        claim.seq, claim.tail = row.seq, None
        return row

    def flush(self):
        if self.held is not None:
            (claim, row, status, kwargs), self.held = self.held, None
            super().put(claim, row, status, **kwargs)

    def record_interrupt(self, *args, **kwargs):
        self.flush()
        return super().record_interrupt(*args, **kwargs)

    def list_pending_interrupts(self, *args, **kwargs):
        self.flush()
        return super().list_pending_interrupts(*args, **kwargs)

    def close(self):
        self.flush()
        super().close()


class Rewriting(SQLiteCheckpointer):
    """Tidies the first row up when a run is carried on."""

    def claim_execution(self, seen, *args, **kwargs):
        raw(self, "UPDATE checkpoints SET node_index = 99 WHERE id = ?", (seen.run << 32) + 1)
        return super().claim_execution(seen, *args, **kwargs)


class Forgetful(SQLiteCheckpointer):
    """Takes a question at once and keeps its answer in memory until the next row is written."""

    held = None

    def delete_pending_interrupt_atomic(self, seen, token, owner, interrupt_id, row, graph=None):
        self.held = row
        if not raw(self, "DELETE FROM pending_interrupts WHERE interrupt_id = ?", interrupt_id):
            return None
        claim = self.claim_execution(seen, token, owner)
        claim.seq, claim.tail = row.seq, None
        return claim

    def put(self, claim, row, status, **kwargs):
        if self.held is not None:
            held, self.held = self.held, None
            super().put(replace(claim, seq=held.seq - 1), held, "running")
        return super().put(claim, row, status, **kwargs)


class Immortal(SQLiteCheckpointer):
    """Does not see that an owner is dead."""

    def get_execution(self, execution_id):
        head = super().get_execution(execution_id)
        return head and replace(head, owner=head.owner and "another:machine:1:1")


class Amnesiac(SQLiteCheckpointer):
    """Forgets what was done when a run is carried on."""

    def list_idempotent(self, execution_id):
        return []

    def begin_idempotent(self, claim, record):
        raw(self, "DELETE FROM idempotency_cache WHERE key = ?", record.key)
        return super().begin_idempotent(claim, record)


class Haunted(SQLiteCheckpointer):
    """Asks the first question again when a run is carried on, and does not wait for the answer."""

    def claim_execution(self, seen, *args, **kwargs):
        claim = super().claim_execution(seen, *args, **kwargs)
        if seen.seq < 3:
            return claim
        sql = """INSERT INTO pending_interrupts
            (run, interrupt_id, runner, node_id, reason, context, agent_path, created_at)
            VALUES (?, 'old#1/1', 'refund', 'old', '"old"', 'null', '', 0)"""
        raw(self, sql, seen.run)
        return claim


class Leaky(SQLiteCheckpointer):
    """Lets an error of its driver out, the first time that a run is carried on."""

    failed = False

    def claim_execution(self, seen, *args, **kwargs):
        if not Leaky.failed:
            Leaky.failed = True
            raise OperationalError("database is locked")
        return super().claim_execution(seen, *args, **kwargs)


class Endless(SQLiteCheckpointer):
    """Says to whoever would carry a run on that somebody was faster, again and again."""

    faster = 0

    def get_execution(self, execution_id):
        head = super().get_execution(execution_id)
        return head and dataclasses.replace(head, epoch=head.epoch + self.faster)

    def claim_execution(self, *args, **kwargs):
        self.faster += 1


class Grumpy(SQLiteCheckpointer):
    """Refuses to carry a run on, once, and takes a note of it."""

    asked = False

    @classmethod
    def calm(cls):
        cls.asked = False

    def claim_execution(self, seen, *args, **kwargs):
        if not Grumpy.asked:
            Grumpy.asked = True
            raw(
                self,
                "INSERT INTO idempotency_cache VALUES (99, ?, 'k', 'note', '', 'done', '', '', '1', '0', 1)",
                seen.run,
            )
            raise RunInProgress(seen.execution_id)
        return super().claim_execution(seen, *args, **kwargs)


class Scribbling(SQLiteCheckpointer):
    """Writes nonsense over the first row when a run is carried on."""

    def claim_execution(self, seen, *args, **kwargs):
        claim = super().claim_execution(seen, *args, **kwargs)
        raw(self, "UPDATE checkpoints SET body = '{' WHERE id = ?", (seen.run << 32) + 1)
        return claim
