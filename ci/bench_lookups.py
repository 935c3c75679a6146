"""Look-ups in a store with few rows and in one with many, on either database: they must take about as long."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING

from fastdur import Chain, idempotent, interrupt
from fastdur.checkpointers.protocol import Start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fastdur import Checkpointer

FEW, MANY = 10, 100_000
RUN = "r"

_OTHERS = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {rows})"
_FILL = (
    """INSERT INTO {t}executions (run, execution_id, runner, kind, start_token, created_at, status, epoch, seq,
    attempts, updated_at) {others} SELECT 1000 + n, 'other ' || n, 'other', 'chain', '', 1, 'completed', 1, 1, 0, 1
    FROM n""",
    "INSERT INTO {t}starts (run, graph, input) {others} SELECT 1000 + n, '{{}}', 'null' FROM n",
    """INSERT INTO {t}checkpoints (id, nonce, node_id, node_index, step_type, status, agent_path, base, size, body,
    created_at, format) {others} SELECT (1000 + n) * 4294967296 + 1, 'x', 'n', 1, 'node', 'completed', '', 1, 2, '{{}}',
    1, 1 FROM n""",
    """INSERT INTO {t}pending_interrupts (run, interrupt_id, runner, node_id, reason, context, agent_path, created_at)
    {others} SELECT 1000 + n, 'a', 'other', 'n', '', 'null', '', 1 FROM n""",
    """INSERT INTO {t}idempotency_cache (run, key, name, args, status, attempt, path, result, error, epoch)
    {others} SELECT 1000 + n, 'k', '', '', 'done', '', '', 'null', 'null', 1 FROM n""",
)


def fill(execute: Callable[[str], object], tables: str, rows: int) -> None:
    """Write that many runs of others into an empty store: each with its row, its question, its effect."""
    for text in _FILL:
        execute(text.format(t=tables, others=_OTHERS.format(rows=rows)))


def growing(stores: dict[int, Checkpointer]) -> Iterator[tuple[str, float]]:
    """How much longer each look-up takes in the store of many rows than in that of few."""
    looks: dict[int, dict[str, Callable[[], object]]] = {}
    for rows, store in stores.items():
        chain = Chain("asks", store).add_node("n", _node)
        chain.execute({}, RUN)
        (record,) = store.list_idempotent(RUN)
        looks[rows] = {
            "newest row": lambda store=store: store.get_last(RUN),
            "questions of a run": lambda store=store: store.list_pending_interrupts(RUN),
            "the oldest questions": lambda store=store: store.list_pending_interrupts(limit=10),
            "an effect's record": lambda store=store, key=record.key: store.get_idempotent(RUN, key),
            "unfinished runs": lambda store=store: store.list_executions(unfinished=True, limit=10),
            "what came from a run": lambda store=store: store.list_executions(parent=RUN),
            "a run that begins and is deleted": lambda store=store: _passing(store),
        }
    for name in looks[FEW]:
        took: dict[int, list[float]] = {FEW: [], MANY: []}
        for _ in range(200):
            for rows, times in took.items():
                began = time.perf_counter()
                looks[rows][name]()
                times.append(time.perf_counter() - began)
        yield name, median(took[MANY]) / median(took[FEW])


def _passing(store: Checkpointer) -> None:
    """A run that comes and goes."""
    store.start_execution(Start("passing", "x", "chain", None, {}, "token", "nobody"))
    head = store.get_execution("passing")
    assert head is not None
    store.delete_execution([head])


@idempotent
def _pay() -> None:
    """An effect."""


def _node(_state: dict[str, object]) -> None:
    _pay()
    interrupt("really?", None)
