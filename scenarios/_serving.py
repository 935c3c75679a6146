"""What the counterparts share: a small HTTP server, and how one runs as a process of its own.

What was done to the world must be counted by somebody who does not die with the process that did it. So each
counterpart is a subprocess that leads a session of its own: no signal to the process under test or to its group reaches
it. The kernel chooses its port, which is the first line that it prints, and it ends when its standard input does: with
the process that started it at the latest.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import TCPServer, ThreadingMixIn
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, cast
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

ROOT = Path(__file__).resolve().parent.parent


class Counterpart:
    """The other side of a story, used in a `with` block. It outlives whatever is killed, and counts what was done.

    `url` is where it is reached, `called` what it is in a sentence.
    """

    called: ClassVar[str]
    url: str

    def __enter__(self) -> Self:
        """Be there."""
        raise NotImplementedError

    def __exit__(self, *_: object) -> None:
        """Be gone."""
        raise NotImplementedError

    def reset(self) -> None:
        """Forget everything."""
        raise NotImplementedError

    def counts(self) -> Mapping[str, int]:
        """How often each thing was done."""
        raise NotImplementedError

    def seen(self) -> list[str]:
        """What was done, a line each."""
        raise NotImplementedError


class Process(Counterpart):
    """A counterpart that is a subprocess. A subclass names the module that is run."""

    module: ClassVar[str]
    scheme: ClassVar[str] = "http"

    def arguments(self, folder: Path) -> list[str]:
        """What the module is run with; `folder` is gone when the server is."""
        del folder
        return []

    def connect(self) -> None:
        """Make what talks to the server, which listens now."""

    def __enter__(self) -> Self:
        """Start it and wait until it listens."""
        with ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory()))
            command = [sys.executable, "-m", self.module, "--port", "0", "--until-eof", *self.arguments(folder)]
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            self._owner = os.getpid()
            stack.enter_context(self._process)
            port = cast("Any", self._process.stdout).readline().strip()
            if not port:
                message = f"the {self.called} did not start; what it said stands above"
                raise RuntimeError(message)
            self.url = f"{self.scheme}://127.0.0.1:{port}"
            self.connect()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it; in a child made by fork, leave it to the parent."""
        if os.getpid() == self._owner:
            self._process.terminate()
            self._stack.close()

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self._process.pid


def options(module: str, description: str) -> argparse.ArgumentParser:
    """The options that every server has."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one; it is printed either way")
    parser.add_argument("--until-eof", action="store_true", help="end when standard input ends")
    return parser


def announce(port: int, stop: Callable[[], object], *, until_eof: bool) -> None:
    """Say where it listens, and have it stopped when nobody is left to serve."""

    def wait() -> None:
        sys.stdin.read()
        stop()

    print(port, flush=True)
    if until_eof:
        threading.Thread(target=wait, daemon=True).start()


class Refusal(Exception):  # an answer, not a fault of the server
    """What the server answers instead of doing it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Server(ThreadingMixIn, TCPServer):
    """A thread for each connection; nothing that a client does to its connection is worth a word."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, port: int, handler: type[Handler], books: object) -> None:
        super().__init__(("127.0.0.1", port), handler)
        self.books = books

    def handle_error(self, request: Any, client_address: Any) -> None:  # socketserver's signature
        """Say nothing of a client that is gone."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def serve(self, *, until_eof: bool) -> None:
        """Serve until stopped."""
        announce(self.server_address[1], self.shutdown, until_eof=until_eof)
        with suppress(KeyboardInterrupt):
            self.serve_forever()


class Handler(BaseHTTPRequestHandler):
    """Reads JSON, has a subclass answer it, writes JSON."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # an answer leaves in one piece

    def answer(self, method: str, path: str, body: Any) -> tuple[int, object]:
        """Return the status and the answer to one request. Raises `Refusal`."""
        raise NotImplementedError

    def do_GET(self) -> None:
        """What is there."""
        self._answer("GET")

    def do_POST(self) -> None:
        """Do it."""
        self._answer("POST")

    def do_PUT(self) -> None:
        """Go back to what the caller has seen before."""
        self._answer("PUT")

    def do_DELETE(self) -> None:
        """Forget."""
        self._answer("DELETE")

    def log_message(self, *_: object) -> None:
        """Keep quiet."""

    @property
    def books(self) -> Any:
        """What the server knows."""
        return cast("Server", self.server).books

    def _answer(self, method: str) -> None:
        try:
            length = int(self.headers["Content-Length"] or 0)
            sent = self.rfile.read(length)
            if len(sent) < length:  # the client died while it was still talking
                self.close_connection = True
                return
            status, answer = self.answer(method, urlsplit(self.path).path.strip("/"), json.loads(sent or b"null"))
        except Refusal as refusal:
            status, answer = refusal.status, {"error": str(refusal)}
        except ValueError:
            status, answer = 400, {"error": "the body is not JSON"}
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
