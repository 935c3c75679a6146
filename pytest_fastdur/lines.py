"""Every line of the user's nodes as an instant: just before it is executed.

On Python 3.12 and later the interpreter tells by `sys.monitoring`, under an id of its own beside those of debuggers and
coverage. Before that it is the trace function, of which there is one: the one that was there, coverage's for example,
is called from ours with everything it would have heard, and put back at the end.
"""

from __future__ import annotations

import os
import sys
import threading
from inspect import currentframe, unwrap
from types import CodeType
from typing import TYPE_CHECKING, Any, Self

import fastdur
import pytest_fastdur

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType

    from fastdur._runner import Runner

_OURS = tuple(os.path.dirname(str(package.__file__)) + os.sep for package in (fastdur, pytest_fastdur))  # noqa: PTH120 - a prefix
_NAME = "fastdur"
_IDS = (3, 4)
"""The ids that are nobody's: debuggers, coverage, profilers and optimisers have others."""


def files_of(runner: Runner) -> frozenset[str]:
    """The files in which the functions of a runner are written: its nodes, routes and tools."""
    found = (code_of(fn) for _, fn in runner.functions())
    return frozenset(code.co_filename for code in found if code is not None and not code.co_filename.startswith(_OURS))


def lines_in(runner: Runner) -> list[str]:
    """The names of all lines of the functions of a runner."""
    files = files_of(runner)
    codes = {code_of(fn) for _, fn in runner.functions()}
    return [
        name_of(code, line).removeprefix("line ")
        for code in codes
        if code is not None and code.co_filename in files
        for line in lines_of(code)
    ]


def code_of(fn: Any) -> CodeType | None:
    """The code of a function, of a partial, of an object that can be called; None of what is not written in Python."""
    while hasattr(fn, "func"):
        fn = fn.func
    fn = unwrap(fn)
    plain = fn if hasattr(fn, "__code__") else getattr(fn, "__call__", None)  # noqa: B004 - what is called, not whether
    code = getattr(plain, "__code__", None)
    return code if isinstance(code, CodeType) else None


def name_of(code: CodeType, line: int) -> str:
    """The name of a line: its function, and how far it is below the beginning of that."""
    return f"line {code.co_qualname.rpartition('<locals>.')[2]}+{line - code.co_firstlineno}"


def lines_of(code: CodeType) -> set[int]:
    """The lines of a function that can be executed, without those of functions inside of it."""
    return {line for _, _, line in code.co_lines() if line is not None and line != code.co_firstlineno} or {
        code.co_firstlineno
    }


class _Monitored:
    """The interpreter tells."""

    def __init__(self, files: frozenset[str], tell: Callable[[CodeType, int], None]) -> None:
        self._files, self._tell = files, tell
        self._told: list[CodeType] = []
        self._monitoring: Any = getattr(sys, "monitoring")  # noqa: B009 - Python 3.11 has none

    def __enter__(self) -> Self:
        monitoring = self._monitoring
        self._id = next(number for number in _IDS if monitoring.get_tool(number) is None)
        monitoring.use_tool_id(self._id, _NAME)
        monitoring.register_callback(self._id, monitoring.events.PY_START, self._started)
        monitoring.register_callback(self._id, monitoring.events.LINE, self._tell)
        monitoring.set_events(self._id, monitoring.events.PY_START)
        monitoring.restart_events()  # what an earlier lifetime did not want to hear of may have begun to matter
        return self

    def __exit__(self, *_: object) -> None:
        for code in self._told:
            self._monitoring.set_local_events(self._id, code, 0)
        self._monitoring.set_events(self._id, 0)
        for event in (self._monitoring.events.PY_START, self._monitoring.events.LINE):
            self._monitoring.register_callback(self._id, event, None)
        self._monitoring.free_tool_id(self._id)

    def _started(self, code: CodeType, _: int) -> Any:
        if code.co_filename in self._files:
            self._told.append(code)
            self._monitoring.set_local_events(self._id, code, self._monitoring.events.LINE)
        return self._monitoring.DISABLE


class _Local:
    """What is traced in one frame: ours, and what the other trace function wants to hear of it."""

    def __init__(self, other: Any, tell: Callable[[FrameType], None]) -> None:
        self.other, self._tell = other, tell

    def __call__(self, frame: FrameType, event: str, arg: Any) -> _Local:
        if self.other is not None:
            self.other = self.other(frame, event, arg)
        if event == "line":
            self._tell(frame)
        return self


class _Chain:
    """The trace function of one thread, in front of the `other` that was there. Above `below` frames are not ours."""

    def __init__(self, traced: _Traced, other: Any, below: FrameType | None = None) -> None:
        self._traced, self.other, self._below = traced, other, below
        self.trace: Any = self._called  # one object, so that it can be recognised

    def _called(self, frame: FrameType, event: str, arg: Any) -> Any:
        other = None if self.other is None else self.other(frame, event, arg)
        if self._traced.over:
            sys.settrace(self.other)
            return other
        if self.other is not None and sys.gettrace() is not self.trace:
            sys.settrace(self.trace)  # the other has put itself in place
        return _Local(other, self._line) if frame.f_code.co_filename in self._traced.files else other

    def _line(self, frame: FrameType) -> None:
        told = False
        try:
            self._traced.tell(frame.f_code, frame.f_lineno)
            told = True
        finally:
            if not told:  # an error of a trace function ends all tracing: the other hears that these frames end
                self._unwind(frame)

    def _unwind(self, frame: FrameType | None) -> None:
        while frame is not None and frame is not self._below:
            local = frame.f_trace
            other: Any = local.other if isinstance(local, _Local) else local
            if other is not None:
                other(frame, "return", None)
            frame = frame.f_back


class _Traced:
    """The trace function tells."""

    def __init__(self, files: frozenset[str], tell: Callable[[CodeType, int], None]) -> None:
        self.files, self.tell = files, tell
        self.over = False

    def __enter__(self) -> Self:
        here = currentframe()
        self._here = _Chain(self, sys.gettrace(), None if here is None else here.f_back)
        self._threads: Any = threading.gettrace()
        self._open: list[FrameType] = []
        while self._here.other is not None and here is not None:
            if here.f_trace is None:  # a tracer written in C needs none, but hears nothing while ours is in its place
                here.f_trace = self._here.other
                self._open.append(here)
            here = here.f_back
        threading.settrace(self._begun)
        sys.settrace(self._here.trace)
        return self

    def __exit__(self, *_: object) -> None:
        other = self._here.other
        lost = sys.gettrace() is not self._here.trace  # after an error of a trace function there is none
        self.over = True
        threading.settrace(self._threads)
        sys.settrace(other)
        if other is not None and lost:
            other(currentframe(), "call", None)  # it will hear that this call ends
        _a_call()  # at which a tracer written in C puts itself in place again
        for frame in self._open:
            frame.f_trace = None

    def _begun(self, frame: FrameType, event: str, arg: Any) -> Any:
        """A thread has begun, in which another tracer may put one of its own in place."""
        sys.settrace(None)
        local = None if self._threads is None else self._threads(frame, event, arg)
        chain = _Chain(self, sys.gettrace() or self._threads)
        sys.settrace(chain.trace)
        return local


def _a_call() -> None:
    """Do nothing."""


def telling(files: Iterable[str], tell: Callable[[CodeType, int], None]) -> _Monitored | _Traced:
    """A block in which `tell(code, line)` is called before each line of these files is executed."""
    kind = _Monitored if hasattr(sys, "monitoring") else _Traced
    return kind(frozenset(files), tell)
