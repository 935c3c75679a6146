"""Who calls whom: the nodes and effects of the linted files, and what is reached from them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastdur.lint import _catalogue as catalogue
from fastdur.lint._findings import Place
from fastdur.lint._names import items, union
from fastdur.lint._order import Order
from fastdur.lint._values import (
    NOTHING,
    Bound,
    Carried,
    Effect,
    Function,
    Imported,
    Items,
    Module,
    Name,
    Scope,
    Text,
    Value,
    Values,
)

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from fastdur.lint._evaluate import Evaluator
    from fastdur.lint._values import Env

_DEEPEST = 40


@dataclass(frozen=True, slots=True)
class Root:
    """A function that the engine calls inside a run: a node, a route, a function that makes an input, a tool."""

    function: Function
    kind: str
    label: str


@dataclass(eq=False, slots=True)
class Site:
    """One call, and what it may run."""

    call: ast.Call
    scope: Scope
    names: list[str]
    """What it calls outside of the linted files."""
    functions: list[tuple[Function, Env]]
    effects: list[Effect]
    env: Env


class Graph:
    """The calls of the linted files."""

    def __init__(
        self, evaluator: Evaluator, effects: re.Pattern[str] | None, decorators: re.Pattern[str] | None
    ) -> None:
        self.evaluator = evaluator
        self._extra_effects = effects
        self._extra_nodes = decorators
        self._sites: dict[tuple[Function, Env], list[Site]] = {}
        self._asks: dict[tuple[Function, Env], bool] = {}
        self._needs: dict[Function, bool] = {}
        self._orders: dict[tuple[Function, Env], Order] = {}
        self.modules = list(evaluator.modules)
        self.effects = self._find_effects()
        self._bodies = {effect.of for effect in self.effects}
        self.roots = self._find_roots()
        self.running = self._running()
        """The functions that may run inside a node, outside of every effect."""
        self._recorded = self._in_effects()

    # -- what there is -------------------------------------------------------------------------------------------------

    def _every_call(self) -> list[tuple[Function, ast.Call, Scope]]:
        return [
            (function, call, scope)
            for module in self.modules
            for function in (module.body, *module.functions)
            for call, scope in function.calls
        ]

    def _find_effects(self) -> list[Effect]:
        found: dict[Function, Effect] = {}
        for module in self.modules:
            for function in module.functions:
                if not isinstance(function.node, ast.Lambda):
                    for value in self.evaluator.decorated(function):
                        if isinstance(value, Effect):
                            found.setdefault(value.of, value)
        for _, call, scope in self._every_call():
            if self.evaluator.dotted(call.func, scope) & {"fastdur.idempotent", "fastdur.idempotent()"}:
                for value in self.evaluator.values(call, scope):
                    if isinstance(value, Effect):
                        found.setdefault(value.of, value)
        return list(found.values())

    def _find_roots(self) -> list[Root]:
        roots: dict[Function, Root] = {}
        for root in (
            *self._in_chains(),
            *self._decorated_tools(),
            *self._in_agents(),
            *self._declared(),
            *self._asking(),
        ):
            roots.setdefault(root.function, root)
        return list(roots.values())

    def _in_chains(self) -> Iterator[Root]:
        for _, call, scope in self._every_call():
            for dotted in self.evaluator.dotted(call.func, scope):
                for kind, label, value in _handed_to_chain(dotted, call):
                    yield from (Root(each, kind, label) for each in self.functions_of(value, scope))

    def _decorated_tools(self) -> Iterator[Root]:
        for function in (function for module in self.modules for function in module.functions):
            node, outside = function.node, function.scope.parent
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and outside is not None:
                names = {name for each in node.decorator_list for name in self.evaluator.dotted(each, outside)}
                if names & {"fastdur.tool", "fastdur.tool()"}:
                    yield Root(function, "tool", f"tool {function.name!r}")

    def _in_agents(self) -> Iterator[Root]:
        """What agents, supervisors and the makers of tools are given."""
        for _, call, scope in self._every_call():
            for dotted in self.evaluator.dotted(call.func, scope):
                value = _handed_to_agent(dotted, call)
                if value is not None:
                    inside = union(items(each) or frozenset({each}) for each in self.evaluator.values(value, scope))
                    yield from (Root(each, "tool", f"tool {each.name!r}") for each in self._functions_in(inside))

    def _declared(self) -> Iterator[Root]:
        functions = (function for module in self.modules for function in module.functions)
        yield from (Root(each, "node", f"node {each.name!r}") for each in functions if self._is_declared(each))

    def _asking(self) -> Iterator[Root]:
        """What asks and is no node as far as is known; a test asks to see what comes of it."""
        for function in (function for module in self.modules for function in module.functions):
            if self._is_asking(function) and not function.name.startswith("test"):
                yield Root(function, "asking", f"{function.name}(), which asks,")

    def _is_declared(self, function: Function) -> bool:
        node, outside = function.node, function.scope.parent
        if self._extra_nodes is None or isinstance(node, ast.Lambda | ast.Module) or outside is None:
            return False
        calls = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
        return any(self._extra_nodes.fullmatch(self.written(each, outside)) for each in calls)

    def _is_asking(self, function: Function) -> bool:
        if function in self._bodies:
            return False
        return any("fastdur.interrupt" in self.evaluator.dotted(call.func, scope) for call, scope in function.calls)

    def functions_of(self, expression: ast.expr, scope: Scope) -> list[Function]:
        """The functions that an expression may stand for; effects are none, they are recorded."""
        return self._functions_in(self.evaluator.values(expression, scope))

    def _functions_in(self, values: Values) -> list[Function]:
        found: list[Function] = []
        for value in values:
            target = None if effect_of(value) else self.evaluator.target(value)
            if target is not None and target[0] not in found:
                found.append(target[0])
        return sorted(found, key=lambda each: (each.module.shown, place(each.node, each.module).line))

    def written(self, expression: ast.expr, scope: Scope) -> str:
        """A dotted name as the imports of the file write it: `mylib.send`; empty for anything else."""
        match expression:
            case ast.Name(id=name):
                home = scope.home_of(name)
                for binding in home.names[name] if home is not None and name in home.names else ():
                    if isinstance(binding, Imported) and not binding.level:
                        return binding.module if binding.name is None else f"{binding.module}.{binding.name}"
                return ""
            case ast.Attribute(value=base, attr=attr):
                before = self.written(base, scope)
                return f"{before}.{attr}" if before else ""
            case _:
                pass
        return ""

    # -- what is called ------------------------------------------------------------------------------------------------

    def sites(self, function: Function, env: Env = None) -> list[Site]:
        """The calls that a function makes itself, in the order of the source."""
        key = function, env
        if key not in self._sites:
            self._sites[key] = [self._site(call, scope, env) for call, scope in function.calls]
        return self._sites[key]

    def _site(self, call: ast.Call, scope: Scope, env: Env) -> Site:
        site = Site(call, scope, [], [], [], env)
        callees = self.evaluator.values(call.func, scope, env)
        for callee in sorted(callees, key=_order_of):
            if isinstance(callee, Name):
                site.names.append(callee.dotted)
            self._run_by(site, callee, env)
        if not site.functions and not site.effects and not any(name.startswith("fastdur.") for name in site.names):
            for handed in sorted(self._handed(call, scope, env), key=_order_of):
                self._run_by(site, handed, None, called=False)
        return site

    def _run_by(self, site: Site, value: Value, env: Env, *, called: bool = True) -> None:
        effect = effect_of(value)
        if effect is not None:
            site.effects.append(effect)
            return
        target = self.evaluator.target(value)
        if target is not None:
            function, skipped = target
            inner = self.evaluator.env(site.call, site.scope, function, skipped, env) if called else None
            site.functions.append((function, inner))

    def _handed(self, call: ast.Call, scope: Scope, env: Env) -> Values:
        """The functions that a call of something unknown is given: it is taken to call them."""
        found: Values = NOTHING
        for value in (*call.args, *(keyword.value for keyword in call.keywords)):
            found |= self.evaluator.values(value, scope, env)
        return frozenset(value for value in found if isinstance(value, Function | Bound | Effect | Carried))

    def declared_effect(self, site: Site) -> str | None:
        """The name under which the configuration calls this an effect."""
        if self._extra_effects is None:
            return None
        own = [_dotted(function) for function, _ in site.functions]
        for name in (self.written(site.call.func, site.scope), *site.names, *own):
            if self._extra_effects.fullmatch(name):
                return name
        return None

    def methods(self, site: Site, dotted: str) -> frozenset[str]:
        """The methods that a request may have, as far as they are written down."""
        said = catalogue.method_of(dotted, site.call)
        values = NOTHING if said is None else self.evaluator.values(said, site.scope, site.env)
        return frozenset(value.text.upper() for value in values if isinstance(value, Text))

    # -- questions -----------------------------------------------------------------------------------------------------

    def asks(self, function: Function, env: Env = None, depth: int = 0) -> bool:
        """Whether a call of the function may reach `interrupt()`; what an effect does is not the node's."""
        key = function, env
        if key not in self._asks:
            if depth > _DEEPEST:
                return False
            self._asks[key] = False
            self._asks[key] = any(self.site_asks(site, depth) for site in self.sites(function, env))
        return self._asks[key]

    def site_asks(self, site: Site, depth: int = 0) -> bool:
        """Whether this call may reach `interrupt()`."""
        return "fastdur.interrupt" in site.names or any(
            self.asks(function, inner, depth + 1) for function, inner in site.functions
        )

    def followed(self, function: Function, env: Env = None) -> set[ast.Call]:
        """The calls of a function after which, in the same pass, a question may come."""
        key = function, env
        if key not in self._orders:
            asking = {site.call for site in self.sites(function, env) if self.site_asks(site)}
            node = function.node
            self._orders[key] = Order(node.body, asking.__contains__)
        return self._orders[key].followed

    def needs_run(self, function: Function, depth: int = 0) -> bool:
        """Whether a call of the function may reach an effect, a question, or what else has to know its run."""
        if function not in self._needs:
            if depth > _DEEPEST:
                return False
            self._needs[function] = False
            self._needs[function] = any(
                site.effects
                or catalogue.ASKING_RUN & set(site.names)
                or any(self.needs_run(inner, depth + 1) for inner, _ in site.functions)
                for site in self.sites(function)
            )
        return self._needs[function]

    def _running(self) -> set[Function]:
        return self._reached([root.function for root in self.roots])

    def _in_effects(self) -> dict[Function, set[Function]]:
        """The functions that effects call, with the bodies of those effects."""
        found: dict[Function, set[Function]] = {}
        for effect in self.effects:
            for function in self._reached([effect.of]):
                found.setdefault(function, set()).add(effect.of)
        return found

    def is_shared(self, function: Function, root: Root) -> bool:
        """Whether an effect calls the function too, beside the root: then it is not to blame for what it does."""
        return bool(self._recorded.get(function, set()) - {root.function})

    def _reached(self, ahead: list[Function]) -> set[Function]:
        reached: set[Function] = set()
        while ahead:
            function = ahead.pop()
            if function not in reached:
                reached.add(function)
                ahead += [inner for site in self.sites(function) for inner, _ in site.functions]
        return reached


