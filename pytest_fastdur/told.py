"""What a call has told its caller, in words."""

from __future__ import annotations

from typing import Any

from fastdur._runner import Recovered
from fastdur.records import RunResult


def ends_of(came: Any) -> list[str]:
    """The status of each run that a call says it has carried on, or the type of the error of one."""
    told: list[Any] = came if type(came) is list else [came]  # pyright: ignore[reportUnknownVariableType]
    found: list[str] = []
    for each in told:
        result = each.result if isinstance(each, Recovered) else each
        if isinstance(each, Recovered) and each.error is not None:
            found.append(type(each.error).__name__)
        elif isinstance(result, RunResult):
            found.append(result.status)
    return found
