"""What became of the clauses: results, and a table of them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pytest

from pytest_fastdur.clauses import table_lines
from pytest_fastdur.conformance._bench import Bench

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pytest_fastdur.conformance._clause import Clause
    from pytest_fastdur.conformance._suite import StoreSuite

Outcome = Literal["passed", "failed", "not-implemented"]


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one clause; `reason` says why it failed or is not claimed."""

    clause: str
    outcome: Outcome
    rule: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """What became of the clauses of one suite, by id."""

    suite: str
    results: tuple[Result, ...]

    def ids(self, outcome: Outcome) -> tuple[str, ...]:
        """The clauses with this outcome."""
        return tuple(result.clause for result in self.results if result.outcome == outcome)

    def render(self) -> str:
        """The table as text."""
        lines = [(result.clause, result.outcome, result.rule, result.reason) for result in self.results]
        return "\n".join(table_lines(self.suite, lines))


def run_suite(suite: type[StoreSuite], folder: Path, *, clauses: Iterable[str] | None = None) -> Table:
    """Run a suite, or some of its clauses, without pytest, in one folder below `folder` for each clause."""
    known = {clause.id: clause for clause in suite.clauses()}
    chosen = list(known if clauses is None else clauses)
    unknown = sorted(set(chosen) - set(known))
    if unknown:
        message = f"there are no clauses {unknown}"
        raise ValueError(message)
    return Table(suite.__name__, tuple(_result(suite, known[each], folder) for each in chosen))


_runs = itertools.count(1)


def _result(suite: type[StoreSuite], clause: Clause, folder: Path) -> Result:
    made = suite()
    reason = made.left_out(clause)
    if reason is not None:
        return Result(clause.id, "not-implemented", clause.rule, reason)
    place = folder / f"{clause.id}-{next(_runs)}"
    place.mkdir(parents=True)
    try:
        with Bench(made.make_store, place, []) as bench:
            getattr(made, clause.test)(bench)
    except (Exception, pytest.fail.Exception) as error:
        return Result(clause.id, "failed", clause.rule, f"{type(error).__name__}: {error}")
    return Result(clause.id, "passed", clause.rule)
