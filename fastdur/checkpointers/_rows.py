"""Rows on their way into a store and out of it: full trees, differences, and texts that any database keeps.

A row's body is the tree of the run's frames, or the difference to the row before. It is full where nothing is known of
the row before, where the tree is small, or where the differences since the last full row exceed the size of the tree:
what they say beyond what has made the tree longer. So a run's bytes grow with what its steps change, and reading its
newest row costs no more than twice the tree.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, cast

from fastdur._codec import diff, dumps, loads, patch, patch_in_place
from fastdur._frozen import class_of
from fastdur.checkpointers._sql import RUN_SHIFT
from fastdur.checkpointers._values import plain, plain_or_none, unplain, unplain_or_none
from fastdur.errors import StoreCorrupt, StoreTooNew
from fastdur.records import FORMAT, Checkpoint, Frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastdur._codec import Frozen
    from fastdur.checkpointers._patience import Stored
    from fastdur.records import Claim, Execution

_KNOWN_TREES: Final = 8
_SEQ: Final = (1 << RUN_SHIFT) - 1
_ELEMENTS: Final = -1
_REORDERED: Final = -2
_MARKS: Final = 2  # of a list or dict in a text: its brackets
_KEY_MARKS: Final = 2  # of a key in a text: a colon, a comma

_UNREADABLE: Final = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError)
"""What a damaged text raises on its way through `loads`, `patch` and `Frame.of`."""


@dataclass(slots=True)
class Tail:
    """What is known of the newest row of a run: enough to write the next one as a difference.

    `tree` is None where the row was not read. `size` is that of the tree's text, `spent` the bytes of the differences
    since the full row `base` that have not made it longer. `status` is the head's, None where that is not known.
    Never changed once made.
    """

    seq: int
    base: int = 0
    size: int = 0
    spent: int = 0
    tree: Frozen = None
    status: str | None = None


def body_after(tail: Tail, frames: Frame, status: str | None, small: int) -> tuple[str, Tail]:
    """Return the body of the row that comes after `tail`, and what is then known of it.

    A tree whose text is no longer than `small` is written in full.
    """
    tree: Frozen = frames.tree()
    seq = tail.seq + 1
    if tail.tree is not None and tail.size > small:
        delta = diff(tail.tree, tree)
        body = dumps(delta)
        vain = len(body) if delta is None else _not_new(tail.tree, delta)
        size = tail.size + len(body) - vain
        spent = tail.spent + vain
        if spent <= size:
            return body, Tail(seq, tail.base, size, spent, tree, status)
    body = dumps(tree)
    return body, Tail(seq, seq, len(body), 0, tree, status)


def _not_new(old: Any, op: Any) -> int:
    """How much of a delta's text does not make the tree longer: its own marks, and what it replaces or removes.

    Costs no more than the delta. Off by a few bytes at most where a container becomes or stops being empty; each full
    row sets that right.
    """
    kind = class_of(op)
    if kind is dict:
        return _not_new_keys(old, op)
    if kind is not list:
        return _weight(old)
    if len(op) == 1:
        return _MARKS + _weight(old)
    first, second = op[0], op[1]
    marks = _MARKS + len(str(first)) + 1
    if first == _ELEMENTS:
        for index, part in second.items():
            marks += _MARKS + len(index) + _KEY_MARKS + _not_new(old[int(index)], part)
        return marks + _MARKS - 1
    if first == _REORDERED:
        return marks + _not_new(old, second) + 1 + len(dumps(op[2]))
    for gone in old[first : len(old) - second]:
        marks += 1 + _weight(gone)
    return marks + len(str(second))


def _not_new_keys(old: dict[str, Frozen], ops: dict[str, Any]) -> int:
    known = _MARKS - 1
    for key, op in ops.items():
        kind = class_of(op)
        if key not in old:
            known += _MARKS * (kind is list)
        elif kind is not list and kind is not dict:
            known += len(encode_basestring_ascii(key)) + _KEY_MARKS + _weight(old[key])
        elif op:
            known += len(encode_basestring_ascii(key)) + _KEY_MARKS + _not_new(old[key], op)
        else:
            known += 2 * (len(encode_basestring_ascii(key)) + _KEY_MARKS) + _MARKS + _weight(old[key])
    return known


def _weight(value: Frozen) -> int:
    """The length of a value's text."""
    kind = class_of(value)
    if kind is str:
        return len(encode_basestring_ascii(cast("str", value)))
    return len(dumps(value)) if kind is dict or kind is list else len(repr(value))


