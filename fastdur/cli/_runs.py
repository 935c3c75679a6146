"""`fastdur runs`: which runs there are, and how each of them stands."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from fastdur.cli._facts import JSON, STORE, facts, open_store
from fastdur.cli._text import age, console, dim, dump, line, plain, short, shown, status_text, tail, whole

if TYPE_CHECKING:
    from rich.console import Console

    from fastdur.cli._facts import Facts


class Status(StrEnum):
    """How a run stands."""

    running = "running"
    paused = "paused"
    completed = "completed"
    failed = "failed"
    cancelled = "cancelled"


HEADINGS = ("RUN", "RUNNER", "STATUS", "SEQ", "LAST STEP", "AGE")
_WIDEST = (None, 20, None, None, 32, None)
_NARROWEST_STEP = 9
_GAP = "  "
_BEFORE_LAST = 4


def runs(
    store: Annotated[str | None, STORE] = None,
    status: Annotated[Status | None, typer.Option(help="Only runs that stand like this.")] = None,
    runner: Annotated[str | None, typer.Option(metavar="NAME", help="Only runs of this chain.")] = None,
    unfinished: Annotated[bool, typer.Option("--unfinished", help="Only runs that can go on.")] = False,  # noqa: FBT002
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most so many, the newest.")] = 50,
    as_json: Annotated[bool, JSON] = False,  # noqa: FBT002 - an option
) -> None:
    """List runs, newest first.

    For each run: how it stands, its last committed step, whether its owner is alive, what it asks, its input.
    """
    held = open_store(store)
    heads = held.list_executions(
        status=None if status is None else status.value, runner=runner, unfinished=unfinished, limit=limit + 1
    )
    found = [facts(held, head) for head in heads[:limit]]
    if as_json:
        dump([each.data() for each in found])
        return
    where = console()
    if not found:
        such = "such run" if status or runner or unfinished else "run"
        whole(where, f"No {such} in {held.location}")
        return
    table(where, found)
    if len(heads) > limit:
        whole(where, f"There are more than these {limit}; ask for more with --limit.")


def table(where: Console, found: list[Facts]) -> None:
    """One line for each run with its figures, and below it what else is known."""
    rows = [cells(each) for each in found]
    widths = [max(len(row[column]) for row in [HEADINGS, *rows]) for column in range(len(HEADINGS))]
    widths = [width if most is None else min(width, most) for width, most in zip(widths, _WIDEST, strict=True)]
    over = sum(widths) + len(_GAP) * (len(widths) - 1) - where.width
    if over > 0:
        widths[_BEFORE_LAST] = max(widths[_BEFORE_LAST] - over, _NARROWEST_STEP)
    # An id is there to be copied, so it is never cut: where it leaves no room it has a line of its own.
    apart = sum(widths) + len(_GAP) * (len(widths) - 1) > where.width
    row_of(where, HEADINGS, widths, Text(HEADINGS[2].ljust(widths[2])), apart=apart)
    for each, row in zip(found, rows, strict=True):
        row_of(where, row, widths, status_text(row[2], widths[2]), apart=apart)
        for detail in details(each):
            line(where, _GAP, detail)


def cells(each: Facts) -> tuple[str, ...]:
    """The figures of one run, in the order of the headings."""
    head = each.head
    step = plain(each.committed or "-")
    return plain(head.execution_id), plain(head.runner), head.status, str(head.seq), step, age(each.age)


def row_of(where: Console, row: tuple[str, ...], widths: list[int], status: Text, *, apart: bool) -> None:
    """One run's figures below their headings."""
    run, runner, _, seq, step, old = row
    first = Text(run, "bold") if apart else Text(run.ljust(widths[0]), "bold")
    if apart:
        whole(where, first)
    rest = [
        Text(short(runner, widths[1]).ljust(widths[1])),
        status,
        Text(seq.rjust(widths[3])),
        Text(tail(step, widths[4]).ljust(widths[4])),
        Text(old.rjust(widths[5])),
    ]
    line(where, Text(_GAP).join(rest if apart else [first, *rest]))


def details(each: Facts) -> list[Text]:
    """What there is to say of a run below its figures."""
    said: list[Text] = []
    if each.owner is not None:
        said.append(Text(f"owner {each.owner} (process {each.pid})", "red" if each.owner == "gone" else "dim"))
    said += [Text(f"asks {plain(q.reason)} ({plain(q.id)})", "yellow") for q in each.questions]
    if each.error is not None:
        said.append(Text(plain(each.error), "red"))
    if each.head.parent_id is not None:
        said.append(dim(f"{'fork' if each.head.is_fork else 'child'} of {plain(each.head.parent_id)}"))
    said.append(dim(f"input {shown(each.head.input)}"))
    return said
