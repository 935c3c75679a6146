"""Which nodes of a frame have been committed, and how often. Pure.

A node that a back edge can bring round again has a counter in `visits`; every other is named once in `ran`. The names
lie in short lists, so that a long chain's step copies and compares a few of them and not all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastdur._codec import Frozen

_CHUNK: Final = 32


def committed(state: Mapping[str, Frozen]) -> dict[str, int]:
    """Every node that has been committed in this frame, with its count."""
    ran: Any = state.get("ran", [])
    visits: Any = state.get("visits", {})
    return {**{name: 1 for chunk in ran for name in chunk}, **visits}


def count(state: Mapping[str, Frozen], node: str) -> int:
    """How often a node has been committed in this frame."""
    visits: Any = state.get("visits", {})
    if node in visits:
        found: int = visits[node]
        return found
    ran: Any = state.get("ran", [])
    return 1 if any(node in chunk for chunk in ran) else 0


def with_visit(state: Mapping[str, Frozen], node: str, visit: int, *, again: bool) -> tuple[str, Frozen]:
    """The entry of the state that says so, after this visit; `again` where the node can be entered once more."""
    if again or visit > 1:
        visits: Any = state.get("visits", {})
        return "visits", {**visits, node: visit}
    ran: Any = state.get("ran", [])
    if ran and len(ran[-1]) < _CHUNK:
        return "ran", [*ran[:-1], [*ran[-1], node]]
    return "ran", [*ran, [node]]
