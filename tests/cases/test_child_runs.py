"""A run that a node starts is that node's child: whoever enters the node again goes on with the same one."""

from __future__ import annotations

import asyncio

import pytest

from fastdur import (
    Chain,
    Resume,
    RunExists,
    RunInProgress,
    SimulatedCrash,
    SQLiteCheckpointer,
    StaleRun,
    StoreUnavailable,
    idempotent,
    interrupt,
    observe,
)
from fastdur.boundaries import Inject


@pytest.fixture
def store(tmp_path):
    made = SQLiteCheckpointer(tmp_path / "s.db")
    yield made
    made.close()


class Story:
    """A parent whose node starts a child of two steps, the first with an effect."""

    def __init__(self, store, child_id=None, asks=False):
        self.store, self.child_id, self.asks, self.paid = store, child_id, asks, []
        self.fails = 0

    def build(self):
        @idempotent(name="pay")
        def pay(amount):
            self.paid.append(amount)
            return amount

        def last(state):
            if self.fails:
                self.fails -= 1
                raise OSError("not now")
            return {"ok": interrupt("go on?").approved} if self.asks else {"ok": True}

        child = Chain("child", self.store)
        child.add_node("pay", lambda state: {"paid": pay(state["amount"])}).add_node("last", last)
        child.connect("pay", "last")

        def call(state):
            result = child.execute({"amount": state["amount"]}, execution_id=self.child_id)
            return {"status": result.status, "child": result.execution_id, "state": result.final_state}

        return (
            Chain("parent", self.store)
            .add_node("call", call)
            .add_node("after", lambda state: {"after": True})
            .connect("call", "after")
        )


def points(story):
    """Every boundary of the parent and of the child, in one run without a crash."""
    seen = []
    with observe(lambda boundary: seen.append(f"{boundary.execution_id}: {boundary}")):
        story.build().execute({"amount": 5}, "p")
    return seen


@pytest.mark.parametrize("child_id", [None, "chosen"])
def test_a_crash_anywhere_in_parent_or_child_leaves_one_child_that_is_carried_on(tmp_path, child_id):
    # A parent that started a second child, or was refused its own, would pay twice or never end.
    reference = SQLiteCheckpointer(tmp_path / "reference.db")
    story = Story(reference, child_id)
    names = points(story)
    wanted = reference.get_last("p").state_snapshot
    reference.close()
    assert len(names) == 30
    for number, name in enumerate(names):
        store = SQLiteCheckpointer(tmp_path / f"{number}.db")
        story, left = Story(store, child_id), [number]

        def crash(boundary, left=left):
            left[0] -= 1
            if left[0] < 0:
                raise SimulatedCrash

        with observe(crash), pytest.raises(SimulatedCrash):
            story.build().execute({"amount": 5}, "p")
        if store.get_execution("p") is None:
            store.close()
            continue
        head = store.get_execution("p")
        result = story.build().resume("p") if head.status != "completed" else None
        assert result is None or result.final_state == wanted, name
        assert len(story.paid) <= 2, name
        assert len(store.list_executions(runner="child")) == 1, name
        (child,) = store.list_executions(runner="child")
        assert (child.parent_id, child.parent_address, child.status) == ("p", "call#1", "completed")
        store.close()


def test_a_child_without_an_id_gets_one_from_its_place(store):
    result = Story(store).build().execute({"amount": 5}, "p")
    assert result.final_state["child"] == "p/call#1/child"


def test_several_children_of_one_node_are_told_apart_and_found_again(store):
    child = Chain("child", store).add_node("a", lambda state: {"double": 2 * state["n"]})
    tries = []

    def call(state):
        doubled = [child.execute({"n": n}).final_state["double"] for n in (1, 2)]
        tries.append(1)
        if len(tries) == 1:
            raise OSError("not now")
        return {"doubled": doubled}

    parent = Chain("parent", store).add_node("call", call)
    with pytest.raises(OSError, match="not now"):
        parent.execute({}, "p")
    assert parent.resume("p").final_state == {"doubled": [2, 4]}
    assert sorted(head.execution_id for head in store.list_executions(runner="child")) == [
        "p/call#1/child",
        "p/call#1/child (2)",
    ]


def test_a_child_inside_a_recorded_effect_does_not_lend_its_place_to_the_next(store):
    # The effect is answered from its record on the second pass and starts no child: the other keeps its own id.
    child = Chain("child", store).add_node("a", lambda state: {"is": state["n"]})
    tries = []

    @idempotent(name="inner")
    def inner():
        return child.execute({"n": 1}).final_state["is"]

    def call(state):
        first, second = inner(), child.execute({"n": 2}).final_state["is"]
        tries.append((first, second))
        if len(tries) == 1:
            raise OSError("not now")
        return {"both": [first, second]}

    parent = Chain("parent", store).add_node("call", call)
    with pytest.raises(OSError, match="not now"):
        parent.execute({}, "p")
    assert parent.resume("p").final_state == {"both": [1, 2]}
    assert tries == [(1, 2), (1, 2)]


def test_a_child_that_failed_is_carried_on_when_its_node_runs_again(store):
    story = Story(store)
    story.fails = 1
    with pytest.raises(OSError, match="not now"):
        story.build().execute({"amount": 5}, "p")
    assert story.build().resume("p").final_state["state"] == {"amount": 5, "paid": 5, "ok": True}
    assert story.paid == [5]


