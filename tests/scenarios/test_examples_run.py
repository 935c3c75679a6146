"""What the examples of the guide do without a sweep: what a sweep cannot see, and what several threads do at once."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from contextlib import closing, suppress
from datetime import timedelta

import pytest

from fastdur import InterruptMismatch, Resume, RunCancelled, SQLiteCheckpointer
from scenarios import balance, mail, triage, voucher, webhooks
from scenarios._serving import ROOT
from scenarios._story import play
from scenarios.bucket_server import BucketServer
from scenarios.hook_server import HookServer
from scenarios.mail_server import MailServer
from scenarios.model_server import ModelServer
from scenarios.payments import PaymentServer
from scenarios.stories import EXAMPLES, counterpart_of
from tests.scenarios.test_examples import BLIND, sweep

RUN = "r-1"
RECEIVERS = [f"receiver-{number}" for number in range(8)]

# Tells eight receivers from eight threads, and dies when four of them have it.
KILLED = """
import os, signal, sys, threading
from fastdur import SQLiteCheckpointer
from scenarios import webhooks

builder, file, url, run, *receivers = sys.argv[1:]
posted, lock, told = webhooks.post, threading.Lock(), []

def dying(*args):
    answer = posted(*args)
    with lock:
        told.append(args)
        if len(told) == 4:
            os.kill(os.getpid(), signal.SIGKILL)
    return answer

