"""What the fixtures `interleave` and `race` hand out: a race is described as a sweep is, and fails its test."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from pytest_fastdur.faults import DivergenceError, SweepError
from pytest_fastdur.fixtures import marked_tokens
from pytest_fastdur.interleave import interleave
from pytest_fastdur.plugin import option
from pytest_fastdur.race import race
from pytest_fastdur.schedules import is_schedule
from pytest_fastdur.story import Story

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from fastdur._runner import Runner
    from pytest_fastdur.actors import Deed
    from pytest_fastdur.backends import Backend
    from pytest_fastdur.interleave import RaceReport
    from pytest_fastdur.ledger import EffectLedger
    from pytest_fastdur.race import Rounds
    from pytest_fastdur.story import Answer


class _Racing:
    """What both have in common: the test they are for, its ledger, and where its runs are kept."""

    def __init__(self, item: pytest.Item, ledger: EffectLedger, backend: Backend | None = None) -> None:
        self._item, self._ledger, self._backend = item, ledger, backend

    def _story(
        self,
        build: Callable[[Any], Runner],
        input: Mapping[str, Any] | None,
        answers: Mapping[str, Answer] | None,
        effects: Mapping[str, str] | None,
        name: str | None,
    ) -> Story:
        return Story(name or self._item.name, build, input or {}, answers or {}, effects or {}, self._ledger)

    def _ordered(self) -> str | None:
        """The schedule that the command line says. Raises `SweepError` where it says one of a sweep."""
        token = option(self._item.config, "replay")
        if token is not None and not is_schedule(token):
            message = (
                f"{token!r} is what a crash_sweep has found, and this test plays schedules, as in fdi1-7c4e:0x4,1x2"
            )
            raise SweepError(message)
        return token

    def _play(self, wanted: Callable[[], Iterator[RaceReport | Rounds]]) -> Any:
        """Play them one after another; the first that is not ok fails the test. Returns the last."""
        __tracebackhide__ = True
        report: RaceReport | Rounds | None = None
        try:
            for report in wanted():
                self._note(report)
                if not report.ok:
                    break
        except SweepError as error:
            pytest.fail(f"{type(error).__name__}: {error}", pytrace=False)
        assert report is not None
        if not report.ok:
            pytest.fail(report.render(), pytrace=False)
        return report

    def _note(self, report: RaceReport | Rounds) -> None:
        """What JUnit is told."""
        told: dict[str, Any] = {"fastdur.story": report.story, **report.properties()}
        self._item.user_properties += told.items()


class Interleaving(_Racing):
    """Every interleaving of a few callers, for one test. Each call plays one race."""

    def __call__(
        self,
        build: Callable[[Any], Runner],
        actors: Sequence[str | tuple[str, Deed]] = ("resume", "resume"),
        *,
        input: Mapping[str, Any] | None = None,
        answers: Mapping[str, Answer] | None = None,
        effects: Mapping[str, str] | None = None,
        situation: str = "paused",
        bound: int | None = None,
        kills: int = 0,
        lost: int = 0,
        ticks: int = 0,
        budget: int | None = None,
        name: str | None = None,
    ) -> RaceReport:
        """Play every schedule of `actors` on one run of `build(store)`, and fail the test where one breaks a promise.

        `build`, `input`, `answers` and `effects` are those of `crash_sweep`, the rest is what
        `pytest_fastdur.interleave.interleave` takes. Schedules of marks `fastdur_replay("fdi1-…")` are played first,
        where they still can be; `--fastdur-replay=fdi1-…` plays that one and nothing else.
        """
        __tracebackhide__ = True
        story = self._story(build, input, answers, effects, name)

        def one(replay: str | None = None) -> RaceReport:
            return interleave(
                story,
                actors,
                situation=situation,
                bound=bound,
                kills=kills,
                lost=lost,
                ticks=ticks,
                budget=budget,
                replay=replay,
                backend=self._backend,
            )

        def wanted() -> Iterator[RaceReport]:
            ordered = self._ordered()
            if ordered is not None:
                yield one(ordered)
                return
            for token in marked_tokens(self._item):
                if is_schedule(token):
                    with suppress(DivergenceError):  # what made it possible is gone; all others are tried below
                        yield one(token)
            yield one()

        report: RaceReport = self._play(wanted)
        return report


class Racing(_Racing):
    """Real processes behind a barrier, for one test. Each call is one race."""

    def __call__(
        self,
        build: Callable[[Any], Runner],
        actors: Sequence[str] = ("resume",) * 4,
        *,
        rounds: int = 20,
        input: Mapping[str, Any] | None = None,
        answers: Mapping[str, Answer] | None = None,
        effects: Mapping[str, str] | None = None,
        situation: str = "paused",
        name: str | None = None,
    ) -> Rounds | RaceReport:
        """Let processes go at one run of `build(store)`, round after round, and fail the test at the first bad round.

        `build`, `input`, `answers` and `effects` are those of `crash_sweep`, the rest is what
        `pytest_fastdur.race.race` takes. Nobody can order which process comes first: under `--fastdur-replay=fdi1-…`
        the same callers play that schedule instead, as `interleave` plays it.
        """
        __tracebackhide__ = True
        story = self._story(build, input, answers, effects, name)

        def wanted() -> Iterator[RaceReport | Rounds]:
            token = self._ordered()
            if token is not None:
                yield interleave(story, actors, situation=situation, replay=token, backend=self._backend)
            else:
                yield race(story, actors, rounds=rounds, situation=situation, backend=self._backend)

        report: Rounds | RaceReport = self._play(wanted)
        return report
