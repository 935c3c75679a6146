"""The sweep of a subject: kill its process at every change of its database and round every effect, resume, compare."""

from __future__ import annotations

import random
import tempfile
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from pytest_fastdur.faults import (
    Fault,
    FaultPlan,
    Point,
    Step,
    SweepError,
    check_digest,
    digest_of,
    faults_named,
    parse_token,
)
from pytest_fastdur.foreign_lives import PATIENCE, Errand, Life, Processes
from pytest_fastdur.forked import require_fork
from pytest_fastdur.ledger import MODES, EffectLedger, Tally
from pytest_fastdur.report.data import Finding, SweepReport, cell_key
from pytest_fastdur.verdicts import Verdict, Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pytest_fastdur.subject import Subject

_NO_FAULT = FaultPlan(())


class _History:
    """One history of a subject, in a folder of its own."""

    def __init__(self, sweep: _SubjectSweep, folder: str, dsn: str | None, plan: FaultPlan) -> None:
        self._sweep, self._folder, self._dsn, self.plan = sweep, folder, dsn, plan
        self.lives: list[Life] = []
        self.seen: list[tuple[str, Any]] = []
        self._counts = {"start": 0, "resume": 0}

    def play(self, most: int) -> _History:
        """Start, and go on by what status says until the run has completed, or as long as it may take."""
        self._sweep.ledger.clear()
        while self.state != "completed" and len(self.lives) < most:
            call = "start" if self.state in ("unstarted", "unknown") and not self._begun else "resume"
            self._counts[call] += 1
            number = self._counts[call]
            label = call if call == "start" and number == 1 else f"{call}#{number}"
            order = Errand(
                self._folder, self._dsn, call, label, len(self.lives) + 1, self.plan.of(label), self._sweep.patience
            )
            self.lives.append(self._sweep.processes.live(order))
            self._look()
        self.tallies = self._sweep.ledger.tallies()
        return self

    @property
    def _begun(self) -> bool:
        return any(state in ("running", "paused") for state, _ in self.seen)

    def _look(self) -> None:
        life = self._sweep.processes.live(Errand(self._folder, self._dsn, "status", "status", 0))
        self.seen.append(tuple(life.answer) if life.answer is not None else ("unknown", life.error or life.how))

    @property
    def state(self) -> str:
        """What status has said last."""
        return self.seen[-1][0] if self.seen else "unstarted"

    @property
    def result(self) -> Any:
        """The result of a completed run."""
        return self.seen[-1][1] if self.seen else None

    def count(self, name: str) -> int:
        """How often an effect happened as its provider counts."""
        return self.tallies.get(name, Tally()).seen

    @property
    def events(self) -> list[tuple[str, str, str]]:
        """Every instant: lifetime, when, name."""
        return [(life.label, when, name) for life in self.lives for when, name in life.events]

    @property
    def recovery(self) -> list[Point]:
        """The instants of the lifetimes after the last fault."""
        last = max((n for n, life in enumerate(self.lives) if life.struck), default=len(self.lives))
        return [
            Point(life.label, when, name)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - as told
            for life in self.lives[last + 1 :]
            for when, name in life.events
        ]


