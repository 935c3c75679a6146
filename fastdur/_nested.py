"""Runners inside runners: which stand where, and that none stands inside itself. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastdur.errors import GraphError

if TYPE_CHECKING:
    from fastdur._runner import Runner

MAX_NESTED = 50


def holds(outer: Runner, wanted: Runner) -> bool:
    """Whether `wanted` is `outer`, or stands anywhere inside it."""
    seen: list[Runner] = []
    ahead = [outer]
    while ahead:
        runner = ahead.pop()
        if runner not in seen:
            seen.append(runner)
            ahead += [inner for _, inner in runner.runners()]
    return wanted in seen


def check_inside(outer: Runner) -> None:
    """Check the runners inside one. Raises `GraphError` where it stands inside itself, or too deep."""
    _check_depth(outer)
    for place, runner in outer.runners():
        if holds(runner, outer):
            message = f"{outer.kind} {outer.name!r} stands inside itself, at node {place!r}; it would never end"
            raise GraphError(message)
        runner.validate()


def _check_depth(outer: Runner) -> None:
    seen: set[Runner] = set()
    level: set[Runner] = {outer}
    for _ in range(MAX_NESTED + 1):
        seen |= level
        level = {inner for runner in level for _, inner in runner.runners()} - seen
        if not level:
            return
    message = f"{outer.kind} {outer.name!r} has runners nested more than {MAX_NESTED} deep; flatten some of them"
    raise GraphError(message)
