"""A small model server: asked twice, it says two things, as models do.

    python -m scenarios.model_server --port 0

prints the port it listens on:

    POST   /answers    {"prompt": "…"}, with or without an `Idempotency-Key`: an answer, another one each time. With a
                       key that was used before: the answer that was given then, as a gateway with a cache does
    GET    /answers    what was answered, oldest first; what came out of the cache is not in it
    DELETE /answers    forget

After it has forgotten it begins with the first answer again, so two undisturbed runs are told the same.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from scenarios._http import ask
from scenarios._serving import Handler, Process, Refusal, Server, options

if TYPE_CHECKING:
    from collections.abc import Mapping

VERDICTS = ("refund", "escalate", "reject")


class Answers:
    """What was answered, and under which key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.given: list[dict[str, str]] = []
        self._by_key: dict[str, dict[str, str]] = {}

    def answer(self, prompt: str, key: str | None) -> dict[str, str]:
        """The next answer, or the one that was given under this key."""
        with self._lock:
            if key is not None and key in self._by_key:
                return self._by_key[key]
            number = len(self.given)
            verdict = VERDICTS[number % len(VERDICTS)]
            answer = {"verdict": verdict, "words": f"({number + 1}) I would {verdict}: {prompt}"}
            self.given.append(answer)
            if key is not None:
                self._by_key[key] = answer
            return answer


class Desk(Handler):
    """Answers prompts."""

    def answer(self, method: str, path: str, body: Any) -> tuple[int, object]:
        """Look, ask, forget."""
        match method, path, body:
            case "POST", "answers", {"prompt": str(prompt)}:
                return 200, self.books.answer(prompt, self.headers["Idempotency-Key"])
            case "GET", "answers", _:
                return 200, self.books.given
            case "DELETE", "answers", _:
                self.books.forget()
                return 200, []
        raise Refusal(400, 'send {"prompt": a text} to /answers')


class ModelServer(Process):
    """The model server as a subprocess, started and stopped by `with`."""

    module = "scenarios.model_server"
    called = "model server"

    def reset(self) -> None:
        """Make it begin with its first answer again."""
        ask(self.url, "DELETE", "/answers")

    def counts(self) -> Mapping[str, int]:
        """How many answers were made, and have to be paid for."""
        return {"answers": len(ask(self.url, "GET", "/answers"))}

    def seen(self) -> list[str]:
        """What it has answered."""
        return [answer["words"] for answer in ask(self.url, "GET", "/answers")]


if __name__ == "__main__":
    given = options("scenarios.model_server", "A small model server.").parse_args()
    with Server(given.port, Desk, Answers()) as server:
        server.serve(until_eof=given.until_eof)
