"""How a model is told of the schema of a typed answer."""

from __future__ import annotations

from typing import Literal

from fastdur.errors import GraphError

Structured = Literal["native", "prompt"]
"""By the means of the provider, or in the prompt."""


def is_native(structured: str, model: str) -> bool:
    """Whether the provider is given the schema. Raises `GraphError` for an unknown way."""
    if structured not in ("native", "prompt"):
        message = f"structured= of model {model!r} is {structured!r}; give 'native' or 'prompt'"
        raise GraphError(message)
    return structured == "native"
