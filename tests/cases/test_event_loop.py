"""A store that has to wait keeps nobody else waiting."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from fastdur import Chain, SQLiteCheckpointer

HOLDS = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
"""
HELD_FOR = 2.0
LONGEST_PAUSE = 0.2


@pytest.fixture
def busy(tmp_path):
    """A store whose write lock another process holds, and what makes it let go."""
    store = SQLiteCheckpointer(tmp_path / "busy.db")
    store.setup()
    command = [sys.executable, "-c", HOLDS, store.location]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        yield store, lambda: holder.communicate("go on\n")
    store.close()


@pytest.mark.case("S91")
@pytest.mark.asyncio
async def test_the_event_loop_goes_on_while_another_process_holds_the_write_lock(busy):
    # A store that waited on the loop's own thread would stop the ticker for as long as the lock is held.
    store, let_go = busy
    chain = Chain("two", store).add_node("a", lambda state: {"a": 1}).add_node("b", lambda state: {"b": 2})
    chain.connect("a", "b")
    loop = asyncio.get_running_loop()
    began, pauses, enough = loop.time(), [0.0], loop.create_future()
    last = began

    def tick() -> None:
        nonlocal last
        pauses.append(loop.time() - last)
        last = loop.time()
        if last - began < HELD_FOR:
            loop.call_later(0.005, tick)
        else:
            enough.set_result(None)

    running = asyncio.ensure_future(chain.aexecute({}))
    loop.call_soon(tick)
    await enough
    assert not running.done()
    let_go()
    assert (await running).final_state == {"a": 1, "b": 2}
    assert max(pauses) < LONGEST_PAUSE
