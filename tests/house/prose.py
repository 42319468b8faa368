"""The rules of the house for docstrings and comments: what they name is there, what they show runs.

A name that has moved, an example that a new wrapping broke, the number of a requirement and a
banner fail. Each message names the line.
"""

from __future__ import annotations

import ast
import builtins
import io
import re
import textwrap
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.house import documents, source

PRODUCT = ("checkpoints", "runs", "hitl", "project", "extensions")
NUMBER = re.compile(r"\bS[0-4]-\d+|\b[CFP]\d{1,2}\b(?!-)|\bSPEC\b|\bS[0-4]\b")
"""The number of a requirement, of a promise, or of a document."""
NO_NAME = re.compile(r".*\.(?:\d+|css|html|internal|js|json|md|org|py|ya?ml)")
"""Files, hosts and places in lists, which look like names."""
VARIABLES = {"graph"}
"""Names in examples that are modules' too."""
RAISES = re.compile(r"\b[Rr]aises? ((?:\w+\.)*[A-Z]\w*[a-z]\w*)\b(?!\.\w)")
LIBRARIES = {"IntegrityError", "ValidationError"}
"""Exceptions of Django that a docstring may name without an import."""
CODE = re.compile(r"`[^`]*`")
SPAN = re.compile(r"(?<![`\w])`{1,2}([A-Za-z_]\w*(?:\.\w+)+)(?:\([^`]*\))?`")
OURS = re.compile(rf"(?<![\w./@-])(?:{'|'.join(PRODUCT)})(?:\.[A-Za-z_]\w*)+(?![\w/-])")
BANNER = re.compile(r"\s*#\s*(?:-- |.*[-=~─—*#]{4,}\s*$)")
INDENTED = re.compile(r"((?:^|\n\n)(?: {4}.*(?:\n|$)|\n(?= {4}))+)")


@dataclass(frozen=True)
class Text:
    """A docstring or a comment."""

    place: str
    line: int
    words: str
    comment: bool


def problems(root: Path) -> list[str]:
    """Everything that docstrings and comments below a folder say wrongly, one line each."""
    texts = [text for path in modules(root, PRODUCT) for text in read(root, path)]
    rules = (numbers, names, examples)
    return [*banners(root), *(found for rule in rules for found in rule(root, texts))]


def modules(root: Path, folders: tuple[str, ...]) -> Iterator[Path]:
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            parts = path.relative_to(root)
            if not {"__pycache__", ".artifacts"} & set(parts.parts):
                yield path


def read(root: Path, path: Path) -> Iterator[Text]:
    """Every docstring of a module, below names too, and every comment."""
    place = path.relative_to(root).as_posix()
    for node in source.statements(path):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            words = re.sub(rf"^ {{{node.col_offset}}}", "", node.value.value, flags=re.MULTILINE)
            yield Text(place, node.lineno, words, comment=False)
    text = path.read_text(encoding="utf-8")
    # half of the modules have no comment, and to take one apart is most of the work
    for token in tokenize.generate_tokens(io.StringIO(text if "#" in text else "").readline):
        if token.type == tokenize.COMMENT:
            yield Text(place, token.start[0], token.string, comment=True)


def numbers(root: Path, texts: list[Text]) -> Iterator[str]:
    """Numbers of requirements, which live in tests and documents."""
    for text in texts:
        if found := NUMBER.search(CODE.sub("", text.words)):
            yield f"{text.place}:{text.line}: {found[0]} tells a reader nothing. Say the reason."


def banners(root: Path) -> Iterator[str]:
    """Comments that draw a line: what stands below one wants a module, or nothing."""
    for path in modules(root, (*PRODUCT, "bench", "client", "tests")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if BANNER.match(line):
                place = f"{path.relative_to(root).as_posix()}:{number}"
                yield f"{place}: a banner. Take it out, or make a module of the part."


def names(root: Path, texts: list[Text]) -> Iterator[str]:
    """Names of ours that lead nowhere."""
    for text in texts:
        words = {match[0] for match in OURS.finditer(text.words)}
        for kind in (SPAN, RAISES):
            words |= set(kind.findall(text.words))
        for name in sorted(words):
            if not NO_NAME.fullmatch(name) and not leads(root, text.place, name):
                yield f"{text.place}:{text.line}: {name} is no module of ours, nor a name in one."


def leads(root: Path, place: str, dotted: str) -> bool:
    """Whether a name leads somewhere, or is none of ours."""
    first, _, rest = dotted.partition(".")
    if not rest:
        return dotted in source.imports(root / place).keys() | _classes(root) | LIBRARIES
    if first in PRODUCT:
        return documents.known(root, dotted)
    bound = source.imports(root / place)
    if first in bound:
        return not bound[first].startswith(source.ROOTS) or source.exists(
            root, f"{bound[first]}.{rest}"
        )
    own = place.removesuffix(".py").replace("/", ".")
    if source.exists(root, f"{own}.{first}"):
        return source.exists(root, f"{own}.{dotted}")
    namesakes = _modules(root).get(first, [])
    return (
        not namesakes
        or first in VARIABLES
        or any(source.exists(root, f"{module}.{rest}") for module in namesakes)
    )


@cache
def _modules(root: Path) -> dict[str, list[str]]:
    """The product's modules by the last part of their name."""
    found = defaultdict(list)
    for app in PRODUCT:
        for path in (root / app).rglob("*.py"):
            name = path.parent if path.stem == "__init__" else path.with_suffix("")
            found[name.name].append(".".join(name.relative_to(root).parts))
    return found


@cache
def _classes(root: Path) -> set[str]:
    """Every class of the product, and what Python has."""
    declared = re.compile(r"^ *class (\w+)", re.MULTILINE)
    return set(dir(builtins)) | {
        name
        for app in PRODUCT
        for path in (root / app).rglob("*.py")
        for name in declared.findall(path.read_text(encoding="utf-8"))
    }


def examples(root: Path, texts: list[Text]) -> Iterator[str]:
    """Code in docstrings that is no Python: an indented block, as in the SDK's."""
    for text in texts:
        if text.comment:
            continue
        for block in INDENTED.findall(text.words.partition("\n")[2]):
            code = textwrap.dedent(block)
            if looks_like_code(code):
                try:
                    ast.parse(code)
                except SyntaxError as error:
                    yield f"{text.place}:{text.line}: an example does not parse: {error}."


def looks_like_code(block: str) -> bool:
    return re.search(r"^(?:from \w|import |@\w|def |class )|\w\(.*[\"'=]", block, re.M) is not None
