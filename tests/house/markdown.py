"""Markdown pages as the check reads them: links, anchors, code spans and rows of tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

READER = MarkdownIt("commonmark").enable("table")
ID = re.compile(r"""<\w+[^>]*\s(?:id|name)=["']([^"']+)["']""")


class Link(NamedTuple):
    line: int
    target: str


class Span(NamedTuple):
    line: int
    code: str


@dataclass(frozen=True)
class Page:
    """One Markdown file."""

    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tokens(self) -> list[Token]:
        return READER.parse(self.text)

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    def _inline(self) -> Iterator[tuple[int, Token]]:
        """Each inline token with the line on which it begins, from 1."""
        line = 1
        for token in self.tokens:
            line = token.map[0] + 1 if token.map else line
            here = line
            for child in token.children or ():
                yield here, child
                here += child.type in {"softbreak", "hardbreak"}

    @cached_property
    def links(self) -> list[Link]:
        """Targets of links and images."""
        return [
            Link(line, str(token.attrs["href" if token.type == "link_open" else "src"]))
            for line, token in self._inline()
            if token.type in {"link_open", "image"}
        ]

    @cached_property
    def spans(self) -> list[Span]:
        """Code spans, without those in code blocks."""
        return [
            Span(line, token.content)
            for line, token in self._inline()
            if token.type == "code_inline"
        ]

    @cached_property
    def ids(self) -> list[str]:
        """Anchors that HTML in the page names, as often as it names them."""
        return ID.findall(
            "\n".join(
                token.content
                for token in [*self.tokens, *(child for _, child in self._inline())]
                if token.type in {"html_block", "html_inline"}
            )
        )

    @cached_property
    def anchors(self) -> set[str]:
        """What a link into the page may end with: ids, and slugs of headings as GitHub has them."""
        found: set[str] = set(self.ids)
        for before, token in zip(self.tokens, self.tokens[1:], strict=False):
            if before.type == "heading_open":
                words = "".join(
                    child.content
                    for child in token.children or ()
                    if child.type in {"text", "code_inline"}
                )
                slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
                again = 0
                while f"{slug}-{again}" in found or (not again and slug in found):
                    again += 1
                found.add(f"{slug}-{again}" if again else slug)
        return found

    @cached_property
    def rows(self) -> list[list[str]]:
        """The cells of each row of its tables, as written."""
        lines = (line.strip() for line in self.text.splitlines())
        return [
            [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
            for line in lines
            if line.startswith("|") and not set(line) <= set("|-: ")
        ]

    @cached_property
    def entries(self) -> dict[str, str]:
        """What its tables are about: each code span of a first cell, with the whole row."""
        return {
            code: " | ".join(row) for row in self.rows for code in re.findall(r"`([^`]+)`", row[0])
        }
