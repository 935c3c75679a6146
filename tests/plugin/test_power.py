"""Power cuts: the model says of SQLite what its makers say, and the sweep finds a store that was promised too much."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from fastdur import SQLiteCheckpointer
from pytest_fastdur import calibration, vfs
from pytest_fastdur.calibration import Losses, check_the_model, measured
from pytest_fastdur.disk import Disk
from pytest_fastdur.faults import SweepError
from pytest_fastdur.sweep import explore
from tests.plugin import stories

COMMITS = 8


# -- the model ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("journal", "synchronous", "damaged", "lost", "syncs", "folder_syncs"),
    [
        # "might become corrupted if the operating system crashes or the computer loses power"
        ("WAL", "OFF", True, COMMITS, 0, 0),
        ("DELETE", "OFF", True, COMMITS, 0, 0),
        # The page says: "WAL mode is always consistent with synchronous=NORMAL, but WAL mode does lose durability"
        ("WAL", "NORMAL", False, 3, None, 0),
        # It says: "a very small (though non-zero) chance that a power failure at just the wrong time could corrupt the database"
        ("DELETE", "NORMAL", True, 1, 2 * COMMITS, COMMITS),
        # "ensures that an operating system crash or power failure will not corrupt the database"
        ("WAL", "FULL", False, 0, None, 0),
        ("DELETE", "FULL", False, 1, 3 * COMMITS, COMMITS),
        # "like FULL with the addition that the directory containing a rollback journal is synced after that journal is
        # unlinked ... additional durability if the commit is followed closely by a power loss"
        ("WAL", "EXTRA", False, 0, None, 0),
        ("DELETE", "EXTRA", False, 0, 3 * COMMITS, 2 * COMMITS),
    ],
)
def test_the_model_reproduces_the_documented_table(journal, synchronous, damaged, lost, syncs, folder_syncs):
    found = measured(journal, synchronous, COMMITS)
    assert (found.damaged > 0, found.lost) == (damaged, lost)
    assert found.killed == 0  # a killed process loses nothing, whatever the setting
    assert found.images > 300
    assert found.folder_syncs == folder_syncs
    if syncs is not None:
        assert found.syncs == syncs
    if synchronous in ("FULL", "EXTRA"):
        assert found.holes == 0


def test_a_log_syncs_every_commit_under_full_and_only_its_folding_under_normal():
    normal, full = (measured("WAL", synchronous, COMMITS).syncs for synchronous in ("NORMAL", "FULL"))
    assert full == normal + COMMITS


def test_a_model_that_says_something_else_than_is_documented_judges_nothing(ledger, monkeypatch):
    monkeypatch.setattr(calibration, "measured", lambda *_: Losses())
    monkeypatch.setattr("pytest_fastdur.sweep.check_the_model", check_the_model.__wrapped__)
    with pytest.raises(SweepError, match="the model says something else than is documented"):
        explore(stories.refund(ledger, store=None), "power")


def test_a_journal_that_is_made_again_is_another_file():
    disk = Disk()
    disk.opened("x.db", b"old", new=False)
    first = disk.opened("x.db-journal", b"", new=True)
    disk.wrote(first, 0, b"first")
    disk.synced(first)
    disk.folder_synced()
    disk.unlinked("x.db-journal")
    second = disk.opened("x.db-journal", b"", new=True)
    disk.wrote(second, 0, b"second")
    assert first != second
    left = [image.get("x.db-journal") for _, image in disk.images(len(disk.ops))]
    # Not deleted; deleted; made again, with and without what was written into it. Never the second over the first.
    assert set(left) == {b"first", None, b"", b"second"}


def test_of_one_write_a_sector_may_be_there_and_the_rest_not():
    disk = Disk()
    inode = disk.opened("x.db", bytes(1024), new=False)
    disk.wrote(inode, 0, b"n" * 1024)
    torn = disk.image(len(disk.ops), "torn")
    assert torn == {"x.db": b"n" * 512 + bytes(512)}
    assert disk.image(len(disk.ops), "but7") is None


def test_listening_ends_with_its_block_and_hears_one_database_only(tmp_path):
    heard, unheard = Disk(), Disk()
    with vfs.listening(str(tmp_path / "a.db"), heard), vfs.listening(str(tmp_path / "b.db"), unheard):
        with sqlite3.connect(tmp_path / "a.db") as connection:
            connection.execute("CREATE TABLE t (x)")
        connection.close()
    count = len(heard.ops)
    assert count
    assert not unheard.ops
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("INSERT INTO t VALUES (1)")
    connection.close()
    assert len(heard.ops) == count


def test_what_is_heard_is_what_the_kernel_is_asked_for(tmp_path):
    """Every sync of the model is one of the process, those of the folder among them, as strace would count them."""
    from tests.checkpointers.syscalls import counted

    program = f"""
