"""What must hold of an effect: its key, its result, its name, and what its provider is told."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from fastdur.lint import _catalogue as catalogue
from fastdur.lint import _check_nodes as nodes
from fastdur.lint._findings import Finding
from fastdur.lint._graph import Root, place
from fastdur.lint._libraries import INSERT
from fastdur.lint._values import Assigned, Class, Instance, Name, Opaque, Parameter
from fastdur.lint._walk import said, visits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastdur.lint._graph import Graph
    from fastdur.lint._values import Effect, Function, Scope, Value
    from fastdur.lint._walk import Visit


def check(graph: Graph) -> Iterator[Finding]:
    """The findings in all functions under `@idempotent`."""
    for effect in graph.effects:
        options = _options(effect)
        name = _name_of(effect, options)
        root = Root(effect.of, "effect", f"effect {name!r}")
        yield from nodes.in_effect(graph, root)
        yield from _asking(graph, root)
        yield from _in_transaction(graph, root, options)
        yield from _named(effect, options, root)
        yield from _provider(graph, root, options)
        yield from _result(graph, effect, root)
        scope = effect.of.scope.parent
        assert scope is not None
        for option in ("key_fn", "on_unknown"):
            for function in graph.functions_of(options[option], scope) if option in options else ():
                part = Root(function, option, f"{option}= of effect {name!r}")
                yield from _asking(graph, part)
                if option == "key_fn":
                    yield from _changing(graph, part)
        if "key_fn" not in options:
            yield from _key(graph, effect, root)
            yield from _closed_over(graph, effect, root)


def _options(effect: Effect) -> dict[str, ast.expr]:
    said_with = effect.said
    if not isinstance(said_with, ast.Call):
        return {}
    return {keyword.arg: keyword.value for keyword in said_with.keywords if keyword.arg is not None}


def _name_of(effect: Effect, options: dict[str, ast.expr]) -> str:
    given = options.get("name")
    return str(given.value) if isinstance(given, ast.Constant) else effect.of.name


def _asking(graph: Graph, root: Root) -> Iterator[Finding]:
    for visit in visits(graph, root):
        for site in graph.sites(visit.function, visit.env):
            if "fastdur.interrupt" in site.names:
                way = visit.to(site.call, "interrupt")
                text = f"{root.label} asks with interrupt(), which only a node may.{said(way)}"
                yield Finding(visit.at(site.call), "FDL05", text, way)


def _in_transaction(graph: Graph, root: Root, options: dict[str, ast.expr]) -> Iterator[Finding]:
    """Effects inside a transactional one, and `transaction()` outside of all of them."""
    transactional = _is_transactional(options)
    for visit in visits(graph, root):
        for site in graph.sites(visit.function, visit.env):
            way = visit.to(site.call, "")
            if transactional and site.effects:
                text = (
                    f"{root.label} is transactional and calls {site.effects[0].of.name}(), another effect.{said(way)}"
                )
                yield Finding(visit.at(site.call), "FDL05", text, way)
            if not transactional and "fastdur.transaction" in site.names:
                text = f"{root.label} asks for transaction() and is not transactional.{said(way)}"
                yield Finding(visit.at(site.call), "FDL05", text, way)


def _is_transactional(options: dict[str, ast.expr]) -> bool:
    """Whether it is, or may be: what is worked out counts as yes."""
    given = options.get("transactional")
    return given is not None and not (isinstance(given, ast.Constant) and not given.value)


def _changing(graph: Graph, root: Root) -> Iterator[Finding]:
    """A key made of what is different the next time."""
    for visit in visits(graph, root):
        for site in graph.sites(visit.function, visit.env):
            for name in site.names:
                if catalogue.read_kind(name, site.call) is not None:
                    yield _other_key(visit, site.call, nodes.pretty(name))
        for node, scope in visit.function.reads:
            for name in sorted(graph.evaluator.dotted(node, scope)):
                yield _other_key(visit, node, name)


def _other_key(visit: Visit, node: ast.AST, name: str) -> Finding:
    way = visit.to(node, name)
    text = f"{visit.root.label} reads {name}: a replay has another key and runs the body again.{said(way)}"
    return Finding(visit.at(node), "FDL07", text, way)


def _named(effect: Effect, options: dict[str, ast.expr], root: Root) -> Iterator[Finding]:
    function = effect.of
    if "name" in options or (not isinstance(function.node, ast.Lambda) and isinstance(function.outer.node, ast.Module)):
        return
    if isinstance(function.node, ast.Lambda):
        text = "a lambda under @idempotent has no name of its own, so it shares its records with every other one."
    else:
        text = (
            f"{root.label} is made inside {function.outer.name}() without name=, so each one that it makes is the same."
        )
    yield Finding(place(_head(function), function.module), "FDL09", text)


def _head(function: Function) -> ast.AST:
    """What of a function stands for it in a finding: its first line, or the lambda."""
    node = function.node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return node
    length = len("async def " if function.is_async else "def ") + len(node.name)
    return ast.Name(
        id=node.name,
        lineno=node.lineno,
        col_offset=node.col_offset,
        end_lineno=node.lineno,
        end_col_offset=node.col_offset + length,
    )


# -- the provider ------------------------------------------------------------------------------------------------------


_KEYS = {"fastdur.effect_key", "fastdur.execution_id", "fastdur.fence"}
_TOLD = ("idempot", "clienttoken", "client_token", "request_id", "requestid", "deduplication", "dedup")


def _provider(graph: Graph, root: Root, options: dict[str, ast.expr]) -> Iterator[Finding]:
    """A provider that cannot tell a repeat from a second call, where nobody has said what is to become of one."""
    if "on_unknown" in options:
        return
    recorded = (INSERT,) if _is_transactional(options) else ()
    found: list[Finding] = []
    for visit in visits(graph, root):
        if visit.function.module is root.function.module and _tells(visit.function):
            return
        for site in graph.sites(visit.function, visit.env):
            if _KEYS & set(site.names):
                return
            kind = nodes.kind_of(graph, site)
            if kind is not None and kind[0].repeats and kind[0] not in recorded:
                way = visit.to(site.call, kind[1])
                text = f"{root.label} {kind[0].does} ({kind[1]}) without effect_key(): after a crash, again."
                found.append(Finding(visit.at(site.call), "FDL10", text + said(way), way))
    yield from found[:1]


def _tells(function: Function) -> bool:
    """Whether a function hands over a key of its own making: its words say so."""
    for node in (part for top in (*function.parameters(), *function.body) for part in ast.walk(top)):
        match node:
            case ast.Constant(value=str(text)) | ast.Name(id=text) | ast.keyword(arg=str(text)) | ast.arg(arg=text):
                if any(word in text.lower().replace("-", "_") for word in _TOLD):
                    return True
            case _:
                pass
    return False


# -- the key -----------------------------------------------------------------------------------------------------------


def _key(graph: Graph, effect: Effect, root: Root) -> Iterator[Finding]:
    """Parameters that no key can be made of."""
    function = effect.of
    scope = function.scope.parent
    assert scope is not None
    for number, arg in enumerate(function.parameters()):
        (binding,) = (each for each in function.scope.names[arg.arg] if isinstance(each, Parameter))
        if not number and function.owner is not None and function.takes_object("staticmethod", "classmethod"):
            if _is_plain(graph, function.owner):
                text = (
                    f"{root.label} is a method: {arg.arg}, a {function.owner.name}, is part of its key and has no form."
                )
                yield Finding(place(arg, function.module), "FDL06", text)
            continue
        bad = None if arg.annotation is None else _unstorable(graph, arg.annotation, scope)
        if bad is not None:
            text = f"{root.label} has a parameter {arg.arg!r} that no key can be made of: {bad}."
            yield Finding(place(arg, function.module), "FDL06", text)
        if binding.default is not None and _is_mutable(graph, binding.default, scope):
            text = f"{root.label} has a mutable default for {arg.arg!r}: once changed, the same call has another key."
            yield Finding(place(binding.default, function.module), "FDL06", text)


def _is_mutable(graph: Graph, value: ast.expr, scope: Scope) -> bool:
    if isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp):
        return True
    return isinstance(value, ast.Call) and any(
        catalogue.MUTABLE.fullmatch(name) for name in graph.evaluator.dotted(value.func, scope)
    )


def _unstorable(  # noqa: PLR0911 - one case for each way to write a type
    graph: Graph, annotation: ast.expr, scope: Scope
) -> str | None:
    """What in an annotation has no canonical form; None where nothing is known to have none."""
    match annotation:
        case ast.Constant(value=str(text)):
            try:
                return _unstorable(graph, ast.parse(text, mode="eval").body, scope)
            except SyntaxError:
                return None
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _unstorable(graph, left, scope) or _unstorable(graph, right, scope)
        case ast.Subscript(value=of, slice=inner):
            names = graph.evaluator.dotted(of, scope)
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            if names & _SETS and any(graph.evaluator.dotted(_outermost(part), scope) & _UNHASHABLE for part in parts):
                return f"{ast.unparse(annotation)} cannot exist"
            if names & _HOLDERS:
                return next(filter(None, (_unstorable(graph, part, scope) for part in parts)), None)
            return _unstorable(graph, of, scope)
        case _:
            pass
    for value in graph.evaluator.annotated(annotation, scope):
        if _has_no_form(graph, value):
            return f"{ast.unparse(annotation)} has no form that is the same in another process"
    return None


_SETS = {"builtins.set", "builtins.frozenset", "typing.Set", "typing.FrozenSet"}
_UNHASHABLE = {"builtins.dict", "builtins.list", "builtins.set", "typing.Dict", "typing.List", "typing.Set"}
_HOLDERS = {
    "builtins.dict",
    "builtins.list",
    "builtins.tuple",
    *_SETS,
    *(f"typing.{name}" for name in ("Annotated", "Dict", "List", "Optional", "Sequence", "Tuple", "Union", "Mapping")),
    "typing.Iterable",
    *(f"collections.abc.{name}" for name in ("Iterable", "Mapping", "Sequence", "Collection")),
}


def _outermost(annotation: ast.expr) -> ast.expr:
    return annotation.value if isinstance(annotation, ast.Subscript) else annotation


def _has_no_form(graph: Graph, value: Value) -> bool:
    if isinstance(value, Name):
        return catalogue.UNSTORABLE.fullmatch(value.dotted) is not None
    return isinstance(value, Instance) and _is_plain(graph, value.of)


def _is_plain(graph: Graph, cls: Class, seen: tuple[Class, ...] = ()) -> bool:
    """Whether a class of the user's has no fields for a key to be made of: no dataclass, model, enum or the like."""
    if cls.node.decorator_list or cls.node.keywords or cls.scope.parent is None or cls in seen:
        return False
    for base in cls.node.bases:
        values = graph.evaluator.values(base, cls.scope.parent)
        if not values or not all(_is_plain_base(graph, value, (*seen, cls)) for value in values):
            return False
    return True


