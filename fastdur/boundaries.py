"""The one event stream of the engine: a boundary before and after every effect that a driver performs."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from fastdur._functions import shown

if TYPE_CHECKING:
    from collections.abc import Generator

    from fastdur._effects import Effect


@dataclass(frozen=True, slots=True)
class Boundary:
    """The instant before or after one effect.

    `name` is stable from run to run (`append review`, `effect charge@review`); the second occurrence in one lifetime
    is `append review (2)`. `effect` is the engine's own record of what is done, for reading only.
    """

    when: Literal["before", "after"]
    name: str
    execution_id: str
    effect: Effect[Any]

    def __str__(self) -> str:
        """The name people use: `after append review`."""
        return f"{self.when} {self.name}"


class Inject(Exception):
    """Raised by an observer to make the effect answer with `error`: before it is performed, or after."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


Observer = Callable[[Boundary], None]

_observers: list[tuple[object, Observer]] = []


@contextmanager
def observe(observer: Observer, store: object = None) -> Generator[None, None, None]:
    """Call `observer(boundary)` around every effect, of every run or of those on `store`, until the block ends.

    Only calls that begin inside the block are seen. An observer that raises `SimulatedCrash` crashes the run as a
    process death would: nothing under that claim is written any more. One that raises `Inject(error)` makes the effect
    answer with that error. Any other exception is a warning and detaches the observer: watching never changes a run.
    """
    entry = (store, observer)
    _observers.append(entry)
    try:
        yield
    finally:
        _observers[:] = [other for other in _observers if other is not entry]


def observers_of(store: object) -> list[Observer]:
    """Who watches the runs on this store now."""
    return [observer for where, observer in _observers if where is None or where is store]


def tell(observers: list[Observer], boundary: Boundary) -> None:
    """Hand a boundary to every observer, the first attached first. Passes on `Inject` and `BaseException`."""
    for observer in tuple(observers):
        try:
            observer(boundary)
        except Inject:
            raise
        except Exception as error:
            observers.remove(observer)
            _observers[:] = [entry for entry in _observers if entry[1] is not observer]
            warn(f"observer {shown(observer)} raised {shown(error)} at {boundary} and is detached")


def warn(message: str) -> None:
    """Warn, and go on even where warnings are errors: watching never changes a run."""
    try:
        warnings.warn(message, RuntimeWarning, stacklevel=4)
    except RuntimeWarning:
        sys.stderr.write(f"fastdur: {message}\n")
