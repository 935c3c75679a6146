"""Where two runs of one story part: in their way, in their values."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, cast

from fastdur._codec import thaw

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fastdur.records import Checkpoint
    from pytest_fastdur.durable import RunState

Path = list[tuple[str, str, str]]
"""The node, the step type and the status of each row."""

_STATE: Final = re.compile(r"^frames(\['c'\]\[\d+\])*\['s'\]\['data'\]")
"""Where the user's state stands in a stored tree of frames."""

_MISSING: Final = object()


def steps_of(run: RunState) -> list[tuple[Checkpoint, tuple[str, ...]]]:
    """The rows of a run with their content, without those that only a failure leaves.

    These are the end markers of failures, which a run steps over, and a row that is stored with something left open,
    and once more when that is settled: that of a node whose way out raised, that of an agent's answer before its check.
    """
    return [
        (row, fact)
        for row, fact in zip(run.rows, run.facts, strict=True)
        if (row.step_type, row.status) != ("run_end", "failed") and not row.leaf().state.keys() & {"route", "answer"}
    ]


def path_of(run: RunState | None) -> Path:
    """The way a run went."""
    return [] if run is None else [(row.node_id, row.step_type, row.status) for row, _ in steps_of(run)]


def path_differences(one: Path, other: Path, names: tuple[str, str]) -> Iterator[str]:
    """Where two ways part."""
    for place in range(max(len(one), len(other))):
        here, there = (" ".join(path[place]) if place < len(path) else "nothing" for path in (one, other))
        if here != there:
            yield f"row {place + 1} is {here!r} in {names[0]} and {there!r} in {names[1]}"
            return


def value_differences(one: RunState | None, other: RunState | None, names: tuple[str, str]) -> Iterator[str]:
    """Where the values of two runs that went the same way differ first: at which row, in which key."""
    if one is None or other is None:
        return
    for (mine, fact), (its, other_fact) in zip(steps_of(one), steps_of(other), strict=False):
        if fact != other_fact:
            yield f"after {mine.node_id}, {_first_key(mine.frames.tree(), its.frames.tree(), 'frames', names)}"
            return


def _first_key(one: Any, other: Any, where: str, names: tuple[str, str]) -> str:
    """The innermost place at which two frozen values differ, and what is there."""
    for key, mine, its in _pairs(one, other):
        if not _differ(mine, its):
            continue
        part = f"{where}[{key!r}]"
        if mine is _MISSING or its is _MISSING:
            return f"{_STATE.sub('state', part)} is only in {names[1] if mine is _MISSING else names[0]}"
        return _first_key(mine, its, part, names)
    return f"{_STATE.sub('state', where)} is {_short(one)} in {names[0]} and {_short(other)} in {names[1]}"


def _pairs(one: object, other: object) -> Iterator[tuple[object, Any, Any]]:
    """What stands in the same place of two dicts, or of two lists of the same length."""
    if isinstance(one, dict) and isinstance(other, dict):
        mine, its = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        yield from ((key, mine.get(key, _MISSING), its.get(key, _MISSING)) for key in [*mine, *its])
    elif isinstance(one, list) and isinstance(other, list):
        ours, theirs = cast("Sequence[Any]", one), cast("Sequence[Any]", other)
        if len(ours) == len(theirs):
            yield from ((place, *pair) for place, pair in enumerate(zip(ours, theirs, strict=True)))


def _differ(one: Any, other: Any) -> bool:
    """Whether two values differ, by their types too: `1` and `True` are equal and not the same."""
    if one is _MISSING or other is _MISSING:
        return one is not other
    return json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True)


def _short(value: Any) -> str:
    text = repr(thaw(value))
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 - what fits on a line
