"""What an expression can stand for, as far as the source tells."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Name:
    """Something that is not in the linted files, by its dotted name.

    `()` stands for the result of a call: `requests.Session().post` is a method of what `requests.Session` makes.
    """

    dotted: str


@dataclass(eq=False, slots=True)
class Function:
    """A function, method or lambda of the linted files; the code of a module outside of every function is one too."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module
    scope: Scope
    name: str
    owner: Class | None = None
    is_async: bool = False
    calls: list[tuple[ast.Call, Scope]] = field(default_factory=list[tuple["ast.Call", "Scope"]])
    reads: list[tuple[ast.Attribute | ast.Name, Scope]] = field(
        default_factory=list[tuple["ast.Attribute | ast.Name", "Scope"]]
    )
    returns: list[tuple[ast.expr, Scope]] = field(default_factory=list[tuple["ast.expr", "Scope"]])
    yields: list[tuple[ast.expr, Scope]] = field(default_factory=list[tuple["ast.expr", "Scope"]])
    is_generator: bool = False

    @property
    def module(self) -> Module:
        """The module it stands in."""
        return self.scope.module

    @property
    def outer(self) -> Function:
        """The function that it is defined in, or its module."""
        assert self.scope.parent is not None
        return self.scope.parent.function

    @property
    def body(self) -> list[ast.stmt] | list[ast.expr]:
        """What runs when it is called; decorators and defaults have run before."""
        return [self.node.body] if isinstance(self.node, ast.Lambda) else self.node.body

    def parameters(self) -> list[ast.arg]:
        """Its parameters in order, without `*args` and `**kwargs`."""
        assert not isinstance(self.node, ast.Module), "a module is never called"
        arguments = self.node.args
        return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]

    def takes_object(self, *unless: str) -> bool:
        """Whether it is a `def` in a class, and none of these decorators is above it."""
        decorators = () if isinstance(self.node, ast.Lambda | ast.Module) else self.node.decorator_list
        named = {ast.unparse(each).rpartition(".")[2] for each in decorators}
        return self.owner is not None and not isinstance(self.node, ast.Lambda) and not named & set(unless)


@dataclass(eq=False, slots=True)
class Class:
    """A class of the linted files."""

    node: ast.ClassDef
    scope: Scope
    name: str
    attributes: dict[str, list[Binding]] = field(default_factory=dict[str, list["Binding"]])
    """What is assigned to `self.…` in its methods."""


@dataclass(frozen=True, slots=True)
class Instance:
    """An object of a class of the linted files."""

    of: Class


@dataclass(frozen=True, slots=True)
class Bound:
    """A method taken from an object: its first parameter is given."""

    of: Function | Effect


@dataclass(frozen=True, slots=True)
class Effect:
    """A function under `@idempotent`, and the expression that says so."""

    of: Function
    said: ast.expr


@dataclass(frozen=True, slots=True)
class Carried:
    """What `carry` returns."""

    of: Value


@dataclass(frozen=True, slots=True)
class Text:
    """A text that is followed because it decides what a call does: the method of a request, a statement of SQL."""

    text: str


@dataclass(frozen=True, slots=True)
class Items:
    """A container, with what may be in it."""

    of: frozenset[Value]


@dataclass(eq=False, slots=True)
class Module:
    """A file of the linted ones, as far as names go."""

    path: Path
    shown: str
    """Its path as it is printed."""
    tree: ast.Module
    scope: Scope = field(init=False)
    body: Function = field(init=False)
    functions: list[Function] = field(default_factory=list[Function])
    classes: list[Class] = field(default_factory=list[Class])
    stars: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict["ast.AST", "ast.AST"])
    scopes: dict[ast.AST, Scope] = field(default_factory=dict["ast.AST", "Scope"])
    defined: dict[ast.AST, Function] = field(default_factory=dict["ast.AST", Function])


Value = Name | Function | Class | Instance | Bound | Effect | Carried | Items | Module | Text
Values = frozenset[Value]
NOTHING: Values = frozenset()


@dataclass(frozen=True, slots=True)
class Imported:
    """`import a.b` or `from a import b`: the module, and the name taken from it if any."""

    module: str
    name: str | None
    level: int


@dataclass(frozen=True, slots=True)
class Defined:
    """`def` or `class`."""

    value: Function | Class


@dataclass(frozen=True, slots=True)
class Assigned:
    """The value of an expression, an item of it, or what `with` makes of it."""

    value: ast.expr
    scope: Scope
    item: bool = False


@dataclass(frozen=True, slots=True)
class Annotated:
    """Something of which only the annotation is known."""

    annotation: ast.expr
    scope: Scope


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function."""

    of: Function
    arg: ast.arg
    default: ast.expr | None
    number: int


@dataclass(frozen=True, slots=True)
class Opaque:
    """A name that is given a value nobody can tell."""


Binding = Imported | Defined | Assigned | Annotated | Parameter | Opaque


@dataclass(eq=False, slots=True)
class Scope:
    """The names of a module, class, function or comprehension."""

    node: ast.AST
    parent: Scope | None
    module: Module
    kind: str
    function: Function = field(init=False)
    """The function whose code stands here."""
    names: dict[str, list[Binding]] = field(default_factory=dict[str, list[Binding]])
    elsewhere: dict[str, Scope] = field(default_factory=dict[str, "Scope"])
    """What `global` and `nonlocal` say."""

    def home_of(self, name: str) -> Scope | None:
        """The scope that binds `name` as seen from here; None where no scope of the module does."""
        here: Scope | None = self
        while here is not None:
            if name in here.elsewhere:
                return here.elsewhere[name]
            if name in here.names and (here is self or here.kind != "class"):
                return here
            here = here.parent
        return None


@dataclass(frozen=True, slots=True)
class Frame:
    """The functions that one call hands to a function, and the call around it where the function was defined."""

    of: Function
    given: frozenset[tuple[str, Values]]
    outer: Frame | None


Env = Frame | None
