"""A small payment server, a process of its own that outlives every kill of the process under test.

    python -m scenarios.payments --port 0 --file payments.jsonl

prints the port it listens on. It moves no money, but it behaves like those that do:

    POST   /charges, /refunds     {"customer": "ada", "amount": 120}, with or without an `Idempotency-Key`
                                  201: made. 200: this key was used before, for the same; here is that payment again.
                                  409: this key was used before, for something else. 400: not a payment at all
    GET    /charges, /refunds     what was made; `?customer=ada` for one customer
    DELETE /charges, /refunds     forget them, and their keys
    GET    /attempts              every complete request to move money, and what came of it
    PUT    /attempts              the same list, given back: the server knows this and nothing else

Two requests at once under one key are one payment: the second waits for the first and gets the same answer. A request
that breaks off in the middle is no request. Each attempt is a line of the file before it is answered, so what was paid
can be counted without asking the server; a server that is started on an old file goes on from there.
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
from typing import TYPE_CHECKING, Any, cast, get_args
from urllib.parse import parse_qs, urlsplit

from scenarios._http import Attempt, Kind, Outcome, Payment, Payments

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

ROOT = Path(__file__).resolve().parent.parent


def recorded(file: Path) -> list[Attempt]:
    """What the server that writes to `file` knows, read from outside."""
    attempts: list[Attempt] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if "forget" in event:
            attempts = [attempt for attempt in attempts if attempt["kind"] not in event["forget"]]
        else:
            attempts.append(event)
    return attempts


class Books:
    """Every attempt since the last reset, in memory and in an append-only file, the file first.

    A line reaches the operating system before the attempt is answered: it survives any kill. One lock makes looking up
    a key and paying one step.
    """

    def __init__(self, file: Path) -> None:
        self._lock = threading.Lock()
        self._file = file.open("a", encoding="utf-8")
        self._know(recorded(file))

    def pay(self, kind: Kind, customer: str, amount: int, key: str | None) -> Attempt:
        """Make this payment, unless the key was used before."""
        with self._lock:
            first = self._by_key.get(key) if key is not None else None
            outcome: Outcome = "made"
            if first is not None:
                same = (first["kind"], first["customer"], first["amount"]) == (kind, customer, amount)
                outcome = "replayed" if same else "refused"
            attempt = Attempt(
                id=first["id"] if first is not None else f"{kind[:2]}_{len(self._made[kind]) + 1}",
                kind=kind,
                customer=customer,
                amount=amount,
                key=key,
                outcome=outcome,
            )
            self._write(attempt)
            self._add(attempt)
        return attempt

    def payments(self, kind: Kind, customer: str | None) -> list[Payment]:
        """What was made, for one customer or for all."""
        with self._lock:
            return [_payment(attempt) for attempt in self._made[kind] if customer in (None, attempt["customer"])]

    def attempts(self) -> list[Attempt]:
        """All there is to know."""
        with self._lock:
            return list(self._attempts)

    def replace(self, kinds: tuple[Kind, ...], attempts: list[Attempt]) -> None:
        """Forget everything of these kinds and know `attempts` instead."""
        with self._lock:
            self._write({"forget": kinds}, *attempts)
            self._know([attempt for attempt in self._attempts if attempt["kind"] not in kinds] + attempts)

    def _know(self, attempts: list[Attempt]) -> None:
        self._attempts: list[Attempt] = []
        self._made: dict[Kind, list[Attempt]] = {kind: [] for kind in get_args(Kind)}
        self._by_key: dict[str, Attempt] = {}
        for attempt in attempts:
            self._add(attempt)

    def _add(self, attempt: Attempt) -> None:
        self._attempts.append(attempt)
        if attempt["outcome"] == "made":
            self._made[attempt["kind"]].append(attempt)
            if attempt["key"] is not None:
                self._by_key[attempt["key"]] = attempt

    def _write(self, *lines: Mapping[str, object]) -> None:
        self._file.write("".join(json.dumps(line) + "\n" for line in lines))
        self._file.flush()


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

    def __init__(self, port: int, books: Books) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.books = books

    def handle_error(self, request: Any, client_address: Any) -> None:  # socketserver's signature
        """Say nothing of a client that is gone."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Reads requests, asks the books, writes answers."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # an answer leaves in one piece

    def do_GET(self) -> None:
        """What is there."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """Move money."""
        self._answer(self._post)

    def do_PUT(self) -> None:
        """Go back to what the caller has seen before."""
        self._answer(self._put)

    def do_DELETE(self) -> None:
        """Forget."""
        self._answer(self._delete)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""

    @property
    def _books(self) -> Books:
        return cast("Server", self.server).books

    def _get(self, path: str, _: object) -> tuple[int, object]:
        if path == "attempts":
            return 200, self._books.attempts()
        customers = parse_qs(urlsplit(self.path).query, keep_blank_values=True).get("customer", [None])
        return 200, self._books.payments(_kind(path), customers[0])

    def _post(self, path: str, body: object) -> tuple[int, object]:
        match body:
            case {"customer": str(customer), "amount": int(amount), **rest} if not rest and amount > 0:
                attempt = self._books.pay(_kind(path), customer, amount, self.headers["Idempotency-Key"])
            case _:
                raise Refusal(400, 'not a payment. Send {"customer": a text, "amount": a whole number above 0}')
        if attempt["outcome"] == "refused":
            raise Refusal(409, f"key {attempt['key']!r} was used for another payment ({attempt['id']})")
        return 201 if attempt["outcome"] == "made" else 200, _payment(attempt)

    def _put(self, path: str, body: object) -> tuple[int, object]:
        if path != "attempts" or not isinstance(body, list):
            raise Refusal(400, "only a list of attempts can be put back, to /attempts")
        self._books.replace(get_args(Kind), body)
        return 200, body

    def _delete(self, path: str, _: object) -> tuple[int, object]:
        self._books.replace((_kind(path),), [])
        return 200, []

    def _answer(self, method: Callable[[str, object], tuple[int, object]]) -> None:
        try:
            length = int(self.headers["Content-Length"] or 0)
            sent = self.rfile.read(length)
            if len(sent) < length:  # the client died while it was still talking
                self.close_connection = True
                return
            status, answer = method(urlsplit(self.path).path.strip("/"), json.loads(sent or b"null"))
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


def _kind(path: str) -> Kind:
    if path not in get_args(Kind):
        raise Refusal(404, f"nothing at /{path}")
    return cast("Kind", path)


def _payment(attempt: Attempt) -> Payment:
    return Payment(id=attempt["id"], customer=attempt["customer"], amount=attempt["amount"])


class PaymentServer:
    """The payment server as a subprocess, started and stopped by `with`.

    It leads a session of its own, so that no signal to the process under test or to its group reaches it, and it ends
    with the process that started it at the latest. Without a `file` it writes to a temporary one.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._given = file

    def __enter__(self) -> Self:
        """Start it and wait until it listens."""
        with ExitStack() as stack:
            self.file = self._given or Path(stack.enter_context(TemporaryDirectory())) / "payments.jsonl"
            command = ["-m", "scenarios.payments", "--port", "0", "--file", str(self.file.resolve()), "--until-eof"]
            self._process = subprocess.Popen(
                [sys.executable, *command],
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
                raise RuntimeError("the payment server did not start; what it said stands above")
            self.url = f"http://127.0.0.1:{port}"
            self.client = Payments(self.url)
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


def _stop_at_eof(server: Server) -> None:
    sys.stdin.read()
    server.shutdown()


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(prog="python -m scenarios.payments", description="A small payment server.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one; it is printed either way")
    parser.add_argument("--file", type=Path, required=True, help="where each attempt becomes a line")
    parser.add_argument("--until-eof", action="store_true", help="end when standard input ends")
    options = parser.parse_args()
    with Server(options.port, Books(options.file)) as server:
        print(server.server_address[1], flush=True)
        if options.until_eof:
            threading.Thread(target=_stop_at_eof, args=(server,), daemon=True).start()
        with suppress(KeyboardInterrupt):
            server.serve_forever()


if __name__ == "__main__":
    main()
