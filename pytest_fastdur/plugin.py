"""The entry point that pytest loads: imports only pytest and the standard library. PYTEST_DONT_REWRITE.

Every run of pytest pays for what stands here, whether it uses the plugin or not: pytest compiles it anew where bytecode
is not kept. So a hook or fixture only names the module that does the work.
"""

from __future__ import annotations

import os
from functools import partial
from tempfile import gettempdir
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from fastdur.checkpointers.postgres import PostgresCheckpointer
    from fastdur.checkpointers.sqlite import SQLiteCheckpointer
    from pytest_fastdur.backends import Backend
    from pytest_fastdur.crash import Crash
    from pytest_fastdur.databases import PostgresStores
    from pytest_fastdur.fixtures import CrashSweep
    from pytest_fastdur.ledger import EffectLedger
    from pytest_fastdur.racing import Interleaving, Racing
    from pytest_fastdur.strict.server import StrictProvider

_OPTIONS = {
    "faults": (
        "LIST",
        "kinds of fault, comma separated: crash (if none is given), kill, raise, cancel, zombie, … (see the docs)",
    ),
    "at": ("GLOB", "only the boundaries that fit, such as 'after append *' or 'resume#1/*'"),
    "boundaries": ("LIST", "beside those of the engine: sql, each statement of a store; lines, each line of a node"),
    "budget": ("N", "try at most N crash points; a sweep that is cut off does not pass"),
    "seed": ("N", "mix the order of the crash points, the same way for the same number"),
    "backends": (
        "LIST",
        "stores that `checkpointer` and `crash_sweep` use: sqlite, postgres, memory (`checkpointer`: the first two)",
    ),
    "postgres-dsn": ("DSN", "the Postgres server for tests; a database for each worker is made there, and dropped"),
    "postgres": ("MODE", "where there is no Postgres: auto (skip; in CI fail), require (fail), off (skip) (auto)"),
    "fail-under": ("PERCENT", "fail where less than this of the instants, at which faults can strike, was struck"),
    "report": ("DIR", "write every history as JSON lines into DIR, and one page that shows them, index.html"),
    "zoo": ("NAMES", "run the tests against broken engines, `all` or these, and list those that no test notices"),
    "replay": ("TOKEN", "play one finding again: the token that its report shows"),
}
PATCH = "fastdur-regressions.patch"
_MARKER = "fastdur(faults, at, boundaries, depth, budget, seed): what crash_sweep does where its call does not say"
_REPLAY_MARKER = "fastdur_replay(token): a finding that crash_sweep, or interleave, plays before anything else"
_LINT = "lint the files and folders that pytest is given, and fail where `fastdur lint` finds something"


