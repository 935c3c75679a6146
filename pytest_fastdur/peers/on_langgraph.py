"""The refund on LangGraph: `SqliteSaver`, `durability="sync"`, the charge as a `@task`, as its documentation has it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, TypedDict

from pytest_fastdur.peers import RUN

if TYPE_CHECKING:
    from pytest_fastdur.subject import Outside, State

ENGINE, SETTINGS = "langgraph", 'SqliteSaver, durability="sync", the charge in a @task'
SqliteSaver: Any = import_module("langgraph.checkpoint.sqlite").SqliteSaver
_task: Any = import_module("langgraph.func").task
_graphs: Any = import_module("langgraph.graph")
_types: Any = import_module("langgraph.types")
_CONFIG: Any = {"configurable": {"thread_id": RUN}}


class _Refund(TypedDict, total=False):
    amount: int
    receipt: str
    approved: bool
    done: list[Any]


def _graph(outside: Outside, saver: Any) -> Any:
    def body(amount: int) -> str:
        outside.effect("charge")
        return f"charged {amount}"

    charge: Any = _task(body, name="charge")

    def pay(state: Any) -> _Refund:
        return {"receipt": charge(state["amount"]).result()}

    def review(state: Any) -> _Refund:
        return {"approved": _types.interrupt({"approve": state["amount"]})}

    def finish(state: Any) -> _Refund:
        return {"done": [state["receipt"], state["approved"]]}

    graph: Any = _graphs.StateGraph(_Refund)
    for name, node in (("pay", pay), ("review", review), ("finish", finish)):
        graph.add_node(name, node)
    for one, other in ((_graphs.START, "pay"), ("pay", "review"), ("review", "finish"), ("finish", _graphs.END)):
        graph.add_edge(one, other)
    return graph.compile(checkpointer=saver)


def _saver(outside: Outside) -> Any:
    return SqliteSaver.from_conn_string(str(outside.folder / "langgraph.db"))


def start(outside: Outside) -> None:
    """Begin."""
    with _saver(outside) as saver:
        _graph(outside, saver).invoke({"amount": 120}, _CONFIG, durability="sync")


def resume(outside: Outside) -> None:
    """Answer, where something is asked; else go on from the last checkpoint, which is `invoke(None)`."""
    with _saver(outside) as saver:
        graph = _graph(outside, saver)
        given = _types.Command(resume=True) if graph.get_state(_CONFIG).interrupts else None
        graph.invoke(given, _CONFIG, durability="sync")


def status(outside: Outside) -> tuple[State, Any]:
    """Read the newest checkpoint."""
    with _saver(outside) as saver:
        state = _graph(outside, saver).get_state(_CONFIG)
    if state.created_at is None:
        return "unstarted", None
    if state.interrupts:
        return "paused", None
    return ("running", None) if state.next else ("completed", state.values["done"])
