"""`fastdur boundaries`."""

from __future__ import annotations

import importlib
import sys

import pytest

from fastdur import Resume
from fastdur.cli._target import imported
from pytest_fastdur.sweep import Story, boundary_names

SHOP = """
from fastdur import Chain, SQLiteCheckpointer, effect_key, idempotent, interrupt

@idempotent
def pay(amount):
    return effect_key()

def check(state):
    print("checking")
    return {"checked": True}

async def acheck(state):
    return {"checked": True}

def approve(state):
    return {"approved": interrupt("limit", {"amount": state.get("amount", 1)}).approved}

def payout(state):
    return {"receipt": pay(state["amount"])}

def twice(checkpointer=None):
    return Chain("twice", checkpointer).add_node("check", check)

def graph(checkpointer, first=check):
    return (
        Chain("refund", checkpointer)
        .add_node("check", first).add_node("approve", approve).add_node("payout", payout)
        .connect("check", "approve").connect("approve", "payout", when=lambda state: state["approved"])
    )

chain = graph(SQLiteCheckpointer("must-not-be-made.db"))

def without_argument():
    return chain

def asynchronous(checkpointer):
    return graph(checkpointer, acheck)

def with_options(*, checkpointer):
    return graph(checkpointer)

def of_two(store, url):
    return chain

class shelf:
    chain = chain

def endless(checkpointer):
    def ask(state):
        while not interrupt("limit").approved:
            pass
    return Chain("endless", checkpointer).add_node("ask", ask)

def failing(checkpointer):
    return Chain("failing", checkpointer).add_node("oops", lambda state: state["missing"])

def unfit(checkpointer):
    return Chain("unfit", checkpointer).add_node("oops", lambda state: 7)
"""

WHOLE = """\
start/before start
start/after start
start/before node check
start/after node check
start/before append check
start/after append check
start/before node approve
start/after node approve
start/before pause approve
start/after pause approve
resume#1/before look
resume#1/after look
resume#1/before claim interrupt approve
resume#1/after claim interrupt approve
resume#1/before node approve
resume#1/after node approve
resume#1/before route approve
resume#1/after route approve
resume#1/before append approve
resume#1/after append approve
resume#1/before node payout
resume#1/before effect begin pay@payout
resume#1/after effect begin pay@payout
resume#1/before effect pay@payout
resume#1/after effect pay@payout
resume#1/before effect end pay@payout
resume#1/after effect end pay@payout
resume#1/after node payout
resume#1/before append payout
resume#1/after append payout
resume#1/before append run_end
resume#1/after append run_end
"""

YES = ("--input", '{"amount": 5}', "--answers", '{"limit": {"approved": true, "metadata": {"by": "ada"}}}')


@pytest.fixture(autouse=True)
def _shop(tmp_path, monkeypatch):
    (tmp_path / "shop.py").write_text(SHOP, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "shop", raising=False)


def test_the_boundaries_of_a_whole_run_are_listed_lifetime_by_lifetime(fastdur_apart):
    said = fastdur_apart("boundaries", "shop:chain", *YES)
    assert (said.code, said.out) == (0, WHOLE)
    assert "checking" in said.err


