"""One hash for equal arguments, whatever process computes it."""

from __future__ import annotations

from enum import Enum, Flag
from functools import cache
from json import encoder as json_encoder
from typing import TYPE_CHECKING, Any

from fastdur._freeze import FREEZERS, freeze_other, is_plain_dict, is_plain_list
from fastdur._frozen import MAX_DEPTH, MISSING, TAG, BadLeafError, Frozen, class_of, too_deep
from fastdur._functions import shown
from fastdur._registry import imported_name, is_model

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable


def _encoding(make: Callable[..., Any] | None) -> Callable[[Frozen], str]:
    """The encoder of canonical JSON. `JSONEncoder.encode` makes its C part anew for each call, which takes longer than
    the work; this keeps one, where there is one.
    """
    plain = json_encoder.JSONEncoder(
        ensure_ascii=True, separators=(",", ":"), check_circular=False, allow_nan=False, sort_keys=True
    )
    if make is None:
        return plain.encode
    escaped = json_encoder.encode_basestring_ascii  # what JSONEncoder itself hands over
    parts = make(None, plain.default, escaped, None, ":", ",", True, False, False)  # noqa: FBT003 - positional in C
    return lambda frozen: "".join(parts(frozen, 0))


_ENCODE = _encoding(getattr(json_encoder, "c_make_encoder", None))


def fingerprint(value: Any, where: str) -> str:
    """Return the SHA-256, in hex, of a value in a canonical form that keeps types.

    `1`, `1.0`, `True` and `"1"` differ, and so do a tuple and a list; the order of dict keys and set elements does
    not count. Enums count by class and name; dataclasses and pydantic models by class and fields, registered or not
    (a dataclass field with `compare=False` does not count). It is the same in every process.

    Raises:
        NotStorable: some leaf has no canonical form; names its path under `where`, its type and the way out.

    """
    try:
        text = _ENCODE(_canonical(value, 1))
    except BadLeafError as bad:
        raise bad.as_refusal(where) from None
    except RecursionError:
        raise too_deep().as_refusal(where) from None
    return digest(text)


@cache
def _sha256() -> Callable[[bytes], Any]:
    from hashlib import sha256

    return sha256


def digest(text: str) -> str:
    """Return the SHA-256 of a text, in hex."""
    return str(_sha256()(text.encode("utf-8", "surrogatepass")).hexdigest())


def without_user_code(values: Iterable[Any]) -> bool:
    """Tell whether none of these values is asked for its parts: only JSON's own single values."""
    return _LEAVES.issuperset(map(type, values))


def _canonical(value: Any, depth: int) -> Frozen:
    if depth > MAX_DEPTH:
        raise too_deep()
    cls = class_of(value)
    if cls in _LEAVES:
        return FREEZERS[cls](value, MISSING, MISSING, depth)
    rule = RULES.get(cls)
    if rule is not None:
        return rule(value, depth)
    fields = _fields_of(cls, value)
    if fields is not None:
        return {TAG: ["object", imported_name(cls), _canonical_dict(fields, depth + 1)]}
    return FREEZERS.get(cls, freeze_other)(value, MISSING, MISSING, depth)


def _canonical_list(value: list[Any], depth: int) -> list[Frozen]:
    return value if is_plain_list(value) else _canonical_items(value, depth)


def _canonical_items(value: list[Any], depth: int) -> list[Frozen]:
    items: list[Frozen] = []
    try:
        for item in value:
            items.append(_canonical(item, depth + 1))  # noqa: PERF401 - its length names a bad item
    except BadLeafError as bad:
        bad.path.append(f"[{len(items)}]")
        raise
    return items


def _canonical_dict(value: dict[Any, Any], depth: int) -> Frozen:
    if not is_plain_dict(value):
        return _canonical_map(value, depth)
    items: dict[str, Frozen] = {}
    key = ""
    try:
        for key, item in value.items():
            items[key] = _canonical(item, depth + 1)
    except BadLeafError as bad:
        bad.path.append(f"[{shown(key)}]")
        raise
    return items


def _canonical_map(value: dict[Any, Any], depth: int) -> Frozen:
    pairs: list[Frozen] = []
    key = None
    try:
        for key, item in value.items():
            pairs.append([_canonical(key, depth + 2), _canonical(item, depth + 2)])
    except BadLeafError as bad:
        bad.path.append(f"[{shown(key)}]")
        raise
    return {TAG: ["map", *sorted(pairs, key=_ENCODE)]}


def _canonical_tuple(value: tuple[Any, ...], depth: int) -> Frozen:
    return {TAG: ["tuple", *_canonical_items(list(value), depth + 1)]}


def _canonical_set(value: Collection[Any], depth: int) -> Frozen:
    return {TAG: [type(value).__name__, *sorted(_canonical_items(list(value), depth + 1), key=_ENCODE)]}


def _fields_of(cls: type[Any], value: Any) -> dict[str, Any] | None:
    if issubclass(cls, Enum):
        return {"member": value.value if issubclass(cls, Flag) else value.name}
    if is_model(cls):
        names = [name for name in cls.model_fields if name in value.__dict__]
        return {name: value.__dict__[name] for name in names} | (value.model_extra or {})
    if "__dataclass_fields__" in cls.__dict__:
        from dataclasses import fields

        names = [field.name for field in fields(cls)]
        return {name: getattr(value, name) for name in names if hasattr(value, name)}
    return None


_LEAVES = frozenset({str, int, float, bool, type(None)})

RULES: dict[type, Callable[[Any, int], Frozen]] = {
    dict: _canonical_dict,
    list: _canonical_list,
    tuple: _canonical_tuple,
    set: _canonical_set,
    frozenset: _canonical_set,
}
