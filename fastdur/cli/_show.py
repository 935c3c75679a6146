"""`fastdur show`: everything that the store knows of one run, and how it goes on."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from fastdur._unknown import is_unknown
from fastdur.cli._facts import JSON, STORE, branches_of, facts, open_store, source_of
from fastdur.cli._text import (
    NOT_THERE,
    age,
    console,
    dim,
    dump,
    line,
    moment,
    plain,
    refuse,
    short,
    shown,
    status_text,
    tail,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from fastdur import Checkpoint
    from fastdur.cli._facts import Facts
    from fastdur.records import EffectRecord, Execution

_ADDRESS = 32
_LABEL = 9


def show(
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", help="The run, as `fastdur runs` lists it.")],
    store: Annotated[str | None, STORE] = None,
    as_json: Annotated[bool, JSON] = False,  # noqa: FBT002 - an option
) -> None:
    """Show one run.

    How it stands, its rows, what it asks, its effects, its error, and the line of Python that carries it on.
    """
    held = open_store(store)
    head = held.get_execution(run_id)
    if head is None:
        refuse(f"No run {run_id!r} in {held.location}; `fastdur runs` lists those that are there.", NOT_THERE)
    known, rows, effects = facts(held, head), held.list(run_id), held.list_idempotent(run_id)
    branches = branches_of(held, head)
    lost = [each for each in effects if is_lost(known, each)]
    if as_json:
        dump(
            {
                **known.data(),
                "rows": [row_data(row) for row in rows],
                "effects": [effect_data(known, effect) for effect in effects],
                "branches": [branch_data(each) for each in branches],
                "next": [code for code, _ in ways_on(known, lost, store)],
            }
        )
        return
    where = console()
    print_head(where, known, source_of(held, head))
    print_rows(where, rows)
    section(where, "questions", [f"{plain(q.id)}  {plain(q.reason)}  {shown(q.context)}" for q in known.questions])
    section(
        where,
        "effects",
        [f"{plain(e.name)}  {effect_data(known, e)['status']}  at {plain(e.path)}" for e in effects],
    )
    told = [branch_data(each) for each in branches]
    section(where, "runs from here", [f"{plain(b['execution_id'])}  {b['kind']}  {b['status']}" for b in told])
    if known.error is not None:
        where.print(Text("\nerror", "bold"))
        where.print(Text(f"  {plain(known.error)}", "red"))
    where.print(Text("\nto carry it on", "bold"))
    offered = ways_on(known, lost, store)
    for code, why in offered:
        whole(where, f"  {code}")
        whole(where, dim(f"    # {why}"))
    if not offered:
        whole(where, dim(f"  {nothing_to_do(known)}"))


def print_head(where: Console, known: Facts, source: Execution | None) -> None:
    """How the run stands, and where it came from."""
    head = known.head
    said: list[tuple[str, Text | str]] = [
        ("run", Text(plain(head.execution_id), "bold")),
        ("runner", f"{head.kind} {plain(head.runner)}"),
        ("status", status_text(head.status)),
        ("seq", str(head.seq)),
        ("claims", str(head.epoch)),
        ("last step", plain(known.committed or "none yet")),
        ("owner", "none" if known.owner is None else f"{known.owner}, process {known.pid}"),
        ("started", f"{moment(head.created_at)}, {age(known.age)} ago"),
        ("changed", f"{moment(head.updated_at)}, {age(known.now - head.updated_at)} ago"),
    ]
    if head.parent_id is not None:
        place = (
            f"row {head.parent_checkpoint_id}"
            if head.parent_checkpoint_id
            else plain(head.parent_address or "its start")
        )
        gone = ", which is no longer there" if source is None else ""
        said.append(("fork of" if head.is_fork else "parent", f"{plain(head.parent_id)} at {place}{gone}"))
    if head.recorded:
        said.append(("effects", "from records only"))
    said.append(("input", shown(head.input)))
    for label, value in said:
        print_one = whole if label == "run" else line
        print_one(where, dim(f"{label:<{_LABEL}}  "), value)


def print_rows(where: Console, rows: list[Checkpoint]) -> None:
    """What was stored, oldest first."""
    if not rows:
        where.print(Text("\nno row yet: the run was started and has committed nothing", "bold"))
        return
    where.print(Text("\nrows", "bold"))
    nodes = [tail(plain(row.node_id), _ADDRESS) for row in rows]
    wide, digits = max(map(len, nodes)), len(str(rows[-1].seq))
    for row, node in zip(rows, nodes, strict=True):
        line(
            where,
            f"  {row.seq:>{digits}}  {node:<{wide}}  {row.step_type:<10}  ",
            Text(f"{row.status:<11}  ", "red" if row.status == "failed" else ""),
            dim(remark(row)),
        )


def remark(row: Checkpoint) -> str:
    """What a row changed, asked, answered or said."""
    told: dict[str, Any] = row_data(row)
    if row.step_type == "node":
        return ", ".join(map(plain, told["changed"]))
    if "asks" in told:
        return f"asks {plain(told['asks'])}"
    if "answers" in told:
        return f"{'approved' if told['approved'] else 'declined'} {plain(told['answers'])}"
    if row.step_type in ("resumed", "fork_origin"):
        return ", ".join(["reopened"] * told["reopened"] + [f"changed {plain(key)}" for key in told["changed"]])
    return short(plain(told["error"] or ""), 200)


def row_data(row: Checkpoint) -> dict[str, Any]:
    """A row for programs."""
    extra: Any = row.extra
    told: dict[str, Any] = {
        "seq": row.seq,
        "checkpoint_id": row.checkpoint_id,
        "node_id": row.node_id,
        "step_type": row.step_type,
        "status": row.status,
        "created_at": moment(row.created_at),
    }
    if row.step_type == "node":
        out: Any = row.leaf().state.get("out", [])
        return {**told, "changed": [out] if isinstance(out, str) else out}
    if row.step_type == "hitl_pause":
        return {**told, "asks": extra["reason"]}
    if "answers" in extra:
        return {**told, "answers": extra["answers"], "approved": extra["answer"][0], "metadata": extra["answer"][1]}
    if row.step_type in ("resumed", "fork_origin"):
        return {**told, "changed": extra.get("changes", []), "reopened": bool(extra.get("reopened"))}
    return {**told, "error": row.error}


def branch_data(head: Execution) -> dict[str, Any]:
    """A run that came from this one, for programs."""
    kind = "fork" if head.is_fork else f"started at {plain(head.parent_address or '')}"
    return {"execution_id": head.execution_id, "kind": kind, "status": head.status}


def is_lost(known: Facts, effect: EffectRecord) -> bool:
    """Whether nobody knows what came of an effect."""
    return is_unknown(effect, known.head, alive=known.owner == "alive")


def effect_data(known: Facts, effect: EffectRecord) -> dict[str, Any]:
    """An effect for programs. Started by an owner that is gone, its outcome is not known."""
    status = "started, outcome unknown" if is_lost(known, effect) else effect.status
    return {"name": effect.name, "status": status, "path": effect.path, "key": effect.key, "result": effect.result}


def section(where: Console, title: str, lines: Iterable[str]) -> None:
    """A heading and its lines, nothing where there is none."""
    for number, text in enumerate(lines):
        if not number:
            where.print(Text(f"\n{title}", "bold"))
        line(where, f"  {text}")


_MENDED = {
    "CycleLimitError": (", accept_graph=True", "with a higher max_iterations"),
    "AgentLimitError": ("", "with a higher max_turns or max_tokens"),
}
"""What a resume takes after a failure of this type, and what to know about it."""

_INSTEAD = {
    "EffectForbidden": (
        'chain.fork({run}, effects="live")',
        "this branch runs no effects, and met one without a record",
    ),
    "InterruptMismatch": ("chain.fork({run})", "the node asks something else than was answered; a fork asks again"),
}
"""What leads on where a resume would fail like before: the call, and why."""


def ways_on(known: Facts, lost: Sequence[EffectRecord], store: str | None) -> list[tuple[str, str]]:
    """The calls that carry the run on, each with what to know about it; none where there is nothing to do.

    What a human has to decide is left open: `approved=...` is refused until it says True or False.
    """
    head, run = known.head, repr(known.head.execution_id)
    if known.owner == "alive" or head.status == "completed":
        return []
    whose = f"chain is the {head.kind} {head.runner!r}"
    if head.status == "cancelled":
        return [(f"chain.resume({run}, reopen=True)", f"{whose}; it asks its open questions again")]
    if known.questions and head.status == "paused":
        return [
            (f"chain.resume({run}, Resume(approved=..., interrupt_id={q.id!r}))", f"{whose}; say True or False")
            for q in known.questions
        ]
    if head.status == "failed":
        return ways_on_after_failure(known, lost, store, whose)
    return [(f"chain.resume({run})", f"{whose}; chain.recover() finds it too")]


def ways_on_after_failure(
    known: Facts, lost: Sequence[EffectRecord], store: str | None, whose: str
) -> list[tuple[str, str]]:
    """The same for a failed run: what it failed with says what has to come first."""
    head, run = known.head, repr(known.head.execution_id)
    failed_with = None if known.last is None else known.last.extra.get("error_type")
    if failed_with in _INSTEAD:
        code, why = _INSTEAD[str(failed_with)]
        return [(code.format(run=run), f"{whose}; {why}")]
    if failed_with == "EffectUnknown" and lost:
        where = [] if store is None else ["--store", store]
        listing = shlex.join(["fastdur", "effects", "list", head.execution_id, *where])
        settle = [
            (
                shlex.join(["fastdur", "effects", "resolve", head.execution_id, each.key, *where]) + " --happened JSON",
                f"or --not-happened: find out first whether {plain(each.name)} has happened",
            )
            for each in lost
        ]
        return [
            (listing, "what nobody knows the outcome of"),
            *settle,
            (f"chain.resume({run})", f"{whose}; after that"),
        ]
    options, mended = _MENDED.get(str(failed_with), ("", ""))
    return [(f"chain.resume({run}{options})", f"{whose}, {mended}" if mended else f"{whose}; once the cause is mended")]


def nothing_to_do(known: Facts) -> str:
    """Why there is no way on."""
    if known.owner == "alive":
        return f"nothing: process {known.pid} is working on it"
    return f"nothing: it has completed. chain.result({known.head.execution_id!r}) reads its outcome"
