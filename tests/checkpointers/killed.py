"""A process that runs a transactional effect and kills itself at one of its statements: `BACKEND WHERE NUMBER WHEN`.

Without a fault it prints how many statements there are, from the first of the transaction to its commit.
"""

from __future__ import annotations

import os
import signal
import sys

from fastdur import Chain, PostgresCheckpointer, SQLiteCheckpointer, transaction
from fastdur.checkpointers import postgres, sqlite
from tests.unit.books import Books

BACKEND, PLACE, NUMBER, WHEN = sys.argv[1], sys.argv[2:4], int(sys.argv[4]), sys.argv[5]


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
    within(type(store), "_alone_once")
    books = Books(store, made=True)
    book = books.booking(after=lambda: books.insert(transaction(), -5))
    Chain("c", store).add_node("a", lambda state: {"count": book(5)}).execute({}, "r")
    sys.stdout.write(str(Counted.seen))


if __name__ == "__main__":
    main()
