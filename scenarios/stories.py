"""The scenarios as stories that can be swept, each with its twins; and the lists of their boundaries.

    python -m scenarios.stories          # write the list of each beside its module: scenarios/refund.boundaries.txt …

A list shows what the engine does in a run without a fault, so a change of behaviour shows in review.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_fastdur.backends import Files
from pytest_fastdur.sweep import Story, boundary_names
from scenarios import (
    agent_in_chain,
    archive,
    balance,
    booking,
    guarded_desk,
    invoice_loop,
    mail,
    nested,
    refund,
    refund_agent,
    report,
    research_team,
    support_swarm,
    triage,
    voucher,
    webhooks,
)
from scenarios._models import awaited
from scenarios._story import World
from scenarios.bucket_server import BucketServer
from scenarios.hook_server import HookServer
from scenarios.mail_server import MailServer
from scenarios.model_server import ModelServer
from scenarios.payments import PaymentServer
from scenarios.shop_database import Shop, ShopDatabase

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType
    from typing import Self

    from fastdur import Checkpointer, Runner
    from scenarios._serving import Counterpart
    from scenarios._story import Build

SCENARIOS: dict[str, ModuleType] = {
    "refund": refund,
    "invoice_loop": invoice_loop,
    "nested": nested,
    "refund_agent": refund_agent,
    "research_team": research_team,
    "support_swarm": support_swarm,
    "report": report,
    "agent_in_chain": agent_in_chain,
    "guarded_desk": guarded_desk,
}
"""The stories about the engine itself; all of them pay at the payment server."""


@dataclass(frozen=True)
class Example:
    """An example of the guide to side effects: a story, its counterpart, and what a sweep says of its variants."""

    module: ModuleType
    counterpart: type[Counterpart]
    effect: str
    """The effect that the story is about, as boundaries are named after it: `send@send`."""
    right: tuple[str, ...] = ("build",)
    """What holds wherever it is faulted."""
    broken: Mapping[str, str] = field(default_factory=dict[str, str])
    """What a sweep says of each broken twin: a code, or why it stops before the first fault."""
    blind: tuple[str, ...] = ()
    """Twins that are wrong without any fault, so that no sweep can see it."""

    def near(self, variant: str) -> str:
        """The boundaries at which the effect of a variant happens, as a pattern."""
        node = self.effect.rpartition("@")[2]
        recorded = variant != "natural" and not variant.endswith("no_idempotent")
        return f"*effect *{self.effect}*" if recorded else f"*node {node}"

    def world(self, server: Any) -> World:
        """What the story happens in. Enter it before the story is played."""
        around: type[World] = getattr(self.module, "WORLD", World)
        return around(server, self.module.ANSWERS)

    def story(self, world: World, variant: str = "build") -> Story:
        """One variant of the story in its world."""
        return _story(self.module, world, getattr(self.module, variant))


EXAMPLES: dict[str, Example] = {
    "refund": Example(
        refund,
        PaymentServer,
        "payout@payout",
        right=("build", "asking"),
        broken={"broken_no_idempotent": "FD07", "broken_no_key": "FD07", "broken_clock": "not deterministic"},
    ),
    "booking": Example(
        booking,
        ShopDatabase,
        "book@book",
        right=("build", "natural"),
        broken={"broken_no_key": "FD07", "broken_no_idempotent": "FD07"},
    ),
    "mail": Example(mail, MailServer, "send@send", broken={"broken_random_id": "FD07", "broken_receiver": "FD07"}),
    "archive": Example(
        archive,
        BucketServer,
        "put@put",
        right=("build", "natural"),
        broken={"broken_fresh_name": "FD07", "broken_append": "FD07"},
    ),
    "triage": Example(
        triage, ModelServer, "model@judge", broken={"broken_no_idempotent": "FD09", "broken_no_key": "FD09"}
    ),
    "voucher": Example(
        voucher,
        PaymentServer,
        "pay@redeem",
        right=("build", "by_answer"),
        broken={"broken_clock": "FD09"},
        blind=("broken_before",),
    ),
    "webhooks": Example(
        webhooks,
        HookServer,
        "notify@tell",
        broken={"broken_no_carry": "ScopeLost", "broken_no_idempotent": "FD07"},
    ),
    "balance": Example(
        balance,
        PaymentServer,
        "pay@pay",
        broken={"broken_second_look": "FD09"},
        blind=("broken_frozen",),
    ),
}


class StoreFiles(Files):
    """SQLite files for histories; what a story wrote into the one of its store can be looked at."""

    _place = ""

    def fresh(self) -> str:
        """Return the place of the next history."""
        self._place = super().fresh()
        return self._place

    def counts(self) -> Mapping[str, int]:
        """How many rows are in the table of the shop, in the history of this moment."""
        shop = Shop(f"sqlite:{self._place}")
        there = shop.run("SELECT name FROM sqlite_master WHERE name = 'bookings'")
        return {"bookings": len(shop.run("SELECT * FROM bookings")) if there else 0}


def in_the_store(files: StoreFiles) -> Story:
    """A booking whose table is in the file of the store. On Postgres it is a variant like any other."""
    return Story(
        "booking",
        lambda store: booking.transactional(store, "sqlite:"),
        booking.INPUT,
        effects=booking.EFFECTS,
        provider=files.counts,
    )


class Counterparts:
    """One of each, started when it is first asked for, and stopped at the end of a `with` block."""

    def __init__(self, postgres: str | None = None) -> None:
        self._postgres = postgres
        self._stack = ExitStack()
        self._running: dict[type[Counterpart], Counterpart] = {}

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop them all."""
        self._stack.close()

    def __call__(self, kind: type[Counterpart]) -> Counterpart:
        """The one of this kind. A database is on the Postgres server, where there is one."""
        if kind not in self._running:
            made = ShopDatabase(self._postgres) if kind is ShopDatabase else kind()
            self._running[kind] = self._stack.enter_context(made)
        return self._running[kind]


