"""What a crash costs the plugin: crash points a second, and real kills a second, of a refund with a question.

Per second of one core, that of children included, so that it says the same on a machine that does other things too.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fastdur import Chain, Resume, effect_key, idempotent, interrupt
from pytest_fastdur.backends import Memory
from pytest_fastdur.ledger import EffectLedger
from pytest_fastdur.sweep import Story, explore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastdur import Checkpointer
    from pytest_fastdur.backends import Backend
    from pytest_fastdur.sweep import SweepReport


def _used() -> float:
    """Seconds of a core that this process, and the children that have ended, have used."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _story(ledger: EffectLedger) -> Story:
    def build(store: Checkpointer) -> Chain:
        provider = ledger.wrap("charge", lambda _: None)

        @idempotent(name="charge")
        def charge() -> None:
            provider(effect_key())

        chain = Chain("refund", store).add_node("check", lambda _: {"risk": True})
        chain.add_node("review", lambda _: {"approved": interrupt("approve").approved})
        chain.add_node("pay", lambda _: charge()).add_node("send", lambda _: {"sent": True})
        return chain.connect("check", "review").connect("review", "pay").connect("pay", "send")

    return Story("refund", build, {}, {"approve": Resume(approved=True)}, {"charge": "exactly-once"}, ledger)


def _swept(faults: str, backend: Backend | None) -> tuple[SweepReport, float]:
    with EffectLedger() as ledger:
        story = _story(ledger)
        began = _used()
        report = explore(story, faults, backend=backend)
        took = _used() - began
    if not report.ok:
        raise SystemExit(report.render())
    return report, took


def crashes() -> Iterator[tuple[str, float, str, float]]:
    """What is measured, how much it is, its unit, and at least how much it must be."""
    for name, backend in (("SQLite files", None), ("memory", Memory())):
        report, took = _swept("crash", backend)
        yield f"any number of crashes, {name}", (report.points + report.instants) / took, "a s", 200
    report, took = _swept("kill", None)
    yield "real kills, SQLite files", report.points / took, "a s", 30
