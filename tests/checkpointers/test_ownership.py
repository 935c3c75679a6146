"""Who owns a run: start, claim, answer, decide, cancel, renew, release, and the fence around every write."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from fastdur.checkpointers.protocol import Checkpointer
from fastdur.errors import RunExists, StaleRun
from fastdur.records import Claim
from tests.checkpointers.stores import effect, head, opened, paused, process, question, row, start


def test_the_store_is_a_checkpointer_and_says_how_long_its_leases_are(store):
    assert isinstance(store, Checkpointer)
    assert store.lease == 30.0


def test_a_started_run_is_read_back_as_it_was_started(store):
    claim = start(
        store, graph={"a": [1]}, input=["x"], parent_id="p", parent_address="p/n#1", parent_checkpoint_id="1-2-c"
    )
    found = head(store)
    assert (claim.execution_id, claim.run, claim.epoch, claim.token, claim.seq) == ("r", found.run, 1, "first", 0)
    assert (found.runner, found.kind, found.status, found.seq) == ("flow", "chain", "running", 0)
    assert (found.epoch, found.token, found.owner, found.owned, found.lease_live) == (1, "first", "me", True, True)
    assert (found.graph, found.input, found.attempts) == ({"a": [1]}, ["x"], 0)
    assert (found.parent_id, found.parent_address, found.parent_checkpoint_id) == ("p", "p/n#1", "1-2-c")
    assert found.created_at == found.updated_at > 0
    assert store.get_last("r") is None
    assert store.list("r") == []


def test_an_unknown_run_reads_as_none_and_empty(store):
    assert store.get_execution("no") is None
    assert store.get_last("no") is None
    assert store.get_by_id("no", "1-1-x") is None
    assert store.list("no") == []
    assert store.list_pending_interrupts("no") == []
    assert store.list_idempotent("no") == []
    assert store.get_idempotent("no", "k") is None


def test_an_id_is_started_once(store):
    start(store)
    with pytest.raises(RunExists, match="'r'"):
        start(store, token="second", input="other")
    assert head(store).token == "first"
    assert head(store).input == {"n": 1}


def test_a_start_that_is_sent_again_is_the_same_start(store):
    first, second = start(store), start(store)
    assert (first.run, first.epoch, first.token) == (second.run, second.epoch, second.token)


def test_a_claim_moves_the_epoch_and_sets_the_run_running(store):
    claim = start(store)
    store.put(claim, row(claim), "failed")
    seen = head(store)
    assert (seen.status, seen.owned, seen.lease_live) == ("failed", False, False)
    taken = store.claim_execution(seen, "second", "you")
    assert (taken.epoch, taken.token, taken.seq) == (2, "second", 1)
    found = head(store)
    assert (found.status, found.epoch, found.token, found.owner) == ("running", 2, "second", "you")


def test_a_claim_may_append_a_row_and_replace_the_graph(store):
    claim = start(store)
    seen = head(store)
    taken = store.claim_execution(seen, "second", "you", row(seen, {"n": "edited"}), {"nodes": {"new": 1}})
    assert taken.seq == 1
    assert head(store).graph == {"nodes": {"new": 1}}
    assert store.get_last("r").state_snapshot == {"n": "edited"}
    with pytest.raises(StaleRun):
        store.put(claim, row(claim), "running")


def test_attempts_count_the_claims_since_the_newest_row(store):
    claim = start(store)
    for expected in (1, 2):
        claim = store.claim_execution(head(store), f"t{expected}", "you")
        assert head(store).attempts == expected
    store.put(claim, row(claim), "running")
    assert head(store).attempts == 0


@pytest.mark.parametrize("stale", ["epoch", "token", "seq"])
def test_every_write_is_refused_when_one_part_of_the_head_has_moved(store, stale):
    claim = start(store)
    store.put(claim, row(claim), "running")
    store.record_interrupt(claim, row(claim), [question(claim)], "paused", keep=True)
    moved = {"epoch": claim.epoch + 1, "token": "another", "seq": claim.seq - 1}[stale]
    seen = replace(head(store), **{stale: moved})
    before = head(store), store.list("r"), store.list_pending_interrupts()
    assert store.claim_execution(seen, "mine", "you") is None
    assert store.claim_execution(seen, "mine", "you", row(seen)) is None
    assert store.delete_pending_interrupt_atomic(seen, "mine", "you", "ask#1/1", row(seen)) is None
    assert store.decide(seen, "ask#1/1", row(seen), "running") is False
    assert store.cancel(seen, row(seen)) is False
    zombie = Claim("r", claim.run, seen.epoch, seen.token, seen.seq)
    with pytest.raises(StaleRun, match="'r'"):
        store.put(zombie, row(zombie), "running")
    with pytest.raises(StaleRun):
        store.record_interrupt(zombie, row(zombie), [question(zombie, "new")], "paused")
    if stale != "seq":
        with pytest.raises(StaleRun):
            store.begin_idempotent(zombie, effect())
    now = head(store), store.list("r"), store.list_pending_interrupts()
    assert now == before


@pytest.mark.case("S02")
def test_an_earlier_claim_of_the_same_worker_changes_nothing(store):
    first = start(store)
    store.begin_idempotent(first, effect("mine"))
    second = store.claim_execution(head(store), "second", "me")
    store.put(second, row(second, {"by": "second"}), "running")
    before = head(store)
    first.seq = second.seq
    with pytest.raises(StaleRun):
        store.put(first, row(first), "running")
    with pytest.raises(StaleRun):
        store.put(first, row(first), "completed")
    with pytest.raises(StaleRun):
        store.put_idempotent(first, effect("mine", status="done"))
    store.release(first)
    store.renew([first])
    assert head(store) == before
    assert [r.state_snapshot for r in store.list("r")] == [{"by": "second"}]
    assert store.get_idempotent("r", "mine").status == "started"


@pytest.mark.case("S01")
def test_the_loser_of_two_that_record_the_same_node_writes_nothing(store):
    claim = start(store)
    other = Claim("r", claim.run, claim.epoch, claim.token, claim.seq)
    store.put(claim, row(claim, {"by": "winner"}), "running")
    with pytest.raises(StaleRun):
        store.put(other, row(other, {"by": "loser"}), "running")
    assert [r.state_snapshot for r in store.list("r")] == [{"by": "winner"}]
    assert head(store).status == "running"
    store.put(claim, row(claim), "completed")


def test_a_status_other_than_running_gives_the_claim_up_unless_kept(store):
    claim = start(store)
    store.put(claim, row(claim), "paused", keep=True)
    assert (head(store).status, head(store).token) == ("paused", "first")
    store.put(claim, row(claim), "running")
    assert (head(store).status, head(store).token) == ("running", "first")
    store.put(claim, row(claim), "completed")
    found = head(store)
    assert (found.status, found.token, found.owner, found.lease_live) == ("completed", None, None, False)
    with pytest.raises(StaleRun):
        store.put(claim, row(claim), "running")


def test_a_release_leaves_the_status_and_gives_up_the_claim(store):
    claim = start(store)
    store.release(claim)
    found = head(store)
    assert (found.status, found.owned, found.seq) == ("running", False, 0)
    assert store.claim_execution(found, "second", "you") is not None


def test_a_lease_runs_out_and_every_write_and_renewal_moves_it_on(store):
    claim = start(store)
    other = start(store, "other")
    store.clock_offset = 29
    assert head(store).lease_live
    store.clock_offset = 31
    assert not head(store).lease_live
    store.renew([claim, Claim("other", other.run, other.epoch, "not the token", 0)])
    assert head(store).lease_live
    assert not head(store, "other").lease_live
    store.clock_offset = 60
    store.put(claim, row(claim), "running")
    store.clock_offset = 89
    assert head(store).lease_live
    store.renew([])


def test_the_answer_takes_the_question_the_row_and_the_claim_together(store):
    seen = paused(store)
    claim = store.delete_pending_interrupt_atomic(
        seen, "second", "you", "ask#1/1", row(seen, step_type="resumed", status="resumed"), {"nodes": 2}
    )
    assert (claim.epoch, claim.seq) == (2, 2)
    assert store.list_pending_interrupts() == []
    assert [r.step_type for r in store.list("r")] == ["hitl_pause", "resumed"]
    assert (head(store).status, head(store).token, head(store).graph) == ("running", "second", {"nodes": 2})


def test_an_answer_to_a_question_that_is_not_pending_takes_nothing(store):
    seen = paused(store)
    assert store.delete_pending_interrupt_atomic(seen, "second", "you", "ask#9/1", row(seen)) is None
    assert store.decide(seen, "ask#9/1", row(seen), "running") is False
    assert head(store) == seen
    assert len(store.list_pending_interrupts()) == 1


def test_a_decision_is_recorded_without_an_owner(store):
    seen = paused(store)
    assert store.decide(seen, "ask#1/1", row(seen, step_type="resumed", status="resumed"), "running")
    found = head(store)
    assert (found.status, found.owned, found.seq, found.epoch) == ("running", False, 2, seen.epoch)
    assert store.list_pending_interrupts() == []


def test_a_cancelled_run_has_its_marker_and_no_question(store):
    seen = paused(store)
    paused(store, "other")
    assert store.cancel(seen, row(seen, step_type="run_end", status="failed"))
    assert head(store).status == "cancelled"
    assert [p.execution_id for p in store.list_pending_interrupts()] == ["other"]


def test_a_cancel_fences_the_owner_at_work(store):
    claim = start(store)
    assert store.cancel(head(store), row(head(store)))
    with pytest.raises(StaleRun):
        store.put(claim, row(claim), "running")


def test_a_question_asked_again_is_pending_once_with_its_newest_context(store):
    claim = start(store)
    store.record_interrupt(claim, row(claim), [question(claim)], "paused", keep=True)
    store.record_interrupt(claim, row(claim), [question(claim, context="newer")], "paused", keep=True)
    assert [p.context for p in store.list_pending_interrupts("r")] == ["newer"]


def test_questions_come_back_as_asked_oldest_first(store):
    odd = {"reason": 'a "b"\u0000\ud800', "context": {"t": (1, 2), 3: b"x"}}
    first = paused(store, "z", **odd)
    paused(store, "a")
    found = store.list_pending_interrupts()
    assert [p.execution_id for p in found] == ["z", "a"]
    assert found[0] == question(first, **odd)
    assert store.list_pending_interrupts("a") == found[1:]
    assert store.list_pending_interrupts(limit=1) == found[:1]
    assert store.list_pending_interrupts("z", limit=5) == found[:1]


def test_runs_are_listed_newest_first_by_status_and_runner(store):
    for name, runner, status in (
        ("a", "x", "completed"),
        ("b", "y", "failed"),
        ("c", "x", "paused"),
        ("d", "x", "running"),
    ):
        claim = start(store, name, runner=runner)
        store.put(claim, row(claim), status)

    def ids(**asked):
        return [found.execution_id for found in store.list_executions(**asked)]

    assert ids() == ["d", "c", "b", "a"]
    assert ids(limit=2) == ["d", "c"]
    assert ids(unfinished=True) == ["d", "c", "b"]
    assert ids(runner="x") == ["d", "c", "a"]
    assert ids(runner="x", unfinished=True, limit=1) == ["d"]
    assert ids(status="failed") == ["b"]
    assert ids(status="failed", runner="x") == []
    assert ids(status="completed", unfinished=True) == []
    assert ids(status="paused", unfinished=True) == ["c"]


def together(count, call):
    """Call `call(0)` … `call(count - 1)` in as many threads, started at one moment."""
    barrier = threading.Barrier(count)

    def one(number):
        barrier.wait()
        return call(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


@pytest.mark.case("S04")
@pytest.mark.parametrize("round_", range(5))
def test_of_eight_threads_that_answer_one_question_one_gets_it(store, round_):
    seen = paused(store)
    claims = together(
        8, lambda n: store.delete_pending_interrupt_atomic(seen, f"t{n}", "w", "ask#1/1", row(seen, nonce=f"{n:016x}"))
    )
    winners = [claim for claim in claims if claim is not None]
    assert [claim.token for claim in winners] == [head(store).token]
    assert store.get_last("r").checkpoint_id.endswith(f"{claims.index(winners[0]):016x}")


@pytest.mark.case("S04")
def test_claimers_one_after_another_get_a_question_once(store):
    seen = paused(store)
    claims = [store.delete_pending_interrupt_atomic(seen, f"t{n}", "w", "ask#1/1", row(seen)) for n in range(8)]
    assert [claim is not None for claim in claims] == [True] + [False] * 7


def test_of_eight_threads_that_claim_a_run_one_gets_it(store):
    start(store)
    seen = head(store)
    claims = together(8, lambda n: store.claim_execution(seen, f"t{n}", "w"))
    assert sum(claim is not None for claim in claims) == 1


def test_of_eight_threads_that_start_an_id_one_starts_it(store):
    def begin(number):
        try:
            return start(store, token=f"t{number}")
        except RunExists:
            return None

    assert sum(claim is not None for claim in together(8, begin)) == 1


CLAIMER = """
import json, sys
from fastdur.checkpointers.sqlite import SQLiteCheckpointer
from tests.checkpointers.stores import row
path, number = sys.argv[1:]
store = SQLiteCheckpointer(path)
seen = store.get_execution("r")
print("ready", flush=True)
sys.stdin.readline()
asked = row(seen, nonce=f"{int(number):016x}")
claim = store.delete_pending_interrupt_atomic(seen, "t" + number, "w", "ask#1/1", asked)
print(json.dumps(claim and claim.token), flush=True)
store.close()
"""


@pytest.mark.case("S04")
def test_of_eight_processes_that_answer_one_question_one_gets_it(path):
    with opened(path) as store:
        paused(store)
        workers = [process(CLAIMER, path, str(number)) for number in range(8)]
        for worker in workers:
            assert worker.stdout.readline() == "ready\n"
        for worker in workers:
            worker.stdin.write("go\n")
            worker.stdin.flush()
        answers = [json.loads(worker.communicate()[0]) for worker in workers]
        assert [worker.returncode for worker in workers] == [0] * 8
        assert [token for token in answers if token] == [head(store).token]
        assert len(store.list("r")) == 2