def _handed_to_chain(dotted: str, call: ast.Call) -> list[tuple[str, str, ast.expr]]:
    """The functions of a call that builds a chain: what each is, and how it is called in a message."""
    if dotted == "fastdur.Chain().add_node":
        name = _text(catalogue.argument(call, 0, "id"))
        parts = [("node", f"node {name}", catalogue.argument(call, 1, "fn"))]
        parts += [("input", f"input= of node {name}", _keyword(call, "input"))]
    elif dotted == "fastdur.Chain().connect":
        ends = f"{_text(catalogue.argument(call, 0, 'source'))} -> {_text(catalogue.argument(call, 1, 'target'))}"
        parts = [("route", f"when= of edge {ends}", catalogue.argument(call, 2, "when"))]
    else:
        return []
    return [(kind, label, value) for kind, label, value in parts if value is not None]


def _handed_to_agent(dotted: str, call: ast.Call) -> ast.expr | None:
    """The tools that a call is given: a list of an agent's, or the function that is made one."""
    if dotted == "fastdur.Agent":
        return catalogue.argument(call, 2, "tools")
    if dotted == "fastdur.Supervisor":
        return _keyword(call, "tools")
    makers = ("fastdur.tool", "fastdur.tool()", "fastdur.FunctionTool")
    return catalogue.argument(call, 0, "fn") if dotted in makers else None


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _text(value: ast.expr | None) -> str:
    return "?" if value is None else repr(value.value) if isinstance(value, ast.Constant) else ast.unparse(value)


