"""The refund on FastAIAgent: its `SQLiteCheckpointer`, defaults; the charge under its `@idempotent`."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from fastaiagent import Chain, FunctionTool, Resume, SQLiteCheckpointer, idempotent, interrupt

from pytest_fastdur.peers import RUN

if TYPE_CHECKING:
    from pytest_fastdur.subject import Outside, State

ENGINE, SETTINGS = "fastaiagent", "SQLiteCheckpointer, defaults; charge under @idempotent, tracing off"


def _chain(outside: Outside, store: Any) -> Any:
    @idempotent(key_fn=lambda amount: f"charge-{amount}")
    def charge(amount: int) -> str:
        outside.effect("charge")
        return f"charged {amount}"

    def pay(amount: int) -> dict[str, Any]:
        """Charge."""
        return {"receipt": charge(amount)}

    def review(amount: int) -> dict[str, Any]:
        """Ask."""
        return {"approved": interrupt("approve", {"amount": amount}).approved}

    def finish() -> dict[str, Any]:
        """End."""
        return {"done": "paid"}

    chain: Any = Chain("refund", checkpointer=store)
    amount = {"amount": "{{state.amount}}"}
    chain.add_node("pay", tool=FunctionTool(name="pay", fn=pay), input_mapping=amount)
    chain.add_node("review", tool=FunctionTool(name="review", fn=review), input_mapping=amount)
    chain.add_node("finish", tool=FunctionTool(name="finish", fn=finish))
    chain.connect("pay", "review")
    chain.connect("review", "finish")
    return chain


def _store(outside: Outside) -> Any:
    return closing(SQLiteCheckpointer(str(outside.folder / "fastaiagent.db")))


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
        answer = Resume(approved=True) if last is not None and last.status == "interrupted" else None
        asyncio.run(_chain(outside, store).resume(RUN, resume_value=answer))


def status(outside: Outside) -> tuple[State, Any]:
    """Read the newest checkpoint: the end of the chain is the one of its last node."""
    with _store(outside) as store:
        store.setup()
        last = store.get_last(RUN)
    if last is None:
        return "unstarted", None
    if last.status == "interrupted":
        return "paused", None
    if last.status == "completed" and last.node_id == "finish":
        return "completed", "paid"
    return "running", None
