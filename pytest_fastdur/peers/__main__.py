"""Sweep the refund on every engine that is installed, replay each finding in a fresh process, print one table."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_fastdur.foreign import sweep_subject

if TYPE_CHECKING:
    from pytest_fastdur.report.data import SweepReport

ENGINES = {"fastdur": "ours", "fastaiagent": "on_fastaiagent", "langgraph": "on_langgraph", "dbos": "on_dbos"}


def reproduced(module: str, report: SweepReport) -> Counter[str]:
    """The findings whose token finds the same in a fresh process, by verdict."""
    found: Counter[str] = Counter()
    for finding in report.findings:
        command = [sys.executable, "-m", "pytest_fastdur", "subject", module, finding.token]
        again = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own program
        if again.returncode == 1 and finding.verdict in again.stdout:
            found[finding.verdict] += 1
            print(f"  {finding.verdict}: python -m pytest_fastdur subject {module} '{finding.token}'", flush=True)  # noqa: T201 - the answer
        else:
            print(f"  not reproduced, not counted: {finding.verdict} {finding.token}", flush=True)  # noqa: T201 - the answer
    return found


def row(package: str, faults: str) -> tuple[str, bool]:
    """One line of the table, and whether the engine held."""
    module = f"pytest_fastdur.peers.{ENGINES[package]}"
    try:
        engine = f"{package} {version(package)}"
        subject: Any = import_module(module)
    except (PackageNotFoundError, ImportError) as error:
        return f"| {package} | not installed here: {error} | | |", False
    print(f"{engine}: {subject.SETTINGS}", flush=True)  # noqa: T201 - the answer
    report = sweep_subject(subject, faults)
    if report.stopped is not None:
        return f"| {engine} | {subject.SETTINGS} | 0 | stopped: {' '.join(report.stopped.split())} |", False
    found = reproduced(module, report)
    said = ", ".join(f"{number} x {verdict}" for verdict, number in sorted(found.items())) or "none"
    return (
        f"| {engine} | {subject.SETTINGS} | {len(report.rows)} ({report.points} points) | {said} |",
        not report.findings,
    )


def main(arguments: list[str]) -> int:
    """Print the table, and write it to the file that is given; 0 where ours held."""
    rows = {package: row(package, "kill") for package in ENGINES}
    table = [
        f"Made on {datetime.now(UTC):%Y-%m-%d} with Python {sys.version.split()[0]}.",
        "",
        "| engine | settings | boundaries | findings that a fresh process reproduces |",
        "|---|---|---|---|",
        *(line for line, _ in rows.values()),
    ]
    print("\n".join(table))  # noqa: T201 - the answer
    if arguments:
        Path(arguments[0]).write_text("\n".join(table) + "\n", encoding="utf-8")
    return int(not rows["fastdur"][1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
