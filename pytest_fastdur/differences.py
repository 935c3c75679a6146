"""Where two runs of one story part: in their way, in their values."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, cast

from fastdur._codec import thaw
from pytest_fastdur.extended import in_force
from pytest_fastdur.observers import without_repeats

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_fastdur.durable import RunState

Rows = list[tuple[str, str, str, Any]]
"""The node, the step type, the status and the frames of each row."""

Others = tuple[tuple[str, Rows], ...]
"""Status and rows of the runs beside the story's own."""

_STATE: Final = re.compile(r"^frames(\['c'\]\[\d+\])*\['s'\]\['data'\]")
"""Where the user's state stands in a stored tree of frames."""

_MISSING: Final = object()


def steps_of(run: RunState | None) -> Rows:
    """The rows of a run, without those that only a failure leaves.

    These are the end markers of failures, which a run steps over, and a row that is stored with something left open,
    and once more when that is settled: that of a node whose way out raised, that of an agent's answer before its check.
    """
    return [
        (row.node_id, row.step_type, row.status, in_force.canonical(without_repeats(row.frames.tree())))
        for row in (() if run is None else run.rows)
        if (row.step_type, row.status) != ("run_end", "failed") and not row.leaf().state.keys() & {"route", "answer"}
    ]


def row_differences(one: Rows, other: Rows, names: tuple[str, str]) -> Iterator[str]:
    """Where two runs part: in the way they went; where that is one, in their values."""
    ways = list(_path_differences(one, other, names))
    yield from ways or _value_differences(one, other, names)


def other_differences(one: Others, other: Others, names: tuple[str, str]) -> Iterator[str]:
    """Where the runs beside two runs part, their child runs among them."""
    if len(one) != len(other):
        yield f"{len(one)} other runs are there in {names[0]} and {len(other)} in {names[1]}"
    for number, ((was, mine), (now, its)) in enumerate(zip(one, other, strict=False), start=2):
        if was != now:
            yield f"run {number} is {was} in {names[0]} and {now} in {names[1]}"
        for what in row_differences(mine, its, names):
            yield f"run {number}: {what}"


def _path_differences(one: Rows, other: Rows, names: tuple[str, str]) -> Iterator[str]:
    for place in range(max(len(one), len(other))):
        here, there = (" ".join(rows[place][:3]) if place < len(rows) else "nothing" for rows in (one, other))
        if here != there:
            yield f"row {place + 1} is {here!r} in {names[0]} and {there!r} in {names[1]}"
            return


def _value_differences(one: Rows, other: Rows, names: tuple[str, str]) -> Iterator[str]:
    for (node, *_, mine), (*_, its) in zip(one, other, strict=False):
        if _differ(mine, its):
            yield f"after {node}, {_first_key(mine, its, 'frames', names)}"
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
