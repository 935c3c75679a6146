"""`fastdur effects`: which effects of a run are unknown, and what became of them."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.text import Text

from fastdur import Happened, NotHappened, UnknownEffect, list_unknown, resolve_unknown
from fastdur.cli._facts import JSON, STORE, open_store
from fastdur.cli._text import USAGE, console, dim, dump, line, plain, refuse, whole

app = typer.Typer(no_args_is_help=True, help="Effects of which nobody knows whether they happened.")

_RUN = typer.Argument(metavar="RUN_ID", help="The run, as `fastdur runs` lists it.")


@app.command("list")
def listed(
    run_id: Annotated[str, _RUN],
    store: Annotated[str | None, STORE] = None,
    as_json: Annotated[bool, JSON] = False,  # noqa: FBT002 - an option
) -> None:
    """List the unknown effects of a run.

    They were begun, nothing is recorded of how they ended, and nobody is at work on them any more.
    """
    held = open_store(store)
    found = list_unknown(run_id, held)
    if as_json:
        dump([_data(each) for each in found])
        return
    where = console()
    if not found:
        whole(where, f"No effect of run {plain(run_id)} is unknown.")
    for each in found:
        line(where, Text(plain(each.name), "bold"), f"  at {plain(each.path)}")
        whole(where, dim("  key         "), each.key)
        whole(where, dim("  effect_key  "), each.effect_key)
        if each.error is not None:
            line(where, dim("  raised      "), Text(plain(each.error), "red"))


@app.command("resolve")
def resolve(
    run_id: Annotated[str, _RUN],
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key of the effect, or the beginning of it.")],
    happened: Annotated[
        str | None, typer.Option("--happened", metavar="JSON", help="It has happened, and this is its result.")
    ] = None,
    not_happened: Annotated[  # noqa: FBT002 - an option
        bool, typer.Option("--not-happened", help="It has not happened, and may run again.")
    ] = False,
    store: Annotated[str | None, STORE] = None,
) -> None:
    """Say what became of an unknown effect.

    Nothing is run. After --happened its call returns the result, after --not-happened its body runs again.
    """
    if (happened is None) == (not not_happened):
        refuse("Say either --happened JSON or --not-happened.", USAGE)
    outcome = NotHappened if happened is None else Happened(_parsed(happened))
    held = open_store(store)
    found = [each for each in list_unknown(run_id, held) if each.key.startswith(key)]
    if len(found) > 1:
        refuse(f"{len(found)} unknown effects of run {run_id!r} have keys that begin with {key!r}.", USAGE)
    # Where none has, the full key may be that of an effect that was settled before, which is no error.
    resolve_unknown(run_id, found[0].key if found else key, outcome, held)
    name = plain(found[0].name) if found else key
    whole(console(), f"{name} is recorded as {'not happened' if happened is None else 'happened'}.")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        refuse(f"--happened {text!r} is not JSON: {error}. A text needs quotes: '\"{text}\"'.", USAGE)


def _data(effect: UnknownEffect) -> dict[str, Any]:
    return {name: getattr(effect, name) for name in effect.__slots__}
