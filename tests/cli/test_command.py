"""The command as a whole."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

import fastdur
from fastdur.cli import main
from fastdur.cli._text import age, short, tail


def test_it_tells_its_version_its_verbs_and_its_exit_codes(fastdur_apart):
    assert fastdur_apart("--version").out == f"fastdur {fastdur.__version__}\n"
    said = fastdur_apart("--help")
    assert said.code == 0
    for verb in ("boundaries", "effects", "lint", "runs", "show"):
        assert f"\n  {verb} " in said.out
    assert "Exit codes:" in said.out


@pytest.mark.parametrize(
    "args", [[], ["no-such-verb"], ["runs", "--no-such-option"], ["runs", "--limit", "0"], ["show"]]
)
def test_what_it_does_not_understand_is_a_usage_error(fastdur_here, args):
    assert fastdur_here(*args).code == 2


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_it_says_what_to_install(missing):
    program = f"import sys; sys.modules[{missing!r}] = None; from fastdur.cli import main; main(['runs'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'fastdur[cli]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("missing", ["typer", "rich.console"])
def test_the_missing_package_is_named(fastdur_here, monkeypatch, missing):
    for name in [name for name in sys.modules if name.startswith("fastdur.cli._")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    said = fastdur_here("runs")
    assert (said.code, said.out) == (2, "")
    assert repr(missing) in said.err


def test_it_can_be_asked_for_its_version_in_process(fastdur_here):
    assert fastdur_here("--version") == (0, f"fastdur {fastdur.__version__}\n", "")


def test_it_writes_to_whatever_stands_for_the_terminal(store, monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    with pytest.raises(SystemExit):
        main(["runs", "--store", store.location])
    assert "waiting" in out.getvalue()


def test_importing_fastdur_or_the_command_itself_needs_no_extra():
    program = (
        "import sys, fastdur, fastdur.cli; "
        "assert not {'typer', 'rich', 'click'} & set(sys.modules), 'imported too early'"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("verb", [["runs"], ["show", "r"]])
@pytest.mark.parametrize("options", [["--store", "no/such/runs.db"], []])
def test_a_store_that_is_not_there_is_named_in_full_and_not_made(fastdur_here, tmp_path, verb, options):
    said = fastdur_here(*verb, *options)
    path = tmp_path / (options[1] if options else ".fastdur/fastdur.db")
    assert (said.code, said.out) == (1, "")
    assert f"There is no store at {path}" in said.err
    assert list(tmp_path.iterdir()) == []


def test_the_store_of_the_environment_is_used_where_none_is_named(fastdur_here, store, monkeypatch):
    monkeypatch.setenv("FASTDUR_DB", store.location)
    assert "waiting" in fastdur_here("runs").out


@pytest.mark.case("S87")
def test_a_home_and_a_variable_in_the_path_mean_the_same_from_everywhere(fastdur_here, store, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("STORES", str(tmp_path))
    for path in ("~/runs.db", "$STORES/runs.db", "../runs.db"):
        assert "waiting" in fastdur_here("runs", "--store", path).out
    said = fastdur_here("runs", "--store", "$NO_SUCH_VARIABLE/runs.db")
    assert (said.code, "NO_SUCH_VARIABLE" in said.err) == (2, True)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda path: path.mkdir(), "is no file, not a store"),
        (lambda path: path.touch(), "is an empty file, not a store"),
        (lambda path: path.write_text("something else entirely " * 50), "not a fastdur store"),
    ],
)
def test_what_is_no_store_is_refused_and_left_alone(fastdur_here, tmp_path, made, why):
    made(tmp_path / "runs.db")
    before = [(each.name, each.stat().st_size) for each in tmp_path.iterdir()]
    said = fastdur_here("runs", "--store", "runs.db")
    assert (said.code, said.out) == (1, "")
    assert why in said.err
    assert [(each.name, each.stat().st_size) for each in tmp_path.iterdir()] == before


VERBS = [["runs"], ["show", "r"], ["effects", "list", "r"], ["boundaries", "os:path"], ["lint"]]


@pytest.mark.parametrize("args", VERBS)
def test_a_working_directory_that_is_gone_is_said_in_one_line(fastdur_here, tmp_path, monkeypatch, args):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    said = fastdur_here(*args)
    monkeypatch.chdir(tmp_path)
    assert said == (1, "", "fastdur: The working directory is no longer there; change to another one.\n")


@pytest.mark.parametrize(
    "args", [["runs", "--store"], ["show", "r", "--store"], ["effects", "list", "r", "--store"], ["lint"]]
)
def test_a_path_that_the_system_refuses_is_said_in_one_line(fastdur_here, args):
    said = fastdur_here(*args, "x" * 5000)
    assert (said.code > 0, said.out, len(said.err.splitlines())) == (True, "", 1)
    assert said.err.startswith("fastdur: ")


def test_a_reader_that_leaves_early_is_no_disaster(store):
    program = (
        "import subprocess, sys; "
        f"run = subprocess.Popen([sys.executable, '-c', 'from fastdur.cli import main; main()', 'runs', '--json', "
        f"'--store', {store.location!r}], stdout=subprocess.PIPE, stderr=subprocess.PIPE); "
        "run.stdout.close(); said = run.stderr.read(); run.wait(); assert b'Traceback' not in said, said"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-3, "0 s"), (0.4, "0 s"), (59, "59 s"), (61, "1 min"), (3599, "59 min"), (7200, "2 h"), (9 * 86400, "9 d")],
)
def test_an_age_has_one_unit(seconds, said):
    assert age(seconds) == said


def test_a_text_is_cut_at_the_end_that_says_less():
    assert (short("abcdef", 4), tail("abcdef", 4)) == ("abc…", "…def")
    assert (short("abc", 3), tail("abc", 3)) == ("abc", "abc")
