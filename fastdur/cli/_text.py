"""How things are said on a terminal, and off one."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from rich.console import Console
from rich.text import Text

import fastdur
from fastdur import FastdurError
from fastdur._frozen import TAG, is_tag
from fastdur._functions import said, short_name

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from fastdur._codec import Frozen

NOT_THERE = 1
USAGE = 2

STATUS_STYLES = {"running": "cyan", "paused": "yellow", "completed": "green", "failed": "red", "cancelled": "magenta"}

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def complain(message: str) -> None:
    """Say on stderr what is wrong; what a store holds may be part of it."""
    print(f"fastdur: {plain(message)}", file=sys.stderr)  # noqa: T201 - a command


def refuse(message: str, code: int) -> NoReturn:
    """Say what is wrong and leave with `code`."""
    complain(message)
    raise typer.Exit(code)


@contextmanager
def blaming(what: Callable[[], str]) -> Generator[None]:
    """Say in one line what code of the user's has raised and where, and leave; `what` says what was being done.

    An error of fastdur's is said by its own text, and not here.
    """
    try:
        yield
    except (KeyboardInterrupt, GeneratorExit, FastdurError):
        raise
    except BaseException as error:
        name, text = short_name(type(error)), said(error)
        refuse(f"{what()}: {name}{': ' * bool(text)}{text} ({place_of(error)})", NOT_THERE)


def place_of(error: BaseException) -> str:
    """The file and line of the user's that an exception comes from."""
    if type(error) in (SyntaxError, IndentationError, TabError):
        return f"{error.filename}:{error.lineno}"  # type: ignore[attr-defined] # of these three
    frames = extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not frame.filename.startswith((_OURS, "<"))] or frames
    return f"{theirs[-1].filename}:{theirs[-1].lineno}"


_OURS = f"{Path(fastdur.__file__).parent}{os.sep}"


def console() -> Console:
    """Where lines go: as wide as the terminal, 80 columns where there is none, plain where nobody looks."""
    return Console(highlight=False, markup=False, emoji=False)


def line(where: Console, *parts: Text | str) -> None:
    """Print one line, cut off at the right edge rather than wrapped."""
    whole = Text.assemble(*parts)
    whole.rstrip()
    where.print(whole, no_wrap=True, overflow="ellipsis", crop=True)


def whole(where: Console, *parts: Text | str) -> None:
    """Print one line that is never cut or wrapped: what is there to be copied."""
    where.print(Text.assemble(*parts), no_wrap=True, overflow="ignore", crop=False, soft_wrap=True)


def dim(text: str) -> Text:
    """What is worth less attention."""
    return Text(text, "dim")


def status_text(status: str, width: int = 0) -> Text:
    """A run's status in its colour."""
    return Text(status.ljust(width), STATUS_STYLES[status])


def plain(text: str) -> str:
    """A text of the user's on one line, without anything that a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def shown(value: Frozen) -> str:
    """A stored value in one line, read without the classes it was made of: `decimal("1.50")`, `{"n": 1}`."""
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    if not isinstance(value, dict):
        return plain(json.dumps(value, ensure_ascii=False))
    if is_tag(value):
        kind, *payload = value[TAG]
        return f"{kind}({', '.join(map(shown, payload))})"
    return "{" + ", ".join(f"{shown(key)}: {shown(item)}" for key, item in value.items()) + "}"


def short(text: str, width: int) -> str:
    """The beginning of a text, in at most `width` columns."""
    return text if len(text) <= width else f"{text[: max(width - 1, 0)]}…"


def tail(text: str, width: int) -> str:
    """The end of a text, in at most `width` columns: of an address it says more than the beginning."""
    return text if len(text) <= width else f"…{text[len(text) - max(width - 1, 0) :]}"


def age(seconds: float) -> str:
    """A length of time in its largest unit: `5 s`, `3 min`, `2 h`, `9 d`."""
    if seconds < _MINUTE:
        return f"{max(seconds, 0):.0f} s"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE:.0f} min"
    if seconds < _DAY:
        return f"{seconds // _HOUR:.0f} h"
    return f"{seconds // _DAY:.0f} d"


def moment(stamp: float) -> str:
    """A time as people and programs read it."""
    return datetime.fromtimestamp(stamp, UTC).isoformat(timespec="seconds")


def dump(value: Any) -> None:
    """Print data as JSON, in ASCII."""
    print(json.dumps(value, indent=2))  # noqa: T201 - a command
