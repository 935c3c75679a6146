"""`fastdur runs`."""

from __future__ import annotations

import json
import os

import pytest

from fastdur import Chain, SQLiteCheckpointer
from fastdur.cli._text import shown
from tests.cli.conftest import dies_in_the_second_node, normal, refund

LISTED = """\
RUN      RUNNER  STATUS     SEQ  LAST STEP  AGE
dead     doomed  running      1  first      0 s
  owner gone (process PID)
  input {"amount": 50}
waiting  refund  paused       2  check      0 s
  asks over_limit (approve#1/1)
  input {"amount": 40}
stopped  refund  cancelled    3  check      0 s
  input {"amount": 30}
broken   refund  failed       5  approve    0 s
  ValueError: no money\\nleft
  input {"amount": 20, "broke": true}
done     refund  completed    6  payout     0 s
  input {"amount": 10}
"""


def test_each_run_is_listed_with_how_it_stands(fastdur_apart, store):
    said = fastdur_apart("runs", "--store", store.location)
    assert (said.code, normal(said.out), said.err) == (0, LISTED, "")


@pytest.mark.case("S12")
def test_a_run_killed_in_its_second_node_is_unfinished_and_looks_like_no_other(fastdur_here, store):
    listed = json.loads(fastdur_here("runs", "--store", store.location, "--unfinished", "--json").out)
    assert {run["execution_id"]: run["status"] for run in listed} == {
        "dead": "running",
        "waiting": "paused",
        "broken": "failed",
    }
    dead = listed[0]
    assert dead["last_committed"] == "first"
    assert dead["owner"]["state"] == "gone"
    assert [run["owner"] for run in listed[1:]] == [None, None]


@pytest.mark.case("S100")
def test_a_run_with_a_made_up_id_is_found_by_its_runner_with_input_and_last_step(fastdur_here, tmp_path):
    held = SQLiteCheckpointer(tmp_path / "runs.db")
    refund(held).execute({"amount": 1})
    dies_in_the_second_node(held)
    said = fastdur_here("runs", "--store", held.location, "--unfinished", "--runner", "doomed", "--json")
    (found,) = json.loads(said.out)
    assert (found["input"], found["last_committed"]) == ({"amount": 50}, "first")
    shown = fastdur_here("show", found["execution_id"], "--store", held.location).out
    assert f"chain.resume({found['execution_id']!r})" in shown
    assert held.list_executions(runner="doomed")[0].seq == 1


@pytest.mark.parametrize(
    ("options", "runs"),
    [
        (["--status", "failed"], ["broken"]),
        (["--runner", "doomed"], ["dead"]),
        (["--status", "failed", "--runner", "doomed"], []),
        (["--limit", "2"], ["dead", "waiting"]),
        (["--unfinished", "--status", "completed"], []),
    ],
)
def test_only_the_runs_that_are_asked_for_are_listed(fastdur_here, store, options, runs):
    listed = json.loads(fastdur_here("runs", "--store", store.location, "--json", *options).out)
    assert [run["execution_id"] for run in listed] == runs


def test_it_says_when_there_are_more_than_it_lists(fastdur_here, store):
    assert "more than these 4" in fastdur_here("runs", "--store", store.location, "--limit", 4).out
    assert "more than" not in fastdur_here("runs", "--store", store.location, "--limit", 5).out


def test_an_empty_list_names_the_store_it_looked_in(fastdur_here, store):
    said = fastdur_here("runs", "--store", store.location, "--runner", "nobody")
    assert (said.code, said.out) == (0, f"No such run in {store.location}\n")


def test_a_store_without_runs_is_no_error(fastdur_here, tmp_path):
    SQLiteCheckpointer(tmp_path / "new.db").setup()
    assert fastdur_here("runs", "--store", "new.db").out == f"No run in {tmp_path}/new.db\n"


def test_a_live_owner_is_called_alive(fastdur_here, tmp_path):
    held = SQLiteCheckpointer(tmp_path / "runs.db")
    seen = []

    def look(state):
        seen.append(fastdur_here("runs", "--store", held.location))
        seen.append(fastdur_here("show", "r", "--store", held.location))

    Chain("watched", held).add_node("look", look).execute({}, "r")
    assert f"owner alive (process {os.getpid()})" in seen[0].out
    assert f"nothing: process {os.getpid()} is working on it" in seen[1].out
    assert "no row yet" in seen[1].out


