"""Counting what a process asks of the kernel, with nothing but the kernel: a tracer of two calls.

A program says where counting begins by a write to standard output; from then on every sync and every byte written to a
file at an offset is counted, whatever library asks for it.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys

_TRACEME, _SYSCALL, _SETOPTIONS, _GET_SYSCALL_INFO = 0, 24, 0x4200, 0x420E
_TRACESYSGOOD, _EXITKILL = 1, 0x100000
_NUMBERS = {
    "x86_64": {"write": 1, "pwrite": 18, "fsync": 74, "fdatasync": 75},
    "aarch64": {"write": 64, "pwrite": 68, "fsync": 82, "fdatasync": 83},
}


class _Info(ctypes.Structure):
    _fields_ = (
        ("op", ctypes.c_uint8),
        ("pad", ctypes.c_uint8 * 3),
        ("arch", ctypes.c_uint32),
        ("instruction", ctypes.c_uint64),
        ("stack", ctypes.c_uint64),
        ("value", ctypes.c_uint64),  # at the entry the number of the call, at the exit its result
        ("arguments", ctypes.c_uint64 * 6),
    )


_ENTRY, _EXIT = 1, 2


def counted(code: str, *arguments: str) -> tuple[int, int]:
    """Run `code` in a fresh process of one thread; return its syncs and the bytes it wrote, from its first output on."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.restype = ctypes.c_long
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    numbers = _NUMBERS[platform.machine()]
    child = os.fork()
    if child == 0:
        libc.ptrace(_TRACEME, 0, None, None)
        os.execv(sys.executable, [sys.executable, "-c", code, *arguments])
    os.waitpid(child, 0)
    assert libc.ptrace(_SETOPTIONS, child, None, _TRACESYSGOOD | _EXITKILL) == 0
    info = _Info()
    syncs = written = call = 0
    counting = False
    passed_on = 0
    while True:
        libc.ptrace(_SYSCALL, child, None, passed_on)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            assert counting
            return syncs, written
        stopped_by = os.WSTOPSIG(status)
        passed_on = 0 if stopped_by in (signal.SIGTRAP | 0x80, signal.SIGTRAP) else stopped_by
        if stopped_by != signal.SIGTRAP | 0x80:
            continue
        libc.ptrace(_GET_SYSCALL_INFO, child, ctypes.sizeof(info), ctypes.addressof(info))
        if info.op == _ENTRY:
            call = info.value
            counting = counting or (call == numbers["write"] and info.arguments[0] == 1)
        elif info.op == _EXIT and counting:
            syncs += call in (numbers["fsync"], numbers["fdatasync"])
            written += info.value if call == numbers["pwrite"] else 0
