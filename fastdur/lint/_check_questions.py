"""What must hold around `interrupt()`: the pause gets through, and questions keep their order."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from fastdur.lint import _catalogue as catalogue
from fastdur.lint._findings import Finding
from fastdur.lint._graph import place
from fastdur.lint._order import own_nodes
from fastdur.lint._values import Assigned

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fastdur.lint._graph import Graph, Site
    from fastdur.lint._values import Function, Scope

_ALL = {"builtins.BaseException", "fastdur.InterruptSignal"}


def check(graph: Graph) -> Iterator[Finding]:
    """The findings in every function that may ask."""
    for module in graph.modules:
        for function in module.functions:
            if graph.asks(function):
                yield from _in_function(graph, function)


def _in_function(graph: Graph, function: Function) -> Iterator[Finding]:
    sites = {site.call: site for site in graph.sites(function)}
    for node in (part for top in function.body for part in own_nodes(top)):
        match node:
            case ast.Try() | ast.TryStar():
                yield from _tried(graph, function, node, _asked(graph, sites, node.body))
            case ast.With() | ast.AsyncWith():
                yield from _suppressed(graph, function, node, _asked(graph, sites, node.body))
            case ast.Call() if node in sites and "asyncio.gather" in sites[node].names:
                yield from _gathered(function, node, _asked(graph, sites, node.args))
            case ast.For(iter=order, body=inner):
                yield from _unordered(graph, function, order, function.scope, _asked(graph, sites, inner))
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                scope = function.module.scopes[node]
                for part in node.generators:
                    yield from _unordered(graph, function, part.iter, scope, _asked(graph, sites, [node]))
            case _:
                pass


def _asked(graph: Graph, sites: dict[ast.Call, Site], nodes: Sequence[ast.AST]) -> str:
    """The first call below some nodes that may ask, as it is written; empty for none."""
    calls = (part for top in nodes for part in own_nodes(top) if isinstance(part, ast.Call))
    return next((_written(call) for call in calls if call in sites and graph.site_asks(sites[call])), "")


def _written(call: ast.Call) -> str:
    return f"{ast.unparse(call.func)}()"


def _found(function: Function, node: ast.AST, code: str, text: str) -> Finding:
    return Finding(place(node, function.module), code, text)


# -- the pause ---------------------------------------------------------------------------------------------------------


def _tried(graph: Graph, function: Function, node: ast.Try | ast.TryStar, asked: str) -> Iterator[Finding]:
    if not asked:
        return
    for handler in node.handlers:
        if not _catches_all(graph, handler.type, function.scope):
            continue
        if not _raises_again(handler):
            how = "except:" if handler.type is None else f"except {ast.unparse(handler.type)}:"
            text = f"{how!r} in {function.name}() catches the pause of {asked} and does not raise it again."
            yield _found(function, _line_of(handler), "FDL04", text)
        return  # what comes after it catches no pause any more
    for statement in (part for top in node.finalbody for part in own_nodes(top)):
        if isinstance(statement, ast.Return):
            text = f"return in the finally: of {function.name}() drops the pause of {asked}."
            yield _found(function, statement, "FDL04", text)


def _catches_all(graph: Graph, kind: ast.expr | None, scope: Scope) -> bool:
    if kind is None:
        return True
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(graph.evaluator.dotted(each, scope) & _ALL for each in kinds)


def _raises_again(handler: ast.ExceptHandler) -> bool:
    """Whether the handler raises what it caught, on some way: which way is more than the source tells."""
    raised = [part for top in handler.body for part in own_nodes(top) if isinstance(part, ast.Raise)]
    return any(each.exc is None or (isinstance(each.exc, ast.Name) and each.exc.id == handler.name) for each in raised)


def _line_of(handler: ast.ExceptHandler) -> ast.AST:
    end = handler.type or handler
    column = handler.col_offset + len("except") if handler.type is None else end.end_col_offset
    return ast.Name(
        id="except",
        lineno=handler.lineno,
        col_offset=handler.col_offset,
        end_lineno=handler.lineno if handler.type is None else end.end_lineno,
        end_col_offset=column,
    )


def _suppressed(graph: Graph, function: Function, node: ast.With | ast.AsyncWith, asked: str) -> Iterator[Finding]:
    for item in node.items if asked else ():
        match item.context_expr:
            case ast.Call(func=func, args=kinds) if "contextlib.suppress" in graph.evaluator.dotted(
                func, function.scope
            ):
                if any(_catches_all(graph, kind, function.scope) for kind in kinds):
                    text = f"suppress() in {function.name}() swallows the pause of {asked}."
                    yield _found(function, item.context_expr, "FDL04", text)
            case _:
                pass


def _gathered(function: Function, call: ast.Call, asked: str) -> Iterator[Finding]:
    kept = next((each.value for each in call.keywords if each.arg == "return_exceptions"), None)
    if asked and isinstance(kept, ast.Constant) and kept.value:
        text = f"gather(return_exceptions=True) in {function.name}() makes a value of the pause of {asked}."
        yield _found(function, call, "FDL04", text)


# -- the order ---------------------------------------------------------------------------------------------------------


def _unordered(graph: Graph, function: Function, order: ast.expr, scope: Scope, asked: str) -> Iterator[Finding]:
    if asked and _has_no_order(graph, order, scope):
        text = f"{function.name}() asks ({asked}) in the order of {ast.unparse(order)}, which is not always the same."
        yield _found(function, order, "FDL13", text)


def _has_no_order(graph: Graph, value: ast.expr, scope: Scope) -> bool:
    match value:
        case ast.Set() | ast.SetComp():
            return True
        case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor(), right=right):
            return _has_no_order(graph, left, scope) or _has_no_order(graph, right, scope)
        case ast.Call(func=func, args=args):
            names = graph.evaluator.dotted(func, scope)
            if any(catalogue.UNORDERED.fullmatch(name) for name in names):
                return True
            kept = names & {
                "builtins.list",
                "builtins.tuple",
                "builtins.enumerate",
                "builtins.iter",
                "builtins.reversed",
            }
            return bool(kept and args) and _has_no_order(graph, args[0], scope)
        case ast.Name(id=name):
            home = scope.home_of(name)
            bindings = home.names.get(name, ()) if home is not None else ()
            return bool(bindings) and all(
                isinstance(each, Assigned) and not each.item and _has_no_order(graph, each.value, each.scope)
                for each in bindings
            )
        case _:
            pass
    return False
