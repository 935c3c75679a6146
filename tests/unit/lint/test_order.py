"""Which calls may be followed by a question."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from fastdur.lint._order import Order


@pytest.mark.parametrize(
    ("body", "followed"),
    [
        ("a(); ask(); b()", "a"),
        ("ask(a(), b())", "a b"),
        ("x = lambda: a()\nask()", ""),
        ("return", ""),
        ("a()\nreturn ask()", "a"),
        ("a()\nraise ask(b())", "a b"),
        ("for x in a():\n  b()\nask()", "a b"),
        ("for x in a():\n  ask()\n  b()", "a b ask"),
        ("while a():\n  b()\n  break\nask()", "a b"),
        ("while a():\n  ask()\n  continue\n  b()", "a ask b"),
        ("while a():\n  b()\nelse:\n  ask()", "a b"),
        ("try:\n  a()\nexcept E:\n  b()\nask()", "a b"),
        ("try:\n  a()\n  return\nfinally:\n  ask()", "a"),
        ("try:\n  a()\nexcept E:\n  ask()\nelse:\n  b()", "a"),
        ("try:\n  a()\nexcept* E:\n  ask()", "a"),
        ("with a() as x, b() as y:\n  ask()", "a b"),
        ("match a():\n  case 1:\n    b()\n  case 2:\n    ask()", "a"),
        ("if a():\n  b()\nelse:\n  ask()", "a"),
        ("class K:\n  x = a()\ndef f():\n  ask()\nb()", ""),
        ("[(a(), ask()) for x in b()]", "a ask b"),
        ("x = [a() for y in b()]\nask()", "a b"),
    ],
)
def test_a_call_is_followed_where_control_may_go_on_to_a_question(body, followed):
    tree = ast.parse(f"def node():\n{'  ' + dedent(body).replace(chr(10), chr(10) + '  ')}")
    order = Order(tree.body[0].body, lambda call: ast.unparse(call.func) == "ask")
    names = [ast.unparse(call.func) for call in order.followed]
    assert sorted(names) == sorted(followed.split())


def test_a_lambda_has_an_order_too():
    order = Order(ast.parse("(a(), ask(), b())", mode="eval").body, lambda call: ast.unparse(call.func) == "ask")
    assert [ast.unparse(call.func) for call in order.followed] == ["a"]
