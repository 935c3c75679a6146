"""Crash one variant of an example at every boundary, and show what came of it.

    python -m scenarios.sweep mail                            # the story as it should be
    python -m scenarios.sweep mail.broken_random_id           # one of its twins; --help lists them all
    python -m scenarios.sweep mail.broken_random_id --replay='fd1-…'

Exit 0 if nothing was found.

    python -m scenarios.sweep --into docs/side-effects.md     # writes what is said into the page that shows it
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_fastdur.sweep import explore
from scenarios.stories import EXAMPLES, Counterparts, StoreFiles, in_the_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_fastdur.sweep import SweepReport

IN_THE_STORE = "booking.transactional"


def names() -> Iterator[str]:
    """Everything that can be swept."""
    for name, example in EXAMPLES.items():
        for variant in (*example.right, "stopping", *example.broken, *example.blind):
            yield name if variant == "build" else f"{name}.{variant}"
    yield IN_THE_STORE


def swept(name: str, faults: str = "crash", replay: str | None = None) -> SweepReport:
    """The report on one variant, on a store in a SQLite file."""
    if name == IN_THE_STORE:
        files = StoreFiles()
        return explore(in_the_store(files), faults, replay=replay, backend=files, depth=1)
    module, _, variant = name.partition(".")
    example = EXAMPLES[module]
    with Counterparts() as running, example.world(running(example.counterpart)) as world:
        return explore(example.story(world, variant or "build"), faults, replay=replay, depth=1)


def told(report: SweepReport, name: str) -> str:
    """The report as text, with lines that replay it from here."""
    text = report.render(width=90)
    for finding in report.findings:
        text = text.replace(report.replay(finding), f"python -m scenarios.sweep {name} --replay='{finding.token}'")
    return text


def shown(page: str) -> str:
    """A page with what is said now in each block `text python -m scenarios.sweep NAME`."""
    block = re.compile(r"^(```text python -m scenarios\.sweep (\S+)\n).*?^```$", re.MULTILINE | re.DOTALL)
    return block.sub(lambda found: f"{found[1]}{told(swept(found[2]), found[2])}\n```", page)


def main(arguments: Sequence[str] | None = None) -> int:
    """Sweep, print, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m scenarios.sweep", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", nargs="?", choices=list(names()), metavar="NAME", help=", ".join(names()))
    parser.add_argument("--faults", default="crash", help="crash, raise, kill (real processes), or several (crash)")
    parser.add_argument("--replay", metavar="TOKEN", help="play one finding again")
    parser.add_argument("--into", type=Path, metavar="PAGE", help="write the reports into the page that shows them")
    given = parser.parse_args(arguments)
    if given.into is not None:
        given.into.write_text(shown(given.into.read_text(encoding="utf-8")), encoding="utf-8")
        return 0
    if given.name is None:
        parser.error("which? --help lists them")
    report = swept(given.name, given.faults, given.replay)
    print(told(report, given.name))
    return int(not report.ok)


if __name__ == "__main__":
    sys.exit(main())
