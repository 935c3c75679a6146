"""Animals that take too much along, or too little, when runs end and leave."""

from __future__ import annotations

from typing import Any

from fastdur import _branching
from fastdur.checkpointers._store import Store
from pytest_fastdur.zoo._animal import Change, animal, raw


@animal("FD02", tool="interleave resume prune")
def prunes_runs_that_wait(change: Change) -> None:
    """Takes a paused run for one that has ended."""

    def prune(real: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        self.delete_execution(self.list_executions(status="paused"))
        return real(self, *args, **kwargs)

    change(Store, "prune", prune)


@animal("FD07", tool="interleave resume prune kills=1", story="once", budget=2000)
def prunes_the_records_of_runs(change: Change) -> None:
    """Takes the records of effects of every run along when it prunes."""

    def prune(real: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        raw(self, "DELETE FROM {t}idempotency_cache WHERE status = 'done'")
        return real(self, *args, **kwargs)

    change(Store, "prune", prune)


@animal("FD01", "FD03", "FD04", "FD11", "FD12", "FD05", tool="interleave resume cancel")
def cancels_by_status_alone(change: Change) -> None:
    """Marks a run as cancelled and leaves its owner at work."""

    def cancel(_: Any, self: Any, seen: Any, row: Any) -> bool:
        del row
        raw(self, "DELETE FROM {t}pending_interrupts WHERE run = ?", seen.run)
        raw(self, "UPDATE {t}executions SET status = 'cancelled' WHERE run = ?", seen.run)
        return True

    change(Store, "cancel", cancel)


@animal("FD01", "FD02", "FD05", "FD11", "FD12", tool="interleave resume delete")
def deletes_under_a_live_owner(change: Change) -> None:
    """Removes a run whoever works on it."""

    def delete(_: Any, self: Any, seen: Any) -> bool:
        for head in seen:
            for table in ("pending_interrupts", "idempotency_cache", "executions"):
                raw(self, f"DELETE FROM {{t}}{table} WHERE run = ?", head.run)  # noqa: S608 - names of this package
        return True

    from fastdur import _ending

    change(Store, "delete_execution", delete)
    change(_ending, "_left_alone", lambda *_, **__: None)


@animal("FD09", "FD11", "FD06", "FD12", tool="interleave fork")
def forks_past_a_gate(change: Change) -> None:
    """Lets a branch begin with the open questions of its source, which nobody can see there."""

    def broken(_: Any, frame: Any) -> Any:
        return frame

    change(_branching, "without_questions", broken)


@animal("FD06", "FD11", tool="interleave fork")
def forks_take_the_question_along(change: Change) -> None:
    """Withdraws the questions of the source when a branch begins."""

    def start(real: Any, self: Any, start: Any) -> Any:
        claim = real(self, start)
        if start.origin is not None:
            raw(self, "DELETE FROM {t}pending_interrupts WHERE run <> ?", claim.run)
        return claim

    change(Store, "start_execution", start)
