"""Snippets with the findings that they must give, written behind the lines where they must stand."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

from fastdur.lint._check import lint
from fastdur.lint._config import Config

EXPECTED = re.compile(r"#:((?: FDL\d\d)+)")


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(dedent(text), encoding="utf-8")


def expected(files: dict[str, str]) -> set[tuple[str, int, str]]:
    return {
        (name, number, code)
        for name, text in files.items()
        for number, line in enumerate(dedent(text).splitlines(), start=1)
        for codes in EXPECTED.findall(line)
        for code in codes.split()
    }


def report(folder: Path, files: dict[str, str] | str, config: Config | None = None):
    """The report on some files, or on one that is called flow.py."""
    write(folder, {"flow.py": files} if isinstance(files, str) else files)
    return lint([folder], config or Config())


def check(folder: Path, files: dict[str, str] | str, config: Config | None = None) -> list[str]:
    """Holds files to the comments in them; returns the messages, sorted by place."""
    named = {"flow.py": files} if isinstance(files, str) else files
    found = report(folder, named, config)
    assert found.problems == ()
    places = {(str(Path(each.place.path).relative_to(folder)), each.place.line, each.code) for each in found.findings}
    wanted = expected(named)
    assert places == wanted, f"missing {sorted(wanted - places)}, too many {sorted(places - wanted)}"
    return [finding.message for finding in found.findings]