class _SubjectSweep:
    """An order being carried out on a subject."""

    def __init__(self, processes: Processes, ledger: EffectLedger, effects: Mapping[str, str], dsn: str | None) -> None:
        self.processes, self.ledger, self.effects, self._dsn = processes, ledger, effects, dsn
        self.patience = PATIENCE

    def play(self, plan: FaultPlan = _NO_FAULT, most: int = 20) -> _History:
        """One history, in a fresh place."""
        with (
            tempfile.TemporaryDirectory(prefix="fastdur-subject-", ignore_cleanup_errors=True) as folder,
            ExitStack() as open_,
        ):
            dsn = None
            if self._dsn is not None:
                from pytest_fastdur.schemas import fresh_schema

                dsn = open_.enter_context(fresh_schema(self._dsn))
            return _History(self, folder, dsn, plan).play(most)

    def control(self) -> _History | str:
        """The uninterrupted run; or why there is none to compare with."""
        one, two = self.play(), self.play()
        for history in (one, two):
            if history.state != "completed":
                return f"the run without a fault does not complete; {_told(history)}"
        for what, first, second in (
            ("the result", one.result, two.result),
            ("the effects", _counts(one), _counts(two)),
            ("the lifetimes", [life.label for life in one.lives], [life.label for life in two.lives]),
        ):
            if first != second:
                return f"not deterministic: {what} of two runs without a fault are {first!r} and {second!r}"
        return one if one.events == two.events else _steady(one, two)

    def judge(self, history: _History, control: _History) -> Iterator[Violation]:
        """What is broken."""
        struck = sum(life.struck for life in history.lives)
        if struck < len(history.plan.steps):
            yield Violation(Verdict.NEVER_REACHED, f"the run did not pass {history.plan.steps[struck].point}")
        for life in history.lives:
            if life.how == "died":
                yield Violation(Verdict.DIED_OTHERWISE, f"{life.label} ended otherwise: {life.error}")
            if life.how == "hung":
                yield Violation(Verdict.HANG, f"{life.label}: {life.error}")
        if history.state != "completed":
            yield Violation(Verdict.STRANDED, f"no call leads on; {_told(history)}")
            return
        yield from self._judge_effects(history, control)
        if history.result != control.result:
            what = f"the result is {history.result!r}, and {control.result!r} where nothing was faulted"
            yield Violation(Verdict.DIVERGED, what)

    def _judge_effects(self, history: _History, control: _History) -> Iterator[Violation]:
        for name in sorted({*control.tallies, *history.tallies, *self.effects}):
            mode = self.effects.get(name, "exactly-once")
            now, usual = history.count(name), control.count(name)
            blocked = any(life.other.startswith("hung") for life in history.lives)
            if now > usual and mode != "at-least-once" and not blocked:
                both = any(entry.lifetime < 0 for entry in history.tallies[name].entries)
                verdict = Verdict.TWO_WINNERS if both else Verdict.EFFECT_REPEATED
                yield Violation(verdict, f"{name!r} happened {now} times, and {usual} where nothing was faulted")
            if now < usual and mode != "at-most-once":
                yield Violation(
                    Verdict.EFFECT_LOST, f"{name!r} happened {now} times, and {usual} where nothing was faulted"
                )


def _steady(one: _History, two: _History) -> _History:
    """The first, with those instants only that both have passed: what comes by a clock is not ordered."""
    for life, other in zip(one.lives, two.lives, strict=True):
        life.events = [event for event in life.events if event in other.events]
    return one


def _counts(history: _History) -> dict[str, int]:
    return {name: history.count(name) for name in sorted(history.tallies)}


def _told(history: _History) -> str:
    last = history.lives[-1]
    state = f"status says {history.state!r}" if history.state != "unknown" else f"status fails ({history.result})"
    return f"{state}, and {last.label} {last.how}{': ' if last.error else ''}{last.error}"


