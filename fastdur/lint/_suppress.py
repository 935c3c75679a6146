"""`# fastdur: ignore[FDL03] why`: what the source says is meant as it is."""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fastdur.lint._findings import Finding, Place
from fastdur.lint._rules import ALWAYS, RULES

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMMENT = re.compile(r"#\s*fastdur:\s*ignore\b(?:\[([^\]]*)\])?(.*)")


@dataclass(slots=True)
class Suppression:
    """One comment, and which of its codes have been needed."""

    place: Place
    lines: range
    """The lines that it is for: its own, and the next one of code where it stands alone."""
    codes: tuple[str, ...]
    used: set[str] = field(default_factory=set[str])


def suppressions(source: str, path: str) -> tuple[list[Suppression], list[Finding]]:
    """The suppressions in a file, and those that are none."""
    found: list[Suppression] = []
    wrong: list[Finding] = []
    if not re.search(r"fastdur:\s*ignore", source):
        return found, wrong
    code_lines: list[int] = []
    comments: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            comments.append(token)
        elif token.type not in (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER):
            code_lines += range(token.start[0], token.end[0] + 1)
    with_code = set(code_lines)
    for token in comments:
        match = _COMMENT.search(token.string)
        if match is None:
            continue
        line, column = token.start
        start = column + match.start()
        place = Place(path, line, start + 1, line, column + len(token.string) + 1)
        codes = tuple(word.strip().upper() for word in (match[1] or "").split(",") if word.strip())
        why = _what_is_wrong(codes, match[2])
        if why:
            wrong.append(Finding(place, "FDL91", f"this suppression {why}, so it is ignored."))
            continue
        last = line if line in with_code else min((each for each in with_code if each > line), default=line)
        found.append(Suppression(place, range(line, last + 1), codes))
    return found, wrong


def _what_is_wrong(codes: tuple[str, ...], reason: str) -> str:
    if not codes:
        return "names no rule"
    unknown = [code for code in codes if code not in RULES or code in ALWAYS]
    if unknown:
        return f"names {unknown[0]}, which is no rule that can be suppressed"
    return "" if reason.strip(" :-#") else "gives no reason"


def apply(findings: list[Finding], known: list[Suppression], checked: frozenset[str]) -> Iterator[Finding]:
    """The findings that nothing suppresses, and the suppressions that suppress nothing."""
    for finding in findings:
        lines = range(finding.place.line, finding.place.end_line + 1)
        fitting = [
            each
            for each in known
            if finding.code in each.codes and each.lines.start < lines.stop and lines.start < each.lines.stop
        ]
        for each in fitting:
            each.used.add(finding.code)
        if not fitting:
            yield finding
    for each in known:
        unused = [code for code in each.codes if code not in each.used and code in checked]
        if unused:
            yield Finding(each.place, "FDL90", f"there is no {', '.join(unused)} here to suppress.")
