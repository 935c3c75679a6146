"""What is found in functions under `@idempotent`."""

from __future__ import annotations

import collections.abc
import io
import pathlib
import random
import socket
import sqlite3
import threading

import httpx
import pytest

from fastdur import NotStorable, SQLiteCheckpointer
from fastdur._codec import fingerprint
from fastdur.lint import _catalogue as catalogue
from tests.unit.lint.linting import check


def test_a_question_in_an_effect_or_its_functions_is_found(tmp_path):
    messages = check(
        tmp_path,
        """
        from fastdur import Happened, idempotent, interrupt

        def ask():
            return interrupt("q", {})  #: FDL05

        def key(amount):
            interrupt("q", {})  #: FDL05
            return amount

        def asked(key, amount):
            return Happened(interrupt("q", {}).approved)  #: FDL05

        @idempotent(name="charge", key_fn=key, on_unknown=asked)
        def charge(amount):
            ask()
            return charge_inner(amount)

        @idempotent
        def charge_inner(amount):
            return amount
        """,
    )
    assert messages == [
        "effect 'charge' asks with interrupt(), which only a node may. Way: charge > ask (%s:16) > interrupt."
        % (tmp_path / "flow.py"),
        "key_fn= of effect 'charge' asks with interrupt(), which only a node may.",
        "on_unknown= of effect 'charge' asks with interrupt(), which only a node may.",
    ]


def test_a_transaction_is_for_transactional_effects_and_those_stand_alone(tmp_path):
    messages = check(
        tmp_path,
        """
        from fastdur import Chain, idempotent, transaction

        @idempotent(name="inner", transactional=False)
        def inner(n):
            transaction().execute("SELECT 1")  #: FDL05

        @idempotent(name="outer", transactional=True)
        def outer(n):
            transaction().execute("SELECT 1")
            inner(n)  #: FDL05

        def node(state):
            transaction().execute("SELECT 1")  #: FDL05
            return {"n": outer(1)}

        Chain("c").add_node("n", node)
        """,
    )
    assert messages == [
        "effect 'inner' asks for transaction() and is not transactional.",
        "effect 'outer' is transactional and calls inner(), another effect.",
        "node 'n' asks for transaction() outside of a transactional effect.",
    ]


def test_parameters_without_a_form_are_found(tmp_path):
    messages = check(
        tmp_path,
        """
        import sqlite3
        from collections.abc import Callable, Sequence
        from dataclasses import dataclass
        from enum import Enum
        from typing import Annotated, Optional, Protocol, TypedDict

        import httpx
        from fastdur import idempotent
        from pydantic import BaseModel

        class Plain:
            pass

        class Below(Plain, object):
            pass

        class Odd(Plain()):
            pass

        class Kind(Enum):
            a = 1

        class Model(BaseModel):
            n: int

        class Row(TypedDict):
            n: int

        class Meta(Plain, metaclass=type):
            pass

        @dataclass
        class Order:
            n: int

        @idempotent
        def one(client: httpx.Client, n: int): ...  #: FDL06

        @idempotent
        def two(n: int, on: "sqlite3.Connection | None" = None): ...  #: FDL06

        @idempotent
        def three(fn: Callable[[int], int], kind: Kind, row: Row, meta: Meta): ...  #: FDL06

        @idempotent
        def four(orders: list[Order], plain: Plain, model: Model): ...  #: FDL06

        @idempotent
        def five(many: dict[str, Below]): ...  #: FDL06

        @idempotent
        def six(many: set[dict[str, int]], names: set[str], both: frozenset[tuple[str, int]]): ...  #: FDL06

        @idempotent
        def seven(a=[], b={}, c=set(), d=(), e=None, f=dict(a=1), *, g=[1 for _ in "a"]): ...  #: FDL06 FDL06 FDL06 FDL06

        @idempotent(key_fn=lambda client: 1)
        def eight(client: httpx.Client, on=[]): ...

        @idempotent
        def nine(a: "not a type(", b: Optional[int], c: Annotated[int, Plain], d: unknown.Thing, e: 5): ...  #: FDL06

        @idempotent
        def odd(a: Odd, b: len): ...

        @idempotent
        def ten(a: Sequence[Plain] | int): ...  #: FDL06

        class Account:
            @idempotent(name="a")
            def charge(self, amount): ...  #: FDL06

            @idempotent(name="b", key_fn=lambda self, amount: amount)
            def keyed(self, amount): ...

            @staticmethod
            @idempotent(name="c")
            def free(amount: Plain): ...  #: FDL06

        @dataclass
        class Wallet:
            @idempotent(name="d")
            def charge(self, amount): ...

        class Loop(Loop):
            @idempotent(name="e")
            def charge(self, amount): ...
        """,
    )
    assert messages[0] == (
        "effect 'one' has a parameter 'client' that no key can be made of: "
        "httpx.Client has no form that is the same in another process."
    )
    assert "set[dict[str, int]] cannot exist" in "".join(messages)


def values(folder):
    """A value of some of the types that are said to have no form."""
    store = SQLiteCheckpointer(":memory:")
    yield "httpx.Client()", httpx.Client()
    yield "sqlite3.Connection()", sqlite3.connect(":memory:")
    yield "builtins.open()", (folder / "f").open("w")
    yield "io.BytesIO()", io.BytesIO()
    yield "pathlib.Path()", pathlib.Path("f")
    yield "threading.Lock()", threading.Lock()
    yield "socket.socket()", socket.socket()
    yield "random.Random()", random.Random(1)
    yield "collections.abc.Callable()", len
    yield "collections.abc.Iterator()", iter([1])
    yield "fastdur.SQLiteCheckpointer()", store
    store.close()


