"""Values on their way into a store and out of it: freeze, thaw, and the names of the whole codec.

JSON keeps None, bools, ints, floats, strings, lists and dicts with string keys. Tags keep datetime (fixed offsets,
zoneinfo, fold), date, time, timedelta, Decimal, UUID, bytes, tuple, set, frozenset, dicts with other keys, huge ints,
NaN, infinities, strings of paired surrogates, and the enums, dataclasses and pydantic models that the user registered
with `storable`. Types are matched exactly. Everything else is refused when it is written; nothing is pickled, and
nothing is imported by a name found in a store.
"""

from fastdur._delta import Delta, diff, patch, patch_in_place
from fastdur._fingerprint import digest, fingerprint, without_user_code
from fastdur._freeze import checked_name, freeze, joined
from fastdur._frozen import MAX_DEPTH, MISSING, Frozen, dumps, loads
from fastdur._registry import storable
from fastdur._thaw import thaw, thaw_shared

__all__ = [
    "MAX_DEPTH",
    "MISSING",
    "Delta",
    "Frozen",
    "checked_name",
    "diff",
    "digest",
    "dumps",
    "fingerprint",
    "freeze",
    "joined",
    "loads",
    "patch",
    "patch_in_place",
    "storable",
    "thaw",
    "thaw_shared",
    "without_user_code",
]
