"""A receipt by mail: write it, send it, note that it was sent.

    write ──> send ──> note

SMTP knows no idempotency keys. But every mail has a `Message-ID`, and it is the sender who makes it. Made of
`effect_key()` it is the same when the effect runs again, and a receiver that filters duplicates keeps one mail. A
receiver that does not keeps two, if the process dies in the one window: then there is nothing to hand a key to, and the
effect has to stop and ask (`stopping`), or two mails have to be fine.

    python -m scenarios.mail
"""

from __future__ import annotations

import smtplib
from email.message import EmailMessage
from email.utils import make_msgid
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fastdur import Chain, effect_key, idempotent
from scenarios._story import State, tell
from scenarios.mail_server import MailServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdur import Checkpointer, Resume

FILTERS = "ada@once.example"
KEEPS_ALL = "ada@every.example"

INPUT: State = {"order": "A-1001", "amount": 120}
ANSWERS: dict[str, Resume] = {}
EFFECTS = {"Receipt for A-1001": "exactly-once"}


def post(url: str, to: str, order: str, text: str, message_id: str) -> str:
    """Send one mail."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "shop@shop.example", to, f"Receipt for {order}"
    mail["Message-ID"] = message_id
    mail.set_content(text)
    server = urlsplit(url)
    with smtplib.SMTP(server.hostname or "", server.port or 0, local_hostname="shop.example", timeout=10) as smtp:
        smtp.send_message(mail)
    return to


def write(state: State) -> State:
    """What is to be said."""
    return {"text": f"We have paid {state['amount']} back to you."}


def note(state: State) -> State:
    """Say that it was sent."""
    return {"note": f"receipt for {state['order']} sent to {state['sent_to']}"}


def chain(checkpointer: Checkpointer, send: Callable[[str, str], str]) -> Chain:
    """The graph, around any way of sending."""
    return (
        Chain("mail", checkpointer)
        .add_node("write", write)
        .add_node("send", lambda state: {"sent_to": send(state["order"], state["text"])})
        .add_node("note", note)
        .connect("write", "send")
        .connect("send", "note")
    )


def build(checkpointer: Checkpointer, url: str) -> Chain:
    """The receipt as it should be."""

    @idempotent(name="send")
    def send(order: str, text: str) -> str:
        return post(url, FILTERS, order, text, f"<{effect_key()}@shop.example>")

    return chain(checkpointer, send)


def stopping(checkpointer: Checkpointer, url: str) -> Chain:
    """The same to a receiver that keeps whatever comes: where nobody knows, a human says whether the mail went out."""

    @idempotent(name="send", on_unknown="raise")
    def send(order: str, text: str) -> str:
        return post(url, KEEPS_ALL, order, text, make_msgid(domain="shop.example"))

    return chain(checkpointer, send)


def broken_random_id(checkpointer: Checkpointer, url: str) -> Chain:
    """Broken: each mail has a Message-ID of its own, as a mail library makes them.

    If the mail is sent again, because the process died before it was recorded that it was sent, then the filter of the
    receiver sees another mail. A sweep says FD07 EFFECT_REPEATED.
    """

    @idempotent(name="send")
    def send(order: str, text: str) -> str:
        return post(url, FILTERS, order, text, make_msgid(domain="shop.example"))

    return chain(checkpointer, send)


def broken_receiver(checkpointer: Checkpointer, url: str) -> Chain:
    """Broken: the Message-ID is the right one, but the receiver filters nothing.

    A key is worth what the other side makes of it. A sweep says FD07 EFFECT_REPEATED.
    """

    @idempotent(name="send")
    def send(order: str, text: str) -> str:
        return post(url, KEEPS_ALL, order, text, f"<{effect_key()}@shop.example>")

    return chain(checkpointer, send)


if __name__ == "__main__":
    tell(build, INPUT, ANSWERS, MailServer())
