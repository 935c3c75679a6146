"""What was found, as marks in the source: a patch that makes each finding a test of its own from then on."""

from __future__ import annotations

import re
from difflib import unified_diff
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_IMPORT = re.compile(r"^(?:import |from (?!__future__))")


def patch_of(root: Path, found: Iterable[tuple[str, int, str]]) -> str:
    """The patch, to be applied in `root`, of files, line numbers of tests (from 0) and tokens found by them."""
    places: dict[str, dict[int, list[str]]] = {}
    for name, line, token in found:
        tokens = places.setdefault(name, {}).setdefault(line, [])
        if token not in tokens:
            tokens.append(token)
    return "".join(part for name in sorted(places) for part in _file_patch(root, name, places[name]))


def _file_patch(root: Path, name: str, places: dict[int, list[str]]) -> Iterator[str]:
    before = (root / name).read_text(encoding="utf-8").splitlines(keepends=True)
    after: list[str] = []
    for number, line in enumerate(before):
        indent = line[: len(line) - len(line.lstrip())]
        mark = f"{indent}@pytest.mark.fastdur_replay"
        after += [text for token in places.get(number, []) if (text := f"{mark}({token!r})\n") not in before]
        after.append(line)
    if after != before and not any(line.startswith("import pytest") for line in before):
        first = next((place for place, line in enumerate(after) if _IMPORT.match(line)), 0)
        after.insert(first, "import pytest\n")
    for line in unified_diff(before, after, f"a/{name}", f"b/{name}"):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
