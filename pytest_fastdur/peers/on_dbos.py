"""The refund on DBOS: its default SQLite system database, the charge a step, the approval a `recv`.

Launching in a new process recovers what is pending, as its documentation has it. The approval is sent with an
idempotency key, so that sending it again is harmless.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pytest_fastdur.peers import RUN

if TYPE_CHECKING:
    from pytest_fastdur.subject import Outside, State

ENGINE, SETTINGS = "dbos", "SQLite system database, defaults; charge a step, approval a recv, recovery at launch"
_WAIT = 30.0
_dbos: Any = import_module("dbos")
DBOS: Any = _dbos.DBOS


def _launched(outside: Outside) -> Any:
    DBOS(
        config={
            "name": "refund",
            "system_database_url": f"sqlite:///{outside.folder / 'dbos.db'}",
            "log_level": "CRITICAL",
            "application_version": "1",
        }
    )

    def body(amount: int) -> str:
        outside.effect("charge")
        return f"charged {amount}"

    charge: Any = DBOS.step(name="charge")(body)

    def workflow(amount: int) -> list[Any]:
        receipt = charge(amount)
        DBOS.set_event("waits", value=True)
        return [receipt, DBOS.recv("approve", timeout_seconds=3600)]

    refund: Any = DBOS.workflow(name="refund")(workflow)
    DBOS.launch()
    return refund


def start(outside: Outside) -> None:
    """Begin, and stay until it waits for the approval."""
    refund = _launched(outside)
    with _dbos.SetWorkflowID(RUN):
        DBOS.start_workflow(refund, 120)
    DBOS.get_event(RUN, "waits", timeout_seconds=_WAIT)


def resume(outside: Outside) -> None:
    """Launching recovers; then approve, and wait for the end."""
    _launched(outside)
    DBOS.get_event(RUN, "waits", timeout_seconds=_WAIT)
    DBOS.send(RUN, "yes", "approve", idempotency_key="approve-1")
    DBOS.retrieve_workflow(RUN).get_result()


def status(outside: Outside) -> tuple[State, Any]:
    """Ask the client, which runs nothing."""
    import sqlite3

    path = outside.folder / "dbos.db"
    if not path.exists():
        return "unstarted", None
    client: Any = _dbos.DBOSClient(system_database_url=f"sqlite:///{path}")
    try:
        found = client.list_workflows(workflow_ids=[RUN])
        waits = bool(found) and client.get_event(RUN, "waits", timeout_seconds=0)
    except Exception as error:  # the tables are made by the first launch
        if isinstance(getattr(error, "orig", None), sqlite3.OperationalError):
            return "unstarted", None
        raise
    finally:
        client.destroy()
    if not found:
        return "unstarted", None
    if found[0].status == "SUCCESS":
        return "completed", found[0].output
    return ("paused" if waits else "running"), None
