"""Leaves of the standard library that JSON has no form for. Their modules are imported at first use."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fastdur._frozen import BadLeafError, class_of
from fastdur._registry import full_name
from fastdur.errors import NotStorable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import date, datetime, time, timedelta, tzinfo
    from decimal import Decimal
    from uuid import UUID


def encoder_of(cls: type[Any]) -> Callable[[Any], list[Any]] | None:
    """Return what makes a tag's content `[kind, *payload]` of the instances of exactly this class, or None."""
    return _ENCODERS.get(full_name(cls))


def decode(kind: str, payload: Iterable[Any]) -> Any:
    """Return the value of a tag of the standard library."""
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise NotStorable(f"a stored value is of the kind {kind!r}, unknown here; read it with a newer fastdur")
    return decoder(*payload)


def _encode_zone(zone: Any) -> list[Any]:
    if zone is None:
        return []
    name = full_name(class_of(zone))
    if name == "datetime.timezone":
        offset, *label = zone.__getinitargs__()
        return [[offset.days, offset.seconds, offset.microseconds], *label]
    if name == "zoneinfo.ZoneInfo" and zone.key is not None:
        return [zone.key]
    raise BadLeafError(f"the time zone {name} is not storable; use datetime.timezone or zoneinfo.ZoneInfo with a key")


def _decode_zone(zone: list[Any]) -> tzinfo | None:
    if not zone:
        return None
    if isinstance(zone[0], str):
        from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

        try:
            return ZoneInfo(zone[0])
        except ZoneInfoNotFoundError:
            raise NotStorable(f"a stored time zone is {zone[0]!r}, unknown here; install tzdata") from None
    from datetime import timedelta, timezone

    days, seconds, microseconds = zone[0]
    return timezone(timedelta(days, seconds, microseconds), *zone[1:])


def _encode_datetime(value: datetime) -> list[Any]:
    return ["datetime", value.replace(tzinfo=None).isoformat(), value.fold, *_encode_zone(value.tzinfo)]


def _decode_datetime(text: str, fold: int, *zone: Any) -> datetime:
    value: datetime = _real_class("datetime").fromisoformat(text)
    return value.replace(tzinfo=_decode_zone([*zone]), fold=fold)


def _encode_date(value: date) -> list[Any]:
    return ["date", value.isoformat()]


def _decode_date(text: str) -> date:
    value: date = _real_class("date").fromisoformat(text)
    return value


def _encode_time(value: time) -> list[Any]:
    return ["time", value.replace(tzinfo=None).isoformat(), value.fold, *_encode_zone(value.tzinfo)]


def _decode_time(text: str, fold: int, *zone: Any) -> time:
    value: time = _real_class("time").fromisoformat(text)
    return value.replace(tzinfo=_decode_zone([*zone]), fold=fold)


def _encode_timedelta(value: timedelta) -> list[Any]:
    return ["timedelta", value.days, value.seconds, value.microseconds]


def _decode_timedelta(days: int, seconds: int, microseconds: int) -> timedelta:
    value: timedelta = _real_class("timedelta")(days, seconds, microseconds)
    return value


def _real_class(name: str) -> Any:
    # A test that freezes the clock puts subclasses in the place of the classes.
    cls = getattr(import_module("datetime"), name)
    return next(base for base in cls.__mro__ if base.__module__ == "datetime")


def _encode_decimal(value: Decimal) -> list[Any]:
    return ["decimal", str(value)]


def _decode_decimal(text: str) -> Decimal:
    from decimal import Decimal

    return Decimal(text)


def _encode_uuid(value: UUID) -> list[Any]:
    return ["uuid", value.hex]


def _decode_uuid(text: str) -> UUID:
    from uuid import UUID

    return UUID(text)


def _encode_bytes(value: bytes) -> list[Any]:
    return ["bytes", b2a_base64(value, newline=False).decode("ascii")]


def _decode_int(text: str) -> int:
    return int(text, 16)


def _decode_str(*pieces: str) -> str:
    return "".join(pieces)


# The fakes of freezegun stand for the real classes; under a frozen clock `datetime.now()` returns one.
_ENCODERS: dict[str, Callable[[Any], list[Any]]] = {
    "bytes": _encode_bytes,
    "datetime.date": _encode_date,
    "datetime.datetime": _encode_datetime,
    "datetime.time": _encode_time,
    "datetime.timedelta": _encode_timedelta,
    "decimal.Decimal": _encode_decimal,
    "freezegun.api.FakeDate": _encode_date,
    "freezegun.api.FakeDatetime": _encode_datetime,
    "uuid.UUID": _encode_uuid,
}

_DECODERS: dict[str, Callable[..., Any]] = {
    "bytes": a2b_base64,
    "date": _decode_date,
    "datetime": _decode_datetime,
    "decimal": _decode_decimal,
    "float": float,
    "int": _decode_int,
    "str": _decode_str,
    "time": _decode_time,
    "timedelta": _decode_timedelta,
    "uuid": _decode_uuid,
}
