"""The linter as a whole: from paths to a report."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fastdur.lint import _catalogue as catalogue
from fastdur.lint import _check_effects, _check_nodes, _check_questions
from fastdur.lint._evaluate import Evaluator
from fastdur.lint._files import Files, fits, python_files
from fastdur.lint._findings import Finding, Report
from fastdur.lint._graph import Graph
from fastdur.lint._suppress import apply, suppressions

if TYPE_CHECKING:
    import re
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from fastdur.lint._config import Config

_DEEPEST = 5000


def lint(paths: Sequence[str | Path], config: Config) -> Report:
    """Lint the files at and below some paths. Raises `UsageError` where there is nothing at one of them."""
    return lint_files(python_files(paths, config.exclude), config)


def lint_files(paths: Sequence[Path], config: Config) -> Report:
    """Lint some files. Only those that name fastdur, and what they import, are looked at; all are read."""
    with _deep():
        return _linted(paths, config)


@contextmanager
def _deep() -> Generator[None]:
    """Long chains of calls are deep trees: more than Python's usual limit is needed to walk them."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEEPEST))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _linted(paths: Sequence[Path], config: Config) -> Report:
    files = Files(paths)
    evaluator = Evaluator(files, config.effects)
    graph = Graph(evaluator, _names(config.effects), _names(config.node_decorators))
    found = _one_each(
        finding
        for part in (_check_nodes.check, _check_effects.check, _check_questions.check)
        for finding in part(graph)
        if finding.code in config.select
    )
    kept = [finding for path in files.mention for finding in _kept(files, path, found, config)]
    named = {module.shown for module in graph.modules if module.path in set(files.mention)}
    kept += [finding for finding in found if finding.place.path not in named]
    ignored = (finding for finding in kept if not _is_ignored(finding, config))
    return Report(tuple(sorted(set(ignored))), tuple(sorted(files.problems)), len(files.paths))


def _names(given: Sequence[str]) -> re.Pattern[str] | None:
    return catalogue.pattern([way for name in given for way in (name, f"**.{name}")]) if given else None


def _one_each(findings: Iterable[Finding]) -> list[Finding]:
    """One finding of each rule at each place: the first, which is the nearest; the worse one stands for the other."""
    found: dict[tuple[object, str], Finding] = {}
    for finding in findings:
        found.setdefault((finding.place, finding.code), finding)
    return [each for each in found.values() if each.code != "FDL02" or (each.place, "FDL01") not in found]


def _kept(files: Files, path: Path, found: list[Finding], config: Config) -> Iterator[Finding]:
    """The findings of one file that its comments let through, and what is wrong with the comments."""
    module = files.module(path)
    if module is None:
        return
    known, wrong = suppressions(files.source(path), module.shown)
    own = [finding for finding in found if finding.place.path == module.shown]
    for finding in (*apply(own, known, config.select), *wrong):
        if finding.code in config.select:
            yield finding


def _is_ignored(finding: Finding, config: Config) -> bool:
    return any(
        finding.code in codes and fits(Path(finding.place.path), [pattern])
        for pattern, codes in config.per_file_ignores.items()
    )
