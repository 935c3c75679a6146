"""Tools made of functions and of runners: their schemas, what they take, what they are told."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from fastdur import Chain, FunctionTool, GraphError, NodeResultError, RunnerTool, idempotent, tool
from fastdur._schema import documented, text_of


class Order(BaseModel):
    id: str
    amount: Decimal = Decimal(1)


@dataclass
class Item:
    body: Any


def bought(order: Order, when: dt.date, title: Annotated[str, Field(max_length=3)] = "ab", *, model_x: int = 1):
    """Buy something.

    More about it.

    Args:
        order: what is bought
        when (date): the day,
            in the shop's calendar
          title: odd indent
        model_x: a number

    Returns:
        nothing: at all
    """
    return order, when, title, model_x


def sphinx(a: int, b=2):
    """Add.

    :param a: the first
    :param int b: the second
    """
    return a + b


class Caller:
    """Called."""

    def __call__(self, a: int) -> int:
        return a


def test_the_schema_comes_from_hints_and_docstring():
    made = tool(bought)
    assert (made.name, made.spec.description) == ("bought", "Buy something.")
    properties = made.spec.parameters["properties"]
    assert properties["when"] == {
        "type": "string",
        "format": "date",
        "description": "the day, in the shop's calendar title: odd indent",
    }
    assert properties["model_x"] == {"type": "integer", "default": 1, "description": "a number"}
    assert properties["title"] == {"type": "string", "default": "ab", "maxLength": 3}
    assert made.spec.parameters["required"] == ["order", "when"]
    assert made.spec.parameters["additionalProperties"] is False
    assert "description" in tool(sphinx).spec.parameters["properties"]["b"]


def test_arguments_arrive_as_the_types_that_were_asked_for():
    made = tool(bought)
    given = {"order": {"id": "x"}, "when": "2026-01-02"}
    assert made.problem(given) is None
    status, text = made.call(given)(None)
    assert (status, text) == ("ok", '[{"id":"x","amount":"1"},"2026-01-02","ab",1]')
    assert made.problem({**given, "title": "long"}).startswith("title: ")
    assert "when: " in made.problem({"order": {"id": "x"}})


def test_a_tool_is_still_the_function(store):
    assert tool(sphinx)(1, b=3) == 4
    assert FunctionTool(Caller(), name="add").call({"a": 1})(None) == ("ok", "1")
    assert FunctionTool(Caller(), name="add").spec.parameters["required"] == ["a"]
    assert tool(idempotent(sphinx)).spec.parameters["required"] == ["a"]
    assert tool(name="other", description="")(sphinx).spec.description == ""
    assert FunctionTool(lambda: 1, name="one").spec.parameters == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: FunctionTool(5), "give a function"),
        (lambda: FunctionTool(Chain("c")), "give a function"),
        (lambda: tool(lambda: 1), "called '<lambda>'"),
        (lambda: tool(name="a b")(sphinx), "called 'a b'"),
        (lambda: tool(name="")(sphinx), "called ''"),
        (lambda: tool(name=5)(sphinx), "called 5"),
        (lambda: tool(retries=-1)(sphinx), "retries="),
        (lambda: tool(timeout=0)(sphinx), "timeout="),
        (lambda: FunctionTool(lambda *many: 1, name="x").spec, "plain parameter"),
        (lambda: FunctionTool(lost, name="x").spec, "cannot be read"),
        (lambda: FunctionTool(strange, name="x").spec, "no JSON schema"),
        (lambda: tool(name="x", output_type=Chain)(lambda: 1).spec, "output_type= of tool 'x'"),
        (lambda: RunnerTool(sphinx, "x"), "give a Chain or an Agent"),
        (lambda: RunnerTool(Chain("a b"), "x"), "called 'a b'"),
        (lambda: RunnerTool(Chain("c"), "x", parameters=Chain).spec, "pydantic does not know"),
    ],
)
def test_a_mistake_in_a_tool_is_refused(make, said):
    with pytest.raises(GraphError, match=said):
        make()


def lost(a: Nowhere):  # noqa: F821 - that it is nowhere is the point
    return a


def strange(a: Chain):
    return a


def test_what_a_tool_returns_is_told_as_text():
    assert text_of("plain", "x") == "plain"
    assert text_of(None, "x") == "null"
    assert text_of({"a": [1, dt.date(2026, 1, 2)]}, "x") == '{"a":[1,"2026-01-02"]}'
    assert text_of(Item(1), "x") == '{"body":1}'


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (Item, {"body": 1}, '{"body":1}'),
        (list[dt.date], [dt.date(2026, 1, 2)], '["2026-01-02"]'),
        (str, "plain", "plain"),
        (int, "5", "5"),
    ],
)
def test_what_a_tool_with_an_output_type_returns_is_told_as_that_type(kind, value, told):
    made = tool(name="x", output_type=kind)(lambda: value)
    assert made.call({})(None) == ("ok", told)


@pytest.mark.parametrize(
    ("kind", "value", "said"), [(int, "x", "valid integer"), (Item, 5, "does not fit"), (bytes, b"x", "bytes")]
)
def test_what_does_not_fit_the_output_type_of_a_tool_is_refused(kind, value, said):
    made = tool(name="x", output_type=kind)(lambda: value)
    with pytest.raises(NodeResultError, match=f"tool 'x' returned.*{said}"):
        made.call({})(None)


@pytest.mark.case("S36")
@pytest.mark.parametrize(
    "value", [b"x", bytearray(), [b"x"], {"a": (b"x",)}, {b"x": 1}, Item(b"x"), {1, b"x"}, object(), Item]
)
def test_what_no_model_can_read_is_refused(value):
    with pytest.raises(NodeResultError, match="tool 'x' returned"):
        text_of(value, "tool 'x'")


def test_a_docstring_without_parts_is_all_summary():
    assert documented("") == ("", {})
    assert documented("One\nline.") == ("One line.", {})
    assert documented("Do.\n\nArgs:\n    a: x\n\n    b: y\nother: z") == ("Do.", {"a": "x", "b": "y"})


def test_a_runner_takes_a_text_or_what_its_parameters_say():
    chain = Chain("inner").add_node("n", lambda state: None)
    plain = RunnerTool(chain, "Do it.")
    assert (plain.name, plain.spec.parameters["required"]) == ("inner", ["input"])
    assert plain.problem({"input": 5}).startswith("input: ")
    assert plain.problem([]) == "the arguments are no JSON object"
    typed = RunnerTool(chain, "Do it.", name="other", parameters=Order)
    assert typed.problem({"id": "x"}) is None
    assert typed.taken({"id": "x"}) == {"id": "x", "amount": "1"}


def test_a_partial_and_a_method_are_tools_under_a_name():
    assert FunctionTool(partial(sphinx, b=5), name="add").call({"a": 1})(None) == ("ok", "6")
    assert FunctionTool(Caller().__call__, name="add").problem({"a": 1}) is None
