"""Which classes of the user may be stored, and how their instances come apart and together again."""

from __future__ import annotations

import sys
from enum import Enum, Flag
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from fastdur._frozen import MISSING, BadLeafError, class_of
from fastdur._functions import known_module, shown
from fastdur.errors import NotStorable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from dataclasses import Field

    from pydantic import BaseModel

    C = TypeVar("C", bound=type)
else:
    C = TypeVar("C")


class Shape(Protocol):
    """How instances of one registered class are taken apart."""

    kind: str
    name: str

    def parts(self, value: Any) -> list[Any]:
        """Return storable parts from which `build` makes an equal value, or raise `BadLeafError`."""
        ...

    def build(self, *parts: Any) -> Any:
        """Return the value made of parts; raises `NotStorable` where the class has changed so that they do not fit."""
        ...


def full_name(cls: type[Any]) -> str:
    """Return `module.qualname`, or the bare name of a builtin."""
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def imported_name(cls: type[Any]) -> str:
    """`full_name` as it is in every process, whatever module that has begun with."""
    module = known_module(cls.__module__)
    return full_name(cls) if module == cls.__module__ else f"{module}.{cls.__qualname__}"


class EnumShape:
    """Members by their name; flags by their value, because a combination of flags has no name."""

    kind = "enum"

    def __init__(self, cls: type[Enum], name: str) -> None:
        self.cls = cls
        self.name = name

    def parts(self, value: Enum) -> list[Any]:
        if isinstance(value, Flag):
            return [value.value]
        if self.cls.__members__.get(value.name) is not value:
            raise BadLeafError(f"{shown(value)} is not storable; make it a declared member of {full_name(self.cls)}")
        return [value.name]

    def build(self, *parts: Any) -> Any:
        (part,) = parts
        try:
            return self.cls(part) if issubclass(self.cls, Flag) else self.cls[part]
        except (KeyError, ValueError):
            raise NotStorable(f"{self.name} has no member {part!r} any more; keep the members that rows use") from None


class DataclassShape:
    """The values of all fields, init or not; neither `__init__` nor `__post_init__` runs when they are put back."""

    kind = "dataclass"

    def __init__(self, cls: type[Any], name: str) -> None:
        import dataclasses

        self.cls = cls
        self.name = name
        self.fields: dict[str, Field[Any]] = {field.name: field for field in dataclasses.fields(cls)}
        self.unset = dataclasses.MISSING

    def parts(self, value: Any) -> list[Any]:
        _refuse_others(value, self.fields)
        stored = {}
        for name, field in self.fields.items():
            item = getattr(value, name, MISSING)
            if item is not MISSING:
                stored[name] = item
            elif not self._may_be_unset(field):
                raise _unset_field(value, name)
        return [stored]

    def build(self, *parts: Any) -> Any:
        (stored,) = parts
        _refuse_unknown(self.name, stored, self.fields)
        value: Any = object.__new__(self.cls)
        for name, field in self.fields.items():
            item = stored[name] if name in stored else self._default(field)
            if item is not MISSING:
                object.__setattr__(value, name, item)
        return value

    def _may_be_unset(self, field: Field[Any]) -> bool:
        return not field.init and field.default is self.unset and field.default_factory is self.unset

    def _default(self, field: Field[Any]) -> Any:
        if field.default is not self.unset:
            return field.default
        if callable(field.default_factory):
            return field.default_factory()
        if not field.init:
            return MISSING
        raise _no_value(self.name, field.name)


class ModelShape:
    """Fields, extra fields, private attributes and which fields were given; putting them back runs no validator."""

    kind = "model"

    def __init__(self, cls: type[BaseModel], name: str) -> None:
        from pydantic import BaseModel

        self.cls = cls
        self.name = name
        self.base = BaseModel

    def parts(self, value: BaseModel) -> list[Any]:
        fields = self.cls.model_fields
        _refuse_others(value, fields)
        stored: dict[str, Any] = {}
        for name in fields:
            if name not in value.__dict__:
                raise _unset_field(value, name)
            stored[name] = value.__dict__[name]
        state = self.base.__getstate__(value)
        return [stored, state["__pydantic_extra__"], state["__pydantic_private__"], sorted(value.model_fields_set)]

    def build(self, *parts: Any) -> Any:
        stored, extra, private, given = parts
        fields = self.cls.model_fields
        _refuse_unknown(self.name, stored, fields)
        values: dict[str, Any] = {}
        for name, field in fields.items():
            if name in stored:
                values[name] = stored[name]
            elif field.is_required() or getattr(field, "default_factory_takes_validated_data", False):
                raise _no_value(self.name, name)
            else:
                values[name] = field.get_default(call_default_factory=True)
        value = self.cls.__new__(self.cls)
        self.base.__setstate__(
            value,
            {
                "__dict__": values,
                "__pydantic_extra__": extra,
                "__pydantic_private__": private,
                "__pydantic_fields_set__": set(given),
            },
        )
        return value


_BY_CLASS: dict[type[Any], Shape] = {}
_BY_NAME: dict[str, Shape] = {}


