"""What durability costs, as ratios to the bare driver with the same durability, taken in one run on one machine.

    python ci/bench.py [--only WORD] [--rounds N] [--dir FOLDER]

A floor is one INSERT of the same bytes into a table with one integer key, and its commit, on a kept connection. Rounds
of the floor and of fastdur alternate, and the median of the ratios counts, so that a slow minute of the machine hits
both. Exit status 1 where a figure misses its target.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

import bench_agents
import bench_plugin
import bench_postgres
from bench_lookups import FEW, MANY, fill, growing

from fastdur import Chain, SQLiteCheckpointer, idempotent, prune

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fastdur import Checkpointer

Durability = Literal["full", "normal"]
STEPS = 1000
STATE = {"i": 0, "customer": "c" * 40, "amount": 120, "note": "x" * 80, "tags": ["a", "b"]}  # about 200 bytes


@dataclass(frozen=True)
class Figure:
    """One line of the table."""

    what: str
    value: float
    unit: str
    target: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        """Whether the target is reached."""
        return self.value >= self.target if self.at_least else self.value <= self.target

    def __str__(self) -> str:
        """The line."""
        bound = "at least" if self.at_least else "at most"
        mark = "ok" if self.met else "MISSED"
        return f"{self.what:<58} {self.value:>9.2f} {self.unit:<7} {bound:>8} {self.target:<7g} {mark}"


class Bench:
    """Where and how often to measure."""

    def __init__(self, folder: Path, rounds: int) -> None:
        self.folder, self.rounds, self._files = folder, rounds, 0

    def file(self) -> Path:
        """The path of a fresh database."""
        self._files += 1
        return self.folder / f"{self._files}.db"

    def store(self, durability: Durability = "full") -> SQLiteCheckpointer:
        """A fresh store, set up."""
        store = SQLiteCheckpointer(self.file(), durability)
        store.setup()
        return store

    def ratio(self, ours: Callable[[], float], floor: Callable[[], float]) -> float:
        """The median of the ratios, pair by pair."""
        return median(ours() / floor() for _ in range(self.rounds))

    def floor(self, durability: Durability, size: int, count: int = STEPS) -> float:
        """Seconds for `count` bare inserts of `size` bytes, each committed."""
        connection = sqlite3.connect(self.file(), isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {durability}")
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT)")
        body = "x" * size
        began = time.perf_counter()
        for number in range(count):
            connection.execute("INSERT INTO t VALUES (?, ?)", (number, body))
        took = time.perf_counter() - began
        connection.close()
        return took


def count_up(state: dict[str, Any]) -> dict[str, Any]:
    """One step."""
    return {"i": state["i"] + 1}


def ring(store: SQLiteCheckpointer | Literal[False], step: Callable[..., Any] = count_up, steps: int = STEPS) -> Chain:
    """A chain of ten nodes in a ring that is walked until `steps` of them have run."""
    chain = Chain("ring", store)
    for number in range(10):
        chain.add_node(f"n{number}", step)
    for number in range(9):
        chain.connect(f"n{number}", f"n{number + 1}")
    return chain.connect("n9", "n0", when=lambda state: state["i"] < steps, max_iterations=steps)


def line(store: SQLiteCheckpointer, step: Callable[..., Any] = count_up, steps: int = STEPS) -> Chain:
    """A chain of `steps` nodes, one after another."""
    chain = Chain("line", store)
    for number in range(steps):
        chain.add_node(f"n{number}", step)
    for number in range(steps - 1):
        chain.connect(f"n{number}", f"n{number + 1}")
    return chain


def timed(run: Callable[[], Any]) -> float:
    """Seconds that `run` takes."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


# -- what is measured --------------------------------------------------------------------------------------------------


def steps(bench: Bench) -> Iterator[Figure]:
    """A step of a 1,000-step chain with a 200-byte state, against one commit."""
    where: list[tuple[str, Durability, float]] = [("FULL", "full", 1.3), ("NORMAL", "normal", 3.0)]
    for build in (ring, line):
        for name, durability, target in where:

            def ours(build: Any = build, durability: Durability = durability) -> float:
                store = bench.store(durability)
                chain = build(store)
                took = timed(lambda: chain.execute(STATE))
                store.close()
                return took

            size = _row_bytes(bench, build)
            value = bench.ratio(ours, lambda durability=durability, size=size: bench.floor(durability, size))
            yield Figure(f"step, {build.__name__} of 1,000, {name}, against one commit", value, "x", target)


