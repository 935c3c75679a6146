from __future__ import annotations

import itertools
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from fastdur.checkpointers.postgres import PostgresCheckpointer
from fastdur.checkpointers.sqlite import SQLiteCheckpointer
from pytest_fastdur.wire import Wire

_numbers = itertools.count()


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.db")


@pytest.fixture(params=["file", "memory", "postgres"])
def store(request, path):
    if request.param == "postgres":
        yield request.getfixturevalue("postgres_checkpointer")
        return
    with closing(SQLiteCheckpointer(path if request.param == "file" else ":memory:")) as made:
        yield made


@pytest.fixture
def filed(path):
    """A store in a file, for what a store in memory does not have."""
    with closing(SQLiteCheckpointer(path)) as made:
        yield made


@pytest.fixture
def dsn(fastdur_postgres):
    """A database that is this worker's own."""
    return fastdur_postgres.dsn


@pytest.fixture
def admin(dsn):
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def nothing(admin):
    """The name of a schema that is not there."""
    name = f"none_{next(_numbers)}"
    yield name
    admin.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')


@pytest.fixture
def wire(dsn):
    with Wire(dsn) as proxy:
        yield proxy


@pytest.fixture
def wired(wire, fastdur_postgres):
    """A store behind the proxy, set up, with one connection."""
    with fastdur_postgres.schemas() as fresh, closing(PostgresCheckpointer(wire.dsn, fresh(), 1, 1)) as store:
        store.setup()
        yield store
