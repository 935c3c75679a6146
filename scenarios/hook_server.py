"""The receivers of webhooks, all in one server.

    python -m scenarios.hook_server --port 0

prints the port it listens on:

    POST   /NAME       an event for the receiver NAME. The header `webhook-id` names the event: one that this receiver
                       has is acknowledged and not taken again; without the header every request is an event of its own
    GET    /           the events that were taken, oldest first
    DELETE /           forget
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from scenarios._http import ask
from scenarios._serving import Handler, Process, Refusal, Server, options

if TYPE_CHECKING:
    from collections.abc import Mapping


class Inbox:
    """The events that were taken."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.taken: list[dict[str, Any]] = []

    def take(self, name: str, event: object, known_as: str | None) -> str:
        """Take an event, unless this receiver has it."""
        with self._lock:
            if known_as is not None and any((each["to"], each["id"]) == (name, known_as) for each in self.taken):
                return "had it"
            self.taken.append({"to": name, "id": known_as, "event": event})
            return "taken"


class Desk(Handler):
    """Takes events."""

    def answer(self, method: str, path: str, body: Any) -> tuple[int, object]:
        """Look, take, forget."""
        match method, path:
            case "POST", name if name:
                return 200, self.books.take(name, body, self.headers["webhook-id"])
            case "GET", "":
                return 200, self.books.taken
            case "DELETE", "":
                self.books.forget()
                return 200, []
        raise Refusal(404, "post an event to /NAME")


class HookServer(Process):
    """The receivers as a subprocess, started and stopped by `with`."""

    module = "scenarios.hook_server"
    called = "receivers"

    def reset(self) -> None:
        """Make them forget every event."""
        ask(self.url, "DELETE", "/")

    def counts(self) -> Mapping[str, int]:
        """How many events each receiver has taken."""
        return Counter(taken["to"] for taken in ask(self.url, "GET", "/"))

    def seen(self) -> list[str]:
        """What they have taken."""
        return ["{to} took {event} as {id}".format_map(taken) for taken in ask(self.url, "GET", "/")]


if __name__ == "__main__":
    given = options("scenarios.hook_server", "The receivers of webhooks.").parse_args()
    with Server(given.port, Desk, Inbox()) as server:
        server.serve(until_eof=given.until_eof)
