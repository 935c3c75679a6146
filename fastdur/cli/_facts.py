"""What the store knows of a run, as plain data: read without the classes and the chain that the run is made of."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fastdur import SQLiteCheckpointer
from fastdur._owner import at_work
from fastdur._steps import open_questions
from fastdur.cli._text import NOT_THERE, USAGE, moment, refuse

if TYPE_CHECKING:
    from fastdur import Checkpoint, Checkpointer, Execution
    from fastdur._codec import Frozen
    from fastdur.records import Question

STORE = typer.Option("--store", metavar="PATH", help="The store's file. [default: $FASTDUR_DB or .fastdur/fastdur.db]")
JSON = typer.Option("--json", help="Print JSON instead of text.")

_STEPS = ("node", "llm_call", "tool_call", "handoff")
_GLANCE = 8


def open_store(path: str | None) -> SQLiteCheckpointer:
    """The store at `path`, which has to be there: looking never makes one."""
    try:
        store = SQLiteCheckpointer(path)
    except ValueError as error:
        refuse(str(error), USAGE)
    file = Path(store.location)
    if not file.exists():
        refuse(f"There is no store at {file}. Name one with --store or $FASTDUR_DB.", NOT_THERE)
    if not file.is_file() or not file.stat().st_size:
        what = "an empty file" if file.is_file() else "no file"
        refuse(f"{file} is {what}, not a store. Name one with --store or $FASTDUR_DB.", NOT_THERE)
    return store


@dataclass(frozen=True)
class Facts:
    """One run at one moment."""

    head: Execution
    last: Checkpoint | None
    committed: str | None
    now: float

    @property
    def owner(self) -> str | None:
        """`alive` or `gone`, None where nobody owns the run."""
        if not self.head.owned:
            return None
        return "alive" if at_work(self.head) else "gone"

    @property
    def pid(self) -> str:
        """The owner's process, as far as it says."""
        return (self.head.owner or "").split(":")[-2:][0]

    @property
    def questions(self) -> list[Question]:
        """What the run asks and nobody has answered."""
        if self.last is None or not self.head.unfinished:
            return []
        return open_questions(self.last.frames)

    @property
    def age(self) -> float:
        """Seconds since the start."""
        return self.now - self.head.created_at

    @property
    def error(self) -> str | None:
        """Why the run failed."""
        return self.last.error if self.last is not None and self.head.status == "failed" else None

    def data(self) -> dict[str, Any]:
        """The same for programs. Values are given as they are stored."""
        head = self.head
        return {
            "execution_id": head.execution_id,
            "runner": head.runner,
            "kind": head.kind,
            "status": head.status,
            "seq": head.seq,
            "epoch": head.epoch,
            "attempts": head.attempts,
            "last_committed": self.committed,
            "owner": None if self.owner is None else {"state": self.owner, "pid": self.pid},
            "questions": [asked(question) for question in self.questions],
            "error": self.error,
            "parent": head.parent_id,
            "fork": head.is_fork,
            "forked_from": head.parent_checkpoint_id,
            "recorded": head.recorded,
            "created_at": moment(head.created_at),
            "updated_at": moment(head.updated_at),
            "input": head.input,
        }


def source_of(store: Checkpointer, head: Execution) -> Execution | None:
    """The run that a fork or a child run came from; None where it is gone, even if another has its id now."""
    found = None if head.parent_id is None else store.get_execution(head.parent_id)
    return found if found is not None and found.run == head.parent_run else None


def branches_of(store: Checkpointer, head: Execution) -> list[Execution]:
    """The forks and child runs of a run, in the order of their start."""
    return [*reversed(store.list_executions(parent=head.execution_id))]


def asked(question: Question) -> dict[str, Frozen]:
    """An open question for programs."""
    return {"interrupt_id": question.id, "reason": question.reason, "context": question.context}


def facts(store: Checkpointer, head: Execution) -> Facts:
    """What the store knows of the run with this head."""
    rows = store.list(head.execution_id, limit=_GLANCE)
    committed = last_committed(rows)
    if committed is None and len(rows) == _GLANCE:
        committed = last_committed(store.list(head.execution_id))
    return Facts(head, rows[-1] if rows else None, committed, time.time())


def last_committed(rows: list[Checkpoint]) -> str | None:
    """The address of the newest step that is done; a question, an answer and the end are no steps."""
    done = (row.node_id for row in reversed(rows) if row.step_type in _STEPS and row.status == "completed")
    return next(done, None)
