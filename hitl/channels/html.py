"""What a text in HTML says, as mails and chats hand it over.

It comes from strangers: nothing here raises for a text of any shape, and all of it takes time in
proportion to its size.
"""

from __future__ import annotations

import re
from contextlib import suppress
from html.parser import HTMLParser


class _Text(HTMLParser):
    """Collects the text."""

    BREAKS = frozenset({"br", "p", "div", "li", "tr", "h1", "h2", "h3"})
    SILENT = frozenset({"style", "script", "title", "head"})

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.silent, self.over = 0, False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        quotes = any(name == "class" and "quote" in (value or "") for name, value in attrs)
        self.over = self.over or tag == "blockquote" or quotes
        self.silent += tag in self.SILENT
        if tag in self.BREAKS:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self.silent -= tag in self.SILENT and self.silent > 0

    def handle_data(self, data: str) -> None:
        if not self.over and not self.silent:
            self.parts.append(re.sub(r"\s+", " ", data))


def text_of(html: str) -> str:
    """What an HTML text says, up to what it quotes."""
    reader = _Text()
    # the text ends with a declaration that is none, or an entity of thousands of digits
    with suppress(AssertionError, ValueError):
        reader.feed(html)
    return "".join(reader.parts)
