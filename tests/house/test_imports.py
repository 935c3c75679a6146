"""Importing costs little: what is heavy is imported where it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pytest_fastdur import plugin

HEAVY = {"anthropic", "asyncio", "decimal", "openai", "psutil", "pydantic", "rich", "typer", "uuid"}
DRIVERS = {"apsw", "psycopg", "sqlite3"}


def loaded_by(statement: str, *, after: str) -> set[str]:
    """The top-level modules that a fresh process loads for a statement, beyond those it loads for `after`."""
    program = f"""
import sys
{after}
before = set(sys.modules)
{statement}
print(*{{name.partition(".")[0] for name in set(sys.modules) - before}})
"""
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_fastdur_loads_nothing_heavy():
    assert loaded_by("import fastdur", after="") & HEAVY == set()


def test_the_plugin_loads_only_pytest_and_the_standard_library():
    loaded = loaded_by("import pytest_fastdur.plugin", after="import pytest")
    assert loaded <= sys.stdlib_module_names | {"pytest_fastdur", "pytest", "_pytest", "pluggy"}
    assert not loaded & DRIVERS


@pytest.mark.parametrize("suite", ["", "def test_one(): pass"], ids=["empty", "one test"])
def test_a_run_of_pytest_that_does_not_use_the_plugin_loads_two_small_modules_for_it(tmp_path, suite):
    (tmp_path / "test_suite.py").write_text(suite)
    program = """
import sys, pytest
pytest.main(["-q", "-p", "no:cacheprovider", "-W", "ignore", *sys.argv[1:]])
print(*sys.modules, file=sys.stderr)
"""
    loaded = []
    for options in (["-p", "no:fastdur"], []):
        command = [sys.executable, "-c", program, *options]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        loaded.append(set(done.stderr.splitlines()[-1].split()))
    assert loaded[1] - loaded[0] == {
        "pytest_fastdur",
        "pytest_fastdur.plugin",
        "pytest_fastdur.hookspecs",
    }


def test_the_plugin_has_no_hook_around_tests_before_something_is_swept():
    assert [name for name in vars(plugin) if name.startswith(("pytest_runtest", "pytest_collect"))] == []


@pytest.mark.parametrize("module", sorted(HEAVY))
def test_the_measurement_sees_each_of_them(module):
    assert module in loaded_by(f"import {module}", after="")
