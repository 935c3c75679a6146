"""Power cuts: what each may leave of a history's file, and which of that is worth carrying on.

The power goes while the engine writes, at any of the operations by which SQLite does it, or at the instant after. Each
cut may leave many images of the file. Each is opened and looked at: whether it is whole, what it holds, whether
anything that was acknowledged is gone. Of those in which the same is found one is carried on.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import ExitStack, closing
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from fastdur.checkpointers.sqlite import SQLiteCheckpointer
from fastdur.errors import StoreError
from pytest_fastdur.backends import remove
from pytest_fastdur.disk import Disk
from pytest_fastdur.durable import DurableState
from pytest_fastdur.vfs import listening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_fastdur.disk import Image
    from pytest_fastdur.world import World


class Power:
    """The power of a machine, for one history after another."""

    def __init__(self) -> None:
        self.disk = Disk()
        self._place = ""
        self._listening = ExitStack()

    def listen(self, place: str) -> None:
        """From now on what happens to the file at `place` is known."""
        self.stop()
        self.disk, self._place = Disk(), place
        self._listening.enter_context(listening(place, self.disk))

    def stop(self) -> None:
        """Listen no longer."""
        self._listening.close()

    def image(self, cut: tuple[int, int], variant: str) -> Image | None:
        """What `variant` says is left: `3.none` is the image `none` after the third operation of a cut."""
        number, _, label = variant.partition(".")
        place = cut[0] + int(number) if number.isdecimal() else cut[1] + 1
        return None if place > cut[1] else self.disk.image(place, label)

    def images(self, cut: tuple[int, int]) -> Iterator[tuple[str, Image]]:
        """Everything that a cut may leave, once each."""
        seen: set[bytes] = set()
        for place in range(cut[0], cut[1] + 1):
            for label, image in self.disk.images(place):
                digest = sha256(repr(sorted(image.items())).encode()).digest()
                if digest not in seen:
                    seen.add(digest)
                    yield f"{place - cut[0]}.{label}", image


def lay_out(image: Image, place: str) -> None:
    """Put the files of an image where a store is opened that is called `place`."""
    remove(place)
    base = min(image, key=len) if image else ""
    for name, content in image.items():
        Path(place + name[len(base) :]).write_bytes(content)


def damage(place: str) -> str | None:
    """What SQLite itself finds wrong with a file, None where it is whole or not there."""
    if not os.path.exists(place):  # noqa: PTH110 - a plain name, thousands of times
        return None
    try:
        with closing(sqlite3.connect(place)) as connection:
            (said,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        return str(error)
    return None if said == "ok" else str(said)


def found_in(place: str, execution_id: str) -> DurableState | None:
    """What a process that comes up finds in a file; None where it cannot be read."""
    try:
        with closing(SQLiteCheckpointer(place)) as store:
            return DurableState.read(store, execution_id)
    except StoreError:
        return None


def variants(world: World, told: Callable[[DurableState], object]) -> tuple[dict[object, str], int]:
    """Look at everything that a power cut may have left of a history.

    Return a name for each image that is not like another, by what is found in it and what `told` says of that; and how
    many images there were. One that is damaged, or lacks what was acknowledged, is like no whole one.
    """
    found: dict[object, str] = {}
    number = 0
    place = f"{world.place}.image"
    for number, (variant, image) in enumerate(world.images(), start=1):  # noqa: B007 - the last counts them
        lay_out(image, place)
        state = None if damage(place) else found_in(place, world.story.execution_id)
        whole = state is not None and not world.lost(state, ())
        key = (whole, None if state is None else (state.canonical, told(state)))
        found.setdefault(key, variant)
    remove(place)
    return found, number
