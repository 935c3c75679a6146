"""The refund on fastdur: default settings (SQLite, WAL, synchronous=FULL); the charge is `@idempotent`."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from fastdur import Chain, Happened, NotHappened, Resume, SQLiteCheckpointer, idempotent, interrupt
from pytest_fastdur.peers import RUN

if TYPE_CHECKING:
    from pytest_fastdur.subject import Outside, State

ENGINE, SETTINGS = "fastdur", "SQLiteCheckpointer, defaults; charge under @idempotent, on_unknown asks the provider"


def _chain(outside: Outside, store: SQLiteCheckpointer) -> Chain:
    def ask(_key: str, _amount: int) -> Any:
        return Happened("charged 120") if outside.happened("charge") else NotHappened

    @idempotent(on_unknown=ask)
    def charge(amount: int) -> str:
        outside.effect("charge")
        return f"charged {amount}"

    def pay(state: dict[str, Any]) -> dict[str, Any]:
        return {"receipt": charge(state["amount"])}

    def review(state: dict[str, Any]) -> dict[str, Any]:
        return {"approved": interrupt("approve", {"amount": state["amount"]}).approved}

    def finish(state: dict[str, Any]) -> dict[str, Any]:
        return {"done": [state["receipt"], state["approved"]]}

    chain = Chain("refund", store)
    for name, node in (("pay", pay), ("review", review), ("finish", finish)):
        chain.add_node(name, node)
    chain.connect("pay", "review")
    chain.connect("review", "finish")
    return chain


def _store(outside: Outside) -> closing[SQLiteCheckpointer]:
    return closing(SQLiteCheckpointer(outside.folder / "fastdur.db"))


def start(outside: Outside) -> None:
    """Begin."""
    with _store(outside) as store:
        _chain(outside, store).execute({"amount": 120}, RUN)


def resume(outside: Outside) -> None:
    """Answer, where something is asked; else recover."""
    with _store(outside) as store:
        asked = store.list_pending_interrupts()
        answer = Resume(approved=True, interrupt_id=asked[0].interrupt_id) if asked else None
        _chain(outside, store).resume(RUN, answer)


def status(outside: Outside) -> tuple[State, Any]:
    """Read the head of the run."""
    with _store(outside) as store:
        chain = _chain(outside, store)
        head = store.get_execution(RUN)
        if head is None:
            return "unstarted", None
        if head.status == "completed":
            return "completed", chain.result(RUN).final_state["done"]
        return ("paused" if head.status == "paused" else "running"), None
