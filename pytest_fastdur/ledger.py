"""The effect ledger: what really happened outside, kept outside the process that is killed.

An append-only file. Each line is one `write` on a descriptor opened with O_APPEND, before the body (entered) and after
it (finished, or raised), so that a killed process has written what it did and nothing of what it did not. SIGKILL loses
no line: a written page belongs to the kernel.
"""

from __future__ import annotations

import itertools
import json
import os
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, cast

from fastdur.errors import SimulatedCrash
from fastdur.scope import current

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from collections.abc import Set as AbstractSet

P = ParamSpec("P")
R = TypeVar("R")

MODES = ("exactly-once", "at-least-once", "at-most-once")


@dataclass(slots=True)
class Entry:
    """One time the body of an effect was entered.

    `key` is that of the `@idempotent` around it, None where there is none. `keyed` says that the body asked for
    `effect_key()`, so that the provider can tell a repeat.
    """

    name: str
    lifetime: int
    key: str | None
    keyed: bool
    finished: bool = False
    raised: bool = False
    """Whether the body raised: it may have reached the provider, and it may not."""


@dataclass(slots=True)
class Tally:
    """What happened of one effect, in the order in which it happened."""

    entries: list[Entry] = field(default_factory=list[Entry])

    @property
    def entered(self) -> int:
        """How often the body was entered."""
        return len(self.entries)

    @property
    def seen(self) -> int:
        """How often it happened as the provider sees it: calls under one key that it was told are one."""
        return self.seen_once(frozenset())

    def seen_once(self, once: AbstractSet[str]) -> int:
        """The same, where calls under a key of `once` count each time: no key is an excuse for repeating them."""
        return len({self._identity(number, once) for number in range(len(self.entries))})

    def _identity(self, number: int, once: AbstractSet[str]) -> str | int:
        entry = self.entries[number]
        if entry.key is None or entry.key in once:
            return number
        same = [other for other in self.entries if other.key == entry.key]
        told = [other.keyed for other in same if other.finished or other.keyed]
        return entry.key if told and all(told) else number


class EffectLedger:
    """What happened, by the name of the effect. One file; `path=None` makes a temporary one."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        if path is None:
            handle, name = tempfile.mkstemp(prefix="fastdur-effects-")
            os.close(handle)
            self._mine, self.path = True, name
        else:
            self._mine, self.path = False, os.fspath(path)
        self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        self._numbers = itertools.count(1)
        self.lifetime = 0

    def __enter__(self) -> Self:
        """Use it in a `with` block, which closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close the file; a temporary one is removed."""
        os.close(self._file)
        if self._mine:
            os.unlink(self.path)  # noqa: PTH108 - a plain name

    def clear(self) -> None:
        """Forget everything: a fresh world."""
        os.ftruncate(self._file, 0)
        self.lifetime = 0

    @property
    def content(self) -> bytes:
        """Everything that is noted, to be put back by `restore`."""
        return os.pread(self._file, os.fstat(self._file).st_size, 0)

    def restore(self, content: bytes) -> None:
        """Note what was noted when this was read, and nothing else."""
        os.ftruncate(self._file, 0)
        os.write(self._file, content)

    # -- writing -----------------------------------------------------------------------------------------------------

    def wrap(self, name: str, fn: Callable[P, R]) -> Callable[P, R]:
        """`fn`, sync or async, with each call of it noted under `name`.

        Wrap what reaches the provider and call it inside the `@idempotent` function. A call outside any `@idempotent`
        counts each time; inside one, calls under the same key count once if the body asked for `effect_key()`.
        """
        if iscoroutinefunction(fn):
            body = cast("Callable[..., Any]", fn)

            @wraps(fn)
            async def awrapped(*args: P.args, **kwargs: P.kwargs) -> Any:
                with self._noted(name):
                    return await body(*args, **kwargs)

            return cast("Callable[P, R]", awrapped)

        @wraps(fn)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
            with self._noted(name):
                return fn(*args, **kwargs)

        return wrapped

    def record(self, name: str, key: str | None = None) -> None:
        """Note that the effect `name` happens here and now; its provider is told `key`, if one is given."""
        with self._noted(name, key):
            pass

    @contextmanager
    def _noted(self, name: str, told: str | None = None) -> Generator[None]:
        """Note the beginning and the end of a body. Of one that raised it is known too whether it asked for the key."""
        scope = current.get()
        if scope and scope.node.host.poisoned:
            message = "this process has been crashed on purpose; it reaches no provider any more"
            raise scope.node.remember(SimulatedCrash(message))
        number = f"{os.getpid()}.{next(self._numbers)}"
        key = told or (scope.effect.key if scope and scope.effect is not None else None)
        keyed = told is not None
        self._write([number, name, self.lifetime, key, keyed or _is_keyed()])
        finished = False
        try:
            yield
            finished = True
        finally:
            if not (scope and scope.node.host.poisoned):  # the dead write nothing
                self._write([number, keyed or _is_keyed(), finished])

    def _write(self, line: list[object]) -> None:
        os.write(self._file, f"{json.dumps(line)}\n".encode())

    # -- reading -----------------------------------------------------------------------------------------------------

    def tallies(self) -> dict[str, Tally]:
        """What happened, by name."""
        entries: dict[str, Entry] = {}
        for line in self.content.splitlines():
            number, *rest = json.loads(line)
            if len(rest) > 2:  # noqa: PLR2004 - a line of an end says less
                entries[number] = Entry(*rest)
            elif number in entries:  # else it was entered before the ledger was cleared
                entry, (keyed, finished) = entries[number], rest
                entry.finished, entry.raised, entry.keyed = finished, not finished, entry.keyed or keyed
        found: dict[str, Tally] = {}
        for entry in entries.values():
            found.setdefault(entry.name, Tally()).entries.append(entry)
        return found

    def count(self, name: str) -> int:
        """How often the effect happened, as the provider sees it."""
        return self.tallies().get(name, Tally()).seen

    def calls(self, name: str) -> int:
        """How often its body was entered."""
        return self.tallies().get(name, Tally()).entered


def _is_keyed() -> bool:
    scope = current.get()
    if not scope or scope.effect is None:
        return False
    asked: Any = scope.node.notes.get("keyed", ())
    return scope.effect.name in asked
