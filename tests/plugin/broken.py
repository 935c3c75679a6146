"""For each verdict a store, an engine or a story that is broken so that a sweep says it, and what the sweep then prints.

python -m tests.plugin.broken          # write every report anew: tests/plugin/verdicts/FD01.txt …
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

from fastdur import StaleRun, _drivers
from fastdur._effects import Invoke, Take
from fastdur.errors import SimulatedCrash
from pytest_fastdur.ledger import EffectLedger
from pytest_fastdur.report.terminal import render
from pytest_fastdur.sweep import explore
from tests.plugin import stories

FOLDER = Path(__file__).parent / "verdicts"


class Generous(stories.SQLiteCheckpointer):
    """Says that a row is stored also where its owner was replaced."""

    def put(self, claim, row, status, **kwargs):
        try:
            return super().put(claim, row, status, **kwargs)
        except StaleRun:
            claim.seq, claim.tail = row.seq, None
            return row


class Undying(stories.SQLiteCheckpointer):
    """Leaves a note where a row is refused."""

    def put(self, claim, row, status, **kwargs):
        try:
            return super().put(claim, row, status, **kwargs)
        except StaleRun:
            note = "INSERT INTO idempotency_cache VALUES (NULL, ?, 'k', 'note', '', 'done', '', '', '1', '0', 1)"
            stories.raw(self, note, claim.run)
            raise


class Broken:
    """A story, and what is ordered; `stack` undoes at the end what it has changed."""

    def __init__(self, story, faults="crash", **order):
        self.story, self.faults, self.order = story, faults, order

    def swept(self, **order):
        return explore(self.story, self.faults, **(order or self.order))


def of_store(store, **order):
    return lambda ledger, _: Broken(stories.refund(ledger, store=store), **order)


def remembered_elsewhere(ledger, _):
    """Something else than the store remembers that the charge has happened."""
    happened = set()
    pay = stories.charging(ledger)

    def once(state):
        if happened:
            return {"charged": True}
        happened.add("charge")
        return pay(state)

    return Broken(stories.refund(ledger, pay=once, fresh=happened.clear))


def drafts(ledger, _):
    """Counts in a closure what belongs into the state: a process that died has forgotten it."""

    def build(store):
        made = []

        def draft(state):
            made.append(1)
            return {"drafts": len(made)}

        return stories.chain(store, ("first", draft), ("second", draft))

    return Broken(stories.Story("drafts", build, ledger=ledger))


def warmed_up(ledger, stack):
    """The engine calls the last node once more before it takes an answer."""
    last = []
    perform = _drivers.Lifetime.perform

    def warming(life, effect):
        if isinstance(effect, Invoke):
            last[:] = [effect]
        answer = perform(life, effect)
        if isinstance(effect, Take) and last:
            perform(life, last[0])
        return answer

    stack.enter_context(patch.object(_drivers.Lifetime, "perform", warming))
    return Broken(stories.refund(ledger, fresh=last.clear), at="after append check")


def driver_errors(ledger, _):
    """An error of the driver comes out, once."""
    return Broken(
        stories.refund(ledger, store=stories.Leaky, fresh=lambda: setattr(stories.Leaky, "failed", False)),
    )


def forgotten_thread(ledger, stack):
    """The store that completes a recovery leaves a thread."""
    end = threading.Event()

    class Leaving(stories.SQLiteCheckpointer):
        def put(self, claim, row, status, **kwargs):
            stored = super().put(claim, row, status, **kwargs)
            if status == "completed" and claim.epoch > 2:
                thread = threading.Thread(target=end.wait, name="forgotten", daemon=True)
                thread.start()
                stack.callback(thread.join)
                stack.callback(end.set)
            return stored

    return Broken(stories.refund(ledger, store=Leaving), at="resume#1/after append pay")


def deaf(ledger, stack):
    """The engine swallows a crash."""
    tell = _drivers.tell

    def swallowing(observers, boundary):
        try:
            tell(observers, boundary)
        except SimulatedCrash:
            return

    stack.enter_context(patch.object(_drivers, "tell", swallowing))
    return Broken(stories.refund(ledger), at="after append pay")


def translating(ledger, stack):
    """The engine makes another error of a crash."""
    tell = _drivers.tell

    def into_another(observers, boundary):
        try:
            tell(observers, boundary)
        except SimulatedCrash:
            raise KeyError(boundary.name) from None

    stack.enter_context(patch.object(_drivers, "tell", into_another))
    return Broken(stories.refund(ledger), at="before append pay")


BROKEN = {
    "FD01": of_store(stories.Gapped),
    "FD02": of_store(stories.WriteBehind),
    "FD03": of_store(stories.Rewriting),
    "FD04": of_store(Generous, faults="zombie", at="resume#1/before append run_end"),
    "FD05": of_store(Undying, faults="zombie", at="resume#1/after node send"),
    "FD06": of_store(stories.Immortal),
    "FD07": lambda ledger, _: Broken(stories.refund(ledger, pay=stories.charging(ledger, keyed=False))),
    "FD08": remembered_elsewhere,
    "FD09": drafts,
    "FD10": warmed_up,
    "FD11": of_store(stories.Haunted),
    "FD12": driver_errors,
    "FD13": forgotten_thread,
    "FD14": of_store(stories.Endless),
    "FD15": of_store(stories.SQLiteCheckpointer, replay="fd1:resume#1/append nowhere=crash after"),
    "FD16": deaf,
    "FD17": translating,
}
"""What makes a broken story, by the code that it is found under."""


def golden(code):
    """Where the report is kept."""
    return FOLDER / f"{code}.txt"


def printed(report):
    """The report as a terminal of 100 columns without colours shows it."""
    return render(report, 100, color=False) + "\n"


if __name__ == "__main__":
    for code, make in BROKEN.items():
        with EffectLedger() as ledger, ExitStack() as stack:
            golden(code).write_text(printed(make(ledger, stack).swept()), encoding="utf-8")
