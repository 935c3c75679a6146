"""Models of OpenAI, and of whoever serves its interfaces, over the official SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastdur.errors import GraphError
from fastdur.llm._openai_wire import Chat, Responses
from fastdur.llm._sdk import Async, Provider, Sync
from fastdur.llm._structured import Structured, is_native

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

_APIS: dict[str, type[Chat | Responses]] = {"chat": Chat, "responses": Responses}


class _OpenAI(Provider):
    package = "openai"

    def __init__(
        self,
        model: str,
        *,
        api: Literal["chat", "responses"] = "chat",
        api_key: str | None = None,
        base_url: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        timeout: float | None = None,
        max_retries: int = 2,
        structured: Structured = "native",
        options: Mapping[str, Any] | None = None,
        client: Any = None,
    ) -> None:
        if api not in _APIS:
            message = f"api= of model {model!r} is {api!r}; give one of: {', '.join(_APIS)}"
            raise GraphError(message)
        longest = "max_completion_tokens" if api == "chat" else "max_output_tokens"
        told = {"model": model, "temperature": temperature, longest: max_tokens}
        asked = {**{key: value for key, value in told.items() if value is not None}, **(options or {})}
        wire = _APIS[api](asked, native=is_native(structured, model))
        settings = {"api_key": api_key, "base_url": base_url, "timeout": timeout, "max_retries": max_retries}
        super().__init__(wire, client, settings)


class OpenAIClient(_OpenAI, Sync):
    """A model of OpenAI, or of a server with its interface (`base_url`), over the SDK of the extra `openai`.

    `api` is `chat` (chat completions) or `responses`, where nothing is kept at the provider. Without `api_key` and
    `base_url` the SDK reads `OPENAI_API_KEY` and `OPENAI_BASE_URL`. `max_retries` is how often the SDK tries again by
    itself, after a lost connection, a limit of the rate or an error of the server's; `timeout` bounds each try, in
    seconds. `structured="prompt"` puts the schema of a typed answer into the prompt, for servers that take none;
    `options` are sent with each request as they are; `client` is a client of the SDK to use in place of its own.

    `complete` blocks, and is called in a thread where a run is on an event loop; `AsyncOpenAIClient` is awaited there.
    It raises `LLMError`, also for an answer that was cut off. Threads may share one. `close()` closes its connections.
    """

    maker = "OpenAI"


class AsyncOpenAIClient(_OpenAI, Async):
    """`OpenAIClient` for runs on an event loop: `complete` is awaited, and so is `aclose()`."""

    maker = "AsyncOpenAI"
