"""The code of a page, run the way a reader would run it.

A block of Python that begins with `# name.py` is that file; every other one is the next part of one program that runs
in the same directory. A block marked `text` right behind such a part is what the part prints.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\w+\.py)\n")
CUT = "-- next block --"


@dataclass
class Part:
    """One block of the program, and what the page says it prints."""

    code: str
    printed: str | None


@dataclass
class Page:
    """The blocks of one page."""

    files: dict[str, str]
    parts: list[Part]
    texts: dict[str, str]
    """What the page shows of each file that pytest runs."""


def read(path: Path) -> Page:
    page = Page({}, [], {})
    before: str | Part | None = None
    for info, code in FENCE.findall(path.read_text(encoding="utf-8")):
        named = FILE.match(code)
        if info == "python" and named:
            page.files[named[1]] = code
            before = named[1]
        elif info == "python":
            before = Part(code, None)
            page.parts.append(before)
        elif info == "text" and isinstance(before, Part):
            before.printed = code
            before = None
        elif info == "text" and isinstance(before, str):
            page.texts[before] = code
            before = None
        else:
            before = None
    return page


def run(page: Page, folder: Path) -> list[str]:
    """What each part of the program prints. Warnings are errors."""
    for name, code in page.files.items():
        (folder / name).write_text(code, encoding="utf-8")
    program = f"print({CUT!r})\n".join(part.code for part in page.parts)
    (folder / "page.py").write_text(program, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FASTDUR_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "page.py"],
        capture_output=True,
        check=False,
        text=True,
        encoding="utf-8",
        cwd=folder,
        env={**environment, "PYTHONPATH": str(folder)},
    )
    assert not done.returncode, done.stderr
    return done.stdout.split(f"{CUT}\n")
