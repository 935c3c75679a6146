"""`[tool.fastdur.lint]` of pyproject.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fastdur.lint._findings import UsageError
from fastdur.lint._rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_KEYS = ("select", "ignore", "effects", "node-decorators", "exclude", "paths", "per-file-ignores")


@dataclass(frozen=True, slots=True)
class Config:
    """What is looked for, and what the project calls an effect and a node."""

    select: frozenset[str] = frozenset(RULES)
    effects: tuple[str, ...] = ()
    node_decorators: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    root: Path | None = None
    """The folder of the file; its paths and patterns are seen from there."""

    def choose(self, select: Iterable[str] | None, ignore: Iterable[str]) -> Config:
        """The same with the codes that the command line names; raises `UsageError` for one that is none."""
        chosen = self.select if select is None else codes(select, "--select")
        return replace(self, select=chosen - codes(ignore, "--ignore"))


def codes(given: Iterable[str], where: str) -> frozenset[str]:
    """The rules that some words mean: a code, the beginning of codes such as FDL1, or a name."""
    found: set[str] = set()
    for word in given:
        fitting = {rule.code for rule in RULES.values() if rule.code.startswith(word.upper()) or rule.name == word}
        if not word.upper().startswith("FDL") and word not in {rule.name for rule in RULES.values()}:
            fitting.clear()
        if not fitting:
            message = f"{where} names {word!r}, which is no rule. There are: {', '.join(RULES)}."
            raise UsageError(message)
        found |= fitting
    return frozenset(found)


def load(given: Path | None = None) -> Config:
    """The configuration in `given`, else in the nearest pyproject.toml from here upwards; the default without one.

    Raises `UsageError` for a file that cannot be read, and for a key or a value that is none.
    """
    path = given if given is not None else _nearest(Path.cwd())
    if path is None:
        return Config()
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}."
        raise UsageError(message) from None
    except UnicodeDecodeError:
        message = f"{path} is not in UTF-8."
        raise UsageError(message) from None
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = f"{path} is no TOML: {error}."
        raise UsageError(message) from None
    for key in ("tool", "fastdur", "lint"):
        table = _table(table.get(key, {}), f"{key!r} in {path}")
    return _config(table, path)


def _nearest(folder: Path) -> Path | None:
    return next(
        (each / "pyproject.toml" for each in (folder, *folder.parents) if (each / "pyproject.toml").is_file()), None
    )


def _config(table: dict[str, Any], path: Path) -> Config:
    where = f"[tool.fastdur.lint] of {path}"
    for key in table:
        if key not in _KEYS:
            message = f"{where} has {key!r}, which is not known. It knows: {', '.join(_KEYS)}."
            raise UsageError(message)
    lists = {key: _words(table.get(key, []), f"{key} in {where}") for key in _KEYS[:-1]}
    ignores = _table(table.get("per-file-ignores", {}), f"per-file-ignores in {where}")
    base = codes(lists["select"], f"select in {where}") if "select" in table else frozenset(RULES)
    return Config(
        select=base - codes(lists["ignore"], f"ignore in {where}"),
        effects=lists["effects"],
        node_decorators=lists["node-decorators"],
        exclude=lists["exclude"],
        paths=lists["paths"],
        per_file_ignores={
            pattern: codes(_words(each, f"per-file-ignores in {where}"), f"per-file-ignores in {where}")
            for pattern, each in ignores.items()
        },
        root=path.parent,
    )


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        message = f"{where} is {value!r}; it has to be a table."
        raise UsageError(message)
    return cast("dict[str, Any]", value)


def _words(value: Any, where: str) -> tuple[str, ...]:
    words: list[Any] = cast("Any", value if isinstance(value, list) else [None])
    if not all(isinstance(each, str) and each for each in words):
        message = f"{where} is {value!r}; it takes a list of texts."
        raise UsageError(message)
    return tuple(words)
