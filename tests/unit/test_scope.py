"""What code inside a node may ask, and what the scope remembers."""

import asyncio
import contextvars
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from fastdur import (
    Chain,
    Resume,
    ScopeEnded,
    ScopeError,
    ScopeLost,
    SimulatedCrash,
    SQLiteCheckpointer,
    StaleRun,
    StoreUnavailable,
    carry,
    effect_key,
    execution_id,
    fence,
    idempotent,
    interrupt,
    run_context,
    scope,
)
from fastdur._effects import Invoke
from fastdur._memory import Memory
from fastdur._steps import Call
from fastdur.scope import NodeCall, current
from tests.unit.running import at, flow, last, raising

# -- the run -------------------------------------------------------------------------------------------------------------


def test_code_in_a_node_knows_its_run_and_what_its_caller_handed_over(store, go):
    context = object()
    seen = []

    def a(state):
        seen.append((execution_id(), run_context() is context))

    assert go(flow(store, a).execute, execution_id="r", context=context).status == "completed"
    assert seen == [("r", True)]


def test_a_resume_hands_its_own_context_over(store, go):
    seen = []

    def a(state):
        seen.append(run_context())
        if len(seen) == 1:
            raise ValueError

    made = flow(store, a)
    with pytest.raises(ValueError):
        go(made.execute, execution_id="r", context="first")
    go(made.resume, "r", context="second")
    assert seen == ["first", "second"]


def test_outside_a_run_there_is_no_run_and_no_context():
    with pytest.raises(ScopeLost, match="execution_id"):
        execution_id()
    assert run_context() is None
    assert current.get() is None


# -- the key of an effect ------------------------------------------------------------------------------------------------

KEYS = """
import sys
from fastdur import Chain, SQLiteCheckpointer, effect_key, idempotent
asked = []

@idempotent
def pay(amount):
    asked.append(effect_key())
    raise ValueError

def node(state):
    pay(5)

made = Chain("c", SQLiteCheckpointer(sys.argv[1])).add_node("a", node, retry=1)
calls = [lambda: made.execute(execution_id="r"), lambda: made.resume("r")]
for call in calls if sys.argv[2] == "new" else calls[1:]:
    try:
        call()
    except ValueError:
        pass
print(*asked)
"""


def test_the_key_of_an_effect_is_the_same_in_every_retry_resume_and_process(tmp_path):
    path = tmp_path / "runs.db"
    said = [
        subprocess.run([sys.executable, "-c", KEYS, path, which], capture_output=True, text=True, check=True).stdout
        for which in ("new", "old")
    ]
    keys = " ".join(said).split()
    assert len(keys) == 6
    assert len(set(keys)) == 1
    assert re.fullmatch("[0-9a-f]{32}", keys[0])


def test_keys_differ_between_effects_arguments_and_runs(store, go):
    keys = []

    @idempotent
    def pay(amount):
        keys.append(effect_key())
        keys.append(effect_key())
        return amount

    def a(state):
        pay(1)
        pay(2)

    made = flow(store, a)
    go(made.execute, execution_id="r")
    go(made.execute, execution_id="s")
    assert keys[::2] == keys[1::2]
    assert len(set(keys)) == 4


def test_asking_for_the_key_is_noted_in_the_row(store, go):
    @idempotent(name="pay")
    def pay():
        return effect_key()

    def a(state):
        pay()

    go(flow(store, a).execute, execution_id="r")
    assert store.list("r")[0].extra == {"keyed": ["pay"]}


def test_outside_a_run_every_call_gets_a_fresh_key():
    @idempotent
    def pay():
        return effect_key()

    keys = {pay(), pay(), effect_key()}
    assert len(keys) == 3
    assert all(re.fullmatch("[0-9a-f]{32}", key) for key in keys)


def test_a_node_outside_an_effect_has_no_key(store, go):
    def a(state):
        effect_key()

    with pytest.raises(ScopeError, match="outside an effect"):
        go(flow(store, a).execute)


class Asked(list):
    """What was asked in each body. A class of its own has no form that would go into a key: it counts by its name."""


@idempotent(name="keep", key_fn=lambda asked, amount: amount)
def keep(asked, amount):
    asked.append((effect_key(), execution_id(), fence()))
    if len(asked) == 1:
        raise ValueError
    return amount


def same(asked, run="r"):
    keys, runs, fences = zip(*asked, strict=True)
    assert (len(set(keys)), set(runs)) == (1, {run})
    return list(fences)


