"""A Postgres server in a container, for tests where no program of one runs: by testcontainers, where Docker answers.

A process of its own keeps the container until the server is removed, or until the process that wanted it is gone. Where
the keeper is killed, testcontainers' own reaper removes the container.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

from pytest_fastdur.postgres import NoPostgres, Server, alive

IMAGE: Final = "postgres:18"
_SETTINGS: Final = "postgres -c max_connections=200"
_MODULES: Final = ("testcontainers.community.postgres", "testcontainers.postgres")
"""Where `PostgresContainer` is: since 4.15, and before."""

_PREFIX: Final = "fastdur-pgc-"
_LOOK_EVERY: Final = 0.1


@dataclass(frozen=True, slots=True)
class Contained(Server):
    """A server in a container; its folder has where it is, and who keeps it."""

    @property
    def dsn(self) -> str:
        """Where it is, for a driver."""
        return (self.folder / "dsn").read_text(encoding="utf-8")

    @property
    def up(self) -> bool:
        """Whether it has been started and not removed."""
        return (self.folder / "dsn").exists()

    def remove(self) -> None:
        """Stop and remove the container, and the folder."""
        assert self.folder.name.startswith(_PREFIX)
        (self.folder / "dsn").unlink()
        keeper = int((self.folder / "keeper").read_text())
        while alive(keeper):
            time.sleep(_LOOK_EVERY)
        rmtree(self.folder, ignore_errors=True)


def found(folder: Path) -> Server:
    """Return the server that has this folder."""
    return Contained(folder) if folder.name.startswith(_PREFIX) else Server(folder)


def contain_for(pid: int, note: str = "") -> Contained:
    """Start a server in a container that lives no longer than the process `pid`; the file `note` goes with it.

    Raises `NoPostgres`.
    """
    if importlib.util.find_spec("testcontainers") is None:
        message = "The package testcontainers is not installed, so no container was tried."
        raise NoPostgres(message)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    log = folder / "log"
    with log.open("w", encoding="utf-8") as output:
        done = subprocess.run(  # noqa: S603 - this module
            [sys.executable, "-m", "pytest_fastdur.container", str(pid), folder, note],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode != 0:
        told = [line for line in log.read_text(encoding="utf-8").splitlines() if line.strip()]
        rmtree(folder)
        message = f"Docker gives no container of {IMAGE}: {told[-1] if told else 'nothing was said'}"
        raise NoPostgres(message)
    return Contained(folder)


def keep(pid: int, folder: Path, note: str) -> None:
    """Hold a container as long as the process `pid` lives and nobody has removed the server."""
    server = Contained(folder)
    (folder / "keeper").write_text(str(os.getpid()))
    with _container() as container:
        made = folder / "dsn.new"
        made.write_text(container.get_connection_url(), encoding="utf-8")
        made.rename(folder / "dsn")
        while server.up and alive(pid):
            time.sleep(_LOOK_EVERY)
    if not alive(pid):  # else whoever removes the server waits for this process and does it
        rmtree(folder, ignore_errors=True)
        if note:
            Path(note).unlink(missing_ok=True)


def _container() -> Any:
    since, before = _MODULES
    try:
        module = importlib.import_module(since)
    except ModuleNotFoundError:
        module = importlib.import_module(before)
    user = "postgres"
    container = module.PostgresContainer(IMAGE, username=user, password=user, dbname=user, driver=None)
    return container.with_command(_SETTINGS)


def main(pid: int, folder: Path, note: str) -> None:
    """Keep a container in a child, and return when it is there. Ends with exit status 1 where there will be none."""
    child = os.fork()
    if not child:
        keep(pid, folder, note)
        return
    while not (folder / "dsn").exists():
        if os.waitpid(child, os.WNOHANG) != (0, 0):
            sys.exit(1)
        time.sleep(_LOOK_EVERY)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
