"""What is seen of the user's functions and exceptions from outside."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import partial, wraps
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

S = TypeVar("S")
P = ParamSpec("P")
A = TypeVar("A")
R = TypeVar("R")

# Those of inspect, without the price of importing it.
COROUTINE = 0x80
GENERATOR = 0x20 | 0x200


def _function_of(fn: Callable[..., Any]) -> Any:
    """The function that runs when `fn` is called, through partials and `__call__`; itself for no Python code."""
    plain: Any = fn
    while isinstance(plain, partial):
        plain = plain.func
    call = plain if hasattr(plain, "__code__") else type(plain).__call__
    return call if hasattr(call, "__code__") else plain


def code_of(fn: Callable[..., Any]) -> Any:
    """What runs when `fn` is called, through partials, methods, `__call__`; the function itself for no Python code."""
    function = _function_of(fn)
    return getattr(function, "__code__", function)


def captures(fn: Callable[..., Any]) -> bool:
    """Whether a function has variables of the function it was made in: two made in one place may do different things.

    Its own name and its class are not counted, which are the same in each.
    """
    code = code_of(fn)
    return not {"__class__", getattr(code, "co_name", "")}.issuperset(getattr(code, "co_freevars", ()))


def captured_in(fn: Callable[..., Any], outer: Callable[..., Any]) -> dict[str, Any]:
    """The variables that a function has captured and that neither `outer` nor a function captured by that brings along:
    what tells it from others that were made like it while `outer` was running. Those without a value are left out.
    """
    known = _cells(outer, {})
    code = code_of(fn)
    found: dict[str, Any] = {}
    for name, cell in zip(code.co_freevars, _closure(fn), strict=True):
        if id(cell) not in known and name != code.co_name:
            with suppress(ValueError):  # it has no value yet
                found[name] = cell.cell_contents
    return found


def _closure(fn: Callable[..., Any]) -> tuple[Any, ...]:
    return getattr(_function_of(fn), "__closure__", None) or ()


def _cells(fn: Callable[..., Any], known: dict[int, Any]) -> dict[int, Any]:
    """The variables that a function has captured, and those of the functions in them."""
    for cell in _closure(fn):
        if id(cell) not in known:
            known[id(cell)] = cell
            with suppress(ValueError):
                inner = cell.cell_contents
                if type(inner) is FunctionType:
                    _cells(inner, known)
    return known


def held_in(fn: Callable[..., Any]) -> list[Any]:
    """The values that a function brings along for arguments that a call leaves out, through partials."""
    found: list[Any] = []
    plain: Any = fn
    while isinstance(plain, partial):
        found += [*plain.args, *plain.keywords.values()]
        plain = plain.func
    function = _function_of(plain)
    found += getattr(function, "__defaults__", None) or ()
    found += (getattr(function, "__kwdefaults__", None) or {}).values()
    return found


def bound_to(fn: Callable[..., Any]) -> list[Any]:
    """What comes before the arguments of a call, so that another one is another call: the object of a method that was
    taken from it, an object that is called itself, and what a partial has filled in by position.
    """
    found: list[Any] = []
    plain: Any = fn
    while isinstance(plain, partial):
        found = [*plain.args, *found]
        plain = plain.func
    whose = getattr(plain, "__self__", None)
    if whose is not None:
        return found if type(whose) is ModuleType else [whose, *found]
    if hasattr(plain, "__code__") or not hasattr(type(plain).__call__, "__code__"):
        return found
    return [plain, *found]


def known_module(module: str) -> str:
    """The name by which any process imports a module, also in one that began with it, where it is `__main__`."""
    if module not in ("__main__", "__mp_main__"):
        return module
    begun_with = sys.modules.get(module)
    spec, file = getattr(begun_with, "__spec__", None), getattr(begun_with, "__file__", None)
    if spec is not None:
        return str(spec.name)
    return module if file is None else str(file).replace("\\", "/").rpartition("/")[2].removesuffix(".py")


def flags_of(fn: Callable[..., Any]) -> int:
    """The code flags of what runs when `fn` is called; 0 for no Python code."""
    return getattr(code_of(fn), "co_flags", 0)


def is_async(fn: Callable[..., Any]) -> bool:
    """Whether calling `fn` gives a coroutine."""
    return bool(flags_of(fn) & COROUTINE)


def chained(fn: Callable[..., Any], after: Callable[[Any], Any]) -> Callable[..., Any]:
    """`after(fn(...))` as one function, an async one where `fn` is, or where it returns something to await."""

    async def awaited(waiting: Any) -> Any:
        return after(await waiting)

    async def acalled(*args: Any, **kwargs: Any) -> Any:
        return after(await fn(*args, **kwargs))

    def called(*args: Any, **kwargs: Any) -> Any:
        value = fn(*args, **kwargs)
        return awaited(value) if awaitable(value) else after(value)

    return acalled if is_async(fn) else called


def asked_by(ask: Callable[Concatenate[S, P], A]) -> Callable[[Callable[[S, A], R]], Callable[Concatenate[S, P], R]]:
    """A method with the parameters of the method `ask`, which makes of them the one thing that its body takes.

    So the two forms of a call, sync and async, have one signature, in one place.
    """

    def decorated(body: Callable[[S, A], R]) -> Callable[Concatenate[S, P], R]:
        plain: Any = body

        def called(self: Any, *args: Any, **kwargs: Any) -> Any:
            return plain(self, _ask(self, *args, **kwargs))

        async def acalled(self: Any, *args: Any, **kwargs: Any) -> Any:
            return await plain(self, _ask(self, *args, **kwargs))

        _ask = _named(cast("FunctionType", ask), plain)
        method: Any = wraps(plain)(acalled if is_async(plain) else called)
        method.__wrapped__ = _ask  # whose signature is shown
        return cast("Callable[Concatenate[S, P], R]", method)

    return decorated


def _named(ask: FunctionType, body: FunctionType) -> FunctionType:
    """`ask` under the name of `body`, by which it refuses arguments, and as what gives what `body` gives."""
    named = FunctionType(ask.__code__, ask.__globals__, body.__name__, ask.__defaults__, ask.__closure__)
    named.__kwdefaults__, named.__qualname__ = ask.__kwdefaults__, body.__qualname__
    named.__annotations__ = {**ask.__annotations__, "return": body.__annotations__["return"]}
    return named


def _has(value: object, name: str) -> bool:
    """Whether the class of a value has a method; nothing of the user's is asked."""
    cls: type[Any] = type(value)
    return any(name in members_of(each) for each in mro_of(cls))


