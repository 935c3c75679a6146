"""From a syntax tree to scopes, functions and their calls."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from fastdur.lint._values import (
    Annotated,
    Assigned,
    Binding,
    Class,
    Defined,
    Function,
    Imported,
    Module,
    Opaque,
    Parameter,
    Scope,
)

if TYPE_CHECKING:
    from pathlib import Path

    Def = ast.FunctionDef | ast.AsyncFunctionDef
    Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def build(path: Path, shown: str, tree: ast.Module) -> Module:
    """The scopes of one file."""
    module = Module(path, shown, tree)
    module.scope = Scope(tree, None, module, "module")
    module.body = module.scope.function = Function(tree, module.scope, "<module>")
    module.scopes[tree] = module.scope
    _Builder(module.scope).run(tree)
    return module


class _Builder(ast.NodeVisitor):
    """Walks one file, in the order in which it is written."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.module = scope.module
        self.owner: Class | None = None

    def run(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            self.visit(child)

    def visit(self, node: ast.AST) -> None:
        """Visit a node; its children know it as their parent."""
        for child in ast.iter_child_nodes(node):
            self.module.parents[child] = node
        super().visit(node)

    def bind(self, name: str, binding: Binding) -> None:
        self.scope.elsewhere.get(name, self.scope).names.setdefault(name, []).append(binding)

    def inside(self, scope: Scope, nodes: list[ast.stmt] | list[ast.expr], owner: Class | None) -> None:
        before = self.scope, self.owner
        self.scope, self.owner = scope, owner
        for node in nodes:
            self.visit(node)
        self.scope, self.owner = before

    # -- what makes scopes ---------------------------------------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.function(node, node.name)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.function(node, node.name)

    def function(self, node: Def, name: str) -> None:
        for outside in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(outside)
        made = self.made(node, name, isinstance(node, ast.AsyncFunctionDef))
        self.bind(name, Defined(made))
        self.inside(made.scope, node.body, None)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for outside in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(outside)
        made = self.made(node, "<lambda>", is_async=False)
        made.returns.append((node.body, made.scope))
        self.inside(made.scope, [node.body], None)

    def made(self, node: Def | ast.Lambda, name: str, is_async: bool) -> Function:  # noqa: FBT001 - as Function
        scope = Scope(node, self.scope, self.module, "function")
        made = scope.function = Function(node, scope, name, self.owner, is_async)
        self.module.functions.append(made)
        self.module.defined[node] = made
        self.module.scopes[node] = scope
        arguments = node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        missing = len(positional) - len(arguments.defaults)
        defaults = [*[None] * missing, *arguments.defaults, *arguments.kw_defaults]
        for number, (arg, default) in enumerate(zip([*positional, *arguments.kwonlyargs], defaults, strict=True)):
            scope.names[arg.arg] = [Parameter(made, arg, default, number)]
        for rest in (arguments.vararg, arguments.kwarg):
            if rest is not None:
                scope.names[rest.arg] = [Opaque()]
        return made

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for outside in (*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)):
            self.visit(outside)
        scope = Scope(node, self.scope, self.module, "class")
        scope.function = self.scope.function
        made = Class(node, scope, node.name)
        self.module.classes.append(made)
        self.module.scopes[node] = scope
        self.bind(node.name, Defined(made))
        self.inside(scope, node.body, made)

    def comprehension(self, node: Comprehension) -> None:
        scope = Scope(node, self.scope, self.module, "comprehension")
        scope.function = self.scope.function
        self.module.scopes[node] = scope
        before, self.scope = self.scope, scope
        for part in node.generators:
            for child in ast.iter_child_nodes(part):
                self.module.parents[child] = part
            self.visit(part.iter)
            self.target(part.target, part.iter, item=True)
            for condition in part.ifs:
                self.visit(condition)
        for value in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            self.visit(value)
        self.scope = before

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self.comprehension(node)

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self.comprehension(node)

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self.comprehension(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self.comprehension(node)

    # -- what gives names values ---------------------------------------------------------------------------------------

    def target(self, target: ast.expr, value: ast.expr, *, item: bool = False) -> None:
        """`target` is given `value`, or an item of it."""
        match target, value:
            case ast.Name(id=name), _:
                self.bind(name, Assigned(value, self.scope, item))
            case ast.Starred(value=inner), _:
                self.target(inner, value)
            case (
                (ast.Tuple(elts=targets) | ast.List(elts=targets)),
                (ast.Tuple(elts=values) | ast.List(elts=values)),
            ) if not item and len(targets) == len(values):
                for one, its in zip(targets, values, strict=True):
                    self.target(one, its)
            case ((ast.Tuple(elts=targets) | ast.List(elts=targets)), _):
                for one in targets:
                    self.target(one, value, item=True)
            case ast.Attribute(value=ast.Name(id=name), attr=attribute), _:
                self.visit(target)
                self.attribute(name, attribute, Assigned(value, self.scope, item))
            case _:
                self.visit(target)

    def attribute(self, name: str, attribute: str, binding: Binding) -> None:
        """`name.attribute` is given a value: it is kept where `name` is the object of a method."""
        owner = self.scope.function.owner
        if owner is not None and name in _first_parameter(self.scope.function):
            owner.attributes.setdefault(attribute, []).append(binding)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self.target(target, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
            self.target(node.target, node.value)
        match node.target:
            case ast.Name(id=name):
                self.bind(name, Annotated(node.annotation, self.scope))
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                self.attribute(name, attribute, Annotated(node.annotation, self.scope))
            case _:
                pass

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        before = self.scope
        while self.scope.kind == "comprehension" and self.scope.parent is not None:
            self.scope = self.scope.parent
        self.bind(node.target.id, Assigned(node.value, before))
        self.scope = before

    def visit_For(self, node: ast.For) -> None:
        self.loop(node)

    def visit_AsyncFor(self, node: ast.AsyncFor) -> None:
        self.loop(node)

    def loop(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self.target(node.target, node.iter, item=True)
        for statement in (*node.body, *node.orelse):
            self.visit(statement)

    def visit_withitem(self, node: ast.withitem) -> None:
        self.visit(node.context_expr)
        if node.optional_vars is not None:
            self.target(node.optional_vars, node.context_expr)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name is not None:
            self.bind(node.name, Opaque())
        self.run(node)

    def capture(self, node: ast.MatchAs | ast.MatchStar) -> None:
        if node.name is not None:
            self.bind(node.name, Opaque())
        self.run(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self.capture(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        self.capture(node)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.name if alias.asname is not None else alias.name.partition(".")[0]
            self.bind(alias.asname or name, Imported(name, None, 0))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name == "*":
                self.module.stars.append((node.module or "", node.level))
            else:
                self.bind(alias.asname or alias.name, Imported(node.module or "", alias.name, node.level))

    def visit_Global(self, node: ast.Global) -> None:
        for name in node.names:
            self.scope.elsewhere[name] = self.module.scope

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        for name in node.names:
            home = self.scope.parent.home_of(name) if self.scope.parent is not None else None
            if home is not None:
                self.scope.elsewhere[name] = home

    # -- what is looked at afterwards ----------------------------------------------------------------------------------

    def visit_Call(self, node: ast.Call) -> None:
        self.run(node)
        self.scope.function.calls.append((node, self.scope))

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in READ and isinstance(node.ctx, ast.Load):
            self.scope.function.reads.append((node, self.scope))
        elif not isinstance(node.ctx, ast.Load):  # bound by a statement that says nothing about the value
            self.bind(node.id, Opaque())

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.visit(node.value)
        if node.attr in READ:
            self.scope.function.reads.append((node, self.scope))

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            self.scope.function.returns.append((node.value, self.scope))
            self.visit(node.value)

    def visit_Yield(self, node: ast.Yield) -> None:
        self.scope.function.is_generator = True
        if node.value is not None:
            self.scope.function.yields.append((node.value, self.scope))
            self.visit(node.value)

    def visit_YieldFrom(self, node: ast.YieldFrom) -> None:
        self.scope.function.is_generator = True
        self.visit(node.value)


READ = frozenset({"environ", "environb"})
"""What counts by being read, without a call."""


def _first_parameter(function: Function) -> list[str]:
    return [arg.arg for arg in function.parameters()[:1]]
