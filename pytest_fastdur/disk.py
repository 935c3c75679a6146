"""What a power cut may leave of an SQLite database: a model of a disk, fed with every write, sync and unlink.

What was synced is there afterwards. Of what was written since, any part may be: none, all, some, half a page. What a
directory says is a thing of its own: that a file is there, or is gone, is certain only once the directory itself was
synced; a journal that is deleted and made again is another file, an inode of its own. A file that was there from the
beginning stays.

The model is as harsh as POSIX allows. It must say of SQLite what SQLite's makers say: `calibration` holds it to that.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

Image = dict[str, bytes]
"""The files that are left, by name."""

SECTOR = 512
_MOST_PREFIXES, _MOST_DROPPED, _SUBSETS = 12, 8, 4


@dataclass(frozen=True, slots=True)
class Op:
    """One thing that was asked of the disk."""

    kind: Literal["create", "write", "truncate", "unlink", "sync", "folder"]
    name: str = ""
    inode: int = 0
    at: int = 0
    data: bytes = b""


class Disk:
    """The files of one database, and everything that was asked of them, in order."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self._inodes = count(1)
        self._entries: dict[str, int] = {}
        self._base: dict[str, tuple[int, bytes]] = {}
        """The files that were there from the beginning."""

    # -- what is told ------------------------------------------------------------------------------------------------

    def opened(self, name: str, content: bytes, *, new: bool) -> int:
        """A file is open: one that is known, one that was there before, or a new one."""
        if name not in self._entries:
            inode = self._entries[name] = next(self._inodes)
            if new:
                self.ops.append(Op("create", name, inode))
            else:
                self._base[name] = inode, content
        return self._entries[name]

    def wrote(self, inode: int, at: int, data: bytes) -> None:
        """Bytes went into a file."""
        self.ops.append(Op("write", inode=inode, at=at, data=data))

    def truncated(self, inode: int, size: int) -> None:
        """A file got another length."""
        self.ops.append(Op("truncate", inode=inode, at=size))

    def synced(self, inode: int) -> None:
        """What was written to a file has reached the disk."""
        self.ops.append(Op("sync", inode=inode))

    def folder_synced(self) -> None:
        """What the directory says has reached the disk."""
        self.ops.append(Op("folder"))

    def unlinked(self, name: str) -> None:
        """A file is gone from the directory."""
        self.ops.append(Op("unlink", name, self._entries.pop(name, 0)))

    # -- what may be left --------------------------------------------------------------------------------------------

    def images(self, cut: int) -> Iterator[tuple[str, Image]]:
        """What may be left where the power is cut after the first `cut` operations, each with a name for it."""
        pending = self._pending(cut)
        number = len(pending)
        yield "none", self._built(cut, pending, ())
        if not number:
            return
        yield "all", self._built(cut, pending, pending)
        for i in range(1, min(number, _MOST_PREFIXES)):
            yield f"first{i}", self._built(cut, pending, pending[:i])
        for i in range(max(0, number - _MOST_DROPPED), number - 1):
            yield f"but{i}", self._built(cut, pending, pending[:i] + pending[i + 1 :])
        chance = random.Random(cut)  # noqa: S311 - a choice that can be repeated
        for i in range(_SUBSETS if number > 2 else 0):  # noqa: PLR2004 - of two all subsets have been named
            yield f"some{i}", self._built(cut, pending, [op for op in pending if chance.random() < 0.5])  # noqa: PLR2004
        last = self.ops[pending[-1]]
        if last.kind == "write" and len(last.data) > SECTOR:
            yield "torn", self._built(cut, pending, pending, torn=pending[-1])

    def image(self, cut: int, label: str) -> Image | None:
        """The one of that name; None where there is none."""
        return next((image for name, image in self.images(cut) if name == label), None)

    def _pending(self, cut: int) -> list[int]:
        """The operations that a power cut may still undo."""
        data: list[int] = []
        folder: list[int] = []
        for place, op in enumerate(self.ops[:cut]):
            if op.kind == "sync":
                data = [other for other in data if self.ops[other].inode != op.inode]
            elif op.kind == "folder":
                folder = []
            else:
                (folder if op.kind in ("create", "unlink") else data).append(place)
        return sorted(data + folder)

    def _built(self, cut: int, pending: Collection[int], kept: Collection[int], torn: int = -1) -> Image:
        undone = set(pending) - set(kept)
        entries = {name: inode for name, (inode, _) in self._base.items()}
        files = {inode: bytearray(content) for inode, content in self._base.values()}
        stuck: set[str] = set()
        """Names that were not given up: what was made under them afterwards cannot be reached."""
        for place, op in enumerate(self.ops[:cut]):
            if op.kind == "create":
                files.setdefault(op.inode, bytearray())
                if place not in undone and op.name not in stuck:
                    entries[op.name] = op.inode
            elif op.kind == "unlink" and place in undone:
                stuck.add(op.name)
            elif op.kind == "unlink" and op.name not in stuck:
                entries.pop(op.name, None)
            elif place not in undone:
                _change(files, op, torn=place == torn)
        return {name: bytes(files[inode]) for name, inode in entries.items()}


def _change(files: dict[int, bytearray], op: Op, *, torn: bool) -> None:
    """Let a file be as a write or a truncation leaves it."""
    if op.kind not in ("write", "truncate"):
        return
    content = files[op.inode]
    data = op.data[:SECTOR] if torn else op.data
    end = op.at + len(data)
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    if op.kind == "write":
        content[op.at : end] = data
    else:
        del content[op.at :]
