"""VALUE, TEXT: what is stored comes back the same, with its types."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from string import ascii_letters
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from fastdur._codec import MAX_DEPTH, dumps, freeze
from fastdur.records import Frame, Question
from pytest_fastdur.conformance._bench import Bench
from pytest_fastdur.conformance._clause import Group, clause
from pytest_fastdur.conformance._made import ODD, effect, everything, head, pause, question, row, shown, start

if TYPE_CHECKING:
    from fastdur.checkpointers.protocol import Checkpointer

_JSON: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 2**53 + 1, -(2**63), 2**64, "", ODD, [], {}, [[]], [{}], {"": None}),
    *(0.0, -0.0, 1.0, 0.1, 1e16, 5e-324, 1.7976931348623157e308, 123456789.12345678),
    *({"b": 1, "a": 2, "B": 3, "\u00e9": 4, "e\u0301": 5, ODD: 6}, {"0": 1, "10": 2, "9": 3}, [1, 1.0, True, "1"]),
)
_RICH: Final[tuple[Any, ...]] = (
    *(float("nan"), float("inf"), float("-inf"), 10**5000, (1, (2,)), {1, 2}, frozenset((1,)), b"\x00\xff"),
    *(Decimal("1.10"), UUID(int=7), datetime(2024, 2, 29, 1, 2, 3, 4, UTC), timedelta(days=-1, microseconds=1)),
    *({1: "int", "1": "text"}, {(1, 2): "pair"}, {"$": 1}, {"$": "$", "a": {"$": []}}),
)


def _kept(store: Checkpointer, values: list[Any]) -> list[str]:
    """The frozen values that a state, an extra, an effect, a graph and an input do not give back as they were."""
    frozen = [freeze(value, "state") for value in values]
    claim = start(store, graph=frozen, input=frozen)
    written = row(claim, extra={"input": frozen, "note": {"again": frozen}}, frames=Frame("", 1, {"data": frozen}))
    store.put(claim, written, "running")
    store.begin_idempotent(claim, effect())
    store.put_idempotent(claim, effect(status="done", result=frozen, error=frozen))
    (read,), record, found = store.list("r"), store.get_idempotent("r", "k"), head(store)
    assert record is not None
    places: dict[str, Any] = {
        "state": read.frames.state["data"],
        "extra": read.extra["input"],
        "note": read.extra["note"]["again"],  # type: ignore[index,call-overload]
        "result": record.result,
        "error": record.error,
        "graph": found.graph,
        "input": found.input,
    }
    return [
        f"{place}: {value!r}"
        for place, back in places.items()
        for value, one, other in zip(values, frozen, back, strict=True)
        if dumps(one) != dumps(other)
    ]


class Values(Group):
    """The clauses of values and texts."""

    @clause("claims", "rows", "effects", "values")
    def test_value_01_json_comes_back(self, bench: Bench) -> None:
        """Every JSON value comes back from each place with its type: ints of any size, floats by the bit, the order of keys."""
        assert _kept(bench.store, list(_JSON)) == []

    @clause("claims", "rows", "effects", "values")
    def test_value_02_tagged_values_come_back(self, bench: Bench) -> None:
        """Every other storable value comes back from each place with its type."""
        assert _kept(bench.store, list(_RICH)) == []

    @clause("claims", "rows", "values")
    def test_value_03_big_and_deep_states_come_back(self, bench: Bench) -> None:
        """A state of two megabytes, and one as deep as a state may be, come back whole."""
        deep: Any = "end"
        for _ in range(MAX_DEPTH - 10):
            deep = [deep]
        claim = start(bench.store)
        for state in ({"text": "xy" * 1_000_000}, {"deep": deep}):
            written = row(claim, state)
            bench.store.put(claim, written, "running")
            assert shown(bench.store.get_last("r")) == shown(written)

    @clause("claims", "rows", "values")
    def test_value_04_frames_come_back(self, bench: Bench) -> None:
        """Frames come back with children, visits, open and answered questions."""
        inner = Frame(
            "pay", 3, {"n": 1}, (Question("pay#3/1", "ok?", {"sum": 5}), Question("pay#3/2", "?", None, [True, 1]))
        )
        frames = Frame("", 1, {"data": {}}, (), (Frame("team", 2, {"k": [1]}, (), (inner,)), Frame("other", 1, {})))
        claim = start(bench.store)
        bench.store.put(claim, row(claim, frames=frames), "running")
        last = bench.store.get_last("r")
        assert last is not None
        assert last.frames == frames

    @clause("claims", "rows", "interrupts", "effects", "values")
    def test_value_05_what_is_handed_out_is_the_callers(self, bench: Bench) -> None:
        """Changing what was handed out, or handed in, changes nothing that is stored."""
        graph: Any = {"nodes": [1]}
        claim = start(bench.store, graph=graph, input=graph)
        context: Any = {"sum": [5]}
        bench.store.record_interrupt(claim, pause(claim), [question(claim, context=context)], "paused", keep=True)
        bench.store.begin_idempotent(claim, effect())
        result: Any = {"paid": [1]}
        bench.store.put_idempotent(claim, effect(status="done", result=result))
        before = repr(everything(bench.store))
        for mine in (graph["nodes"], context["sum"], result["paid"]):
            mine.append("changed")
        found: Any = head(bench.store)
        record: Any = bench.store.get_idempotent("r", "k")
        (asked,) = bench.store.list_pending_interrupts()
        for theirs in (found.graph["nodes"], found.input["nodes"], asked.context["sum"], record.result["paid"]):
            theirs.append("changed")
        state = bench.store.list("r")[0].state_snapshot
        state["n"] = "changed"
        assert repr(everything(bench.store)) == before

    @clause("claims", "rows", "interrupts", "effects", "values")
    def test_text_01_any_text_is_kept(self, bench: Bench) -> None:
        """Every text of a user is kept by the letter: ids, names, owners, addresses, reasons, keys."""
        store = bench.store
        claim = start(store, ODD, runner=ODD, kind=ODD, owner=ODD, parent_id=ODD, parent_address=ODD)
        found = head(store, ODD)
        assert (found.execution_id, found.runner, found.kind, found.owner) == (ODD, ODD, ODD, ODD)
        assert (found.parent_id, found.parent_address) == (ODD, ODD)
        written = row(claim, node_id=ODD, agent_path=ODD, step_type="hitl_pause", extra={ODD: ODD})
        asked = question(claim, ODD, runner=ODD, node_id=ODD, reason=ODD, context=ODD, agent_path=ODD)
        store.record_interrupt(claim, written, [asked], "running")
        assert shown(store.get_last(ODD)) == shown(written)
        assert store.list_pending_interrupts(ODD) == [asked]
        record = effect(ODD, name=ODD, args=ODD, path=ODD)
        assert store.begin_idempotent(claim, record) is None
        assert store.get_idempotent(ODD, ODD) == record
        assert [each.execution_id for each in store.list_executions(runner=ODD)] == [ODD]
        seen = head(store, ODD)
        assert store.decide(seen, ODD, row(seen), "running") is True

    @clause("claims", "values")
    def test_text_02_texts_are_data(self, bench: Bench) -> None:
        """A text that looks like SQL, a pattern or a path is a text: it finds itself and nothing else."""
        texts = ["r", "r' OR '1'='1", "%", "_", "*", "?", "../r", "r;--", "$HOME", "{0}", "\\u0072", "r\u0000x"]
        for text in texts:
            start(bench.store, text, runner=text)
        assert [head(bench.store, text).execution_id for text in texts] == texts
        assert [len(bench.store.list_executions(runner=text)) for text in texts] == [1] * len(texts)

    @clause("claims", "rows", "interrupts", "effects", "runs", "values")
    def test_text_03_long_ids_are_kept(self, bench: Bench) -> None:
        """An id, a key and a runner's name of 2,000 ASCII characters are kept whole, and tell two that differ at the end apart."""
        store = bench.store
        long = "".join(Random(1).choices(ascii_letters, k=1999))  # noqa: S311 - what no compression makes shorter
        for last in "ab":
            name = long + last
            claim = start(store, name, runner=name)
            assert store.begin_idempotent(claim, effect(name)) is None
            store.record_interrupt(claim, pause(claim), [question(claim, name)], "paused", keep=True)
        for last in "ab":
            name = long + last
            assert [each.execution_id for each in store.list_executions(runner=name)] == [name]
            assert [each.interrupt_id for each in store.list_pending_interrupts(name)] == [name]
            assert [each.key for each in store.list_idempotent(name)] == [name]
            record = store.get_idempotent(name, name)
            assert record is not None
            assert record.key == name
