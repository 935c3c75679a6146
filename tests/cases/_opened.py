"""The store of a story, known by its folder alone: a file in it, or a note of where in Postgres."""

from __future__ import annotations

import json
from pathlib import Path

from fastdur import PostgresCheckpointer, SQLiteCheckpointer

NOTE = "postgres.json"
BACKENDS = ("sqlite", "postgres")


def on_postgres(folder, dsn, schema):
    """Let the stories of this folder be kept in Postgres."""
    _note(folder).write_text(json.dumps([dsn, schema]))


def opened(folder, **options):
    """A new store object on the store of this folder."""
    where = place(folder)
    return (
        SQLiteCheckpointer(Path(folder) / "runs.db", **options)
        if where is None
        else PostgresCheckpointer(*where, **options)
    )


def another(store, mixin=object, **options):
    """One more store object on the same store; its class has `mixin` in front of the store's."""
    kind = SQLiteCheckpointer if isinstance(store, SQLiteCheckpointer) else PostgresCheckpointer
    where = (store.location,) if kind is SQLiteCheckpointer else (store._conninfo, store._schema)
    made = kind if mixin is object else type(mixin.__name__, (mixin, kind), {})
    return made(*where, **options)


def place(folder):
    """Where in Postgres the stories of this folder are kept, as dsn and schema; None where they are in a file."""
    note = _note(folder)
    return json.loads(note.read_text()) if note.exists() else None


def on_files(test):
    """For a test that looks into the file, or stands on a class of the file's store."""
    test.backends = ("sqlite",)
    return test


def on_a_server(test):
    """For what the same test on files, with more parameters, stands beside."""
    test.backends = ("postgres",)
    return test


def _note(folder):
    return Path(folder) / NOTE
