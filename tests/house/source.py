"""The source as data: the files of the repository and what can be read off them without running them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("fastdur", "pytest_fastdur")


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def all_files() -> list[Path]:
    """Every text of the repository; not what tools and environments leave beside it."""
    folders = (*PACKAGES, "tests", "scenarios", "ci", ".ci", "docs")
    inside = (path for folder in folders for path in (ROOT / folder).rglob("*"))
    return sorted(
        path
        for path in (*inside, *ROOT.glob("*.md"), *ROOT.glob("*.toml"), ROOT / "LICENSE", ROOT / ".gitignore")
        if path.is_file() and "__pycache__" not in path.parts and is_text(path)
    )


def is_text(path: Path) -> bool:
    try:
        path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return False
    return True


def name_of(path: Path) -> str:
    """How a file is called in these tests and their lists: from the root, with slashes."""
    return path.relative_to(ROOT).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def with_function(path: Path) -> Iterator[tuple[ast.AST, str]]:
    """Every node of a module with the qualified name of the function it stands in, '' for none."""

    def visit(node: ast.AST, names: tuple[str, ...], function: str) -> Iterator[tuple[ast.AST, str]]:
        for child in ast.iter_child_nodes(node):
            yield child, function
            match child:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    yield from visit(child, (*names, name), ".".join((*names, name)))
                case ast.ClassDef(name=name):
                    yield from visit(child, (*names, name), function)
                case _:
                    yield from visit(child, names, function)

    return visit(tree(path), (), "")


def dotted(node: ast.AST) -> str:
    """`a.b.c` for such an expression, '' for any other."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{dotted(value)}.{name}"
    return ""
