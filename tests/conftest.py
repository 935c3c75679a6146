"""What all tests share: pytester, and one profile for Hypothesis."""

from __future__ import annotations

import os

from hypothesis import settings

pytest_plugins = ["pytester"]

# Time is no verdict: the machine may be busy. In CI the examples are the same on every run.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_terminal_summary(terminalreporter):
    """What was proven by trying everything, and how much that was."""
    proven = [
        value
        for report in terminalreporter.stats.get("passed", ())
        for name, value in report.user_properties
        if name == "proven"
    ]
    if proven:
        terminalreporter.section("proven")
    for line in sorted(proven):
        terminalreporter.write_line(line)
