"""What a step function does, as a digest: of its own code and of all code of its package that it
uses.

A run keeps its meaning across a deploy only if its steps still do what they did when it was asked
for. The digest is over syntax trees, so comments, docstrings, annotations of functions and
formatting do not count. It tells too often rather than too seldom: code that moved to another
module counts as changed. A package that moved as a whole says in `__formerly__` where it stood, and
keeps its digests.
"""

from __future__ import annotations

import ast
import hashlib
import symtable
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from inspect import unwrap
from types import ModuleType
from typing import Any

BLOCKS = (ast.If, ast.Try, ast.TryStar, ast.With, ast.For, ast.While)
"""Statements of a module whose bodies bind names of the module."""
ANNOTATIONS = {
    (ast.FunctionDef, "returns"),
    (ast.AsyncFunctionDef, "returns"),
    (ast.arg, "annotation"),
}
Within = type[ast.AST] | None


@dataclass(frozen=True, eq=False)
class ModuleSource:
    """A module's source, taken apart."""

    name: str
    bound: dict[str, list[ast.stmt]]
    """Name → the statements of the module that bind or change it."""
    imported: dict[str, str]
    """Name → what it was imported from, as a dotted path."""
    scopes: dict[tuple[str, int], symtable.SymbolTable]
    """(name, line) of each function and class of the module → its names."""


@cache
def fingerprint(function: Callable[..., Any]) -> str:
    """sha256 over the code of `function` and, transitively, over the functions, classes and
    constants of its package that it names.

    What it reaches only through an object it is handed (`context.workspace`), and other packages,
    count by their names alone. "" where there is no source to read.
    """
    parts = {_formerly(f"{code.name}:{name}"): shape for code, name, shape in reached(function)}
    return hashlib.sha256(repr(sorted(parts.items())).encode()).hexdigest() if parts else ""


@cache
def reached(function: Callable[..., Any]) -> tuple[tuple[ModuleSource, str, list[str]], ...]:
    """The names that a function reaches: module, name, and its shape."""
    return tuple(_reached(unwrap(function)))


def _reached(function: Callable[..., Any]) -> Iterator[tuple[ModuleSource, str, list[str]]]:
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    # a nested function: with all of the one around it
    name = getattr(function, "__qualname__", "").partition(".")[0]
    code = _code(module) if module else None
    if code is None or name not in code.bound:
        return
    scope = getattr(module, "__package__", None) or code.name
    seen: set[str] = set()
    open_ends = [(code, name)]
    while open_ends:
        code, name = open_ends.pop()
        key = f"{code.name}:{name}"
        if key in seen:
            continue
        seen.add(key)
        shapes, names = _shapes_and_names(code, name)
        shape = [*shapes]
        for used in names:
            leads = list(_leads(used, code, scope))
            shape += [f"{used} {_formerly(path)}" for _, path in leads]
            open_ends += [
                (target, path.rpartition(":")[2]) for target, path in leads if target is not None
            ]
        yield code, name, shape


@cache
def _shapes_and_names(code: ModuleSource, name: str) -> tuple[list[str], list[str]]:
    """The shapes of the statements that bind a name, and the names that they use: most are reached
    by many steps.
    """
    statements = code.bound[name]
    used = {used for statement in statements for used in _used(statement, code)}
    return [_shape(statement) for statement in statements], sorted(used)


@cache
def _code(module: ModuleType) -> ModuleSource | None:
    """None where the module has no source."""
    loader = module.__spec__.loader if module.__spec__ else None
    try:
        source = (
            loader.get_source(module.__name__)
            if loader is not None and hasattr(loader, "get_source")
            else None
        )
    except (ImportError, OSError):
        source = None
    if source is None:
        return None
    code = ModuleSource(module.__name__, {}, {}, {})
    for statement in _statements(ast.parse(source).body):
        for name in _binds(statement):
            code.bound.setdefault(name, []).append(statement)
        if isinstance(statement, ast.Import | ast.ImportFrom):
            code.imported.update(_imports(statement, module.__package__ or ""))
    for table in symtable.symtable(source, module.__name__, "exec").get_children():
        code.scopes[table.get_name(), table.get_lineno()] = table
    return code


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """A module's statements, also those inside `if`, `try` and the like."""
    for statement in body:
        yield statement
        if isinstance(statement, BLOCKS):
            for inner in ast.iter_child_nodes(statement):
                if isinstance(inner, ast.stmt):
                    yield from _statements([inner])
                elif isinstance(inner, ast.ExceptHandler):
                    yield from _statements(inner.body)


