"""A process that stands still for longer than its lease: another carries its run on, and then it goes on itself."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from pytest_fastdur import judge
from pytest_fastdur.lifetimes import Ending, Lifetime
from pytest_fastdur.verdicts import Verdict, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_fastdur.durable import DurableState
    from pytest_fastdur.lifetimes import Call
    from pytest_fastdur.observers import Watch
    from pytest_fastdur.world import World

_CLAIMS = ("Start", "Take", "Answer")


class Zombie:
    """One lifetime that is frozen at an instant while its successor lives, and goes on as if nothing had happened."""

    def __init__(self, world: World, call: Call) -> None:
        self._world, self._call = world, call
        self._number = len(world.lifetimes)
        self._before: DurableState | None = None
        self._instants = 0
        self._over = False
        """Whether the lifetime had given up its claim before it was frozen: then there is nothing to take from it."""
        self.frozen = False

    def freeze(self, watch: Watch) -> None:
        """Stand still until the successor has ended. It lives in a thread, because it knows nothing of this call."""
        world = self._world
        self.frozen, self._instants = True, len(watch.events)
        world.lifetimes.append(Lifetime(self._call, "died", list(watch.events)))
        world.look()
        world.follow(watch.events)
        run = world.state.run
        owned, epoch = run is not None and run.head.owned, None if run is None else run.head.epoch
        claimed = any(event.when == "after" and event.kind in _CLAIMS and not event.run for event in watch.events)
        self._over = claimed and not owned
        call = world.next_call()
        if call is None:
            return
        ending = Ending()

        def succeed() -> None:
            with ending:
                world.live(call, lease_is_over=True)

        thread = threading.Thread(target=succeed, name="fastdur successor")
        thread.start()
        thread.join()
        if ending.error is not None:
            raise ending.error
        world.violations += judge.healed_as_documented(world.lifetimes[-1], world.status)
        run = world.state.run
        # Whoever had taken nothing before comes to a failed run as any new caller does, and may carry it on.
        free = run is not None and run.head.status == "failed" and not run.head.owned and not claimed
        if run is not None and run.head.epoch != epoch and not free:  # else nobody has taken its place
            self._before = world.state
        if world.story.ledger is not None:
            world.story.ledger.lifetime = self._number

    def wake(self, lifetime: Lifetime) -> None:
        """It has gone on and ended: in the place of its beginning, and without a trace."""
        world = self._world
        world.lifetimes[self._number] = lifetime
        before, world.states[-1] = self._before, world.stored()
        if before is not None:
            world.violations += self._traces(lifetime, before, world.state)

    def _traces(self, lifetime: Lifetime, before: DurableState, now: DurableState) -> Iterator[Violation]:
        after = f"{lifetime.call}, which had been replaced,"
        for event in lifetime.events[self._instants :]:
            if event.kind == "Append" and event.row is not None and not event.run:  # a claim may have been refused
                yield Violation(Verdict.ZOMBIE_WRITE, f"{after} was told that the row of {event.row[0]} is stored")
        if now.digest != before.digest:
            new = [line for line in now.lines if line not in before.lines]
            what = f"{after} changed the store: {'; '.join(new) or 'something is gone'}"
            yield Violation(Verdict.ZOMBIE_WRITE, what)
        if lifetime.how in ("completed", "paused") and not self._over:
            yield Violation(Verdict.TWO_WINNERS, f"{after} ended {lifetime.how} all the same")
        elif lifetime.how == "raised" and not lifetime.documented:
            yield Violation(Verdict.WRONG_ERROR, f"{after} raised {lifetime.error}, which is not documented")
