"""Who hears a model while it speaks. Hearing never changes a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastdur._functions import shown
from fastdur.boundaries import warn
from fastdur.scope import current

if TYPE_CHECKING:
    from collections.abc import Callable


def listener(who: str) -> Callable[[str], None] | None:
    """What a model is given to tell each piece of its text to, None where nobody listens; `who` is the agent's name.

    A listener that raises is warned about, and hears no more of this run in this lifetime.
    """
    scope = current.get()
    if not scope or scope.node.on_text is None:
        return None
    on_text, deaf = scope.node.on_text, scope.node.host.deaf

    def hear(text: str) -> None:
        if any(each is on_text for each in deaf):
            return
        try:
            on_text(text, who)
        except Exception as error:
            deaf.append(on_text)
            warn(f"on_text {shown(on_text)} raised {shown(error)} while agent {who!r} spoke, and is detached")

    return hear
