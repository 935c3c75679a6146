"""Which faults a story can meet on a store, and why not the others."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from pytest_fastdur import vfs
from pytest_fastdur.backends import Files
from pytest_fastdur.faults import Fault, SweepError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_fastdur.backends import Backend
    from pytest_fastdur.control import Control
    from pytest_fastdur.report.data import SweepReport
    from pytest_fastdur.story import Story

Objection = tuple[str, str, str]
"""What a fault strikes, why there is none here, and what to do to have one."""


def on_the_store(story: Story, backend: Backend | None) -> Callable[[Fault], Objection | None]:
    """What a store has against faults that it cannot meet."""
    files = backend is None or isinstance(backend, Files) or story.store is not None
    served = not files and backend is not None and backend.served
    on_sqlite, on_postgres = (f"sweep on {name}: --fastdur-backends={name.lower()}" for name in ("SQLite", "Postgres"))

    def objections(fault: Fault) -> Iterator[Objection]:
        if fault.wire and not served:
            yield "a connection to a server", "a store on files has none", on_postgres
        if fault in (Fault.SERVER, Fault.ABORT) and not served:
            yield "a Postgres server", "a store on files has none", on_postgres
        if fault is Fault.SERVER and backend is not None and backend.server is None:
            yield "a server of their own", "this one may be somebody else's", "give Schemas(stores, server) one"
        if (fault.file or fault is Fault.POWER) and not files:
            yield "an SQLite file", "this store has none", on_sqlite
        if fault is Fault.POWER and (why := vfs.why_not()) is not None:
            yield "the file layer of SQLite", f"that of this Python cannot be reached ({why})", "use another Python"
        if fault is Fault.KILL and backend is not None and not backend.shared:
            yield "a child process", "a store in memory stays in its own", on_sqlite
        if fault in (Fault.CLOCK_ON, Fault.CLOCK_BACK) and find_spec("freezegun") is None:
            yield "Python's clock", "freezegun, which moves it, is not installed", "pip install freezegun"

    return lambda fault: next(objections(fault), None)


def in_the_story(control: Control) -> Callable[[Fault], Objection | None]:
    """What a story has against faults that it cannot meet."""

    def objection(fault: Fault) -> Objection | None:
        if fault is Fault.CANCEL and not control.awaited:
            return "the task that awaits a run", "a sync story has none", "write its nodes as `async def`"
        return None

    return objection


def possible(
    faults: Sequence[Fault], objection: Callable[[Fault], Objection | None], report: SweepReport | None
) -> tuple[Fault, ...]:
    """The faults that nothing is against; the report says which were left out, and why.

    Raises `SweepError` where none is left: a sweep that tries nothing must not pass.
    """
    objections = {fault: found for fault in faults if (found := objection(fault)) is not None}
    left = tuple(fault for fault in faults if fault not in objections)
    if objections and not left:
        names = " and ".join(fault.value for fault in objections)
        what, why, way_out = next(iter(objections.values()))
        message = f"{names} strike {what}, and {why}; {way_out}"
        raise SweepError(message)
    if report is None:
        return left
    report.faults = [fault.value for fault in left]
    report.inapplicable += [f"{fault.value} ({why})" for fault, (_, why, _) in objections.items()]
    return left
