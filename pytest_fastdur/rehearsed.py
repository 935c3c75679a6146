"""A story that was played without a fault, and is ready to be played again, example by example."""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING

from pytest_fastdur.control import controlled
from pytest_fastdur.faults import Fault
from pytest_fastdur.ledger import EffectLedger
from pytest_fastdur.stage import Worlds

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_fastdur.backends import Backend
    from pytest_fastdur.control import Control
    from pytest_fastdur.faults import Point
    from pytest_fastdur.story import Story
    from pytest_fastdur.world import World


class Rehearsed:
    """Its places are kept until the process ends; each example gets an empty one."""

    def __init__(self, tell: Callable[[EffectLedger], Story], backend: Backend | None) -> None:
        self._opened = ExitStack()
        atexit.register(self._opened.close)
        ledger = self._opened.enter_context(EffectLedger())
        self.story = tell(ledger)
        self._worlds = self._opened.enter_context(Worlds(self.story, backend, (Fault.CRASH,)))
        self.control: Control = controlled(self.story, self._worlds.fresh)
        self._worlds.usual = self.control.left
        self._worlds.budget = 10 * self.control.longest + 100

    @cached_property
    def instants(self) -> list[Point]:
        """Every instant of the uninterrupted run, in order."""
        return list(self.control.points)

    def fresh(self) -> World:
        """An empty world."""
        return self._worlds.fresh()
