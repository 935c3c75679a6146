"""Effects of which nobody knows whether they happened: what is done about them, and by whom."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fastdur import (
    Chain,
    EffectFailed,
    EffectUnknown,
    Happened,
    IdempotencyError,
    NotHappened,
    NotStorable,
    Resume,
    RunInProgress,
    RunNotFound,
    SimulatedCrash,
    StaleRun,
    alist_unknown,
    aresolve_unknown,
    carry,
    effect_key,
    idempotent,
    interrupt,
    list_unknown,
    resolve_unknown,
)
from fastdur._effects import Look, Reading, Recorded
from fastdur._unknown import is_unknown, resolved
from fastdur.records import EffectRecord, Execution
from tests.unit.running import WAIT, Gate, at, attempts, dump, flow, raising, turn

DIE = raising(SimulatedCrash())
WHERE = ["after effect begin pay@a", "before effect pay@a", "after effect pay@a", "before effect end pay@a"]
"""The window, and the instants at which nobody can tell that it has not been entered."""


class Declined(Exception):
    pass


def story(store, calls, policy, **options):
    """A chain whose node `a` pays 5 once, under a policy."""

    @idempotent(name="pay", on_unknown=policy)
    def pay(amount):
        calls.append(amount)
        return f"paid {amount}"

    def a(state):
        return {"paid": pay(5)}

    return flow(store, a, **options)


def killed(go, chain, where="after effect pay@a", method="execute"):
    with at(where, DIE), pytest.raises(SimulatedCrash):
        go(chain.execute, execution_id="r") if method == "execute" else go(chain.resume, "r")


def unknown(store, run="r"):
    return [(effect.name, effect.path, effect.error) for effect in list_unknown(run, store)]


def the_key(store):
    (found,) = list_unknown("r", store)
    return found.key


# -- on_unknown="raise" --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["before effect begin pay@a", "after effect end pay@a"])
def test_outside_the_window_nothing_is_unknown(store, go, where):
    calls = []
    made = story(store, calls, "raise")
    killed(go, made, where)
    assert unknown(store) == []
    assert go(made.resume, "r").output == {"paid": "paid 5"}
    assert calls == [5]


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("outcome", [Happened("by hand"), NotHappened, NotHappened("the provider has nothing")])
def test_in_the_window_the_run_fails_and_goes_on_once_somebody_has_said_what_happened(store, go, where, outcome):
    calls = []
    made = story(store, calls, "raise", retry=3)
    killed(go, made, where)
    ran = len(calls)
    assert unknown(store) == [("pay", "a#1", None)]
    for _ in range(2):
        with pytest.raises(EffectUnknown, match=r"pay\(\).*resolve_unknown\('r'") as refused:
            go(made.resume, "r")
    assert (refused.value.execution_id, refused.value.key) == ("r", the_key(store))
    assert store.get_execution("r").status == "failed"
    resolve_unknown("r", the_key(store), outcome, store)
    assert unknown(store) == []
    happened = isinstance(outcome, Happened)
    assert go(made.resume, "r").output == {"paid": "by hand" if happened else "paid 5"}
    assert len(calls) == ran + (not happened)


def test_an_effect_may_be_settled_before_the_crashed_run_is_resumed(store, go):
    calls = []
    made = story(store, calls, "raise")
    killed(go, made)
    resolve_unknown("r", the_key(store), Happened("known"), store)
    assert go(made.resume, "r").output == {"paid": "known"}
    assert calls == [5]


def test_a_node_that_catches_it_and_goes_on_fails_all_the_same(store, go):
    @idempotent(on_unknown="raise", name="pay")
    def pay():
        return 1

    def a(state):
        try:
            pay()
        except Exception:
            return {"paid": None}

    made = flow(store, a)
    killed(go, made)
    with pytest.raises(EffectUnknown):
        go(made.resume, "r")
    assert store.get_execution("r").status == "failed"


def test_a_body_that_raised_is_unknown_too_and_no_retry_runs_it_again(store, go):
    calls = []

    @idempotent(on_unknown="raise", name="pay")
    def pay():
        calls.append(1)
        raise Declined("no\nmoney")

    def a(state):
        pay()

    made = flow(store, a, retry=3)
    with pytest.raises(EffectUnknown, match="it raised Declined: no"):
        go(made.execute, execution_id="r")
    assert (calls, attempts(store)) == ([1], [("pay", "unknown")])
    assert unknown(store) == [("pay", "a#1", "Declined: no\nmoney")]
    with pytest.raises(EffectUnknown):
        go(made.resume, "r")
    resolve_unknown("r", the_key(store), NotHappened, store)
    with pytest.raises(EffectUnknown):
        go(made.resume, "r")
    assert calls == [1, 1]


def test_a_body_that_knows_better_raises_that_it_has_not_happened(store, go):
    calls = []

    @idempotent(on_unknown="raise", name="pay")
    def pay():
        calls.append(1)
        if len(calls) < 3:
            raise NotHappened("the line was busy")
        return len(calls)

    def a(state):
        return {"paid": pay()}

    assert go(flow(store, a, retry=2).execute, execution_id="r").output == {"paid": 3}
    assert attempts(store) == [("pay", "done")]


def test_that_it_has_not_happened_is_replayed_as_itself_where_the_node_caught_it(store, go):
    calls = []

    @idempotent(on_unknown="raise", name="pay")
    def pay():
        calls.append(1)
        raise NotHappened("busy", 5)

    def a(state):
        try:
            pay()
        except NotHappened as error:
            return {"args": list(error.args)}

    made = flow(store, a)
    with at("before append a", DIE), pytest.raises(SimulatedCrash):
        go(made.execute, execution_id="r")
    assert go(made.resume, "r").output == {"args": ["busy", 5]}
    assert calls == [1]


def test_what_was_said_from_outside_is_replayed_to_nobody(store, go):
    calls = []
    made = story(store, calls, "raise")
    killed(go, made)
    resolve_unknown("r", the_key(store), NotHappened("asked the bank"), store)
    (record,) = store.list_idempotent("r")
    assert (record.status, record.path, record.error[1]) == ("failed", "", "asked the bank")
    assert go(made.resume, "r").output == {"paid": "paid 5"}


def test_of_a_body_that_was_ended_from_outside_nobody_knows(store):
    calls, begun = [], []

    @idempotent(on_unknown="raise", name="pay")
    async def pay():
        calls.append(1)
        begun[0].set()
        await asyncio.Event().wait()

    async def a(state):
        begun.append(asyncio.Event())
        task = asyncio.ensure_future(pay())
        await begun[0].wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await pay()

    with pytest.raises(EffectUnknown):
        asyncio.run(flow(store, a).aexecute(execution_id="r"))
    assert (calls, unknown(store)) == ([1], [("pay", "a#1", None)])


def test_a_node_that_ran_out_of_time_in_an_effect_does_not_run_it_twice(store):
    """The late thread records its result after all, and the retry, which has waited for it, gets it."""
    gate, calls = Gate(), []

    @idempotent(on_unknown="raise", name="pay")
    def pay():
        calls.append(1)
        gate()
        return len(calls)

    def a(state):
        return {"paid": pay()}

    with at("before node a (2)", gate.opened.set):
        assert flow(store, a, timeout=0.01, retry=1).execute(execution_id="r").output == {"paid": 1}
    assert calls == [1]


def test_an_async_node_that_ran_out_of_time_in_an_effect_leaves_it_unknown(store):
    calls = []

    @idempotent(on_unknown="raise", name="pay")
    async def pay():
        calls.append(1)
        await asyncio.Event().wait()

    async def a(state):
        await pay()

    with pytest.raises(EffectUnknown):
        asyncio.run(flow(store, a, timeout=0.1, retry=1).aexecute(execution_id="r"))
    assert calls == [1]


def test_whoever_waited_for_a_body_that_raised_is_told_that_it_is_unknown(store):
    calls, everyone = [], threading.Barrier(8)

    @idempotent(on_unknown="raise", name="pay")
    def pay():
        calls.append(1)
        raise Declined

    def call(_):
        everyone.wait(WAIT)
        try:
            pay()
        except Exception as error:
            return type(error).__name__

    def a(state):
        with ThreadPoolExecutor(8) as pool:
            state["came"] = sorted(pool.map(carry(call), range(8)))
            raise Declined(state["came"])

    with pytest.raises(Declined) as came:
        flow(store, a).execute(execution_id="r")
    assert (calls, came.value.args[0]) == ([1], ["Declined"] + ["EffectUnknown"] * 7)


def test_an_owner_that_was_replaced_leaves_its_effect_unknown_to_the_next(store):
    gate, calls = Gate(), []

    @idempotent(on_unknown="raise", name="pay")
    def pay():
        calls.append(1)
        gate()

    def a(state):
        pay()

    made = flow(store, a)
    with ThreadPoolExecutor(1) as pool:
        zombie = pool.submit(made.execute, execution_id="r")
        assert gate.reached.wait(WAIT)
        assert unknown(store) == []
        with pytest.raises(EffectUnknown):
            made.resume("r", takeover=True)
        resolve_unknown("r", the_key(store), Happened("seen"), store)
        gate.opened.set()
        with pytest.raises(StaleRun):
            zombie.result(WAIT)
    assert [record.result for record in store.list_idempotent("r")] == ["seen"]
    assert calls == [1]


# -- asking the provider -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", WHERE)
def test_the_function_gets_the_effect_key_and_the_arguments_and_its_answer_is_recorded(store, go, where):
    calls, keys, asked = [], [], []

    def ask(key, amount, tip=0):
        asked.append((key, amount, tip, effect_key()))
        return Happened({"id": amount + tip})

    @idempotent(on_unknown=ask, name="pay")
    def pay(amount, tip=0):
        keys.append(effect_key())
        calls.append(amount)

    def a(state):
        return {"paid": pay(5, tip=1), "answer": interrupt("ok?").approved}

    made = flow(store, a)
    killed(go, made, where)
    ran = len(calls)
    assert go(made.resume, "r").status == "paused"
    assert go(made.resume, "r", Resume(True)).output == {"paid": {"id": 6}, "answer": True}
    assert len(calls) == ran
    ((key, *arguments, same),) = asked
    assert (arguments, {key, same, *keys}) == ([5, 1], {key})


@pytest.mark.parametrize("answer", [lambda: NotHappened, NotHappened, raising(NotHappened("nothing there"))])
def test_what_the_function_says_has_not_happened_runs(store, go, answer):
    calls = []
    made = story(store, calls, lambda key, amount: answer())
    killed(go, made)
    assert go(made.resume, "r").output == {"paid": "paid 5"}
    assert calls == [5, 5]
    assert attempts(store) == [("pay", "done")]


@pytest.mark.parametrize("answer", [None, True, "Happened", Happened])
def test_another_answer_is_refused_and_the_effect_stays_unknown(store, go, answer):
    calls = []
    made = story(store, calls, lambda key, amount: answer)
    killed(go, made)
    with pytest.raises(IdempotencyError, match="return Happened"):
        go(made.resume, "r")
    assert (calls, unknown(store)) == ([5], [("pay", "a#1", None)])


def test_a_function_that_raises_fails_the_node_and_is_asked_again_by_its_retry(store, go):
    calls, asked = [], []

    def ask(key, amount):
        asked.append(amount)
        if len(asked) == 1:
            raise ConnectionError
        return Happened("seen")

    made = story(store, calls, ask, retry=1)
    killed(go, made)
    assert go(made.resume, "r").output == {"paid": "seen"}
    assert (asked, calls) == ([5, 5], [5])


@pytest.mark.parametrize("where", ["before effect ask pay@a", "after effect ask pay@a", "before effect end pay@a"])
def test_a_crash_while_it_asks_leaves_the_effect_as_unknown_as_it_was(store, go, where):
    calls, asked = [], []

    def ask(key, amount):
        asked.append(amount)
        return Happened("seen")

    made = story(store, calls, ask)
    killed(go, made)
    killed(go, made, where, "resume")
    assert unknown(store) == [("pay", "a#1", None)]
    assert go(made.resume, "r").output == {"paid": "seen"}
    assert calls == [5]


def test_an_answer_that_cannot_be_stored_counts_as_happened(store, go):
    calls = []
    made = story(store, calls, lambda key, amount: Happened(threading.Lock()))
    killed(go, made)
    with pytest.raises(IdempotencyError, match="has happened"):
        go(made.resume, "r")
    assert (calls, attempts(store)) == ([5], [("pay", "unstorable")])


def test_after_a_body_that_raised_the_provider_is_asked_too(store, go):
    calls, asked = [], []

    def ask(key):
        asked.append(key)
        return Happened("it went through") if len(asked) == 2 else NotHappened

    @idempotent(on_unknown=ask, name="pay")
    def pay():
        calls.append(1)
        raise TimeoutError

    def a(state):
        return {"paid": pay()}

    assert go(flow(store, a, retry=2).execute, execution_id="r").output == {"paid": "it went through"}
    assert (len(calls), len(set(asked))) == (2, 1)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_async_effect_is_asked_after_by_a_function_of_either_kind(store, kind):
    calls = []

    def ask(key, amount):
        return Happened([key == seen[0], amount])

    async def aask(key, amount):
        await turn()
        return ask(key, amount)

    seen = []

    @idempotent(on_unknown=ask if kind == "sync" else aask, name="pay")
    async def pay(amount):
        seen.append(effect_key())
        calls.append(amount)

    async def a(state):
        return {"paid": await pay(5)}

    made = flow(store, a)
    with at("after effect pay@a", DIE), pytest.raises(SimulatedCrash):
        asyncio.run(made.aexecute(execution_id="r"))
    assert asyncio.run(made.aresume("r")).output == {"paid": [True, 5]}
    assert calls == [5]


def test_an_async_function_for_a_sync_effect_is_refused_when_it_is_declared():
    async def ask(key):
        return NotHappened

    with pytest.raises(TypeError, match="async def"):
        idempotent(on_unknown=ask, name="pay")(lambda: 1)


def test_what_was_settled_from_outside_since_the_claim_is_not_asked_for(store, go):
    calls, asked = [], []
    made = story(store, calls, lambda key, amount: asked.append(key))
    killed(go, made)
    with at("before effect begin pay@a", lambda: resolve_unknown("r", the_key(store), Happened("seen"), store)):
        assert go(made.resume, "r").output == {"paid": "seen"}
    assert (calls, asked) == ([5], [])


# -- listing and settling ------------------------------------------------------------------------------------------------


def test_under_rerun_an_effect_of_a_crashed_run_is_unknown_as_well_and_can_be_settled(store, go):
    calls = []
    made = story(store, calls, "rerun")
    killed(go, made)
    assert unknown(store) == [("pay", "a#1", None)]
    resolve_unknown("r", the_key(store), Happened(None), store)
    assert go(made.resume, "r").output == {"paid": None}
    assert calls == [5]


def test_an_unknown_effect_tells_what_the_provider_was_told(store, go):
    keys = []

    @idempotent(on_unknown="raise", name="pay")
    def pay():
        keys.append(effect_key())

    def a(state):
        pay()

    killed(go, flow(store, a))
    (found,) = list_unknown("r", store)
    assert (found.execution_id, found.effect_key, len(found.key)) == ("r", keys[0], 64)


def test_an_effect_that_is_being_run_is_neither_listed_nor_settled(store):
    gate = Gate()

    @idempotent(name="pay")
    def pay():
        gate()
        return "mine"

    def a(state):
        return {"paid": pay()}

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(flow(store, a).execute, execution_id="r")
        assert gate.reached.wait(WAIT)
        assert unknown(store) == []
        (record,) = store.list_idempotent("r")
        with pytest.raises(RunInProgress, match="right now"):
            resolve_unknown("r", record.key, NotHappened, store)
        gate.opened.set()
        assert running.result(WAIT).output == {"paid": "mine"}


@pytest.mark.parametrize("outcome", [Happened([1]), NotHappened, NotHappened("no")])
def test_the_same_outcome_again_is_the_same_as_once_and_another_is_refused(store, go, outcome):
    made = story(store, [], "raise")
    killed(go, made)
    key = the_key(store)
    resolve_unknown("r", key, outcome, store)
    before = dump(store)
    resolve_unknown("r", key, outcome, store)
    for other in (Happened([True]), Happened([2]), *([NotHappened] if isinstance(outcome, Happened) else [])):
        with pytest.raises(IdempotencyError, match="recorded as"):
            resolve_unknown("r", key, other, store)
    assert dump(store) == before


@pytest.mark.parametrize(
    ("run", "key", "outcome", "error", "says"),
    [
        ("r", "nothing", NotHappened, IdempotencyError, "list_unknown"),
        ("s", "nothing", NotHappened, RunNotFound, "'s'"),
        ("r", None, None, TypeError, "Happened"),
        ("r", None, Happened, TypeError, "Happened"),
        ("r", None, True, TypeError, "True"),
        ("r", None, Happened(threading.Lock()), NotStorable, "result"),
    ],
)
def test_what_cannot_be_settled_is_refused_and_nothing_is_changed(store, go, run, key, outcome, error, says):
    killed(go, story(store, [], "raise"))
    before = dump(store)
    with pytest.raises(error, match=says):
        resolve_unknown(run, key or the_key(store), outcome, store)
    assert dump(store) == before


def test_an_unknown_run_has_no_effects_to_list(store):
    with pytest.raises(RunNotFound):
        list_unknown("r", store)


def test_whoever_settles_an_effect_that_is_recorded_meanwhile_is_told_so(store, go):
    calls = []
    made = story(store, calls, "rerun")
    killed(go, made)
    key = the_key(store)
    with at("before resolve pay", lambda: go(made.resume, "r")), pytest.raises(IdempotencyError, match="'done'"):
        resolve_unknown("r", key, NotHappened, store)
    assert store.list_idempotent("r")[0].result == "paid 5"


def test_every_call_has_its_form_for_the_event_loop_and_for_the_runner(store):
    made = story(store, [], "raise")
    with at("after effect pay@a", DIE), pytest.raises(SimulatedCrash):
        made.execute(execution_id="r")
    key = the_key(store)
    assert made.list_unknown("r") == asyncio.run(made.alist_unknown("r")) == list_unknown("r", store)
    assert asyncio.run(alist_unknown("r", store)) == list_unknown("r", store)
    made.resolve_unknown("r", key, Happened(1))
    asyncio.run(made.aresolve_unknown("r", key, Happened(1)))
    asyncio.run(aresolve_unknown("r", key, Happened(1), store))
    assert made.list_unknown("r") == []


@pytest.mark.parametrize(
    ("status", "epoch", "alive", "expected"),
    [
        ("started", 1, True, True),  # of an owner that was replaced
        ("started", 2, True, False),  # in flight
        ("started", 2, False, True),
        ("started", 3, False, False),  # of an owner that came after the head was read
        ("unknown", 2, True, True),
        ("done", 1, False, False),
        ("failed", 1, False, False),
        ("unstorable", 1, False, False),
    ],
)
def test_unknown_is_what_has_no_outcome_and_nobody_at_work_on_it(status, epoch, alive, expected):
    head = Execution("r", 1, "c", "chain", "running", 0, 2, "token", "me", True, None, None)
    record = EffectRecord("k", "pay", "digest", status, "a1", "a#1", epoch=epoch)
    assert is_unknown(record, head, alive=alive) is expected


def test_an_effect_of_an_owner_that_came_after_the_head_was_read_is_read_again():
    head = Execution("r", 1, "c", "chain", "running", 0, 2, None, None, False, None, None)
    steps = resolved("r", "k", NotHappened)
    assert isinstance(next(steps), Look)
    assert isinstance(steps.send(Reading(head, None, alive=False)), Recorded)
    newer = EffectRecord("k", "pay", "digest", "started", "a1", "a#1", epoch=3)
    assert isinstance(steps.send(newer), Look)


def test_a_run_without_a_store_knows_its_doubts_too():
    calls = []

    @idempotent(on_unknown="raise", name="pay")
    def pay():
        calls.append(1)
        raise Declined

    with pytest.raises(EffectUnknown):
        Chain("c", False).add_node("a", lambda state: pay(), retry=1).execute()
    assert calls == [1]


def test_a_failure_of_a_class_that_is_not_known_here_is_an_effect_that_failed(store, go):
    @idempotent(name="pay")
    def pay():
        raise Declined

    def a(state):
        try:
            pay()
        except (Declined, EffectFailed) as error:
            return {"came": type(error).__name__}

    made = flow(store, a)
    with at("before append a", DIE), pytest.raises(SimulatedCrash):
        go(made.execute, execution_id="r")
    assert go(made.resume, "r").output == {"came": "EffectFailed"}
