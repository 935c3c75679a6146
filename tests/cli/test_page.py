"""The page about the command shows what the command says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.conftest import normal

PAGE = (Path(__file__).parents[2] / "docs/cli.md").read_text(encoding="utf-8")
SHOWN = [normal(text) for text in re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)]


@pytest.mark.parametrize(("number", "verb"), [(0, ["runs"]), (1, ["show", "waiting"])])
def test_what_the_page_shows_is_what_is_printed(fastdur_here, store, number, verb):
    assert SHOWN[number] == normal(fastdur_here(*verb, "--store", store.location).out)


def test_the_page_names_every_option(fastdur_here):
    for verb in ("runs", "show", "effects list", "effects resolve", "boundaries", "lint", "schema"):
        said = fastdur_here(*verb.split(), "--help").out
        options = set(re.findall(r"^ +(--[a-z-]+)", said, re.MULTILINE)) - {"--help"}
        (usage,) = re.findall(rf"^fastdur {verb} .*$", PAGE, re.MULTILINE)
        assert options == set(re.findall(r"--[a-z-]+", usage))
