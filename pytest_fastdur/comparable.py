"""What stores hand out, in a form that can be compared from one store to another."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, cast

from fastdur._codec import dumps, freeze
from fastdur.records import Checkpoint, Claim, EffectRecord, Execution, PendingInterrupt

if TYPE_CHECKING:
    from collections.abc import Callable


def comparable(value: Any) -> object:
    """Return the value without keys and times of a store's own; equal only where types are."""
    if isinstance(value, (list, tuple)):
        return [comparable(each) for each in cast("list[Any]", value)]
    kind: type = value.__class__
    if kind not in _KINDS:
        return value
    name, shown, left_out = _KINDS[kind]
    return name, *shown(value), *_fields(value, left_out)


def _fields(record: Any, left_out: tuple[str, ...]) -> list[object]:
    return [getattr(record, each.name) for each in fields(record) if each.name not in left_out]


def _of_row(row: Checkpoint) -> tuple[object, ...]:
    number = row.checkpoint_id.partition("-")[2]  # what stands before it is the store's own key
    return number, dumps(row.frames.tree()), dumps(dict(row.extra))


_KINDS: Final[dict[type, tuple[str, Callable[[Any], tuple[object, ...]], tuple[str, ...]]]] = {
    Claim: ("claim", lambda _: (), ("run", "tail")),
    Checkpoint: ("row", _of_row, ("checkpoint_id", "frames", "extra")),
    Execution: (
        "head",
        lambda head: (dumps(head.graph), dumps(head.input), head.parent_run is None),
        ("run", "graph", "input", "created_at", "updated_at", "parent_run"),
    ),
    EffectRecord: ("effect", lambda record: (dumps(record.result), dumps(record.error)), ("result", "error")),
    PendingInterrupt: ("question", lambda asked: (dumps(freeze(asked.context, "context")),), ("context",)),
}
