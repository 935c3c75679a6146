"""A visit to the zoo: a user's own tests against each broken engine, to tell which of them nobody would notice.

Each animal has a pytest of its own, so that it is there from the first import to the last teardown.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

LOOSE: Final = "FASTDUR_LOOSE"
"""The variable of the environment that names the animal of a pytest."""

_OPTION: Final = "--fastdur-zoo"


def let_loose(config: pytest.Config, name: str) -> None:
    """Have an animal loose until this pytest ends."""
    from pytest_fastdur.zoo import ANIMALS, loose

    stack = ExitStack()
    stack.enter_context(loose(ANIMALS[name]))
    config.add_cleanup(stack.close)


def visit(wanted: str, arguments: Sequence[str]) -> int:
    """Run these tests against every animal that is wanted (`all`, or names), and print who was noticed.

    Returns the exit status: 0 where each was noticed.
    """
    from pytest_fastdur.zoo import ANIMALS

    names = list(ANIMALS) if wanted == "all" else [name.strip() for name in wanted.split(",")]
    for name in names:
        if name not in ANIMALS:
            message = f"there is no animal {name!r}; there are all, {', '.join(ANIMALS)}"
            raise pytest.UsageError(message)
    rest = [each for place, each in enumerate(arguments) if not _is_ours(place, arguments)]
    if _run(rest, None) != pytest.ExitCode.OK:
        print("fastdur zoo: these tests fail without any broken engine; mend them first")  # noqa: T201 - the report
        return 1
    noticed = 0
    for name in names:
        red = _run(rest, name) != pytest.ExitCode.OK
        noticed += red
        print(f"{name:40} {'noticed' if red else 'not noticed: ' + ANIMALS[name].what}", flush=True)  # noqa: T201
    print(f"fastdur zoo: of {len(names)} broken engines {noticed} were noticed by these tests")  # noqa: T201
    return 0 if noticed == len(names) else 1


def _is_ours(place: int, arguments: Sequence[str]) -> bool:
    before = arguments[place - 1] if place else ""
    return arguments[place].startswith(_OPTION) or before == _OPTION


def _run(arguments: Sequence[str], animal: str | None) -> int:
    environment = {key: text for key, text in os.environ.items() if key != LOOSE}
    if animal is not None:
        environment[LOOSE] = animal
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, env=environment, check=False, capture_output=True)  # noqa: S603 - this very pytest
    return done.returncode
