"""What is seen of the user's functions and exceptions from outside."""

from __future__ import annotations

from functools import partial, wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

S = TypeVar("S")
P = ParamSpec("P")
A = TypeVar("A")
R = TypeVar("R")

# Those of inspect, without the price of importing it.
COROUTINE = 0x80
GENERATOR = 0x20 | 0x200


def code_of(fn: Callable[..., Any]) -> Any:
    """What runs when `fn` is called, through partials, methods, `__call__`; the function itself for no Python code."""
    plain: Any = fn
    while isinstance(plain, partial):
        plain = plain.func
    if not hasattr(plain, "__code__"):
        plain = getattr(type(plain).__call__, "__code__", plain)
    return getattr(plain, "__code__", plain)


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
        return awaited(value) if hasattr(value, "__await__") else after(value)

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


def discard(value: Any) -> None:
    """Close a coroutine that nobody will await."""
    close = getattr(value, "close", None)
    if close is not None:
        close()


def said(error: BaseException) -> str:
    """The text of an exception; survives a `__str__` that raises."""
    text = _text_of(str, error)
    return "(its text cannot be read)" if text is None else text


def shown(value: object) -> str:
    """What a value looks like in a message; survives a `__repr__` that raises."""
    text = _text_of(repr, value)
    return f"<{type(value).__qualname__}>" if text is None else text


def _text_of(how: Callable[[Any], str], value: object) -> str | None:
    """The text as a plain `str`; whatever the class of the value does, the call that wants to name it goes on."""
    try:
        return str.__str__(how(value))  # a subclass of str is made a plain one
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None


def annotate(error: BaseException, note: str) -> None:
    """Add a note to an exception, once, if what it calls its notes is a list. Nothing of the user's is asked."""
    notes: list[Any] = vars(error).setdefault("__notes__", [])
    if type(notes) is list and note not in notes:
        notes.append(note)
