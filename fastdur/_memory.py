"""What one lifetime of a run knows of its effects: read with the claim, answered from memory while it stands."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fastdur.errors import IdempotencyError, IdempotencyMismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fastdur.records import EffectRecord


@dataclass(slots=True, eq=False)
class Flight:
    """An effect whose body has not returned: who runs it, and who is told when it has."""

    owner: object
    landed: threading.Event = field(default_factory=threading.Event)
    tell: list[Callable[[], None]] = field(default_factory=list["Callable[[], None]"])


class Memory:
    """The effect records of one claim. Every method is safe to call from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[str, EffectRecord] = {}
        self._failed: dict[str, EffectRecord] = {}
        self._unknown: dict[str, EffectRecord] = {}
        self._flights: dict[str, Flight] = {}
        self._names: dict[str, tuple[object, str, int]] = {}

    def load(self, records: Iterable[EffectRecord]) -> None:
        """Take in what the store knows at the claim."""
        for record in records:
            if record.status in ("done", "unstorable"):
                self._records[record.key] = record
            elif record.status == "failed":
                self._failed[record.key] = record
            else:
                self._unknown[record.key] = record

    def name(self, name: str, fn: object, path: str, attempt: int) -> None:
        """Bind a name to one function, or what stands for it; a retry of the same visit may bring a new one."""
        known, where, tried = self._names.get(name, (fn, path, attempt))
        if known is not fn and (where != path or tried == attempt):
            message = (
                f"Two different functions are called {name!r} in this run, so their effects would be taken for one "
                "another. Give each a name of its own with @idempotent(name=...)."
            )
            raise IdempotencyError(message)
        self._names[name] = (fn, path, attempt)

    def enter(self, key: str, args: str, owner: object) -> EffectRecord | Flight | None:
        """The record that answers the call, or the flight to wait for, or None: then `owner` runs the body."""
        with self._lock:
            record = self._records.get(key)
            if record is not None:
                _check(record, args)
                return record
            flight = self._flights.get(key)
            if flight is not None:
                return flight
            self._flights[key] = Flight(owner)
            return None

    def failure(self, key: str, args: str, path: str, attempt: int) -> EffectRecord | None:
        """The failure that an earlier lifetime recorded in this visit. It is given out once, and to no retry."""
        with self._lock:
            record = self._failed.pop(key, None)
        if record is None or record.path != path or attempt:
            return None
        _check(record, args)
        return record

    def unknown(self, key: str, args: str) -> EffectRecord | None:
        """The record of an attempt that is over and has no outcome."""
        with self._lock:
            record = self._unknown.get(key)
        if record is not None:
            _check(record, args)
        return record

    def doubt(self, record: EffectRecord, *, sure: bool) -> None:
        """An attempt of this lifetime is over without a result; `sure` where it is known not to have happened."""
        with self._lock:
            if sure:
                self._unknown.pop(record.key, None)
            else:
                self._unknown[record.key] = record

    def settle(self, record: EffectRecord) -> None:
        """Remember an outcome that the store has."""
        with self._lock:
            self._records[record.key] = record
            self._unknown.pop(record.key, None)

    def leave(self, key: str, owner: object) -> None:
        """The flight of `owner`, if it has one, is over; whoever waits for it goes on."""
        with self._lock:
            flight = self._flights.get(key)
            if flight is None or flight.owner is not owner:
                return
            del self._flights[key]
            waiting = list(flight.tell)
        flight.landed.set()
        for tell in waiting:
            tell()

    def watch(self, key: str, tell: Callable[[], None]) -> Any:
        """The event of a flight under way, and `tell` called when it lands; None where it has landed."""
        with self._lock:
            flight = self._flights.get(key)
            if flight is None:
                return None
            flight.tell.append(tell)
            return flight.landed


def _check(record: EffectRecord, args: str) -> None:
    if record.args != args:
        message = (
            f"The key of {record.name}() was used before in this run with other arguments (key {record.key[:12]}…). "
            "Make key_fn tell the two calls apart."
        )
        raise IdempotencyMismatch(message)
