"""What is seen of a user's function from outside: whether it is async, whether it yields; and of an exception its text."""

import functools

import pytest

from fastdur import idempotent
from fastdur._functions import GENERATOR, discard, flags_of, is_async, said


async def later():
    return 1


def now():
    return 1


class Caller:
    async def __call__(self):
        return 1

    async def method(self):
        return 1

    @classmethod
    async def of_class(cls):
        return 1

    @staticmethod
    async def of_nobody():
        return 1

    def plain(self):
        return 1


ASYNC = [
    later,
    functools.partial(later),
    functools.partial(functools.partial(later), x=1),
    Caller(),
    functools.partial(Caller()),
    Caller().method,
    functools.partial(Caller().method),
    Caller.of_class,
    Caller.of_nobody,
    functools.wraps(now)(later),
    idempotent(later),
]
SYNC = [now, functools.partial(now), Caller, Caller().plain, lambda: later(), len, print, dict, idempotent(now)]  # noqa: PLW0108 - not the coroutine function itself


@pytest.mark.parametrize("fn", ASYNC)
def test_what_gives_a_coroutine_when_it_is_called_is_async(fn):
    assert is_async(fn)


@pytest.mark.parametrize("fn", SYNC)
def test_what_does_not_say_so_is_not_async(fn):
    assert not is_async(fn)


def items():
    yield 1


async def async_items():
    yield 1


def test_a_function_that_yields_is_a_generator_whether_async_or_not():
    assert flags_of(items) & GENERATOR
    assert flags_of(async_items) & GENERATOR
    assert not flags_of(later) & GENERATOR
    assert flags_of(len) == 0


def test_a_coroutine_that_nobody_awaits_is_closed_without_a_warning():
    coroutine = later()
    discard(coroutine)
    assert coroutine.cr_frame is None
    discard(object())


class Mute(Exception):
    def __str__(self):
        raise TypeError("no words")


def test_the_text_of_an_exception_survives_one_that_has_none():
    assert said(ValueError("no")) == "no"
    assert said(ValueError()) == ""
    assert said(Mute()) == "(its text cannot be read)"
