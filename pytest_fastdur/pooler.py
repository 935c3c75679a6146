"""pgbouncer in transaction mode in front of a server: each transaction may go to another session."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pytest_fastdur.postgres import NoPostgres, the_user

if TYPE_CHECKING:
    from collections.abc import Generator

_CONFIG = """
[databases]
* = host={host} port={port} user={name}
[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
listen_port = 6432
auth_type = any
pool_mode = transaction
default_pool_size = {size}
logfile = {folder}/log
"""
_PLACES = f"{os.defpath}:/usr/sbin:/usr/local/sbin"


def program() -> str | None:
    """Where pgbouncer is, None where it is not."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path=_PLACES)


@contextmanager
def pooler(dsn: str, size: int = 2) -> Generator[str]:
    """Run pgbouncer with `size` sessions for each database of the server; gives where it is. Raises `NoPostgres`."""
    found = program()
    if found is None:
        message = "pgbouncer is not on PATH; on Debian and Ubuntu: apt install pgbouncer"
        raise NoPostgres(message)
    given = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    user, group = the_user()
    folder = Path(tempfile.mkdtemp(prefix="fastdur-pgb-", dir="/tmp"))
    text = _CONFIG.format(
        host=given["host"], port=given.get("port", 5432), folder=folder, size=size, name=given["user"]
    )
    (folder / "pgbouncer.ini").write_text(text)
    if user is not None and group is not None:
        os.chown(folder, user, group)
        os.chown(folder / "pgbouncer.ini", user, group)
    running = subprocess.Popen(  # noqa: S603 - found on PATH
        [found, "-q", folder / "pgbouncer.ini"],
        cwd=folder,
        user=user,
        group=group,
        extra_groups=None if user is None else [],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while not _listens(folder / ".s.PGSQL.6432"):
            if running.poll() is not None:
                message = f"pgbouncer ended with exit status {running.returncode}:\n{(folder / 'log').read_text()}"
                raise NoPostgres(message)
            os.sched_yield()
        yield make_conninfo(dsn, host=str(folder), port=6432)
    finally:
        running.terminate()
        running.wait()
        shutil.rmtree(folder)


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as end:
        return end.connect_ex(str(path)) == 0
