"""What must not be done in a node, in a route, and in what they call."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from fastdur.lint import _catalogue as catalogue
from fastdur.lint._findings import Finding
from fastdur.lint._graph import effect_of
from fastdur.lint._libraries import DECLARED
from fastdur.lint._order import own_nodes
from fastdur.lint._values import Assigned, Carried, Function, Parameter, Text
from fastdur.lint._walk import is_followed, said, visits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastdur.lint._evaluate import Evaluator
    from fastdur.lint._graph import Graph, Root, Site
    from fastdur.lint._libraries import Kind
    from fastdur.lint._values import Scope
    from fastdur.lint._walk import Visit


def check(graph: Graph) -> Iterator[Finding]:
    """The findings in everything that the engine calls outside of effects."""
    for root in graph.roots:
        for visit in visits(graph, root):
            for site in graph.sites(visit.function, visit.env):
                yield from _effects(graph, visit, site)
                yield from _reads(graph, visit, site)
                yield from _misplaced(visit, site)
                yield from threads(graph, visit, site)
                yield from not_awaited(graph, visit, site)
                yield from _mutations(graph, visit, site)
            yield from _environment(graph, visit)
            yield from _assignments(graph, visit)


# -- effects and reads -------------------------------------------------------------------------------------------------


def kind_of(graph: Graph, site: Site) -> tuple[Kind, str] | None:
    """Which kind of effect a call is, and how it is called in a message."""
    declared = graph.declared_effect(site)
    if declared is not None:
        return DECLARED, declared
    for name in site.names:
        kind = catalogue.effect_kind(name, site.call, graph.methods(site, name))
        if kind is not None:
            return kind, pretty(name)
    if isinstance(site.call.func, ast.Attribute) and site.call.func.attr in catalogue.EXECUTES and site.call.args:
        statement = site.call.args[0]
        followed = graph.evaluator.values(statement, site.scope, site.env)
        texts = sorted(each.text for each in followed if isinstance(each, Text))
        for text in texts or _texts(statement, site.scope):
            kind = catalogue.sql_kind(text)
            if kind is not None:
                return kind, f".{site.call.func.attr}({' '.join(text.split()[:3])} ...)"
    return None


def _texts(value: ast.expr, scope: Scope) -> list[str]:  # noqa: PLR0911 - one case for each way to write one
    """The texts that an expression may stand for, as far as they are written down."""
    match value:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            return ["".join(str(part.value) if isinstance(part, ast.Constant) else "?" for part in parts)]
        case ast.Call(args=[first, *_]):  # sqlalchemy.text("..."), sql.SQL("...").format(...)
            return _texts(first, scope) or _texts(value.func, scope)
        case ast.Attribute(value=inner):
            return _texts(inner, scope)
        case ast.Call(func=ast.Attribute(value=inner)):
            return _texts(inner, scope)
        case ast.BinOp(left=left):
            return _texts(left, scope)
        case ast.Name(id=name):
            home = scope.home_of(name)
            bindings = home.names.get(name, ()) if home is not None else ()
            return [
                text
                for each in bindings
                if isinstance(each, Assigned) and isinstance(each.value, ast.Constant | ast.JoinedStr)
                for text in _texts(each.value, each.scope)
            ]
        case _:
            pass
    return []


def pretty(dotted: str) -> str:
    """A dotted name as users write it."""
    return dotted.replace("()", "").removeprefix("builtins.")


def _effects(graph: Graph, visit: Visit, site: Site) -> Iterator[Finding]:
    found = kind_of(graph, site)
    if found is None:
        return
    kind, name = found
    way = visit.to(site.call, name)
    if is_followed(graph, visit, site):
        code, text = "FDL01", "before it asks with interrupt(), so again when the answer comes"
    else:
        code, text = "FDL02", "outside of @idempotent, so again after a crash"
    yield Finding(visit.at(site.call), code, f"{visit.root.label} {kind.does} ({name}) {text}.{said(way)}", way)


def _reads(graph: Graph, visit: Visit, site: Site) -> Iterator[Finding]:
    for name in site.names:
        what = catalogue.read_kind(name, site.call, graph.methods(site, name))
        if what is None or _only_logged(site.call, site.scope) or _is_own_dice(graph.evaluator, name, site):
            continue
        if visit.root.kind == "tool" and not is_followed(graph, visit, site):
            continue  # looking is what tools are for: what one saw before a crash, nobody was told
        way = visit.to(site.call, pretty(name))
        text = f"{visit.root.label} reads {what} ({pretty(name)}), which is different when it runs again.{said(way)}"
        yield Finding(visit.at(site.call), "FDL03", text, way)


def _environment(graph: Graph, visit: Visit) -> Iterator[Finding]:
    """What is read without a call: `os.environ["X"]`."""
    if visit.root.kind == "tool" and not graph.asks(visit.root.function):
        return
    for node, scope in visit.function.reads:
        for name in sorted(graph.evaluator.dotted(node, scope)):
            if catalogue.read_kind(name, None) is not None and not _only_logged(node, scope):
                way = visit.to(node, name)
                text = f"{visit.root.label} reads the environment ({name}), which may be another when it runs again."
                yield Finding(visit.at(node), "FDL03", text + said(way), way)


def _only_logged(node: ast.AST, scope: Scope) -> bool:
    """Whether a value goes into a log, or onto the screen, and nowhere else."""
    parents = scope.module.parents
    above = parents.get(node)
    while isinstance(above, ast.expr | ast.keyword | ast.FormattedValue):
        if isinstance(above, ast.Call):
            called = above.func
            name = (
                called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
            )
            if name in catalogue.SAYING:
                return True
        above = parents.get(above)
    return False


def _is_own_dice(evaluator: Evaluator, name: str, site: Site) -> bool:
    """Whether these dice were made here with a seed: then they fall the same way each time."""
    func = site.call.func
    if not name.startswith("random.Random().") or not isinstance(func, ast.Attribute):
        return False
    made = [func.value]
    if isinstance(func.value, ast.Name):
        home = site.scope.home_of(func.value.id)
        if home is None or home.function is not site.scope.function:
            return False
        made = [each.value for each in home.names[func.value.id] if isinstance(each, Assigned)]
    return all(
        isinstance(each, ast.Call) and each.args and "random.Random" in evaluator.dotted(each.func, site.scope)
        for each in made
    )


def _misplaced(visit: Visit, site: Site) -> Iterator[Finding]:
    way = visit.to(site.call, "")
    if "fastdur.interrupt" in site.names and visit.root.kind in ("route", "input"):
        text = f"{visit.root.label} asks with interrupt(), which only a node may.{said(way)}"
        yield Finding(visit.at(site.call), "FDL05", text, way)
    for name, place in (("effect_key", "an effect"), ("transaction", "a transactional effect")):
        if f"fastdur.{name}" in site.names:
            text = f"{visit.root.label} asks for {name}() outside of {place}.{said(way)}"
            yield Finding(visit.at(site.call), "FDL05", text, way)


# -- threads and tasks -------------------------------------------------------------------------------------------------


def threads(graph: Graph, visit: Visit, site: Site) -> Iterator[Finding]:
    """Functions that need to know their run and are handed to a thread that does not."""
    in_process = next((name for name in site.names if catalogue.PROCESSES.fullmatch(name)), None)
    in_thread = next((name for name in site.names if catalogue.THREADS.fullmatch(name)), None)
    if in_thread is None and isinstance(site.call.func, ast.Attribute) and site.call.func.attr == "run_in_executor":
        in_thread = "run_in_executor"
    if in_thread is None and in_process is None:
        return
    for value in (*site.call.args, *(keyword.value for keyword in site.call.keywords)):
        lost = _lost(graph, value, site, carried=in_process is None)
        if lost:
            where = pretty(in_process or in_thread or "")
            kind = "another process" if in_process else "a thread"
            way = visit.to(site.call, where)
            text = f"{visit.root.label} hands {lost} to {kind} ({where}) that does not know the run.{said(way)}"
            given = isinstance(value, ast.Name) and _is_parameter(visit, value, site.scope)
            yield Finding(visit.way[-1].place if given else visit.at(site.call), "FDL14", text, way)


def _is_parameter(visit: Visit, name: ast.Name, scope: Scope) -> bool:
    """Whether the function was handed what the name stands for: then whoever handed it over is to blame."""
    home = scope.home_of(name.id)
    bindings = home.names.get(name.id, ()) if home is not None else ()
    handed = any(isinstance(each, Parameter) and each.of is visit.function for each in bindings)
    return handed and visit.anchor is None and len(visit.way) > 1


def _lost(graph: Graph, value: ast.expr, site: Site, *, carried: bool) -> str:
    """The name of a function that needs its run and would not know it."""
    for each in graph.evaluator.values(value, site.scope, site.env):
        if isinstance(each, Carried) and carried:
            continue
        target = graph.evaluator.target(each)
        if target is not None and (effect_of(each) or graph.needs_run(target[0])):
            name = target[0].name
            return "a lambda that needs its run" if name == "<lambda>" else f"{name}()"
    return ""


_USED = (ast.Attribute, ast.Subscript, ast.Dict, ast.BinOp, ast.Compare, ast.FormattedValue)


def not_awaited(graph: Graph, visit: Visit, site: Site) -> Iterator[Finding]:
    """Coroutines and tasks that are let go."""
    above = site.scope.module.parents.get(site.call)
    needing = [effect.of for effect in site.effects if effect.of.is_async]
    needing += [each for each, _ in site.functions if each.is_async and not each.is_generator and graph.needs_run(each)]
    way = visit.to(site.call, "")
    if {"asyncio.create_task", "asyncio.ensure_future"} & set(site.names) and isinstance(above, ast.Expr):
        inner = [each for each in site.call.args if isinstance(each, ast.Call)]
        made = {each.call: each for each in graph.sites(visit.function, visit.env)}
        for call in inner:
            name = next((each.name for each in _async_of(graph, made[call])), None)
            if name is not None:
                text = f"{visit.root.label} starts a task of {name}() and does not await it.{said(way)}"
                yield Finding(visit.at(site.call), "FDL11", text, way)
    elif needing and _called_directly(site) and isinstance(above, (ast.Expr, *_USED)):
        text = f"{visit.root.label} calls {needing[0].name}(), which is async, and does not await it.{said(way)}"
        yield Finding(visit.at(site.call), "FDL11", text, way)


def _async_of(graph: Graph, site: Site) -> list[Function]:
    found = [effect.of for effect in site.effects if effect.of.is_async]
    return found + [each for each, _ in site.functions if each.is_async and graph.needs_run(each)]


def _called_directly(site: Site) -> bool:
    """Whether the functions of a call are what it calls, not what it hands over."""
    return not site.names


# -- state -------------------------------------------------------------------------------------------------------------


def _mutations(graph: Graph, visit: Visit, site: Site) -> Iterator[Finding]:
    """`SEEN.append(x)`, `next(counter)` on what lives outside."""
    func = site.call.func
    match func:
        case ast.Attribute(value=ast.Name() as base, attr=method) if method in catalogue.MUTATORS:
            changed = base
        case ast.Name() if "builtins.next" in site.names and site.call.args and isinstance(site.call.args[0], ast.Name):
            changed = site.call.args[0]
        case _:
            return
    if _lives_outside(graph, changed, site.scope):
        yield _outside(visit, site.call, changed.id)


def _assignments(graph: Graph, visit: Visit) -> Iterator[Finding]:
    """`global n; n += 1`, `CACHE[k] = v`, `self.count += 1` in a node."""
    node = visit.function.node
    if isinstance(node, ast.Lambda | ast.Module):
        return
    scope = visit.function.scope
    for each in (part for statement in node.body for part in own_nodes(statement)):
        match each:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) if _is_kept(graph, name, scope):
                yield _outside(visit, each, name)
            case ast.Subscript(value=ast.Name() as base, ctx=ast.Store() | ast.Del()) if _lives_outside(
                graph, base, scope
            ):
                yield _outside(visit, each, base.id)
            case ast.Attribute(value=ast.Name(id=name), attr=attr, ctx=ast.Store()) if _is_self(visit, name):
                yield _outside(visit, each, f"{name}.{attr}")
            case _:
                pass


def _is_kept(graph: Graph, name: str, scope: Scope) -> bool:
    """Whether a name that is assigned to outlives the node: `global`, or `nonlocal` of what is no node itself."""
    home = scope.elsewhere.get(name)
    return home is not None and home.function not in graph.running


def _is_self(visit: Visit, name: str) -> bool:
    function = visit.function
    if function is not visit.root.function or function.owner is None:
        return False
    return [arg.arg for arg in function.parameters()[:1]] == [name]


def _lives_outside(graph: Graph, base: ast.Name, scope: Scope) -> bool:
    """Whether a name stands for a list, dict, set or counter of the module, or of a function around the node."""
    home = scope.home_of(base.id)
    if home is None or home.kind == "comprehension" or home.function in graph.running:
        return False
    return any(
        isinstance(each, Assigned) and not each.item and _is_mutable(graph.evaluator, each.value, each.scope)
        for each in home.names.get(base.id, ())
    )


def _is_mutable(evaluator: Evaluator, value: ast.expr, scope: Scope) -> bool:
    match value:
        case ast.List() | ast.Dict() | ast.Set() | ast.ListComp() | ast.DictComp() | ast.SetComp() | ast.GeneratorExp():
            return True
        case ast.Call(func=func):
            return any(catalogue.MUTABLE.fullmatch(name) for name in evaluator.dotted(func, scope)) or any(
                isinstance(each, Function) and each.is_generator for each in evaluator.values(func, scope)
            )
        case _:
            pass
    return False


def _outside(visit: Visit, node: ast.AST, name: str) -> Finding:
    way = visit.to(node, name)
    text = f"{visit.root.label} changes {name}, which lives in this process and not in the state.{said(way)}"
    return Finding(visit.at(node), "FDL12", text, way)


def in_effect(graph: Graph, root: Root) -> Iterator[Finding]:
    """What holds in the body of an effect too."""
    for visit in visits(graph, root):
        for site in graph.sites(visit.function, visit.env):
            yield from threads(graph, visit, site)
            yield from not_awaited(graph, visit, site)
