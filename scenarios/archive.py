"""A report goes into an object store: add up, put it there, say where it is.

    add_up ──> put ──> say

To put an object under a name is idempotent by nature: done twice, it is there once. So the name must be the same when
it is done again, and made of nothing but what the effect is known by. What is not idempotent is a fresh name, and
adding to what is there.

    python -m scenarios.archive
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from fastdur import Chain, effect_key, idempotent
from scenarios._story import State, tell
from scenarios.bucket_server import BUCKET, BucketServer, client

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdur import Checkpointer, Resume

INPUT: State = {"month": "2031-05", "paid": [120, 40, 75]}
ANSWERS: dict[str, Resume] = {}
EFFECTS = {"lines": "exactly-once"}


def add_up(state: State) -> State:
    """What the report says."""
    return {"report": {"month": state["month"], "total": sum(state["paid"])}}


def say(state: State) -> State:
    """Say where it is."""
    return {"said": f"the report of {state['month']} is in {BUCKET}"}


def line(report: dict[str, Any]) -> bytes:
    """A report as it is stored."""
    return f"{json.dumps(report)}\n".encode()


def chain(checkpointer: Checkpointer, put: Callable[[dict[str, Any]], str]) -> Chain:
    """The graph, around any way of putting it there."""

    def store(state: State) -> None:
        put(state["report"])

    return (
        Chain("archive", checkpointer)
        .add_node("add_up", add_up)
        .add_node("put", store)
        .add_node("say", say)
        .connect("add_up", "put")
        .connect("put", "say")
    )


def build(checkpointer: Checkpointer, url: str) -> Chain:
    """The report as it should be."""
    s3 = client(url)

    @idempotent(name="put")
    def put(report: dict[str, Any]) -> str:
        key = f"{effect_key()}.json"
        s3.put_object(Bucket=BUCKET, Key=key, Body=line(report))
        return key

    return chain(checkpointer, put)


def natural(checkpointer: Checkpointer, url: str) -> Chain:
    """Right without any record: the name follows from what the report is about, so to put it twice is to put it once.

    This holds as long as the content follows from the input too.
    """
    s3 = client(url)

    def put(report: dict[str, Any]) -> str:
        key = f"{report['month']}.json"
        # fastdur: ignore[FDL02] the name and the content follow from the input: to put it twice is to put it once
        s3.put_object(Bucket=BUCKET, Key=key, Body=line(report))
        return key

    return chain(checkpointer, put)


def stopping(checkpointer: Checkpointer, url: str) -> Chain:
    """A fresh name, where it cannot be helped: where nobody knows, a human looks into the bucket."""
    s3 = client(url)

    @idempotent(name="put", on_unknown="raise")
    def put(report: dict[str, Any]) -> str:
        key = f"{uuid4()}.json"
        s3.put_object(Bucket=BUCKET, Key=key, Body=line(report))
        return key

    return chain(checkpointer, put)


def broken_fresh_name(checkpointer: Checkpointer, url: str) -> Chain:
    """Broken: each time under another name.

    A report whose record was lost is there twice, and nobody can tell which of the two is meant. A sweep says
    FD07 EFFECT_REPEATED.
    """
    s3 = client(url)

    @idempotent(name="put")
    def put(report: dict[str, Any]) -> str:
        key = f"{uuid4()}.json"
        s3.put_object(Bucket=BUCKET, Key=key, Body=line(report))
        return key

    return chain(checkpointer, put)


def broken_append(checkpointer: Checkpointer, url: str) -> Chain:
    """Broken: the report is one more line of an object that grows.

    The name is always the same, but to read, to add and to write back is another thing each time that it is done. A
    sweep says FD07 EFFECT_REPEATED.
    """
    s3 = client(url)

    @idempotent(name="put")
    def put(report: dict[str, Any]) -> str:
        key = "reports.jsonl"
        there = [each["Key"] for each in s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])]
        before = s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() if key in there else b""
        s3.put_object(Bucket=BUCKET, Key=key, Body=before + line(report))
        return key

    return chain(checkpointer, put)


if __name__ == "__main__":
    tell(build, INPUT, ANSWERS, BucketServer())
