"""The hunt: the cheapest tool that should catch an animal looks for it, within a budget."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_fastdur.faults import Fault, SweepError
from pytest_fastdur.interleave import interleave
from pytest_fastdur.ledger import EffectLedger
from pytest_fastdur.sweep import Order, carry_out
from pytest_fastdur.zoo._animal import loose
from pytest_fastdur.zoo._stories import SITUATIONS, story_named

if TYPE_CHECKING:
    from pytest_fastdur.story import Story
    from pytest_fastdur.zoo._animal import Animal


@dataclass(frozen=True, slots=True)
class Catch:
    """What was found: the code, None where nothing was; after how many points or schedules, and seconds."""

    code: str | None
    points: int
    seconds: float
    what: str = ""


def hunt(animal: Animal) -> Catch:
    """Let the tool of an animal look for it."""
    with loose(animal):
        return _looked(animal)


def is_clean(animal: Animal) -> Catch:
    """Let the same tool look at the real engine, with the same story and budget."""
    return _looked(animal)


def _looked(animal: Animal) -> Catch:
    begun = time.perf_counter()
    with EffectLedger() as ledger:
        story = story_named(animal.story, ledger)
        try:
            code, points, what = _found(animal, story)
        except SweepError as error:
            code, points, what = "control", 1, str(error)
    return Catch(code, points, time.perf_counter() - begun, what)


def _found(animal: Animal, story: Story) -> tuple[str | None, int, str]:
    kind, *words = animal.tool.split()
    if kind == "interleave":
        extras: dict[str, Any] = {word.partition("=")[0]: int(word.partition("=")[2]) for word in words if "=" in word}
        actors = [word for word in words if "=" not in word]
        situation = SITUATIONS.get(animal.story, "paused")
        race = interleave(story, actors, situation=situation, first=True, budget=animal.budget, **extras)
        if not race.findings:
            return None, race.schedules, ""
        return race.findings[0].code, race.schedules, race.findings[0].violation.what
    faults = (Fault(words[0]),) if words else (Fault.CRASH,)
    order = Order(faults, budget=animal.budget, sample="sampled" in words)
    sweep = carry_out(story, order)
    if sweep.stopped is not None:
        return "control", 1, sweep.stopped
    if not sweep.findings:
        return None, sweep.points, ""
    return sweep.findings[0].code, sweep.points, sweep.findings[0].what
