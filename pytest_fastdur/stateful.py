"""State machines for Hypothesis: stories of starts, crashes, answers and races that nobody has thought of.

    class Orders(DurabilityMachine):
        input = {"amount": 120}
        answers = {"approve": Resume(approved=True)}

        @classmethod
        def build(cls, store, effects):
            return order_chain(store, effects.wrap("charge", charge_card))

    TestOrders = Orders.TestCase

Each example lives one run in an empty store. Boundaries are drawn by name, in the order in which a run passes them, so
that a shrunk story reads well. After every step what is stored is checked, and at the end the run is carried on without
a fault and compared with one that was left alone. A failure shows the token that plays the same crashes again.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fastdur.errors import AlreadyResumed
from pytest_fastdur import judge
from pytest_fastdur.actors import Scene, deed
from pytest_fastdur.evidence import End
from pytest_fastdur.faults import Fault, FaultPlan, Point, Step
from pytest_fastdur.history import counts
from pytest_fastdur.lifetimes import Ending
from pytest_fastdur.model_run import Facts, expected
from pytest_fastdur.referee import FENCED, REFUSALS
from pytest_fastdur.rehearsed import Rehearsed
from pytest_fastdur.story import Story, is_async
from pytest_fastdur.verdicts import Verdict, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fastdur._runner import Runner
    from fastdur.checkpointers.protocol import Checkpointer
    from fastdur.records import Resume
    from pytest_fastdur.backends import Backend
    from pytest_fastdur.ledger import EffectLedger
    from pytest_fastdur.lifetimes import Call

__all__ = ["DurabilityMachine", "IdempotentEffectsMachine", "RunEndMachine", "SingleWinnerMachine"]


def _instants(machine: Machine) -> st.SearchStrategy[Point | None]:
    return st.none() | st.sampled_from(machine.rehearsed().instants)


_AT: st.SearchStrategy[Point | None] = st.runner().flatmap(_instants)
"""An instant at which a process dies, or none."""


class Machine(RuleBasedStateMachine):
    """One run, and the processes that come and go. Subclass one of the machines below, not this one.

    `build(store, effects)` makes the runner; `input`, `answers` and `effects` are what `crash_sweep` takes.
    """

    input: ClassVar[Mapping[str, Any]] = {}
    answers: ClassVar[Mapping[str, Any]] = {}
    effects: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def backend(cls) -> Backend | None:
        """Make what keeps the runs; files, where it is None."""
        return None

    @classmethod
    def build(cls, store: Checkpointer, effects: EffectLedger) -> Runner:  # noqa: ARG003 - of those who define it
        """Make the runner on the store it is given, its effects wrapped."""
        message = f"{cls.__name__} must define build(cls, store, effects)"
        raise TypeError(message)

    @classmethod
    def rehearsed(cls) -> Rehearsed:
        """The story of this machine, played twice without a fault; once for each class."""
        known = cls.__dict__.get("_rehearsed")
        if known is None:
            known = Rehearsed(
                lambda ledger: Story(
                    cls.__name__, lambda store: cls.build(store, ledger), cls.input, cls.answers, cls.effects, ledger
                ),
                cls.backend(),
            )
            setattr(cls, "_rehearsed", known)  # noqa: B010 - each class has one of its own
        made: Rehearsed = known
        return made

    def __init__(self) -> None:
        super().__init__()
        self.world = self.rehearsed().fresh()
        self._steps: list[Step] = []
        self._broken = False
        self.branches = 0
        """How many forks of the run were made."""

    # -- steps ---------------------------------------------------------------------------------------------------------

    def carry_on(self, at: Point | None, fault: Fault = Fault.CRASH) -> None:
        """A process starts the run, or carries it on by the call that leads on, and dies at `at` if it gets there."""
        call = self.world.next_call()
        if call is None:
            return
        steps = () if at is None else (Step(Point(call.label, at.when, at.name), fault),)
        self._steps += steps
        self._live(call, steps)

    def _live(self, call: Call, steps: tuple[Step, ...]) -> None:
        run = self.world.state.run
        wanted = "goes on" if call.kind == "start" else expected(None if run is None else Facts.of(run), call.answer)
        lifetime = self.world.live(call, steps)
        if judge.in_doubt(lifetime):
            self.world.settle(self.rehearsed().control.state)
        elif not lifetime.struck:
            self.check(judge.healed_as_documented(lifetime, self.world.status))
        if wanted != "goes on" and lifetime.how in ("completed", "paused"):
            self.check([Violation(Verdict.WRONG_ERROR, f"{call} went on; the model says {wanted}")])
        self.check(())

    def check(self, found: Any) -> None:
        """Fail where a promise is broken, with the token of the crashes so far."""
        if self._broken:
            return
        broken = sorted([*found, *self.world.violations, *self.world.repeats()], key=lambda each: each.verdict.value)
        if not broken:
            return
        self._broken, worst = True, broken[0]
        stranded = [each for each in broken if each.verdict is Verdict.STRANDED] or [
            each for each in self._healed() if each.verdict is Verdict.STRANDED
        ]
        rehearsed = self.rehearsed()
        token = FaultPlan(tuple(self._steps)).token(rehearsed.control.digest) if self._steps else None
        lives = "\n".join(f"  {lifetime}" for lifetime in self.world.lifetimes)
        replay = f"\n  replay:  --fastdur-replay='{token}'" if token else ""
        then = f"\n  and so:  {stranded[0].verdict}: {stranded[0].what}" if stranded and worst not in stranded else ""
        message = f"{worst.verdict}: {worst.what}{then}\n{lives}\n  cause:   {worst.verdict.cause}{replay}"
        raise AssertionError(message)

    def done(self, name: str, answer: Resume | None = None) -> Ending:
        """What comes of something that another process does: `resume`, `decide`, `prune`, `fork`, …."""
        story = self.rehearsed().story
        ending = Ending()
        with closing(self.world.open()) as store:
            runner = story.build(store)
            on_a_loop = is_async(runner)
            does, at = deed(name, on_a_loop=on_a_loop), Scene(runner, story.execution_id, story, answer)

            async def awaited() -> Any:
                return await does(at)

            with ending:
                ending.result = asyncio.run(awaited()) if on_a_loop else does(at)
        return ending

    @invariant()
    def what_is_stored_is_whole(self) -> None:
        """After every step."""
        self.check(())

    def teardown(self) -> None:
        """With the faults gone the run is carried on to its end, and compared with one that was left alone."""
        try:
            if not self._broken:
                self.check(self._healed())
        finally:
            self.world.close()

    def _healed(self) -> Iterator[Violation]:
        """What is wrong with how the run ends when it is carried on without a fault."""
        rehearsed, world = self.rehearsed(), self.world
        left = rehearsed.control.questions + 3
        while left and (call := world.next_call()) is not None:
            left -= 1
            lifetime = world.live(call)
            if judge.in_doubt(lifetime) and world.settle(rehearsed.control.state):
                left += 1
            elif judge.refused(lifetime, world.status):
                yield Violation(Verdict.STRANDED, f"the run is {world.status}; {call} -> {lifetime.error}")
                return
            else:
                yield from judge.healed_as_documented(lifetime, world.status)
        if world.status not in ("completed", "cancelled"):
            yield Violation(Verdict.STRANDED, f"the run is {world.status} and never ends")
        end = replace(End.of(world.state), others=rehearsed.control.end.others)
        most = 1 + self.branches
        yield from judge.of_end(end, counts(world, rehearsed.control), rehearsed.control.end, most)


class _Crashing(Machine):
    """Processes that die at any boundary."""

    @rule(at=_AT)
    def start_or_resume(self, at: Point | None) -> None:
        """A process carries the run on, and dies at a boundary."""
        self.carry_on(at)


class IdempotentEffectsMachine(_Crashing):
    """Whatever dies and whoever carries on, a recorded effect does not happen again (promise 4)."""


class SingleWinnerMachine(_Crashing):
    """Of callers that carry one run on at once, one wins, and the others get the typed error (promise 1)."""

    @precondition(lambda self: self.world.status not in (None, "completed", "cancelled"))
    @rule(callers=st.integers(2, 3))
    def race(self, callers: int) -> None:
        """Several processes carry the run on at once."""
        call = self.world.next_call()
        if call is None:
            return
        endings = [Ending() for _ in range(callers)]
        gate = threading.Barrier(callers)

        def resume(ending: Ending) -> None:
            gate.wait(60)
            came = self.done("resume", call.answer)
            ending.result, ending.error = came.result, came.error

        threads = [threading.Thread(target=resume, args=(ending,)) for ending in endings]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.world.look()
        winners = [each for each in endings if each.result is not None and each.result.status == "completed"]
        if len(winners) > 1:
            self.check([Violation(Verdict.TWO_WINNERS, f"{len(winners)} of {callers} have completed the run")])
        for ending in endings:
            if ending.error is not None and not isinstance(ending.error, (*REFUSALS, *FENCED)):
                self.check([Violation(Verdict.WRONG_ERROR, f"a caller got {ending.error!r}")])
        self.check(())


class RunEndMachine(_Crashing):
    """After a completed end marker every call is `AlreadyResumed`, and changes nothing (promise 7)."""

    @precondition(lambda self: self.world.status == "completed")
    @rule(answer=st.booleans())
    def resume_again(self, answer: bool) -> None:  # noqa: FBT001 - drawn
        """Somebody resumes the run that has ended."""
        before = self.world.state.digest
        given = next((call.answer for call in self.world.asked.values()), None) if answer else None
        error = self.done("resume", given).error
        self.world.look()
        if type(error) is not AlreadyResumed:
            self.check([Violation(Verdict.WRONG_ERROR, f"a completed run was resumed: {error!r}")])
        if self.world.state.digest != before:
            self.check([Violation(Verdict.WRONG_ERROR, "a refusal has changed the store")])


class DurabilityMachine(IdempotentEffectsMachine, SingleWinnerMachine, RunEndMachine):
    """Everything at once: crashes, races, zombies, clocks, forks, prunes, calls that come twice."""

    @rule(at=st.runner().flatmap(lambda machine: st.sampled_from(machine.rehearsed().instants)))
    def zombie_wakes(self, at: Point) -> None:
        """A process stands still for longer than its lease, another carries the run on, and then it goes on itself."""
        self.carry_on(at, Fault.ZOMBIE)

    @rule(seconds=st.sampled_from((1.0, 3600.0)))
    def tick(self, seconds: float) -> None:
        """The store's clock jumps."""
        self.world.tick(seconds)

    @precondition(lambda self: bool(self.world.asked))
    @rule()
    def answer_again(self) -> None:
        """An answer that was given before comes once more."""
        before = self.world.state
        call = next(iter(self.world.asked.values()))
        open_now = [] if before.run is None else [pending.interrupt_id for pending in before.run.pending]
        if call.answer is None or call.answer.interrupt_id in open_now:
            return
        error = self.done("decide", call.answer).error
        self.world.look()
        if error is not None and not isinstance(error, (*REFUSALS, *FENCED)):
            self.check([Violation(Verdict.WRONG_ERROR, f"an answer that came twice: {error!r}")])
        if self.world.state.digest != before.digest:
            self.check([Violation(Verdict.WRONG_ERROR, "an answer that came twice has changed the store")])

    @precondition(lambda self: self.world.status not in (None, "completed", "cancelled"))
    @rule()
    def prune(self) -> None:
        """Somebody prunes everything that has ended, while this run has not."""
        self.done("prune")
        self.world.look()
        if self.world.status is None:
            self.check([Violation(Verdict.LOST_COMMIT, "an unfinished run was pruned")])

    @precondition(lambda self: self.world.status is not None and not self.branches)
    @rule()
    def fork(self) -> None:
        """Somebody forks the run, which stays as it is."""
        before = self.world.state.run
        story = self.rehearsed().story
        self.branches = 1
        if story.ledger is not None:
            story.ledger.lifetime = 0  # what the branch does is no repetition of what the source has done
        error = self.done("fork").error
        self.world.look()
        if error is not None and not isinstance(error, REFUSALS):
            self.check([Violation(Verdict.WRONG_ERROR, f"a fork raised {error!r}")])
        if self.world.state.run != before:
            self.check([Violation(Verdict.REWRITTEN, "a run was forked, and is not what it was before")])