def story(scenario: ModuleType, server: PaymentServer, build: Build | None = None, *, on_a_loop: bool = False) -> Story:
    """A scenario, or a twin of it, judged by what the payment server says it has charged and paid back.

    `on_a_loop` makes its models async, so that it is played on an event loop.
    """
    make = build or scenario.build
    if not on_a_loop:
        return _story(scenario, World(server, scenario.ANSWERS), make)

    def made(store: Checkpointer, url: str) -> Runner:
        with awaited():
            return make(store, url)

    return _story(scenario, World(server, scenario.ANSWERS), made)


def _story(scenario: ModuleType, world: World, make: Build) -> Story:
    server = world.server

    def build(store: Checkpointer) -> Runner:
        world.come_up()
        return make(store, server.url)

    return Story(
        scenario.__name__.rpartition(".")[2],
        build=build,
        input=scenario.INPUT,
        answers=dict.fromkeys(scenario.ANSWERS, world.answer),
        effects=scenario.EFFECTS,
        fresh=world.begin,
        provider=server.counts,
    )


def boundaries_file(name: str) -> Path:
    """Where the list of a scenario is kept."""
    return Path(__file__).with_name(f"{name}.boundaries.txt")


def boundaries(name: str, server: Counterpart) -> str:
    """The list of a scenario as it is now, a line each."""
    example = EXAMPLES.get(name) or Example(SCENARIOS[name], PaymentServer, "")
    with example.world(server) as world:
        return "".join(f"{line}\n" for line in boundary_names(example.story(world)))


def counterpart_of(name: str) -> type[Counterpart]:
    """Where the effects of a scenario go."""
    return EXAMPLES[name].counterpart if name in EXAMPLES else PaymentServer


if __name__ == "__main__":
    with Counterparts() as running:
        for each in {**SCENARIOS, **EXAMPLES}:
            boundaries_file(each).write_text(boundaries(each, running(counterpart_of(each))), encoding="ascii")
            print(boundaries_file(each))
