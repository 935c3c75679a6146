"""The store of fastdur on a Postgres server keeps the contract of a store."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from fastdur.checkpointers.postgres import PostgresCheckpointer
from pytest_fastdur.conformance import StoreSuite
from pytest_fastdur.wire import When, Wire

_STRIKES: dict[str, When] = {"lost-commit": "in", "lost-answer": "after"}


class TestPostgres(StoreSuite):
    """Every store of a test works on one empty schema, through a proxy that can fault what it sends."""

    capabilities = frozenset(("instances", "processes", "fork", "clock", "faults"))
    dsn: str
    wire: Wire
    schema: str

    def make_store(self, tmp_path: Path) -> PostgresCheckpointer:
        named = make_conninfo(self.wire.dsn, application_name=self.schema)
        return PostgresCheckpointer(named, self.schema, max_pool_size=8)

    def arm(self, store, fault):
        if fault in _STRIKES:
            self.wire.arm(_STRIKES[fault])
        elif fault == "down":
            store.busy_bound = 0.01
            self.wire.stop_listening()
            self.wire.cut()
        elif store.busy_bound != PostgresCheckpointer.busy_bound:
            store.busy_bound = PostgresCheckpointer.busy_bound
            self.wire.listen()

    def settle(self):
        """The server's side of a killed client's session ends after what it was last sent is done."""
        theirs = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s"
        with psycopg.connect(self.dsn, autocommit=True) as admin:
            while self.wire.connections or admin.execute(theirs, [self.schema]).fetchall():
                os.sched_yield()

    @pytest.fixture(autouse=True)
    def _on_a_server(self, fastdur_postgres):
        with fastdur_postgres.schemas() as fresh, Wire(fastdur_postgres.dsn) as wire:
            self.dsn, self.wire, self.schema = fastdur_postgres.dsn, wire, fresh()
            yield
