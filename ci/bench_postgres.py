"""The figures of `bench.py` on Postgres: against one prepared, autocommitted INSERT on a server of its own."""

from __future__ import annotations

import os
import time
from statistics import median
from typing import TYPE_CHECKING

import psycopg
from bench_lookups import FEW, MANY, fill, growing

from fastdur import Chain, PostgresCheckpointer
from pytest_fastdur.postgres import start_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastdur import Checkpointer

STEPS = 1000
STATE = {"i": 0, "customer": "c" * 40, "amount": 120, "note": "x" * 80, "tags": ["a", "b"]}  # about 200 bytes


def figures(rounds: int) -> Iterator[tuple[str, float, str, float]]:
    """What, how much, in what unit, and at most how much it may be."""
    server = start_for(os.getpid(), wheel=True)
    try:
        for prepared, target in ((True, 1.3), (False, 1.3)):
            ratios = [_steps(server.dsn, prepared=prepared) / _floor(server.dsn) for _ in range(rounds)]
            name = "step on Postgres" if prepared else "step on Postgres as behind a pooler, no statement kept"
            yield f"{name}, against one commit", median(ratios), "x", target
        for name, ratio in _growing(server.dsn):
            yield f"Postgres: {name}, {MANY:,} rows against {FEW}", ratio, "x", 2
    finally:
        server.remove()


def _floor(dsn: str) -> float:
    """Seconds for bare inserts of the bytes of a row."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS t")
        connection.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, body TEXT)")
        body = "x" * 400
        began = time.perf_counter()
        for number in range(STEPS):
            connection.execute("INSERT INTO t VALUES (%s, %s)", (number, body), prepare=True)
        return time.perf_counter() - began


def _steps(dsn: str, *, prepared: bool) -> float:
    """Seconds for a run of as many steps."""
    store = PostgresCheckpointer(dsn, prepared=prepared)
    store.setup()
    chain = Chain("ring", store)
    for number in range(10):
        chain.add_node(f"n{number}", lambda state: {"i": state["i"] + 1})
    for number in range(9):
        chain.connect(f"n{number}", f"n{number + 1}")
    chain.connect("n9", "n0", when=lambda state: state["i"] < STEPS, max_iterations=STEPS)
    began = time.perf_counter()
    chain.execute(STATE)
    took = time.perf_counter() - began
    store.close()
    return took


def _growing(dsn: str) -> Iterator[tuple[str, float]]:
    """How look-ups take longer in a store with many rows."""
    stores: dict[int, Checkpointer] = {}
    for rows in (FEW, MANY):
        stores[rows] = PostgresCheckpointer(dsn, f"rows_{rows}")
        stores[rows].setup()
        with psycopg.connect(dsn, autocommit=True) as connection:
            fill(lambda text, connection=connection: connection.execute(text.encode()), f"rows_{rows}.", rows)
            connection.execute("ANALYZE")  # as the server does by itself
    yield from growing(stores)
    for store in stores.values():
        store.close()