def test_a_child_that_waits_gives_its_paused_result_again_until_it_is_answered(store):
    story = Story(store, asks=True)
    result = story.build().execute({"amount": 5}, "p")
    assert result.final_state["status"] == "paused"
    child = story.build()  # the parent has gone on; the child is answered by itself
    assert store.list_pending_interrupts("p/call#1/child")[0].reason == "go on?"
    assert child.result("p/call#1/child").status == "paused"


def test_a_paused_child_is_the_same_paused_child_when_its_node_runs_again(store):
    child = Chain("child", store).add_node("ask", lambda _: {"ok": interrupt("go on?").approved})

    def call(state):
        result = child.execute({}, execution_id="kid")
        if result.status == "paused":
            raise OSError("still waiting")
        return {"ok": result.final_state["ok"]}

    parent = Chain("parent", store).add_node("call", call)
    for attempt in (lambda: parent.execute({}, "p"), lambda: parent.resume("p")):
        with pytest.raises(OSError, match="still waiting"):
            attempt()
    child.resume("kid", Resume(approved=True))
    assert parent.resume("p").final_state == {"ok": True}


def test_an_id_that_is_another_runs_is_refused_in_a_node_too(store):
    child = Chain("child", store).add_node("a", lambda _: None)
    child.execute({}, "taken")
    parent = Chain("parent", store).add_node("call", lambda _: {"s": child.execute({}, "taken").status})
    with pytest.raises(RunExists):
        parent.execute({}, "p")


def test_a_fault_of_the_childs_store_is_no_result_of_the_node(store):
    # The node swallows the error; a fault that counted as its result would let the parent complete.
    child = Chain("child", store).add_node("a", lambda _: None)

    def call(state):
        try:
            child.execute({})
        except StoreUnavailable:
            return {"swallowed": True}

    def fault(boundary):
        if boundary.execution_id != "p" and str(boundary) == "before append a":
            raise Inject(StoreUnavailable("the disk is away"))

    parent = Chain("parent", store).add_node("call", call)
    with observe(fault), pytest.raises(StoreUnavailable):
        parent.execute({}, "p")
    assert store.get_execution("p").status == "running"
    assert parent.resume("p").final_state == {}


def test_children_of_an_async_node_are_found_again_too(store):
    tries = []

    async def step(state):
        tries.append(1)
        if len(tries) == 1:
            raise OSError("not now")
        return {"n": len(tries)}

    child = Chain("child", store).add_node("a", step)

    async def call(state):
        return {"child": (await child.aexecute({})).execution_id}

    parent = Chain("parent", store).add_node("call", call)
    with pytest.raises(OSError, match="not now"):
        asyncio.run(parent.aexecute({}, "p"))
    assert asyncio.run(parent.aresume("p")).final_state == {"child": "p/call#1/child"}
    assert len(store.list_executions(runner="child")) == 1


def test_a_parent_whose_child_others_work_on_is_not_failed_by_that(store):
    """Wrong: two workers recover parent and child, and the parent is marked as failed with the owner of its child."""
    child = Chain("child", checkpointer=store).add_node("work", lambda _: {"n": 1})
    parent = Chain("parent", checkpointer=store).add_node("call", lambda _: {"got": child.execute().final_state["n"]})

    def die(boundary):
        if (boundary.when, boundary.name) == ("before", "node work"):
            raise SimulatedCrash

    with observe(die, store), pytest.raises(SimulatedCrash):
        parent.execute({}, "p")
    (head,) = [head for head in store.list_executions() if head.parent_id == "p"]
    claim = store.claim_execution(head, "t", "another:machine:7:1")
    before = store.list("p")
    (came,) = parent.recover()
    assert isinstance(came.error, RunInProgress)
    assert (store.get_execution("p").status, store.list("p")) == ("running", before)
    store.release(claim)
    assert [each.result.final_state for each in parent.recover()] == [{"got": 1}]


def test_a_parent_whose_child_is_taken_over_at_work_is_not_failed_by_that(store):
    claims = []

    def work(_):
        (head,) = [head for head in store.list_executions() if head.parent_id == "p"]
        if not claims:
            claims.append(store.claim_execution(head, "t", "another:machine:7:1"))
        return {"n": 1}

    child = Chain("child", checkpointer=store).add_node("work", work)
    parent = Chain("parent", checkpointer=store).add_node("call", lambda _: {"got": child.execute().final_state["n"]})
    with pytest.raises(StaleRun):
        parent.execute({}, "p")
    assert (store.get_execution("p").status, store.list("p")) == ("running", [])
    store.release(claims[0])
    assert parent.resume("p").final_state == {"got": 1}


def test_a_run_of_others_that_a_node_resumes_is_its_own_affair(store):
    other = Chain("other", checkpointer=store).add_node("ask", lambda _: interrupt("ok?") and None)
    other.execute({}, "o")

    def call(_):
        store.claim_execution(store.get_execution("o"), "t", "another:machine:7:1")
        with pytest.raises(RunInProgress):
            other.resume("o", Resume(approved=True))
        return {"went": "on"}

    assert Chain("c", checkpointer=store).add_node("call", call).execute().output == {"went": "on"}
