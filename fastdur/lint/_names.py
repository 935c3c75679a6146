"""Names across files: modules, imports, and what lies outside of the linted files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from fastdur.lint import _catalogue as catalogue
from fastdur.lint._values import NOTHING, Imported, Items, Module, Name, Value, Values

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from fastdur.lint._files import Files
    from fastdur.lint._values import Scope


class Lookup(Protocol):
    """What tells what a name stands for in a scope."""

    def __call__(self, name: str, scope: Scope, /) -> Values:
        """Return the values of `name`."""
        ...


class Names:
    """The modules of the linted files, and what they import."""

    def __init__(self, files: Files, effects: Iterable[str], lookup: Lookup) -> None:
        self.modules: list[Module] = []
        """Those that name fastdur, and those that names have been followed into."""
        self._files = files
        self._worth = catalogue.Known(effects)
        self._lookup = lookup
        self._known: dict[Path, Module] = {}
        self._paths: dict[tuple[str, int, Module], Path | None] = {}
        for path in files.mention:
            self._add(path)

    def _add(self, path: Path) -> Module | None:
        if path not in self._known:
            module = self._files.module(path)
            if module is None:
                return None
            self._known[path] = module
            self.modules.append(module)
        return self._known[path]

    def imported(self, binding: Imported, module: Module) -> Values:
        if not binding.level and binding.module.partition(".")[0] == "fastdur":
            return self.name(catalogue.public(binding.module, binding.name))
        path = self._path(binding.module, binding.level, module)
        found = None if path is None else self._add(path)
        if found is not None and binding.name is None:
            return frozenset({found})
        if found is not None and binding.name is not None:
            return self.member(found, binding.name)
        if binding.level:
            return NOTHING
        return self.name(binding.module if binding.name is None else f"{binding.module}.{binding.name}")

    def _path(self, dotted: str, level: int, module: Module) -> Path | None:
        key = dotted, level, module
        if key not in self._paths:
            self._paths[key] = self._files.imported(dotted, level, module.path)
        return self._paths[key]

    def member(self, module: Module, name: str) -> Values:
        """A name of a linted module, or a module below it."""
        if name in module.scope.names or module.stars:
            found = self._lookup(name, module.scope)
            if found or name in module.scope.names:
                return found
        if module.path.name != "__init__.py":
            return NOTHING
        path = self._path(name, 1, module)
        below = None if path is None else self._add(path)
        return NOTHING if below is None else frozenset({below})

    def name(self, dotted: str) -> Values:
        """Something outside of the linted files, if any rule asks for the likes of it."""
        known = catalogue.canonical(dotted)
        return frozenset({Name(known)}) if known in self._worth else NOTHING


def union(several: Iterable[Values]) -> Values:
    """All of them; of several containers one that holds what is in any, or their number would have no bound."""
    values = NOTHING.union(*several)
    held = [value for value in values if isinstance(value, Items)]
    if len(held) < 2:  # noqa: PLR2004 - nothing to join
        return values
    return frozenset({*values.difference(held), Items(NOTHING.union(*(each.of for each in held)))})


def items_of(values: Values) -> Values:
    """A container of these; one inside another does not count."""
    inside = union(items(value) or frozenset({value}) for value in values)
    return frozenset({Items(inside)}) if inside else NOTHING


def items(value: Value) -> Values:
    """What is in a container."""
    return value.of if isinstance(value, Items) else NOTHING
