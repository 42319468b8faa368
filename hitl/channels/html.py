"""The plain text of HTML that mails and chats bring.

The HTML comes from strangers: no text makes a function here raise, and each function takes time in
proportion to the text's size.
"""

from __future__ import annotations

import re
from contextlib import suppress
from html.parser import HTMLParser


class _TextCollector(HTMLParser):
    """Collects the text before the first quotation, without what a page does not show."""

    BREAKS = frozenset({"br", "p", "div", "li", "tr", "h1", "h2", "h3"})
    SILENT = frozenset({"style", "script", "title", "head"})

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.silent_depth, self.quotation_began = 0, False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        quotes = any(name == "class" and "quote" in (value or "") for name, value in attrs)
        self.quotation_began = self.quotation_began or tag == "blockquote" or quotes
        self.silent_depth += tag in self.SILENT
        if tag in self.BREAKS:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self.silent_depth -= tag in self.SILENT and self.silent_depth > 0

    def handle_data(self, data: str) -> None:
        if not self.quotation_began and not self.silent_depth:
            self.parts.append(re.sub(r"\s+", " ", data))


def text_of(html: str) -> str:
    """Return the plain text of an HTML text, up to its first quotation."""
    reader = _TextCollector()
    # HTMLParser raises for some broken declarations, and for an entity of thousands of digits
    with suppress(AssertionError, ValueError):
        reader.feed(html)
    return "".join(reader.parts)
