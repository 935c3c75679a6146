"""`fastdur schema`: the statements that set a store up, for whoever may run them."""

from __future__ import annotations

from typing import Annotated

import typer

from fastdur.checkpointers._postgres_sql import ddl, grants
from fastdur.checkpointers._sql import SCHEMA
from fastdur.cli._text import USAGE, refuse


def schema(
    *,
    postgres: Annotated[bool, typer.Option("--postgres", help="For a Postgres database.")] = False,
    schema: Annotated[str, typer.Option(metavar="NAME", help="The schema of the store.")] = "fastdur",
    upgrade_from: Annotated[
        int, typer.Option(metavar="VERSION", min=0, max=SCHEMA, help="For a store of this older schema.")
    ] = 0,
    role: Annotated[str | None, typer.Option(metavar="NAME", help="Also let this user work in it.")] = None,
) -> None:
    """Print the statements that make an empty store, or upgrade one, where its user may not do that."""
    if not postgres:
        refuse("Say for what database: fastdur schema --postgres. A store in a file makes itself.", USAGE)
    try:
        statements = [*ddl(schema, upgrade_from), *([] if role is None else grants(schema, role))]
    except ValueError as error:
        refuse(f"{error}.", USAGE)
    for statement in ("BEGIN", *statements, "COMMIT"):
        print(f"{' '.join(statement.split())};")  # noqa: T201 - a command