def sweep_subject(
    subject: Subject,
    faults: str | Iterable[str | Fault] = ("kill",),
    *,
    name: str | None = None,
    effects: Mapping[str, str] | None = None,
    at: str | None = None,
    depth: int | None = None,
    budget: int | None = None,
    seed: int | None = None,
    replay: str | None = None,
    dsn: str | None = None,
    kept: Sequence[str] = (),
    found: Sequence[str] = (),
    progress: Callable[[SweepReport], object] | None = None,
) -> SweepReport:
    """Sweep code on any engine, and say what was found.

    The run is played twice without a fault. Then, at each instant, a fresh history runs into the fault, goes on by what
    `status` says, and must complete with the same effects and result. The instants are before and after each change and
    commit that reaches sqlite3 or psycopg, and each effect. `kill` is SIGKILL to the process; with `zombie` it stands
    still while another process resumes the run, and then goes on. `depth=2` also kills each recovery.
    `effects` declares modes as for a story; what is not named is exactly-once. `dsn` names a Postgres database in which
    each history has an empty schema.

    Nothing is kept of it: files and schemas are removed. Raises `SweepError` for an order that makes no sense, and
    `DivergenceError` for a token that was recorded on another list of instants.
    """
    require_fork()
    title = name or str(getattr(subject, "__name__", type(subject).__name__))
    digest, replayed = (None, None) if replay is None else parse_token(replay)
    ordered = faults_named(faults) if replayed is None else tuple(dict.fromkeys(s.fault for s in replayed.steps))
    _check(ordered, effects or {}, depth, budget)
    report = SweepReport(title, [fault.value for fault in ordered], store="a store of its own")
    with EffectLedger() as ledger, Processes(subject, ledger.path) as processes:
        sweep = _SubjectSweep(processes, ledger, effects or {}, dsn)
        control = sweep.control()
        if isinstance(control, str):
            report.stopped = control
            return report
        points = [Point(label, when, named) for label, when, named in control.events]  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - as told
        report.boundaries = [str(point) for point in points]
        report.digest = digest_of(sorted(report.boundaries))
        report.rows = list(dict.fromkeys((point.lifetime, point.name) for point in points))
        if replayed is not None:
            check_digest(digest, sorted(report.boundaries), None)
            report.restricted = f"the replay of {replay}"
            plans = [replayed]
        else:
            chosen = [point for point in points if at is None or point.matches(at)]
            if not chosen:
                listed = "\n  ".join(report.boundaries)
                message = f"no instant of {title!r} is called {at!r}. These came up:\n  {listed}"
                raise SweepError(message)
            report.restricted = None if at is None else f"at {at}"
            plans = _fitting(kept, found, report)
            report.replayed = len(plans)
            plans += [FaultPlan((Step(point, fault),)) for fault in ordered for point in chosen]
        if seed is not None:
            random.Random(seed).shuffle(plans)  # noqa: S311 - a choice that can be repeated
        most = len(control.lives) + 4
        plans = list(dict.fromkeys(plans))
        report.ordered = len(plans)
        while plans and (budget is None or report.points < budget):
            plan = plans.pop(0)
            history = sweep.play(plan, most + len(plan.steps))
            worst = min(sweep.judge(history, control), key=lambda seen: seen.verdict.value, default=None)
            _enter(report, plan, history, worst)
            if depth == 2 and len(plan.steps) == 1 and worst is None and replayed is None:  # noqa: PLR2004 - pairs
                more = [FaultPlan((*plan.steps, Step(point, Fault.KILL))) for point in history.recovery]
                plans, report.ordered = [*more, *plans], report.ordered + len(more)
            if progress is not None:
                progress(report)
    return report


def _fitting(kept: Sequence[str], found: Sequence[str], report: SweepReport) -> list[FaultPlan]:
    """The plans of tokens that a test keeps, and of those found last time that still fit."""
    for token in kept:
        check_digest(parse_token(token)[0], sorted(report.boundaries), None)
    tokens = [*kept, *(token for token in found if parse_token(token)[0] == report.digest)]
    return list(dict.fromkeys(parse_token(token)[1] for token in tokens))


def _check(faults: Sequence[Fault], effects: Mapping[str, str], depth: int | None, budget: int | None) -> None:
    for fault in faults:
        if fault not in (Fault.KILL, Fault.ZOMBIE):
            message = (
                f"{fault.value} cannot be played on a subject: its engine is not ours, and its memory would outlive "
                "it; kill and zombie can, with processes of their own"
            )
            raise SweepError(message)
    for name, mode in effects.items():
        if mode not in MODES:
            message = f"effect {name!r} is declared {mode!r}; it is one of {', '.join(MODES)}"
            raise SweepError(message)
    if depth not in (None, 1, 2) or (budget is not None and budget < 1):
        message = f"depth is 1 or 2 and a budget is a number from 1, not {depth!r} and {budget!r}"
        raise SweepError(message)


def _enter(report: SweepReport, plan: FaultPlan, history: _History, worst: Violation | None) -> None:
    """What came of one history, into the report."""
    report.points += 1
    report.pairs += len(plan.steps) > 1
    report.lifetimes += len(history.lives)
    report.deepest = max(report.deepest, len(plan.steps))
    step = plan.steps[0]
    key = cell_key(step.point.lifetime, step.point.name, f"{step.fault.value} {step.point.when}")
    if worst is None:
        report.cells.setdefault(key, "ok")
        return
    report.cells[key] = worst.verdict.code
    for known in report.findings:
        if (known.code, known.what) == (worst.verdict.code, worst.what):
            known.points.append(str(plan))
            return
    report.findings.append(
        Finding(
            worst.verdict.code,
            worst.verdict.name,
            worst.what,
            plan.token(report.digest),
            [str(plan)],
            [str(life) for life in history.lives],
            [],
            worst.verdict.cause,
            worst.verdict.cure,
        )
    )
    report.findings.sort(key=lambda found: found.code)
