"""The refund on DBOS: its default SQLite system database, the charge a step, the approval a `recv`.

Launching in a new process recovers what is pending, as its documentation has it. The approval is sent with an
idempotency key, so that sending it again is harmless.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dbos import DBOS, SetWorkflowID

from pytest_fastdur.peers import RUN

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_fastdur.subject import Outside, State

ENGINE, SETTINGS = "dbos", "SQLite system database, defaults; charge a step, approval a recv, recovery at launch"
_WAIT = 30.0


def _launched(outside: Outside) -> Callable[[int], list[Any]]:
    DBOS(
        config={
            "name": "refund",
            "system_database_url": f"sqlite:///{outside.folder / 'dbos.db'}",
            "log_level": "CRITICAL",
            "application_version": "1",
        }
    )

    @DBOS.step(name="charge")
    def charge(amount: int) -> str:
        outside.effect("charge")
        return f"charged {amount}"

    @DBOS.workflow(name="refund")
    def refund(amount: int) -> list[Any]:
        receipt = charge(amount)
        DBOS.set_event("waits", value=True)
        return [receipt, DBOS.recv("approve", timeout_seconds=3600)]

    DBOS.launch()
    return refund


def start(outside: Outside) -> None:
    """Begin, and stay until it waits for the approval."""
    refund = _launched(outside)
    with SetWorkflowID(RUN):
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

    from dbos import DBOSClient

    path = outside.folder / "dbos.db"
    if not path.exists():
        return "unstarted", None
    client = DBOSClient(system_database_url=f"sqlite:///{path}")
    try:
        found = client.list_workflows(workflow_ids=[RUN])
        waits = bool(found) and client.get_event(RUN, "waits", timeout_seconds=0)
    except Exception as error:  # noqa: BLE001 - the tables are made by the first launch
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
