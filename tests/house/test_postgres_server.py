"""The server that `ci/test` starts is a real one, set up to lose nothing."""

from __future__ import annotations

import os

import psycopg
import pytest


@pytest.fixture
def server():
    dsn = os.environ.get("FASTDUR_TEST_POSTGRES")
    required = os.environ.get("CI") or os.environ.get("FASTDUR_REQUIRE_POSTGRES")
    if dsn is None and not required:
        return None
    assert dsn, (
        "FASTDUR_TEST_POSTGRES is not set, and here a Postgres server is required: run ./ci/test, which starts one"
    )
    return dsn


def test_the_server_answers_and_a_commit_is_on_disk_when_it_returns(server):
    if server is None:  # run by hand, without ./ci/test
        return
    with psycopg.connect(server) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
        for name in ("fsync", "synchronous_commit"):
            assert connection.execute("select current_setting(%s)", [name]).fetchone() == ("on",), name