def test_run_and_key_are_the_same_after_a_failure_a_pause_a_crash_and_in_a_retry_and_the_fence_grows(store, go):
    asked = Asked()

    def a(state):
        interrupt("ok?")
        keep(asked, 5)

    made = flow(store, a)
    go(made.execute, execution_id="r")
    with pytest.raises(ValueError):
        go(made.resume, "r", Resume(True))
    with at("after effect keep@a", raising(SimulatedCrash())), pytest.raises(SimulatedCrash):
        go(made.resume, "r")
    go(made.resume, "r")
    assert same(asked) == [2, 3, 4]
    retried = Asked()

    def b(state):
        keep(retried, 5)

    go(flow(store, b, retry=1).execute, execution_id="s")
    assert same(retried, "s") == [1, 1]


def test_run_and_key_are_the_same_in_nested_chains_and_in_threads(store, go):
    asked, inner = Asked(), []

    def b(state):
        with ThreadPoolExecutor(1) as pool:
            try:
                pool.submit(carry(keep), asked, 5).result()
            except ValueError:
                inner.append(state["n"])
                raise
        return {"fence": fence()}

    nested = Chain("outer", store).add_node("in", Chain("deep", store).add_node("b", b))
    with pytest.raises(ValueError):
        go(nested.execute, {"n": 1}, execution_id="r")
    go(nested.resume, "r")
    assert same(asked) == [1, 2]
    assert inner == [1]


def test_the_key_of_an_effect_in_a_child_run_is_the_same_when_its_node_is_entered_again(store, go):
    asked = Asked()

    def inside(state):
        keep(asked, 5)

    child = Chain("child", store).add_node("inside", inside)

    def a(state):
        child.execute()
        return {"run": execution_id()}

    made = flow(store, a)
    with pytest.raises(ValueError):
        go(made.execute, execution_id="r")
    assert go(made.resume, "r").output == {"run": "r"}
    (run,) = {run for _, run, _ in asked}
    assert store.get_execution(run).parent_id == "r"
    assert same(asked, run) == [1, 2]


def test_outside_a_run_the_fence_is_0_and_without_a_store_it_is_1():
    assert fence() == 0
    assert Chain("c", False).add_node("a", lambda state: {"fence": fence()}).execute().output == {"fence": 1}


# -- what a scope remembers ----------------------------------------------------------------------------------------------


class Host:
    execution_id, epoch, context, durable, poisoned = "r", 1, None, True, False

    def __init__(self):
        self.memory = Memory()


@pytest.fixture
def node():
    return NodeCall(Host(), Invoke(Call("node", "a", 1, 0, last, {}), "a", "a#1", (), 0))


def test_the_first_error_raised_into_a_node_is_the_one_that_counts_unless_it_is_a_death(node):
    first, second, death = StaleRun(), StoreUnavailable(), SimulatedCrash()
    assert node.remember(first) is first
    node.remember(second)
    assert node.raised is first
    node.remember(death)
    node.remember(second)
    assert node.raised is death


def test_a_remark_is_noted_once(node):
    for value in ("x", "y", "x"):
        node.note("hits", value)
    assert node.notes == {"hits": ["x", "y"]}


@pytest.mark.parametrize("error", [StoreUnavailable("down"), StaleRun("gone"), SimulatedCrash("dead")])
def test_what_ends_a_lifetime_ends_it_whatever_the_node_does_with_it(error):
    store = SQLiteCheckpointer(":memory:")

    def fail(*_):
        raise error

    @idempotent
    def pay():
        return 1

    @idempotent
    async def apay():
        return 1

    def a(state):
        with pytest.raises(type(error)):
            pay()
        return {"n": 1}

    async def b(state):
        with pytest.raises(type(error)):
            await apay()
        return {"n": 1}

    store.begin_idempotent = fail
    for run, method in (("r", flow(store, a, retry=3).execute), ("s", flow(store, b, retry=3).aexecute)):
        with pytest.raises(type(error)) as raised:
            asyncio.run(method(execution_id=run)) if run == "s" else method(execution_id=run)
        assert raised.value is error
        assert store.list(run) == []
    store.close()


def test_a_context_kept_from_a_node_still_knows_the_run(store):
    kept = []

    def a(state):
        kept.append(contextvars.copy_context())

    flow(store, a).execute(execution_id="r")
    assert kept[0].run(execution_id) == "r"


def test_a_scope_that_belongs_to_another_process_begins_nothing(node):
    node.check()
    node.born -= 1
    with pytest.raises(ScopeEnded, match="fork"):
        node.check()


def test_each_fork_is_counted(monkeypatch):
    monkeypatch.setattr(scope.process, "forks", 3)
    scope._forked()
    assert scope.process.forks == 4
