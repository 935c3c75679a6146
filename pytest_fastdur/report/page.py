"""One page that shows recorded sweeps: the crash matrix of each story, its findings, each history as a timeline.

It is one file without a link to anything, so it can be kept as an artefact of a build and opened anywhere.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pytest_fastdur.report.data import SweepReport
from pytest_fastdur.report.records import read

_TEMPLATE = Path(__file__).with_name("page.html")
_PLACE = "/*SWEEPS*/[]"


def write_page(folder: Path) -> Path:
    """Write `index.html` beside the recorded sweeps of a folder, and return its path."""
    sweeps = [sweep for path in sorted(folder.glob("*.jsonl")) for sweep in _sweeps(read(path))]
    data = json.dumps(sweeps, separators=(",", ":")).replace("</", "<\\/")  # no text may end the script
    page = folder / "index.html"
    page.write_text(_TEMPLATE.read_text(encoding="utf-8").replace(_PLACE, data), encoding="utf-8")
    return page


def _sweeps(lines: list[Any]) -> list[dict[str, Any]]:
    """What the page needs of each sweep."""
    found: list[dict[str, Any]] = []
    histories: list[dict[str, Any]] = []
    for line in lines:
        if "sweep" in line:
            histories = []
        elif "history" in line:
            histories.append(_history(line["history"]))
        else:
            report = SweepReport.of(line["report"])
            replays = [report.replay(finding) for finding in report.findings]
            found.append({"report": line["report"], "replays": replays, "histories": histories})
    return found


def _history(history: dict[str, Any]) -> dict[str, Any]:
    evidence = history["evidence"]
    return {
        "plan": evidence["plan"],
        "mark": history["mark"],
        "struck": evidence["struck"],
        "counts": evidence["counts"],
        "complete": evidence["complete"],
        "lifetimes": [_lifetime(each) for each in evidence["witnessed"]],
    }


def _lifetime(witnessed: dict[str, Any]) -> dict[str, Any]:
    lifetime = witnessed["lifetime"]
    label, kind, answer = witnessed["call"]
    call = kind if answer is None else f"{kind}({'approved' if answer[0] else 'declined'} {answer[1]})"
    events = [f"{run}{when} {name}" for when, name, _, run, *_ in lifetime["events"]]
    return {
        "label": label,
        "call": call,
        "role": witnessed["role"],
        "how": lifetime["how"],
        "error": lifetime["error"],
        "events": events,
        "struck": lifetime["struck"],
    }
