"""Listening at the file layer of the SQLite library that Python itself uses: every write, sync and unlink of a store.

SQLite reaches files through a table of functions, its VFS. While somebody listens, the default one is a copy of the
system's in which opening and deleting are reported, and files that were opened through it report their writes,
truncations and syncs; each does what it did before. That the directory of a file is synced, which SQLite does below
that table, is seen where it opens the directory. The library is reached through the module `_sqlite3`; a Python into
which it is built without its names cannot be listened to.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Generator

_MAIN_DB, _JOURNAL, _WAL = 0x100, 0x800, 0x80000
_WATCHED = _MAIN_DB | _JOURNAL | _WAL

_int, _ptr, _i64 = ctypes.c_int, ctypes.c_void_p, ctypes.c_int64
_Open = ctypes.CFUNCTYPE(_int, _ptr, _ptr, _ptr, _int, _ptr)
_Delete = ctypes.CFUNCTYPE(_int, _ptr, _ptr, _int)
_Close = ctypes.CFUNCTYPE(_int, _ptr)
_Transfer = ctypes.CFUNCTYPE(_int, _ptr, _ptr, _int, _i64)
_Truncate = ctypes.CFUNCTYPE(_int, _ptr, _i64)
_Sync = ctypes.CFUNCTYPE(_int, _ptr, _int)
_Size = ctypes.CFUNCTYPE(_int, _ptr, ctypes.POINTER(_i64))
_OpenDirectory = ctypes.CFUNCTYPE(_int, _ptr, _ptr)
_SetCall = ctypes.CFUNCTYPE(_int, _ptr, ctypes.c_char_p, _ptr)
_GetCall = ctypes.CFUNCTYPE(_ptr, _ptr, ctypes.c_char_p)


class _Vfs(ctypes.Structure):
    _fields_ = (
        ("version", _int),
        ("size_of_file", _int),
        ("longest_path", _int),
        ("next", _ptr),
        ("name", _ptr),
        ("data", _ptr),
        ("open", _ptr),
        ("delete", _ptr),
        ("others", _ptr * 11),
        ("set_system_call", _ptr),
        ("get_system_call", _ptr),
        ("next_system_call", _ptr),
    )


class _Methods(ctypes.Structure):
    _fields_ = (
        ("version", _int),
        ("close", _ptr),
        ("read", _ptr),
        ("write", _ptr),
        ("truncate", _ptr),
        ("sync", _ptr),
        ("size", _ptr),
        ("others", _ptr * 12),
    )


_SIZES = {1: 13 * 8, 2: 17 * 8, 3: 19 * 8}
"""How long the table of a file is, by its version, where a pointer has eight bytes."""


class Listener(Protocol):
    """What is told of the files of one database, before the system does it; `name` is the name within the folder."""

    def opened(self, name: str, content: bytes, *, new: bool) -> int:
        """A file is open, which the system has made for it where it is `new`; return its inode."""
        ...

    def wrote(self, inode: int, at: int, data: bytes) -> None:
        """Bytes go into a file."""
        ...

    def truncated(self, inode: int, size: int) -> None:
        """A file gets another length."""
        ...

    def synced(self, inode: int) -> None:
        """What was written to a file is to reach the disk."""
        ...

    def folder_synced(self) -> None:
        """What the directory says is to reach the disk."""
        ...

    def unlinked(self, name: str) -> None:
        """A file is gone from the directory."""
        ...


class Unreachable(Exception):
    """The library that this Python uses cannot be listened to."""


class _Layer:
    """The copy of the system's VFS; made once, because connections keep pointing to it."""

    def __init__(self) -> None:
        import _sqlite3

        try:
            self._library = ctypes.CDLL(getattr(_sqlite3, "__file__", None))
            find, register = self._library.sqlite3_vfs_find, self._library.sqlite3_vfs_register
        except (AttributeError, OSError) as error:
            raise Unreachable(str(error)) from None
        find.restype, find.argtypes = _ptr, (ctypes.c_char_p,)
        register.restype, register.argtypes = _int, (_ptr, _int)
        self._register = register
        self._system_at: int = find(None)
        system = _Vfs.from_address(self._system_at)
        if ctypes.sizeof(_ptr) != 8 or system.version < 3:  # noqa: PLR2004 - what `_SIZES` and `_Vfs` say
            message = "its file layer has another form"
            raise Unreachable(message)
        self._open, self._delete = _Open(system.open), _Delete(system.delete)
        self._set_call = _SetCall(system.set_system_call)
        get_call = _GetCall(system.get_system_call)
        self._open_directory = _OpenDirectory(get_call(self._system_at, b"openDirectory"))
        self._callbacks = (_Open(self._on_open), _Delete(self._on_delete), _OpenDirectory(self._on_directory))
        self._vfs = _Vfs.from_buffer_copy(system)
        self._name = ctypes.create_string_buffer(b"fastdur-power")
        self._vfs.name = ctypes.addressof(self._name)
        self._vfs.open, self._vfs.delete = (ctypes.cast(call, _ptr).value for call in self._callbacks[:2])
        self._methods: dict[int, tuple[int, Any]] = {}
        self._files: dict[int, tuple[Listener, int, int]] = {}
        self.listeners: dict[str, Listener] = {}
        """By the path of the database."""

    def switch(self, *, on: bool) -> None:
        """Let connections that are opened from now on go through it, or no longer."""
        self._register(ctypes.addressof(self._vfs) if on else self._system_at, 1)
        call = ctypes.cast(self._callbacks[2], _ptr) if on else None
        self._set_call(self._system_at, b"openDirectory", call)

    def let_go(self, path: str) -> None:
        """Tell nobody any more, also not of files that are still open: they may be closed when Python has ended."""
        listener = self.listeners.pop(path)
        for file, (told, _, real) in list(self._files.items()):
            if told is listener:
                _ptr.from_address(file).value = real
                del self._files[file]

    def _listener(self, path: str) -> tuple[Listener | None, str]:
        base = path.removesuffix("-wal").removesuffix("-journal")
        return self.listeners.get(base), path.rpartition("/")[2]

    def _on_open(self, _: int, name: int | None, file: int, flags: int, out: int | None) -> int:
        watched = bool(name and flags & _WATCHED)
        new = watched and not os.path.lexists(ctypes.string_at(name or 0))
        code: int = self._open(self._system_at, name, file, flags, out)
        if code == 0 and name and watched:
            listener, base = self._listener(ctypes.string_at(name).decode())
            pointer = _ptr.from_address(file)
            if listener is not None and pointer.value:
                real = pointer.value
                self._files[file] = listener, listener.opened(base, self._content(file, real), new=new), real
                pointer.value = self._reporting(real)
        return code

    @staticmethod
    def _content(file: int, methods: int) -> bytes:
        """What is in a file, read through the descriptor that SQLite has: one of our own would drop its locks."""
        real = _Methods.from_address(methods)
        size = _i64()
        _Size(real.size)(file, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value or 1)
        if size.value:
            _Transfer(real.read)(file, buffer, size.value, 0)
        return buffer.raw[: size.value]

    def _reporting(self, methods: int) -> int:
        """The table of a file whose own is at `methods`, with ours in front of what we want to know."""
        if methods not in self._methods:
            real = _Methods.from_address(methods)
            close, write = _Close(real.close), _Transfer(real.write)
            truncate, sync = _Truncate(real.truncate), _Sync(real.sync)

            def on_close(file: int) -> int:
                self._files.pop(file, None)
                return close(file)  # type: ignore[no-any-return]

            def on_write(file: int, data: int, size: int, at: int) -> int:
                listener, inode, _ = self._files[file]
                listener.wrote(inode, at, ctypes.string_at(data, size))
                return write(file, data, size, at)  # type: ignore[no-any-return]

            def on_truncate(file: int, size: int) -> int:
                listener, inode, _ = self._files[file]
                listener.truncated(inode, size)
                return truncate(file, size)  # type: ignore[no-any-return]

            def on_sync(file: int, flags: int) -> int:
                listener, inode, _ = self._files[file]
                listener.synced(inode)
                return sync(file, flags)  # type: ignore[no-any-return]

            calls = (_Close(on_close), _Transfer(on_write), _Truncate(on_truncate), _Sync(on_sync))
            copy = _Methods()
            ctypes.memmove(ctypes.addressof(copy), methods, _SIZES[min(real.version, 3)])
            copy.close, copy.write, copy.truncate, copy.sync = (ctypes.cast(call, _ptr).value for call in calls)
            self._methods[methods] = ctypes.addressof(copy), (copy, calls)
        return self._methods[methods][0]

    def _on_delete(self, _: int, name: int, sync: int) -> int:
        listener, base = self._listener(ctypes.string_at(name).decode())
        if listener is not None and os.path.lexists(ctypes.string_at(name)):
            listener.unlinked(base)
        return self._delete(self._system_at, name, sync)  # type: ignore[no-any-return]

    def _on_directory(self, path: int, descriptor: int) -> int:
        listener, _ = self._listener(ctypes.string_at(path).decode())
        if listener is not None:
            listener.folder_synced()
        return self._open_directory(path, descriptor)  # type: ignore[no-any-return]


@cache
def _layer() -> _Layer:
    return _Layer()


def why_not() -> str | None:
    """Why nobody can listen in this Python; None where that is possible."""
    try:
        _layer()
    except Unreachable as error:
        return str(error)
    return None


@contextmanager
def listening(path: str, listener: Listener) -> Generator[None]:
    """Tell `listener` what happens to the database at `path` in the block, by connections that are opened in it.

    No other thread may be at work on that database when the block ends.
    """
    layer = _layer()
    if not layer.listeners:
        layer.switch(on=True)
    layer.listeners[path] = listener
    try:
        yield
    finally:
        layer.let_go(path)
        if not layer.listeners:
            layer.switch(on=False)