import os, sqlite3, sys
from pytest_fastdur import vfs
from pytest_fastdur.disk import Disk
disk = Disk()
with vfs.listening({str(tmp_path / "x.db")!r}, disk):
    connection = sqlite3.connect({str(tmp_path / "x.db")!r}, isolation_level=None)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("PRAGMA synchronous = EXTRA")
    connection.execute("CREATE TABLE t (x)")
    first = len(disk.ops)
    sys.stdout.write("go"); sys.stdout.flush()
    for number in range(5):
        connection.execute("INSERT INTO t VALUES (?)", (number,))
heard = disk.ops[first:]
with open({str(tmp_path / "heard")!r}, "w") as file:
    file.write(str(sum(op.kind in ("sync", "folder") for op in heard)))
"""
    syncs, _ = counted(program)
    assert syncs == int((tmp_path / "heard").read_text()) == 5 * 5


# -- the sweep ---------------------------------------------------------------------------------------------------------


def test_the_right_story_loses_nothing_wherever_the_power_is_cut(ledger):
    report = explore(stories.refund(ledger, store=None), "power")
    assert report.ok, report.render()
    assert report.images > 300
    assert f"power cuts: {report.images} images of the file" in report.render()
    cut = {name for _, name, cells in report.matrix if cells == {"power before": "ok", "power after": "ok"}}
    assert {"start", "append check", "pause review", "claim interrupt review", "effect begin charge@pay"} <= cut
    assert not {name for name in cut if name.startswith(("node", "look", "effect charge"))}


def test_a_store_that_does_not_sync_has_lost_what_it_acknowledged_and_the_image_is_found_again(ledger):
    story = stories.refund(ledger, store=lambda path: SQLiteCheckpointer(path, durability="normal"))
    report = explore(story, "power", at="append check")
    assert {finding.code for finding in report.findings} == {"FD02"}, report.render()
    token = report.findings[0].token
    assert "=power@" in token
    again = explore(story, replay=token)
    assert [finding.code for finding in again.findings] == ["FD02"]
    assert not explore(stories.refund(ledger, store=None), replay=token).findings  # that is the store's doing


class Unsynced(SQLiteCheckpointer):
    """Takes away the order in which things reach the disk."""

    def _prepare(self, connection, version):
        super()._prepare(connection, version)
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA wal_autocheckpoint = 2")


def test_a_file_that_a_power_cut_damages_is_corrupt(ledger):
    report = explore(stories.refund(ledger, store=Unsynced), "power", at="append *")
    assert "FD01" in {finding.code for finding in report.findings}, report.render()
    first = report.findings[0]
    assert "the power cut has left a damaged file" in first.what
    assert explore(stories.refund(ledger, store=Unsynced), replay=first.token).findings[0].code == "FD01"


def test_an_image_that_there_is_not_is_refused(ledger):
    with pytest.raises(SweepError, match=r"there is no image '0.but99' of the power cut at start/after append check"):
        explore(stories.refund(ledger, store=None), replay="fd1:start/append check=power@0.but99 after")


def test_power_cuts_of_recoveries_are_swept_too(ledger):
    report = explore(stories.refund(ledger, store=None), "power", at="append check", depth=2)
    assert report.ok, report.render()
    assert report.pairs > 5


def test_a_python_whose_library_cannot_be_reached_says_so(ledger, monkeypatch):
    monkeypatch.setattr(vfs, "why_not", lambda: "it has no such name")
    with pytest.raises(SweepError, match=r"that of this Python cannot be reached \(it has no such name\)"):
        explore(stories.refund(ledger, store=None), "power")


def test_a_library_without_names_is_found_out():
    program = """
import ctypes
real = ctypes.CDLL
class Nameless:
    def __init__(self, *_): pass
    def __getattr__(self, name): raise AttributeError(name)
ctypes.CDLL = Nameless
from pytest_fastdur import vfs
print(vfs.why_not())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path.cwd())
    assert done.stdout.strip() == "sqlite3_vfs_find"
