"""Hooks, crash coverage and progress: each as a test suite meets it."""

from __future__ import annotations

import os
import pty
import sys

import pytest

from fastdur import Agent, Chain, Swarm, TestModel, ToolCall
from pytest_fastdur import hookspecs, plugin
from pytest_fastdur.faults import Fault
from pytest_fastdur.report import progress
from pytest_fastdur.report.coverage import CrashCoverage
from pytest_fastdur.report.data import SweepReport
from pytest_fastdur.report.progress import Bar
from pytest_fastdur.sweep import explore
from tests.house import source
from tests.plugin import stories

RIGHT = """
def test_refund(crash_sweep, right):
    crash_sweep(right, input=stories.INPUT, answers=stories.ANSWERS, at={at!r}, depth=1)
"""


def swept(suite, conftest="", at="after append check", options=()):
    pytester = suite(RIGHT.format(at=at))
    if conftest:
        pytester.makeconftest(conftest)
    return pytester.runpytest_inprocess(*options)


# -- what is promised is written down -----------------------------------------------------------------------------------


def test_every_option_mark_and_hook_has_its_line_in_the_guide():
    guide = (source.ROOT / "docs/testing.md").read_text()
    options = [f"`--fastdur-{name}" for name in plugin._OPTIONS]
    marks = [f"`@pytest.mark.{text.partition('(')[0]}(" for text in (plugin._MARKER, plugin._REPLAY_MARKER)]
    hooks = [f"`{name}(" for name in vars(hookspecs) if name.startswith("pytest_fastdur_")]
    lines = [line for line in guide.splitlines() if line.startswith("| ")]
    missing = [name for name in options + marks + hooks if not any(name in line for line in lines)]
    assert not missing
    faults = [fault.value for fault in Fault if not any(f"`{fault.value}`" in line for line in lines)]
    assert not faults
    assert len(hooks) == 5


# -- hooks -------------------------------------------------------------------------------------------------------------


def test_a_hook_says_what_faults_are_tried_where_nobody_else_does(suite):
    conftest = "def pytest_fastdur_faults(item): return 'raise' if item.name == 'test_refund' else None"
    swept(suite, conftest).stdout.fnmatch_lines(["test_refund: * raise before and after, *"])
    given = swept(suite, conftest, options=["--fastdur-faults=crash"])
    given.stdout.fnmatch_lines(["test_refund: * crash before and after, *"])


def test_a_hook_brings_a_backend_of_its_own(suite):
    conftest = """
from pytest_fastdur.backends import Files
class Mine(Files):
    name = "mine"
def pytest_fastdur_backend(name, request):
    return Mine() if name == "sqlite" else None
"""
    result = swept(suite, conftest, options=["--fastdur-fail-under=1"])
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["  mine      crash        before 0 of 15, after 1 of 15"])


def test_a_hook_adds_an_invariant_which_is_told_with_the_finding(suite):
    conftest = """
told = []
def pytest_fastdur_invariants(state):
    for run in state.runs:
        if len(run.rows) > 3:
            yield f"{len(run.rows)} rows are too many"
def pytest_fastdur_finding(item, report, finding):
    print(f"TOLD {item.name} {report.story} {finding.code}")
"""
    result = swept(suite, conftest)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the story breaks a promise without any fault: FD01 CORRUPT: * rows are too many*"])
    conftest = conftest.replace("len(run.rows) > 3", "run.head.epoch > 2")
    result = swept(suite, conftest)
    result.stdout.fnmatch_lines(["FD01 CORRUPT *", "*rows are too many*", "*TOLD test_refund test_refund FD01*"])


def test_a_hook_says_what_may_differ_from_run_to_run(suite):
    text = """
def test_clock(crash_sweep):
    import time
    crash_sweep(lambda store: stories.chain(store, ("check", lambda state: {"at": time.time_ns()})), depth=1)
"""
    conftest = """
def pytest_fastdur_canonical(frames):
    data = {key: value for key, value in frames["s"].get("data", {}).items() if key != "at"}
    return {**frames, "s": {**frames["s"], "data": data}}
"""
    pytester = suite(text)
    pytester.runpytest_inprocess().assert_outcomes(failed=1)
    pytester.makeconftest(conftest)
    pytester.runpytest_inprocess().assert_outcomes(passed=1)


# -- crash coverage ----------------------------------------------------------------------------------------------------


def test_a_run_that_covers_less_than_is_wanted_fails_and_names_what_is_missing(suite):
    result = swept(suite, at="append *", options=["--fastdur-fail-under=90", "--fastdur-boundaries=lines"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "crash coverage: * % (90 % are wanted)",
            "  sqlite    crash        before * of *, after * of *",
            "  lines of nodes: 5 of 5",
        ]
    )
    whole = swept(suite, at="*", options=["--fastdur-fail-under=100"])
    assert whole.ret == pytest.ExitCode.OK
    whole.stdout.fnmatch_lines(["crash coverage: 100 % (100 % are wanted)"])


