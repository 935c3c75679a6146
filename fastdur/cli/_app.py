"""The command as a whole: its verbs, and what its exit codes mean."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import fastdur
from fastdur.cli import _boundaries, _effects, _lint, _runs, _schema, _show
from fastdur.cli._text import complain

if TYPE_CHECKING:
    from collections.abc import Sequence

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="Exit codes: 0 done, 1 what was named is not there or cannot be read, 2 the command is not understood.",
)


def _version(asked: bool) -> None:  # noqa: FBT001 - what typer calls
    if asked:
        print(f"fastdur {fastdur.__version__}")  # noqa: T201 - a command
        raise typer.Exit


@app.callback()
def _fastdur(
    version: Annotated[  # noqa: FBT002 - an option
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Look at durable runs. Nothing here runs anything or answers a question; `effects resolve` alone writes."""


app.command("boundaries")(_boundaries.boundaries)
app.add_typer(_effects.app, name="effects")
app.command("lint")(_lint.lint)
app.command("runs")(_runs.runs)
app.command("schema")(_schema.schema)
app.command("show")(_show.show)


def run(args: Sequence[str] | None) -> int:
    """Carry the command out. It leaves by `SystemExit`, or returns its exit code where fastdur refuses something."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a stored text may be one that no terminal can show
    try:
        Path.cwd()
    except FileNotFoundError:
        complain("The working directory is no longer there; change to another one.")
        return 1
    try:
        return int(app(None if args is None else list(args), prog_name="fastdur") or 0)
    except (fastdur.FastdurError, OSError) as error:
        complain(str(error))
        return 1
