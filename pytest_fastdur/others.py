"""The other runs of a store: whatever is done beside them, their histories only grow, and a fork's source stays put."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_fastdur.verdicts import Verdict, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_fastdur.durable import DurableState, RunState


class Others:
    """What is known of the runs that were there before a story began, from look to look."""

    def __init__(self, before: DurableState) -> None:
        self._before = {run.head.execution_id: run for run in before.runs}
        self._last = dict(self._before)

    def check(self, state: DurableState) -> Iterator[Violation]:
        """What has been rewritten since the last look. A run that is gone is no longer looked for."""
        now = {run.head.execution_id: run for run in state.runs}
        for name, run in self._last.items():
            if name in now and now[name].rows[: len(run.rows)] != run.rows:
                yield Violation(
                    Verdict.REWRITTEN, f"the rows of run {name!r}, which was there before, are not what they were"
                )
        self._last = {name: now[name] for name in self._last if name in now}
        for run in state.runs:
            yield from self._source(run, now)

    def _source(self, run: RunState, now: dict[str, RunState]) -> Iterator[Violation]:
        source = None if run.head.is_child else run.head.parent_id
        if source in self._before and source in now and now[source] != self._before[source]:
            yield Violation(Verdict.REWRITTEN, f"run {source!r} was forked, and is not what it was before")
