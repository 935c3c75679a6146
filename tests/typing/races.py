"""How users write races and machines down; checked by type checkers, not run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from fastdur import Chain, Resume
from pytest_fastdur.interleave import RaceReport, interleave
from pytest_fastdur.programs import Program, chains, outcome
from pytest_fastdur.race import Rounds, race
from pytest_fastdur.stateful import DurabilityMachine
from pytest_fastdur.story import Story
from pytest_fastdur.zoo import ANIMALS, Catch, hunt, loose

if TYPE_CHECKING:
    from fastdur import Checkpointer
    from pytest_fastdur.actors import Scene
    from pytest_fastdur.ledger import EffectLedger


def shout(scene: Scene) -> object:
    return scene.runner.result(scene.execution_id)


def races(ledger: EffectLedger) -> tuple[RaceReport, Rounds]:
    story = Story("one", lambda store: Chain("one", store), ledger=ledger)
    return interleave(story, ["resume", ("shout", shout)], kills=1, bound=2), race(story, ["resume"] * 3, rounds=2)


class Orders(DurabilityMachine):
    input: ClassVar[Mapping[str, Any]] = {"amount": 120}
    answers: ClassVar[Mapping[str, Any]] = {"over_limit": Resume(approved=True)}

    @classmethod
    def build(cls, store: Checkpointer, effects: EffectLedger) -> Chain:
        return Chain("orders", store).add_node("pay", effects.wrap("pay", lambda state: {"paid": True}))


TestOrders = Orders.TestCase


def a_visit() -> Catch:
    with loose(ANIMALS["claims_without_looking"]):
        return hunt(ANIMALS["writes_behind"])


def the_same(program: Program) -> bool:
    return outcome(program) == outcome(program)


drawn = chains(most=2, awaited=None)
