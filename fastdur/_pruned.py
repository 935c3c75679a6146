"""What came of a prune."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a prune has removed, or would remove: how many runs, by the name of their runner.

    `after` is where a further batch begins, None where every run has been looked at.
    """

    runs: Mapping[str, int] = field(default_factory=dict[str, int])
    dry_run: bool = False
    after: int | None = None

    @property
    def total(self) -> int:
        """How many runs in all."""
        return sum(self.runs.values())

    def plus(self, more: Pruned) -> Pruned:
        """This and a further batch."""
        names = sorted({**self.runs, **more.runs})
        counts = {name: self.runs.get(name, 0) + more.runs.get(name, 0) for name in names}
        return Pruned(counts, more.dry_run, more.after)
