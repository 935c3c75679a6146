"""`checkpointer=False`: a run that is kept nowhere, for tests and for work that need not survive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastdur.records import Claim

if TYPE_CHECKING:
    from fastdur.checkpointers.protocol import Start
    from fastdur.records import Checkpoint


class Nowhere:
    """As much of a store as a run needs to go on without one. Nothing can be read back."""

    location = "nowhere (checkpointer=False)"

    def start_execution(self, start: Start) -> Claim:
        """Own a run that nobody else can know of."""
        return Claim(start.execution_id, 0, 1, start.token, 0)

    def put(self, claim: Claim, row: Checkpoint, status: object, **_: Any) -> Checkpoint:  # noqa: ARG002
        """Count the row."""
        claim.seq += 1
        return row

    def begin_idempotent(self, claim: Claim, record: object) -> None:
        """Let every effect run; calls in flight together still share one body."""

    def put_idempotent(self, claim: Claim, record: object) -> None:
        """Forget the outcome."""

    def release(self, claim: Claim) -> None:
        """Forget the run."""
