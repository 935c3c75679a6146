"""What expressions stand for: names followed through imports, assignments, arguments and results.

Nothing depends on the order of statements: a name stands for whatever it is given anywhere. Parameters are known from
the calls of their functions. Where a call is looked into, its own arguments count instead (an `Env`), so that a helper
that calls what it is handed is judged for each caller by itself.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from fastdur.lint import _catalogue as catalogue
from fastdur.lint._names import Names, items, items_of, union
from fastdur.lint._values import (
    NOTHING,
    Annotated,
    Assigned,
    Binding,
    Bound,
    Carried,
    Class,
    Defined,
    Effect,
    Env,
    Frame,
    Function,
    Imported,
    Instance,
    Items,
    Module,
    Name,
    Parameter,
    Scope,
    Text,
    Value,
    Values,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastdur.lint._files import Files

_DEEPEST = 120

_MOST_ENVS = 16
_CALLED = Function | Effect | Bound | Carried | Items | Text


class Evaluator:
    """The values of expressions in the linted files."""

    def __init__(self, files: Files, effects: Iterable[str] = ()) -> None:
        self._names = Names(files, effects, self.lookup)
        self.modules = self._names.modules
        self._given: dict[tuple[Function, str], Values] = {}
        self._memo: dict[tuple[ast.expr, Env], Values] = {}
        self._envs: dict[Function, set[Frame]] = {}
        self._depth = 0
        self._follow()

    # -- modules and calls ---------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Hand every call's arguments to the parameters of what it calls, until nothing new arrives."""
        known, before = self._known(), (0, 0)
        while known != before:
            before = known
            for module in self.modules:  # it grows while names are followed into other files
                for function in (module.body, *module.functions):
                    for call, scope in function.calls:
                        self._hand_over(call, scope)
            self._memo.clear()
            known = self._known()

    def _known(self) -> tuple[int, int]:
        return len(self.modules), sum(sum(len(items(value)) + 1 for value in each) for each in self._given.values())

    def _hand_over(self, call: ast.Call, scope: Scope) -> None:
        for callee in self.values(call.func, scope):
            target = self.target(callee)
            if target is None:
                continue
            function, skipped = target
            for name, values in self.arguments(call, scope, function, skipped, None):
                self._given[function, name] = union((self._given.get((function, name), NOTHING), values))

    def target(self, callee: Value) -> tuple[Function, int] | None:
        """The function that a call of this value runs, and how many of its first parameters are given already."""
        match callee:
            case Function():
                return callee, 0
            case Effect(of=function):
                return function, 0
            case Bound(of=Function() as function) | Bound(of=Effect(of=function)):
                return function, 1
            case Carried(of=inner):
                return self.target(inner)
            case Class() | Instance():
                cls, name = (callee, "__init__") if isinstance(callee, Class) else (callee.of, "__call__")
                made = [value for value in self._of_class(cls, name) if isinstance(value, Function)]
                return (made[0], 1) if made else None
            case _:
                pass
        return None

    def arguments(
        self, call: ast.Call, scope: Scope, function: Function, skipped: int, env: Env
    ) -> list[tuple[str, Values]]:
        """What a call gives to the parameters of a function, as far as it is known."""
        parameters = function.parameters()
        given: list[tuple[str, Values]] = []
        for arg, value in zip(parameters[skipped:], call.args, strict=False):
            if isinstance(value, ast.Starred):
                break
            given.append((arg.arg, self.values(value, scope, env)))
        names = {arg.arg for arg in parameters}
        given += [
            (keyword.arg, self.values(keyword.value, scope, env)) for keyword in call.keywords if keyword.arg in names
        ]
        return [(name, values) for name, values in given if values]

    def env(self, call: ast.Call, scope: Scope, function: Function, skipped: int, env: Env) -> Env:
        """The functions and methods that this very call hands over, to look into the called one with.

        None where it hands over none, and where a function is called with too many different ones: then it is looked at
        once for all its callers.
        """
        handed = [
            (name, frozenset(each for each in values if isinstance(each, _CALLED)))
            for name, values in self.arguments(call, scope, function, skipped, env)
        ]
        outer = env
        while outer is not None and outer.of is not function.outer:
            outer = outer.outer
        made = Frame(function, frozenset((name, values) for name, values in handed if values), outer)
        known = self._envs.setdefault(function, set())
        if not (made.given or outer) or (made not in known and len(known) >= _MOST_ENVS):
            return None
        known.add(made)
        return made

    # -- expressions ---------------------------------------------------------------------------------------------------

    def values(self, expression: ast.expr, scope: Scope, env: Env = None) -> Values:
        """What an expression may stand for; nothing where that cannot be told."""
        key = (expression, env)
        if key not in self._memo:
            if self._depth >= _DEEPEST:
                return NOTHING
            self._memo[key] = NOTHING  # what depends on itself adds nothing
            self._depth += 1
            self._memo[key] = self._evaluate(expression, scope, env)
            self._depth -= 1
        return self._memo[key]

    def _evaluate(  # noqa: C901, PLR0911, PLR0912 - one case for each kind of expression
        self, expression: ast.expr, scope: Scope, env: Env
    ) -> Values:
        match expression:
            case ast.Name(id=name):
                return self.lookup(name, scope, env)
            case ast.Attribute(value=base, attr=attr):
                return union(self._attribute(value, attr) for value in self.values(base, scope, env))
            case ast.Call():
                return union(
                    self._result(callee, expression, scope, env) for callee in self.values(expression.func, scope, env)
                )
            case ast.Constant(value=str(text)) if text.upper() in catalogue.METHODS or catalogue.is_statement(text):
                return frozenset({Text(text)})
            case ast.Lambda():
                return frozenset({scope.module.defined[expression]})
            case ast.Await(value=inner) | ast.NamedExpr(value=inner) | ast.Starred(value=inner):
                return self.values(inner, scope, env)
            case ast.IfExp(body=one, orelse=other):
                return union((self.values(one, scope, env), self.values(other, scope, env)))
            case ast.BoolOp(values=several):
                return union(self.values(one, scope, env) for one in several)
            case ast.List(elts=several) | ast.Tuple(elts=several) | ast.Set(elts=several):
                return items_of(union(self.values(one, scope, env) for one in several))
            case ast.Dict(values=several):
                return items_of(union(self.values(one, scope, env) for one in several))
            case ast.ListComp(elt=item) | ast.SetComp(elt=item) | ast.GeneratorExp(elt=item) | ast.DictComp(value=item):
                return items_of(self.values(item, scope.module.scopes[expression], env))
            case ast.Subscript(value=base):
                return union(items(value) for value in self.values(base, scope, env))
            case _:
                pass
        return NOTHING

    # -- names ---------------------------------------------------------------------------------------------------------

    def lookup(self, name: str, scope: Scope, env: Env = None) -> Values:
        """What a name stands for where it is used."""
        home = scope.home_of(name)
        if home is not None:
            return union(self._bound(binding, home, env) for binding in home.names.get(name, ()))
        for module, level in scope.module.stars:
            found = self._names.imported(Imported(module, name, level), scope.module)
            if found:
                return found
        return self._names.name(f"builtins.{name}") if name in catalogue.BUILTINS else NOTHING

    def _bound(self, binding: Binding, home: Scope, env: Env) -> Values:  # noqa: PLR0911 - one case for each kind
        match binding:
            case Imported():
                return self._names.imported(binding, home.module)
            case Defined(value=Function() as function):
                return self.decorated(function)
            case Defined(value=Class() as made):
                return frozenset({made})
            case Assigned(value=value, scope=scope, item=item):
                values = self.values(value, scope, env)
                return union(items(each) for each in values) if item else self._entered(values)
            case Annotated(annotation=annotation, scope=scope):
                return self.annotated(annotation, scope)
            case Parameter():
                return self._parameter(binding, env)
            case _:
                pass
        return NOTHING

    def _entered(self, values: Values) -> Values:
        """What `with` makes of a value: itself, or what a generator function yields."""
        if any(isinstance(value, Items) for value in values):
            return values | union(items(value) for value in values)
        return values

    def _parameter(self, binding: Parameter, env: Env) -> Values:
        function, name = binding.of, binding.arg.arg
        if not binding.number and function.owner is not None and function.takes_object("staticmethod"):
            return frozenset({Instance(function.owner)})
        annotated = NOTHING
        if binding.arg.annotation is not None and function.scope.parent is not None:
            annotated = self.annotated(binding.arg.annotation, function.scope.parent)
        everywhere = self._given.get((function, name), NOTHING)
        while env is not None and env.of is not function:
            env = env.outer
        if env is not None:
            given = dict(env.given).get(name, NOTHING)
            if given:
                return given
            everywhere = frozenset(each for each in everywhere if not isinstance(each, _CALLED))
        annotated |= everywhere
        if binding.default is not None and function.scope.parent is not None:
            annotated |= self.values(binding.default, function.scope.parent)
        return annotated

    def annotated(self, annotation: ast.expr, scope: Scope) -> Values:
        """The objects that an annotation allows."""
        match annotation:
            case ast.Constant(value=str(text)):
                try:
                    inner = ast.parse(text, mode="eval").body
                except SyntaxError:
                    return NOTHING
                return self.annotated(inner, scope)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self.annotated(left, scope) | self.annotated(right, scope)
            case ast.Subscript(value=of, slice=inner) if self._is_transparent(of, scope):
                return self.annotated(inner.elts[0] if isinstance(inner, ast.Tuple) else inner, scope)
            case ast.Subscript(value=of):
                return self.annotated(of, scope)
            case _:
                pass
        return union(self._object_of(value) for value in self.values(annotation, scope))

    def _is_transparent(self, of: ast.expr, scope: Scope) -> bool:
        return bool(self.dotted(of, scope) & {"typing.Annotated", "typing.Optional", "typing.Final"})

    def _object_of(self, value: Value) -> Values:
        match value:
            case Name(dotted=dotted):
                return self._names.name(f"{dotted}()")
            case Class():
                return frozenset({Instance(value)})
            case _:
                pass
        return NOTHING

    def dotted(self, expression: ast.expr, scope: Scope, env: Env = None) -> set[str]:
        """The names outside of the linted files that an expression may stand for."""
        return {value.dotted for value in self.values(expression, scope, env) if isinstance(value, Name)}

    # -- functions -----------------------------------------------------------------------------------------------------

    def decorated(self, function: Function) -> Values:
        """What the name of a `def` stands for: an effect where a decorator says so, else the function."""
        node = function.node
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        assert function.scope.parent is not None
        for decorator in node.decorator_list:
            if self.dotted(decorator, function.scope.parent) & {"fastdur.idempotent", "fastdur.idempotent()"}:
                return frozenset({Effect(function, decorator)})
        return frozenset({function})

    def _attribute(self, value: Value, attr: str) -> Values:  # noqa: PLR0911 - one case for each kind
        match value:
            case Name(dotted=dotted):
                return self._names.name(f"{dotted}.{attr}")
            case Module():
                return self._names.member(value, attr)
            case Class():
                return self._of_class(value, attr)
            case Instance(of=cls):
                return self._of_instance(cls, attr)
            case Items() | Text():
                return frozenset({value})
            case Effect() | Bound(of=Effect()) if attr == "plain":
                return NOTHING  # unrecorded on purpose
            case _:
                pass
        return NOTHING

    def _bases(self, cls: Class) -> list[Value]:
        outside = cls.scope.parent
        assert outside is not None
        return [value for base in cls.node.bases for value in self.values(base, outside)]

    def _of_class(self, cls: Class, attr: str, seen: tuple[Class, ...] = ()) -> Values:
        if attr in cls.scope.names:
            return self.lookup(attr, cls.scope)
        bases = [base for base in self._bases(cls) if isinstance(base, Class) and base not in (*seen, cls)]
        return union(self._of_class(base, attr, (*seen, cls)) for base in bases)

    def _of_instance(self, cls: Class, attr: str, seen: tuple[Class, ...] = ()) -> Values:
        if attr in cls.scope.names or attr in cls.attributes:
            own = self.lookup(attr, cls.scope) if attr in cls.scope.names else NOTHING
            kept = union(self._bound(each, cls.scope, None) for each in cls.attributes.get(attr, ()))
            return union(self._method(value) for value in own) | kept
        found: Values = NOTHING
        for base in self._bases(cls):
            if isinstance(base, Class) and base not in (*seen, cls):
                found |= self._of_instance(base, attr, (*seen, cls))
            elif isinstance(base, Name):
                found |= self._names.name(f"{base.dotted}().{attr}")
        return found

    def _method(self, value: Value) -> Values:
        if not isinstance(value, Function | Effect):
            return frozenset({value})
        function = value if isinstance(value, Function) else value.of
        if not function.takes_object("staticmethod"):
            return frozenset({value})
        if not function.takes_object("property", "cached_property"):
            return self._returned(function, None)
        return frozenset({Bound(value)})

    def _returned(self, function: Function, env: Env) -> Values:
        if function.is_generator:
            return items_of(union(self.values(value, scope, env) for value, scope in function.yields))
        return union(self.values(value, scope, env) for value, scope in function.returns)

    def _result(self, callee: Value, call: ast.Call, scope: Scope, env: Env) -> Values:
        """What a call returns."""
        match callee:
            case Name(dotted=dotted):
                return self._result_of_name(dotted, call, scope, env)
            case Class():
                return frozenset({Instance(callee)})
            case Items(of=held):
                return held | {callee}
            case Text():
                return frozenset({callee})
            case _:
                pass
        target = self.target(callee)
        if target is None:
            return NOTHING
        function, skipped = target
        return self._returned(function, self.env(call, scope, function, skipped, env))

    def _result_of_name(self, dotted: str, call: ast.Call, scope: Scope, env: Env) -> Values:  # noqa: PLR0911 - one case for each kind
        first = self.values(call.args[0], scope, env) if call.args else NOTHING
        match dotted:
            case "fastdur.idempotent" | "fastdur.idempotent()" if call.args:
                said = call.func if isinstance(call.func, ast.Call) else call
                return frozenset(Effect(value, said) for value in first if isinstance(value, Function))
            case "fastdur.carry":
                return frozenset(value if isinstance(value, Carried) else Carried(value) for value in first)
            case "functools.partial" | "functools.wraps()":
                return first
            case "typing.cast" if len(call.args) > 1:
                return self.values(call.args[1], scope, env)
            case _ if dotted in catalogue.CONTAINERS:
                handed = [*call.args, *(keyword.value for keyword in call.keywords)]
                return items_of(union(items(value) for one in handed for value in self.values(one, scope, env)))
            case _ if dotted in catalogue.WITHOUT_RESULT:
                return NOTHING
            case _:
                pass
        return self._names.name(f"{dotted}()")
