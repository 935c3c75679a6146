"""What a function is bound to counts like an argument: an object, its class, what a partial has filled in."""

import functools
import re
import subprocess
import sys
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace

import pytest

from fastdur import IdempotencyError, Resume, idempotent, interrupt
from fastdur._functions import known_module
from tests.unit.running import attempts, flow


@dataclass
class Card:
    number: str

    def pay(self, amount):
        return f"{self.number} {amount}"

    def __call__(self, amount):
        return self.pay(amount)

    @classmethod
    def name(cls, amount):
        return f"{cls.__name__} {amount}"


class Debit(Card):
    pass


class Plain:
    """Has no form that could count."""

    def __init__(self, number):
        self.number = number

    def pay(self, amount):
        return f"{self.number} {amount}"


def pay(number, amount):
    return f"{number} {amount}"


TWO = {
    "methods": lambda: [idempotent(Card(each).pay) for each in "ab"],
    "methods under one name": lambda: [idempotent(name="pay")(Card(each).pay) for each in "ab"],
    "objects": lambda: [idempotent(name="pay")(Card(each)) for each in "ab"],
    "partials": lambda: [idempotent(name="pay")(functools.partial(pay, each)) for each in "ab"],
    "partials of methods": lambda: [idempotent(name="pay")(functools.partial(Card(each).pay, 5)) for each in "ab"],
    "methods of classes": lambda: [idempotent(each.name) for each in (Card, Debit)],
}


@pytest.mark.parametrize("two", TWO.values(), ids=TWO)
def test_what_is_bound_to_different_values_is_two_effects_and_to_equal_ones_the_same(store, go, two):
    given = () if two is TWO["partials of methods"] else (5,)

    def a(state):
        return {"got": [effect(*given) for effect in [*two(), *two()]]}

    wanted = [effect.plain(*given) for effect in [*two(), *two()]]
    assert go(flow(store, a).execute, execution_id="r").output == {"got": wanted}
    assert len(attempts(store)) == 2


def test_a_method_of_an_object_that_has_no_form_is_refused_where_it_might_be_of_another(store, go):
    def a(state):
        return {"a": idempotent(Plain("a").pay)(5)}

    def b(state):
        interrupt("ok?")
        return {"b": idempotent(Plain("b").pay)(5)}

    def both(state):
        return {"got": [idempotent(Plain(each).pay)(5) for each in "ab"]}

    with pytest.raises(IdempotencyError, match="Two different functions"):
        go(flow(store, both).execute)
    made = flow(store, a, b)
    go(made.execute, execution_id="r")
    with pytest.raises(IdempotencyError, match=re.escape("name=...")):
        go(made.resume, "r", Resume(True))
    assert attempts(store) == [("pay", "done")]


def test_a_function_of_a_module_made_in_c_is_bound_to_nothing(store, go):
    def a(state):
        return {"got": idempotent(len)([1, 2])}

    assert go(flow(store, a).execute, execution_id="r").output == {"got": 2}


def test_with_a_key_function_one_key_for_two_objects_is_noticed(store, go):
    def a(state):
        for each in "ab":
            idempotent(name="pay", key_fn=lambda amount: amount)(Card(each).pay)(5)

    with pytest.raises(IdempotencyError, match="other arguments"):
        go(flow(store, a).execute)


SEEN = {"capture_output": True, "text": True}

PROGRAM = """
import multiprocessing, sys
from dataclasses import dataclass

from fastdur import Chain, SQLiteCheckpointer, SimulatedCrash, idempotent, observe


@dataclass
class Order:
    number: int


class Declined(Exception):
    pass


@idempotent(raises=Declined)
def pay(order, fails):
    with open(sys.argv[1] + ".paid", "a") as paid:
        print(order.number, file=paid)
    if fails:
        raise Declined


def node(state):
    pay(Order(5), False)
    try:
        pay(Order(6), True)
    except Declined:
        return {"declined": True}


def crash(boundary):
    if str(boundary) == "before append node":
        raise SimulatedCrash


def begin():
    with observe(crash):
        chain().execute({}, "r")


def chain():
    return Chain("c", SQLiteCheckpointer(sys.argv[1])).add_node("node", node)


if __name__ == "__main__":
    if sys.argv[2:] == ["spawn"]:
        process = multiprocessing.get_context("spawn").Process(target=begin)
        process.start()
        process.join()
    else:
        begin()
"""


@pytest.mark.parametrize("way", [["app.py"], ["-m", "app"], ["app.py", "spawn"]], ids=["script", "module", "spawned"])
def test_a_function_is_the_same_whatever_its_process_began_with(tmp_path, way):
    (tmp_path / "app.py").write_text(PROGRAM)
    store = str(tmp_path / "s.db")
    program, how = (way[:1], way[1:]) if way[0] != "-m" else (way, [])
    begun = subprocess.run([sys.executable, *program, store, *how], cwd=tmp_path, check=False, **SEEN)
    assert "crash" in begun.stderr.lower()
    after = "import sys, app; print(app.chain().resume('r', takeover=True).output)"
    resumed = subprocess.run([sys.executable, "-c", after, store], cwd=tmp_path, check=False, **SEEN)
    assert (resumed.stderr, resumed.stdout) == ("", "{'declined': True}\n")
    assert (tmp_path / "s.db.paid").read_text() == "5\n6\n"


def test_what_was_typed_in_has_no_other_name(monkeypatch):
    typed_in = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", typed_in)
    assert known_module("__main__") == "__main__"
    typed_in.__file__ = "/srv/app.py"
    assert known_module("__main__") == "app"
    typed_in.__spec__ = SimpleNamespace(name="shop.app")
    assert known_module("__main__") == "shop.app"
