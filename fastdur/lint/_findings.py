"""What the linter has to say: findings, and files that it cannot read."""

from __future__ import annotations

from dataclasses import dataclass


class UsageError(Exception):
    """The linter cannot be used as it was asked to be: a path that is not there, a configuration that is none."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A stretch of source. Lines and columns count from 1."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True, order=True)
class Step:
    """One step of the way from a node to what was found: where it is, and what is called there."""

    place: Place
    name: str


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One mistake: where it stands, which rule says so, and the way that leads there."""

    place: Place
    code: str
    message: str
    way: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """A file that could not be linted, and why."""

    path: str
    line: int
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of one run of the linter."""

    findings: tuple[Finding, ...]
    problems: tuple[Problem, ...]
    files: int
    """How many files were looked at."""

    @property
    def exit_code(self) -> int:
        """2 where a file could not be linted, 1 where there are findings, else 0."""
        return 2 if self.problems else 1 if self.findings else 0
