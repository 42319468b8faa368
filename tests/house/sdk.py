"""`python -m tests.house.sdk`: write docs/reference/sdk.md from the docstrings of `runs.workflows`.

The page keeps its own words. Between `<!-- names: Go Ask -->` and `<!-- end -->` stands what the
docstrings say of these names, their fields and arguments; the check compares the two. It is read
from the syntax, like all that the house checks.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Mapping
from inspect import cleandoc
from pathlib import Path
from typing import NamedTuple

from tests.house import source

ROOT = Path(__file__).parents[2]
PAGE = "docs/reference/sdk.md"
FACE = "runs.workflows"
FIELDS_OF = {"step": "Traits"}
"""Functions whose arguments are the fields of a class beside them."""
DOCUMENT = re.compile(r"`?docs/([\w-]+)/([\w-]+)\.md(#[\w-]+)?`?")
PLACE = re.compile(
    r"^(<!-- (names|modules):\s(.+?) -->)\n.*?^<!-- end -->$", re.MULTILINE | re.DOTALL
)


class Found(NamedTuple):
    """A name where it is bound: the syntax, its module, and the words below an assignment."""

    node: ast.stmt
    module: ast.Module
    words: str = ""


class Row(NamedTuple):
    """A field or an argument."""

    name: str
    kind: str
    default: str
    words: str


def page(root: Path, text: str) -> str:
    """The whole page, made of the page as it is."""
    faces = source.imports(root / "runs/workflows/__init__.py")

    def filled(place: re.Match[str]) -> str:
        if place[2] == "modules":
            rows = [_module(root, line) for line in place[3].strip().splitlines()]
            made = "\n".join(["| name | is | has |", "|---|---|---|", *rows])
        else:
            public = [name for name in place[3].split() if name in faces]
            made = "\n\n".join(_entry(name, _find(root, faces[name])) for name in public)
        return f"{place[1]}\n\n{made}\n\n<!-- end -->"

    return PLACE.sub(filled, text)


def missing(root: Path, text: str) -> list[str]:
    """Public names that the page has no place for."""
    placed = {
        name
        for place in PLACE.finditer(text)
        for line in place[3].splitlines()
        for name in (line.split(":")[:1] if place[2] == "modules" else line.split())
    }
    return [name for name in source.public_names(root) if name not in placed]


def _find(root: Path, dotted: str) -> Found:
    """Where a dotted name is bound, through what packages take over from their modules."""
    module, _, name = dotted.rpartition(".")
    path = root / module.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    tree = source.tree(path)
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        match node:
            case ast.ClassDef(name=known) | ast.FunctionDef(name=known) if known == name:
                return Found(node, tree)
            case ast.Assign(targets=[ast.Name(id=known)]) if known == name:
                return Found(node, tree, _said(after))
    return _find(root, source.imports(path)[name])


def _said(node: ast.stmt | None) -> str:
    """The words of a docstring below an assignment; "" where there are none."""
    match node:
        case ast.Expr(value=ast.Constant(value=str(words))):
            return cleandoc(words)
    return ""


def _module(root: Path, line: str) -> str:
    """The row of a module, with the names in it that workflows use."""
    name, _, names = line.partition(":")
    home = f"{FACE}.base.{name}" if name == "pointers" else f"{FACE}.{name}"
    path = (root / home.replace(".", "/")).with_suffix(".py")
    about = _linked(ast.get_docstring(source.tree(path)) or "").split("\n\n")[0]
    has = "; ".join(_called(one, _find(root, f"{home}.{one}")) for one in names.split())
    return f"| `{name}` | {_cell(about)} | {has} |"


def _called(name: str, found: Found) -> str:
    arguments = ""
    if isinstance(found.node, ast.FunctionDef):
        arguments = f"({', '.join(one.name for one in _parameters(found.node, found.module, {}))})"
    return f"`{name}{arguments}`"


def _entry(name: str, found: Found) -> str:
    node, module, words = found
    parts = [f"### `{name}`"]
    match node:
        case ast.ClassDef():
            words, rows = ast.get_docstring(node) or "", list(_fields(node, module))
            rows += [row for made in _callables(node) for row in _parameters(made, module, {})]
            body, told = _sections(words)
        case ast.FunctionDef():
            body, told = _sections(ast.get_docstring(node) or "")
            beside: dict[str, str] = {}
            if named := FIELDS_OF.get(name):
                [kept] = [one for one in module.body if getattr(one, "name", "") == named]
                assert isinstance(kept, ast.ClassDef)
                beside = {row.name: row.words for row in _fields(kept, module)}
            rows = list(_parameters(node, module, {**beside, **told}))
        case ast.Assign():
            (body, told), rows = _sections(words), []
            if not isinstance(node.value, ast.Attribute):
                parts.append(f"`{name} = {_typed(node.value)}`")
    parts.append(_linked(body))
    if rows:
        head = "| name | type | default | is |\n|---|---|---|---|\n"
        parts.append(head + "\n".join(_row(row) for row in rows))
    if raised := told.get("Raises"):
        parts.append(f"Raises {_linked(raised)}")
    return "\n\n".join(part for part in parts if part)


def _row(row: Row) -> str:
    kind, default = (f"`{_cell(one)}`" if one else "" for one in (row.kind, row.default))
    return f"| `{row.name}` | {kind} | {default} | {_cell(_linked(row.words))} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def _linked(text: str) -> str:
    """Words with the documents that they name as links from this page."""

    def link(named: re.Match[str]) -> str:
        folder = "" if named[1] == "reference" else f"../{named[1]}/"
        return f"[{named[2].replace('-', ' ')}]({folder}{named[2]}.md{named[3] or ''})"

    return DOCUMENT.sub(link, text)


def _fields(node: ast.ClassDef, module: ast.Module) -> Iterator[Row]:
    """What a class holds and does, with what it has from classes beside it."""
    named = {getattr(base, "id", "") for base in node.bases}
    for base in module.body:
        if isinstance(base, ast.ClassDef) and base.name in named:
            yield from _fields(base, module)
    typed = any("TypedDict" in ast.unparse(base) for base in node.bases) or bool({"Actors"} & named)
    for part, after in zip(node.body, [*node.body[1:], None], strict=True):
        match part:
            case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
                kind = _typed(part.annotation)
                needed = re.fullmatch(r"Required\[(.+)\]", kind)
                kind = re.sub(r"^(?:Not)?Required\[(.+)\]$", r"\1", kind)
                default = "" if typed else _default(part.value, module)
                words = f"{'Required. ' if typed and needed else ''}{_said(after)}"
                yield Row(name, kind, default, words)
            case ast.Assign(targets=[ast.Name(id=name)]) if _said(after):
                yield Row(name, "", _default(part.value, module), _said(after))
            case ast.FunctionDef(name=name) if not name.startswith("_"):
                yield from _method(part, module)


def _method(node: ast.FunctionDef, module: ast.Module) -> Iterator[Row]:
    marks = {getattr(mark, "id", "") for mark in node.decorator_list}
    body, told = _sections(ast.get_docstring(node) or "")
    if "staticmethod" in marks:
        return
    kind = _typed(node.returns)
    arguments = ", ".join(one.name for one in _parameters(node, module, {}))
    name = node.name if "property" in marks else f"{node.name}({arguments})"
    more = "; ".join(f"`{key}`: {words.rstrip('.')}" for key, words in told.items() if words)
    yield Row(name, "" if kind == "None" else kind, "", " ".join([body, more and f"{more}."]))


def _callables(node: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    """How an exception is made and how a protocol is called, where the class says it."""
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name in {"__init__", "__call__"}:
            yield part


def _parameters(
    node: ast.FunctionDef, module: ast.Module, told: Mapping[str, str]
) -> Iterator[Row]:
    """The arguments, without those that are only there to be refused."""
    given = node.args
    places = [*given.posonlyargs, *given.args]
    without = len(places) - len(given.defaults)
    defaults: list[ast.expr | None] = [*[None] * without, *given.defaults]
    both = [
        *zip(places, defaults, strict=True),
        *zip(given.kwonlyargs, given.kw_defaults, strict=True),
    ]
    for argument, default in both:
        if argument.arg != "self":
            kind = _typed(argument.annotation)
            shown = _default(default, module)
            yield Row(argument.arg, kind, shown, told.get(argument.arg, ""))
    for stars, rest in (("*", given.vararg), ("**", given.kwarg)):
        if rest is not None and _typed(rest.annotation) != "Never":
            yield Row(f"{stars}{rest.arg}", _typed(rest.annotation), "", told.get(rest.arg, ""))


def _typed(node: ast.expr | None) -> str:
    return ast.unparse(node).replace("'", '"') if node else ""


def _default(node: ast.expr | None, module: ast.Module) -> str:
    """A default as it is written; "" for one that tells nothing, as a function of the module."""
    match node:
        case ast.Call(func=ast.Name(id="field"), keywords=keywords):
            made = {one.arg: one.value for one in keywords}
            if (factory := made.get("default_factory")) is not None:
                return {"dict": "{}", "list": "[]"}.get(ast.unparse(factory), "")
            return _default(made.get("default"), module)
        case ast.Name(id=name):
            known = [
                one.value
                for one in module.body
                if isinstance(one, ast.Assign) and getattr(one.targets[0], "id", "") == name
            ]
            return _default(known[0], module) if known else ""
        case ast.Constant() if node.value is not Ellipsis:
            return ast.unparse(node).replace("'", '"')
        case ast.Tuple(elts=[]) | ast.UnaryOp() | ast.BinOp():
            return ast.unparse(node)
    return ""


def _sections(docstring: str) -> tuple[str, dict[str, str]]:
    """A docstring's words, wrapped anew, and what it says of each argument and of `Raises`."""
    told: dict[str, str] = {}
    body: list[str] = []
    section = ""
    names: list[str] = []
    for line in docstring.splitlines():
        if line in {"Args:", "Raises:"}:
            section, names = line[:-1], []
        elif section and line.startswith("    "):
            entry = re.match(r" {4}([\w.]+(?:, [\w.]+)*): (.*)", line)
            if section == "Raises":
                told["Raises"] = f"{told.get('Raises', '')} {line.strip()}".strip()
                continue
            if entry:
                names = entry[1].split(", ")
            for name in names:
                told[name] = f"{told.get(name, '')} {entry[2] if entry else line.strip()}".strip()
        else:
            section = section if not line else ""
            body.append(line)
    paragraphs = re.split(r"\n{2,}", "\n".join(body).strip())
    return "\n\n".join(map(_paragraph, paragraphs)), told


def _paragraph(text: str) -> str:
    """A paragraph as Markdown: an example is code, a list stays one, words are wrapped anew."""
    if text.startswith("    "):
        return f"```python\n{textwrap.dedent(text)}\n```"
    if text.startswith("- "):
        return text
    return textwrap.fill(
        " ".join(text.split()), 130, break_long_words=False, break_on_hyphens=False
    )


if __name__ == "__main__":
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    (ROOT / PAGE).write_text(page(ROOT, text), encoding="utf-8")
