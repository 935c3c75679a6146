"""What `fastdur` offers is written down, name by name, and every name says what it is."""

from __future__ import annotations

import difflib
import inspect
from pathlib import Path
from types import ModuleType

import fastdur

GOLDEN = Path(__file__).parent / "public_names.txt"


def public_names() -> list[str]:
    listed = getattr(fastdur, "__all__", None)
    if listed is not None:
        return sorted(listed)
    return sorted(
        name
        for name, value in vars(fastdur).items()
        if not name.startswith("_") and not isinstance(value, ModuleType) and name != "annotations"
    )


def test_the_public_names_are_the_ones_written_down():
    written = GOLDEN.read_text(encoding="utf-8").splitlines()
    change = list(difflib.unified_diff(written, public_names(), GOLDEN.name, "fastdur/__init__.py", lineterm="", n=0))
    assert not change, "if this is meant, change the file too:\n" + "\n".join(change)


def test_every_public_name_says_what_it_is():
    silent = []
    for name in public_names():
        value = getattr(fastdur, name)
        if not inspect.isclass(value) and not callable(value):
            continue  # a constant has no docstring of its own
        said = value.__doc__ or ""
        if not said or said.startswith(f"{name}("):  # a dataclass without a docstring is given its signature
            silent.append(name)
    assert not silent, f"without a docstring: {silent}"
