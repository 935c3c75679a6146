"""Whether the model of a disk says of SQLite what SQLite's makers say: their table of `journal_mode` and `synchronous`.

A plain program commits row after row; the power is cut at each of its operations, and every image that may be left is
opened. What is counted is held to https://sqlite.org/pragma.html#pragma_synchronous before a verdict on a store counts.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pytest_fastdur.backends import fast_folder
from pytest_fastdur.disk import Disk
from pytest_fastdur.faults import SweepError
from pytest_fastdur.power import lay_out
from pytest_fastdur.vfs import listening

if TYPE_CHECKING:
    from pytest_fastdur.disk import Image

_FOLD_AFTER = 8
"""After how many pages the log is folded back: early, so that this is cut into too."""


@dataclass
class Losses:
    """What was left of the program."""

    images: int = 0
    damaged: int = 0
    lost: int = 0
    """The most rows that were acknowledged and gone, in a whole file."""
    holes: int = 0
    """How many whole files hold a later row without an earlier one."""
    killed: int = 0
    """How many images were wrong in which everything was kept: that is what SIGKILL leaves."""
    syncs: int = 0
    folder_syncs: int = 0


def measured(journal: str, synchronous: str, commits: int) -> Losses:
    """Let a program commit that often, and look at everything that a power cut may leave."""
    found = Losses()
    with TemporaryDirectory(prefix="fastdur-power-", dir=fast_folder()) as folder:
        disk, told = Disk(), list[int]()
        place = str(Path(folder) / "rows.db")
        with listening(place, disk), closing(sqlite3.connect(place, isolation_level=None)) as connection:
            connection.execute(f"PRAGMA journal_mode = {journal}")
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_FOLD_AFTER}")
            connection.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, filling BLOB)")
            first = len(disk.ops)
            for number in range(commits):
                connection.execute("INSERT INTO rows VALUES (?, zeroblob(2000))", (number,))
                told.append(len(disk.ops))
            last = len(disk.ops)
        found.syncs = sum(op.kind == "sync" for op in disk.ops[first:last])
        found.folder_syncs = sum(op.kind == "folder" for op in disk.ops[first:last])
        seen: dict[tuple[int, frozenset[tuple[str, bytes]]], tuple[bool, int, bool]] = {}
        for cut in range(first, last + 1):
            acknowledged = sum(place <= cut for place in told)
            for label, image in disk.images(cut):
                key = acknowledged, frozenset(image.items())
                if key not in seen:
                    seen[key] = _left(image, str(Path(folder) / "left.db"), acknowledged)
                _count(found, *seen[key], kept=label == "all")
    return found


def _count(found: Losses, whole: bool, lost: int, hole: bool, *, kept: bool) -> None:  # noqa: FBT001 - one image's facts
    found.images += 1
    found.damaged += not whole
    found.holes += whole and hole
    found.lost = max(found.lost, lost if whole else 0)
    found.killed += kept and (not whole or lost > 0)


def _left(image: Image, place: str, acknowledged: int) -> tuple[bool, int, bool]:
    """Whether a file is whole, how many acknowledged rows it lacks, and whether one is missing in between."""
    lay_out(image, place)
    try:
        with closing(sqlite3.connect(place)) as connection:
            whole = connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            rows = {row for (row,) in connection.execute("SELECT number FROM rows")} if tables else set[int]()
    except sqlite3.DatabaseError:
        return False, acknowledged, False
    return whole, len(set(range(acknowledged)) - rows), rows != set(range(len(rows)))


@cache
def check_the_model() -> None:
    """Raise `SweepError` where the model says something else of the log than is documented; once a process."""
    off, normal, full = (measured("WAL", synchronous, 6) for synchronous in ("OFF", "NORMAL", "FULL"))
    as_documented = (
        off.damaged > 0
        and (normal.damaged, normal.holes) == (0, 0)
        and normal.lost > 0
        and (full.damaged, full.lost, full.holes) == (0, 0, 0)
        and off.killed == normal.killed == full.killed == 0
    )
    if not as_documented:
        message = (
            "power cuts cannot be judged here: of SQLite in WAL mode the model says something else than is documented "
            f"(OFF {off}, NORMAL {normal}, FULL {full})"
        )
        raise SweepError(message)
