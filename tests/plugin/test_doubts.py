"""Effects whose outcome nobody knows: settled by healing, never repeated where that was forbidden."""

from __future__ import annotations

import pytest

from fastdur import Chain, Happened, NotHappened, SQLiteCheckpointer, effect_key, idempotent
from pytest_fastdur.sweep import Order, Story, carry_out, explore
from tests.plugin import stories


def codes(report):
    return {finding.code for finding in report.findings}


@pytest.mark.parametrize("faults", ["crash", "kill", "raise"])
@pytest.mark.parametrize("keyed", [True, False])
def test_an_effect_that_may_not_repeat_is_settled_and_happens_once_at_every_point(ledger, faults, keyed):
    pay = stories.charging(ledger, keyed=keyed, on_unknown="raise")
    report = explore(stories.refund(ledger, pay=pay), faults)
    assert report.ok, report.findings


def test_so_it_is_when_the_recovery_crashes_too(ledger):
    pay = stories.charging(ledger, keyed=False, on_unknown="raise")
    report = explore(stories.refund(ledger, pay=pay), "crash", at="*pay*", depth=2)
    assert report.ok, report.findings


@pytest.mark.parametrize("faults", ["crash", "kill", "raise"])
def test_a_provider_that_can_be_asked_is_charged_once(tmp_path, ledger, faults):
    """The provider keeps its books outside of the process that is killed."""
    books = tmp_path / "books"

    def provider(key):
        with books.open("a") as file:
            file.write(f"{key}\n")

    counted = ledger.wrap("charge", provider)

    def ask(key, amount):
        return Happened("seen") if books.exists() and key in books.read_text() else NotHappened

    @idempotent(name="charge", on_unknown=ask)
    def charge(amount):
        counted(effect_key())
        return "seen"

    def pay(state):
        return {"charged": charge(state["amount"])}

    story = stories.refund(ledger, pay=pay, fresh=lambda: books.unlink(missing_ok=True))
    report = explore(story, faults)
    assert report.ok, report.findings


def test_whoever_stood_still_before_it_took_anything_may_carry_a_failed_run_on(ledger):
    """Wrong: it is taken for an owner that was replaced, because another has come in between, and failed."""
    story = stories.refund(ledger, pay=stories.charging(ledger, on_unknown="raise"))
    twice = "fd1:resume#1/effect begin charge@pay=zombie after, resume#3/look=zombie before"
    report = carry_out(story, Order(replay=twice))
    assert report.ok, report.render()


class Repeating(SQLiteCheckpointer):
    """Forgets which effects were begun, so that what is unknown runs again."""

    def list_idempotent(self, execution_id):
        return [
            record for record in super().list_idempotent(execution_id) if record.status not in ("started", "unknown")
        ]


@pytest.mark.parametrize("keyed", [True, False])
def test_a_repeat_that_was_forbidden_is_found_even_where_the_provider_was_told_the_key(ledger, keyed):
    pay = stories.charging(ledger, keyed=keyed, on_unknown="raise")
    report = explore(stories.refund(ledger, pay=pay, store=Repeating))
    assert codes(report) == {"FD07"}
    assert "on_unknown" in report.findings[0].cure


def test_where_nothing_counts_the_effect_its_boundary_tells_whether_it_happened():
    sent = []

    @idempotent(name="send", on_unknown="raise")
    def send():
        sent.append(1)
        return len(sent)

    story = Story(
        "mail",
        lambda store: Chain("mail", store).add_node("n", lambda state: {"sent": send() > 0}),
        fresh=sent.clear,
        provider=lambda: {"send": len(sent)},
    )
    report = explore(story)
    assert report.ok, report.findings


def test_an_unknown_effect_of_a_child_run_is_settled_in_that_run(ledger):
    pay = stories.charging(ledger, on_unknown="raise")

    def build(store):
        child = Chain("child", store).add_node("pay", pay)
        return Chain("parent", store).add_node("n", lambda state: {"child": child.execute({"amount": 5}).status})

    report = explore(Story("family", build, ledger=ledger, effects={"charge": "exactly-once"}))
    assert report.ok, report.findings


@pytest.mark.parametrize("faults", ["crash", "kill"])
@pytest.mark.parametrize("counted", ["ledger", "provider"])
def test_of_several_calls_of_one_effect_in_one_node_each_is_settled_by_itself(tmp_path, ledger, faults, counted):
    """The second call happens while nobody knows of the first."""
    books = tmp_path / "books"
    books.touch()

    def provider(amount):
        with books.open("a") as file:
            file.write(f"{amount}\n")

    reached = ledger.wrap("charge", provider) if counted == "ledger" else provider

    @idempotent(name="charge", on_unknown="raise")
    def charge(amount):
        reached(amount)

    def pay(_):
        try:
            charge(1)
        finally:
            charge(2)

    story = Story(
        "twice",
        lambda store: Chain("twice", store).add_node("pay", pay),
        ledger=ledger if counted == "ledger" else None,
        fresh=lambda: books.write_text(""),
        provider=None if counted == "ledger" else lambda: {"charge": len(books.read_text().splitlines())},
    )
    report = explore(story, faults)
    assert report.ok, report.render()
    assert {cell.partition("=")[0] for cell, mark in report.cells.items() if mark == "ask"} == {
        f"start/{name} charge@pay{number}"
        for name in ("effect begin", "effect", "effect end")
        for number in ("", " (2)")
    }
