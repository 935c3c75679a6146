"""A seat is booked in a database of one's own, beside the store: choose, book, print.

    choose ──> book ──> ticket

The store and the shop's tables are two databases, and no commit spans both. So an INSERT is an effect like any other,
with the same window, and the same help: a key, under which the database takes a row once. With `ON CONFLICT DO NOTHING`
the second time is no error. Where the tables can live in the database of the store itself, one commit does span both,
and there is no window (`transactional`).

    python -m scenarios.booking
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastdur import Chain, effect_key, idempotent, transaction
from scenarios._story import State, tell
from scenarios.shop_database import TABLE, Shop, ShopDatabase

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdur import Checkpointer, Resume

INPUT: State = {"order": "A-1001", "customer": "ada", "free": ["4C", "7A"]}
ANSWERS: dict[str, Resume] = {}
EFFECTS = {"bookings": "exactly-once"}

ONCE = "INSERT INTO bookings (customer, seat, known_as) VALUES (?, ?, ?) ON CONFLICT (known_as) DO NOTHING"
PLAIN = "INSERT INTO bookings (customer, seat) VALUES (?, ?)"


def choose(state: State) -> State:
    """The first seat that is free."""
    return {"seat": min(state["free"])}


def ticket(state: State) -> State:
    """What is printed."""
    return {"ticket": f"{state['order']}: {state['customer']} sits on {state['seat']}"}


def chain(checkpointer: Checkpointer, book: Callable[[str, str], None]) -> Chain:
    """The graph, around any way of booking."""

    def booking(state: State) -> None:
        book(state["customer"], state["seat"])

    return (
        Chain("booking", checkpointer)
        .add_node("choose", choose)
        .add_node("book", booking)
        .add_node("ticket", ticket)
        .connect("choose", "book")
        .connect("book", "ticket")
    )


def build(checkpointer: Checkpointer, url: str) -> Chain:
    """The booking as it should be."""
    shop = Shop(url)

    @idempotent(name="book")
    def book(customer: str, seat: str) -> None:
        shop.run(ONCE, customer, seat, effect_key())

    return chain(checkpointer, book)


def natural(checkpointer: Checkpointer, url: str) -> Chain:
    """Right without any record: the data themselves say what is the same. Nobody sits on one seat twice."""
    shop = Shop(url)

    def book(customer: str, seat: str) -> None:
        shop.run(ONCE, customer, seat, f"{customer}/{seat}")

    return chain(checkpointer, book)


def transactional(checkpointer: Checkpointer, url: str) -> Chain:
    """Right, and without a window: the row and the record are one commit in the database of the store.

    That is the file of the store on SQLite, and the database in which the store has its schema on Postgres.
    """
    shop = Shop(url)

    @idempotent(name="book", transactional=True)
    def book(customer: str, seat: str) -> None:
        cursor = transaction()
        cursor.execute(TABLE)
        cursor.execute(shop.said(PLAIN), (customer, seat))

    return chain(checkpointer, book)


def stopping(checkpointer: Checkpointer, url: str) -> Chain:
    """A table that one may not change: where nobody knows, a human looks into it."""
    shop = Shop(url)

    @idempotent(name="book", on_unknown="raise")
    def book(customer: str, seat: str) -> None:
        shop.run(PLAIN, customer, seat)

    return chain(checkpointer, book)


def broken_no_key(checkpointer: Checkpointer, url: str) -> Chain:
    """Broken: recorded, but the row has nothing by which the database could know it.

    A crash after the commit of the INSERT and before that of its record inserts another row. A sweep says
    FD07 EFFECT_REPEATED.
    """
    shop = Shop(url)

    @idempotent(name="book")
    def book(customer: str, seat: str) -> None:
        shop.run(PLAIN, customer, seat)

    return chain(checkpointer, book)


def broken_no_idempotent(checkpointer: Checkpointer, url: str) -> Chain:
    """Broken: a plain INSERT in a node.

    It is committed when it returns, and the node is not. A sweep says FD07 EFFECT_REPEATED.
    """
    shop = Shop(url)

    def book(customer: str, seat: str) -> None:
        shop.run(PLAIN, customer, seat)

    return chain(checkpointer, book)


if __name__ == "__main__":
    tell(build, INPUT, ANSWERS, ShopDatabase())