def _row_bytes(bench: Bench, build: Callable[..., Chain]) -> int:
    """What a row of such a chain weighs on average."""
    store = bench.store("normal")
    build(store).execute(STATE)
    location = store.location
    store.close()
    connection = sqlite3.connect(location)
    columns = [row[1] for row in connection.execute("PRAGMA table_info(checkpoints)")]
    weight = " + ".join(f"coalesce(length({name}), 0)" for name in columns)
    (size,) = connection.execute(f"SELECT avg({weight}) FROM checkpoints").fetchone()  # noqa: S608 - names of columns
    connection.close()
    return int(size)


def growth(bench: Bench) -> Iterator[Figure]:
    """1,000 steps that append 1 KB each to a list of strings."""
    text = "x" * 1000
    marks: list[float] = []

    def append(state: dict[str, Any]) -> None:
        marks.append(time.perf_counter())
        state["items"].append(text)
        state["i"] += 1

    floors, took, sizes, tenths, resumes = [], [], [], [], []
    for _ in range(bench.rounds):
        marks.clear()
        floors.append(bench.floor("full", 1050))
        store = bench.store()
        chain = ring(store, append)
        result = chain.execute({"i": 0, "items": []})
        took.append(marks[-1] - marks[0])
        tenths.append((marks[-1] - marks[-101]) / (marks[100] - marks[0]))
        location = store.location
        store.close()
        sizes.append(sum(file.stat().st_size for file in Path(location).parent.glob(Path(location).name + "*")))
        resumes.append(_resume_against_reading(location, result.execution_id))
    yield Figure("growing state: bytes stored against bytes appended", median(sizes) / (STEPS * 1000), "x", 4)
    against = median(t / f for t, f in zip(took, floors, strict=True))
    yield Figure("growing state: step FULL, against a 1 KB row", against, "x", 2.5)
    yield Figure("growing state: last tenth against first", median(tenths), "x", 1.5)
    yield Figure("growing state: reading the newest row of 1 MB, against its bytes", median(resumes), "x", 3)


def _resume_against_reading(location: str, execution_id: str) -> float:
    """The newest row in frames, against selecting and parsing the same bytes."""
    connection = sqlite3.connect(location)

    def bare() -> list[Any]:
        return [json.loads(body) for (body,) in connection.execute("SELECT body FROM checkpoints ORDER BY id")]

    store = SQLiteCheckpointer(location)
    store.get_execution(execution_id)
    ratio = median(timed(lambda: store.get_last(execution_id)) / timed(bare) for _ in range(5))
    store.close()
    connection.close()
    return ratio


RESUMES = """
import sys, fastdur
sys.path.insert(0, {folder!r})
import story
result = story.build(fastdur.SQLiteCheckpointer({path!r})).resume("crashed")
assert result.status == "completed", result
"""
STORY = """
import fastdur
def build(store):
    return (fastdur.Chain("two", store).add_node("a", lambda state: {"a": 1}).add_node("b", lambda state: {"b": 2})
            .connect("a", "b"))
"""
DIES = """
import os, sys, fastdur
sys.path.insert(0, {folder!r})
import story
def die(boundary):
    if str(boundary) == "before node b":
        os._exit(9)
with fastdur.observe(die):
    story.build(fastdur.SQLiteCheckpointer({path!r})).execute({{}}, "crashed")
"""


def start_up(bench: Bench) -> Iterator[Figure]:
    """From the start of a process to the resumed step; the import; the plugin."""
    (bench.folder / "story.py").write_text(STORY)
    took = []
    for _ in range(bench.rounds + 4):
        names = {"folder": str(bench.folder), "path": str(bench.file())}
        subprocess.run([sys.executable, "-c", DIES.format(**names)], check=False)
        code = RESUMES.format(**names)
        took.append(timed(lambda code=code: subprocess.run([sys.executable, "-c", code], check=True)))
    yield Figure("process start to the end of a resumed run", median(took) * 1000, "ms", 120)
    imported, bare = [], []
    for _ in range(2 * bench.rounds + 5):
        bare.append(timed(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True)))
        imported.append(timed(lambda: subprocess.run([sys.executable, "-c", "import fastdur"], check=True)))
    yield Figure("import fastdur, above a bare interpreter", (median(imported) - median(bare)) * 1000, "ms", 60)
    yield Figure("the plugin on an empty pytest run, processor time", plugin_load(bench), "ms", 5)


