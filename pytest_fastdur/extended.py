"""What the hooks of a test suite add to its sweeps, for as long as one is carried out."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    import pytest

    from pytest_fastdur.durable import DurableState


def _as_it_is(frames: dict[str, Any]) -> dict[str, Any]:
    return frames


def _nothing(_: DurableState) -> Iterable[str]:
    return ()


class _Extensions:
    """What is in force now. Children made by fork inherit it."""

    canonical: Callable[[dict[str, Any]], dict[str, Any]] = staticmethod(_as_it_is)
    """The frames of a row, without what may differ from run to run."""
    wrong: Callable[[DurableState], Iterable[str]] = staticmethod(_nothing)
    """What is wrong with what is durable."""


in_force = _Extensions()


@contextmanager
def extended(config: pytest.Config) -> Generator[None]:
    """Let the hooks of a test suite count in the block."""
    hook = config.hook

    def canonical(frames: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] | None = hook.pytest_fastdur_canonical(frames=frames)
        return frames if found is None else found

    def wrong(state: DurableState) -> Iterable[str]:
        return [text for texts in hook.pytest_fastdur_invariants(state=state) for text in texts or ()]

    if hook.pytest_fastdur_canonical.get_hookimpls():
        in_force.canonical = canonical
    if hook.pytest_fastdur_invariants.get_hookimpls():
        in_force.wrong = wrong
    try:
        yield
    finally:
        in_force.canonical, in_force.wrong = _as_it_is, _nothing
