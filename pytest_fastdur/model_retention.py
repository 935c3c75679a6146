"""How runs leave the model of a store: deleted by name, or pruned by age."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING

from fastdur._pruned import Pruned
from fastdur.checkpointers.protocol import age
from fastdur.records import Claim

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from fastdur.records import Execution, PendingInterrupt
    from pytest_fastdur.model import RunModel


class Retained(ABC):
    """`delete_execution` and `prune` of the model."""

    clock: float
    runs: dict[str, RunModel]
    questions: dict[tuple[str, str], PendingInterrupt]

    @abstractmethod
    def release(self, claim: Claim) -> None:
        """Own a run no longer."""

    def run_of(self, seen: Claim | Execution) -> RunModel | None:
        """The run that a claim or reading is of; None where it is gone, even if another has its id now."""
        run = self.runs.get(seen.execution_id)
        return run if run is not None and run.head.run == seen.run else None

    def delete_execution(self, seen: Sequence[Execution]) -> bool:
        """Remove these runs, as they were seen or not at all; their owners own them no longer in either case."""
        for head in seen:
            if head.token is not None:
                self.release(Claim(head.execution_id, head.run, head.epoch, head.token, head.seq))
        runs = [run for run in map(self.run_of, seen) if run is not None]
        places = [(run.head.run, run.head.epoch, run.head.seq) for run in runs if not run.head.owned]
        if runs and places != [(head.run, head.epoch, head.seq) for head in seen]:
            return False
        for run in runs:
            self._remove(run.head.execution_id)
        return True

    def _remove(self, name: str) -> None:
        del self.runs[name]
        self.questions = {key: asked for key, asked in self.questions.items() if key[0] != name}

    def prune(
        self,
        older_than: timedelta,
        failed: timedelta | None = None,
        *,
        dry_run: bool = False,
        after: int = 0,
        limit: int | None = None,
    ) -> Pruned:
        """Remove what ended long enough ago, each run with all that its nodes have started."""
        never = float("-inf")
        ended = self.clock, self.clock - age(older_than), never if failed is None else self.clock - age(failed)
        there = {run.head.run for run in self.runs.values()}
        alone = [run for run in self.runs.values() if not run.head.is_child or run.head.parent_run not in there]
        roots = [run for run in alone if run.head.run > after and run.is_old(*ended)]
        looked_at = roots if limit is None else roots[:limit]
        pruned = Pruned({}, dry_run)
        for root in looked_at:
            tree = self._tree(root)
            if all(run.is_old(*ended) for run in tree):
                for run in tree:
                    pruned = pruned.plus(Pruned({run.head.runner: 1}, dry_run))
                    if not dry_run:
                        self._remove(run.head.execution_id)
        more = limit is not None and 0 < limit == len(looked_at)
        return replace(pruned, after=looked_at[-1].head.run if more else None)

    def _tree(self, root: RunModel) -> list[RunModel]:
        found = [root]
        for above in found:
            key = above.head.run
            found += [run for run in self.runs.values() if run.head.is_child and run.head.parent_run == key]
        return found
