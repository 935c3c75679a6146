"""An object store that speaks S3: moto's threaded server, in a process of its own.

    python -m scenarios.bucket_server --port 0

prints the port it listens on. It has one bucket, `reports`.
"""

from __future__ import annotations

import logging
import signal
import threading
from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

from scenarios._serving import Process, announce, options

if TYPE_CHECKING:
    from collections.abc import Mapping

BUCKET = "reports"


@cache
def _session() -> boto3.Session:
    """What is read from files once: the description of the service. It holds no connection."""
    return boto3.Session("nobody", "nothing", region_name="us-east-1")  # the server asks nobody who they are


def client(url: str) -> Any:
    """A client of the object store at `url`; each call that fails, fails at once."""
    config = Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"})
    return _session().client("s3", endpoint_url=url, config=config)


class BucketServer(Process):
    """The object store as a subprocess, started and stopped by `with`."""

    module = "scenarios.bucket_server"
    called = "object store"

    def connect(self) -> None:
        """Make a client, and the bucket."""
        self.client = client(self.url)
        self.client.create_bucket(Bucket=BUCKET)

    def objects(self) -> list[str]:
        """The keys of all objects."""
        return [each["Key"] for each in self.client.list_objects_v2(Bucket=BUCKET).get("Contents", [])]

    def lines(self) -> list[str]:
        """The lines of all objects."""
        bodies = [self.client.get_object(Bucket=BUCKET, Key=key)["Body"].read().decode() for key in self.objects()]
        return [line for body in bodies for line in body.splitlines()]

    def reset(self) -> None:
        """Empty the bucket."""
        for key in self.objects():
            self.client.delete_object(Bucket=BUCKET, Key=key)

    def counts(self) -> Mapping[str, int]:
        """How many lines there are, in whatever objects."""
        return {"lines": len(self.lines())}

    def seen(self) -> list[str]:
        """Which objects there are."""
        return self.objects()


if __name__ == "__main__":
    from moto.server import ThreadedMotoServer

    given = options("scenarios.bucket_server", "An object store.").parse_args()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    stopped = threading.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: stopped.set())
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=given.port, verbose=False)
    server.start()
    announce(server.get_host_and_port()[1], stopped.set, until_eof=given.until_eof)
    stopped.wait()
    server.stop()
