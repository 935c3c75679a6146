"""A module of fastdur imports only modules that stand above it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.house import source

# From the ground up; the modules of one line may import each other. '' is the package itself, fastdur/__init__.py:
# what stands above that line never imports from `fastdur`, only from its modules. A package's name stands for its
# __init__.py, and `cli` for all that is in it.
ORDER = (
    ("errors",),
    ("_functions",),
    # values
    ("_frozen",),
    ("_registry", "_delta"),
    ("_refusals", "_tags"),
    ("_freeze", "_thaw"),
    ("_fingerprint", "_promised"),
    ("_codec",),
    ("_live",),
    ("_own",),
    ("_sealed",),
    ("llm", "llm.messages"),
    ("_spoken",),
    # the pure core
    ("records", "_pruned"),
    ("_steps",),
    ("_visits",),
    ("_changed",),
    ("_effects",),
    ("_run_effects",),
    ("_reentry",),
    ("_failures",),
    ("_held", "_admission"),
    ("_engine",),
    ("_branching", "_ending"),
    ("_unknown",),
    ("boundaries",),
    # stores
    ("checkpointers.protocol",),
    ("checkpointers._sql",),
    ("checkpointers._values",),
    ("checkpointers._rows",),
    ("checkpointers._cursor",),
    ("checkpointers._patience", "checkpointers._turns"),
    ("checkpointers._starting", "checkpointers._effect_records", "checkpointers._retention"),
    ("checkpointers._store",),
    ("checkpointers._sqlite_file",),
    ("checkpointers.sqlite",),
    ("checkpointers._postgres_sql",),
    ("checkpointers._postgres_server",),
    ("checkpointers.postgres",),
    ("checkpointers.nowhere",),
    ("checkpointers",),
    # what code inside a node may ask
    ("scope",),
    ("interrupt",),
    ("_memory",),
    ("_declared",),
    ("_effect_call",),
    ("idempotent",),
    # what runs it
    ("_owner",),
    ("_threads",),
    ("_invoke",),
    ("_storing",),
    ("_drivers",),
    ("_runs",),
    ("_forking",),
    ("_nested",),
    ("_runner",),
    # what users build
    ("_graph",),
    ("chain",),
    ("llm.client",),
    ("llm.testing",),
    ("llm._structured", "llm._wire", "llm._sdk"),
    ("llm._openai_wire", "llm._anthropic_wire"),
    ("llm.openai", "llm.anthropic"),
    ("_schema",),
    ("tools",),
    ("guardrails", "memory"),
    ("_streaming",),
    ("_asking", "_talk"),
    ("_guarding",),
    ("_conversing",),
    ("agent",),
    ("supervisor", "swarm"),
    ("",),
    # the linter: it reads source and imports none of what stands above
    ("lint",),
    ("lint._findings", "lint._values", "lint._libraries", "lint._rules"),
    ("lint._catalogue",),
    ("lint._scopes", "lint._order"),
    ("lint._files", "lint._suppress", "lint._config", "lint._output"),
    ("lint._names",),
    ("lint._evaluate",),
    ("lint._graph",),
    ("lint._walk",),
    ("lint._check_nodes", "lint._check_questions"),
    ("lint._check_effects",),
    ("lint._check",),
    ("cli",),
)

# Imports inside a function that go against the order: (importing, imported): reason.
AGAINST: dict[tuple[str, str], str] = {}

PLACE = {module: place for place, modules in enumerate(ORDER) for module in modules}


def module_of(path: Path) -> str:
    parts = path.relative_to(source.ROOT / "fastdur").with_suffix("").parts
    return known(".".join(parts[:-1] if parts[-1] == "__init__" else parts))


def known(module: str) -> str:
    """The name by which a module stands in ORDER."""
    return "cli" if module.partition(".")[0] == "cli" else module


MODULES = {module_of(path) for path in source.python_files("fastdur")}


def imports(path: Path) -> Iterator[tuple[str, bool, int]]:
    """What a file imports from fastdur, as (module, whether inside a function, line); for type checkers is no import."""

    def visit(node: ast.AST, *, inside: bool) -> Iterator[tuple[str, bool, int]]:
        children = list(ast.iter_child_nodes(node))
        match node:
            case ast.If(test=test, orelse=orelse) if source.dotted(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
                children = list(orelse)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                inside = True
            case ast.Import(names=names):
                for alias in names:
                    package, _, module = alias.name.partition(".")
                    if package == "fastdur":
                        yield known(module), inside, node.lineno
            case ast.ImportFrom(module=str(origin), names=names) if origin.partition(".")[0] == "fastdur":
                module = origin.partition(".")[2]
                for alias in names:
                    member = known(f"{module}.{alias.name}".lstrip("."))
                    yield member if member in MODULES else known(module), inside, node.lineno
        for child in children:
            yield from visit(child, inside=inside)

    return visit(source.tree(path), inside=False)


def test_every_module_has_a_place_in_the_order():
    missing = sorted(MODULES - set(PLACE))
    assert not missing, f"give these modules of fastdur a place in ORDER: {missing}"


def test_a_module_imports_only_modules_above_it():
    wrong = set()
    used = set()
    for path in source.python_files("fastdur"):
        importing = module_of(path)
        for imported, inside_function, line in imports(path):
            if {imported, importing} - set(PLACE) or PLACE[imported] <= PLACE[importing]:
                continue
            if inside_function and (importing, imported) in AGAINST:
                used.add((importing, imported))
            else:
                wrong.add(f"{source.name_of(path)}:{line}: fastdur.{importing} imports fastdur.{imported}")
    assert not wrong, "against the order of the modules:\n" + "\n".join(sorted(wrong))
    stale = sorted(set(AGAINST) - used)
    assert not stale, f"nothing imports like this any more, take it out of AGAINST: {stale}"
