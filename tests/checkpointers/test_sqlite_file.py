"""The file of an SQLite store: where it is, who may read it, how it is kept, and what is refused untouched."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from fastdur.checkpointers import sqlite
from fastdur.checkpointers._sql import SCHEMA
from fastdur.checkpointers._sqlite_file import APPLICATION_ID
from fastdur.checkpointers.sqlite import SQLiteCheckpointer, default_store
from fastdur.errors import StoreClosed, StoreCorrupt, StoreError, StoreTooNew, StoreUnavailable
from tests.checkpointers.stores import ROOT, corrupt, head, opened, process, row, start, tables


def mode(path):
    return stat.S_IMODE(Path(path).stat().st_mode)


def test_no_file_is_touched_before_the_first_call(tmp_path):
    with opened(tmp_path / "a" / "store.db") as store:
        assert store.location == str(tmp_path / "a" / "store.db")
        assert repr(store) == f"SQLiteCheckpointer({store.location!r})"
    assert list(tmp_path.iterdir()) == []


def test_a_new_file_and_its_directories_are_for_its_user_alone(tmp_path):
    before = os.umask(0)
    try:
        with opened(tmp_path / "a" / "b" / "store.db") as store:
            store.setup()
            assert mode(tmp_path / "a" / "b" / "store.db-wal") == 0o600
        assert [mode(tmp_path / name) for name in ("a", "a/b", "a/b/store.db")] == [0o700, 0o700, 0o600]
    finally:
        os.umask(before)


def test_an_existing_file_keeps_its_mode(tmp_path):
    file = tmp_path / "store.db"
    file.touch(0o640)
    with opened(file) as store:
        start(store)
    assert mode(file) == 0o640


def test_setup_may_be_called_again_and_by_other_stores(path):
    with opened(path) as one, opened(path) as two:
        one.setup()
        two.setup()
        one.setup()
        start(one)
        assert two.get_execution("r") is not None
    assert tables(path)["schema_version"] == [(SCHEMA,)]


SETUP = """
import sys
from fastdur.checkpointers.sqlite import SQLiteCheckpointer
store = SQLiteCheckpointer(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
store.setup()
store.close()
"""


@pytest.mark.parametrize("round_", range(3))
def test_eight_processes_set_one_file_up_together(path, round_):
    workers = [process(SETUP, path) for _ in range(8)]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        worker.communicate()
    assert [worker.returncode for worker in workers] == [0] * 8
    assert tables(path)["schema_version"] == [(SCHEMA,)]


@pytest.mark.case("S63")
@pytest.mark.parametrize(("durability", "level"), [("full", 2), ("normal", 1)])
def test_a_commit_is_on_the_disk_by_default_for_new_and_existing_files(path, durability, level):
    for _ in range(2):
        with opened(path, **({} if durability == "full" else {"durability": durability})) as store:
            store.setup()
            execute = store._kept.writer.execute
            assert execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert execute("PRAGMA synchronous").fetchone() == (level,)
    with closing(sqlite3.connect(path)) as plain:
        assert plain.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_file_in_another_journal_mode_is_brought_back_to_the_log(path):
    with opened(path) as store:
        start(store)
    corrupt(path, "PRAGMA journal_mode = DELETE")
    with opened(path) as store:
        assert head(store).seq == 0
        assert store._kept.writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize("wrong", [{"durability": "off"}, {"lease": 0}, {"lease": float("nan")}])
def test_settings_that_make_no_sense_are_refused(path, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SQLiteCheckpointer(path, **wrong)


# -- paths -----------------------------------------------------------------------------------------------------------


@pytest.mark.case("S87")
def test_one_path_with_a_home_and_a_variable_is_one_store_from_two_directories(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("STAGE", "dev")
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    monkeypatch.chdir(tmp_path / "one")
    with opened("~/$STAGE/${STAGE}.db") as store:
        start(store)
        monkeypatch.chdir(tmp_path / "two")
        assert head(store).seq == 0
    with opened("~/$STAGE/${STAGE}.db") as store:
        assert store.location == str(tmp_path / "dev" / "dev.db")
        assert head(store).seq == 0
    assert list((tmp_path / "one").iterdir()) == list((tmp_path / "two").iterdir()) == []


def test_a_relative_path_is_fixed_when_the_store_is_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with opened("x/../store.db") as store:
        monkeypatch.chdir(tmp_path / "elsewhere")
        start(store)
    assert (tmp_path / "store.db").exists()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("$NOT_SET/x.db", "NOT_SET"),
        ("${NOT_SET}", "NOT_SET"),
        ("", "names no file"),
        ("~nobody-here/x", "names no file"),
        ("a\0b", "names no file"),
    ],
)
def test_a_path_that_names_no_file_is_refused_when_the_store_is_made(monkeypatch, wrong, said):
    monkeypatch.delenv("NOT_SET", raising=False)
    with pytest.raises(ValueError, match=said):
        SQLiteCheckpointer(wrong)
    monkeypatch.setenv("FASTDUR_DB", wrong.replace("\0", "$NOT_SET"))
    with pytest.raises(ValueError, match="path"):
        SQLiteCheckpointer()


def test_the_default_store_is_one_object_for_each_path(tmp_path, monkeypatch):
    monkeypatch.delenv("FASTDUR_DB", raising=False)
    monkeypatch.chdir(tmp_path)
    first = default_store()
    with closing(first):
        assert first.location == str(tmp_path / ".fastdur" / "fastdur.db")
        assert default_store() is first
        start(first)
        assert mode(tmp_path / ".fastdur") == 0o700
        monkeypatch.setenv("FASTDUR_DB", "other.db")
        other = default_store()
        assert other is not first
        assert other.location == str(tmp_path / "other.db")
        monkeypatch.delenv("FASTDUR_DB")
    again = default_store()
    assert again is not first
    with closing(again):
        assert head(again).seq == 0


def test_a_path_of_odd_characters_is_one_file(tmp_path):
    file = tmp_path / "a%20b?c#d 'e\".db"
    with opened(file) as store:
        start(store)
    assert [found.name for found in tmp_path.iterdir()] == [file.name]


def test_a_link_to_a_file_that_is_not_there_makes_that_file(tmp_path):
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")
    with opened(tmp_path / "link.db") as store:
        start(store)
    assert mode(tmp_path / "real.db") == 0o600


# -- what is refused -------------------------------------------------------------------------------------------------


def everything(folder):
    return {file.name: file.read_bytes() for file in Path(folder).iterdir() if file.is_file()}


def refused(path, error, said):
    before = everything(Path(path).parent)
    with opened(path) as store:
        for call in (store.setup, lambda: start(store), lambda: store.get_last("r"), store.list_executions):
            with pytest.raises(error, match=said) as caught:
                call()
            assert path in str(caught.value)
    assert everything(Path(path).parent) == before


def test_a_newer_store_is_refused_and_not_one_byte_of_it_changes(path):
    with opened(path) as store:
        start(store)
    corrupt(path, f"UPDATE schema_version SET version = {SCHEMA + 1}")
    refused(path, StoreTooNew, "upgrade fastdur")


def test_a_newer_store_whose_log_is_not_folded_back_is_refused_and_nothing_changes(path, tmp_path):
    (tmp_path / "copy").mkdir()
    copy = str(tmp_path / "copy" / "store.db")
    with opened(path) as store:
        start(store)
        store._kept.writer.execute("UPDATE schema_version SET version = 9")
        for end in ("", "-wal"):
            Path(copy + end).write_bytes(Path(path + end).read_bytes())
    before = Path(copy).read_bytes(), Path(copy + "-wal").read_bytes()
    with opened(copy) as copied, pytest.raises(StoreTooNew, match="schema 9"):
        copied.setup()
    assert (Path(copy).read_bytes(), Path(copy + "-wal").read_bytes()) == before


@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_a_database_of_something_else_is_refused_untouched(path, journal):
    corrupt(path, f"PRAGMA journal_mode = {journal}")
    corrupt(path, "CREATE TABLE schema_version (version)")
    refused(path, StoreCorrupt, "not a fastdur store")


def test_an_empty_database_that_something_else_has_marked_is_refused(path):
    corrupt(path, "PRAGMA application_id = 7")
    refused(path, StoreCorrupt, "not a fastdur store")


@pytest.mark.parametrize("content", [b"x", b"not a database, " * 200], ids=["tiny", "long"])
def test_a_file_that_is_no_database_is_refused_untouched(path, content):
    Path(path).write_bytes(content)
    refused(path, StoreCorrupt, "damaged or not a fastdur store")


def test_an_empty_file_becomes_a_store(path):
    Path(path).touch()
    with opened(path) as store:
        start(store)


def test_a_store_without_its_tables_is_refused_untouched(path):
    corrupt(path, f"PRAGMA application_id = {APPLICATION_ID}")
    corrupt(path, "CREATE TABLE other (x)")
    refused(path, StoreCorrupt, "no such table")


def test_a_damaged_page_is_a_clear_error_and_the_store_object_goes_on(path):
    with opened(path) as store:
        claim = start(store)
        for n in range(50):
            store.put(claim, row(claim, {"n": n, "pad": "x" * 900}), "running")
        start(store, "other")
    sound = bytearray(Path(path).read_bytes())
    damaged = bytearray(sound)
    for page in range(8, len(sound) // 2048):
        damaged[page * 2048 : page * 2048 + 64] = b"\xff" * 64
    Path(path).write_bytes(damaged)
    with opened(path) as store:
        with pytest.raises(StoreCorrupt, match="damaged"):
            store.list("r")
        with pytest.raises(StoreCorrupt, match="damaged"):
            store.put(claim, row(claim), "running")
        store.rest()
        Path(path).write_bytes(sound)
        assert len(store.list("r")) == 50
        store.put(claim, row(claim), "running")


def test_a_directory_is_refused(tmp_path):
    refused(str(tmp_path), StoreUnavailable, "is no file")


def test_a_directory_that_cannot_be_made_is_a_clear_error(tmp_path):
    (tmp_path / "file").touch()
    with opened(tmp_path / "file" / "store.db") as store, pytest.raises(StoreUnavailable, match="cannot be created"):
        store.setup()


AS_NOBODY = """
import os, sys
from fastdur.checkpointers.sqlite import SQLiteCheckpointer
from fastdur.errors import StoreUnavailable
from tests.checkpointers.stores import start
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
store = SQLiteCheckpointer(sys.argv[1])
for call in (store.setup, lambda: start(store), lambda: store.get_last("r")):
    try:
        call()
    except StoreUnavailable as error:
        print(error)
store.close()
"""


@pytest.mark.parametrize(("bits", "said"), [(0o444, "cannot be written"), (0o000, "cannot be opened")])
def test_a_file_that_may_not_be_written_or_read_is_a_clear_error(tmp_path_factory, bits, said):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        with opened(path) as store:
            start(store)
        Path(folder).chmod(0o755)
        path.chmod(bits)
        before = path.read_bytes() if bits else b""
        worker = process(AS_NOBODY, str(path))
        answer, _ = worker.communicate()
        assert worker.returncode == 0
        assert [said in line for line in answer.splitlines()] == [True] * 3, answer
        if bits:
            assert path.read_bytes() == before
        assert [found.name for found in Path(folder).iterdir()] == ["store.db"]


def test_a_file_system_without_a_log_is_a_clear_error(path):
    class NoLog(sqlite3.Connection):
        def execute(self, sql, *values):
            return super().execute(sql.replace("WAL", "DELETE"), *values)

    with opened(path) as store:
        store.driver = NoLog
        with pytest.raises(StoreUnavailable, match="write-ahead log"):
            store.setup()


def test_a_store_that_somebody_died_while_making_is_finished(path):
    """A hot journal beside the file: only an opening for writing may roll it back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as plain:
        plain.execute("CREATE TABLE filler (x)")
        plain.execute("DROP TABLE filler")
        plain.execute("PRAGMA cache_size = 1")
        plain.execute("BEGIN IMMEDIATE")
        plain.execute("CREATE TABLE junk (x)")
        plain.execute("INSERT INTO junk SELECT zeroblob(90000)")
        torn, journal = Path(path).read_bytes(), Path(path + "-journal").read_bytes()
    other = path + "2"
    Path(other).write_bytes(torn)
    Path(other + "-journal").write_bytes(journal)
    with opened(other) as store:
        start(store)
    assert [name for (_, name) in [(0, t) for t in tables(other)]]


# -- looks -----------------------------------------------------------------------------------------------------------


@pytest.mark.case("S90")
def test_every_look_up_uses_an_index(filed):
    filed.setup()
    sql = filed._sql
    connection = filed._kept.writer.driver
    texts = [
        sql.newest, sql.one, sql.started, sql.claimed, sql.renew, sql.release, sql.answer, sql.withdraw, sql.regraph,
        sql.clear_failed, sql.begin_effect, sql.end_effect, sql.effect_fence, sql.effect_of_run, sql.effect,
        sql.effects, sql.head, sql.start_texts,
        *(sql.move(hold, row=True, status=True, asked=True) for hold in ("keep", "drop", "take")),
        sql.pending(one_run=True, limited=False),
        sql.heads(("running", "paused", "failed"), runner=False, parent=False, limited=False),
        sql.heads(("completed",), runner=True, parent=False, limited=True),
        sql.heads((), runner=False, parent=True, limited=False),
        sql.remove, sql.remove_rows, sql.remove_starts, sql.remove_questions, sql.remove_effects, sql.left,
        sql.inherit, sql.inherit_here, sql.start_below, sql.start_beside,
    ]  # fmt: skip
    found_already = {"SCAN held", "SCAN json_each VIRTUAL TABLE INDEX 1:", "SCAN t", "SCAN s"}
    for text in texts:
        plan = [step[3] for step in connection.execute("EXPLAIN QUERY PLAN " + text, [0] * text.count("?"))]
        assert plan, text
        scans = {step for step in plan if step.startswith("SCAN") and "CONSTANT" not in step}
        assert not scans - found_already, (text, plan)
    newest = connection.execute("EXPLAIN QUERY PLAN " + sql.newest, [0] * 3)
    assert not [step[3] for step in newest if "TEMP B-TREE" in step[3]]


@pytest.mark.case("S90")
def test_a_step_touches_no_index(filed):
    filed.setup()
    connection = filed._kept.writer.driver
    roots = {root for (root,) in connection.execute("SELECT rootpage FROM sqlite_master WHERE type = 'index'")}
    step = filed._sql.move("keep", row=True, status=False, asked=False)
    for text in (step, filed._sql.append):
        program = connection.execute("EXPLAIN " + text, [0] * text.count("?")).fetchall()
        assert not [line for line in program if line[1] == "OpenWrite" and line[3] in roots]
        assert [line for line in program if line[1] == "OpenWrite"]


# -- the end ---------------------------------------------------------------------------------------------------------


def test_a_closed_store_says_so_and_may_be_closed_again(store):
    start(store)
    store.close()
    store.close()
    assert store.closed
    for call in (store.setup, lambda: store.get_last("r"), lambda: start(store), lambda: store.renew([object()])):
        with pytest.raises(StoreClosed, match="was closed"):
            call()


def test_closing_leaves_one_whole_file(path):
    with opened(path) as store:
        start(store)
        assert head(store)
    assert [found.name for found in Path(path).parent.iterdir()] == ["store.db"]


LEFT = """
import sys
from fastdur.checkpointers.sqlite import SQLiteCheckpointer
from tests.checkpointers.stores import start
SQLiteCheckpointer(sys.argv[1]).setup()
store = SQLiteCheckpointer(sys.argv[1])
start(store)
"""


def test_a_store_that_nobody_closed_is_closed_when_it_is_collected_and_at_the_end(path):
    done = subprocess.run([sys.executable, "-W", "error", "-c", LEFT, path], cwd=ROOT, check=True, capture_output=True)
    assert done.stderr == b""
    assert [found.name for found in Path(path).parent.iterdir()] == ["store.db"]
    assert len(tables(path)["executions"]) == 1


def test_every_error_of_a_store_is_a_store_error():
    assert issubclass(StoreClosed, StoreError)
    assert sqlite.SQLiteCheckpointer is SQLiteCheckpointer