webhooks.post = dying
given = {**webhooks.INPUT, "receivers": receivers, "threads": len(receivers)}
getattr(webhooks, builder)(SQLiteCheckpointer(file), url).execute(given, run)
"""


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, tmp_path):
    if request.param == "postgres":
        yield request.getfixturevalue("postgres_checkpointer")
    else:
        with closing(SQLiteCheckpointer(tmp_path / "runs.db")) as store:
            yield store


@pytest.mark.parametrize("name", EXAMPLES)
def test_by_hand_it_tells_what_happened(name):
    told = subprocess.run(
        [sys.executable, "-W", "error", "-m", f"scenarios.{name}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (told.returncode, told.stderr) == (0, "")
    saw = f"what the {counterpart_of(name).called} saw"
    for part in (f"{name} with", "completed", "what the store holds", "run_end", saw):
        assert part in told.stdout
    assert told.stdout.partition(saw)[2].strip()


# -- wrong without a crash ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "variant"), BLIND)
def test_no_sweep_sees_what_is_wrong_without_a_crash_too(name, variant, on_sqlite):
    report = sweep(on_sqlite, name, variant, "crash")
    assert report.ok, report.render()


SHORT = {**voucher.INPUT, "expires": voucher.MONDAY + voucher.THINKS - timedelta(hours=1)}


@pytest.mark.parametrize("variant", ["build", "by_answer"])
def test_a_voucher_that_expires_while_the_human_thinks_is_not_paid(store, counterparts, variant):
    server = counterparts(PaymentServer)
    with EXAMPLES["voucher"].world(server) as world:
        world.begin()
        chain = getattr(voucher, variant)(store, server.url)
        assert play(chain, SHORT, world, RUN).output == {"said": "it was too late"}
    assert server.counts()["refunds"] == 0


def test_it_is_paid_where_the_clock_was_read_before_the_question(store, counterparts):
    server = counterparts(PaymentServer)
    with EXAMPLES["voucher"].world(server) as world:
        world.begin()
        play(voucher.broken_before(store, server.url), SHORT, world, RUN)
    assert server.counts()["refunds"] == 1


MUCH = {**balance.INPUT, "amount": 80}  # less than the human is shown, more than there is after the rent


@pytest.fixture
def account(counterparts):
    with EXAMPLES["balance"].world(counterparts(PaymentServer)) as world:
        world.begin()
        yield world


def test_a_balance_is_looked_at_again_after_the_answer_and_what_the_human_saw_is_kept(store, account):
    chain = balance.build(store, account.server.url)
    result = play(chain, MUCH, account, RUN)
    assert result.output == {"said": "declined (agreed on a balance of 100)"}
    assert store.list(RUN)[0].interrupt_context == {"amount": 80, "balance": 100}
    assert account.server.client.balance("ada") == 50


def test_an_account_is_overdrawn_where_what_the_human_saw_is_taken_for_what_is(store, account):
    play(balance.broken_frozen(store, account.server.url), MUCH, account, RUN)
    assert account.server.client.balance("ada") == -30


def test_where_what_was_agreed_to_must_still_be_so_nothing_is_paid_and_the_run_can_be_cancelled(store, account):
    chain = balance.strict(store, account.server.url)
    with pytest.raises(InterruptMismatch, match="no longer the one that was answered"):
        play(chain, balance.INPUT, account, RUN)
    assert account.server.client.balance("ada") == 50
    chain.cancel(RUN)
    with pytest.raises(RunCancelled):
        chain.resume(RUN)


def test_where_it_still_is_so_the_strict_one_pays(store, account):
    chain = balance.strict(store, account.server.url)
    chain.execute(balance.INPUT, RUN)
    assert chain.resume(RUN, Resume(approved=True)).output == {"said": "paid: re_1 (agreed on a balance of 100)"}


# -- many threads ------------------------------------------------------------------------------------------------------


def told_after_a_kill(variant, file, server):
    """How many times each receiver was told, where the process is killed when four of eight have been."""
    server.reset()
    arguments = [variant, str(file), server.url, RUN, *RECEIVERS]
    died = subprocess.run([sys.executable, "-c", KILLED, *arguments], cwd=ROOT, capture_output=True, check=False)
    assert (died.returncode, died.stderr) == (-signal.SIGKILL, b"")
    with closing(SQLiteCheckpointer(file)) as store:
        result = getattr(webhooks, variant)(store, server.url).resume(RUN)
    assert result.final_state["told"] == RECEIVERS
    return server.counts()


def test_eight_threads_killed_half_way_have_told_everybody_once_in_the_end(tmp_path, counterparts):
    told = told_after_a_kill("build", tmp_path / "runs.db", counterparts(EXAMPLES["webhooks"].counterpart))
    assert told == dict.fromkeys(RECEIVERS, 1)


def test_without_a_record_those_that_were_told_are_told_again(tmp_path, counterparts):
    told = told_after_a_kill(
        "broken_no_idempotent", tmp_path / "runs.db", counterparts(EXAMPLES["webhooks"].counterpart)
    )
    assert sum(told.values()) >= len(RECEIVERS) + 4


# -- the counterparts themselves ---------------------------------------------------------------------------------------


def test_a_mailbox_that_filters_keeps_a_message_id_once_and_the_other_keeps_whatever_comes(counterparts):
    server = counterparts(MailServer)
    server.reset()
    for address in (mail.FILTERS, mail.KEEPS_ALL):
        for message_id in ("<one@shop.example>", "<one@shop.example>", "<two@shop.example>"):
            mail.post(server.url, address, "A-1", "hello", message_id)
    boxes = [address for address, _ in server.mails()]
    assert (boxes.count(mail.FILTERS), boxes.count(mail.KEEPS_ALL)) == (2, 3)
    server.reset()
    assert server.counts() == {}


def test_a_model_says_something_else_each_time_but_under_a_key(counterparts):
    server = counterparts(ModelServer)
    server.reset()
    said = [triage.asked(server.url, "why?", key)["words"] for key in (None, None, "k", "k")]
    assert len(set(said)) == 3
    assert said[2] == said[3]
    assert server.counts() == {"answers": 3}


@pytest.mark.parametrize("kind", [BucketServer, HookServer, MailServer, ModelServer], ids=lambda kind: kind.called)
def test_a_counterpart_ends_with_the_process_that_started_it(kind):
    script = f"""if True:
        import sys
        from {kind.__module__} import {kind.__name__}
        with {kind.__name__}() as server:
            print(server.url, flush=True)
            sys.stdin.read()
    """
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        port = int(owner.stdout.readline().rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            owner.kill()
            with suppress(ConnectionResetError):  # the other way a connection ends with its process
                while connection.recv(1024):
                    pass
