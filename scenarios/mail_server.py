"""A mail server: real SMTP, a folder of mails for each address.

    python -m scenarios.mail_server --port 0 --folder mails

prints the port it listens on. Mailboxes at `once.example` filter duplicates, as the `duplicate` test of Sieve does
(RFC 7352): of several mails with one Message-ID the first is kept, the others are accepted and dropped. Mailboxes
anywhere else keep whatever comes.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from email import message_from_bytes
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from aiosmtpd.smtp import SMTP

from scenarios._serving import Process, announce, options

if TYPE_CHECKING:
    from collections.abc import Mapping

FILTERING = "once.example"


class Delivery:
    """Puts each mail into the folder of its address before it is acknowledged."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def handle_DATA(self, _server: object, _session: object, envelope: Any) -> str:  # noqa: N802 - as SMTP writes it
        """Deliver one mail."""
        content: bytes = envelope.original_content
        for address in envelope.rcpt_tos:
            mailbox = self._folder / address
            mailbox.mkdir(exist_ok=True)
            known_as = message_from_bytes(content)["Message-ID"] or uuid4().hex
            name = known_as if address.endswith(f"@{FILTERING}") else uuid4().hex
            file = mailbox / f"{sha256(name.encode()).hexdigest()}.eml"
            if not file.exists():
                file.write_bytes(content)
        return "250 OK"


async def serve(port: int, folder: Path, *, until_eof: bool) -> None:
    """Serve until stopped."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    server = await loop.create_server(lambda: SMTP(Delivery(folder), hostname="mail.example"), "127.0.0.1", port)
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stopped.set)
    announce(server.sockets[0].getsockname()[1], lambda: loop.call_soon_threadsafe(stopped.set), until_eof=until_eof)
    async with server:
        await stopped.wait()


class MailServer(Process):
    """The mail server as a subprocess, started and stopped by `with`."""

    module = "scenarios.mail_server"
    called = "mail server"
    scheme = "smtp"

    def arguments(self, folder: Path) -> list[str]:
        """Where the mails are."""
        self._folder = folder
        return ["--folder", str(folder)]

    def mails(self) -> list[tuple[str, Any]]:
        """Each mail that is in a mailbox, with the address that it is in."""
        files = sorted(self._folder.glob("*/*.eml"), key=lambda file: file.stat().st_mtime_ns)
        return [(file.parent.name, message_from_bytes(file.read_bytes())) for file in files]

    def reset(self) -> None:
        """Empty every mailbox."""
        for file in self._folder.glob("*/*.eml"):
            file.unlink()

    def counts(self) -> Mapping[str, int]:
        """How many mails there are, by their subject."""
        return Counter(mail["Subject"] for _, mail in self.mails())

    def seen(self) -> list[str]:
        """What is in the mailboxes."""
        return [f"{address}: {mail['Subject']} {mail['Message-ID']}" for address, mail in self.mails()]


if __name__ == "__main__":
    parser = options("scenarios.mail_server", "A small mail server.")
    parser.add_argument("--folder", type=Path, required=True, help="where the mails are kept")
    given = parser.parse_args()
    asyncio.run(serve(given.port, given.folder, until_eof=given.until_eof))