def test_crash_coverage_crosses_from_the_workers_of_xdist(suite):
    result = swept(suite, at="append *", options=["--fastdur-fail-under=90", "-n1"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["crash coverage: * % (90 % are wanted)"])


@pytest.mark.parametrize("given", ["101", "most", "-1"])
def test_a_share_that_is_none_is_refused(suite, given):
    result = swept(suite, options=[f"--fastdur-fail-under={given}"])
    result.stderr.fnmatch_lines([f"ERROR: --fastdur-fail-under takes a number from 0 to 100, not '{given}'"])


def branching(ledger, amount):
    def build(store):
        chain = stories.chain(store, ("check", stories.check))
        chain.add_node("high", stories.send).add_node("low", stories.send)
        return chain.connect("check", "high", when=lambda state: state["risk"]).connect("check", "low")

    return stories.Story("branching", build, input={"amount": amount})


def test_a_node_that_no_story_enters_is_named_and_two_stories_cover_it_together(ledger):
    high, low = (explore(branching(ledger, amount), depth=1) for amount in (1000, 1))
    alone, together = CrashCoverage.of([high]), CrashCoverage.of([high, low])
    assert alone.never == ["refund/low"]
    assert "  never reached: node refund/low" in list(alone.text(None))
    assert alone.percent < 100
    assert (together.never, together.percent) == ([], 100)
    assert CrashCoverage.of([SweepReport.of(high.plain())]) == alone


def team(tools):
    """A swarm: one agent calls tools of its own twice in a turn and hands over, the other has none."""
    calls = [ToolCall(str(number), name, {}) for number, name in enumerate(tools)]
    first = Agent("front", TestModel([[*calls, ToolCall("9", "handoff_to_back", {"reason": "x"})]]), [look, leave])
    second = Agent("back", TestModel("done"))
    desk = Swarm("desk", [first, second], handoffs={"front": ["back"]})
    return stories.Story("team", lambda store: Chain("team", store).add_node("desk", desk), input={"input": "hi"})


def look() -> str:
    """Look."""
    return "seen"


def leave() -> str:
    """Leave."""
    return "left"


def test_a_tool_is_reached_in_whatever_turn_it_is_called_and_a_handoff_is_no_place_to_reach(ledger):
    both, one = (explore(team(tools), depth=1) for tools in (["look", "look", "leave"], ["look", "look"]))
    assert CrashCoverage.of([both]).never == []
    assert CrashCoverage.of([both]).known == {
        "team/desk/front/tool:look",
        "team/desk/front/tool:leave",
        "team/desk/back",
    }
    assert CrashCoverage.of([one]).never == ["team/desk/front/tool:leave"]


def test_lines_that_only_a_killed_child_has_executed_are_covered(ledger):
    def check(state):
        if not state.get("seen"):
            return {"seen": True}
        return {}

    report = explore(
        stories.refund(ledger, store=None, nodes={"check": check}),
        "kill",
        boundaries="lines",
        at="line check*",
        depth=1,
    )
    assert report.ok, report.render()
    covered = CrashCoverage.of([report])
    assert covered.missed_lines == ["check+3"]
    assert "line check+3" in list(covered.text(None))[-1]


def test_a_point_at_which_nothing_has_struck_is_not_covered():
    report = SweepReport("s", ["crash"], possible={"crash before": 2}, cells={"start/a=crash before": "FD16"})
    assert CrashCoverage.of([report]).percent == 0
    assert CrashCoverage.of([]).percent == 100


# -- progress ----------------------------------------------------------------------------------------------------------


def test_the_line_of_a_long_sweep_is_written_over_and_over_and_gone_at_the_end():
    written, now = [], [0.0]
    bar = Bar(written.append, lambda: now[0])
    report = SweepReport("refund", ["crash"], points=0, ordered=40)
    for second in (0.5, 1.0, 1.1, 1.3):
        now[0] = second
        report.points += 10
        bar(report)
    bar.close()
    assert written == [
        "\r\x1b[Krefund [############............] 20 of 40 points, 0 lifetimes",
        "\r\x1b[Krefund [########################] 40 of 40 points, 0 lifetimes",
        "\r\x1b[K",
    ]


def test_a_short_sweep_writes_nothing():
    written = []
    bar = Bar(written.append, lambda: 0.0)
    bar(SweepReport("refund", ["crash"]))
    bar.close()
    assert written == []


@pytest.mark.parametrize(("ci", "shown"), [("", True), ("true", False)])
def test_the_bar_is_there_on_a_terminal_and_in_ci_there_are_lines_only(suite, ci, shown, monkeypatch):
    monkeypatch.setenv("CI", ci)
    pytester = suite(RIGHT.format(at="append *"))
    pytester.makeconftest("from pytest_fastdur.report import progress\nprogress._FIRST = progress._EVERY = 0.0")
    seen = on_a_terminal([sys.executable, "-m", "pytest"], pytester.path)
    assert "1 passed" in seen
    assert ("test_refund [" in seen) is shown


def on_a_terminal(command, folder):
    """What a program writes that has a terminal."""
    pid, end = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execv(command[0], command)
    parts = []
    try:
        while part := os.read(end, 4096):
            parts.append(part)
    except OSError:  # its terminal is gone: it has ended
        pass
    os.waitpid(pid, 0)
    os.close(end)
    return b"".join(parts).decode()


def test_without_a_terminal_there_are_lines_only(suite, monkeypatch):
    for waited in ("_FIRST", "_EVERY"):
        monkeypatch.setattr(progress, waited, 0.0)
    result = suite(RIGHT.format(at="append *")).runpytest_inprocess()
    assert "test_refund [" not in result.stdout.str()
