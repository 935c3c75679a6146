"""What the fixtures hand out."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing, nullcontext
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Self, cast

import pytest

from fastdur.checkpointers.sqlite import SQLiteCheckpointer
from pytest_fastdur.backends import Files, Schemas
from pytest_fastdur.ending import keep
from pytest_fastdur.extended import extended
from pytest_fastdur.faults import Fault, SweepError, boundaries_named, faults_named, parse_token
from pytest_fastdur.foreign import sweep_subject
from pytest_fastdur.options import report_folder
from pytest_fastdur.plugin import option
from pytest_fastdur.report.progress import Bar
from pytest_fastdur.report.records import lines_of
from pytest_fastdur.schedules import is_schedule
from pytest_fastdur.story import Story
from pytest_fastdur.subject import is_subject
from pytest_fastdur.sweep import Order, Recorded, carry_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from fastdur._runner import Runner
    from fastdur.checkpointers.protocol import Checkpointer
    from pytest_fastdur.backends import Backend
    from pytest_fastdur.ledger import EffectLedger
    from pytest_fastdur.report.data import SweepReport
    from pytest_fastdur.story import Answer
    from pytest_fastdur.subject import Subject


class Stores:
    """Empty stores, each on a file of its own in one folder; all are closed at the end."""

    def __init__(self, folder: Path) -> None:
        self._files = Files(os.fspath(folder))
        self._open = ExitStack()

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close them."""
        self._open.close()

    def fresh(self) -> SQLiteCheckpointer:
        """An empty store."""
        store = SQLiteCheckpointer(self._files.fresh())
        self._open.enter_context(closing(store))
        return store


def marked_tokens(item: pytest.Item) -> tuple[str, ...]:
    """The tokens of the marks on a test, the outermost first. Raises `SweepError`."""
    tokens: list[str] = []
    for marker in item.iter_markers("fastdur_replay"):
        if marker.kwargs or len(marker.args) != 1 or not isinstance(marker.args[0], str):
            message = "the marker fastdur_replay takes one token: fastdur_replay('fd1-7c4e:start/claim=crash after')"
            raise SweepError(message)
        tokens.append(marker.args[0])
    return tuple(reversed(tokens))


