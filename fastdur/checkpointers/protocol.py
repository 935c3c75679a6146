"""What a store must do. Every method is synchronous and safe to call from several threads.

Rules that hold for every writing method:

* It is one transaction: all of it or nothing.
* It is fenced: it takes effect only where the run's head still has the epoch, token and seq of the given claim (or of
  the given reading of the head). A write that finds them moved writes nothing.
* It is certain: after an unclear commit the store looks for the write's own id (checkpoint id, claim token, attempt
  token) before it reports anything. Found means done; the same write is sent again until it is clear or the store's
  bound is reached, then `StoreUnavailable`.
* Driver exceptions never leave a store: they become the `StoreError` that fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fastdur._codec import Frozen
    from fastdur._pruned import Pruned
    from fastdur.records import Checkpoint, Claim, EffectRecord, Execution, PendingInterrupt, Status


@dataclass(frozen=True, slots=True)
class Start:
    """What a new run is made of. `token` and `owner` claim it for the caller in the same transaction."""

    execution_id: str
    runner: str
    kind: str
    graph: Frozen
    input: Frozen
    token: str
    owner: str
    parent_id: str | None = None
    parent_address: str | None = None
    parent_checkpoint_id: str | None = None
    parent_token: str | None = None
    """Where given, the run starts only while its parent is held under this token."""
    origin: Checkpoint | None = None
    """The first row of a fork. Its `checkpoint_id` is the random part alone: the store puts `<run>-1-` before it."""
    parent_run: int | None = None
    """Of a fork the key (`Execution.run`) of the run that it comes from: it starts only while that is there."""
    recorded: bool = False
    """Whether the run answers effects from records only. It begins with the finished ones of where it comes from."""


def age(seconds: timedelta) -> float:
    """An age in seconds. Raises `TypeError` for anything but a timedelta, `ValueError` for a negative one."""
    if type(seconds) is not timedelta:
        message = f"an age is {seconds!r}; give a datetime.timedelta"
        raise TypeError(message)
    if seconds < timedelta(0):
        message = f"an age is {seconds}, which lies in the future; give a timedelta from 0"
        raise ValueError(message)
    return seconds.total_seconds()


@runtime_checkable
class Checkpointer(Protocol):
    """A durable store of runs."""

    @property
    def location(self) -> str:
        """Where this store is, for people: an absolute path, a schema; never a password."""
        ...

    def setup(self) -> None:
        """Create or migrate the tables; safe to call at any time, concurrently and again.

        Raises `StoreTooNew` (nothing was written), `StoreCorrupt`, `StoreUnavailable`.
        """
        ...

    def close(self) -> None:
        """Give back every connection. Later calls raise `StoreClosed`; calls under way end first."""
        ...

    # -- ownership ---------------------------------------------------------------------------------------------------

    def start_execution(self, start: Start) -> Claim:
        """Write the head of a new run, status running, claimed; of a fork its first row and its effect records too.

        `Execution.parent_run` is the key of the run that has the id `parent_id` now, None where there is none.

        A fork that is `recorded` takes over what is `done`, `unstorable` or `failed` in its source, in order, under the
        epoch 1, and after that the same of the runs that nodes have started below the source, however deep, where each
        id begins with that of the run above and `/`. Such a record gets the key `place//key`: the place, from the
        source down, is what the ids have after that of the run above. A child run that starts as `recorded` with
        `parent_token` takes what its parent has of its place, likewise: under `key` where the place is its own, else
        under what comes after that. A key that is there stays as it is.

        Raises `RunExists` where the id is taken, `StaleRun` where `parent_token` no longer holds the parent,
        `RunNotFound` where `parent_run` is gone.
        """
        ...

    def claim_execution(
        self, seen: Execution, token: str, owner: str, row: Checkpoint | None = None, graph: Frozen = None
    ) -> Claim | None:
        """Take ownership as of the reading `seen`: epoch + 1, status running; append `row`, replace `graph` if given.

        None where epoch or seq have moved since: read and decide again.
        """
        ...

    def delete_pending_interrupt_atomic(
        self, seen: Execution, token: str, owner: str, interrupt_id: str, row: Checkpoint, graph: Frozen = None
    ) -> Claim | None:
        """Take the pending row, append `row` (it holds the decision) and take ownership, all in one.

        Of N callers exactly one gets a claim. None where that question is no longer pending or the head has moved.
        """
        ...

    def decide(self, seen: Execution, interrupt_id: str, row: Checkpoint, status: Status) -> bool:
        """Take the pending row and append `row`, leaving the run without an owner. False where the head has moved."""
        ...

    def cancel(self, seen: Execution, row: Checkpoint) -> bool:
        """Drop the pending rows, append the end marker `row`, status cancelled, no owner. False if the head moved."""
        ...

    def renew(self, claims: Sequence[Claim]) -> None:
        """Move the leases of these claims on; those that are no longer the run's are left alone.

        One thread renews for every store of a process, so this one method does not wait: where the store is busy it
        raises `StoreUnavailable` at once, and is called again soon.
        """
        ...

    def release(self, claim: Claim) -> None:
        """Give up the claim without a row; does nothing where it is no longer the run's."""
        ...

    # -- rows --------------------------------------------------------------------------------------------------------

    def put(
        self, claim: Claim, row: Checkpoint, status: Status, *, keep: bool = False, clear_failed: str | None = None
    ) -> Checkpoint:
        """Append `row` and set the run's status; return the row as stored.

        A status other than running also gives up the claim unless `keep`. `clear_failed` names a path whose failed
        effect records are removed in the same transaction. Raises `StaleRun` where the claim is no longer the run's,
        `CheckpointExists` where the row's id is taken by other content; the same id with the same content is done.
        """
        ...

    def record_interrupt(
        self, claim: Claim, row: Checkpoint, pending: Iterable[PendingInterrupt], status: Status, *, keep: bool = False
    ) -> Checkpoint:
        """`put`, and the pending rows of the questions asked, in one transaction."""
        ...

    def get_last(self, execution_id: str) -> Checkpoint | None:
        """The row with the highest seq, None where the run has no row (or is unknown)."""
        ...

    def get_by_id(self, execution_id: str, checkpoint_id: str) -> Checkpoint | None:
        """One row, None where there is no such row."""
        ...

    def list_pending_interrupts(
        self, execution_id: str | None = None, *, limit: int | None = None
    ) -> list[PendingInterrupt]:
        """The open questions, of one run or of all, oldest first."""
        ...

    # -- effects -----------------------------------------------------------------------------------------------------

    def begin_idempotent(self, claim: Claim, record: EffectRecord) -> EffectRecord | None:
        """Write a `started` record under `record.attempt`; None where the caller may run the body.

        The record gets the epoch of the claim. One that is `done` or `unstorable` is returned and left alone; one that
        is `failed`, `unknown`, or `started` by an attempt that is over, is replaced. Raises `StaleRun` where the claim
        is no longer the run's.
        """
        ...

    def put_idempotent(self, claim: Claim, record: EffectRecord) -> None:
        """Replace the `started` record of the same attempt by `record`.

        Raises `StaleRun` where the claim is no longer the run's or the attempt is no longer the record's.
        """
        ...

    # A store with transactions has `transact_idempotent` too, see `checkpointers._effect_records`.

    def get_idempotent(self, execution_id: str, key: str) -> EffectRecord | None:
        """One effect record."""
        ...

    def list_idempotent(self, execution_id: str) -> list[EffectRecord]:
        """Every effect record of the run, in the order of their begin."""
        ...

    def list_unknown(self, execution_id: str) -> list[EffectRecord]:
        """The records of the run that are `started` or `unknown`, in the order of their begin.

        A `started` one of the claim that stands may be in flight; whoever reads the head first can tell.
        """
        ...

    def resolve_unknown(self, seen: Execution, record: EffectRecord, outcome: EffectRecord) -> bool:
        """Write status, path, result and error of `outcome` over `record`, which was read as `started` or `unknown`.

        False where epoch or token have moved since the reading `seen`, or another attempt or an outcome has replaced
        the record: read and decide again.
        """
        ...

    # -- runs --------------------------------------------------------------------------------------------------------

    def get_execution(self, execution_id: str) -> Execution | None:
        """The head of one run."""
        ...

    def list_executions(
        self,
        *,
        status: Status | None = None,
        runner: str | None = None,
        parent: str | None = None,
        unfinished: bool = False,
        limit: int | None = None,
    ) -> list[Execution]:
        """The heads of runs, newest first.

        With `parent` those that the run of this id has started or that were forked from it: that very run, by
        `Execution.parent_run`, and not one that had the id before.
        """
        ...

    def delete_execution(self, seen: Sequence[Execution]) -> bool:
        """Remove everything of these runs, all of them or none, as of the readings `seen`; give the space back.

        A claim that stands in a reading is taken from its owner first, and stays taken. False where a head has moved
        since: read and decide again. True as well where none of them is there any more. Their ids are free again;
        `Execution.run` is never used again.
        """
        ...

    def prune(
        self,
        older_than: timedelta,
        failed: timedelta | None = None,
        *,
        dry_run: bool = False,
        after: int = 0,
        limit: int | None = None,
    ) -> Pruned:
        """Remove completed and cancelled runs that ended at least `older_than` ago; give the space back.

        One whose claim still stands stays, for a call of its own is at work, until its lease has run out. Failed runs,
        which can still be resumed, go only with an age of their own, `failed`. A run goes together with its child runs
        in one transaction, however many, on condition that no head of them has moved, or stays: where one of them is
        not ended or not old enough. A child run never goes before its parent. Forks stand alone. Ages are judged by the
        database's clock. With `dry_run` nothing is removed, only counted. `limit` looks at that many runs, beginning
        after the run key `after`, and the answer says where to go on.
        """
        ...

    # Last in the class, because from here on `list` means this method.

    def list(self, execution_id: str, *, limit: int | None = None) -> list[Checkpoint]:
        """Every row of the run, ascending by seq; with `limit` the newest that many, still ascending."""
        ...
