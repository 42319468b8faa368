"""English that is left over on a page, in a mail or in a message in another language.

A word is English where the texts of the catalogues have it and their translations have not.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache
from html.parser import HTMLParser

from babel.messages.pofile import read_po

from hitl.rendering.catalogues import ROOT

WORD = re.compile(r"[^\W\d_]{2,}")
FUNCTION_WORDS = frozenset(
    "about after again all an and any are as asked at be been before but by can each for from has "  # noqa: SIM905
    "have how if into is it its more most no nobody none not nothing of on one only or other out "
    "over so some than that the their them then there these they this to until was what when where "
    "which who whose with without you your".split()
)
"""What no English sentence does without."""
READ = {"title", "aria-label", "aria-description", "placeholder", "alt", "data-gone"}
UNREAD = {"script", "style", "template", "code", "pre", "kbd", "textarea"}
UNREAD_CLASSES = {"material-symbols-outlined", "log", "of-log", "doc", "patch", "words", "gist"}
"""Names of pictures, and what code and agents wrote: logs, documents, patches, what
changed in them, and how they begin.
"""
CODE = re.compile(r"https?://\S+|\w+(?:[-._:/]\w+)+|\w*\d\w*|\S*\*{3,}\S*")
"""Names in code: slugs, functions, ids, digests, addresses, and masked secrets, of which the first
letters may make a word (a salt "My****").
"""
VOID = {"input", "img", "br", "hr", "wbr", "meta", "link", "path", "rect", "circle", "line"}


def words_of(text: str) -> set[str]:
    return {
        word.casefold()
        for word in WORD.findall(re.sub(r"%\(\w+\)s|\{\{\w+\}\}|<[^>]+>", " ", text))
    }


@cache
def english_alone() -> frozenset[str]:
    """Words that our English texts have, and our German ones have not."""
    english, german = set(FUNCTION_WORDS), set[str]()
    for name in ("django", "djangojs"):
        with (ROOT / f"de/LC_MESSAGES/{name}.po").open("rb") as file:
            for message in read_po(file):
                for texts, kept in ((message.id, english), (message.string, german)):
                    for text in [texts] if isinstance(texts, str) else texts or ():
                        kept |= words_of(text)
    return frozenset(english - german)


class Reader(HTMLParser):
    """The texts of a page that a person reads or hears."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[tuple[str, bool]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        had = dict(attrs)
        unread = (
            tag in UNREAD
            or had.get("lang") == "en"
            or had.get("translate") == "no"
            or any(name in UNREAD_CLASSES for name in (had.get("class") or "").split())
        )
        if not unread and not any(unread for _, unread in self.open):
            self.texts += [had[name] or "" for name in READ & had.keys()]
        if tag not in VOID:
            self.open.append((tag, unread))

    def handle_endtag(self, tag: str) -> None:
        if tag in {name for name, _ in self.open}:
            while self.open.pop()[0] != tag:
                pass

    def handle_data(self, data: str) -> None:
        if data.strip() and not any(unread for _, unread in self.open):
            self.texts.append(" ".join(data.split()))


def of_page(html: str, names: Collection[str]) -> Iterator[str]:
    """Yield the texts of a page that hold English; `names` are what others called things."""
    reader = Reader()
    reader.feed(html)
    yield from of_texts(reader.texts, names)


def of_texts(texts: Collection[str], names: Collection[str]) -> Iterator[str]:
    known, longest_first = english_alone(), sorted(names, key=len, reverse=True)
    for text in dict.fromkeys(texts):
        said = text
        for name in longest_first:
            said = said.replace(name, " ")
        if found := words_of(CODE.sub(" ", said)) & known:
            yield f"{text[:160]!r}: {', '.join(sorted(found))}"
