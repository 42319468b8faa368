"""The colours of code, as stretches of its lines. They mark text and never make it: what a line
says is drawn from the patch alone.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name, Number, String

from hitl.rendering.work import Work, WorkSpent

LONGEST_LINE = 500
"""Characters of a line; text with a longer one, which people do not read as code, has no
colours.
"""
LONGEST_TEXT = 40_000
"""Characters of one text: a lexer cannot be ended while it works."""
LEXERS = {
    "python": "py pyi", "javascript": "js mjs cjs jsx", "typescript": "ts tsx", "css": "css",
    "html": "html htm", "xml": "xml svg", "json": "json", "yaml": "yml yaml", "toml": "toml",
    "ini": "ini cfg", "bash": "sh bash", "sql": "sql", "c": "c h", "cpp": "cc cpp hpp cxx",
    "csharp": "cs", "go": "go", "java": "java", "kotlin": "kt", "php": "php", "ruby": "rb",
    "rust": "rs", "swift": "swift", "make": "mk", "docker": "dockerfile",
}  # fmt: skip
ALIASES = {suffix: alias for alias, suffixes in LEXERS.items() for suffix in suffixes.split()}
NAMES = {"makefile": "make", "dockerfile": "docker"}
CLASSES = (
    (Comment, "c"), (String, "s"), (Number, "m"), (Keyword, "k"),
    (Name.Function, "f"), (Name.Class, "f"), (Name.Tag, "k"), (Name.Decorator, "f"),
)  # fmt: skip
Stretch = tuple[int, int, str]
"""Where it begins and ends in its line, and its class."""


def of(path: str, lines: Sequence[str], work: Work) -> list[list[Stretch]]:
    """The stretches of each line, in order and apart from each other; none where the language is
    not known, where the text is too long, and where the work is used up.
    """
    found: list[list[Stretch]] = [[] for _ in lines]
    text = "\n".join(lines)
    lexer = _lexer(path)
    if lexer is None or len(text) > LONGEST_TEXT or max(map(len, lines), default=0) > LONGEST_LINE:
        return found
    try:
        work.spend(len(text))
    except WorkSpent:
        return found
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line) + 1)
    last = 0
    for at, token, value in lexer.get_tokens_unprocessed(text):
        name = _class(token)
        end = at + len(value)
        if not name or at < last:
            continue
        last = end
        number = bisect(begins, at) - 1
        while number < len(lines) and begins[number] < end:
            begin = begins[number]
            found[number].append((max(at - begin, 0), min(end - begin, len(lines[number])), name))
            number += 1
    return found


@lru_cache(maxsize=512)
def _class(token: Any) -> str:
    return next((name for kind, name in CLASSES if token in kind), "")


def _lexer(path: str) -> Any:
    name = PurePosixPath(path).name.lower()
    alias = NAMES.get(name) or ALIASES.get(name.rpartition(".")[2])
    return _made(alias) if alias else None


@lru_cache(maxsize=len(LEXERS))
def _made(alias: str) -> Any:
    return get_lexer_by_name(alias)
