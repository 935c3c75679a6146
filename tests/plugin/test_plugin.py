"""The plugin as a test suite sees it: options, fixtures, marks, reports, other plugins beside it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from xml.etree import ElementTree as ET

import pytest

from fastdur import boundaries

RIGHT = """
def test_refund(crash_sweep, right):
    crash_sweep(right, input=stories.INPUT, answers=stories.ANSWERS, effects={"charge": "exactly-once"})
"""
WRONG = """
def test_refund(crash_sweep, wrong):
    crash_sweep(wrong, input=stories.INPUT)
"""
PLAIN = """
def test_plain():
    from fastdur import boundaries
    assert boundaries._observers == []
"""


def token_of(result):
    return re.search(r"--fastdur-replay='(fd1-[^']+)'", result.stdout.str())[1]


def test_a_right_story_passes_and_the_matrix_is_at_the_end(suite):
    result = suite(RIGHT).runpytest_inprocess()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "fastdur: faults crash",
            "*= fastdur =*",
            "test_refund: * boundaries, crash before and after: * points, * lifetimes, all ok",
            "*before after",
            "  start",
            "    append check *ok     ok",
            "  resume#1",
            "    effect charge@pay *ok     ok",
        ]
    )


def test_a_wrong_story_fails_with_the_line_that_replays_it(suite):
    result = suite(WRONG).runpytest_inprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "FD07 EFFECT_REPEATED  test_refund, crash start/after node pay, and 1 more point",
            "  | start *CRASHED",
            "  | resume#1 *completed",
            "  replay:  pytest \"test_refund.py::test_refund\" --fastdur-replay='fd1-*:start/node pay=crash after'",
            "*= fastdur =*",
            "    node pay *ok     FD07",
            "    append pay *FD07   ok",
            '    pytest "test_refund.py::test_refund" --fastdur-replay=*',
        ]
    )


def test_the_line_that_is_printed_plays_the_failure_again(suite):
    pytester = suite(WRONG)
    token = token_of(pytester.runpytest_inprocess())
    again = pytester.runpytest_inprocess("test_refund.py::test_refund", f"--fastdur-replay={token}")
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines(["FD07 EFFECT_REPEATED  test_refund, crash start/after node pay"])
    assert token_of(again) == token


def test_a_token_passes_once_the_story_is_mended(suite):
    pytester = suite(RIGHT)
    pytester.runpytest_inprocess("--fastdur-replay=fd1:start/append check=crash after").assert_outcomes(passed=1)


def test_a_token_that_no_longer_fits_names_the_first_boundary_that_differs(suite):
    pytester = suite(WRONG)
    token = token_of(pytester.runpytest_inprocess())
    changed = WRONG.replace("wrong, input", "lambda store: wrong(store).add_node('end', stories.send)")
    changed = changed.replace("stories.send)", "stories.send).connect('pay', 'end'), input")
    suite(changed)
    again = pytester.runpytest_inprocess(f"--fastdur-replay={token}")
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines(
        ["DivergenceError: *'start/before append run_end' then and 'start/before node end' now*"]
    )


def test_a_clock_stops_the_sweep_by_name(suite):
    text = """
def test_clock(crash_sweep):
    import time
    crash_sweep(lambda store: stories.chain(store, ("check", lambda state: {"at": time.time_ns()})))
"""
    result = suite(text).runpytest_inprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*not deterministic: after check, state?'at'? is *"])


@pytest.mark.parametrize(
    ("option", "value", "line"),
    [
        ("faults", "crash,raise", "*crash+raise before and after: *"),
        ("at", "after append *", "*before and after, only at after append ?: *"),
        ("budget", "3", "*3 of * points*CUT OFF*"),
        ("seed", "4", "*all ok"),
    ],
)
@pytest.mark.parametrize("where", ["line", "ini"])
def test_every_option_is_an_ini_key_too(suite, option, value, line, where):
    pytester = suite(RIGHT)
    given = [f"--fastdur-{option}={value}"]
    if where == "ini":
        with (pytester.path / "tox.ini").open("a") as ini:
            ini.write(f"\nfastdur_{option} = {value}\n")
        given = []
    result = pytester.runpytest_inprocess(*given)
    result.stdout.fnmatch_lines(["fastdur: *", line])
    result.assert_outcomes(**({"failed": 1} if option == "budget" else {"passed": 1}))


def test_the_replay_token_is_an_ini_key_too(suite):
    pytester = suite(RIGHT)
    with (pytester.path / "tox.ini").open("a") as ini:
        ini.write("\nfastdur_replay = fd1:start/append check=crash after\n")
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*only the replay of fd1:start*"])


def test_the_command_line_counts_before_the_call_and_the_call_before_the_mark(suite):
    text = """