class CrashSweep:
    """The sweep of one test. Each call sweeps one story and fails the test where something was found."""

    def __init__(
        self,
        item: pytest.Item,
        ledger: EffectLedger,
        backend: Backend | None = None,
        killable: Callable[[], Backend] | None = None,
    ) -> None:
        self._item = item
        self._ledger = ledger
        self._backend = backend
        self._killable = killable

    def __call__(
        self,
        build: Callable[[Any], Runner] | Subject,
        *,
        input: Mapping[str, Any] | None = None,
        answers: Mapping[str, Answer] | None = None,
        effects: Mapping[str, str] | None = None,
        faults: str | Iterable[str] | None = None,
        at: str | None = None,
        boundaries: str | Iterable[str] | None = None,
        depth: int | None = None,
        recovery: bool = False,
        budget: int | None = None,
        seed: int | None = None,
        name: str | None = None,
        fresh: Callable[[], object] | None = None,
        provider: Callable[[], Mapping[str, int]] | None = None,
        store: Callable[[str], Checkpointer] | None = None,
        before: Callable[[Checkpointer], object] | None = None,
        enter: Callable[[Any, str], Any] | None = None,
    ) -> SweepReport:
        """Crash the run of `build(store)` on `input` before and after every boundary, heal it, and compare.

        `build` is called anew for each lifetime. `answers` maps the reason (or node, or id) of a question to a
        `Resume`, or to a function of the pending question. `effects` declares what was wrapped with the fixture
        `effects`: `exactly-once`, which also holds for what is not named, `at-least-once`, `at-most-once`. `depth=2`,
        or `recovery=True`, crashes each recovery at each of its boundaries too. `fresh` puts the outside world back
        before each history, `provider` says how often each effect happened as that world counts it. `before(store)`
        fills the store before each history, and `enter(runner, execution_id)` begins the run in place of `execute`:
        `runner.fork("source", new_execution_id=execution_id)` sweeps a fork. `boundaries="sql,lines"` crashes at each
        statement of the store and at each line of the nodes too.

        For faults, at, boundaries, depth, budget and seed the command line counts before this call, this call before
        the marker `fastdur(...)`, and the marker before the ini file. The test fails where a promise was broken, where
        two runs without a fault differ, and where a budget cut the sweep off.

        In place of `build` it takes a subject, code on any engine: an object or module with `start`, `resume` and
        `status` (see `pytest_fastdur.subject`). Then `effects`, `faults`, `at`, `depth`, `budget`, `seed` and `name`
        count, faults are `kill` and `zombie`, and on the backend `postgres` it is given a `dsn`.
        """
        __tracebackhide__ = True
        if is_subject(build):
            unfit = {"input": input, "answers": answers, "fresh": fresh, "provider": provider, "store": store}
            self._refuse({**unfit, "before": before, "enter": enter, "boundaries": boundaries})
            chosen = {"faults": faults, "at": at, "depth": 2 if recovery else depth, "budget": budget, "seed": seed}
            return self._subject(build, name, effects or {}, chosen)
        assert callable(build)
        story = Story(
            name or self._item.name,
            build,
            input or {},
            answers or {},
            effects or {},
            self._ledger,
            fresh,
            provider,
            store,
            before=before,
            enter=enter,
        )
        given = {
            "faults": faults,
            "at": at,
            "boundaries": boundaries,
            "depth": 2 if recovery else depth,
            "budget": budget,
            "seed": seed,
        }
        recorded = Recorded() if option(self._item.config, "report") else None
        try:
            order = self._order(given)
            with closing(self._bar()) as bar, extended(self._item.config):
                report = carry_out(story, order, self._place_for(order), recorded, bar)
        except SweepError as error:
            pytest.fail(f"{type(error).__name__}: {error}", pytrace=False)
        return self._done(report, recorded)

    def _refuse(self, unfit: Mapping[str, object]) -> None:
        """What a subject has no use for."""
        __tracebackhide__ = True
        given = [name for name, value in unfit.items() if value is not None]
        if given:
            message = f"a subject is swept without {', '.join(given)}: it makes its own store and answers itself"
            pytest.fail(f"SweepError: {message}", pytrace=False)

    def _subject(
        self, subject: Subject, name: str | None, effects: Mapping[str, str], given: Mapping[str, Any]
    ) -> SweepReport:
        """The sweep of code on any engine."""
        __tracebackhide__ = True
        try:
            order = self._order({**given, "boundaries": None}, "kill")
            with closing(self._bar()) as bar:
                report = sweep_subject(
                    subject,
                    order.faults,
                    name=name or self._item.name,
                    effects=effects,
                    at=order.at,
                    depth=order.depth,
                    budget=order.budget,
                    seed=order.seed,
                    replay=order.replay,
                    kept=order.kept,
                    found=order.found,
                    dsn=self._dsn,
                    progress=bar,
                )
        except SweepError as error:
            pytest.fail(f"{type(error).__name__}: {error}", pytrace=False)
        return self._done(report)

    @property
    def _dsn(self) -> str | None:
        return self._backend.dsn if isinstance(self._backend, Schemas) else None

    def _done(self, report: SweepReport, recorded: Recorded | None = None) -> SweepReport:
        """Hand the report to whoever prints it, and fail the test where it is no pass."""
        __tracebackhide__ = True
        for finding in report.findings:
            self._item.ihook.pytest_fastdur_finding(item=self._item, report=report, finding=finding)
        report.nodeid = self._item.nodeid
        self._keep(report)
        if recorded is not None:
            self._write(recorded, report)
        if not report.ok:
            pytest.fail(report.render(), pytrace=False)
        return report

    def _bar(self) -> Bar:
        """What says how far a sweep has come: on a terminal that somebody may look at, else nothing."""
        manager = self._item.config.pluginmanager
        reporter: Any = manager.get_plugin("terminalreporter")
        capture: Any = manager.get_plugin("capturemanager")
        watched = reporter is not None and reporter.isatty and reporter.verbosity >= 0 and not os.environ.get("CI")
        tw: Any = getattr(reporter, "_tw", None)

        def write(text: str) -> None:
            if watched:
                with nullcontext() if capture is None else capture.global_and_fixture_disabled():
                    tw.write(text, flush=True)

        return Bar(write)

    def _order(self, given: Mapping[str, Any], usual: str = "crash") -> Order:
        marker = self._item.get_closest_marker("fastdur")
        marked: Mapping[str, Any] = {} if marker is None else marker.kwargs
        if marker is not None and (marker.args or set(marked) - set(given)):
            message = f"the marker fastdur takes {', '.join(given)} by name, not {marker.args or sorted(marked)}"
            raise SweepError(message)
        config = self._item.config

        def chosen(name: str) -> Any:
            line: Any = config.getoption(f"fastdur_{name}", None)
            ini: Any = None if name == "depth" else config.getini(f"fastdur_{name}")
            found: list[Any] = [
                value for value in (line, given[name], marked.get(name), ini or None) if value is not None
            ]
            return found[0] if found else None

        budget, seed = chosen("budget"), chosen("seed")
        token = option(config, "replay")
        if token is not None and is_schedule(token):
            message = (
                f"{token!r} is a schedule, which a test with the fixture interleave plays, and no history of a sweep"
            )
            raise SweepError(message)
        kept = self._kept()
        return Order(
            faults_named(chosen("faults") or self._item.ihook.pytest_fastdur_faults(item=self._item) or usual),
            chosen("at"),
            chosen("depth"),
            None if budget is None else int(budget),
            None if seed is None else int(seed),
            token,
            hasattr(os, "fork"),
            kept,
            self._found(),
            boundaries_named(chosen("boundaries") or ()),
            self._known(*kept, *([] if token is None else [token])),
        )

    def _place_for(self, order: Order) -> Backend | None:
        """Where the histories are kept: on a server of their own, where servers are killed."""
        plans = [parse_token(token)[1] for token in (order.replay, *order.kept, *order.found) if token is not None]
        faults = [*order.faults, *(step.fault for plan in plans for step in plan.steps)]
        served = self._backend is not None and self._backend.served
        return self._killable() if served and Fault.SERVER in faults and self._killable else self._backend

    def _kept(self) -> tuple[str, ...]:
        """The tokens of the marks on the test; schedules are for others."""
        return tuple(token for token in marked_tokens(self._item) if not is_schedule(token))

    def _found(self) -> tuple[str, ...]:
        """The tokens that the last run in this directory has found by this test."""
        cache: Any = getattr(self._item.config, "cache", None)
        found: Any = None if cache is None else cache.get(self._cached, None)
        return tuple(found or ())

    @property
    def _cached(self) -> str:
        return f"fastdur/found/{sha256(self._item.nodeid.encode()).hexdigest()[:16]}"

    def _known(self, *tokens: str) -> dict[str, list[str]]:
        """The lists that tokens were recorded on, where a run in this directory has kept them."""
        cache: Any = getattr(self._item.config, "cache", None)
        known: dict[str, list[str]] = {}
        if cache is None:
            return known
        for token in tokens:
            digest = token.partition(":")[0].partition("-")[2]
            found = cast("list[str] | None", cache.get(f"fastdur/boundaries/{digest}", None)) if digest else None
            known |= {} if found is None else {digest: found}
        return known

    def _write(self, recorded: Recorded, report: SweepReport) -> None:
        """The histories of this sweep, into a file of this test: every worker writes its own."""
        folder = report_folder(self._item.config)
        name = sha256(self._item.nodeid.encode()).hexdigest()[:16]
        with (folder / f"{name}.jsonl").open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines_of(recorded, report))

    def _keep(self, report: SweepReport) -> None:
        keep(self._item, report)
        properties = self._item.user_properties
        properties.append(("fastdur.story", report.story))
        properties.append(("fastdur.points", report.points))
        properties.append(("fastdur.complete", report.complete))
        for finding in report.findings:
            properties.append(("fastdur.verdict", finding.verdict))
            properties.append(("fastdur.replay", finding.token))
        cache: Any = getattr(self._item.config, "cache", None)
        if cache is None or report.restricted is not None:
            return
        if report.findings:
            cache.set(f"fastdur/boundaries/{report.digest}", report.boundaries)
        if report.findings or self._found():
            cache.set(self._cached, [finding.token for finding in report.findings])