# -- set-up -----------------------------------------------------------------------------------------------------------


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Let others extend the sweeps."""
    from pytest_fastdur import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Every option is an ini key too."""
    group = parser.getgroup("fastdur", "crash testing of durable workflows")
    for name, (metavar, text) in _OPTIONS.items():
        key = name.replace("-", "_")
        group.addoption(f"--fastdur-{name}", dest=f"fastdur_{key}", metavar=metavar, help=text)
        parser.addini(f"fastdur_{key}", text, default=None)
    group.addoption(
        "--fastdur-write-regressions",
        action="store_true",
        help=f"write what is found as marks on its tests into {PATCH}, a patch to apply",
    )
    group.addoption("--fastdur-lint", action="store_true", default=None, help=_LINT)
    parser.addini("fastdur_lint", _LINT, type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a misspelt option before a test runs."""
    config.addinivalue_line("markers", _MARKER)
    config.addinivalue_line("markers", _REPLAY_MARKER)
    if option(config, "report") is not None:
        from pytest_fastdur.options import begin_report

        begin_report(config)
    if "FASTDUR_LOOSE" in os.environ:
        from pytest_fastdur.visit import let_loose

        let_loose(config, os.environ["FASTDUR_LOOSE"])
    if config.getoption("fastdur_lint") or config.getini("fastdur_lint"):
        from pytest_fastdur.lint import register

        register(config)
    given = {name: value for name in _OPTIONS if (value := option(config, name))}
    if given:
        from pytest_fastdur.options import check

        check(given)


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Where the tests are to meet broken engines, that is all that is done."""
    wanted = config.getoption("fastdur_zoo")
    if wanted is None:
        return None
    from pytest_fastdur.visit import visit

    return visit(wanted, config.invocation_params.args)


def option(config: pytest.Config, name: str) -> str | None:
    """What the command line says, else the ini file."""
    name = name.replace("-", "_")
    return config.getoption(f"fastdur_{name}") or config.getini(f"fastdur_{name}") or None


def pytest_report_header(config: pytest.Config) -> str:
    """One line, so that a log tells what was ordered."""
    hidden = ("faults", "report", "postgres-dsn")  # a DSN may hold a password
    given = [f"{name} {value}" for name in _OPTIONS if name not in hidden and (value := option(config, name))]
    faults = option(config, "faults") or "crash"
    return f"fastdur: {', '.join([f'faults {faults}', *given])}"


# -- fixtures ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def sqlite_checkpointer_factory(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[], SQLiteCheckpointer]]:
    """Return a function that makes an empty store on a file of its own, for tests that need one for each example."""
    from pytest_fastdur.fixtures import Stores

    with Stores(tmp_path_factory.mktemp("fastdur")) as stores:
        yield stores.fresh


@pytest.fixture
def sqlite_checkpointer(tmp_path: Path) -> Iterator[SQLiteCheckpointer]:
    """Return an empty store on a file of its own, closed at the end of the test.

    Under Hypothesis all examples of a test would share it: take `sqlite_checkpointer_factory` there.
    """
    from pytest_fastdur.fixtures import Stores

    with Stores(tmp_path) as stores:
        yield stores.fresh()


@pytest.fixture
def memory_checkpointer() -> Iterator[SQLiteCheckpointer]:
    """Return an empty store in memory, closed at the end of the test."""
    from contextlib import closing

    from fastdur.checkpointers.sqlite import SQLiteCheckpointer

    with closing(SQLiteCheckpointer(":memory:")) as store:
        yield store


@pytest.fixture(scope="session")
def fastdur_postgres(request: pytest.FixtureRequest) -> Iterator[PostgresStores]:
    """Return the database of this worker; the fixtures below give out stores in it."""
    from pytest_fastdur import databases
    from pytest_fastdur.shared_server import server_for

    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    with databases.PostgresStores(server_for(request.config), worker) as stores:
        yield stores


@pytest.fixture(scope="session")
def fastdur_killable_postgres(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """Return where histories are kept whose server may be killed: one that is started for them, once a session."""
    from pytest_fastdur.backends import Schemas
    from pytest_fastdur.databases import PostgresStores
    from pytest_fastdur.shared_server import or_none

    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    with or_none(request.config), PostgresStores.on_a_server_of_their_own(worker) as (stores, server):
        yield Schemas(stores, server)


@pytest.fixture(scope="session")
def postgres_checkpointer_factory(fastdur_postgres: PostgresStores) -> Iterator[Callable[..., PostgresCheckpointer]]:
    """Return a function that makes an empty store in a schema of its own, for tests that need one for each example."""
    with fastdur_postgres.stores() as fresh:
        yield fresh


@pytest.fixture
def postgres_checkpointer(fastdur_postgres: PostgresStores) -> Iterator[PostgresCheckpointer]:
    """Return an empty store on a real Postgres server, closed at the end of the test."""
    with fastdur_postgres.stores() as fresh:
        yield fresh()


@pytest.fixture
def fastdur_backend(request: pytest.FixtureRequest) -> str:
    """Return the name of the backend that this test item is for."""
    name: str = getattr(request, "param", "sqlite")
    return name


@pytest.fixture
def fastdur_place(fastdur_backend: str, request: pytest.FixtureRequest) -> Backend | None:
    """Return where crashed histories are kept, None for files of their own."""
    theirs: Backend | None = request.config.hook.pytest_fastdur_backend(name=fastdur_backend, request=request)
    if theirs is not None or fastdur_backend == "sqlite":
        return theirs
    from pytest_fastdur.backends import Memory, Schemas

    if fastdur_backend == "memory":
        return Memory()
    return Schemas(request.getfixturevalue("fastdur_postgres"))


@pytest.fixture
def checkpointer(fastdur_backend: str, request: pytest.FixtureRequest) -> SQLiteCheckpointer | PostgresCheckpointer:
    """Return an empty store; the test runs once for each of `--fastdur-backends`, by default SQLite and Postgres."""
    store: SQLiteCheckpointer | PostgresCheckpointer = request.getfixturevalue(f"{fastdur_backend}_checkpointer")
    return store


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test item for each backend: those that are ordered, else both for `checkpointer`, and SQLite for a sweep."""
    names = metafunc.fixturenames
    if "fastdur_backend" not in names:
        return
    wanted = option(metafunc.config, "backends") or ("sqlite,postgres" if "checkpointer" in names else None)
    if wanted is not None:
        backends = [name.strip() for name in wanted.split(",")]
        metafunc.parametrize("fastdur_backend", backends, indirect=True)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the Postgres server that was started for this session, if one was: by this process or by a worker of it."""
    if os.path.exists(server_note(os.getpid())):  # noqa: PTH110 - what stops a server is imported where there is one
        from pytest_fastdur.shared_server import stop_server

        stop_server(config)


def server_note(leader: int) -> str:
    """Where is written down which server the session of a process has."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    return os.path.join(gettempdir(), f"fastdur-pg-{user}-{leader}")  # noqa: PTH118 - as above


@pytest.fixture
def effects(tmp_path: Path) -> Iterator[EffectLedger]:
    """Return the effect ledger: what really happened, kept outside the process that is killed."""
    from pytest_fastdur.ledger import EffectLedger

    with EffectLedger(tmp_path / "fastdur-effects") as ledger:
        yield ledger


@pytest.fixture
def crash(tmp_path: Path, effects: EffectLedger, fastdur_place: Backend | None) -> Iterator[Crash]:
    """Kill at one named boundary: `with crash.at("after append review"): …`, or `crash(build, at=…, input=…)`."""
    from pytest_fastdur.backends import Files
    from pytest_fastdur.crash import Crash

    made = Crash(fastdur_place or Files(str(tmp_path)), effects)
    yield made
    made.close()


@pytest.fixture
def crash_sweep(request: pytest.FixtureRequest, effects: EffectLedger, fastdur_place: Backend | None) -> CrashSweep:
    """Return the sweep: `crash_sweep(build, input=…, answers=…, effects=…)` crashes a workflow at every boundary."""
    from pytest_fastdur.fixtures import CrashSweep

    killable = partial(request.getfixturevalue, "fastdur_killable_postgres")
    return CrashSweep(request.node, effects, fastdur_place, killable)


@pytest.fixture
def interleave(request: pytest.FixtureRequest, effects: EffectLedger, fastdur_place: Backend | None) -> Interleaving:
    """Return the player of races: `interleave(build, ["resume", "recover"], …)` tries every order of a few callers."""
    from pytest_fastdur.racing import Interleaving

    return Interleaving(request.node, effects, fastdur_place)


@pytest.fixture
def race(request: pytest.FixtureRequest, effects: EffectLedger, fastdur_place: Backend | None) -> Racing:
    """Return the race of real processes: `race(build, ["resume"] * 4, rounds=50, …)`."""
    from pytest_fastdur.racing import Racing

    return Racing(request.node, effects, fastdur_place)


@pytest.fixture
def strict_openai() -> Iterator[StrictProvider]:
    """Return a local server of OpenAI's interfaces that refuses what the real one refuses, and answers by a script."""
    from pytest_fastdur.strict.openai import OpenAI
    from pytest_fastdur.strict.server import StrictProvider

    with StrictProvider(OpenAI()) as provider:
        yield provider


@pytest.fixture
def strict_anthropic() -> Iterator[StrictProvider]:
    """Return a local server of Anthropic's interface that refuses what the real one refuses; it follows a script."""
    from pytest_fastdur.strict.anthropic import Anthropic
    from pytest_fastdur.strict.server import StrictProvider

    with StrictProvider(Anthropic()) as provider:
        yield provider


# -- reports ----------------------------------------------------------------------------------------------------------


def pytest_report_teststatus(report: pytest.TestReport | pytest.CollectReport) -> tuple[str, str, str] | None:
    """A clause of a conformance suite that is not claimed has not passed."""
    properties: list[tuple[str, object]] | None = getattr(report, "user_properties", None)
    if not properties:
        return None
    from pytest_fastdur.clauses import status

    return status(report)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that covers less than is wanted."""
    if option(session.config, "fail_under") is not None:
        from pytest_fastdur.ending import fail_under

        fail_under(session)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was swept and found, and a table for each conformance suite."""
    reports = [report for known in terminalreporter.stats.values() for report in known]
    if any(hasattr(report, "fastdur") or getattr(report, "user_properties", ()) for report in reports):
        from pytest_fastdur.ending import summarize

        summarize(terminalreporter)