def awaitable(value: object) -> bool:
    """Whether a value can be awaited. Its class is looked at, as `await` does; the value itself is asked nothing."""
    return _has(value, "__await__")


def discard(value: Any) -> None:
    """Close a coroutine that nobody will await."""
    if awaitable(value) and _has(value, "close"):
        value.close()


def said(error: BaseException) -> str:
    """The text of an exception; survives a `__str__` that raises."""
    text = _text_of(str, error)
    return "(its text cannot be read)" if text is None else text


def shown(value: object) -> str:
    """What a value looks like in a message; survives a `__repr__` that raises."""
    text = _text_of(repr, value)
    return f"<{short_name(type(value))}>" if text is None else text


def _text_of(how: Callable[[Any], str], value: object) -> str | None:
    """The text as a plain `str`; whatever the class of the value does, the call that wants to name it goes on."""
    return survived(lambda: str.__str__(how(value)))  # a subclass of str is made a plain one


def survived(ask: Callable[..., R], *args: Any) -> R | None:
    """What `ask` gives; None where code of the user's that is asked in it raises, but for Ctrl-C."""
    try:
        return ask(*args)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None


# What a class and an exception are, read past whatever the user's class, or its metaclass, has put in the way.
_MODULE: Any = vars(type)["__module__"].__get__
_QUALNAME: Any = vars(type)["__qualname__"].__get__
mro_of: Callable[[type[Any]], tuple[type[Any], ...]] = vars(type)["__mro__"].__get__
members_of: Callable[[type[Any]], Mapping[str, Any]] = vars(type)["__dict__"].__get__
below: Callable[[type[Any]], list[type[Any]]] = type.__subclasses__
items_of: Callable[[dict[Any, Any]], Iterable[tuple[Any, Any]]] = vars(dict)["items"]
_SET_DEFAULT: Any = vars(dict)["setdefault"]
held_by: Callable[[BaseException], dict[Any, Any]] = vars(BaseException)["__dict__"].__get__
cause_of: Callable[[BaseException], BaseException | None] = vars(BaseException)["__cause__"].__get__
grouped_in: Callable[[BaseException], tuple[BaseException, ...]] = vars(BaseExceptionGroup)["exceptions"].__get__


def is_a(error: object, *kinds: type[BaseException]) -> bool:
    """Whether an object is an instance of one of these classes; unlike `isinstance` it does not ask the object."""
    return issubclass(type(error), kinds)


def short_name(cls: type[Any]) -> str:
    """The qualified name of a class."""
    return str.__str__(_QUALNAME(cls))


def dotted_name(cls: type[Any]) -> str:
    """The name of a class with its module, whatever the class says of itself."""
    module: object = _MODULE(cls)
    return f"{known_module(module)}.{short_name(cls)}" if type(module) is str else f"?.{short_name(cls)}"


def annotate(error: BaseException, note: str) -> None:
    """Add a note to an exception, once, if what it calls its notes is a list. Nothing of the user's is asked."""
    notes: list[Any] = _SET_DEFAULT(held_by(error), "__notes__", [])
    if type(notes) is list and not any(type(each) is str and each == note for each in notes):
        notes.append(note)