def _binds(statement: ast.stmt) -> set[str]:
    """The names that a module's statement binds or changes: `TABLE["a"] = 1` changes TABLE."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Assign(targets=targets):
            parts: list[ast.expr] = targets
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target) | ast.For(target=target):
            parts = [target]
        case ast.With(items=items):
            parts = [item.optional_vars for item in items if item.optional_vars]
        case _:
            return set()
    return {name for part in parts for name in _roots(part)}


def _roots(target: ast.expr) -> Iterator[str]:
    match target:
        case ast.Name(id=name):
            yield name
        case ast.Attribute(value=value) | ast.Subscript(value=value) | ast.Starred(value=value):
            yield from _roots(value)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from _roots(part)


def _imports(statement: ast.Import | ast.ImportFrom, package: str) -> Iterator[tuple[str, str]]:
    for alias in statement.names:
        if isinstance(statement, ast.Import):
            yield (
                (alias.asname, alias.name)
                if alias.asname
                else (alias.name.partition(".")[0], alias.name.partition(".")[0])
            )
        else:
            above = package.rsplit(".", statement.level - 1)[0] if statement.level else ""
            yield (
                alias.asname or alias.name,
                ".".join(filter(None, [above, statement.module, alias.name])),
            )


def _used(statement: ast.stmt, code: ModuleSource) -> Iterator[str]:
    """The module's names that a statement uses, each with the attributes taken of it: `COUNT`,
    `base.Go`. Annotations do not count, whether this Python evaluates them or not.
    """
    names = _globals(statement, code)
    nodes: list[tuple[ast.AST, Within]] = [(statement, None)]
    while nodes:
        node, within = nodes.pop()
        if not (dotted := _dotted(node)):
            within = _within(node, within)
            for _, value in _fields(node, within):
                parts = value if isinstance(value, list) else [value]
                nodes += [(part, within) for part in parts if isinstance(part, ast.AST)]
        elif dotted.partition(".")[0] in names:
            yield dotted


def _globals(statement: ast.stmt, code: ModuleSource) -> set[str]:
    """Names that a statement takes from its module: not those that a function binds itself."""
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        whole = (
            (statement.value or statement.target)
            if isinstance(statement, ast.AnnAssign)
            else statement
        )
        return {node.id for node in ast.walk(whole) if isinstance(node, ast.Name)} - _binds(
            statement
        )
    outside = [*statement.decorator_list]
    if isinstance(statement, ast.ClassDef):
        outside += [*statement.bases, *(keyword.value for keyword in statement.keywords)]
    else:
        outside += [*statement.args.defaults, *filter(None, statement.args.kw_defaults)]
    names = {node.id for part in outside for node in ast.walk(part) if isinstance(node, ast.Name)}
    tables = [code.scopes[statement.name, statement.lineno]]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        names |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
    return names


def _dotted(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            before = _dotted(value)
            return f"{before}.{attr}" if before else ""
    return ""


def _leads(
    dotted: str, code: ModuleSource, scope: str
) -> Iterator[tuple[ModuleSource | None, str]]:
    """Where a name leads: code to follow and `module:name`; None and a dotted path outside of the
    scope; nothing for a builtin.
    """
    root, _, rest = dotted.partition(".")
    if root in code.bound:
        yield code, f"{code.name}:{root}"
    if root not in code.imported:
        return
    path = ".".join(filter(None, [code.imported[root], rest]))
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        module = sys.modules.get(".".join(parts[:end]))
        if module is None or not f"{module.__name__}.".startswith(f"{scope}."):
            continue
        target = _code(module)
        if target is None:
            break
        if end < len(parts):
            yield from _leads(parts[end], target, scope)
        else:  # a module as a value: all of it
            yield from ((target, f"{target.name}:{name}") for name in target.bound)
        return
    yield None, path


def _formerly(path: str) -> str:
    """The path as it was where a package of it stood before, if that says so."""
    module, colon, name = path.partition(":")
    parts = module.split(".")
    for end in range(len(parts), 0, -1):
        before = getattr(sys.modules.get(".".join(parts[:end])), "__formerly__", None)
        if before is not None:
            return ".".join([before, *parts[end:]]) + colon + name
    return path


def _shape(node: Any, within: Within = None) -> str:
    """A syntax tree as text: without places, docstrings, annotations of functions, and empty fields
    (which Python versions add).
    """
    if isinstance(node, list):
        return f"[{','.join(_shape(part, within) for part in node if not _says_nothing(part))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    within = _within(node, within)
    fields = [
        f"{name}={_shape(value, within)}"
        for name, value in _fields(node, within)
        if name not in {"kind", "type_comment"} and value not in (None, [])
    ]
    return f"{type(node).__name__}({','.join(fields)})"


def _within(node: ast.AST, within: Within) -> Within:
    """The class or function in which the parts of a node stand; None in a module."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return ast.FunctionDef
    return ast.ClassDef if isinstance(node, ast.ClassDef) else within


def _fields(node: ast.AST, within: Within) -> Iterator[tuple[str, Any]]:
    """A node's fields without annotations, but for those in a class: a dataclass reads its own."""
    unread = isinstance(node, ast.AnnAssign) and within is not ast.ClassDef
    for name, value in ast.iter_fields(node):
        if (type(node), name) not in ANNOTATIONS and not (unread and name == "annotation"):
            yield name, value


def _says_nothing(node: Any) -> bool:
    """A docstring, or `pass`."""
    return isinstance(node, ast.Pass) or (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
