"""Every dependency has a reason, an owner and a licence written down."""

from __future__ import annotations

import re
import tomllib

import pytest

import fastdur
from tests.house import source

PROJECT = tomllib.loads((source.ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def required() -> set[str]:
    project = PROJECT["project"]
    extras = (line for lines in project["optional-dependencies"].values() for line in lines)
    lines = (*project["dependencies"], *extras, *PROJECT["build-system"]["requires"])
    return {re.split(r"[\[<>=!~; ]", line)[0] for line in lines}


def test_each_has_its_row_and_each_row_its_dependency():
    page = (source.ROOT / "docs/dependencies.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| ([\w-]+) \|", page, re.MULTILINE)) - {"package"}
    assert rows == required()


@pytest.mark.parametrize("package", source.PACKAGES)
def test_both_packages_are_typed(package):
    assert (source.ROOT / package / "py.typed").is_file()


def test_the_version_is_the_same_wherever_it_stands():
    assert fastdur.__version__ == PROJECT["project"]["version"]