def test_the_engine_refuses_what_is_said_to_have_no_form(tmp_path):
    for dotted, value in values(tmp_path):
        assert catalogue.UNSTORABLE.fullmatch(dotted)
        with pytest.raises(NotStorable):
            fingerprint(value, "argument")
        if isinstance(value, httpx.Client | sqlite3.Connection | io.IOBase | socket.socket):
            value.close()
    assert isinstance(iter([1]), collections.abc.Iterator)


def test_a_result_that_cannot_be_stored_is_found(tmp_path):
    messages = check(
        tmp_path,
        """
        import httpx, requests
        from fastdur import effect_key, idempotent

        @idempotent
        def one() -> httpx.Response:  #: FDL06
            return httpx.post("u", headers={"key": effect_key()})

        @idempotent
        def two():
            if effect_key():
                return 5
            return requests.post("u")  #: FDL06

        @idempotent
        def three() -> dict:
            return requests.post("u", headers={"key": effect_key()}).json()

        four = idempotent(name="four")(lambda: effect_key() and requests.put("u"))  #: FDL06
        """,
    )
    assert messages[0].startswith("effect 'one' returns what cannot be stored: httpx.Response has no form")
    assert messages[1] == "effect 'two' returns the result of requests.post, which cannot be stored."


def test_a_key_that_changes_is_found(tmp_path):
    messages = check(
        tmp_path,
        """
        import os, time, uuid
        from fastdur import idempotent

        def made(to):
            return [to, str(uuid.uuid4())]  #: FDL07

        @idempotent(name="a", key_fn=made)
        def one(to): ...

        @idempotent(name="b", key_fn=lambda to: [hash(to), os.environ["A"]])  #: FDL07 FDL07
        def two(to): ...

        @idempotent(name="c", key_fn=lambda to: to)
        def three(to): ...
        """,
    )
    assert messages[0] == "key_fn= of effect 'a' reads uuid.uuid4: a replay has another key and runs the body again."


def test_a_name_is_asked_for_where_several_functions_share_one(tmp_path):
    messages = check(
        tmp_path,
        """
        from fastdur import idempotent

        one = idempotent(lambda: 1)  #: FDL09
        two = idempotent(name="two")(lambda: 2)

        @idempotent
        def three(): ...

        def build():
            @idempotent
            async def four(): ...  #: FDL09

            @idempotent(name="five")
            def five(): ...

            return idempotent(three_plain)

        def three_plain(): ...
        """,
    )
    assert messages == [
        "a lambda under @idempotent has no name of its own, so it shares its records with every other one.",
        "effect 'four' is made inside build() without name=, so each one that it makes is the same.",
    ]


def test_a_provider_that_is_given_no_key_is_found_once(tmp_path):
    messages = check(
        tmp_path,
        """
        import requests, smtplib
        from fastdur import effect_key, idempotent, transaction

        @idempotent
        def one(amount):
            requests.post("u")  #: FDL10
            requests.post("v")

        @idempotent(on_unknown="rerun")
        def meant(amount):
            requests.post("u")

        @idempotent(on_unknown="raise")
        def asked(amount):
            requests.post("u")

        @idempotent
        def keyed(order):
            requests.post("u", headers={"Idempotency-Key": order})

        @idempotent
        def deep(order):
            send(order)

        def send(order):
            post(effect_key())

        def post(key):
            requests.post("u")

        @idempotent
        def own(order, idempotency_key):
            requests.post("u")

        @idempotent
        def setting(order):
            requests.put("u")

        @idempotent
        def insert(db):
            db.execute("INSERT INTO t VALUES (1)")  #: FDL10

        @idempotent(transactional=True)
        def together(n):
            transaction().execute("INSERT INTO t VALUES (?)", [n])

        @idempotent(transactional=True)
        def apart(n):
            transaction().execute("INSERT INTO t VALUES (?)", [n])
            requests.post("u")  #: FDL10

        mail = idempotent(name="mail")(lambda: smtplib.SMTP("h").sendmail("a", "b", "c"))  #: FDL10
        """,
    )
    assert (
        messages[0] == "effect 'one' sends an HTTP request (requests.post) without effect_key(): after a crash, again."
    )


def test_what_an_effect_closes_over_belongs_into_its_key(tmp_path):
    messages = check(
        tmp_path,
        """
        from fastdur import Chain, effect_key, idempotent
        LIMIT = 5

        def helper():
            return 1

        def build(provider):
            def pay(state):
                amount = state["amount"]
                here = helper

                def inner():
                    return 2

                @idempotent(name="charge")
                def charge():
                    key = effect_key()
                    return provider.charge(amount, LIMIT, key)  #: FDL08

                @idempotent(name="keyed", key_fn=lambda: state["amount"])
                def keyed():
                    return state["amount"]

                @idempotent(name="given", **amount)
                def given(amount):
                    return provider(amount, here, inner, helper)

                class Local:
                    base = 1

                    @idempotent(name="method")
                    def method(self):  #: FDL06
                        return Local

                return {"id": charge(), "k": keyed(), "g": given(amount)}

            @idempotent(name="outside")
            def outside():
                return provider.x(LIMIT)

            return Chain("c").add_node("pay", pay)
        """,
    )
    assert "effect 'charge' uses 'amount' of pay(), which is not part of its key." in messages
