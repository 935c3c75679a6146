"""Clients of the HTTP counterparts, on the standard library alone.

Every call opens a connection of its own and closes it before it returns. So nothing is open between two calls: a child
made by fork inherits no connection, and a process that dies leaves nothing half used behind.
"""

from __future__ import annotations

import json
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any, Literal, TypedDict
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Kind = Literal["charges", "refunds"]
Outcome = Literal["made", "replayed", "refused"]


class Payment(TypedDict):
    """A charge or a refund that was made."""

    id: str
    customer: str
    amount: int


class Attempt(Payment):
    """One complete request, and what came of it.

    `made` moved money; `replayed` came with a key that was used before, and got that payment once more; `refused` came
    with a key that was used before for something else (`id` names what).
    """

    kind: Kind
    key: str | None
    outcome: Outcome


class Refused(Exception):
    """The server said no. `status` is its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class PaymentError(Refused):
    """The payment server said no: with 409 where a key was used for something else."""


def ask(
    url: str,
    method: str,
    path: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
    *,
    timeout: float = 10.0,
    refused: type[Refused] = Refused,
) -> Any:
    """The answer to one request in JSON. Raises `refused` for a status of 400 and above, `OSError` where nobody is."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "127.0.0.1", parts.port, timeout=timeout)
    try:
        sent = {"Content-Type": "application/json", "Connection": "close", **(headers or {})}
        connection.request(method, path, None if body is None else json.dumps(body), sent)
        response = connection.getresponse()
        answer = json.loads(response.read())
    finally:
        connection.close()
    if response.status >= 400:  # noqa: PLR2004 - where HTTP's errors begin
        raise refused(response.status, answer["error"])
    return answer


def under_key(key: str | None) -> dict[str, str]:
    """The header by which a provider tells that a request is the same one again."""
    return {} if key is None else {"Idempotency-Key": key}


class Payments:
    """The payment server at `url`, seen from a client.

    `charge` and `refund` move money. With a `key` the server does it once, however often it is asked to; without one
    it does it once for each request. The other methods look at the server from outside.
    """

    def __init__(self, url: str, timeout: float = 10.0) -> None:
        self.url = url
        self._timeout = timeout

    def charge(self, customer: str, amount: int, key: str | None = None) -> Payment:
        """Take `amount` from `customer`."""
        return self._pay("charges", customer, amount, key)

    def refund(self, customer: str, amount: int, key: str | None = None) -> Payment:
        """Pay `amount` back to `customer`."""
        return self._pay("refunds", customer, amount, key)

    def charges(self, customer: str | None = None) -> list[Payment]:
        """Every charge that was made, oldest first."""
        return self._made("charges", customer)

    def refunds(self, customer: str | None = None) -> list[Payment]:
        """Every refund that was made, oldest first."""
        return self._made("refunds", customer)

    def balance(self, customer: str) -> int:
        """What the customer has paid in, less what was paid out again."""
        moves = {"charges": 1, "refunds": -1}
        made = [each for each in self.attempts() if (each["customer"], each["outcome"]) == (customer, "made")]
        return sum(moves[each["kind"]] * each["amount"] for each in made)

    def attempts(self) -> list[Attempt]:
        """Every complete request to move money, oldest first: all that the server knows."""
        attempts: list[Attempt] = self._ask("GET", "/attempts")
        return attempts

    def restore(self, attempts: Iterable[Attempt]) -> None:
        """Put the server back to where `attempts()` had this answer; keys that came later are forgotten."""
        self._ask("PUT", "/attempts", list(attempts))

    def reset(self) -> None:
        """Make the server forget every payment and every key."""
        self.restore([])

    def _pay(self, kind: Kind, customer: str, amount: int, key: str | None) -> Payment:
        payment: Payment = self._ask("POST", f"/{kind}", {"customer": customer, "amount": amount}, key)
        return payment

    def _made(self, kind: Kind, customer: str | None) -> list[Payment]:
        query = "" if customer is None else f"?customer={quote(customer, safe='')}"
        payments: list[Payment] = self._ask("GET", f"/{kind}{query}")
        return payments

    def _ask(self, method: str, path: str, body: object = None, key: str | None = None) -> Any:  # JSON
        return ask(self.url, method, path, body, under_key(key), timeout=self._timeout, refused=PaymentError)
