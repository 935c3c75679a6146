"""`MODULE:ATTR`: the chain that is meant, on a store of the caller's choice."""

from __future__ import annotations

import importlib
import sys
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastdur import Chain
from fastdur._frozen import MISSING
from fastdur.cli._text import NOT_THERE, USAGE, blaming, refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdur import Checkpointer


def chain_at(target: str, store: Checkpointer) -> Chain:
    """The chain `target` names, on `store`.

    It may be a chain, whose own store is left alone, or a function that makes one, of no argument or of the store.
    """
    found = imported(target)
    made = found if isinstance(found, Chain) else called(target, found, store)
    if not isinstance(made, Chain):
        refuse(f"{target} gave {made!r}, not a Chain.", USAGE)
    chain = copy(made)
    chain._given = store  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - the copy is ours
    return chain


def imported(target: str) -> Any:
    """What `MODULE:ATTR` names; the working directory counts as a place of modules."""
    module_name, colon, attribute = target.partition(":")
    if not (module_name and colon and attribute):
        refuse(f"{target!r} is not of the form MODULE:CHAIN, as in shop.refunds:chain.", USAGE)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    with blaming(lambda: f"The module {module_name!r} cannot be imported"):
        found, missing = _module(module_name)
    if missing is not None:
        refuse(f"There is no module {missing!r} in {here} or among the installed packages.", NOT_THERE)
    for name in attribute.split("."):
        with blaming(lambda: f"{attribute!r} of module {module_name!r} cannot be read"):
            found = getattr(found, name, MISSING)
        if found is MISSING:
            refuse(f"Module {module_name!r} has no {attribute!r}.", NOT_THERE)
    return found


def _module(name: str) -> tuple[Any, str | None]:
    """The module of this name, or which part of the name is none."""
    try:
        return importlib.import_module(name), None
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{name}.".startswith(f"{missing.name}."):
            raise  # the module is there; what it imports is not
        return None, missing.name


def called(target: str, factory: Any, store: Checkpointer) -> Any:
    """What a factory gives for this store."""
    if not callable(factory) or isinstance(factory, type):
        refuse(f"{target} is {factory!r}, neither a Chain nor a function that makes one.", USAGE)
    from inspect import Parameter, signature

    positional = [
        each
        for each in signature(factory).parameters.values()
        if each.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    ]
    needed = [each.name for each in signature(factory).parameters.values() if _is_needed(each)]
    make: Callable[..., Any] = factory
    if not needed and not (positional and positional[0].name == "checkpointer"):
        with blaming(lambda: f"{target} made no chain"):
            return make()
    if len(needed) > 1 or not positional:
        refuse(
            f"{target} needs the arguments {', '.join(needed)}; name a function of no argument or of the store.", USAGE
        )
    with blaming(lambda: f"{target} made no chain"):
        return make(store)


def _is_needed(parameter: Any) -> bool:
    return parameter.default is parameter.empty and parameter.kind not in (
        parameter.VAR_POSITIONAL,
        parameter.VAR_KEYWORD,
    )