def _is_plain_base(graph: Graph, value: Value, seen: tuple[Class, ...]) -> bool:
    match value:
        case Name(dotted=dotted):
            return dotted in catalogue.PLAIN_BASES
        case Class():
            return _is_plain(graph, value, seen)
        case _:
            pass
    return False


def _result(graph: Graph, effect: Effect, root: Root) -> Iterator[Finding]:
    """A result that cannot be stored."""
    function = effect.of
    outside = function.scope.parent
    annotation: ast.expr | None = getattr(function.node, "returns", None)
    assert outside is not None
    bad = _unstorable(graph, annotation, outside) if annotation is not None else None
    if annotation is not None and bad is not None:
        text = f"{root.label} returns what cannot be stored: {bad}."
        yield Finding(place(annotation, function.module), "FDL06", text)
        return
    for value, scope in function.returns:
        names = [name for name in sorted(graph.evaluator.dotted(value, scope)) if catalogue.UNSTORABLE.fullmatch(name)]
        if names:
            text = f"{root.label} returns the result of {nodes.pretty(names[0])}, which cannot be stored."
            yield Finding(place(value, function.module), "FDL06", text)


def _closed_over(graph: Graph, effect: Effect, root: Root) -> Iterator[Finding]:
    """A value of the node that an effect made inside the node uses without being given it."""
    function = effect.of
    if function.outer not in graph.running:
        return
    for node in (part for top in function.body for part in ast.walk(top)):
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            continue
        home = function.scope.home_of(node.id)
        if home is None or home.kind == "class" or home.function not in graph.running or home.function is function:
            continue
        bindings = home.names.get(node.id, ())
        is_value = all(isinstance(each, Parameter | Assigned | Opaque) for each in bindings)
        if is_value and not graph.evaluator.lookup(node.id, function.scope):
            text = f"{root.label} uses {node.id!r} of {home.function.name}(), which is not part of its key."
            yield Finding(place(node, function.module), "FDL08", text)
            return
