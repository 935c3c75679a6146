"""The stories end as they say, in one process, on an event loop, and where a kill comes right after the payment."""

from __future__ import annotations

import copy
import signal
import subprocess
import sys
from contextlib import contextmanager
from importlib import import_module

import pytest

from fastdur import InterruptSwallowed, Resume, SQLiteCheckpointer
from scenarios import invoice_loop, nested, refund, report
from scenarios._models import awaited
from scenarios._serving import ROOT
from scenarios._story import carry_on, play
from scenarios.payments import PaymentServer

RUN = "r-1"

# Plays a story in a process of its own and dies as soon as the provider has done what one effect asked for.
KILLED = """
import os, signal, sys
from importlib import import_module
from fastdur import SQLiteCheckpointer
from scenarios._story import play

module, builder, file, url, run, effect = sys.argv[1:]
story = import_module(module)

def dying(name, fn):
    def die(*args):
        fn(*args)
        os.kill(os.getpid(), signal.SIGKILL)
    return die if name == effect else fn

chain = getattr(story, builder)(SQLiteCheckpointer(file), url, dying)
play(chain, story.INPUT, story.ANSWERS, run)
"""


@pytest.fixture(scope="module")
def payments():
    with PaymentServer() as server:
        yield server.client


@pytest.fixture(autouse=True)
def _fresh(payments):
    payments.reset()


@contextmanager
def opened(file):
    store = SQLiteCheckpointer(file)
    yield store
    store.close()


@pytest.fixture
def file(tmp_path):
    return tmp_path / "runs.db"


@pytest.fixture
def store(file):
    with opened(file) as store:
        yield store


def path(store, execution_id=RUN):
    """The nodes that have committed, and what agents were about to do, in order."""
    steps = ("node", "llm_call", "tool_call", "handoff")
    return [row.node_id for row in store.list(execution_id) if row.step_type in steps]


def made(payments):
    """What was paid in and out."""
    return [(a["kind"], a["customer"], a["amount"]) for a in payments.attempts() if a["outcome"] == "made"]


RIGHT = {
    "refund": (
        ["fraud_check", "approval", "payout", "receipt"],
        [("refunds", "ada", 120)],
        {"receipt": "120 back to ada for A-1001: re_1"},
    ),
    "invoice_loop": (
        ["draft", "check"] * 4 + ["send"],
        [("charges", "ada", 100)],
        {"charge": "ch_1"},
    ),
    "nested": (
        ["deposit", "clearance/summary", "clearance/review", "clearance/verdict", "clearance", "balance"],
        [("charges", "ada", 20), ("charges", "ada", 80)],
        {"second": "ch_2"},
    ),
    "refund_agent": (
        ["turn:0", "turn:0/tool:look_up_order", "turn:1", "turn:1/tool:pay_refund", "turn:2", "turn:3"],
        [("refunds", "ada", 120)],
        "120 were paid back to ada.",
    ),
    "research_team": (
        [
            "turn:0",
            "turn:0/tool:delegate_to_reader",
            "turn:0/tool:delegate_to_reader/turn:0",
            "turn:0/tool:delegate_to_reader/turn:0/tool:read_source",
            "turn:0/tool:delegate_to_reader/turn:0/tool:read_source#2",
            "turn:0/tool:delegate_to_reader/turn:1",
            "turn:0/tool:delegate_to_reader/turn:2",
            "turn:0/tool:delegate_to_reader",
            "turn:1",
            "turn:1/tool:delegate_to_buyer",
            "turn:1/tool:delegate_to_buyer/turn:0",
            "turn:1/tool:delegate_to_buyer/turn:0/tool:buy_report",
            "turn:1/tool:delegate_to_buyer/turn:1",
            "turn:1/tool:delegate_to_buyer/turn:2",
            "turn:1/tool:delegate_to_buyer",
            "turn:2",
            "turn:3",
        ],
        [("charges", "desk", 80)],
        "Tin rose, then fell; the report agrees.",
    ),
    "support_swarm": (
        [
            "front/turn:0",
            "handoff:1",
            "billing/turn:0",
            "billing/turn:0/tool:pay_back",
            "handoff:2",
            "sales/turn:0",
            "sales/turn:0/tool:sell",
            "sales/turn:1",
            "sales/turn:2",
            "sales",
        ],
        [("refunds", "ada", 40), ("charges", "ada", 45)],
        "40 are on their way back, and so is a new lamp.",
    ),
    "report": (
        ["turn:0", "turn:0/tool:buy_figures", "turn:1", "turn:2", "turn:2", "turn:3", "turn:3", "turn:4"],
        [("charges", "tin", 30)],
        report.Report("tin", 12),
    ),
    "agent_in_chain": (
        ["intake", "settle/turn:0", "settle/turn:0/tool:charge", "settle/turn:1", "settle/turn:2", "settle", "receipt"],
        [("charges", "ada", 60)],
        {"receipt": "A-1002: settled"},
    ),
    "guarded_desk": (
        ["turn:0", "turn:0/tool:look_up_order", "turn:1", "turn:2", "turn:2/tool:pay_refund", "turn:3", "turn:4"],
        [
            ("refunds", "ada", 120),
            ("charges", "Order A-1001 arrived broken. Pay me back to <card>.", 1),
            ("charges", "120 were paid back to <card>.", 1),
        ],
        "120 were paid back to <card>.",
    ),
}
STORIES = pytest.mark.parametrize("name", RIGHT)


