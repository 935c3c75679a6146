"""What is known of names."""

from __future__ import annotations

import ast
import importlib

import pytest

from fastdur.lint import _catalogue as catalogue
from fastdur.lint import _libraries as libraries

# Of what the catalogue names, what is installed where the tests run: each of these must exist there.
INSTALLED = (
    "asyncio",
    "collections",
    "concurrent",
    "contextlib",
    "datetime",
    "functools",
    "getpass",
    "glob",
    "http",
    "httpx",
    "io",
    "itertools",
    "logging",
    "multiprocessing",
    "os",
    "pathlib",
    "platform",
    "psycopg",
    "psycopg_pool",
    "queue",
    "random",
    "secrets",
    "shutil",
    "smtplib",
    "socket",
    "sqlite3",
    "subprocess",
    "threading",
    "time",
    "urllib",
    "uuid",
    "builtins",
    "fastdur",
)
NOT_IN_EVERY_PYTHON = {"uuid.uuid6", "uuid.uuid7", "os.getlogin", "getpass.getuser", "os.getrandom"}


def spelled():
    lines = [line for _, lines in (*libraries.EFFECTS, *libraries.READS) for line in lines]
    for line in [*lines, *catalogue._LINES]:
        for each in catalogue._spelled(line):
            first = each.split("()")[0]
            if "*" not in first and first.split(".")[0] in INSTALLED and first not in NOT_IN_EVERY_PYTHON:
                yield first


@pytest.mark.parametrize("dotted", sorted(set(spelled())))
def test_what_is_named_exists(dotted):
    parts = dotted.split(".")
    value = None
    for count in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:count]))
        except ImportError:
            continue
        break
    for name in parts[count:]:
        value = getattr(value, name)
    assert value is not None


@pytest.mark.parametrize(
    ("dotted", "same"),
    [
        ("requests.sessions.Session().post", "requests.Session().post"),
        ("requests.session().post", "requests.Session().post"),
        ("requests.api.post", "requests.post"),
        ("requests.sessions_of", "requests.sessions_of"),
        ("fastdur.chain.Chain", "fastdur.Chain"),
        ("fastdur.interrupt.interrupt", "fastdur.interrupt"),
        ("fastdur.Chain().add_node().connect", "fastdur.Chain().connect"),
        ("typing_extensions.Annotated", "typing.Annotated"),
    ],
)
def test_one_name_stands_for_several(dotted, same):
    assert catalogue.canonical(dotted) == same


@pytest.mark.parametrize(
    ("dotted", "worth"),
    [
        ("requests", True),
        ("requests.Session", True),
        ("requests.Session()", True),
        ("requests.Session().post", True),
        ("requests.Session().nothing", False),
        ("requests.Session().post()", True),
        ("requests.Session().close()", False),
        ("stripe.anything", True),
        ("stripe.Charge().a().b().c().d().e()", False),
        ("boto3.client().put_object", True),
        ("os.path", False),
        ("os.execv", True),
        ("mylib", True),
        ("mylib.deep.send", True),
        ("mylib.other", False),
        ("fastdur.Resume", False),
    ],
)
def test_only_what_a_rule_may_ask_for_is_followed(dotted, worth):
    known = catalogue.Known(["mylib.deep.send"])
    assert (dotted in known, dotted in known) == (worth, worth)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("INSERT INTO t VALUES (1)", libraries.INSERT),
        ("\n  insert into t select 1", libraries.INSERT),
        ("UPDATE t SET n = 1", libraries.ROWS),
        ("WITH a AS (SELECT 1) UPDATE t SET n = 1", libraries.ROWS),
        ("MERGE INTO t USING s ON 1 = 1", None),
        ("REPLACE INTO t VALUES (1)", None),
        ("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", None),
        ("INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE n = 1", None),
        ("SELECT * FROM inserts", None),
        ("", None),
    ],
)
def test_a_statement_is_told_by_its_first_word(text, kind):
    assert catalogue.sql_kind(text) == kind


def call(text):
    return ast.parse(text, mode="eval").body


def test_a_request_that_only_asks_is_no_effect():
    made = call("f('m', 'u')")
    assert catalogue.effect_kind("requests.request", made, frozenset({"GET", "HEAD"})) is None
    assert catalogue.effect_kind("requests.request", made, frozenset({"GET", "PUT"})) is libraries.SETTING
    assert catalogue.effect_kind("requests.request", made, frozenset({"GET", "POST"})) is libraries.HTTP
    assert catalogue.effect_kind("requests.request", made) is libraries.HTTP
    assert catalogue.effect_kind("requests.request", call("f(*args)")) is libraries.HTTP
    assert catalogue.effect_kind("urllib.request.urlopen", call("f('u')")) is None
    assert catalogue.effect_kind("urllib.request.urlopen", call("f(f'u{1}')")) is None
    assert catalogue.effect_kind("urllib.request.urlopen", call("f('u', b'data')")) is libraries.HTTP
    assert catalogue.effect_kind("urllib.request.urlopen", call("f(request)")) is libraries.HTTP
    assert catalogue.effect_kind("urllib.request.urlopen", call("f('u', data=b'')")) is libraries.HTTP