def test_a_crash_sweep_names_them_in_the_same_way(fastdur_here, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(tmp_path)
    graph = importlib.import_module("shop").graph
    story = Story("refund", graph, {"amount": 5}, {"limit": Resume(approved=True)})
    assert fastdur_here("boundaries", "shop:graph", *YES).out.splitlines() == boundary_names(story)


@pytest.mark.parametrize("target", ["shop:graph", "shop:without_argument", "shop:shelf.chain", "shop:asynchronous"])
def test_a_chain_is_named_by_itself_or_by_a_function_that_makes_it(fastdur_here, target):
    assert fastdur_here("boundaries", target, *YES).out == WHOLE


def test_a_function_whose_store_has_a_default_gets_the_store_all_the_same(fastdur_here, tmp_path):
    assert fastdur_here("boundaries", "shop:twice").out.splitlines()[-1] == "start/after append run_end"
    assert not (tmp_path / ".fastdur").exists()


def test_it_leaves_nothing_behind_and_no_store_of_the_chain_is_touched(fastdur_apart, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    assert fastdur_apart("boundaries", "shop:chain", *YES, TMPDIR=str(scratch)).code == 0
    assert list(scratch.iterdir()) == []
    assert not (tmp_path / "must-not-be-made.db").exists()
    assert not (tmp_path / ".fastdur").exists()


def test_no_means_no(fastdur_here):
    said = fastdur_here("boundaries", "shop:chain", "--answers", '{"limit": {"approved": false}}')
    assert (said.code, "payout" in said.out) == (0, False)


def test_nothing_is_approved_by_default(fastdur_here):
    said = fastdur_here("boundaries", "shop:chain", "--input", '{"amount": 5}')
    assert (said.code, said.out) == (2, "")
    assert "'limit' (approve#1/1)" in said.err
    assert "Nothing is approved by default" in said.err


@pytest.mark.parametrize(
    ("args", "code", "why"),
    [
        (["shop"], 2, "not of the form MODULE:CHAIN"),
        (["shop:"], 2, "not of the form MODULE:CHAIN"),
        (["nowhere.at_all:chain"], 1, "no module 'nowhere'"),
        (["shop.sub:chain"], 1, "no module 'shop.sub'"),
        (["shop:nothing"], 1, "no 'nothing'"),
        (["shop:shelf"], 2, "neither a Chain nor a function"),
        (["shop:pay"], 2, "not a Chain"),
        (["shop:of_two"], 2, "needs the arguments store, url"),
        (["shop:with_options"], 2, "needs the arguments checkpointer"),
        (["shop:chain", "--input", "[1]"], 2, "--input is list, not a JSON object"),
        (["shop:chain", "--input", "{"], 2, "--input is not JSON"),
        (["shop:chain", "--answers", '{"limit": true}'], 2, "answer to 'limit' is True"),
        (["shop:chain", "--answers", '{"limit": {"approved": "yes"}}'], 2, "say True or False"),
        (["shop:chain", "--answers", '{"limit": {"aproved": true}}'], 2, "aproved"),
        (["shop:endless", "--answers", '{"limit": {"approved": false}}'], 2, "still not at its end"),
        (["shop:unfit"], 1, "output_key"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(fastdur_here, monkeypatch, args, code, why):
    monkeypatch.setattr("fastdur.cli._boundaries.MOST_QUESTIONS", 3)
    said = fastdur_here("boundaries", *args)
    assert (said.code, said.out) == (code, "")
    line = said.err.splitlines()[-1]
    assert line.startswith("fastdur: ")
    assert why in line


MODULES = {
    "leans": (
        "import not_installed_anywhere\n",
        "cannot be imported: ModuleNotFoundError: No module named 'not_installed_anywhere'",
        1,
    ),
    "raises": ("\n\nraise ValueError('no config')\n", "cannot be imported: ValueError: no config", 3),
    "leaves": ("import sys\nsys.exit(7)\n", "cannot be imported: SystemExit: 7", 2),
    "wrong": ("x = 1\ndef (:\n", "cannot be imported: SyntaxError: invalid syntax", 2),
    "lazy": ("def __getattr__(name):\n    raise KeyError(name)\n", "cannot be read: KeyError: 'chain'", 2),
    "makes": ("def chain():\n    return {}['x']\n", "makes:chain made no chain: KeyError: 'x'", 2),
    "takes": ("def chain(store):\n    raise OSError\n", "takes:chain made no chain: OSError", 2),
}


@pytest.mark.parametrize("name", MODULES)
def test_what_a_module_raises_is_said_in_one_line_with_its_place(fastdur_here, tmp_path, monkeypatch, name):
    monkeypatch.delitem(sys.modules, name, raising=False)
    text, why, line = MODULES[name]
    (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    said = fastdur_here("boundaries", f"{name}:chain")
    assert (said.code, said.out) == (1, "")
    (told,) = said.err.splitlines()
    assert why in told
    assert told.endswith(f"{name}.py:{line})")


def test_what_a_chain_raises_is_said_in_one_line_with_its_node_and_place(fastdur_apart):
    said = fastdur_apart("boundaries", "shop:failing")
    assert (said.code, said.out) == (1, "")
    (told,) = said.err.splitlines()
    line = 1 + SHOP.splitlines().index(next(each for each in SHOP.splitlines() if "missing" in each))
    assert told.startswith("fastdur: The run failed in node 'oops': KeyError: 'missing' (")
    assert told.endswith(f"shop.py:{line})")


def test_an_exception_that_comes_from_no_file_of_the_users_has_a_place_too(fastdur_here, monkeypatch):
    def broken(*_):
        raise RuntimeError("from within")

    monkeypatch.setattr("fastdur.SQLiteCheckpointer.start_execution", broken)
    said = fastdur_here("boundaries", "shop:chain")
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("fastdur: The run failed: RuntimeError: from within (")


def test_ctrl_c_in_a_chain_is_still_ctrl_c(tmp_path):
    (tmp_path / "stops.py").write_text("raise KeyboardInterrupt\n", encoding="utf-8")
    with pytest.raises(KeyboardInterrupt):
        imported("stops:chain")
