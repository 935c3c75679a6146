"""Which files are linted, and their syntax trees."""

from __future__ import annotations

import ast
import os
import warnings
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from fastdur.lint._findings import Problem, UsageError
from fastdur.lint._scopes import build

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fastdur.lint._values import Module

_SKIPPED = frozenset({"__pycache__", "node_modules"})


def python_files(paths: Sequence[str | Path], exclude: Sequence[str] = ()) -> list[Path]:
    """The files at `paths`, and those below the folders among them; raises `UsageError` for one that is not there.

    Left out are hidden folders, environments, caches, and what a pattern of `exclude` fits; a file that is named itself
    is always in.
    """
    found: dict[Path, None] = {}
    for given in paths:
        path = Path(given)
        if path.is_dir():
            found.update(dict.fromkeys(_below(path, exclude)))
        elif path.exists():
            found[path] = None
        else:
            message = f"There is nothing at {str(given)!r} to lint."
            raise UsageError(message)
    return list(found)


def _below(folder: Path, exclude: Sequence[str]) -> Iterator[Path]:
    for here, folders, files in os.walk(folder):
        at = Path(here)
        folders[:] = sorted(name for name in folders if not _is_skipped(at / name, exclude))
        yield from (at / name for name in sorted(files) if name.endswith(".py") and not fits(at / name, exclude))


def _is_skipped(folder: Path, exclude: Sequence[str]) -> bool:
    name = folder.name
    return name.startswith(".") or name in _SKIPPED or (folder / "pyvenv.cfg").exists() or fits(folder, exclude)


def fits(path: Path, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns fits the path, as it is printed, or a folder that it is in."""
    text = shown(path)
    folders = text.split("/")
    ways = ["/".join(folders[:count]) for count in range(1, len(folders) + 1)]
    return any(fnmatchcase(way, pattern.rstrip("/")) for pattern in patterns for way in ways)


def shown(path: Path) -> str:
    """A path as it is printed: from the working directory where it is below it, with slashes."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()


class Files:
    """The linted files, read once and parsed when they matter."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.problems: list[Problem] = []
        self._built: dict[Path, Module | None] = {}
        self.paths: dict[Path, Path] = {path.resolve(): path for path in paths}
        self.mention: list[Path] = []
        """Those that name fastdur; only they can have nodes and effects."""
        for path, given in self.paths.items():
            source = self._read(given)
            if source is None:
                continue
            tree = self._parsed(source, given)
            if tree is not None and b"fastdur" in source:
                self.mention.append(path)
                self._build(path, tree)

    def module(self, path: Path) -> Module | None:
        """The module in a linted file; None where it cannot be read."""
        if path not in self._built:
            given = self.paths[path]
            source = self._read(given)
            tree = None if source is None else self._parsed(source, given)
            if tree is None:
                return self._built.setdefault(path, None)
            self._build(path, tree)
        return self._built[path]

    def source(self, path: Path) -> str:
        """The text of a linted file that was parsed."""
        import tokenize

        with tokenize.open(path) as file:
            return file.read()

    def _build(self, path: Path, tree: ast.Module) -> None:
        given = shown(self.paths[path])
        try:
            self._built[path] = build(path, given, tree)
        except RecursionError:
            self._built[path] = None
            self._problem(given, 1, "its expressions are nested too deeply to be looked at")

    def _read(self, path: Path) -> bytes | None:
        if path.exists() and not path.is_file():
            self._problem(shown(path), 1, "is no file but a pipe, a socket or a device")  # reading one may never end
            return None
        try:
            return path.read_bytes()
        except OSError as error:
            self._problem(shown(path), 1, f"cannot be read: {error.strerror}")
            return None

    def _parsed(self, source: bytes, path: Path) -> ast.Module | None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what Python thinks of its style is for others to say
                return ast.parse(source)
        except (SyntaxError, ValueError) as error:  # ValueError: a null byte, in some versions
            line, what = getattr(error, "lineno", None), getattr(error, "msg", None)
            self._problem(shown(path), line or 1, f"is no Python {_version()}: {what or error}")
        except (RecursionError, MemoryError):
            self._problem(shown(path), 1, "its expressions are nested too deeply to be parsed")
        return None

    def _problem(self, path: str, line: int, message: str) -> None:
        problem = Problem(path, line, message)
        if problem not in self.problems:
            self.problems.append(problem)

    # -- imports ---------------------------------------------------------------------------------------------------

    def imported(self, dotted: str, level: int, importing: Path) -> Path | None:
        """The linted file that an import in `importing` means; None where it is none of them."""
        parts = dotted.split(".") if dotted else []
        if level:
            folder = importing.parents[level - 1]
            return self._at(folder, parts)
        for folder in importing.parents:
            if folder / "__init__.py" in self.paths:
                continue  # inside a package an absolute import does not look beside itself
            for root in (folder, folder / "src"):
                found = self._at(root, parts)
                if found is not None:
                    return found
        return None

    def _at(self, folder: Path, parts: list[str]) -> Path | None:
        base = folder.joinpath(*parts)
        for path in (base / "__init__.py", base.with_suffix(".py") if parts else base):
            if path in self.paths:
                return path
        return None


def _version() -> str:
    import sys

    return ".".join(map(str, sys.version_info[:2]))
