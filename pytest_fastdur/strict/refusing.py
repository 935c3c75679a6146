"""What the rules of all providers have in common."""

from __future__ import annotations

import re
from typing import Any, NoReturn

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class RefusedError(Exception):
    """A request that a provider refuses: what it says, and the HTTP status."""

    def __init__(self, message: str, status: int = 400, kind: str = "invalid_request_error") -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


def refuse(message: str) -> NoReturn:
    """Refuse a request."""
    raise RefusedError(message)


def check(ok: Any, message: str) -> None:
    """Refuse a request where something does not hold."""
    if not ok:
        refuse(message)


def is_object(given: Any) -> bool:
    """Whether this is an object of JSON."""
    return isinstance(given, dict)


def is_list(given: Any) -> bool:
    """Whether this is a list of JSON."""
    return isinstance(given, list)


def only(of: Any, known: frozenset[str], needed: tuple[str, ...], where: str) -> None:
    """Refuse what is no object, has keys that are unknown, or lacks one that is needed."""
    check(is_object(of), f"{where}: an object is required")
    for key in needed:
        check(of.get(key) is not None, f"{where}.{key}: field required")
    for key in of:
        check(key in known, f"{where}.{key}: extra inputs are not permitted")


def answered_in_order(asked: list[str], answers: list[str], where: str) -> None:
    """Refuse answers of tools that are not exactly one for each call, in the order of the calls."""
    missing = [each for each in asked if each not in answers]
    check(not missing, f"{where}: these calls have no answer right behind them: {', '.join(missing)}")
    strange = [each for each in answers if each not in asked]
    check(not strange, f"{where}: these answers have no call right before them: {', '.join(strange)}")
    check(len({*answers}) == len(answers), f"{where}: a call is answered twice")
    check(answers == asked, f"{where}: the answers are not in the order of their calls")


def schema_of_object(schema: Any, where: str) -> None:
    """Refuse what is no schema of an object."""
    check(is_object(schema) and schema.get("type") == "object", f"{where}: must be a JSON schema of an object")


def unique(names: list[Any], where: str) -> None:
    """Refuse names that are none, or are there twice."""
    for name in names:
        check(isinstance(name, str) and NAME.fullmatch(name), f"{where}: {name!r} does not match '{NAME.pattern}'")
    check(len({*names}) == len(names), f"{where}: names must be unique")
