"""Texts of templates that a person reads and that are not marked: no language can have them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from django.template.base import Lexer, TokenType

READ = {"title", "aria-label", "aria-description", "placeholder", "alt", "data-gone", "data-words"}
"""Attributes whose text a person reads or hears."""
CODE = {"script", "style", "kbd", "code", "pre"}
SKIPPED_BLOCKS = {"shape", "scripts", "extrastyle", "marks"}
"""They hold classes, attributes and links, no texts."""
WORD = re.compile(r"[^\W\d_]{2,}")
LABEL = re.compile(r"""\b\w+=("[A-Z][^"]*"|"[^"]+ [^"]+")""")
IN_FILTER = re.compile(
    r"""\|(?:default|default_if_none|yesno|pluralize)(?::"[^"]*[A-Za-z][^"]*")?(?=[|\s}]|$)"""
)
BEFORE = re.compile(r"""(?<![(])"[A-Z][^"]*\"""")
NAMES = {"Waystation", "API", "id", "sha256", "ckpt", "URL"}
"""Names, which are the same in every language."""
EXCEPTIONS = {
    "hitl/forms/_schema_aria.html": {  # attributes, put into a tag of another template
        'aria-describedby="',
        'aria-invalid="true"',
        'aria-required="true"',
        "autofocus",
    },
    "hitl/operations/failures.html": {"step_error"},  # a code of ours
    "hitl/starts/start.html": {"/api/v1/inbound/", "/start"},  # an address
}
"""Template → texts in it that stay as they are, with the reason beside them."""
ENGLISH = {"drf_spectacular/swagger_ui.html"}
"""For programmers, as the document that it shows."""
OPEN = ("blocktranslate", "blocktrans", "comment", "verbatim")


def unmarked(name: str, source: str) -> Iterator[str]:
    """Yield the texts of a template that are not marked, each with its line."""
    allowed = EXCEPTIONS.get(name, set())
    for line, text in _texts(source, plain=name.endswith(".txt")):
        said = " ".join(text.split())
        words = [word for word in WORD.findall(said) if word not in NAMES]
        if words and said not in allowed:
            yield f"{name}:{line}: {said!r} is not marked"


def _texts(source: str, *, plain: bool) -> Iterator[tuple[int, str]]:
    html, closing = "", ""
    for token in Lexer(source).tokenize():
        first = token.contents.split()[:2] if token.token_type == TokenType.BLOCK else []
        lines = "\n" * token.contents.count("\n")
        if closing:
            closing = "" if first[:1] == [closing] else closing
            html += lines
        elif first and (first[0] in OPEN or (first[0] == "block" and first[-1] in SKIPPED_BLOCKS)):
            closing = f"end{first[0]}"
        elif token.token_type == TokenType.TEXT:
            html += token.contents
        elif token.token_type in (TokenType.BLOCK, TokenType.VAR):
            contents = token.contents
            if first[:1] and first[0] in {"include", "component"}:
                for label in LABEL.findall(contents.replace(f"{first[0]} {first[1]}", "")):
                    yield token.lineno or 0, label.strip('"')
            if first[:1] and first[0] in {"since", "until"}:
                for words in BEFORE.findall(contents):
                    yield token.lineno or 0, words
            for words in IN_FILTER.findall(contents):
                yield token.lineno or 0, words
            html += " \x00 " + lines
    if plain:
        yield from ((0, part) for part in html.split("\x00"))
        return
    reader = _Reader()
    reader.feed(html)
    reader.close()
    yield from reader.found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[int, str]] = []
        self.inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in CODE:
            self.inside.append(tag)
        for name, value in attrs:
            if name in READ and value:
                self._keep(value)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.inside:
            self.inside.remove(tag)

    def handle_data(self, data: str) -> None:
        if not self.inside:
            self._keep(data)

    def _keep(self, text: str) -> None:
        self.found += [(self.getpos()[0], part) for part in text.split("\x00") if part.strip()]


def everywhere(root: Path) -> list[str]:
    return [
        line
        for path in sorted((root / "templates").rglob("*.*"))
        if path.suffix in {".html", ".txt"}
        and str(path.relative_to(root / "templates")) not in ENGLISH
        for line in unmarked(str(path.relative_to(root / "templates")), path.read_text())
    ]
