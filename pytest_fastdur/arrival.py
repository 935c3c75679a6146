"""How a run is brought to where a race for it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_fastdur.faults import Fault, FaultPlan, Step, SweepError
from pytest_fastdur.history import until_struck

if TYPE_CHECKING:
    from fastdur.records import Resume
    from pytest_fastdur.control import Control
    from pytest_fastdur.world import World


def arrive(world: World, situation: str, control: Control) -> Resume | None:
    """Bring the run to `nothing`, `paused`, `completed`, or to the instant at which its process dies.

    Returns the answer to its open question, None where there is none. Raises `SweepError`.
    """
    if situation in ("paused", "completed"):
        while (call := world.next_call()) is not None and not (world.status == situation == "paused"):
            world.live(call)
        if world.status != situation:
            message = f"story {world.story.name!r} is never {situation}; name an instant at which its process dies"
            raise SweepError(message)
    elif situation != "nothing":
        points = [point for point in control.points if point.matches(situation)]
        if not points:
            message = f"there is no instant {situation!r}; there are {', '.join(control.boundaries)}"
            raise SweepError(message)
        until_struck(world, FaultPlan((Step(points[0], Fault.CRASH),)))
    run = world.state.run
    return None if run is None or not run.pending else world.story.answer(run.pending[0])
