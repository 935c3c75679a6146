"""What an animal is: a change of the real engine or store, and who should catch it by what."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator

    from fastdur.checkpointers._patience import Session

Change = Callable[[Any, str, Callable[..., Any]], None]
"""Put a function in the place of a method or a function: it is called with the real one, then with the arguments."""


@dataclass(frozen=True)
class Animal:
    """A defect."""

    name: str
    what: str
    """What it does, in a sentence."""
    verdicts: frozenset[str]
    """The codes under which it may be caught."""
    story: str
    """The story that shows it."""
    tool: str
    """What should catch it: `closure`, `sweep FAULT`, or `interleave ACTORS` with what may happen."""
    break_it: Callable[[Change], None]
    budget: int
    """The most points, or schedules, that this may take."""


ANIMALS: dict[str, Animal] = {}
"""Every animal, by its name."""


def animal(
    *verdicts: str, tool: str = "closure", story: str = "order", budget: int = 200
) -> Callable[[Callable[[Change], None]], Callable[[Change], None]]:
    """The function below is an animal: it changes what it breaks. Its docstring says what that is."""

    def known(break_it: Callable[[Change], None]) -> Callable[[Change], None]:
        name = break_it.__name__
        what = " ".join((break_it.__doc__ or "").split())
        ANIMALS[name] = Animal(name, what, frozenset(verdicts), story, tool, break_it, budget)
        return break_it

    return known


@contextmanager
def loose(animal: Animal) -> Generator[None]:
    """Every run and store of this process has the defect, until the block ends."""
    real: list[tuple[Any, str, Any, bool]] = []

    def change(owner: Any, name: str, broken: Callable[..., Any]) -> None:
        was = getattr(owner, name)

        def changed(*args: Any, **kwargs: Any) -> Any:
            return broken(was, *args, **kwargs)

        real.append((owner, name, was, name in vars(owner)))
        setattr(owner, name, changed)

    try:
        animal.break_it(change)
        yield
    finally:
        for owner, name, was, own in reversed(real):
            if own:
                setattr(owner, name, was)
            else:
                delattr(owner, name)


def raw(store: Any, sql: str, *values: object) -> int:
    """Do what no store does by itself, in a transaction of its own; how many rows it has changed."""
    prefix = f'"{store._schema}".' if hasattr(store, "_schema") else ""  # noqa: SLF001 - a defect needs no interface
    mark = "%s" if prefix else "?"
    text = sql.format(t=prefix).replace("?", mark)

    def work(session: Session) -> int:
        return session.change(text, values)

    return int(store._write(work))  # noqa: SLF001
