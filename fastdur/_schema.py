"""Typed arguments and typed answers: JSON schemas, and what fits them. Built on pydantic, which is loaded at need."""

from __future__ import annotations

import json
import re
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, cast, get_type_hints

from fastdur.errors import GraphError, NodeResultError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_SECTION = re.compile(r"^(?:args|arguments|parameters|params):\s*$", re.IGNORECASE)
_NAMED = re.compile(r"^(?P<name>\*{0,2}\w+)\s*(?:\([^)]*\))?:\s*(?P<text>.*)$")
_FIELD = re.compile(r"^:param (?:[^:]* )?(?P<name>\w+):\s*(?P<text>.*)$")


class Arguments:
    """The arguments of a function as a model may write them: their JSON schema, and calls checked against it."""

    def __init__(self, fn: Callable[..., Any], name: str) -> None:
        from inspect import Parameter, signature

        from pydantic import ConfigDict, Field, create_model
        from pydantic.errors import PydanticUserError

        try:
            hints = get_type_hints(_typed(fn), include_extras=True)
        except NameError as error:
            message = f"the annotations of tool {name!r} cannot be read: {error}; import what they name at module level"
            raise GraphError(message) from error
        texts = documented(fn.__doc__ or "")[1]
        parts: dict[str, Any] = {}
        self._names: list[str] = []
        for place, part in enumerate(signature(fn).parameters.values()):
            if part.kind not in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY):
                message = (
                    f"tool {name!r} takes {str(part)!r}; a model names each argument, so give it a plain parameter"
                )
                raise GraphError(message)
            default = ... if part.default is part.empty else part.default
            # Under a name of its own, because pydantic refuses some that parameters may have.
            described = Field(default, alias=part.name, description=texts.get(part.name))
            parts[f"p{place}"] = (hints.get(part.name, Any), described)
            self._names.append(part.name)
        try:
            self._model: Any = create_model(name, __config__=ConfigDict(extra="forbid"), **parts)
            self.schema: dict[str, Any] = _untitled(self._model.model_json_schema())
        except PydanticUserError as error:
            message = f"the parameters of tool {name!r} have no JSON schema: {error}"
            raise GraphError(message) from error

    def bound(self, arguments: Any) -> dict[str, Any]:
        """The arguments as the function takes them. Raises pydantic's `ValidationError`, a ValueError."""
        found = self._model.model_validate_json(json.dumps(arguments))
        return {name: getattr(found, f"p{place}") for place, name in enumerate(self._names)}


class Typed:
    """A type that JSON must fit: the final answer of an agent, or what a runner takes."""

    def __init__(self, kind: Any, where: str) -> None:
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticUserError

        try:
            self._adapter: Any = TypeAdapter(kind)
            self.schema: dict[str, Any] = self._adapter.json_schema()
        except PydanticUserError as error:
            message = f"{where} is {kind!r}, which pydantic does not know: {error}"
            raise GraphError(message) from error

    def read(self, text: str) -> Any:
        """The JSON text as a value of the type. Raises pydantic's `ValidationError`, a ValueError."""
        return self._adapter.validate_json(text)

    def plain(self, text: str) -> Any:
        """The same as plain JSON, which any store keeps. Raises like `read`."""
        return self._adapter.dump_python(self.read(text), mode="json")

    def told(self, value: Any, where: str) -> str:
        """A value of the type as a model reads it: a text, or JSON. Raises `NodeResultError` where it is none."""
        refuse_bytes(value, where)
        wrong = misfit(self._adapter.validate_python, value)
        if wrong is not None:
            message = f"{where} returned what does not fit its output_type: {wrong}"
            raise NodeResultError(message)
        return text_of(self._adapter.dump_python(self._adapter.validate_python(value), mode="json"), where)


def misfit(check: Callable[[Any], object], value: Any) -> str | None:
    """What `check` says does not fit, as a model can be told; None where all does. Raises what else it raises."""
    from pydantic import ValidationError

    try:
        check(value)
    except ValidationError as error:
        found = [f"{'.'.join(map(str, each['loc'])) or 'the value'}: {each['msg']}" for each in error.errors()]
        return "; ".join(found)
    return None


def text_of(value: Any, where: str) -> str:
    """What a tool returned, as a model reads it: a text, or JSON. Raises `NodeResultError` for what is neither."""
    from pydantic_core import PydanticSerializationError, to_json

    if isinstance(value, str):
        return value
    refuse_bytes(value, where)
    try:
        return to_json(value).decode()
    except PydanticSerializationError as error:
        message = f"{where} returned {type(value).__qualname__}, which has no JSON form; return a text or plain JSON"
        raise NodeResultError(message) from error


def refuse_bytes(value: Any, where: str) -> None:
    """Raise `NodeResultError` where there are bytes in what a tool returned."""
    if _holds_bytes(value):
        message = f"{where} returned bytes, which no model can read; return a text, or store them and return their name"
        raise NodeResultError(message)


def documented(text: str) -> tuple[str, dict[str, str]]:
    """The first paragraph of a docstring, and what it says of each parameter, in Google's or Sphinx's form."""
    from inspect import cleandoc

    lines = cleandoc(text).splitlines()
    summary = " ".join(line.strip() for line in lines[: lines.index("")] if line) if "" in lines else " ".join(lines)
    found: dict[str, str] = {}
    inside, last = False, ""
    for line in lines:
        inside = bool(_SECTION.match(line)) or (inside and (not line or line.startswith(" ")))
        named = _FIELD.match(line) or (_NAMED.match(line.strip()) if inside and line.startswith("    ") else None)
        deeper = inside and line.startswith("      ")
        if named and not (deeper and last):
            last = named["name"].lstrip("*")
            found[last] = named["text"].strip()
        elif deeper and last:
            found[last] = f"{found[last]} {line.strip()}".strip()
        else:
            last = ""
    return summary, found


def _typed(fn: Callable[..., Any]) -> Any:
    """What carries the annotations: a function, or the `__call__` of an object."""
    return fn if hasattr(fn, "__code__") or hasattr(fn, "__wrapped__") else type(fn).__call__


def _untitled(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema without the titles that pydantic makes of names, which only cost tokens."""
    plain = {key: part for key, part in schema.items() if key != "title"}
    for name, part in plain.get("properties", {}).items():
        plain["properties"] = {**plain["properties"], name: {k: p for k, p in part.items() if k != "title"}}
    return {"type": "object", "properties": {}, **plain}


def _holds_bytes(value: Any) -> bool:
    inside: Iterable[Any] = ()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return True
    if isinstance(value, dict):
        known: dict[Any, Any] = cast("Any", value)
        inside = [*known, *known.values()]
    elif isinstance(value, (list, tuple, set, frozenset)):
        inside = cast("Iterable[Any]", value)
    elif is_dataclass(value) and not isinstance(value, type):
        inside = [getattr(value, each.name) for each in fields(value)]
    return any(map(_holds_bytes, inside))