@overload
def storable(cls: C, /, *, name: str | None = None) -> C: ...
@overload
def storable(*, name: str | None = None) -> Callable[[C], C]: ...
def storable(cls: Any = None, /, *, name: str | None = None) -> Any:
    """Allow instances of an enum, a dataclass or a pydantic model to be stored.

    A decorator, with or without arguments, and a plain call: `@storable`, `@storable(name="order")`,
    `storable(Colour)`. Values come back equal and of the same class in every process that has registered the same
    name. Rows name the class by `name`, by default its `module.qualname`: give a name to a class that may move
    and to one that is defined in a function.
    Subclasses and parametrised generics (`Box[int]`) are classes of their own. Fields that the class has gained since
    a value was stored get their default.

    Raises:
        NotStorable: the class is of another kind, or is defined in a function and got no name, or another class has
            this name, or this class another name.

    """
    if cls is None:
        return partial(_register, name=name)
    return _register(cls, name)


def _register(cls: Any, name: str | None) -> Any:
    shape = _shape_of(cls, name)
    taken = _BY_NAME.get(shape.name, _BY_CLASS.get(cls))
    if taken is None:
        _BY_NAME[shape.name] = _BY_CLASS[cls] = shape
    elif _BY_CLASS.get(cls) is not taken:
        raise NotStorable(f"two classes are called {shape.name!r}; give one of them another one: storable(name=...)")
    elif taken.name != shape.name:
        raise NotStorable(f"{full_name(cls)} is registered as {taken.name!r}; rows name it so, keep that name")
    return cls


def shape_of(cls: type[Any]) -> Shape | None:
    """Return how a registered class is taken apart, or None."""
    return _BY_CLASS.get(cls)


def shape_named(kind: str, name: str) -> Shape:
    """Return the shape that a row names; raises `NotStorable` if no such class is registered in this process."""
    shape = _BY_NAME.get(name)
    if shape is None:
        raise NotStorable(
            f"a stored value is a {name!r}, which is not registered in this process; "
            "import the module that registers it with fastdur.storable before reading the run",
        )
    if shape.kind != kind:
        raise NotStorable(f"a stored value is the {kind} {name!r}, which is a {shape.kind} here; rename the new class")
    return shape


def is_model(cls: type[Any]) -> bool:
    """Tell whether a class is a pydantic model, without importing pydantic."""
    main = sys.modules.get("pydantic.main")
    return main is not None and issubclass(cls, main.BaseModel)


def registrable(cls: type[Any]) -> bool:
    """Tell whether `storable` takes classes of this kind."""
    return issubclass(cls, Enum) or "__dataclass_fields__" in cls.__dict__ or is_model(cls)


def _shape_of(cls: Any, given: str | None) -> Shape:
    if not issubclass(class_of(cls), type):
        raise NotStorable(f"storable() takes a class. {shown(cls)} is none.")
    name = given or full_name(cls)
    if given is None and "<locals>" in name:
        raise NotStorable(
            f"{name} is defined in a function, where other processes do not find it; "
            "move it to a module, or give it a name: storable(name=...)",
        )
    if issubclass(cls, Enum):
        return EnumShape(cls, name)
    if is_model(cls):
        return ModelShape(cls, name)
    if "__dataclass_fields__" in cls.__dict__ and not _has_content_beside_fields(cls):
        return DataclassShape(cls, name)
    raise NotStorable(
        f"storable() takes enums, dataclasses and pydantic models. {full_name(cls)} is none of them; "
        "make it a dataclass without builtin base classes.",
    )


_HEAP_TYPE = 1 << 9


def _has_content_beside_fields(cls: type[Any]) -> bool:
    # A dataclass that is also a list, an exception or another type made in C holds more than its fields.
    return any(not base.__flags__ & _HEAP_TYPE for base in cls.__mro__[:-1])


def _refuse_others(value: Any, fields: Iterable[str]) -> None:
    known = set(fields)
    for name in _attributes(value):
        if name not in known and not _is_derived(class_of(value), name):
            raise BadLeafError(
                f"attribute {name!r} of {full_name(class_of(value))} is no field and not storable; declare it as one",
            )


def _is_derived(cls: type[Any], name: str) -> bool:
    # What a cached property holds is computed again, and `Box[int]()` notes its parameters on the instance.
    return name == "__orig_class__" or isinstance(getattr(cls, name, None), cached_property)


def _attributes(value: Any) -> Iterable[str]:
    yield from getattr(value, "__dict__", ())
    for base in type(value).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            mangled = f"_{base.__name__.lstrip('_')}{name}" if name.startswith("__") else name
            if not name.endswith("__") and hasattr(value, mangled):
                yield mangled


def _refuse_unknown(owner: str, stored: dict[str, Any], fields: Iterable[str]) -> None:
    unknown = stored.keys() - set(fields)
    if unknown:
        raise NotStorable(
            f"a stored {owner} has fields that the class lacks: {sorted(unknown)}; keep them in the class"
        )


def _unset_field(value: Any, name: str) -> BadLeafError:
    return BadLeafError(f"{full_name(class_of(value))} without a value for its field {name!r} is not storable; set it")


def _no_value(owner: str, name: str) -> NotStorable:
    return NotStorable(f"a stored {owner} has no value for the field {name!r}; give the field a default")
