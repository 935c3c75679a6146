"""The calls are easy to use right and hard to use wrong."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys

import pytest

import fastdur
from fastdur import (
    Chain,
    GraphError,
    InterruptNotAllowed,
    Resume,
    RunNotFound,
    SQLiteCheckpointer,
    adelete_execution,
    delete_execution,
    interrupt,
    recover,
)
from tests.cases import _story
from tests.cases._server import attempt, call
from tests.house.source import ROOT

PAIRS = ["execute", "resume", "result", "decide", "cancel", "recover"]


@pytest.mark.case("S84")
@pytest.mark.parametrize("name", PAIRS)
def test_each_call_has_an_async_form_of_the_same_signature_and_only_that_one_gives_a_coroutine(name):
    """Wrong: a sync name that returns a coroutine, or an async form that lacks an option."""
    for owner in (Chain, fastdur):
        sync, awaited = getattr(owner, name, None), getattr(owner, f"a{name}", None)
        if owner is fastdur and name in ("execute", "resume"):
            assert sync is awaited is None
            continue
        assert not inspect.iscoroutinefunction(sync)
        assert inspect.iscoroutinefunction(awaited)
        assert inspect.signature(sync) == inspect.signature(awaited)


@pytest.mark.case("S84")
@pytest.mark.asyncio
async def test_the_sync_calls_inside_a_running_loop_give_results_and_no_coroutines(store, world):
    """Wrong: "this event loop is already running"."""
    chain = _story.asking(world, store)
    assert chain.execute({}, "r-1").status == "paused"
    chain.decide("r-1", Resume(approved=True))
    assert [one.result.status for one in chain.recover()] == ["completed"]
    chain.execute({}, "r-2")
    assert chain.resume("r-2", Resume(approved=True)).status == "completed"
    chain.execute({}, "r-3")
    chain.cancel("r-3")
    assert chain.result("r-3").status == "cancelled"


def one():
    return Chain("c", SQLiteCheckpointer(":memory:")).add_node("n", print)


@pytest.mark.case("S85")
@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        (lambda: Resume(aproved=True), "aproved"),
        (lambda: Resume(approved=True, meta={}), "meta"),
        (lambda: Resume(approved=True, context={}), "context"),
        (Resume, "approved"),
        (lambda: Resume("yes"), "approved"),
        (lambda: Resume(1), "approved"),
        (lambda: Chain("c").add_node("n", print, retries=3), "retries"),
        (lambda: Chain("c").add_node("n", print, time_out=3), "time_out"),
        (lambda: Chain("c").add_node("n", print, retry=True), "retry"),
        (lambda: Chain("c").add_node("n", print, timeout=0), "timeout"),
        (lambda: Chain("c").add_node("n", None), "'n'"),
        (lambda: Chain("c").add_node("n", print, input=print), "input"),
        (lambda: Chain("c").connect("a", "b", wen=print), "wen"),
        (lambda: Chain("c").connect("a", "b", when=True), "when"),
        (lambda: Chain("c").connect("a", "b", max_iterations=0), "max_iterations"),
        (lambda: Chain("c", checkpointer="runs.db"), "checkpointer"),
        (lambda: Chain("c", checkpointer=True), "checkpointer"),
        (lambda: Chain("c").connect(None, "b", when=True), "when"),
        (lambda: Chain("c", strict="no"), "strict"),
        (lambda: one().resume("r", takeover="no"), "takeover"),
        (lambda: one().resume("r", accept_graph=1), "accept_graph"),
        (lambda: one().resume("r", reopen=None), "reopen"),
        (lambda: asyncio.run(one().aresume("r", takeover=0)), "takeover"),
        (lambda: delete_execution("r", takeover="no"), "takeover"),
        (lambda: asyncio.run(adelete_execution("r", takeover="no")), "takeover"),
        (lambda: one().recover(max_attempts=0), "max_attempts"),
        (lambda: recover([one()], max_attempts="3"), "max_attempts"),
        (lambda: asyncio.run(one().arecover(max_attempts=True)), "max_attempts"),
        (lambda: recover(["c"]), "runners"),
        (lambda: Chain("c", False).add_node("n", print).execute({}, executionid="r"), "executionid"),
        (lambda: Chain("c", False).add_node("n", print).execute([1]), "input"),
    ],
)
def test_a_misspelt_or_impossible_argument_is_refused_by_name(wrong, name):
    """Wrong: **kwargs that swallow it, or a truthy answer taken for approval."""
    with pytest.raises((TypeError, GraphError), match=name):
        wrong()


@pytest.mark.case("S86")
@pytest.mark.parametrize("flavour", ["sync", "async"])
@pytest.mark.parametrize("nested", [False, True])
def test_a_question_without_a_store_is_an_error_and_no_pause(flavour, nested, world):
    """Wrong: a paused result that nobody can ever resume."""

    def ask(_state):
        interrupt("ok?")

    chain = Chain("c", checkpointer=False).add_node("ask", ask)
    if nested:
        chain = Chain("outer", checkpointer=False).add_node("inner", chain)
    with pytest.raises(InterruptNotAllowed, match="checkpointer=False"):
        call(chain, "execute", flavour)
    came = attempt(chain, "resume", flavour, "r-1", Resume(approved=True))
    assert "checkpointer=False" in came.text


@pytest.mark.case("S86")
def test_a_question_outside_a_run_is_an_error():
    with pytest.raises(InterruptNotAllowed, match="outside a run"):
        interrupt("ok?")


@pytest.mark.case("S87")
@pytest.mark.parametrize("path", ["~/stores/runs.db", "$STORES/runs.db", "${STORES}/runs.db"])
def test_one_path_is_one_store_from_every_working_directory(path, tmp_path, monkeypatch):
    """Wrong: a directory called `~`, or a store beside each process that was started somewhere else."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("STORES", str(tmp_path / "stores"))
    code = (
        "import sys; from fastdur import *; store = SQLiteCheckpointer(sys.argv[1]); "
        "chain = Chain('c', checkpointer=store).add_node('n', lambda state: {'at': sys.argv[2]}); "
        "print(chain.execute({}, sys.argv[2]).status, store.location); store.close()"
    )
    expected = tmp_path / "stores" / "runs.db"
    for name in ("here", "there"):
        folder = tmp_path / name
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code, path, name],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split() == ["completed", str(expected)]
        assert list(folder.iterdir()) == []
    store = SQLiteCheckpointer(expected)
    assert {head.execution_id for head in store.list_executions()} == {"here", "there"}
    store.close()


