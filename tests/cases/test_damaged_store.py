"""What something else has taken out of a store is told, not waited for."""

from __future__ import annotations

import sqlite3

import pytest

from fastdur import Chain, Resume, SQLiteCheckpointer, StoreCorrupt, interrupt


@pytest.fixture
def paused(tmp_path):
    """A chain with a paused run `r`, and the file it is stored in."""
    store = SQLiteCheckpointer(tmp_path / "s.db")
    chain = Chain("asks", store).add_node("ask", lambda _: {"approved": interrupt("approve").approved})
    chain.execute({}, "r")
    yield chain, store.location
    store.close()


def change(location, statement):
    connection = sqlite3.connect(location, isolation_level=None)
    connection.execute(statement)
    connection.close()


def test_a_question_that_is_missing_is_told_and_can_be_asked_again(paused):
    chain, location = paused
    change(location, "DELETE FROM pending_interrupts")
    with pytest.raises(StoreCorrupt, match="question is missing"):
        chain.resume("r", Resume(approved=True))
    with pytest.raises(StoreCorrupt, match="question is missing"):
        chain.decide("r", Resume(approved=True))
    # The way out that the message names works.
    chain.cancel("r")
    assert chain.resume("r", reopen=True).pending_interrupt["reason"] == "approve"
    assert chain.resume("r", Resume(approved=True)).final_state == {"approved": True}


def test_a_row_that_is_missing_is_told(paused):
    chain, location = paused
    change(location, "DELETE FROM checkpoints")
    with pytest.raises(StoreCorrupt, match="Row 1 of run 'r' is missing"):
        chain.resume("r", Resume(approved=True))
