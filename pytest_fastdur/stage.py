"""Where the histories of one story are played: each on a place of its own, some of them in child processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from pytest_fastdur.backends import Files
from pytest_fastdur.children import Children
from pytest_fastdur.faults import Fault, SweepError
from pytest_fastdur.power import Power
from pytest_fastdur.world import World

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_fastdur.backends import Backend
    from pytest_fastdur.faults import FaultPlan
    from pytest_fastdur.story import Story

_BUDGET_FOR_CONTROL = 100_000
_HERE = (Fault.POWER, Fault.SERVER, Fault.ABORT)
"""What only the process of the sweep can order; wires are its own too."""


class Worlds:
    """Fresh histories of one story, one after another, each in a place of its own."""

    def __init__(
        self, story: Story, backend: Backend | None, faults: Sequence[Fault], inside: frozenset[str] = frozenset()
    ) -> None:
        self.story = story
        self._inside = inside
        self._wired = any(fault.wire for fault in faults)
        self._forked = Fault.KILL in faults and not self._wired
        self._children: Children | None = None
        self._power = Power()
        self.budget = _BUDGET_FOR_CONTROL
        self.usual: frozenset[str] | None = None
        if story.store is not None and backend is not None:
            message = f"story {story.name!r} brings a store of its own, which is one on files: sweep it on sqlite"
            raise SweepError(message)
        self.backend = backend
        self._backend = backend or Files(reuse=story.store is None)
        self._open: World | None = None

    @property
    def played_on(self) -> Backend:
        """What keeps the histories."""
        return self._backend

    def spare(self, place: str) -> str:
        """Keep a place beyond the end of all this, where it is a file; where it is then."""
        return self._backend.spare(place)

    @property
    def shared(self) -> bool:
        """Whether another process can open what a history has stored."""
        return self._backend.shared

    def __enter__(self) -> Self:
        """Begin."""
        self._backend.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave nothing."""
        if self._open is not None:
            self._open.close()
        if self._children is not None:
            self._children.__exit__()
        self._backend.__exit__()

    def fresh(self, plan: FaultPlan | None = None) -> World:
        """The beginning of a history that a plan strikes, or of one that is as most of them are."""
        forked, wired, power = self._forked, self._wired, None
        if plan is not None:
            ordered = [step.fault for step in plan.steps]
            forked = Fault.KILL in ordered
            wired = any(fault.wire for fault in ordered)
            power = self._power if Fault.POWER in ordered else None
            here = [fault.value for fault in ordered if fault.wire or fault in _HERE]
            if forked and here:
                message = f"{plan} kills a child process, and {here[0]} strikes this one; order one after the other"
                raise SweepError(message)
        children = self._served() if forked else None
        self._open = World(
            self.story,
            self._backend,
            self.budget,
            children=children,
            wired=wired,
            usual=self.usual,
            power=power,
            inside=self._inside,
        )
        return self._open

    def _served(self) -> Children:
        """The children of the story; their server is started when the first one is needed."""
        if self._children is None:
            self._children = Children(self.story, self._backend).__enter__()
        return self._children
