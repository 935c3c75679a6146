"""A refund is crashed at every boundary and recovers; then a broken twin of it does not.

    python -m scenarios.demo                      # exit 0 if the right one is green and the twin is red
    python -m scenarios.demo --replay='fd1-…'     # play one finding of the twin again

The payment server is a process of its own, and what it has paid is what is counted.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from typing import TYPE_CHECKING

from pytest_fastdur.faults import SweepError
from pytest_fastdur.sweep import Story, explore
from scenarios import refund
from scenarios.payments import PaymentServer

if TYPE_CHECKING:
    from pytest_fastdur.sweep import SweepReport
    from scenarios._story import Build

NARROWEST, WIDEST = 80, 100

RIGHT = """
A refund: fraud check, approval by a manager, payout, receipt. It is crashed
before and after everything that it does, one crash for each cell below. Each
time it is built anew and carried on from what its store holds, and what came
of it is compared with a run that was left alone: the money that was paid, the
way that was taken, the values.
"""
TWIN = """
The same refund with one mistake: the payout is a plain call, not an effect
under @idempotent.
"""


def story(name: str, build: Build, server: PaymentServer) -> Story:
    """What is swept: the refund as `build` makes it, with the money that the server has paid."""
    return Story(
        name,
        build=lambda store: build(store, server.url),
        input=refund.INPUT,
        answers=refund.ANSWERS,
        effects=refund.EFFECTS,
        fresh=server.reset,
        provider=server.counts,
    )


def show(report: SweepReport) -> None:
    """Print what was found, with lines that replay it from here."""
    width = min(max(shutil.get_terminal_size().columns, NARROWEST), WIDEST)
    text = report.render(width, color=sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    for finding in report.findings:
        text = text.replace(report.replay(finding), f"./ci/demo --replay='{finding.token}'")
    print(text)


def main() -> int:
    """Sweep both; return the exit code."""
    parser = argparse.ArgumentParser(prog="./ci/demo", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--replay", metavar="TOKEN", help="play one finding of the broken twin again")
    parser.add_argument("--faults", default="crash", help="crash, raise, kill (real processes), or several (crash)")
    given = parser.parse_args()
    with PaymentServer() as server:
        twin = story("broken twin", refund.broken_no_idempotent, server)
        try:
            if given.replay is not None:
                again = explore(twin, replay=given.replay)
                show(again)
                return int(not again.ok)
            print(RIGHT)
            right = explore(story("refund", refund.build, server), given.faults)
            show(right)
            print(TWIN)
            wrong = explore(twin, given.faults)
            show(wrong)
        except SweepError as error:
            parser.error(str(error))
    caught = any(finding.code == "FD07" for finding in wrong.findings)
    print()
    print(f"The refund {'survives every crash' if right.ok else 'DOES NOT SURVIVE'}.", end=" ")
    print("Its broken twin pays twice, and the sweep says where." if caught else "Its broken twin WAS NOT CAUGHT.")
    return int(not (right.ok and caught))


if __name__ == "__main__":
    sys.exit(main())
