"""Which calls of a function may be followed by a question in the same pass."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_APART = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, slots=True)
class _Flow:
    """Whether a question may follow once control leaves in each of these ways."""

    returned: bool = False
    raised: bool = False
    broken: bool = False
    continued: bool = False


class Order:
    """Walks a function backwards. `asks` tells whether a call may ask a question, itself or in what it calls."""

    def __init__(self, body: Sequence[ast.stmt] | ast.expr, asks: Callable[[ast.Call], bool]) -> None:
        self._asks = asks
        self.followed: set[ast.Call] = set()
        """The calls after which a question may come."""
        if isinstance(body, ast.expr):
            self._expression(body, later=False, flow=_Flow())
        else:
            self._block(body, later=False, flow=_Flow())

    def _block(self, body: Sequence[ast.stmt], *, later: bool, flow: _Flow) -> bool:
        for statement in reversed(body):
            later = self._statement(statement, flow, later=later)
        return later

    def _statement(  # noqa: C901, PLR0911 - one case for each kind of statement
        self, node: ast.stmt, flow: _Flow, *, later: bool
    ) -> bool:
        match node:
            case ast.Return(value=value):
                return flow.returned if value is None else self._expression(value, later=flow.returned, flow=flow)
            case ast.Raise():
                return self._parts(node, later=flow.raised, flow=flow)
            case ast.Break():
                return flow.broken
            case ast.Continue():
                return flow.continued
            case ast.If(test=test, body=body, orelse=orelse):
                ways = self._block(body, later=later, flow=flow), self._block(orelse, later=later, flow=flow)
                return self._expression(test, later=any(ways), flow=flow)
            case (
                ast.While(test=head, body=body, orelse=orelse)
                | ast.For(iter=head, body=body, orelse=orelse)
                | (ast.AsyncFor(iter=head, body=body, orelse=orelse))
            ):
                after = self._block(orelse, later=later, flow=flow)
                again = after or self._any_asks(*body)
                inside = replace(flow, broken=later, continued=again)
                return self._expression(head, later=self._block(body, later=again, flow=inside) or after, flow=flow)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                later = self._block(body, later=later, flow=flow)
                for item in reversed(items):
                    later = self._expression(item.context_expr, later=later, flow=flow)
                return later
            case ast.Try() | ast.TryStar():
                return self._try(node, flow, later=later)
            case ast.Match(subject=subject, cases=cases):
                taken = [self._block(case.body, later=later, flow=flow) for case in cases]
                return self._expression(subject, later=later or any(taken), flow=flow)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return later
            case _:
                pass
        return self._parts(node, later=later, flow=flow)

    def _try(self, node: ast.Try | ast.TryStar, flow: _Flow, *, later: bool) -> bool:
        finally_asks = self._any_asks(*node.finalbody)
        after = self._block(node.finalbody, later=later, flow=flow)
        outside = _Flow(*(way or finally_asks for way in (flow.returned, flow.raised, flow.broken, flow.continued)))
        caught = [self._block(handler.body, later=after, flow=outside) for handler in node.handlers]
        start = self._block(node.orelse, later=after, flow=outside)
        return self._block(node.body, later=start, flow=replace(outside, raised=outside.raised or any(caught)))

    def _parts(self, node: ast.AST, *, later: bool, flow: _Flow) -> bool:
        for child in reversed(list(ast.iter_child_nodes(node))):
            later = self._expression(child, later=later, flow=flow)
        return later

    def _expression(self, node: ast.AST, *, later: bool, flow: _Flow) -> bool:
        if isinstance(node, _APART):
            return later
        if isinstance(node, _COMPREHENSIONS) and self._any_asks(node):
            later = True  # the next turn may ask
        if isinstance(node, ast.Call):
            if later or flow.raised:
                self.followed.add(node)
            later = later or self._asks(node)
        return self._parts(node, later=later, flow=flow)

    def _any_asks(self, *nodes: ast.AST) -> bool:
        return any(isinstance(each, ast.Call) and self._asks(each) for node in nodes for each in own_nodes(node))


def own_nodes(node: ast.AST) -> list[ast.AST]:
    """A node and all below it that runs with it: not the functions that are defined there."""
    if isinstance(node, _APART):
        return []
    return [node, *(each for child in ast.iter_child_nodes(node) for each in own_nodes(child))]
