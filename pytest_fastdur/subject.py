"""A subject: any durable code, on any engine, that can be started, resumed and asked how far it is.

It is an object or a module with three functions. Each is called in a new process that knows nothing but what it is
given, the `Outside`, and what it finds in the store there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeGuard, get_args

from pytest_fastdur.faults import SweepError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_fastdur.ledger import EffectLedger

State = Literal["unstarted", "running", "paused", "completed"]
STATES: tuple[State, ...] = get_args(State)


class Outside:
    """What outlives the process of a subject: where its store is, and the world in which its effects happen."""

    def __init__(self, folder: Path, dsn: str | None, ledger: EffectLedger, told: Callable[[str, str], object]) -> None:
        self.folder = folder
        """A folder of this history, empty when it begins: the subject's files go here."""
        self.dsn = dsn
        """The connection string of an empty Postgres schema, None where the sweep was given no server."""
        self._ledger, self._told = ledger, told

    def effect(self, name: str, key: str | None = None) -> None:
        """Let the effect `name` happen in the world outside.

        `key` is what the provider is told to know a repeat by: calls under one key count once. Without it each counts.
        Before and after it are instants at which the process may be killed.
        """
        named = self._told("before", f"effect {name}")
        self._ledger.record(name, key)
        self._told("after", str(named))

    def happened(self, name: str) -> int:
        """Ask the world outside how often an effect happened: the look-up that a provider offers."""
        return self._ledger.count(name)


class Subject(Protocol):
    """What a sweep of other code needs to know of it, and all it needs: module or object, both will do."""

    def start(self, outside: Outside, /) -> object:
        """Begin the run, and carry it on until it has completed or waits for somebody. Called while it is unstarted."""
        ...

    def resume(self, outside: Outside, /) -> object:
        """Carry the run on, as an operator would who knows nothing: answer what it waits for, or recover it."""
        ...

    def status(self, outside: Outside, /) -> tuple[State, Any]:
        """Read how far the run is, and change nothing: the state, and when it has completed the result as JSON data."""
        ...


def is_subject(given: object) -> TypeGuard[Subject]:
    """Whether something has the three functions of a subject."""
    return all(callable(getattr(given, name, None)) for name in ("start", "resume", "status"))


def checked(status: object) -> tuple[State, Any]:
    """What `status` has returned. Raises `SweepError` where it is not a state and a result."""
    if isinstance(status, tuple) and len(status) == 2 and status[0] in STATES:  # noqa: PLR2004 # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        return status  # pyright: ignore[reportUnknownVariableType]
    message = f"status() of a subject returns (state, result), the state one of {', '.join(STATES)}; it was {status!r}"
    raise SweepError(message)