@pytest.mark.fastdur(faults="raise", at="after append check")
def test_marked(crash_sweep, right):
    report = crash_sweep(right, input=stories.INPUT, answers=stories.ANSWERS)
    assert report.faults == ["raise"] and report.points == 1
    report = crash_sweep(right, input=stories.INPUT, answers=stories.ANSWERS, at="* append check", recovery=True)
    assert report.points > 2 and report.pairs
"""
    suite(text).runpytest_inprocess("--strict-markers").assert_outcomes(passed=1)
    result = suite(text).runpytest_inprocess("--fastdur-faults=crash")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*assert (*'crash'*"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("--fastdur-faults=crsh", "there is no fault 'crsh'; there are crash, raise, kill"),
        ("--fastdur-replay=nonsense", "'nonsense' is no replay token"),
        ("--fastdur-budget=many", "--fastdur-budget takes a whole number, not 'many'"),
    ],
)
def test_a_misspelt_option_is_refused_before_a_test_runs(suite, given, said):
    result = suite(RIGHT).runpytest_inprocess(given)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{said}*"])


@pytest.mark.case("S81")
def test_a_pattern_that_fits_nothing_fails_and_lists_what_fired(suite):
    result = suite(RIGHT).runpytest_inprocess("--fastdur-at=nowhere")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["SweepError: no boundary of story*'nowhere'. These fired:", "  start/before start"])


def test_findings_are_properties_in_junit(suite):
    pytester = suite(WRONG)
    pytester.runpytest_inprocess("--junitxml=report.xml")
    found = {
        each.get("name"): each.get("value")
        for each in ET.parse(pytester.path / "report.xml").getroot().iter("property")
    }
    assert found["fastdur.verdict"] == "FD07 EFFECT_REPEATED"
    assert found["fastdur.replay"].startswith("fd1-")
    assert (found["fastdur.points"], found["fastdur.complete"]) == ("12", "True")


def test_quiet_means_one_line_for_each_story(suite):
    result = suite(RIGHT).runpytest_inprocess("-q")
    result.stdout.fnmatch_lines(["test_refund: * all ok"])
    result.stdout.no_fnmatch_line("*append check*")


@pytest.mark.case("S75")
def test_workers_with_other_hash_seeds_see_the_same_points_in_the_same_order(suite, monkeypatch):
    pytester = suite(RIGHT + WRONG.replace("test_refund", "test_wrong") + RIGHT.replace("test_refund", "test_more"))
    printed = []
    options = ["--fastdur-faults=crash,raise", "-p", "no:cacheprovider"]
    runs = [(pytester.runpytest_inprocess, "of this process", ["-p", "no:xdist"])]
    runs += [(pytester.runpytest_subprocess, seed, ["-n", "2"]) for seed in ("1", "2")]
    for run, seed, workers in runs:
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        result = run(*workers, *options)
        result.assert_outcomes(passed=2, failed=1)
        text = result.stdout.str()
        section = text[text.index("= fastdur =") :].splitlines()
        printed.append(sorted(line for line in section if line.startswith((" ", "test_"))))
    assert printed[0] == printed[1] == printed[2]
    assert any("FD07" in line for line in printed[0])


@pytest.mark.case("S76")
@pytest.mark.parametrize("workers", [["-n", "2"], ["-p", "no:xdist"]])
@pytest.mark.parametrize(("text", "code"), [(RIGHT, 0), (WRONG, 1)])
def test_only_children_of_the_plugin_are_killed_and_the_exit_code_is_the_parents(suite, workers, text, code):
    bystander = """
@pytest.fixture(autouse=True)
def bystander():
    import subprocess, sys
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        yield
        assert other.poll() is None
"""
    result = suite(bystander + text).runpytest_subprocess(*workers, "--fastdur-faults=kill", "-W", "error")
    assert result.ret == code
    result.assert_outcomes(passed=1 - code, failed=code)


@pytest.mark.case("S78")
@pytest.mark.parametrize(
    "broken",
    [
        WRONG,
        WRONG.replace("crash_sweep(wrong", "crash_sweep(lambda store: 1 / 0"),
        """