@pytest.mark.case("S87")
@pytest.mark.parametrize("flavour", ["sync", "async"])
def test_a_run_that_is_not_found_names_the_store_that_was_looked_in(store, world, flavour):
    chain = _story.three(world, store)
    for method, args in [("resume", ()), ("result", ()), ("cancel", ()), ("decide", (Resume(approved=True),))]:
        with pytest.raises(RunNotFound) as error:
            call(chain, method, flavour, "nobody", *args)
        assert store.location in str(error.value)
        assert "'nobody'" in str(error.value)


def graph(*nodes, edges=(), strict=False):
    chain = Chain("c", checkpointer=False, strict=strict)
    for node in nodes:
        chain.add_node(node, lambda state: state["ran"].append(1))
    for edge in edges:
        chain.connect(*edge)
    return chain


@pytest.mark.case("S98")
@pytest.mark.parametrize(
    ("build", "culprit"),
    [
        (lambda: graph("a", edges=[("a", "b")]), "'b'"),
        (lambda: graph("b", edges=[("a", "b")]), "'a'"),
        (lambda: graph("a", "a"), "'a'"),
        (lambda: graph("a", "b", edges=[("a", "b"), ("b", "a")]), "'b->a'"),
        (lambda: graph("a", edges=[("a", "a")]), "'a->a'"),
        (lambda: graph("a", "b", "c", edges=[("b", "c"), ("c", "b", None, 2)]), "'b'"),
        (lambda: graph("a", "b", edges=[("a", "b"), ("a", "b")]), "'a->b'"),
        (lambda: graph("a", "b", edges=[("a", "a", None, 2), ("a", "b")]), "'a'"),
        (graph, "no node"),
        (lambda: graph("a/b"), "'a/b'"),
        (lambda: graph("a#1"), "'a#1'"),
        (lambda: graph(""), "''"),
        (lambda: graph("run_end"), "'run_end'"),
        (lambda: Chain("outer", checkpointer=False).add_node("in", graph("a", edges=[("a", "b")])), "'b'"),
    ],
)
@pytest.mark.parametrize("flavour", ["sync", "async"])
def test_a_graph_that_cannot_be_right_is_refused_with_its_culprit_before_any_node_runs(build, culprit, flavour):
    """Wrong: reporting completed with no node run, or a KeyError half way."""
    ran = []
    with pytest.raises(GraphError) as error:
        call(build(), "execute", flavour, {"ran": ran})
    assert culprit in str(error.value)
    assert ran == []


@pytest.mark.case("S98")
def test_a_bad_graph_is_refused_by_resume_before_anything_is_consumed(here):
    """Wrong: validating only what execute gets."""
    here.build("asking")
    here("execute", {}, "r-1")
    before = here.dump()
    here.build("asking").connect("c", "nowhere")
    assert attempt(here.chain, "resume", here.flavour, "r-1", Resume(approved=True)).error == "GraphError"
    assert here.dump() == before


def test_a_task_that_runs_two_chains_at_once_keeps_them_apart(store, world):
    async def main():
        chain = _story.three(world, store)
        return await asyncio.gather(*(chain.aexecute({"n": n}, f"r-{n}") for n in range(4)))

    assert [result.final_state["n"] for result in asyncio.run(main())] == [0, 1, 2, 3]
