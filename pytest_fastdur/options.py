"""What is done about the options of the command line, where there are any."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_fastdur.faults import SweepError, boundaries_named, faults_named, parse_token
from pytest_fastdur.plugin import option
from pytest_fastdur.schedules import is_schedule, parsed

if TYPE_CHECKING:
    from pathlib import Path

_CHOICES = {"backends": ("sqlite", "postgres", "memory"), "postgres": ("auto", "require", "off")}


def check(given: dict[str, str]) -> None:  # noqa: C901 - one clause for each option
    """Refuse a value that an option does not take."""
    try:
        if "faults" in given:
            faults_named(given["faults"])
        if "boundaries" in given:
            boundaries_named(given["boundaries"])
        if "replay" in given:
            (parsed if is_schedule(given["replay"]) else parse_token)(given["replay"])
    except SweepError as error:
        raise pytest.UsageError(str(error)) from None
    for name, allowed in _CHOICES.items():
        for value in given.get(name, "").split(",") if name in given else ():
            if value.strip() not in allowed:
                message = f"--fastdur-{name} knows {', '.join(allowed)}, not {value.strip()!r}"
                raise pytest.UsageError(message)
    share = given.get("fail-under", "0")
    if not share.replace(".", "", 1).isdecimal() or float(share) > 100:  # noqa: PLR2004 - per cent
        message = f"--fastdur-fail-under takes a number from 0 to 100, not {share!r}"
        raise pytest.UsageError(message)
    for name in ("budget", "seed"):
        if name in given and not given[name].isdecimal():
            message = f"--fastdur-{name} takes a whole number, not {given[name]!r}"
            raise pytest.UsageError(message)


def begin_report(config: pytest.Config) -> None:
    """Take what an earlier run has written out of the folder."""
    if hasattr(config, "workerinput"):
        return
    folder = report_folder(config)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.jsonl"):
        old.unlink()


def report_folder(config: pytest.Config) -> Path:
    """Where reports go: from the folder that pytest was started in."""
    given = option(config, "report")
    assert given is not None
    return config.invocation_params.dir / given
