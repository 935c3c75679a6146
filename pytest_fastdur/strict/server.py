"""The server of a strict provider: a script of answers, and a record of every request."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Protocol, Self

from fastdur.llm.messages import Usage
from fastdur.llm.testing import response_of
from pytest_fastdur.strict.refusing import RefusedError, check

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fastdur.llm.client import LLMResponse


class Rules(Protocol):
    """The interface of one provider."""

    name: str
    prefix: str
    paths: tuple[str, ...]

    def admit(self, path: str, headers: Mapping[str, str], body: Any) -> int:
        """How often the model has spoken in this request. Raises `RefusedError`."""
        ...

    def error(self, refused: RefusedError) -> Any:
        """The body of a refusal."""
        ...

    def answer(self, path: str, body: Any, said: LLMResponse) -> Any:
        """The body of an answer."""
        ...

    def events(self, path: str, answer: Any) -> Iterator[tuple[str | None, Any]]:
        """The events of an answer that is streamed."""
        ...


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that has arrived: where, what, and why it was refused, None where it was answered."""

    path: str
    body: Any
    refused: str | None


class StrictProvider:
    """A provider of models on this machine that answers by a script, and refuses what the real one refuses.

    `script` is a list of answers like that of `TestModel`: a text, a `ToolCall`, a list of them, an `LLMResponse`.
    Which one is due is told by how often the model has spoken in the conversation that is sent, so one that is sent
    again after a crash has the same answer; the last one repeats. `usage` is what each costs.

    `base_url` and `api_key` are what a client is given. `requests` are all that arrived, in order, and `refused` those
    that were not valid, each with the reason. `fail(status)` lets the next ones fail in the provider's manner, which
    does not make them invalid.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self.script: list[Any] = ["ok"]
        self.usage = Usage(10, 5)
        self.requests: list[Seen] = []
        self._failures: list[tuple[int, str]] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name=rules.name, daemon=True)
        self.api_key = "strict"
        self.base_url = f"http://127.0.0.1:{self._server.server_address[1]}{rules.prefix}"

    def __enter__(self) -> Self:
        """Be there."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Be gone."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def refused(self) -> list[Seen]:
        """The requests that the real provider would have refused."""
        return [each for each in self.requests if each.refused is not None]

    @property
    def client(self) -> dict[str, Any]:
        """What a client is made with: `OpenAIClient("any", **strict_openai.client)`."""
        return {"base_url": self.base_url, "api_key": self.api_key}

    def fail(self, status: int, *, times: int = 1, message: str = "try again") -> None:
        """Answer the next valid requests with an error of this status; a client may try again at once."""
        with self._lock:
            self._failures += [(status, message)] * times

    def taken(self, path: str, headers: Mapping[str, str], body: Any) -> tuple[int, Any]:
        """Status and body of the answer to a request."""
        with self._lock:
            try:
                check(path in self._rules.paths, f"no such path: {path}")
                spoken = self._rules.admit(path, headers, body)
            except RefusedError as refused:
                self.requests.append(Seen(path, body, str(refused)))
                return refused.status, self._rules.error(refused)
            self.requests.append(Seen(path, body, None))
            if self._failures:
                status, message = self._failures.pop(0)
                return status, self._rules.error(RefusedError(message, status, "api_error"))
            said = response_of(self.script[min(spoken, len(self.script) - 1)], self.usage)
            return 200, self._rules.answer(path, body, said)

    def lines(self, path: str, answer: Any) -> bytes:
        """An answer as a stream of events."""
        found: list[str] = []
        for kind, data in self._rules.events(path, answer):
            head = "" if kind is None else f"event: {kind}\n"
            found.append(f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n")
        return "".join(found).encode()


def _handler(provider: StrictProvider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers.get("content-length") or 0))
            try:
                body: Any = json.loads(sent)
            except ValueError:
                body = None
            path = self.path.partition("?")[0]
            headers = {key.lower(): value for key, value in self.headers.items()}
            status, answer = provider.taken(path, headers, body)
            if status == 200 and body.get("stream"):  # noqa: PLR2004 - HTTP's name for yes
                self._send(status, "text/event-stream", provider.lines(path, answer))
            else:
                self._send(status, "application/json", json.dumps(answer).encode())

        def _send(self, status: int, kind: str, sent: bytes) -> None:
            self.send_response(status)
            told = {"content-type": kind, "content-length": str(len(sent)), "retry-after-ms": "1"}
            for key, value in told.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that http.server calls
            del format, args

    return Handler
