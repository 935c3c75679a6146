"""A proxy in front of a Postgres server that reads the stream of messages, and so faults a statement by its meaning.

What a client sends up to a Sync or as one Query is a *request*: for a store, one statement in a transaction of its own.
A fault is armed for one request and strikes once:

- `before`: the connection is lost before the server hears of it
- `in`: the server has done it all but the commit when the connection is lost
- `after`: the server has committed, and the connection is lost before the client hears of it
- `hold`: the answer waits until `release()`
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

When = Literal["before", "in", "after", "hold"]

_WITHOUT_TYPE: Final = (80877103, 80877104)  # SSLRequest, GSSENCRequest: the real start follows
_RESET: Final = struct.pack("ii", 1, 0)


class Wire:
    """The proxy, up while its `with` block is entered; clients connect to `dsn`."""

    def __init__(self, dsn: str) -> None:
        given = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
        self._host, self._port = given.get("host", "localhost"), int(given.get("port", 5432))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._here: tuple[str, int] = self._listening.getsockname()
        host, port = self._here
        self.dsn = make_conninfo(dsn, host=host, port=port, sslmode="disable", gssencmode="disable")
        self._lock = threading.Lock()
        self._armed: tuple[When, str, int] | None = None
        self._released = threading.Event()
        self._links: list[_Link] = []
        self.held = threading.Event()
        """Set while an answer is held."""
        self.requests: list[str] = []
        """The texts of the requests so far."""
        self.prepared: list[str] = []
        """The texts that the server was asked to keep, in round trips in which it does nothing else."""
        self.fired = 0
        """How many faults have struck."""
        self.heard: Callable[[str], object] | None = None
        """Called with the text of each request before the server gets it."""

    def __enter__(self) -> Self:
        """Begin to listen."""
        self._listen()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cut every connection."""
        self._released.set()
        self.stop_listening()
        self.cut()

    def stop_listening(self) -> None:
        """Refuse new connections."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def listen(self) -> None:
        """Take new connections again."""
        self._listening = socket.create_server(self._here)
        self._listen()

    def _listen(self) -> None:
        work = (self._listening,)
        threading.Thread(target=self._accept, args=work, name="fastdur wire", daemon=True).start()

    def arm(self, when: When, text: str = "", nth: int = 1) -> None:
        """Fault the `nth` request from now on whose statement contains `text`."""
        with self._lock:
            self._armed = (when, text, nth)
            self.held.clear()
            self._released.clear()

    def disarm(self) -> bool:
        """Take back a fault that has not struck; tell whether there was one."""
        with self._lock:
            armed, self._armed = self._armed, None
            return armed is not None

    def release(self) -> None:
        """Let the answer that is held go on."""
        self._released.set()

    def cut(self) -> int:
        """Lose every connection there is; return how many there were."""
        with self._lock:
            links = self._links[:]
        for link in links:
            link.cut()
        return len(links)

    @property
    def connections(self) -> int:
        """How many are open."""
        with self._lock:
            return len(self._links)

    # -- what the links ask ------------------------------------------------------------------------------------------

    def fault_for(self, text: str) -> When | None:
        """Note a request; return the fault that strikes it."""
        with self._lock:
            self.requests.append(text)
            if self._armed is None or self._armed[1] not in text:
                return None
            when, wanted, nth = self._armed
            self._armed = None if nth == 1 else (when, wanted, nth - 1)
            if nth > 1:
                return None
            self.fired += 1
            return when

    def hold(self) -> None:
        """Wait for the release."""
        self.held.set()
        self._released.wait()

    def forget(self, link: _Link) -> None:
        """A connection is gone."""
        with self._lock, suppress(ValueError):
            self._links.remove(link)

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            try:
                link = _Link(self, client, self._host, self._port)
            except OSError:  # the client has gone already
                client.close()
                continue
            with self._lock:
                self._links.append(link)
            link.start()


class _Link:
    """One client's connection and the one to the server behind it."""

    def __init__(self, wire: Wire, client: socket.socket, host: str, port: int) -> None:
        self._wire = wire
        self._client = client
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if host.startswith("/"):
            self._server = socket.socket(socket.AF_UNIX)
            self._address: str | tuple[str, int] = os.path.join(host, f".s.PGSQL.{port}")  # noqa: PTH118 - an address
        else:
            self._server = socket.socket()
            self._address = (host, port)
        self._fault: When | None = None
        self._kept: dict[bytes, str] = {}

    def start(self) -> None:
        for work in (self._up, self._down) if self._connected() else ():
            threading.Thread(target=self._guarded, args=(work,), name="fastdur wire", daemon=True).start()

    def _connected(self) -> bool:
        try:
            self._server.connect(self._address)
        except OSError:
            self.cut()
            return False
        return True

    def _guarded(self, work: object) -> None:
        with suppress(OSError, EOFError):
            assert callable(work)
            work()
        self.cut()

    def cut(self) -> None:
        """Lose the connection on both sides: a reset, as when a machine dies."""
        self._wire.forget(self)
        for end in (self._client, self._server):
            with suppress(OSError):
                if end.family != socket.AF_UNIX:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                end.shutdown(socket.SHUT_RDWR)  # wakes who reads there; else the server would keep its locks
            end.close()

    def _up(self) -> None:
        self._greet()
        request: list[bytes] = []
        text = ""
        works = False
        while True:
            kind, raw = _message(self._client)
            request.append(raw)
            works = works or kind in (b"E", b"Q")
            if kind == b"P":
                name, said, _ = raw[5:].split(b"\0", 2)
                text = self._kept[name] = said.decode("utf-8", "replace")
            elif kind == b"B":
                text = self._kept.get(raw[5:].split(b"\0", 2)[1], text)
            elif kind == b"Q":
                text = raw[5:-1].decode("utf-8", "replace")
            elif kind == b"X":
                self._server.sendall(raw)
            if kind in (b"S", b"Q"):
                if works:
                    self._send(request, text)
                else:
                    self._wire.prepared.append(text)
                    self._server.sendall(b"".join(request))
                request, text, works = [], "", False

    def _greet(self) -> None:
        code = _WITHOUT_TYPE[0]
        while code in _WITHOUT_TYPE:
            size = _received(self._client, 4)
            body = _received(self._client, struct.unpack("!I", size)[0] - 4)
            self._server.sendall(size + body)
            (code,) = struct.unpack("!I", body[:4])

    def _send(self, request: list[bytes], text: str) -> None:
        fault = self._wire.fault_for(text)
        if self._wire.heard is not None:
            self._wire.heard(text)
        whole = b"".join(request)
        if fault == "in" and len(request) == 1:
            self._server.sendall(whole[:-1])  # a Query is begun, worked and committed in one: it stays half said
            raise EOFError
        if fault == "before":
            raise EOFError
        self._fault = fault
        # Flush in place of Sync: the server does the work and answers, and does not commit.
        self._server.sendall(whole if fault != "in" else b"".join(request[:-1]) + b"H\0\0\0\4")

    def _down(self) -> None:
        while True:
            kind, raw = _message(self._server)
            if self._fault == "in" and kind in (b"C", b"E"):
                raise EOFError
            if self._fault == "after" and kind == b"Z":
                raise EOFError
            if self._fault == "hold" and kind == b"Z":
                self._fault = None
                self._wire.hold()
            if self._fault in (None, "hold"):
                self._client.sendall(raw)


def _message(end: socket.socket) -> tuple[bytes, bytes]:
    head = _received(end, 5)
    return head[:1], head + _received(end, struct.unpack("!I", head[1:])[0] - 4)


def _received(end: socket.socket, size: int) -> bytes:
    parts: list[bytes] = []
    while size:
        part = end.recv(min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
