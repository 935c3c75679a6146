"""What one lifetime of a run knows of its effects: read with the claim, answered from memory while it stands."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fastdur.errors import IdempotencyError, IdempotencyMismatch
from fastdur.records import effect_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from fastdur.records import EffectRecord


@dataclass(slots=True, eq=False)
class Flight:
    """An effect whose body has not returned: who runs it, and who is told when it has."""

    owner: object
    landed: threading.Event = field(default_factory=threading.Event)
    tell: list[Callable[[], None]] = field(default_factory=list["Callable[[], None]"])


class Memory:
    """The effect records of one claim. Every method is safe to call from several threads.

    A `key` is that of an effect, whatever the number of its record.

    A retry goes its own way, and the failures that were recorded before it are none of its own. So each record of a
    visit has the number of its try in its token: that of the try in the lifetimes before, which a replay goes on with,
    and one more for each retry. What failed in a try before the newest that is known of is not replayed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._written = threading.Condition(self._lock)
        self._writing: dict[str, int] = {}
        self._ended: set[str] = set()
        self._newest: dict[str, int] = {}
        self._begun: dict[str, int] = {}
        self._retries: dict[str, int] = {}
        self._last_failed: dict[str, EffectRecord] = {}
        self._records: dict[str, EffectRecord] = {}
        self._failed: dict[tuple[str, str], list[EffectRecord]] = {}
        self._first: dict[str, str] = {}
        self._tries: dict[str, tuple[str, int, EffectRecord, int]] = {}
        self._unknown: dict[str, EffectRecord] = {}
        self._flights: dict[str, Flight] = {}
        self._names: dict[str, tuple[object, str, int]] = {}

    def load(self, records: Iterable[EffectRecord]) -> None:
        """Take in what the store knows at the claim."""
        failed: dict[str, EffectRecord] = {}
        for record in records:
            if record.key.startswith("/"):  # of a child run, which takes it from here
                continue
            self._newest[record.path] = max(self._newest.get(record.path, 0), _try_of(record))
            if record.status in ("done", "unstorable"):
                self._records[effect_of(record.key)] = record
            elif record.status == "failed":
                failed[record.key] = record
            else:
                self._unknown[effect_of(record.key)] = record
        self._begun = self._newest.copy()
        for key, record in failed.items():
            self._last_failed[record.path] = record
            effect = effect_of(key)
            if key == effect and record.path:  # it has none where somebody has said that it did not happen
                self._first[effect] = record.path
            of_this_try = record.error is not None and _try_of(record) == self._newest[record.path]
            if key in (effect, _apart(effect, record.path)) and of_this_try:
                self._failed[effect, record.path] = _chain(record, failed)

    def name(self, name: str, fn: object, path: str, attempt: int) -> None:
        """Bind a name to one function, or what stands for it; a retry of the same visit may bring a new one."""
        bound = self._names.get(name)
        if bound is not None and bound[0] is fn and bound[1] == path and bound[2] == attempt:
            return
        known, where, tried = bound or (fn, path, attempt)
        if known is not fn and (where != path or tried == attempt):
            message = (
                f"Two different functions are called {name!r} in this run, so their effects would be taken for one "
                "another. Give each a name of its own with @idempotent(name=...)."
            )
            raise IdempotencyError(message)
        self._names[name] = (fn, path, attempt)

    def recorded(self, key: str, args: str, path: str) -> EffectRecord | None:
        """The record that answers the call; None while a failure that this visit ran into before is to come first."""
        record = self._records.get(key)  # a record stays, so one look needs no lock
        if record is None or (key, path) in self._failed:
            return None
        _check(record, args)
        return record

    def enter(self, key: str, args: str, path: str, owner: object) -> EffectRecord | Flight | None:
        """The record that answers the call, or the flight to wait for, or None: then `owner` runs the body."""
        with self._lock:
            record = self.recorded(key, args, path)
            if record is not None:
                return record
            flight = self._flights.get(key)
            if flight is not None:
                return flight
            self._flights[key] = Flight(owner)
            return None

    def failure(self, key: str, args: str, path: str, attempt: int) -> EffectRecord | None:
        """The next of the failures that an earlier lifetime, or the source of a branch, recorded in this visit. Each is
        given out once, none to a retry.
        """
        with self._lock:
            left = self._failed.get((key, path))
            if left is None:
                return None
            record = left.pop(0)
            fits = record.path == path and not attempt
            if not fits or not left:
                del self._failed[key, path]
        if not fits:
            return None
        _check(record, args)
        self.tried(record, attempt)
        return record

    def tried(self, record: EffectRecord, attempt: int) -> None:
        """A call of this visit has failed, in this attempt at its node: the next one has another record."""
        key = effect_of(record.key)
        with self._lock:
            self._last_failed[record.path] = record
            self._first.setdefault(key, record.path)
            self._tries[key] = (record.path, attempt, record, self._tried(key, record.path, attempt)[1] + 1)

    def _tried(self, key: str, path: str, attempt: int) -> tuple[EffectRecord | None, int]:
        """The last failure of this visit and how many there were."""
        where, tried, record, count = self._tries.get(key, ("", 0, None, 0))
        return (record, count) if (where, tried) == (path, attempt) else (None, 0)

    def next_try(self, key: str, path: str, attempt: int) -> tuple[str, str]:
        """The key of the record of a call that begins, and its token.

        A failure stays under its key for whoever replays its visit: a visit after it has keys of its own.
        """
        token = os.urandom(8).hex()
        with self._lock:
            last, count = self._tried(key, path, attempt)
            unknown = self._unknown.get(key)
            number = self._begun.get(path, 0) + attempt
            self._newest[path] = max(self._newest.get(path, 0), number)
            own = key if self._first.get(key, path) == path else _apart(key, path)
        if number:
            token += f".{number}"
        if last is not None:
            token += f"-{_own(last)}"
        if unknown is not None:  # what it came to is said over it
            return unknown.key, token
        return (f"{own}/{count + 1}" if count else own), token

    def retried(self, path: str, attempt: int) -> None:
        """A retry of this visit begins."""
        self._retries[path] = attempt

    def left_behind(self, path: str) -> EffectRecord | None:
        """What has to be written before a retry that has begun no effect pauses: over a failure of a try before it,
        one that is never replayed, which has the number of this try. None where nothing has.
        """
        with self._lock:
            number = self._begun.get(path, 0) + self._retries.get(path, 0)
            failed = self._last_failed.get(path)
            if failed is None or number <= self._newest.get(path, 0):
                return None
            self._newest[path] = number
        return replace(failed, attempt=f"{os.urandom(8).hex()}.{number}", error=None)

    @contextmanager
    def failing(self, path: str) -> Generator[bool]:
        """While a failure of this visit is written; whether it belongs to the visit, or that has failed before it."""
        with self._lock:
            belongs = path not in self._ended
            if belongs:
                self._writing[path] = self._writing.get(path, 0) + 1
        try:
            yield belongs
        finally:
            if belongs:
                with self._lock:
                    self._writing[path] -= 1
                    self._written.notify_all()

    def end(self, path: str) -> None:
        """This visit fails: from here on no failure of an effect belongs to it. One that is being written is waited
        for.
        """
        with self._lock:
            self._ended.add(path)
            self._written.wait_for(lambda: not self._writing.get(path))

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
                self._unknown.pop(effect_of(record.key), None)
            else:
                self._unknown[effect_of(record.key)] = record

    def settle(self, record: EffectRecord) -> None:
        """Remember an outcome that the store has."""
        with self._lock:
            self._records[effect_of(record.key)] = record
            self._unknown.pop(effect_of(record.key), None)

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


def _chain(record: EffectRecord, failed: dict[str, EffectRecord]) -> list[EffectRecord]:
    """The failures that came one after another in one visit; a number that is left from an earlier attempt is none."""
    chain = [record]
    while True:
        after = failed.get(f"{record.key}/{len(chain) + 1}")
        if after is None or after.attempt.partition("-")[2] != _own(chain[-1]):
            return chain
        chain.append(after)


def _apart(key: str, path: str) -> str:
    """The key of the records of a visit where another visit's failure has the key of the effect itself."""
    from hashlib import sha256

    return f"{key}/{sha256(path.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def _own(record: EffectRecord) -> str:
    """The part of a token that is the attempt's own."""
    return record.attempt.partition("-")[0]


def _try_of(record: EffectRecord) -> int:
    """The number of the try at its visit in which a record was begun."""
    return int(_own(record).partition(".")[2] or 0)


def _check(record: EffectRecord, args: str) -> None:
    if record.args.partition(" ")[0] != args:  # what follows tells of the function
        message = (
            f"The key of {record.name}() was used before in this run with other arguments (key {record.key[:12]}…). "
            "Make key_fn tell the two calls apart."
        )
        raise IdempotencyMismatch(message)
