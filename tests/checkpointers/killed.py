"""A process that kills itself at one of the statements of what it does: `BACKEND WHERE NUMBER WHEN WHAT`.

It books with a transactional effect, prunes, deletes or cancels the run `p`, or forks the run that its node has begun. Without a fault it prints how many statements
there are: from the first of the effect's transaction to its commit, or of everything that is written.
"""

from __future__ import annotations

import os
import signal
import sys
from datetime import timedelta

from fastdur import (
    Chain,
    PostgresCheckpointer,
    SQLiteCheckpointer,
    cancel,
    delete_execution,
    prune,
    transaction,
)
from fastdur.checkpointers import postgres, sqlite
from tests.checkpointers.stores import twins
from tests.unit.books import Books

BACKEND, PLACE, NUMBER, WHEN, WHAT = sys.argv[1], sys.argv[2:4], int(sys.argv[4]), sys.argv[5], sys.argv[6]


class Counted:
    inside = False
    seen = 0


def counted(do, *args, **options):
    """Run one statement; die at the one that is ordered."""
    Counted.seen += Counted.inside
    ordered = Counted.inside and Counted.seen == NUMBER
    if ordered and WHEN == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    done = do(*args, **options)
    if ordered and WHEN == "after":
        os.kill(os.getpid(), signal.SIGKILL)
    return done


def counting(kind, name):
    """Count what goes through a method."""
    method = getattr(kind, name)
    setattr(kind, name, lambda self, *args, **options: counted(method, self, *args, **options))


def within(kind, name):
    """Count while a method is at work."""
    method = getattr(kind, name)

    def inner(self, *args, **options):
        Counted.inside = True
        try:
            return method(self, *args, **options)
        finally:
            Counted.inside = False

    setattr(kind, name, inner)


class Deadly(sqlite.sqlite3.Connection):
    def execute(self, *args):
        return counted(super().execute, *args)

    def cursor(self):
        return super().cursor(DeadlyCursor)


class DeadlyCursor(sqlite.sqlite3.Cursor):
    def execute(self, *args):
        return counted(super().execute, *args)


def main():
    if BACKEND == "sqlite":
        SQLiteCheckpointer.driver = Deadly
        store = SQLiteCheckpointer(PLACE[0])
    else:
        counting(postgres.Connection, "wait")
        store = PostgresCheckpointer(*PLACE)
    within(type(store), "_alone_once" if WHAT == "book" else "_write_once")
    DEEDS[WHAT](store)
    sys.stdout.write(str(Counted.seen))


def book_once(store):
    books = Books(store, made=True)
    book = books.booking(after=lambda: books.insert(transaction(), -5))
    Chain("c", store).add_node("a", lambda state: {"count": book(5)}).execute({}, "r")


DEEDS = {
    "book": book_once,
    "fork": lambda store: twins(store)[0].fork("p/call#1/below", new_execution_id="f", effects="recorded"),
    "cancel": lambda store: cancel("p", store),
    "prune": lambda store: prune(timedelta(0), store),
    "delete": lambda store: delete_execution("p", store),
}


if __name__ == "__main__":
    main()
