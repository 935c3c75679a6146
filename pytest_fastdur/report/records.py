"""A sweep as lines of JSON: enough to judge every history again, without a run.

The first line says what was swept and how the uninterrupted run ends, then comes one for each history, and last the
report. Each is an object with one key: `sweep`, `history`, `report`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_fastdur import judge
from pytest_fastdur.evidence import End, Evidence
from pytest_fastdur.faults import SweepError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pytest_fastdur.report.data import SweepReport
    from pytest_fastdur.sweep import Recorded

FORMAT = 1


def lines_of(recorded: Recorded, report: SweepReport) -> Iterator[str]:
    """The lines of one sweep."""
    head = {"format": FORMAT, "story": report.story, "nodeid": report.nodeid, "store": report.store}
    end = None if recorded.end is None else recorded.end.plain()
    yield _line("sweep", {**head, "end": end})
    for evidence, mark in recorded.histories:
        yield _line("history", {"evidence": evidence.plain(report.digest or "0000"), "mark": mark})
    yield _line("report", report.plain())


def _line(kind: str, content: object) -> str:
    return json.dumps({kind: content}, separators=(",", ":"))


@dataclass
class Judged:
    """What a file says of one sweep, judged again."""

    story: str
    store: str
    histories: int = 0
    found: list[str] = field(default_factory=list[str])
    """A line for each history in which a promise was broken."""
    changed: list[str] = field(default_factory=list[str])
    """A line for each history that was judged otherwise when it was played."""


def read(path: Path) -> list[Any]:
    """The lines of a file. Raises `SweepError` where it is none of ours."""
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        formats = [line["sweep"]["format"] for line in lines if "sweep" in line]
    except (OSError, ValueError, TypeError, KeyError) as error:
        message = f"{path} is no file of recorded sweeps ({error}); --fastdur-report DIR writes such files"
        raise SweepError(message) from None
    if not formats or set(formats) != {FORMAT}:
        message = f"{path} was written by another version (format {formats or 'unknown'}, here {FORMAT}); run it anew"
        raise SweepError(message)
    return lines


def judged_again(lines: Iterable[Any]) -> list[Judged]:
    """Judge every history of some lines."""
    found: list[Judged] = []
    end: End | None = None
    for line in lines:
        if "sweep" in line:
            head = line["sweep"]
            found.append(Judged(head["story"], head["store"]))
            end = None if head["end"] is None else End.of_plain(head["end"])
        elif "history" in line and end is not None:
            _judge(found[-1], line["history"], end)
    return found


def _judge(judged: Judged, history: Any, end: End) -> None:
    evidence = Evidence.of_plain(history["evidence"])
    violation = judge.worst(evidence, end)
    mark = judge.mark(evidence, violation)
    judged.histories += 1
    if violation is not None:
        judged.found.append(f"{violation.verdict}  {evidence.plan}: {violation.what}")
    if mark != history["mark"]:
        judged.changed.append(f"{evidence.plan}: {history['mark']} when it was played, {mark} now")
