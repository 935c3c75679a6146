"""`fastdur lint`: what in the source of workflows breaks their durability. It reads no store and runs nothing."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import fastdur
from fastdur.cli._text import USAGE, complain, refuse


class Format(StrEnum):
    """How the findings are written."""

    text = "text"
    json = "json"
    sarif = "sarif"


def lint(
    paths: Annotated[list[str] | None, typer.Argument(metavar="[PATH]...", help="Files and folders.")] = None,
    select: Annotated[str | None, typer.Option(metavar="CODES", help="Only these rules, comma separated.")] = None,
    ignore: Annotated[str | None, typer.Option(metavar="CODES", help="Not these rules, comma separated.")] = None,
    form: Annotated[Format, typer.Option("--format", help="How the findings are written.")] = Format.text,
    config: Annotated[str | None, typer.Option(metavar="FILE", help="Another pyproject.toml than the nearest.")] = None,
    explain: Annotated[str | None, typer.Option(metavar="CODE", help="Explain a rule and leave.")] = None,
) -> None:
    """Find what breaks the durability of workflows in their source.

    Without a PATH those of `paths` in [tool.fastdur.lint] of pyproject.toml are read, else the working directory.
    Exit codes: 0 nothing found, 1 findings, 2 a file or the configuration cannot be read.
    """
    from fastdur.lint import _output
    from fastdur.lint._check import lint as check
    from fastdur.lint._config import load
    from fastdur.lint._findings import UsageError

    if explain is not None:
        _explain(explain)
        return
    try:
        chosen = load(None if config is None else Path(config)).choose(_words(select), _words(ignore) or ())
        given = paths or [str((chosen.root or Path()) / each) for each in chosen.paths] or ["."]
        report = check(given, chosen)
    except UsageError as error:
        refuse(str(error), USAGE)
    for problem in report.problems:
        complain(f"{problem.path}:{problem.line}: {problem.message}")
    if form is Format.sarif:
        sys.stdout.write(_output.sarif(report, fastdur.__version__))
    else:
        sys.stdout.write(_output.as_json(report) if form is Format.json else _output.text(report))
    raise typer.Exit(report.exit_code)


def _words(given: str | None) -> list[str] | None:
    return None if given is None else [word.strip() for word in given.split(",") if word.strip()]


def _explain(code: str) -> None:
    from fastdur.lint._rules import RULES, explained

    known = {code.upper()} & set(RULES) or {rule.code for rule in RULES.values() if rule.name == code}
    if not known:
        refuse(f"{code!r} is no rule. There are: {', '.join(RULES)}.", USAGE)
    for each in known:
        sys.stdout.write(f"{explained(each)}\n")