def test_interrupted(crash_sweep):
    def stopped(state):
        pytest.fail("out of time")  # what a timeout raises
    crash_sweep(lambda store: stories.chain(store, ("check", stopped)))
""",
        """
@pytest.fixture
def broken(crash, right, sqlite_checkpointer):
    with crash.at("after append check"):
        right(sqlite_checkpointer).execute(stories.INPUT)
    raise RuntimeError
def test_set_up(broken):
    pass
""",
        """
def test_not_fired(crash, right, sqlite_checkpointer):
    with crash.at("after append nowhere"):
        right(sqlite_checkpointer).execute(stories.INPUT)
""",
    ],
)
def test_a_plain_test_after_one_that_was_faulted_sees_no_fault(suite, broken):
    result = suite(broken + PLAIN).runpytest_inprocess()
    outcomes = result.parseoutcomes()
    assert outcomes.pop("passed") == 1
    assert sum(outcomes.values()) == 1
    assert boundaries._observers == []


@pytest.mark.case("S79")
@pytest.mark.case("S77")
def test_a_suite_that_does_not_use_the_plugin_does_not_load_the_engine(pytester):
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makepyfile(
        """
        import sys
        def test_one():
            loaded = {name.partition(".")[0] for name in sys.modules}
            assert not loaded & {"fastdur", "sqlite3", "psycopg"}
        def test_two():
            assert not hasattr(sys, "fastdur")
        """
    )
    with_it, without = (pytester.runpytest_subprocess(*given) for given in ((), ("-p", "no:fastdur")))
    for result in (with_it, without):
        result.assert_outcomes(passed=2)
    with_it.stdout.no_fnmatch_line("*= fastdur =*")


def test_the_entry_point_is_found_and_loads_little():
    program = """
import json, sys
import pytest
before = set(sys.modules)
import pytest_fastdur.plugin
print(json.dumps(sorted(set(sys.modules) - before)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == ["pytest_fastdur", "pytest_fastdur.plugin"]


@pytest.mark.case("S74")
def test_each_example_of_a_hypothesis_test_gets_an_empty_store(suite):
    text = """
from hypothesis import given, settings, strategies as st
from fastdur import Chain

@settings(max_examples=10, database=None)
@given(st.integers())
def test_examples(sqlite_checkpointer_factory, number):
    store = sqlite_checkpointer_factory()
    assert store.list_executions() == []
    Chain("c", store).add_node("a", lambda state: {"n": number}).execute({}, execution_id="r")
    assert len(store.list_executions()) == 1
"""
    suite(text).runpytest_inprocess("-W", "error").assert_outcomes(passed=1)


def test_the_store_of_a_test_is_closed_at_its_end(suite):
    text = """
kept = []
def test_use(sqlite_checkpointer):
    kept.append(sqlite_checkpointer)
    assert sqlite_checkpointer.list_executions() == []
def test_closed():
    from fastdur import StoreClosed
    with pytest.raises(StoreClosed):
        kept[0].list_executions()
"""
    suite(text).runpytest_inprocess("-W", "error").assert_outcomes(passed=2)


@pytest.mark.parametrize("measured", ["coverage run", "pytest-cov"])
def test_what_children_have_covered_is_kept_whether_they_are_killed_or_carry_a_run_on(pytester, measured):
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    (pytester.path / ".coveragerc").write_text("[run]\nparallel = True\ninclude = flow.py\n")
    pytester.makepyfile(
        flow="""
        from fastdur import Chain
        def dies(state):
            return {"x": 1}  # only in a child that is killed
        def lives(state):
            return {"y": 1}  # only in children that carry a run on to its end
        def build(store, fn):
            return Chain("c", store).add_node("a", fn)
        """,
        test_flow="""
        import flow
        def test_flow(crash, crash_sweep):
            crash(lambda store: flow.build(store, flow.dies), at="after node a", fault="kill")
            crash_sweep(lambda store: flow.build(store, flow.lives), faults="kill", at="before node a")
        """,
    )
    if measured == "pytest-cov":
        found = pytester.run(sys.executable, "-m", "pytest", "--cov", "--cov-report=term-missing")
    else:
        pytester.run(sys.executable, "-m", "coverage", "run", "-m", "pytest", "-p", "no:cov").assert_outcomes(passed=1)
        pytester.run(sys.executable, "-m", "coverage", "combine", "-q")
        found = pytester.run(sys.executable, "-m", "coverage", "report", "-m")
    found.stdout.re_match_lines([r"flow\.py .* 100%"])
