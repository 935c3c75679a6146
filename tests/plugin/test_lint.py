"""`pytest --fastdur-lint`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.house.test_imports import loaded_by

FLOW = """
import time
from fastdur import Chain

chain = Chain("c").add_node("n", lambda state: {"at": time.time()})
"""
TEST = """
def test_passes():
    pass
"""


@pytest.fixture
def project(pytester):
    pytester.makepyfile(test_a=TEST, flow=FLOW)
    return pytester


def run(pytester, *options):
    scope = "asyncio_default_fixture_loop_scope=function"  # what pytest-asyncio wants to be told
    return pytester.runpytest_inprocess("-p", "no:randomly", "-o", scope, *options)


def test_findings_fail_the_run_and_stand_in_a_section_of_their_own(project):
    result = run(project, "--fastdur-lint")
    result.assert_outcomes(passed=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "*= fastdur lint =*",
            "flow.py:4:55: FDL03 node 'n' reads the clock (time.time), which is different when it runs again.",
            "    way out: *",
            "1 finding in 2 files. Each rule in full: fastdur lint --explain FDL03",
            "*= 1 passed in *",
        ]
    )


def test_the_ini_file_can_ask_for_it(project):
    project.makeini("[pytest]\nfastdur_lint = true\n")
    assert run(project).ret == 1


def test_without_being_asked_for_it_does_nothing(project):
    result = run(project)
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*fastdur lint*")


def test_only_what_pytest_is_given_is_linted_and_what_the_project_names(project):
    assert run(project, "--fastdur-lint", "test_a.py::test_passes").ret == 0
    project.makepyprojecttoml("[tool.fastdur.lint]\npaths = ['flow.py']\n")
    assert run(project, "--fastdur-lint", "test_a.py").ret == 1


def test_a_run_without_tests_is_linted_and_one_without_findings_says_so(pytester):
    pytester.makepyfile(flow=FLOW)
    assert run(pytester, "--fastdur-lint").ret == 1
    pytester.makepyfile(flow="")
    result = run(pytester, "--fastdur-lint")
    assert result.ret == 5
    result.stdout.fnmatch_lines(["Nothing found in 1 file."])


def test_a_file_that_is_no_python_fails_the_run(project):
    project.makepyfile(bad="def (:")
    result = run(project, "--fastdur-lint")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["bad.py:1: is no Python *"])


def test_a_configuration_that_is_none_is_a_usage_error(project):
    project.makepyprojecttoml("[tool.fastdur.lint]\nselekt = []\n")
    result = run(project, "--fastdur-lint")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: * has 'selekt', which is not known.*"])


def test_a_run_that_was_ended_is_not_linted(project):
    project.makepyfile(test_a="import pytest\ndef test_ends():\n    pytest.exit('enough')\n")
    result = run(project, "--fastdur-lint")
    assert result.ret == 2
    result.stdout.no_fnmatch_line("*fastdur lint*")


def test_workers_leave_it_to_the_process_that_started_them(project):
    result = run(project, "--fastdur-lint", "-n2")
    assert result.ret == 1
    assert result.stdout.str().count("FDL03 node 'n'") == 1


def test_the_plugin_loads_nothing_of_it_when_it_is_off():
    assert "fastdur" not in loaded_by("import pytest_fastdur.plugin", after="import pytest")


def test_it_needs_no_extra_of_the_command(project):
    program = (
        "import sys; sys.modules['typer'] = sys.modules['rich'] = None; import pytest; "
        "sys.exit(pytest.main(['--fastdur-lint', '-p', 'no:randomly']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, text=True, cwd=project.path
    )
    assert done.returncode == 1, done.stdout + done.stderr
