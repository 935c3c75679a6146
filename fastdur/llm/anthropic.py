"""Models of Anthropic, over the official SDK."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from fastdur.llm._anthropic_wire import Messages
from fastdur.llm._sdk import Async, Provider, Sync
from fastdur.llm._structured import Structured, is_native

if TYPE_CHECKING:
    from collections.abc import Mapping


class _Anthropic(Provider):
    package = "anthropic"

    def __init__(
        self,
        model: str,
        *,
        max_tokens: int = 4096,
        api_key: str | None = None,
        base_url: str | None = None,
        temperature: float | None = None,
        timeout: float | None = None,
        max_retries: int = 2,
        structured: Structured = "native",
        options: Mapping[str, Any] | None = None,
        client: Any = None,
    ) -> None:
        told = {"model": model, "max_tokens": max_tokens, "temperature": temperature}
        asked = {**{key: value for key, value in told.items() if value is not None}, **(options or {})}
        wire = Messages(asked, _closed if is_native(structured, model) else None)
        settings = {"api_key": api_key, "base_url": base_url, "timeout": timeout, "max_retries": max_retries}
        super().__init__(wire, client, settings)


class AnthropicClient(_Anthropic, Sync):
    """A model of Anthropic over the SDK of the extra `anthropic`.

    `max_tokens` bounds each answer. Without `api_key` and `base_url` the SDK reads `ANTHROPIC_API_KEY` and
    `ANTHROPIC_BASE_URL`. `max_retries` is how often the SDK tries again by itself, after a lost connection, a limit of
    the rate or an error of the server's; `timeout` bounds each try, in seconds. `structured="prompt"` puts the schema
    of a typed answer into the prompt; `options` are sent with each request as they are; `client` is a client of the SDK
    to use in place of its own.

    `complete` blocks, and is called in a thread where a run is on an event loop; `AsyncAnthropicClient` is awaited
    there. It raises `LLMError`, also for an answer that was cut off. Threads may share one. `close()` closes its
    connections.
    """

    maker = "Anthropic"


class AsyncAnthropicClient(_Anthropic, Async):
    """`AnthropicClient` for runs on an event loop: `complete` is awaited, and so is `aclose()`."""

    maker = "AsyncAnthropic"


def _closed(schema: dict[str, Any]) -> Any:
    """A schema as Anthropic takes it, by its SDK; None where an object may have keys that the schema does not name."""
    if _is_open(schema):
        return None
    return import_module("anthropic").transform_schema(schema)


def _is_open(schema: Any) -> bool:
    """Whether an object in it has keys of any name."""
    if isinstance(schema, dict):
        of = cast("dict[str, Any]", schema)
        named = of.get("type") != "object" or ("properties" in of and not of.get("additionalProperties"))
        return not named or any(map(_is_open, of.values()))
    inside: Any = schema
    return isinstance(schema, list) and any(map(_is_open, inside))
