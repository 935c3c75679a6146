"""A refund without any engine, over a plain database: charge, wait for an approval, finish. One right, others wrong."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import psycopg


class Refund:
    """Every step is one transaction, and the provider is told the same key each time."""

    key = "refund-1"

    def connect(self, outside):
        return closing(sqlite3.connect(outside.folder / "refund.db", timeout=0))

    def start(self, outside):
        with self.connect(outside) as db:
            db.execute("CREATE TABLE IF NOT EXISTS refund (id INTEGER PRIMARY KEY, state TEXT, result TEXT)")
            db.execute("INSERT INTO refund VALUES (1, 'running', NULL) ON CONFLICT DO NOTHING")
            db.commit()
            self.charge(db, outside)

    def charge(self, db, outside):
        outside.effect("charge", self.key)
        db.execute("UPDATE refund SET state = 'paused' WHERE state = 'running'")
        db.commit()

    def approve(self, db, outside):
        db.execute("UPDATE refund SET state = 'completed', result = 'paid' WHERE state = 'paused'")
        db.commit()

    def resume(self, outside):
        with self.connect(outside) as db:
            if self.read(db)[0] == "running":
                self.charge(db, outside)
            else:
                self.approve(db, outside)

    def read(self, db):
        return db.execute("SELECT state, result FROM refund").fetchone()

    def status(self, outside):
        with self.connect(outside) as db:
            try:
                return self.read(db) or ("unstarted", None)
            except (sqlite3.OperationalError, psycopg.errors.UndefinedTable):
                return "unstarted", None


class Unkeyed(Refund):
    """The provider cannot know a repeat."""

    key = None


class Stranding(Refund):
    """The approval is taken in one transaction, and used in another."""

    def approve(self, db, outside):
        taken = db.execute("UPDATE refund SET state = 'running', result = 'approved' WHERE state = 'paused'")
        db.commit()
        if not taken.rowcount:
            raise LookupError("nothing waits for an approval")
        db.execute("UPDATE refund SET state = 'completed', result = 'paid'")
        db.commit()

    def resume(self, outside):
        with self.connect(outside) as db:
            self.approve(db, outside)

    def charge(self, db, outside):
        db.execute("UPDATE refund SET state = 'paused' WHERE state = 'running'")
        db.commit()


class Forgetful(Refund):
    """The result is written after the end."""

    def approve(self, db, outside):
        db.execute("UPDATE refund SET state = 'completed'")
        db.commit()
        db.execute("UPDATE refund SET result = 'paid'")
        db.commit()


class Racing(Refund):
    """Whoever reads that the refund waits pays it out: a read, and then a write."""

    def approve(self, db, outside):
        outside.effect("pay")
        super().approve(db, outside)


class OnPostgres(Refund):
    """The same, right, on a server."""

    def connect(self, outside):
        return psycopg.connect(outside.dsn)


class UnkeyedOnPostgres(OnPostgres):
    """The provider cannot know a repeat."""

    key = None


class StrandingOnPostgres(Stranding, OnPostgres):
    """The approval is taken in one transaction, and used in another."""


class ForgetfulOnPostgres(Forgetful, OnPostgres):
    """The result is written after the end."""
