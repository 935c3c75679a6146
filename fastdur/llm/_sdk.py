"""A model over the official SDK of its provider: its client is made at first use, its errors are told as ours."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from fastdur._functions import said
from fastdur.errors import LLMError

if TYPE_CHECKING:
    from collections.abc import Generator

    from fastdur.llm._wire import Wire
    from fastdur.llm.client import LLMRequest, LLMResponse

_RETRYABLE = frozenset({408, 409, 429})
_ERROR = 400
_OWN_ERROR = 500


class Provider:
    """What the clients of all providers have in common."""

    package: str
    """The name of the SDK, which is also that of the extra."""
    maker: str
    """The class of its client."""

    def __init__(self, wire: Wire, client: Any, settings: dict[str, Any]) -> None:
        if client is None:
            _loaded(self.package)
        self._wire, self._given = wire, client
        self._settings = {key: value for key, value in settings.items() if value is not None}
        self._kept: tuple[object, Any] | None = None

    def _client(self, of: object) -> Any:
        """The SDK's client; one of its own for each process, and each event loop, for connections belong to one."""
        if self._given is not None:
            return self._given
        if self._kept is None or self._kept[0] != of:
            self._kept = of, getattr(_loaded(self.package), self.maker)(**self._settings)
        return self._kept[1]

    def _ask(self, client: Any, request: LLMRequest) -> Any:
        method: Any = client
        for name in self._wire.method.split("."):
            method = getattr(method, name)
        stream = self._wire.streamed() if request.on_text is not None else {}
        return method(**self._wire.sent(request), **stream)


class Sync(Provider):
    """A client that blocks."""

    def complete(self, request: LLMRequest) -> LLMResponse:
        """Answer a request. Raises `LLMError`."""
        with told(self.package):
            answer = self._ask(self._client(os.getpid()), request)
            if request.on_text is not None:
                collector = self._wire.collector()
                with answer:
                    for event in answer:
                        _say(request, collector.take(event.model_dump()))
                return self._wire.read(collector.answer(), request)
        return self._wire.read(answer.model_dump(), request)

    def close(self) -> None:
        """Close the connections that are kept; the next request opens new ones."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept[1].close()


class Async(Provider):
    """A client that is awaited."""

    async def complete(self, request: LLMRequest) -> LLMResponse:
        """Answer a request. Raises `LLMError`."""
        from asyncio import get_running_loop

        with told(self.package):
            answer = await self._ask(self._client((os.getpid(), get_running_loop())), request)
            if request.on_text is not None:
                collector = self._wire.collector()
                async with answer:
                    async for event in answer:
                        _say(request, collector.take(event.model_dump()))
                return self._wire.read(collector.answer(), request)
        return self._wire.read(answer.model_dump(), request)

    async def aclose(self) -> None:
        """Close the connections that are kept, on the event loop that has used them."""
        kept, self._kept = self._kept, None
        if kept is not None:
            await kept[1].close()


def _say(request: LLMRequest, text: str) -> None:
    if text and request.on_text is not None:
        request.on_text(text)


def _loaded(package: str) -> Any:
    """The SDK. Raises `LLMError` that says what to install."""
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        message = f"The SDK {package!r} is not installed. Install it with: pip install 'fastdur[{package}]'"
        raise LLMError(message) from error


@contextmanager
def told(package: str) -> Generator[None]:
    """Tell the errors of an SDK, and of the HTTP library below it, as `LLMError`."""
    sdk = _loaded(package)
    below = [vars(sys.modules[name])["HTTPError"] for name in ("httpx", "httpx2") if name in sys.modules]
    try:
        yield
    except (cast("type[Exception]", sdk.APIError), *below) as error:
        raise _told(package, error, lost=isinstance(error, (sdk.APIConnectionError, *below))) from error
    except sdk.__dict__[f"{_cased(package)}Error"] as error:
        message = f"The client of {package} cannot ask: {said(error)}"
        raise LLMError(message) from error


def _cased(package: str) -> str:
    return {"openai": "OpenAI", "anthropic": "Anthropic"}[package]


def _told(package: str, error: Any, *, lost: bool) -> LLMError:
    status: int | None = getattr(error, "status_code", None)
    # An error that comes inside a stream has no status that says so: the provider broke off what it had begun.
    retryable = lost or status is None or status < _ERROR or status in _RETRYABLE or status >= _OWN_ERROR
    way = "Resume the run later." if retryable else "Sent again it is refused again: mend what it says, then resume."
    at = "" if status is None else f" with {status}"
    message = f"{package} did not answer{at}: {said(error)}. {way}"
    headers: Any = getattr(getattr(error, "response", None), "headers", {})
    return LLMError(message, retryable=retryable, status=status, retry_after=_seconds(headers.get("retry-after")))


def _seconds(text: str | None) -> float | None:
    """The seconds of a `Retry-After`, None for a date."""
    return float(text) if text is not None and text.replace(".", "", 1).isdecimal() else None
