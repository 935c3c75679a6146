"""The scenarios as stories that can be swept, each with its broken twins; and the lists of their boundaries.

    python -m scenarios.stories          # write the list of each beside its module: scenarios/refund.boundaries.txt …

A list shows what the engine does in a run without a fault, so a change of behaviour shows in review.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_fastdur.sweep import Story, boundary_names
from scenarios import invoice_loop, nested, refund
from scenarios.payments import PaymentServer

if TYPE_CHECKING:
    from types import ModuleType

    from scenarios._story import Build

SCENARIOS: dict[str, ModuleType] = {"refund": refund, "invoice_loop": invoice_loop, "nested": nested}
EFFECTS = {"charges": "exactly-once", "refunds": "exactly-once"}


def story(scenario: ModuleType, server: PaymentServer, build: Build | None = None) -> Story:
    """A scenario, or a twin of it, judged by what the payment server says it has charged and paid back."""
    make = scenario.build if build is None else build
    return Story(
        scenario.__name__.rpartition(".")[2],
        build=lambda store: make(store, server.url),
        input=scenario.INPUT,
        answers=scenario.ANSWERS,
        effects=EFFECTS,
        fresh=server.client.reset,
        provider=lambda: {"charges": len(server.client.charges()), "refunds": len(server.client.refunds())},
    )


def boundaries_file(name: str) -> Path:
    """Where the list of a scenario is kept."""
    return Path(__file__).with_name(f"{name}.boundaries.txt")


def boundaries(name: str, server: PaymentServer) -> str:
    """The list of a scenario as it is now, a line each."""
    return "".join(f"{line}\n" for line in boundary_names(story(SCENARIOS[name], server)))


if __name__ == "__main__":
    with PaymentServer() as paying:
        for each in SCENARIOS:
            boundaries_file(each).write_text(boundaries(each, paying), encoding="ascii")
            print(boundaries_file(each))