def plugin_load(bench: Bench) -> float:
    """What the plugin adds to an empty run of pytest, in milliseconds of one core.

    As a process of an installed package starts, which has its bytecode: that of modules that pytest rewrites is written
    by the first run, so a run of each kind goes before. The two kinds take turns, and which is first alternates.
    """
    empty = bench.folder / "empty"
    empty.mkdir()
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(bench.folder / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    pytest = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", "."]

    def used(*options: str) -> float:
        before = getrusage(RUSAGE_CHILDREN)
        subprocess.run([*pytest, *options], check=False, capture_output=True, cwd=empty, env=environment)
        after = getrusage(RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    kinds = (((), []), (("-p", "no:fastdur"), []))
    with_plugin, without = (kept for _, kept in kinds)
    for number in range(4 * bench.rounds + 11):
        for options, kept in kinds if number % 2 else kinds[::-1]:
            kept.append(used(*options))
    return (median(with_plugin[1:]) - median(without[1:])) * 1000


def effects(bench: Bench) -> Iterator[Figure]:
    """An effect that is recorded already, and one that runs."""
    calls = 500
    times: dict[str, list[float]] = {"first": [], "hit": [], "commit": []}

    @idempotent
    def charge(number: int, customer: str) -> dict[str, Any]:
        return {"number": number, "customer": customer}

    def node(_: dict[str, Any]) -> None:
        times["first"].append(timed(lambda: [charge(number, "c") for number in range(calls)]) / calls)
        times["hit"].append(timed(lambda: [charge(number, "c") for number in range(calls)]) / calls)

    for _ in range(bench.rounds):
        times["commit"].append(bench.floor("full", 300, calls) / calls)
        store = bench.store()
        Chain("effects", store).add_node("charge", node).execute({})
        store.close()
    pairs = zip(times["first"], times["commit"], strict=True)
    against = median(one / (2 * two) for one, two in pairs)
    yield Figure("effect, first call FULL, against two commits", against, "x", 2.2)
    yield Figure("effect, recorded already", median(times["hit"]) * 1e6, "us", 10)
    yield Figure("effect, recorded, 20 KB of arguments, against JSON and hash", _big(bench), "x", 4)


def _big(bench: Bench) -> float:
    """A recorded call with 20 KB of arguments, against the least that could tell it from another."""
    order = {"lines": [{"text": "x" * 100, "number": number} for number in range(160)]}
    ratios: list[float] = []

    @idempotent
    def ship(order: dict[str, Any]) -> int:
        return len(order)

    def node(_: dict[str, Any]) -> None:
        ship(order)
        for _ in range(bench.rounds * 10):
            least = timed(lambda: sha256(json.dumps(order, sort_keys=True).encode()).hexdigest())
            ratios.append(timed(lambda: ship(order)) / least)

    Chain("big", checkpointer=False).add_node("ship", node).execute({})
    return median(ratios)


def threads(bench: Bench) -> Iterator[Figure]:
    """Eight runs on one file at once against one run alone."""
    ratios = []
    for _ in range(bench.rounds):
        store = bench.store()
        one = 300 / timed(lambda store=store: ring(store, steps=300).execute(STATE))
        workers = [threading.Thread(target=ring(store, steps=300).execute, args=(STATE,)) for _ in range(8)]

        def all_at_once(workers: list[threading.Thread] = workers) -> None:
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()

        ratios.append(8 * 300 / timed(all_at_once) / one)
        store.close()
    yield Figure("8 threads on one file FULL: steps a second against one", median(ratios), "x", 2, at_least=True)


def event_loop(bench: Bench) -> Iterator[Figure]:
    """What the async driver adds to a step, and how long it keeps the loop from others."""
    hops, gaps = [], []

    async def step(state: dict[str, Any]) -> dict[str, Any]:
        return {"i": state["i"] + 1}

    async def measure(store: SQLiteCheckpointer) -> tuple[float, float]:
        longest, running = 0.0, True

        async def tick() -> None:
            nonlocal longest
            while running:
                began = time.perf_counter()
                await asyncio.sleep(0.001)
                longest = max(longest, time.perf_counter() - began - 0.001)

        ticker = asyncio.create_task(tick())
        chain = ring(store, step, 300)
        began = time.perf_counter()
        await chain.aexecute(STATE)
        took = time.perf_counter() - began
        running = False
        await ticker
        return took / 300, longest

    for _ in range(bench.rounds):
        store = bench.store()
        sync = timed(lambda store=store: ring(store, steps=300).execute(STATE)) / 300
        took, longest = asyncio.run(measure(store))
        hops.append(took - sync)
        gaps.append(longest)
        store.close()
    yield Figure("async driver: what a step takes more than a sync one", median(hops) * 1000, "ms", 0.2)
    yield Figure("async driver: the loop's longest pause", median(gaps) * 1000, "ms", 5)


def agents(bench: Bench) -> Iterator[Figure]:
    """1,000 turns of an agent, each with a tool that returns 1 KB: two rows a turn."""
    found = [
        (bench.floor("full", bench_agents.SIZE, 2 * bench_agents.TURNS), bench_agents.talk(bench.store()))
        for _ in range(bench.rounds)
    ]
    against = median(talk.seconds / floor for floor, talk in found)
    yield Figure("agent: turn without its model, FULL, against its two commits", against, "x", 1.3)
    yield Figure("agent: last tenth of 1,000 turns against first", median(talk.tenths for _, talk in found), "x", 1.5)
    said = bench_agents.TURNS * bench_agents.SIZE
    yield Figure("agent: bytes stored against bytes said", median(talk.stored for _, talk in found) / said, "x", 4)
    resumes = [_resume_against_reading(talk.location, talk.execution_id) for _, talk in found]
    yield Figure("agent: reading the newest row of 1,000 turns, against its bytes", median(resumes), "x", 3)


def lives(bench: Bench) -> Iterator[Figure]:
    """A branch costs its first row and its input, however long the history is; old runs go at the speed of a write."""
    with closing(bench.store()) as store:
        chain, big = ring(store), {**STATE, "big": "x" * 1_000_000}
        chain.execute(big, "long")
        chain.execute({**big, "i": STEPS - 10}, "short")
        store.rest()
        before = Path(store.location).stat().st_size
        took = [[timed(lambda run=run: chain.fork(run)) for run in ("long", "short")] for _ in range(bench.rounds)]
        store.rest()
        grown = (Path(store.location).stat().st_size - before) / bench.rounds / 2
        yield Figure("a fork of 1 MB, input and state: bytes written of these", grown / 2_000_000, "x", 1.1)
        yield Figure("a fork after 1,000 rows, to one after 10", median(long / short for long, short in took), "x", 1.3)
        yield Figure("a fork of 1 MB after 1,000 rows", 1000 * median(long for long, _ in took), "ms", 400)
    with closing(bench.store("normal")) as store:
        brief = line(store, steps=3)
        for _ in range(STEPS):
            brief.execute(STATE)
        seconds = timed(lambda: prune(timedelta(0), store))
        yield Figure("runs pruned, four rows each", STEPS / seconds, "1/s", 1000, at_least=True)


def look_ups(bench: Bench) -> Iterator[Figure]:
    """Stores of others' rows, few and many."""
    stores: dict[int, Checkpointer] = {}
    for rows in (FEW, MANY):
        store = stores[rows] = bench.store()
        connection = sqlite3.connect(store.location, isolation_level=None)
        fill(connection.execute, "", rows)
        connection.close()
    for name, ratio in growing(stores):
        yield Figure(f"SQLite: {name}, {MANY:,} runs against {FEW}", ratio, "x", 2)


def postgres(bench: Bench) -> Iterator[Figure]:
    """The same on a Postgres server of its own."""
    for what, value, unit, target in bench_postgres.figures(bench.rounds):
        yield Figure(what, value, unit, target)


def plugin(bench: Bench) -> Iterator[Figure]:
    """How many crashes a second a sweep plays: the best of the rounds."""
    rounds = [list(bench_plugin.crashes()) for _ in range(bench.rounds)]
    for figures in zip(*rounds, strict=True):
        what, _, unit, target = figures[0]
        yield Figure(what, max(value for _, value, _, _ in figures), unit, target, at_least=True)


SECTIONS: dict[str, Callable[[Bench], Iterator[Figure]]] = {
    "steps": steps,
    "growth": growth,
    "startup": start_up,
    "effects": effects,
    "threads": threads,
    "loop": event_loop,
    "agents": agents,
    "lives": lives,
    "lookups": look_ups,
    "postgres": postgres,
    "plugin": plugin,
}


def main() -> int:
    """Measure, print a line each, and say whether every target is met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=sorted(SECTIONS), help="one section")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each figure (default 5)")
    parser.add_argument("--dir", type=Path, help="where the databases go (default: the working directory's disk)")
    given = parser.parse_args()
    versions = f"Python {sys.version.split()[0]}, SQLite {sqlite3.sqlite_version}"
    print(f"{versions}, {os.cpu_count()} cores, medians of {given.rounds} rounds")
    missed = 0
    with tempfile.TemporaryDirectory(dir=given.dir or Path.cwd(), prefix=".bench-") as folder:
        for name, section in SECTIONS.items():
            if given.only in (None, name):
                (Path(folder) / name).mkdir()
                for figure in section(Bench(Path(folder) / name, given.rounds)):
                    print(figure, flush=True)
                    missed += not figure.met
    print(f"{missed} missed" if missed else "every target is met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
