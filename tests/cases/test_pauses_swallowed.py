"""A pause that user code gets hold of: it passes, or it fails the run; it never counts as approved."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import closing

import pytest

from fastdur import Chain, NotStorable, Resume, SQLiteCheckpointer, interrupt
from tests.cases._server import attempt
from tests.cases.conftest import RUN

YES = Resume(approved=True, metadata={"by": "ada"})


def lets_it_pass(ask):
    try:
        return ask()
    except Exception:
        return "caught"


def makes_it_text(ask):
    try:
        return ask()
    except BaseException as error:
        return str(error)


def returns_in_finally(ask):
    try:
        ask()
    finally:
        return "finally"  # noqa: B012


def suppresses(ask):
    with contextlib.suppress(BaseException):
        ask()
    return "suppressed"


def raises_another(ask):
    try:
        ask()
    except BaseException:
        raise ZeroDivisionError from None


def asks_again(ask):
    with contextlib.suppress(BaseException):
        ask()
    return ask()


def deciding(world, store, wrap):
    """A node that asks inside a wrapper, and one behind it."""

    def ask():
        return interrupt("ok?")

    def plain(_state):
        world.mark("decide")
        return {"said": str(wrap(ask))}

    async def awaited(state):
        return plain(state)

    chain = Chain("deciding", checkpointer=store).add_node("decide", awaited if world.flavour == "async" else plain)
    return chain.add_node("pay", world.step("pay", pays=True)).connect("decide", "pay")


@pytest.mark.case("S16")
def test_a_handler_of_exceptions_lets_a_pause_pass(here):
    """Wrong: a pause that is an Exception, so that any handler turns it into an ordinary failure."""
    here.chain = deciding(here.world, here.store, lets_it_pass)
    assert here("execute", {}, RUN).status == "paused"
    assert here("resume", RUN, YES).status == "completed"


@pytest.mark.case("S16")
@pytest.mark.parametrize("swallow", [makes_it_text, returns_in_finally, suppresses, raises_another, asks_again])
def test_a_pause_that_is_swallowed_fails_the_run_and_never_counts_as_approved(here, swallow):
    """Wrong: going by how the node ended instead of by what was asked in it."""
    here.chain = deciding(here.world, here.store, swallow)
    came = attempt(here.chain, "execute", here.flavour, {}, RUN)
    assert came.error in ("InterruptSwallowed", "InterruptError")
    assert here.marks == ["decide"]
    assert here.store.list_pending_interrupts(RUN) == []
    (row,) = here.store.list(RUN)
    assert (row.node_id, row.status) == ("run_end", "failed")
    assert attempt(here.chain, "resume", here.flavour, RUN, YES).error == "AlreadyResumed"
    here.chain = deciding(here.world, here.store, lets_it_pass)
    assert here("resume", RUN).status == "paused"
    assert here("resume", RUN, YES).status == "completed"


@pytest.mark.case("S16")
def test_a_pause_out_of_a_group_of_tasks_is_a_pause(store):
    """Wrong: only a bare signal counts, so that a task group turns a pause into a failure."""

    async def ask():
        interrupt("ok?")

    async def node(_state):
        async with asyncio.TaskGroup() as group:
            group.create_task(ask())

    chain = Chain("c", checkpointer=store).add_node("n", node)
    assert attempt(chain, "execute", "async", {}, RUN).status == "paused"
    assert attempt(chain, "resume", "async", RUN, YES).status == "completed"


@pytest.mark.case("S68")
def test_a_failure_in_a_group_of_tasks_that_the_node_deals_with_is_no_cancellation(store):
    """Wrong: going by how often the task was cancelled, which a task group leaves behind in some Pythons."""

    async def fail():
        raise ZeroDivisionError

    async def node(_state):
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
        except* ZeroDivisionError:
            pass
        return {"done": True}

    chain = Chain("c", checkpointer=store).add_node("n", node)
    assert attempt(chain, "execute", "async", {}, RUN).final_state == {"done": True}


@pytest.mark.parametrize("context", [object(), {"socket": open}], ids=["object", "function"])
def test_a_question_that_could_not_be_asked_is_no_answer_even_where_the_error_is_caught(tmp_path, context):
    """Wrong: the node catches the refusal and goes on as if it had been approved."""
    went_on = []

    def careless(state):
        try:
            approved = interrupt("pay?", context).approved
        except Exception:
            approved = True
        went_on.append(approved)
        return {"paid": approved}

    with closing(SQLiteCheckpointer(tmp_path / "s.db")) as store:
        chain = Chain("careless", store).add_node("pay", careless)
        with pytest.raises(NotStorable, match="context"):
            chain.execute({}, "r")
        assert chain.result("r").status == "failed"
        assert chain.result("r").final_state == {}
    assert went_on == [True]
