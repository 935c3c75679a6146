"""Which files are read, and what is said of those that cannot be."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest

from fastdur.lint._check import lint
from fastdur.lint._config import Config
from fastdur.lint._files import python_files, shown
from fastdur.lint._findings import UsageError
from tests.unit.lint.linting import write

WRONG = "import time\nfrom fastdur import Chain\nChain('c').add_node('n', lambda state: {'at': time.time()})\n"


def test_folders_are_searched_and_what_is_nobodys_source_is_left_out(tmp_path):
    names = [
        "a.py",
        "deep/b.py",
        ".hidden/c.py",
        "__pycache__/d.py",
        "node_modules/e.py",
        "env/f.py",
        "out/g.py",
        "h.txt",
    ]
    write(tmp_path, dict.fromkeys([*names, "env/pyvenv.cfg", "deep/made_pb2.py"], ""))
    found = python_files([tmp_path, tmp_path / "a.py", tmp_path / "h.txt"], ["*/out", "*_pb2.py"])
    assert [path.relative_to(tmp_path).as_posix() for path in found] == ["a.py", "deep/b.py", "h.txt"]
    assert python_files([tmp_path / ".hidden/c.py"]) == [tmp_path / ".hidden/c.py"]


def test_a_path_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"There is nothing at '.*nowhere' to lint"):
        lint([tmp_path / "nowhere"], Config())


def test_each_file_that_cannot_be_read_is_one_problem_and_the_others_are_linted(tmp_path):
    write(
        tmp_path,
        {
            "flow.py": WRONG,
            "bad.py": "x = 1\ndef (:\n",
            "deep.py": "(" * 5000 + ")" * 5000,
            "deeper.py": "-" * 200_000 + "1",
        },
    )
    (tmp_path / "null.py").write_bytes(b"x = '\x00'")
    (tmp_path / "latin.py").write_bytes("x = 'é'".encode("latin-1"))
    (tmp_path / "named.py").write_bytes("# coding: latin-1\nx = 'é'\n".encode("latin-1"))
    (tmp_path / "gone.py").symlink_to(tmp_path / "nothing")
    report = lint([tmp_path], Config())
    assert report.exit_code == 2
    assert [Path(each.path).name for each in report.problems] == [
        "bad.py",
        "deep.py",
        "deeper.py",
        "gone.py",
        "latin.py",
        "null.py",
    ]
    assert report.problems[0].line == 2
    assert "is no Python 3." in report.problems[0].message
    assert report.problems[3].message == "cannot be read: No such file or directory"
    assert [each.code for each in report.findings] == ["FDL03"]


def test_a_tree_too_deep_to_be_looked_at_is_a_problem(tmp_path):
    write(tmp_path, {"flow.py": "import fastdur\nx = " + "+".join(["a"] * 3000) + "\n"})
    report = lint([tmp_path], Config())
    assert [each.message for each in report.problems] == ["its expressions are nested too deeply to be looked at"]
    assert report.findings == ()


def test_a_file_that_is_only_imported_and_cannot_be_built_is_a_problem_once(tmp_path):
    write(
        tmp_path,
        {
            "flow.py": "import deep\nfrom deep import x\nfrom fastdur import Chain\ndeep.y()\nx()\n",
            "deep.py": "x = " + "+".join(["a"] * 3000) + "\n",
        },
    )
    assert len(lint([tmp_path], Config()).problems) == 1


def test_a_file_that_is_no_python_and_is_imported_is_one_problem(tmp_path):
    write(tmp_path, {"flow.py": "import bad\nfrom fastdur import Chain\nbad.x()\n", "bad.py": "def (\n"})
    assert len(lint([tmp_path], Config()).problems) == 1


def test_a_file_that_changes_while_it_is_linted_is_said_to(tmp_path, monkeypatch):
    write(tmp_path, {"flow.py": "import helper\nfrom fastdur import Chain\nhelper.x()\n", "helper.py": "x = 1\n"})
    read = Path.read_bytes
    seen = []

    def once(path):
        seen.append(path.name)
        if seen.count("helper.py") > 1:
            raise FileNotFoundError(2, os.strerror(2))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", once)
    (problem,) = lint([tmp_path], Config()).problems
    assert problem.message == "cannot be read: No such file or directory"


def test_what_python_thinks_of_the_style_is_not_said(tmp_path):
    write(tmp_path, {"flow.py": WRONG + "x = '\\d'\ny = 1 is 1\n"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lint([tmp_path], Config()).problems == ()


def test_a_path_is_shown_from_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert shown(Path("deep/a.py")) == "deep/a.py"
    assert shown(tmp_path / "deep/a.py") == "deep/a.py"
    assert shown(tmp_path.parent / "a.py") == (tmp_path.parent / "a.py").as_posix()


def test_a_project_without_fastdur_has_no_findings(tmp_path):
    write(
        tmp_path,
        {"flow.py": "import time, requests\ndef node(state):\n    requests.post('u')\n    return time.time()\n"},
    )
    report = lint([tmp_path], Config())
    assert (report.findings, report.problems, report.files, report.exit_code) == ((), (), 1, 0)


def test_a_pipe_is_said_to_be_none_and_is_not_waited_for(tmp_path):
    write(tmp_path, {"flow.py": WRONG})
    os.mkfifo(tmp_path / "pipe.py")
    for given in (tmp_path, tmp_path / "pipe.py"):
        report = lint([given], Config())
        assert [(Path(each.path).name, each.message) for each in report.problems] == [
            ("pipe.py", "is no file but a pipe, a socket or a device")
        ]
        assert len(report.findings) == (given == tmp_path)
