"""What the code says of itself: settings, commands, events, public names, where a name leads.

It is read from the syntax. Nothing is imported, so the check needs no database.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOTS = ("checkpoints", "runs", "hitl", "project", "extensions", "tests", "bench")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def statements(path: Path) -> list[ast.stmt]:
    """All statements of a module, at whatever depth. Most of a tree is the expressions in them."""
    found: list[ast.stmt] = []
    blocks: list[Any] = [tree(path)]
    while blocks:
        block = blocks.pop()
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            for part in getattr(block, name, ()):
                blocks.append(part)
                if isinstance(part, ast.stmt):
                    found.append(part)
    return found


@dataclass(frozen=True)
class Setting:
    """A setting that the environment may hold.

    `default` is as it is written, "" where it is no plain number or text.
    """

    name: str
    default: str


def settings(root: Path) -> list[Setting]:
    """Every variable that is read through `runs.env`, and every WAYSTATION_ of `runs.defaults`."""
    limits = _numbers(root / "runs/limits.py")
    found: dict[str, Setting] = {}
    for path in (root / "runs/defaults.py", root / "project/settings.py"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call) and _reads(node):
                limit = isinstance(node.func, ast.Attribute) and node.func.attr == "limit"
                several = isinstance(node.func, ast.Attribute) and node.func.attr == "model"
                texts = [str(arg.value) for arg in node.args if isinstance(arg, ast.Constant)]
                names = [name for name in (texts if several else texts[:1]) if name.isupper()]
                if limit:
                    found |= {
                        f"WAYSTATION_{name}": Setting(f"WAYSTATION_{name}", str(limits[name]))
                        for name in names
                    }
                    continue
                default = "" if several else "".join(texts[1:2])
                found |= {name: Setting(name, default) for name in names}
    for node in tree(root / "runs/defaults.py").body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name.startswith("WAYSTATION_") and not _calls_env(node.value):
                found.setdefault(name, Setting(name, ""))
    return sorted(found.values(), key=lambda one: one.name)


def _reads(call: ast.Call) -> bool:
    return _calls_env(call) or (isinstance(call.func, ast.Name) and call.func.id == "_folders")


def _calls_env(node: ast.expr) -> bool:
    """Whether an expression reads the environment somewhere."""
    return any(
        isinstance(part, ast.Attribute)
        and isinstance(part.value, ast.Name)
        and part.value.id == "env"
        for part in (
            [node.func]
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            else ast.walk(node)
        )
    )


def _numbers(path: Path) -> dict[str, int]:
    return {
        node.targets[0].id: eval(compile(ast.Expression(node.value), str(path), "eval"), {})
        for node in tree(path).body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and all(
            isinstance(part, ast.Constant | ast.BinOp | ast.operator)
            for part in ast.walk(node.value)
        )
    }


def commands(root: Path) -> list[str]:
    """`manage.py` commands and make's targets for people, as they are typed."""
    files = [
        path
        for app in ROOTS[:5]
        for path in sorted((root / app).rglob("management/commands/*.py"))
        if not path.stem.startswith("_")
    ]
    phony = re.search(r"^\.PHONY: (.+)$", (root / "Makefile").read_text(), re.MULTILINE)
    targets = phony[1].split() if phony else []
    return [f"make {name}" for name in targets] + [f"manage.py {path.stem}" for path in files]


def events(root: Path) -> list[str]:
    """The kinds of events, by their wire names."""
    kinds = _class(tree(root / "checkpoints/models/threads.py"), "EventKind")
    return [
        node.value.value
        for node in kinds.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]


def public_names(root: Path) -> list[str]:
    """What `runs.workflows` exports."""
    for node in tree(root / "runs/workflows/__init__.py").body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def _class(module: ast.Module, name: str) -> ast.ClassDef:
    return next(
        node for node in module.body if isinstance(node, ast.ClassDef) and node.name == name
    )


@cache
def permissions(root: Path) -> frozenset[str]:
    """Names of rights that models declare, without their app."""
    declared = re.compile(r'\("(\w+)", "Can ')
    return frozenset(
        name
        for app in ("checkpoints", "runs", "hitl")
        for path in (root / app / "models").glob("*.py")
        for name in declared.findall(path.read_text(encoding="utf-8"))
    )


def exists(root: Path, dotted: str) -> bool:
    """Whether a dotted name of ours leads to a folder, a module, or a name that a module binds."""
    parts = dotted.split(".")
    path = root
    for number, part in enumerate(parts):
        if (path / part).is_dir():
            path = path / part
        elif (path / f"{part}.py").is_file():
            return _binds(path / f"{part}.py", parts[number + 1 :])
        else:
            return (path / "__init__.py").is_file() and _binds(path / "__init__.py", parts[number:])
    return True


def _binds(path: Path, names: list[str]) -> bool:
    if not names:
        return True
    name, *rest = names
    for node in statements(path):
        match node:
            case ast.ClassDef(name=known) if known == name:
                if not rest or any(_target(part) == rest[0] for part in node.body) or node.bases:
                    return True
            case ast.FunctionDef(name=known) | ast.AsyncFunctionDef(name=known) if known == name:
                return True
            case ast.ImportFrom() | ast.Import():
                if name in {alias.asname or alias.name for alias in node.names}:
                    return True
            case ast.Assign() | ast.AnnAssign() if _target(node) == name:
                return True
    return False


def _target(node: ast.stmt) -> str:
    match node:
        case ast.Assign(targets=[ast.Name(id=name), *_]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case ast.Assign(targets=[ast.Tuple(elts=[*names])]):
            return names[0].id if isinstance(names[0], ast.Name) else ""
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
    return ""


@cache
def imports(path: Path) -> dict[str, str]:
    """What a module imports, by the name that it has there: the dotted name that it leads to."""
    found: dict[str, str] = {}
    for node in statements(path):
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                found |= {one.asname or one.name: f"{module}.{one.name}" for one in names}
            case ast.Import(names=names):
                found |= {one.asname: one.name for one in names if one.asname}
    return found
