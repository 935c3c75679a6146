"""`[tool.fastdur.lint]`."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastdur.lint._check import lint
from fastdur.lint._config import Config, codes, load
from fastdur.lint._findings import UsageError
from fastdur.lint._rules import RULES
from tests.unit.lint.linting import write

FLOW = "import time\nfrom fastdur import Chain\nSEEN = []\nChain('c').add_node('n', lambda state: SEEN.append(time.time()))\n"


def written(folder: Path, text: str) -> Path:
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return folder / "pyproject.toml"


def test_the_nearest_pyproject_is_read(tmp_path, monkeypatch):
    written(
        tmp_path,
        """
        [tool.fastdur.lint]
        select = ["FDL0", "not-awaited"]
        ignore = ["FDL12"]
        effects = ["mylib.send"]
        node-decorators = ["flows.step"]
        exclude = ["build"]
        paths = ["src"]
        per-file-ignores = { "tests/*" = ["FDL03"] }
        """,
    )
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    config = load()
    assert config.select == {f"FDL0{number}" for number in range(1, 10)} | {"FDL11"}
    assert (config.effects, config.node_decorators) == (("mylib.send",), ("flows.step",))
    assert (config.exclude, config.paths, config.root) == (("build",), ("src",), tmp_path)
    assert config.per_file_ignores == {"tests/*": frozenset({"FDL03"})}


def test_without_a_file_or_a_table_everything_is_looked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load().select == load(written(tmp_path, "[tool.other]\n")).select == set(RULES)


def test_there_may_be_no_pyproject_at_all(monkeypatch):
    monkeypatch.setattr(Path, "is_file", lambda path: False)
    assert load() == Config()


def test_the_command_line_comes_before_the_file():
    config = Config(select=frozenset({"FDL01"}))
    assert config.choose(None, []).select == {"FDL01"}
    assert config.choose(["FDL03", "FDL9"], ["fdl91"]).select == {"FDL03", "FDL90"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.fastdur.lint]\nselekt = []\n", "has 'selekt', which is not known. It knows: select, ignore"),
        ("[tool.fastdur.lint]\nselect = 'FDL01'\n", "it takes a list of texts"),
        ("[tool.fastdur.lint]\neffects = [1]\n", "it takes a list of texts"),
        ("[tool.fastdur.lint]\nignore = ['FDL77']\n", "names 'FDL77', which is no rule. There are: FDL01"),
        ("[tool.fastdur.lint]\nignore = ['']\n", "it takes a list of texts"),
        ("[tool.fastdur.lint]\nignore = ['F']\n", "names 'F', which is no rule"),
        ("[tool.fastdur.lint]\nper-file-ignores = ['x']\n", "it has to be a table"),
        ("[tool.fastdur.lint]\nper-file-ignores = {x = ['nonsense']}\n", "names 'nonsense', which is no rule"),
        ("[tool.fastdur.lint]\nper-file-ignores = {x = 'FDL01'}\n", "it takes a list of texts"),
        ("[tool]\nfastdur = 5\n", "'fastdur' in .* is 5; it has to be a table"),
        ("[tool\n", "is no TOML"),
    ],
)
def test_a_configuration_that_is_none_is_refused(tmp_path, text, said):
    with pytest.raises(UsageError, match=said):
        load(written(tmp_path, text))


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        load(tmp_path / "nothing.toml")
    (tmp_path / "latin.toml").write_bytes(b"x = '\xe9'")
    with pytest.raises(UsageError, match="is not in UTF-8"):
        load(tmp_path / "latin.toml")


def test_a_code_is_named_by_itself_its_beginning_or_its_name():
    assert codes(["fdl01"], "x") == codes(["effect-before-question"], "x") == {"FDL01"}
    assert codes(["FDL"], "x") == set(RULES)


def test_what_is_ignored_is_not_reported_and_what_is_excluded_not_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"flow.py": FLOW, "tests/flow.py": FLOW, "out/bad.py": "def (\n"})
    ignores = {"tests/*": frozenset({"FDL12"}), "nothing": frozenset({"FDL03"})}
    report = lint(["."], Config(exclude=("out",), per_file_ignores=ignores))
    assert [(each.place.path, each.code) for each in report.findings] == [
        ("flow.py", "FDL12"),
        ("flow.py", "FDL03"),
        ("tests/flow.py", "FDL03"),
    ]
    assert [each.code for each in lint(["flow.py"], Config(select=frozenset({"FDL03"}))).findings] == ["FDL03"]