def story_of(name):
    return import_module(f"scenarios.{name}")


@STORIES
def test_it_ends_as_it_says(store, payments, name):
    story, (nodes, paid, output) = story_of(name), RIGHT[name]
    given = copy.deepcopy(story.INPUT)
    result = play(story.build(store, payments.url), story.INPUT, story.ANSWERS, RUN)
    assert (result.status, result.output) == ("completed", output)
    assert path(store) == nodes
    assert made(payments) == paid
    assert all(attempt["key"] for attempt in payments.attempts())
    assert given == story.INPUT  # what a node changed in place is the run's own


@STORIES
def test_two_runs_of_it_are_alike_but_for_their_keys(store, payments, name):
    story = story_of(name)
    results = []
    keys = set()
    for run in ("a", "b"):
        payments.reset()
        results.append(play(story.build(store, payments.url), story.INPUT, story.ANSWERS, run))
        keys |= {attempt["key"] for attempt in payments.attempts()}
    assert results[0].final_state == results[1].final_state
    assert path(store, "a") == path(store, "b")
    assert len(keys) == 2 * len(RIGHT[name][1])


@STORIES
@pytest.mark.asyncio
async def test_it_ends_alike_on_an_event_loop(store, payments, name):
    story, (nodes, paid, output) = story_of(name), RIGHT[name]
    with awaited():
        chain = story.build(store, payments.url)
    result = await chain.aexecute(story.INPUT, execution_id=RUN)
    while result.pending_interrupt is not None:
        result = await chain.aresume(RUN, story.ANSWERS[result.pending_interrupt.reason])
    assert (result.status, result.output) == ("completed", output)
    assert path(store) == nodes
    assert made(payments) == paid


@STORIES
def test_each_question_is_answered_by_a_process_that_knows_only_the_store(file, payments, name):
    story, (nodes, paid, output) = story_of(name), RIGHT[name]
    with opened(file) as store:
        result = story.build(store, payments.url).execute(story.INPUT, execution_id=RUN)
    asked = []
    while result.pending_interrupt is not None:
        asked.append(result.pending_interrupt.reason)
        with opened(file) as store:
            result = story.build(store, payments.url).resume(RUN, story.ANSWERS[asked[-1]])
    assert asked == list(story.ANSWERS)
    with opened(file) as store:
        assert (result.output, path(store), made(payments)) == (output, nodes, paid)


