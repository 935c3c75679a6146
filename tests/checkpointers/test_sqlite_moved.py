"""A file that is taken away under the store that has it open."""

import os
import sqlite3
from contextlib import closing

import pytest

from fastdur import Chain, Resume, RunNotFound, SQLiteCheckpointer, StoreCorrupt, StoreUnavailable, interrupt


def remove(path):
    path.unlink()


def move(path):
    path.rename(path.with_suffix(".old"))


def empty(path):
    os.truncate(path, 0)


def replace(path):
    other = path.with_suffix(".new")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM INTO ?", (str(other),))
    other.replace(path)


@pytest.mark.parametrize("take_away", [remove, move, empty, replace])
def test_a_file_that_is_taken_away_under_a_run_is_told_with_the_next_step(tmp_path, take_away):
    """Wrong: steps that are acknowledged go into a file that has no name any more, and the run reports completed."""
    path = tmp_path / "s.db"
    store = SQLiteCheckpointer(path)
    seen = []
    chain = Chain("c", store)
    for name in ("a", "b", "c"):
        chain.add_node(name, lambda _, name=name: seen.append(name) or (take_away(path) if name == "b" else None))
    chain.connect("a", "b").connect("b", "c")
    with pytest.raises(StoreCorrupt, match="removed, replaced or emptied"):
        chain.execute({}, "r")
    assert seen == ["a", "b"]
    store.close()


@pytest.mark.parametrize("durability", ["full", "normal"])
def test_a_file_that_was_put_in_the_place_of_another_is_the_one_that_is_read(tmp_path, durability):
    """Wrong: a process that has the old file open goes on to read it, and misses what the new one holds."""
    old, new = (SQLiteCheckpointer(tmp_path / name, durability) for name in ("old.db", "new.db"))
    chain, other = (Chain("c", store).add_node("ask", lambda _: interrupt("ok?") and None) for store in (old, new))
    chain.execute({}, "before")
    other.execute({}, "after")
    new.close()
    for left in ("old.db-wal", "old.db-shm"):
        remove(tmp_path / left)
    (tmp_path / "new.db").replace(tmp_path / "old.db")
    assert [head.execution_id for head in old.list_executions()] == ["after"]
    assert chain.resume("after", Resume(approved=True)).status == "completed"
    with pytest.raises(RunNotFound):
        chain.result("before")
    for name in ("old.db", "old.db-wal", "old.db-shm"):
        remove(tmp_path / name)
    assert old.list_executions() == []
    old.close()


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("durability", ["full", "normal"])
def test_a_file_that_is_brought_back_has_every_step_that_was_acknowledged(tmp_path, durability, linked):
    """Wrong: an empty file is made in its place meanwhile, and with that its log, where the steps are, is removed."""
    path, elsewhere = tmp_path / "s.db", tmp_path / "elsewhere.db"
    if linked:
        (tmp_path / "link.db").symlink_to(path)
    named = tmp_path / "link.db" if linked else path
    store = SQLiteCheckpointer(named, durability)
    seen = []

    def take_away(_):
        seen.append("b")
        if len(seen) == 2:
            path.rename(elsewhere)

    chain = Chain("c", store).add_node("a", lambda _: seen.append("a")).add_node("b", take_away).connect("a", "b")
    if durability == "full":
        with pytest.raises(StoreCorrupt, match="removed, replaced or emptied"):
            chain.execute({}, "r")
    else:
        chain.execute({}, "r")
    for other in (store, SQLiteCheckpointer(named)):
        with pytest.raises(StoreCorrupt, match=r"its log .*s\.db-wal is still there"):
            other.list_executions()
    assert not path.exists()
    elsewhere.rename(path)
    reopened = SQLiteCheckpointer(named)
    assert [row.node_id for row in reopened.list("r")][:2] == ["a", "b"]
    if durability == "full":
        chain = Chain("c", reopened).add_node("a", seen.append).add_node("b", seen.append).connect("a", "b")
        assert chain.resume("r").status == "completed"
    assert seen == ["a", "b"]
    reopened.close()
    store.close()


@pytest.mark.parametrize("take_away", [remove, empty])
def test_nothing_is_begun_beside_the_log_of_a_file_that_is_gone_or_empty(tmp_path, take_away):
    path, log = tmp_path / "s.db", tmp_path / "s.db-wal"
    store, other = (SQLiteCheckpointer(path) for _ in range(2))
    Chain("c", store).add_node("a", lambda _: None).execute({}, "before")
    take_away(path)
    with pytest.raises(StoreCorrupt, match="gone or empty"):
        Chain("c", other).add_node("a", lambda _: None).execute({}, "after")
    assert log.stat().st_size > 0
    other.close()
    store.close()


def test_a_store_is_begun_anew_when_nothing_of_the_old_one_is_left(tmp_path):
    path, log = tmp_path / "s.db", tmp_path / "s.db-wal"
    store = SQLiteCheckpointer(path)
    Chain("c", store).add_node("a", lambda _: None).execute({}, "before")
    remove(path)
    store.close()
    remove(log)
    fresh = SQLiteCheckpointer(path)
    Chain("c", fresh).add_node("a", lambda _: None).execute({}, "after")
    assert [head.execution_id for head in fresh.list_executions()] == ["after"]
    fresh.close()


def test_a_directory_that_became_a_file_is_told_like_a_file_that_is_gone(tmp_path):
    """Wrong: the system's own exception, after the step was committed."""
    place = tmp_path / "there"
    place.mkdir()
    store = SQLiteCheckpointer(place / "s.db")

    def take_away(_):
        place.rename(tmp_path / "elsewhere")
        place.write_text("a file")

    chain = Chain("c", store).add_node("a", take_away)
    with pytest.raises(StoreCorrupt, match="removed, replaced or emptied"):
        chain.execute({}, "r")
    for call in (store.list_executions, lambda: chain.resume("r")):
        with pytest.raises(StoreUnavailable, match="cannot be"):
            call()
    store.close()


def test_a_file_of_which_nothing_can_be_told_is_not_taken_for_one_that_is_gone(tmp_path, monkeypatch):
    store = SQLiteCheckpointer(tmp_path / "s.db")
    chain = Chain("c", store).add_node("a", lambda _: None)
    chain.execute()

    def refuse(path):
        raise PermissionError(path)

    monkeypatch.setattr("fastdur.checkpointers._sqlite_file.os.stat", refuse)
    assert len(store.list_executions()) == 1
    assert chain.execute().status == "completed"
    monkeypatch.undo()
    store.close()
