"""`checkpointer=False`: as much of a store as a run needs."""

from itertools import pairwise

import pytest

from fastdur import Chain, ChainResumeError, InterruptNotAllowed, Resume, idempotent, interrupt
from fastdur.checkpointers.nowhere import Nowhere
from fastdur.checkpointers.protocol import Start


def nowhere(*nodes):
    made = Chain("c", checkpointer=False)
    for fn in nodes:
        made.add_node(fn.__name__, fn)
    for one, next_ in pairwise(nodes):
        made.connect(one.__name__, next_.__name__)
    return made


def a(state):
    return {"n": state.get("n", 0) + 1}


def b(state):
    state["m"] = state["n"] + 1


def broken(state):
    raise ZeroDivisionError


def test_a_run_without_a_store_goes_through_and_leaves_its_result():
    result = nowhere(a, b).execute({"n": 1})
    assert (result.status, result.final_state, result.output) == ("completed", {"n": 2, "m": 3}, {"m": 3})


async def later(state):
    return {"n": 7}


@pytest.mark.asyncio
async def test_an_async_run_without_a_store_goes_through():
    assert (await nowhere(later, b).aexecute()).final_state == {"n": 7, "m": 8}


def test_two_runs_without_a_store_may_have_one_id():
    assert nowhere(a).execute(execution_id="r").execution_id == nowhere(a).execute(execution_id="r").execution_id


def test_an_effect_without_a_store_runs_once_and_answers_the_same_call_again():
    calls = []

    @idempotent
    def pay(amount):
        calls.append(amount)
        return amount

    pays = named("pays", lambda state: {"paid": [pay(1), pay(1)]})
    assert nowhere(pays).execute().final_state == {"paid": [1, 1]}
    assert calls == [1]


def named(name, fn):
    fn.__name__ = name
    return fn


def test_a_failure_without_a_store_is_raised_as_it_is():
    with pytest.raises(ZeroDivisionError):
        nowhere(a, broken).execute()


@pytest.mark.case("S86")
def test_a_question_without_a_store_is_an_error_and_never_a_pause():
    with pytest.raises(InterruptNotAllowed, match="checkpointer=False"):
        nowhere(named("asks", lambda state: interrupt("ok?"))).execute()


@pytest.mark.parametrize("call", ["resume", "result", "cancel", "decide"])
def test_what_was_kept_nowhere_cannot_be_asked_for(call):
    with pytest.raises(ChainResumeError, match="kept nowhere"):
        getattr(nowhere(a), call)("r", *[Resume(True)] * (call == "decide"))


def test_nothing_can_be_recovered_from_nowhere():
    with pytest.raises(ChainResumeError, match="kept nowhere"):
        nowhere(a).recover()


def test_the_claim_counts_the_rows():
    store = Nowhere()
    claim = store.start_execution(Start("r", "c", "chain", None, {}, "token", "me"))
    store.put(claim, object(), "running", keep=False)
    assert (claim.token, claim.seq) == ("token", 1)
    assert store.begin_idempotent(claim, object()) is store.put_idempotent(claim, object()) is store.release(claim)