@STORIES
def test_by_hand_it_tells_what_happened(name):
    told = subprocess.run(
        [sys.executable, "-m", f"scenarios.{name}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (told.returncode, told.stderr) == (0, "")
    for part in (f"{name} with", "completed", "what the store holds", "run_end", "what the payment server saw", "made"):
        assert part in told.stdout


def test_a_refund_within_the_limit_asks_nobody(store, payments):
    result = play(refund.build(store, payments.url), {**refund.INPUT, "amount": refund.LIMIT}, {}, RUN)
    assert result.output == {"receipt": "100 back to ada for A-1001: re_1"}
    assert path(store) == ["fraud_check", "payout", "receipt"]


def test_a_refund_of_more_than_was_paid_asks_nobody_and_pays_nothing(store, payments):
    result = play(refund.build(store, payments.url), {**refund.INPUT, "amount": 151}, {}, RUN)
    assert result.output == {"receipt": "nothing back to ada for A-1001"}
    assert path(store) == ["fraud_check", "decline"]
    assert made(payments) == []


def test_a_refund_that_the_manager_declines_pays_nothing(store, payments):
    answers = {"manager_approval": Resume(approved=False, metadata={"by": "grace"})}
    result = play(refund.build(store, payments.url), refund.INPUT, answers, RUN)
    assert result.output == {"receipt": "nothing back to ada for A-1001"}
    assert path(store) == ["fraud_check", "approval", "decline"]
    assert made(payments) == []


def test_a_refund_has_paid_nothing_while_it_waits_for_the_manager(store, payments):
    result = refund.build(store, payments.url).execute(refund.INPUT, execution_id=RUN)
    assert (result.status, result.pending_interrupt["context"]) == ("paused", {"order": "A-1001", "amount": 120})
    assert payments.attempts() == []


def test_a_contract_that_one_department_declines_gives_the_deposit_back(store, payments):
    answers = {**nested.ANSWERS, "finance_clearance": Resume(approved=False, metadata={"by": "emmy"})}
    result = play(nested.build(store, payments.url), nested.INPUT, answers, RUN)
    assert result.output == {"returned": "re_1"}
    assert made(payments) == [("charges", "ada", 20), ("refunds", "ada", 20)]


def play_with_a_kill(builder, file, payments, effect):
    """Play until the process is killed right after `effect` was paid for, then on in this one."""
    story = sys.modules[builder.__module__]
    arguments = [story.__name__, builder.__name__, str(file), payments.url, RUN, effect]
    died = subprocess.run([sys.executable, "-c", KILLED, *arguments], cwd=ROOT, capture_output=True, check=False)
    assert (died.returncode, died.stderr) == (-signal.SIGKILL, b"")
    with opened(file) as store:
        chain = builder(store, payments.url)
        return carry_on(chain, chain.resume(RUN), story.ANSWERS), path(store)


@pytest.mark.parametrize(
    ("name", "effect"),
    [
        ("refund", "payout"),
        ("invoice_loop", "send"),
        ("nested", "deposit"),
        ("nested", "balance"),
        ("refund_agent", "pay"),
        ("research_team", "report"),
        ("support_swarm", "refund"),
        ("support_swarm", "sale"),
        ("report", "figures"),
        ("agent_in_chain", "charge"),
        ("guarded_desk", "pay"),
        ("guarded_desk", "memory"),
    ],
)
def test_a_kill_right_after_the_payment_changes_nothing(file, payments, name, effect):
    nodes, paid, output = RIGHT[name]
    result, committed = play_with_a_kill(story_of(name).build, file, payments, effect)
    assert (result.status, result.output, committed) == ("completed", output, nodes)
    assert made(payments) == paid
    assert [attempt["outcome"] for attempt in payments.attempts()].count("replayed") == 1


@pytest.mark.parametrize("twin", [refund.broken_no_idempotent, refund.broken_no_key])
def test_a_kill_right_after_the_payment_makes_a_twin_without_a_key_pay_twice(file, payments, twin):
    result, _ = play_with_a_kill(twin, file, payments, "payout")
    assert result.status == "completed"
    assert made(payments) == [("refunds", "ada", 120)] * 2


@pytest.mark.parametrize("twin", [refund.broken_no_idempotent, refund.broken_no_key])
def test_without_a_crash_a_twin_without_a_key_looks_right(store, payments, twin):
    nodes, paid, output = RIGHT["refund"]
    result = play(twin(store, payments.url), refund.INPUT, refund.ANSWERS, RUN)
    assert (result.output, path(store), made(payments)) == (output, nodes, paid)


def test_two_runs_of_the_twin_that_reads_the_clock_differ(store, payments):
    states = [
        play(refund.broken_clock(store, payments.url), refund.INPUT, refund.ANSWERS, run).final_state
        for run in ("a", "b")
    ]
    assert states[0].pop("checked_at") != states[1].pop("checked_at")


def test_without_a_crash_the_twin_that_counts_outside_the_state_looks_right(store, payments):
    right = play(invoice_loop.build(store, payments.url), invoice_loop.INPUT, {}, "right")
    payments.reset()
    twin = play(invoice_loop.broken_counter(store, payments.url), invoice_loop.INPUT, {}, "twin")
    assert twin.final_state == right.final_state


def test_without_a_crash_the_twin_that_rolls_dice_does_the_same_each_time(store, payments):
    for run in ("a", "b"):
        play(invoice_loop.broken_dice(store, payments.url), invoice_loop.INPUT, {}, run)
        assert path(store, run) == ["draft", "check", "draft", "check", "send"]


def test_the_twin_that_swallows_the_pause_fails_there_and_takes_no_balance(store, payments):
    chain = nested.broken_swallowed(store, payments.url)
    with pytest.raises(InterruptSwallowed):
        chain.execute(nested.INPUT, execution_id=RUN)
    assert chain.result(RUN).status == "failed"
    assert made(payments) == [("charges", "ada", 20)]
