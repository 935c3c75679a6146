"""A process that works on runs with one effect in them: `BACKEND WHERE SCHEMA LEDGER HOW POLICY`.

The policy `async` is `rerun` for an async effect.

`freeze`: starts run after run and stops itself in each, before the effect; whoever wakes it has taken the run over.
`die`: starts one run and kills itself between the body of the effect and its record.
`hold`: starts one run and stops itself in the body of a transactional effect, after its first statement.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from fastdur import (
    Chain,
    Happened,
    InTransaction,
    NotHappened,
    PostgresCheckpointer,
    SQLiteCheckpointer,
    StaleRun,
    carry,
    effect_key,
    idempotent,
    observe,
    transaction,
)
from tests.unit.books import Books

ROUNDS = 100
CALLERS = 8


def opened(backend, where, schema, **options):
    if backend == "sqlite":
        return SQLiteCheckpointer(where, **options)
    return PostgresCheckpointer(where, schema, 1, 4, **options)


def ledger_of(path):
    """What happened, as the provider counts it."""
    return [line.split() for line in Path(path).read_text().splitlines()] if Path(path).exists() else []


def effect(ledger, policy="rerun"):
    """Writes a line that outlives the process: the run, and what the provider was told."""

    def ask(key, run):
        return Happened(run) if [run, key] in ledger_of(ledger) else NotHappened

    def pay(run):
        end = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(end, f"{run} {effect_key()}\n".encode())
        os.fsync(end)
        os.close(end)
        return run

    async def apay(run):
        return pay(run)

    body = apay if policy == "async" else pay
    on_unknown = {"ask": ask, "async": "rerun"}.get(policy, policy)
    return idempotent(name="pay", on_unknown=on_unknown)(body)


def crowd(pay, before):
    """A node that calls one effect from eight threads and eight tasks at once; an async one in a loop of each thread."""
    awaited = asyncio.iscoroutinefunction(pay)

    async def a(state):
        before()
        run, carried = state["run"], carry(pay)
        apart = (lambda: asyncio.run(carried(run))) if awaited else (lambda: carried(run))
        with ThreadPoolExecutor(CALLERS) as pool:
            threads = [asyncio.wrap_future(pool.submit(apart)) for _ in range(CALLERS)]
            tasks = [asyncio.create_task(pay(run) if awaited else asyncio.to_thread(pay, run)) for _ in range(CALLERS)]
            ended = await asyncio.gather(*threads, *tasks, return_exceptions=True)
        return {"ended": [repr(each) for each in ended]}

    return a


def chain(store, node):
    return Chain("race", store).add_node("a", node)


def freeze(store, ledger, policy):
    made = chain(store, crowd(effect(ledger, policy), lambda: os.kill(os.getpid(), signal.SIGSTOP)))
    for number in range(ROUNDS):
        run = f"r{number}"
        with suppress(StaleRun):
            asyncio.run(made.aexecute({"run": run}, execution_id=run))
            sys.exit(f"the run {run} was carried on by an owner that had been replaced")


def die(store, ledger, policy):
    def look(boundary):
        if str(boundary) == "after effect pay@a":
            os.kill(os.getpid(), signal.SIGKILL)

    pay = effect(ledger, policy)
    with observe(look):
        chain(store, lambda state: {"paid": pay(state["run"])}).execute({"run": "r"}, execution_id="r")


def line(books, after=lambda: None):
    """A transactional effect that can write its line only once, whoever writes it."""

    @idempotent(name="line", transactional=True)
    def write():
        books.insert(transaction(), 5, id=1)
        after()
        return 5

    return write


def hold(store):
    write = line(Books(store, made=True), lambda: os.kill(os.getpid(), signal.SIGSTOP))
    with suppress(StaleRun, InTransaction):
        chain(store, lambda state: {"paid": write()}).execute({}, execution_id="r")
        sys.exit("what an owner wrote that had been replaced was kept")


def main():
    backend, where, schema, ledger, how, policy = sys.argv[1:]
    store = opened(backend, where, schema, lease=1.0 if how == "hold" else 30.0)
    if how == "freeze":
        freeze(store, ledger, policy)
    elif how == "hold":
        hold(store)
    else:
        die(store, ledger, policy)


if __name__ == "__main__":
    main()
