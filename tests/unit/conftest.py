"""A store in memory, and both ways to call a run."""

from __future__ import annotations

import asyncio
import threading

import pytest

from fastdur import SQLiteCheckpointer
from fastdur._owner import calls
from tests.unit.running import WAIT


@pytest.fixture
def store():
    """A store of its own; at the end no call under a claim on it is left in progress."""
    made = SQLiteCheckpointer(":memory:")
    yield made
    for thread in threading.enumerate():
        if thread.name.startswith("fastdur "):
            thread.join(WAIT)  # a call that ran out of time gives up its claim when it returns
    left = [claim.execution_id for where, claim in calls._claims.values() if where is made]
    made.close()
    assert left == []


@pytest.fixture(params=["sync", "async"])
def go(request):
    """Call a method of a runner in the one way or the other: `go(flow.execute)`."""

    def in_place(method, *args, **options):
        return method(*args, **options)

    def on_a_loop(method, *args, **options):
        return asyncio.run(getattr(method.__self__, f"a{method.__name__}")(*args, **options))

    return in_place if request.param == "sync" else on_a_loop
