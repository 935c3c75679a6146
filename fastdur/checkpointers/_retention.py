"""How runs leave a store on an SQL database: deleted by name, or pruned by age. Each goes whole, or stays whole."""

from __future__ import annotations

from functools import partial
from itertools import chain, groupby
from json import dumps
from typing import TYPE_CHECKING, Final, NamedTuple

from fastdur._pruned import Pruned
from fastdur.checkpointers._patience import Patient
from fastdur.checkpointers._values import at_most, unplain
from fastdur.checkpointers.protocol import age

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from fastdur.checkpointers._patience import Session
    from fastdur.checkpointers._sql import Sql
    from fastdur.records import Execution

_BATCH: Final = 100
"""How many runs, each with its child runs, are removed in one transaction."""

_AT_ONCE: Final = 1000
"""How many runs, child runs included, a batch removes in one transaction; where it has more, each tree in its own."""

_NEVER: Final = 1e12
"""Seconds that no run is old."""


class _Old(NamedTuple):
    """A run as it was found: by the run that it goes with."""

    root: int
    run: int
    runner: str
    epoch: int
    seq: int
    old: int


class Retention(Patient):
    """`delete_execution` and `prune`."""

    _sql: Sql
    clock_offset: float

    def _give_back(self, *, fold: bool) -> None:
        """Return the space of what was removed, where the database does not see to that itself; at once with `fold`."""

    def delete_execution(self, seen: Sequence[Execution]) -> bool:
        """Remove everything of these runs, all of them or none."""
        for head in seen:
            if head.token is not None:
                # In a transaction of its own: what its owner has begun to write is there when everything is removed.
                self._write(partial(self._fence, (head.run, head.epoch, head.token)))
        gone = self._removed([(head.run, head.epoch, head.seq) for head in seen])
        if gone:
            self._give_back(fold=False)
        return gone

    def _fence(self, claim: tuple[int, int, str], session: Session) -> None:
        session.change(self._sql.release, claim)

    def prune(
        self,
        older_than: timedelta,
        failed: timedelta | None = None,
        *,
        dry_run: bool = False,
        after: int = 0,
        limit: int | None = None,
    ) -> Pruned:
        """Remove completed and cancelled runs that ended long enough ago, and failed ones where they have an age."""
        ages = age(older_than), _NEVER if failed is None else age(failed)
        pruned = self._batch(ages, after, _BATCH if limit is None else at_most(limit), dry_run=dry_run)
        while limit is None and pruned.after is not None:
            pruned = pruned.plus(self._batch(ages, pruned.after, _BATCH, dry_run=dry_run))
        return pruned

    def _batch(self, ages: tuple[float, float], after: int, limit: int, *, dry_run: bool) -> Pruned:
        cutoffs = [self.clock_offset - each for each in ages]
        old = (self.clock_offset, *cutoffs)
        values = (after, *old, limit, *old)
        found = [_Old(*row) for row in self._read(lambda session: session.rows(self._sql.trees, values))]
        trees = [list(runs) for _, runs in groupby(found, key=lambda each: each.root)]
        gone = [runs for runs in trees if all(each.old for each in runs)]
        if not dry_run:
            gone = self._pruned(gone)
        counts: dict[str, int] = {}
        for each in chain.from_iterable(gone):
            counts[unplain(each.runner)] = counts.get(unplain(each.runner), 0) + 1
        more = trees[-1][0].root if 0 < limit == len(trees) else None
        return Pruned(dict(sorted(counts.items())), dry_run, more)

    def _pruned(self, trees: list[list[_Old]]) -> list[list[_Old]]:
        """Remove what nobody has touched since it was found: all at once, else one after another."""
        places = [[(each.run, each.epoch, each.seq) for each in runs] for runs in trees]
        every = [*chain.from_iterable(places)]
        if not every or (len(every) <= _AT_ONCE and self._removed(every)):
            gone = trees
        else:
            gone = [runs for runs, place in zip(trees, places, strict=True) if self._removed(place)]
        if gone:
            self._give_back(fold=True)
        return gone

    def _removed(self, places: Sequence[tuple[int, int, int]]) -> bool:
        """Remove the runs at these places (run, epoch, seq), all of them or none. True where they are gone."""
        sql, runs, which = self._sql, len(places), dumps(places)
        pieces = [
            (sql.remove, (which, runs, which, which, self.clock_offset)),
            (sql.remove_starts, (which,)),
            (sql.remove_rows, (which,)),
            (sql.remove_questions, (which,)),
            (sql.remove_effects, (which,)),
        ]
        return self._write(
            lambda session: session.move(pieces, runs) or not session.rows(sql.left, (which,)),
        )
