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

import json
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args
from urllib.parse import parse_qs, urlsplit

from scenarios._http import Attempt, Kind, Outcome, Payment, Payments
from scenarios._serving import Handler, Process, Refusal, Server, options

if TYPE_CHECKING:
    from collections.abc import Mapping


class Ledger:
    """What the server that writes to `file` knows, read from outside: each time only what has come since.

    The server writes before it answers, so whoever has an answer finds it here, at a tenth of the price of asking.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read = 0
        self._attempts: list[Attempt] = []

    def attempts(self) -> list[Attempt]:
        """Every attempt since the last reset."""
        with self._file.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            event = json.loads(line)
            if "forget" in event:
                self._attempts = [known for known in self._attempts if known["kind"] not in event["forget"]]
            else:
                self._attempts.append(event)
        return list(self._attempts)


def recorded(file: Path) -> list[Attempt]:
    """What the server that writes to `file` knows."""
    return Ledger(file).attempts()


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


class Desk(Handler):
    """Asks the books."""

    def answer(self, method: str, path: str, body: Any) -> tuple[int, object]:
        """Look, move money, go back, forget."""
        ways = {"GET": self._get, "POST": self._post, "PUT": self._put, "DELETE": self._delete}
        return ways[method](path, body)

    @property
    def _books(self) -> Books:
        return cast("Books", self.books)

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


def _kind(path: str) -> Kind:
    if path not in get_args(Kind):
        raise Refusal(404, f"nothing at /{path}")
    return cast("Kind", path)


def _payment(attempt: Attempt) -> Payment:
    return Payment(id=attempt["id"], customer=attempt["customer"], amount=attempt["amount"])


class PaymentServer(Process):
    """The payment server as a subprocess, started and stopped by `with`.

    Without a `file` it writes to a temporary one.
    """

    module = "scenarios.payments"
    called = "payment server"

    def __init__(self, file: Path | None = None) -> None:
        self._given = file

    def arguments(self, folder: Path) -> list[str]:
        """Where it writes."""
        self.file = self._given or folder / "payments.jsonl"
        return ["--file", str(self.file.resolve())]

    def connect(self) -> None:
        """Make a client."""
        self.client = Payments(self.url)
        self.ledger = Ledger(self.file)

    def reset(self) -> None:
        """Make it forget every payment and every key."""
        self.client.reset()

    def counts(self) -> Mapping[str, int]:
        """How many charges and refunds were made."""
        made = Counter(attempt["kind"] for attempt in self.ledger.attempts() if attempt["outcome"] == "made")
        return {kind: made[kind] for kind in get_args(Kind)}

    def seen(self) -> list[str]:
        """Every request to move money."""
        return ["{kind:8} {id:5} {outcome:9} {amount:4} {customer}".format_map(each) for each in self.client.attempts()]


def main() -> None:
    """Serve until stopped."""
    parser = options("scenarios.payments", "A small payment server.")
    parser.add_argument("--file", type=Path, required=True, help="where each attempt becomes a line")
    given = parser.parse_args()
    with Server(given.port, Desk, Books(given.file)) as server:
        server.serve(until_eof=given.until_eof)


if __name__ == "__main__":
    main()
