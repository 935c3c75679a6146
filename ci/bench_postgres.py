"""The figures of `bench.py` on Postgres: against one prepared, autocommitted INSERT on a server of its own."""

from __future__ import annotations

import os
import time
from statistics import median
from typing import TYPE_CHECKING, Any

import psycopg

from fastdur import Chain, PostgresCheckpointer
from pytest_fastdur.postgres import start_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STEPS = 1000
STATE = {"i": 0, "customer": "c" * 40, "amount": 120, "note": "x" * 80, "tags": ["a", "b"]}  # about 200 bytes
FEW, MANY = 10, 100_000


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
    took: dict[str, list[float]] = {}
    for rows in (FEW, MANY):
        store = PostgresCheckpointer(dsn, f"rows_{rows}")
        chain = Chain("one", store).add_node("n", lambda _: {"x": 1})
        chain.execute(STATE, "r")
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f"SET search_path = rows_{rows}")
            _fill(connection, rows)
        calls: dict[str, Callable[[], Any]] = {
            "newest row": lambda store=store: store.get_last("r"),
            "pending questions of a run": lambda store=store: store.list_pending_interrupts("r"),
            "an effect's record": lambda store=store: store.get_idempotent("r", "k"),
        }
        for name, call in calls.items():
            took.setdefault(name, []).append(median(_timed(call) for _ in range(200)))
        store.close()
    for name, (few, many) in took.items():
        yield name, many / few


def _fill(connection: psycopg.Connection[Any], rows: int) -> None:
    """Rows, questions and effects of other runs."""
    connection.execute(
        "INSERT INTO checkpoints (id, nonce, node_id, node_index, step_type, status, agent_path, base, size, body,"
        " created_at, format) SELECT (1000 + n)::bigint << 32 | 1, 'x', 'n', 1, 'node', 'completed', '', 1, 2, '{}', 1,"
        " 1 FROM generate_series(1, %s) AS n",
        (rows,),
    )
    connection.execute(
        "INSERT INTO pending_interrupts (run, interrupt_id, runner, node_id, reason, context, agent_path, created_at)"
        " SELECT 1000 + n, 'a', 'r', 'n', '', 'null', '', 1 FROM generate_series(1, %s) AS n",
        (rows,),
    )
    connection.execute(
        "INSERT INTO idempotency_cache (run, key, name, args, status, attempt, path, result, error)"
        " SELECT 1000 + n, 'k', '', '', 'done', '', '', 'null', 'null' FROM generate_series(1, %s) AS n",
        (rows,),
    )
    connection.execute("ANALYZE")


def _timed(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
