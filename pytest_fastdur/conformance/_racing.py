"""THREAD, INSTANCE, PROCESS, FORK: several at once, one winner, and nobody sees half a write."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from fastdur.errors import RunExists, StaleRun
from pytest_fastdur.conformance._bench import Bench, forked
from pytest_fastdur.conformance._clause import Group, clause
from pytest_fastdur.conformance._made import (
    answer,
    copy_of,
    effect,
    everything,
    head,
    pause,
    paused,
    question,
    row,
    start,
    states,
)

if TYPE_CHECKING:
    from fastdur.checkpointers.protocol import Checkpointer
    from fastdur.records import Claim, Execution

_ROUNDS: Final = 5
_RACERS: Final = 4
_ROWS: Final = 12


def _starts(store: Checkpointer, name: str, racer: object) -> str:
    try:
        start(store, name, token=f"t{racer}", owner=f"o{racer}")
    except RunExists:
        return "lost"
    return "won"


def _claims(store: Checkpointer, seen: Execution, racer: object) -> str:
    claim = store.claim_execution(seen, f"t{racer}", f"o{racer}")
    return "won" if claim else "lost"


def _claims_by(stores: list[Checkpointer], seen: Execution, racer: int) -> str:
    return _claims(stores[racer], seen, racer)


def _answers(store: Checkpointer, seen: Execution, racer: object) -> str:
    decision = answer(seen, {"by": racer}, nonce=f"answer{racer}")
    claim = store.delete_pending_interrupt_atomic(seen, f"t{racer}", f"o{racer}", "ask#1/1", decision)
    return "won" if claim else "lost"


def _appends(store: Checkpointer, claim: Claim, racer: object) -> str:
    mine = copy_of(claim)
    try:
        store.put(mine, row(mine, {"by": racer}, nonce=f"row{racer}"), "running")
    except StaleRun:
        return "lost"
    return "won"


def _fills(store: Checkpointer, name: str) -> None:
    claim = start(store, name)
    for number in range(_ROWS):
        store.begin_idempotent(claim, effect(f"k{number}"))
        store.put_idempotent(claim, effect(f"k{number}", status="done", result=number))
        store.put(claim, row(claim, {"of": name, "n": number}), "running")


def _filled(store: Checkpointer, name: str) -> bool:
    return states(store, name) == [{"of": name, "n": number} for number in range(_ROWS)] and [
        (each.key, each.result) for each in store.list_idempotent(name)
    ] == [(f"k{number}", number) for number in range(_ROWS)]


def _one_winner(outcomes: list[Any]) -> bool:
    return sorted(outcomes) == ["lost"] * (len(outcomes) - 1) + ["won"]


class Racing(Group):
    """The clauses of concurrency."""

    @clause("claims", "threads")
    def test_thread_01_one_of_many_starts_a_run(self, bench: Bench) -> None:
        """Of threads that start one id at once one has it; the others get `RunExists`."""
        store = bench.store
        for number in range(_ROUNDS):
            name = f"r{number}"
            assert _one_winner(bench.in_threads(_RACERS, partial(_starts, store, name)))

    @clause("claims", "threads")
    def test_thread_02_one_of_many_claims_a_run(self, bench: Bench) -> None:
        """Of threads that claim a run as of one reading one gets it; the others get None."""
        store = bench.store
        for number in range(_ROUNDS):
            start(store, f"r{number}")
            seen = head(store, f"r{number}")
            assert _one_winner(bench.in_threads(_RACERS, partial(_claims, store, seen)))
            assert head(store, f"r{number}").epoch == 2

    @clause("claims", "rows", "interrupts", "threads")
    def test_thread_03_one_of_many_answers_a_question(self, bench: Bench) -> None:
        """Of threads that answer one question at once one gets the run, and its decision alone is stored."""
        store = bench.store
        for number in range(_ROUNDS):
            seen = paused(store, f"r{number}")
            outcomes = bench.in_threads(_RACERS, partial(_answers, store, seen))
            assert _one_winner(outcomes)
            assert states(store, f"r{number}")[1:] == [{"by": outcomes.index("won")}]

    @clause("claims", "rows", "threads")
    def test_thread_04_one_of_many_appends_at_a_seq(self, bench: Bench) -> None:
        """Of threads that append at one seq under one claim one row is stored; the others get `StaleRun`."""
        store = bench.store
        claim = start(store)
        for number in range(_ROUNDS):
            outcomes = bench.in_threads(_RACERS, partial(_appends, store, claim))
            assert _one_winner(outcomes)
            claim.seq += 1
            assert [state["by"] for state in states(store)][number:] == [outcomes.index("won")]

    @clause("claims", "rows", "effects", "threads")
    def test_thread_05_runs_of_many_threads_are_all_there(self, bench: Bench) -> None:
        """Threads that write runs of their own through one store object all find their rows and effects whole."""
        store = bench.store
        bench.in_threads(_RACERS, lambda racer: _fills(store, f"r{racer}"))
        assert all(_filled(store, f"r{racer}") for racer in range(_RACERS))

    @clause("claims", "rows", "interrupts", "threads")
    def test_thread_06_nobody_sees_half_a_pause(self, bench: Bench) -> None:
        """A reader beside a writer sees the questions of a pause all or none, and never without the row and status."""
        store = bench.store

        def write(_: int) -> list[str]:
            claim = start(store, "w")
            for _ in range(_ROWS):
                asked = [question(claim, f"q#{claim.seq}/{number}") for number in range(3)]
                store.record_interrupt(claim, pause(claim), asked, "paused", keep=True)
            return []

        def read(_: int) -> list[str]:
            halves: list[str] = []
            while (found := store.get_execution("w")) is None or found.seq < _ROWS:
                asked = len(store.list_pending_interrupts("w"))
                after = store.get_execution("w")
                rows = len(store.list("w"))
                first, last = found.seq if found else 0, after.seq if after else 0
                if asked % 3 or not first * 3 <= asked <= last * 3 or rows < last:
                    halves.append(f"{first} {asked} {last} {rows}")
            return halves

        assert bench.in_threads(2, lambda number: (write, read)[number](number)) == [[], []]

    @clause("claims", "rows", "interrupts", "effects", "instances")
    def test_instance_01_what_one_writes_another_reads(self, bench: Bench) -> None:
        """What one store object has written is read by another one at once."""
        one, two = bench.store, bench.another()
        claim = start(one)
        for status in ("running", "running", "paused"):
            one.begin_idempotent(claim, effect(f"k{claim.seq}"))
            ask = status == "paused"
            one.record_interrupt(claim, pause(claim), [question(claim)] if ask else [], "paused" if ask else "running")
            assert everything(two) == everything(one)

    @clause("claims", "rows", "interrupts", "instances")
    def test_instance_02_what_one_has_read_another_outdates(self, bench: Bench) -> None:
        """A store object decides by what is stored, not by what it has read or written itself."""
        one, two = bench.store, bench.another()
        claim = start(one)
        one.put(claim, row(claim), "running")
        seen = head(one)
        assert everything(one) == everything(two)
        owner = two.claim_execution(head(two), "second", "you")
        assert owner is not None
        two.put(owner, row(owner, {"by": "two"}), "running")
        before = everything(two)
        assert one.claim_execution(seen, "third", "they") is None
        outcome = _appends(one, claim, "late")
        assert outcome == "lost"
        assert everything(one) == everything(two) == before

    @clause("claims", "rows", "instances")
    def test_instance_03_a_claim_may_be_carried_to_another(self, bench: Bench) -> None:
        """Rows written in turns through two store objects under one claim follow one another."""
        stores = bench.store, bench.another()
        claim = start(stores[0])
        for number in range(6):
            stores[number % 2].put(claim, row(claim, {"n": ["x" * 900] * number}), "running")
        assert [len(state["n"]) for state in states(stores[1])] == list(range(6))

    @clause("claims", "threads", "instances")
    def test_instance_04_one_of_many_objects_claims_a_run(self, bench: Bench) -> None:
        """Of threads that claim through store objects of their own one gets the run."""
        stores = [bench.another() for _ in range(_RACERS)]
        for number in range(_ROUNDS):
            start(stores[0], f"r{number}")
            seen = head(stores[0], f"r{number}")
            assert _one_winner(bench.in_threads(_RACERS, partial(_claims_by, stores, seen)))

    @clause("claims", "processes")
    def test_process_01_one_of_many_starts_a_run(self, bench: Bench) -> None:
        """Of processes that start one id at once one has it; the others get `RunExists`."""
        outcomes = bench.in_processes(
            _RACERS, lambda store, racer: [_starts(store, f"r{number}", racer) for number in range(_ROUNDS)]
        )
        assert all(_one_winner(list(each)) for each in zip(*outcomes, strict=True))

    @clause("claims", "processes")
    def test_process_02_one_of_many_claims_a_run(self, bench: Bench) -> None:
        """Of processes that claim a run as of one reading one gets it; the others get None."""
        for number in range(_ROUNDS):
            start(bench.store, f"r{number}")
        seen = [head(bench.store, f"r{number}") for number in range(_ROUNDS)]
        outcomes = bench.in_processes(_RACERS, lambda store, racer: [_claims(store, each, racer) for each in seen])
        assert all(_one_winner(list(each)) for each in zip(*outcomes, strict=True))

    @clause("claims", "rows", "interrupts", "processes")
    def test_process_03_one_of_many_answers_a_question(self, bench: Bench) -> None:
        """Of processes that answer one question at once one gets the run, and its decision alone is stored."""
        seen = [paused(bench.store, f"r{number}") for number in range(_ROUNDS)]
        outcomes = bench.in_processes(_RACERS, lambda store, racer: [_answers(store, each, racer) for each in seen])
        for number, each in enumerate(zip(*outcomes, strict=True)):
            assert _one_winner(list(each))
            assert states(bench.store, f"r{number}")[1:] == [{"by": each.index("won")}]

    @clause("claims", "rows", "effects", "processes")
    def test_process_04_runs_of_many_processes_are_all_there(self, bench: Bench) -> None:
        """Processes that write runs of their own at once all find their rows and effects whole, on an empty store too."""
        bench.in_processes(_RACERS, lambda store, racer: _fills(store, f"r{racer}"))
        assert all(_filled(bench.store, f"r{racer}") for racer in range(_RACERS))

    @clause("claims", "rows", "processes")
    def test_process_05_a_claim_of_another_process_fences(self, bench: Bench) -> None:
        """A claim taken in another process fences this one."""
        claim = start(bench.store)
        assert bench.in_processes(1, lambda store, racer: _claims(store, head(store), racer)) == ["won"]
        assert _appends(bench.store, claim, "late") == "lost"
        assert states(bench.store) == []

    @clause("claims", "rows", "processes", "fork")
    def test_fork_01_a_child_uses_the_store_it_inherited(self, bench: Bench) -> None:
        """A child made by fork writes through the store object of its parent, which writes on, and nothing is lost."""
        store = bench.store
        claim = start(store)
        store.put(claim, row(claim), "running")
        for number in range(3):
            forked(partial(_fills, store, f"child{number}"))
            store.put(claim, row(claim), "running")
        assert [each.seq for each in store.list("r")] == [1, 2, 3, 4]
        assert all(_filled(store, f"child{number}") for number in range(3))
        assert [each.seq for each in bench.reopen().list("r")] == [1, 2, 3, 4]

    @clause("claims", "rows", "processes", "fork")
    def test_fork_02_a_child_that_ends_takes_nothing_along(self, bench: Bench) -> None:
        """A child made by fork that uses no store, or closes it, leaves the parent's store as it was."""
        store = bench.store
        claim = start(store)
        forked(lambda: None)
        store.put(claim, row(claim), "running")
        forked(store.close)
        store.put(claim, row(claim), "running")
        assert [each.seq for each in bench.reopen().list("r")] == [1, 2]
