"""The refund on FastAIAgent: its `SQLiteCheckpointer`, defaults; the charge under its `@idempotent`."""

from __future__ import annotations

from contextlib import closing
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pytest_fastdur.peers import RUN

if TYPE_CHECKING:
    from pytest_fastdur.subject import Outside, State

ENGINE, SETTINGS = "fastaiagent", "SQLiteCheckpointer, defaults; charge under @idempotent, tracing off"
_engine: Any = import_module("fastaiagent")


def _chain(outside: Outside, store: Any) -> Any:
    def body(amount: int) -> str:
        outside.effect("charge")
        return f"charged {amount}"

    charge: Any = _engine.idempotent(key_fn="charge-{}".format)(body)

    def pay(amount: int) -> dict[str, Any]:
        """Charge."""
        return {"receipt": charge(amount)}

    def review(amount: int) -> dict[str, Any]:
        """Ask."""
        return {"approved": _engine.interrupt("approve", {"amount": amount}).approved}

    def finish() -> dict[str, Any]:
        """End."""
        return {"done": "paid"}

    chain: Any = _engine.Chain("refund", checkpointer=store)
    amount = {"amount": "{{state.amount}}"}
    chain.add_node("pay", tool=_engine.FunctionTool(name="pay", fn=pay), input_mapping=amount)
    chain.add_node("review", tool=_engine.FunctionTool(name="review", fn=review), input_mapping=amount)
    chain.add_node("finish", tool=_engine.FunctionTool(name="finish", fn=finish))
    chain.connect("pay", "review")
    chain.connect("review", "finish")
    return chain


def _store(outside: Outside) -> Any:
    return closing(_engine.SQLiteCheckpointer(str(outside.folder / "fastaiagent.db")))


def start(outside: Outside) -> None:
    """Begin."""
    with _store(outside) as store:
        store.setup()
        _chain(outside, store).execute({"amount": 120}, trace=False, execution_id=RUN)


def resume(outside: Outside) -> None:
    """Answer, where something is asked; else resume from the last checkpoint."""
    import asyncio

    with _store(outside) as store:
        store.setup()
        last = store.get_last(RUN)
        answer = _engine.Resume(approved=True) if last is not None and last.status == "interrupted" else None
        asyncio.run(_chain(outside, store).resume(RUN, resume_value=answer))


def status(outside: Outside) -> tuple[State, Any]:
    """Read the newest checkpoint: a chain that has ended has a `run_end`."""
    with _store(outside) as store:
        store.setup()
        last = store.get_last(RUN)
        rows: list[Any] = store.list(RUN)
    if last is None:
        return "unstarted", None
    if last.status == "interrupted":
        return "paused", None
    if last.status == "completed" and last.node_id == "run_end":
        return "completed", [row.node_output["output"] for row in rows if row.node_id in ("pay", "finish")][-2:]
    return "running", None
