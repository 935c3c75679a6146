"""What a newcomer sees first."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.docs import pages


def demo(*options):
    return subprocess.run(
        [sys.executable, "-m", "scenarios.demo", *options],
        capture_output=True,
        check=False,
        text=True,
        encoding="utf-8",
        cwd=pages.ROOT,
    )


def test_the_refund_is_green_its_twin_is_red_and_the_shown_line_replays_it():
    shown = demo()
    assert shown.returncode == 0, shown.stdout + shown.stderr
    right, twin = shown.stdout.split("broken twin:")
    assert re.search(
        r"^refund: \d+ boundaries, crash before and after: \d+ points, \d+ lifetimes, all ok$", right, re.MULTILINE
    )
    assert "FD" not in right
    assert "FD07 EFFECT_REPEATED" in twin
    assert max(map(len, shown.stdout.splitlines())) <= 90
    (token,) = re.findall(r"\./ci/demo --replay='([^']+)'", twin)
    again = demo(f"--replay={token}")
    assert again.returncode == 1
    assert "FD07 EFFECT_REPEATED" in again.stdout


def test_a_token_that_is_none_is_a_usage_error():
    done = demo("--replay=nonsense")
    assert (done.returncode, "is no replay token" in done.stderr) == (2, True)