def effect_of(value: Value) -> Effect | None:
    """The effect that a call of this value is a call of."""
    match value:
        case Effect():
            return value
        case Bound(of=Effect() as effect):
            return effect
        case Carried(of=inner):
            return effect_of(inner)
        case _:
            pass
    return None


def _order_of(value: Value) -> tuple[str, int, str]:
    """Sets have no order; messages need one."""
    match value:
        case Name(dotted=dotted):
            return "", 0, dotted
        case Function(node=node, name=name):
            return value.module.shown, getattr(node, "lineno", 0), name
        case Bound(of=inner) | Carried(of=inner):
            return _order_of(inner)
        case Effect(of=function):
            return _order_of(function)
        case Items() | Module():
            return "", 1, ""
        case _:
            pass
    return "", 2, ""


def _dotted(function: Function) -> str:
    parts = function.module.path.with_suffix("").parts
    owner = [] if function.owner is None else [function.owner.name]
    return ".".join([*(parts[:-1] if parts[-1] == "__init__" else parts), *owner, function.name])


def place(node: ast.AST, module: Module) -> Place:
    """Where a piece of syntax stands."""
    line = getattr(node, "lineno", 1)
    column = getattr(node, "col_offset", 0)
    end = getattr(node, "end_lineno", None) or line
    return Place(module.shown, line, column + 1, end, (getattr(node, "end_col_offset", None) or column) + 1)