class Tails:
    """The newest rows that were read last, by run and seq. Safe to call from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: OrderedDict[tuple[int, int], Tail] = OrderedDict()

    def put(self, run: int, tail: Tail) -> None:
        """Remember `tail`, forget the one remembered longest."""
        with self._lock:
            self._known[run, tail.seq] = tail
            self._known.move_to_end((run, tail.seq))
            if len(self._known) > _KNOWN_TREES:
                self._known.popitem(last=False)

    def get(self, run: int, seq: int) -> Tail:
        """Return what is known of that row."""
        with self._lock:
            return self._known.get((run, seq), None) or Tail(seq)


def nonce_of(row: Checkpoint, seen: Claim | Execution, seq: int) -> str:
    """The random part of a row's id. Raises `ValueError` where the row is not the one that comes next."""
    prefix = f"{seen.run}-{seq}-"
    if row.seq != seq or row.execution_id != seen.execution_id or not row.checkpoint_id.startswith(prefix):
        message = (
            f"row {row.checkpoint_id!r} (seq {row.seq} of run {row.execution_id!r}) cannot follow row {seq - 1} of run "
            f"{seen.execution_id!r}: its id must start with {prefix!r}"
        )
        raise ValueError(message)
    return row.checkpoint_id[len(prefix) :]


def row_values(run: int, nonce: str, row: Checkpoint, body: str, tail: Tail) -> tuple[object, ...]:
    """Return the columns of `row`, in the order of the statements."""
    return (
        run << RUN_SHIFT | row.seq,
        nonce,
        plain(row.node_id),
        row.node_index,
        row.step_type,
        row.status,
        plain(row.agent_path),
        tail.base,
        tail.size,
        body,
        dumps(dict(row.extra)) if row.extra else None,
        plain_or_none(row.parent_checkpoint_id),
        row.created_at,
        row.format,
    )


def replay(execution_id: str, rows: Sequence[Stored], newest: int) -> list[tuple[Checkpoint, Tail]]:
    """Return the `newest` last checkpoints of stored rows that follow one another, the first of them full.

    Raises `StoreTooNew` for a format of the future and `StoreCorrupt` for a row that cannot be read, naming it.
    """
    found: list[tuple[Checkpoint, Tail]] = []
    tree: Any = None
    size = spent = 0
    skipped = len(rows) - newest
    known = _at_once([stored[9] for stored in rows[: max(skipped, 0)]])
    for number, stored in enumerate(rows):
        base, body, form = stored[7], stored[9], stored[13]
        seq = stored[0] & _SEQ
        if form > FORMAT:
            message = (
                f"Row {_id_of(stored)} of run {execution_id!r} has format {form}; this fastdur reads up to {FORMAT}. "
                "Upgrade fastdur to go on with this run."
            )
            raise StoreTooNew(message)
        try:
            change: Any = known[number] if number < len(known) else loads(body)
            if base == seq:
                tree, spent = change, 0
            else:
                spent += len(body) - (stored[8] - size)
                if change is not None:
                    tree = (patch_in_place if number <= skipped else patch)(tree, change)
            size = stored[8]
            if number >= skipped:
                row = _checkpoint(execution_id, seq, _id_of(stored), tree, stored)
                found.append((row, Tail(seq, base, size, spent, tree)))
        except _UNREADABLE as error:
            message = f"Row {_id_of(stored)} of run {execution_id!r} is damaged ({error!r}); restore it from a backup."
            raise StoreCorrupt(message) from error
    return found


def _id_of(stored: Stored) -> str:
    return f"{stored[0] >> RUN_SHIFT}-{stored[0] & _SEQ}-{stored[1]}"


def _at_once(bodies: list[str]) -> list[Any]:
    """What these texts say, read as one; nothing where one of them is damaged, which is told when it is read alone."""
    try:
        found: Any = loads(f"[{','.join(bodies)}]")
    except _UNREADABLE:
        return []
    return found if len(found) == len(bodies) else []


def _checkpoint(execution_id: str, seq: int, checkpoint_id: str, tree: Frozen, stored: Stored) -> Checkpoint:
    _, _, node_id, node_index, step_type, status, path, _, _, _, extra, parent, created, form = stored
    return Checkpoint(
        execution_id,
        seq,
        checkpoint_id,
        unplain(node_id),
        node_index,
        step_type,
        status,
        Frame.of(tree),
        unplain(path),
        {} if extra is None else cast("dict[str, Frozen]", loads(extra)),
        unplain_or_none(parent),
        created,
        form,
    )


def same_row(one: Checkpoint, other: Checkpoint) -> bool:
    """Tell whether two rows have the same content, types included."""
    return _content(one) == _content(other)


def _content(row: Checkpoint) -> tuple[object, ...]:
    return (
        row.checkpoint_id,
        row.node_id,
        row.node_index,
        row.step_type,
        row.status,
        dumps(row.frames.tree()),
        row.agent_path,
        dumps(dict(row.extra)),
        row.parent_checkpoint_id,
        row.created_at,
        row.format,
    )