def test_the_last_step_is_found_behind_many_questions(fastdur_here, tmp_path):
    from fastdur import Resume, interrupt

    held = SQLiteCheckpointer(tmp_path / "runs.db")
    chain = Chain("asks", held).add_node("first", lambda state: None)
    chain.add_node("many", lambda state: [interrupt(f"q{n}") for n in range(9)] and None).connect("first", "many")
    chain.execute({}, "r")
    for _ in range(5):
        chain.resume("r", Resume(approved=True))
    assert json.loads(fastdur_here("runs", "--store", held.location, "--json").out)[0]["last_committed"] == "first"


def test_no_line_is_wider_than_the_terminal_and_no_id_is_cut(fastdur_here, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    held = SQLiteCheckpointer(tmp_path / "runs.db")
    chain = Chain("a chain with quite a long name", held)
    chain.add_node("a node whose name is longer than anybody would like", lambda state: None)
    chain.execute({"text": "x" * 500}, "r" * 32)
    chain.execute({}, "i" * 70)
    lines = fastdur_here("runs", "--store", held.location).out.splitlines()
    assert {"r" * 32, "i" * 70} <= set(lines)
    assert max(len(each) for each in lines if each != "i" * 70) <= 60


def test_80_columns_hold_a_made_up_id_in_one_line(fastdur_here, tmp_path):
    held = SQLiteCheckpointer(tmp_path / "runs.db")
    chain = Chain("refunds", held).add_node("an address that is rather long", lambda state: None)
    run = chain.execute({}).execution_id
    row = fastdur_here("runs", "--store", held.location).out.splitlines()[1]
    assert row.startswith(run)
    assert "completed" in row
    assert len(row) <= 80


@pytest.mark.parametrize("text", ["\x1b[31mred", "[bold]no markup[/bold]", "\ud800", "é\n\u202e"])
def test_a_text_of_the_user_moves_no_cursor_and_is_no_markup(fastdur_here, tmp_path, text):
    held = SQLiteCheckpointer(tmp_path / "runs.db")
    chain = Chain(text, held).add_node(text.replace("/", "-"), lambda state: None)
    chain.execute({"text": text}, text)
    for verb in (["runs"], ["show", text]):
        said = fastdur_here(*verb, "--store", held.location)
        assert said.code == 0
        assert not set("\x1b\u202e\ud800") & set(said.out)
        assert ("[bold]" in said.out) == ("[bold]" in text)


def test_values_are_shown_without_the_classes_they_were_made_of(fastdur_apart, tmp_path):
    from dataclasses import dataclass
    from decimal import Decimal

    from fastdur import interrupt, storable

    @storable(name="shop.Order")
    @dataclass
    class Order:
        total: Decimal

    held = SQLiteCheckpointer(tmp_path / "runs.db")
    chain = Chain("typed", held).add_node("ask", lambda state: {"ok": interrupt("pay", state["order"]).approved})
    chain.execute({"order": Order(Decimal("1.50"))}, "r")
    order = 'dataclass("shop.Order", {"total": decimal("1.50")})'
    assert f'input {{"order": {order}}}' in fastdur_apart("runs", "--store", held.location).out
    assert f"pay  {order}" in fastdur_apart("show", "r", "--store", held.location).out


def test_a_value_of_any_kind_fits_in_a_line():
    assert shown({"a": [1, None, {"b": {"$": ["tuple", 1, "x"]}}]}) == '{"a": [1, null, {"b": tuple(1, "x")}]}'


def test_colour_is_for_terminals_and_not_where_it_is_not_wanted(fastdur_apart, store):
    listing = ("runs", "--store", store.location)
    assert "\x1b[" not in fastdur_apart(*listing).out
    assert "\x1b[31m" in fastdur_apart(*listing, FORCE_COLOR="1", TERM="xterm").out
    assert "\x1b[31m" not in fastdur_apart(*listing, FORCE_COLOR="1", NO_COLOR="1", TERM="xterm").out
