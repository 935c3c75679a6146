"""Habits that the source keeps, read off the source."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.house import source

# Where everything is caught, and why: (file, function): reason.
CATCHES_ALL: dict[tuple[str, str], str] = {
    ("fastdur/_drivers.py", "run"): "the one hand-over: the engine decides what an error means",
    ("fastdur/_drivers.py", "arun"): "the same hand-over on the event loop",
    ("fastdur/_invoke.py", "Invocation.run"): "an interrupted wait leaves the call to itself and goes on",
    ("fastdur/_invoke.py", "Invocation._call"): "whatever a node raises is judged",
    ("fastdur/_invoke.py", "Invocation._acall"): "whatever a node raises is judged",
    ("fastdur/_invoke.py", "run_body"): "whatever an effect raises is its outcome",
    ("fastdur/_invoke.py", "arun_body"): "whatever an effect raises is its outcome",
    (
        "fastdur/_functions.py",
        "survived",
    ): "what a user's exception or value says of itself, or how it is made, is user code",
    ("fastdur/_owner.py", "Calls._renew"): "a store may be anybody's; the other leases must not run out with its own",
    ("fastdur/_streaming.py", "listener.hear"): "who listens to a model must not change the run",
    ("fastdur/boundaries.py", "tell"): "an observer is foreign code and must not change the run",
    (
        "fastdur/checkpointers/_effect_records.py",
        "_ended",
    ): "whatever the body raises is its outcome",
    ("fastdur/cli/_text.py", "blaming"): "what a module or a chain of the user's raises is told in one line",
    ("fastdur/checkpointers/sqlite.py", "SQLiteCheckpointer._open"): "closes what it opened and goes on",
    ("pytest_fastdur/conformance/_table.py", "_result"): "whatever a foreign store raises is its result",
    ("pytest_fastdur/foreign_lives.py", "Processes._work"): "whatever foreign code raises is what came of its process",
}

# Tests that wait in real time, and why: file: reason.
WAITS: dict[str, str] = {}

MOST_LINES = 400


def names_everything(caught: ast.expr | None) -> bool:
    """Whether an except clause, or a call of suppress(), catches whatever comes."""
    match caught:
        case None:
            return True
        case ast.Tuple(elts=several):
            return any(names_everything(each) for each in several)
    return source.dotted(caught).removeprefix("builtins.") in ("Exception", "BaseException")


def test_nothing_is_caught_blindly():
    found = set()
    for path in source.python_files(*source.PACKAGES):
        for node, function in source.with_function(path):
            match node:
                case ast.ExceptHandler(type=caught) if names_everything(caught):
                    found.add((source.name_of(path), function))
                case ast.Call(func=called, args=[*caught]) if source.dotted(called).endswith("suppress"):
                    if any(names_everything(each) for each in caught):
                        found.add((source.name_of(path), function))
    new = sorted(found - set(CATCHES_ALL))
    assert not new, f"these catch every exception; name the ones that are meant: {new}"
    stale = sorted(set(CATCHES_ALL) - found)
    assert not stale, f"these no longer catch everything, take them out of CATCHES_ALL: {stale}"


def test_no_test_waits_in_real_time():
    found = {
        source.name_of(path): node.lineno
        for path in source.python_files("tests")
        for node in ast.walk(source.tree(path))
        if isinstance(node, ast.Call) and source.dotted(node.func).rpartition(".")[2] == "sleep"
    }
    new = sorted(f"{path}:{line}" for path, line in found.items() if path not in WAITS)
    assert not new, f"these sleep; use a barrier, a clock of their own, or `turn()` of tests/unit/running: {new}"
    stale = sorted(set(WAITS) - set(found))
    assert not stale, f"these no longer sleep, take them out of WAITS: {stale}"


def test_no_test_is_skipped_or_expected_to_fail():
    ways_out = {"skip", "skipif", "skipIf", "skipUnless", "skipTest", "xfail", "importorskip", "expectedFailure"}
    found = [
        f"{source.name_of(path)}:{node.lineno}: {source.dotted(node)}"
        for path in source.python_files("tests")
        for node in ast.walk(source.tree(path))
        if isinstance(node, ast.Attribute)
        and node.attr in ways_out
        and source.dotted(node).partition(".")[0] in ("pytest", "unittest", "self")
    ]
    assert not found, f"a test either holds or fails: {found}"


@pytest.mark.parametrize(
    ("text", "promises"),
    [
        ("TO" + "DO: more", True),
        ("this works for" + " now", True),
        ("it is not" + " implemented", True),
        ("pha" + "se 2", True),
        ("raise NotImplementedError", False),
        ("the phase of the moon", False),
    ],
)
def test_a_promise_of_later_work_is_recognised(text, promises):
    assert bool(LATER.search(text)) == promises


LATER = re.compile(
    r"\b(to[d]o|fix[m]e|x[x]x|hac[k]|for[ ]now|not[ ]implemented|place[h]older|phase[ ]\d+|lega[c]y)\b", re.IGNORECASE
)


def lines_with(pattern: re.Pattern[str], files: list[Path]) -> list[str]:
    return [
        f"{source.name_of(path)}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if pattern.search(line)
    ]


def test_no_word_promises_later_work():
    docs = [path for path in source.all_files() if path.suffix == ".md"]
    found = lines_with(LATER, source.python_files(*source.PACKAGES) + docs)
    assert not found, "do it, or leave it out:\n" + "\n".join(found)


def test_no_file_names_a_machine_or_a_registry():
    places = re.compile(r"/(?:work|root|home/\w+|Users/\w+)/|\b[A-Z]:\\Users|pypi\.org|pythonhosted\.org|npmjs\.org")
    found = lines_with(places, source.all_files())
    assert not found, "this holds on one machine only:\n" + "\n".join(found)


def test_a_module_is_short_enough_to_read():
    long = {
        source.name_of(path): lines
        for path in source.python_files(*source.PACKAGES)
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > MOST_LINES
    }
    assert not long, f"split these, they have more than {MOST_LINES} lines: {long}"


def test_no_module_loads_inspect_when_it_is_imported():
    # Seen in the source, because dataclasses loads it and so a process cannot tell.
    found = [
        f"{source.name_of(path)}:{node.lineno}"
        for path in source.python_files("fastdur")
        for node, function in source.with_function(path)
        if not function
        and (
            (isinstance(node, ast.Import) and any(alias.name == "inspect" for alias in node.names))
            or (isinstance(node, ast.ImportFrom) and node.module == "inspect")
        )
    ]
    assert not found, f"import it where it is used: {found}"


def test_ci_and_the_readme_run_the_same_command():
    command = "./ci/test"
    assert f"exec {command}" in (source.ROOT / ".ci/run").read_text(encoding="utf-8")
    assert command in (source.ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "script", [".ci/run", "ci/test", "ci/demo", "ci/lint", "ci/types", "ci/package", "ci/sweep", "ci/bench"]
)
def test_a_script_can_be_run(script):
    assert (source.ROOT / script).stat().st_mode & 0o111 == 0o111
