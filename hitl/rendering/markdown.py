"""Untrusted Markdown → safe HTML, and what its rendering leaves out of the text.

A text is approved as it is written, and programs get it so: what a reader of the rendering cannot
see (definitions, titles and addresses of links, images, cells that a table has no column for) is
named in `ReadMarkdown.notes`. They are computed from the two texts, not listed from Markdown's
rules alone: a word of the source that neither the rendering nor a note holds is a note too.

Reading takes linear time and has an end: each text may cost `limits.MARKDOWN_WORK`, all of a page
`limits.MARKDOWN_PAGE`. What is beyond that is shown as it is written, and says so. A text is read
once; its rendering is kept under the digest of the text, in the memory of the process alone.
"""

from __future__ import annotations

import hashlib
import html
import re
from bisect import bisect_right
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any
from urllib.parse import unquote

import nh3
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext
from markdown_it.token import Token

from checkpoints.text import invisible
from hitl.rendering.grammar import Grammar
from hitl.rendering.work import Work, WorkSpent
from runs import limits

TAGS = {
    "p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "strong", "em", "s",
    "code", "pre",
    "blockquote", "table", "thead", "tbody", "tr", "th", "td", "a", "del", "ins", "span",
}  # fmt: skip
ATTRIBUTES = {"a": {"href"}, "ol": {"start"}, "span": {"class", "role", "aria-label", "title"}}
"""No source holds a span: raw HTML is shown as the text that it is.

The spans are those of `unseen`.
"""
NOTES = 20
"""Things of one kind that are named; what is more is counted."""
LONGEST = 200
"""Characters of one of them."""
CHARACTERS = 10
"""Characters that cost as much as one token."""
CHIP = 5
"""Tokens that cost as much as what stands for characters that are not seen."""
NAMED = 3
"""Tokens that cost as much as what a note may name."""
KEPT = 8_000_000
"""Characters of renderings that a process keeps."""
WORDS = re.compile(r"[^\W_]+")
NUMBERED = re.compile(r"^[ \t>*+-]*\d{1,9}[.)]", re.MULTILINE)
"""The number of a list's item, which the list shows as its own."""
LONG_NUMBER = re.compile(r"&(?=#[0-9]{8})")
"""Begins what is no entity, since no character has such a number."""


@dataclass(frozen=True)
class ReadMarkdown:
    html: SafeString
    notes: Sequence[str]
    """What is in the text and not in the HTML; empty where the reader sees all of it."""
    work: int
    """What reading it cost, also where that was done before."""


class MarkdownPage:
    """The texts of one page: together they may cost `limits.MARKDOWN_PAGE`."""

    def __init__(self) -> None:
        self.left = limits.MARKDOWN_PAGE
        self._read: dict[str, ReadMarkdown] = {}

    def read(self, text: str) -> ReadMarkdown:
        """The rendering of a text: the same one each time that the page asks for it."""
        if text not in self._read:
            self._read[text] = read(text) if self.left > 0 else _as_written(text, work=0)
            self.left -= self._read[text].work
        return self._read[text]


def render(text: str) -> SafeString:
    """Rendered and sanitised: no raw HTML, no images, links only to http(s) and mail, without
    referrer.
    """
    return read(text).html


def read(text: str) -> ReadMarkdown:
    """The rendering of a text, with what it leaves out."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    reading = _kept.get(digest)
    if reading is _UNREAD:
        reading = _rendered(text)
        _kept.keep(digest, reading)
    return reading or _as_written(text, work=limits.MARKDOWN_WORK)


def _rendered(text: str) -> ReadMarkdown | None:
    """The rendering of a text; None for one that costs too much."""
    work = Work(limits.MARKDOWN_WORK)
    env: MutableMapping[str, Any] = {}
    left = _Left(work)
    try:
        work.spend(text.count("\n") + len(text) // CHARACTERS)
        work.spend(invisible.stretches_in(text) * CHIP)
        tokens = _grammar.tokens(text, env, work)
        left.collect(tokens)
        left.definitions(env)
    except WorkSpent:
        return None
    shown = _clean(_grammar.renderer.render(tokens, _grammar.options, env))
    notes = left.notes()
    if rest := _missing(text, shown, left.texts):
        notes.append(f"Other words of the text are not in it: {_listed(rest)}.")
    return ReadMarkdown(shown, notes + _hidden(text), limits.MARKDOWN_WORK - work.left)


def _as_written(text: str, *, work: int) -> ReadMarkdown:
    """A text that costs too much to be read: nothing is left out of it."""
    said = gettext("This text is shown as it is written: it has too much Markdown to be rendered.")
    shown = format_html('<p class="quiet">{}</p><pre>{}</pre>', said, invisible.html(text))
    return ReadMarkdown(shown, _hidden(text), work)


def _hidden(text: str) -> list[str]:
    hidden = invisible.found(text)
    marked = "It holds characters that a screen does not show, marked where they stand: "
    return [f"{marked}{_listed(hidden)}."] if hidden else []


class _Kept:
    """Renderings of the texts that were shown last, each under the digest of its text."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._readings: OrderedDict[bytes, ReadMarkdown | None] = OrderedDict()
        self._size = 0

    def get(self, digest: bytes) -> ReadMarkdown | None:
        """The rendering, None where the text costs too much; `_UNREAD` where none is kept."""
        with self._lock:
            reading = self._readings.get(digest, _UNREAD)
            if reading is not _UNREAD:
                self._readings.move_to_end(digest)
        return reading

    def keep(self, digest: bytes, reading: ReadMarkdown | None) -> None:
        with self._lock:
            if digest not in self._readings:
                self._size += _size_of(reading)
            self._readings[digest] = reading
            while self._size > KEPT:
                _, gone = self._readings.popitem(last=False)
                self._size -= _size_of(gone)


def _size_of(reading: ReadMarkdown | None) -> int:
    """Its characters, and some for its place."""
    return 500 + (len(reading.html) + sum(map(len, reading.notes)) if reading else 0)


_UNREAD = ReadMarkdown(SafeString(""), [], 0)
_kept = _Kept()


def _clean(html: str) -> SafeString:
    cleaned = nh3.clean(
        html,
        tags=TAGS,
        attributes=ATTRIBUTES,
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
    )
    return mark_safe(cleaned)  # noqa: S308  # cleaned on the line above


class _Left:
    """What the tokens of a text hold and its rendering does not show."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.links: list[str] = []
        self.titles: list[str] = []
        self.images: list[str] = []
        self.defined: list[str] = []
        self.labels: set[str] = set()
        """Of definitions that a link uses."""
        self.texts: list[str] = []
        """All that a note names: it is not looked for in the rendering again."""

    def collect(self, tokens: Sequence[Token]) -> None:
        """Raises WorkSpent."""
        for index, token in enumerate(tokens):
            # a definition is written once, and what it says stands at each link that uses it
            self.work.spend(sum(len(str(value)) for value in token.attrs.values()) // CHARACTERS)
            if token.type == "link_open":
                self._link(token, "".join(_shown(tokens, index + 1)))
            elif token.type == "image":
                self._keep(self.images, f"“{token.content}” from {token.attrs.get('src', '')}")
            if token.type in {"link_open", "image"}:
                if title := token.attrs.get("title"):
                    self._keep(self.titles, str(title))
                if label := token.meta.get("label"):
                    self.labels.add(str(label))
                    self.texts.append(str(label))
            if token.children:
                self.collect(token.children)

    def _link(self, token: Token, shown: str) -> None:
        target = str(token.attrs.get("href", ""))
        if target not in {shown, f"mailto:{shown}"}:
            self._keep(self.links, f"“{shown}” to {target}")

    def definitions(self, env: MutableMapping[str, Any]) -> None:
        for label, meant in env.get("references", {}).items():
            if label not in self.labels:
                self._define(label, meant)
            else:
                self.texts.append(label)
        for meant in env.get("duplicate_refs", []):
            self._define(meant.get("label", ""), meant)

    def _define(self, label: str, meant: MutableMapping[str, Any]) -> None:
        self._keep(
            self.defined,
            " ".join(filter(None, (f"[{label}]:", meant.get("href", ""), meant.get("title", "")))),
        )

    def _keep(self, kind: list[str], text: str) -> None:
        self.work.spend(NAMED + len(text) // CHARACTERS)
        kind.append(text)
        self.texts.append(text)

    def notes(self) -> list[str]:
        kinds = (
            ("Definitions that no link uses, such as comments: {}.", self.defined),
            ("Titles of links: {}.", self.titles),
            ("Images, which are not loaded: {}.", self.images),
            ("Links whose address is not their text: {}.", self.links),
        )
        return [sentence.format(_listed(urls)) for sentence, urls in kinds if urls]


def _shown(tokens: Sequence[Token], at: int) -> Iterator[str]:
    """The text of a link, of what follows its beginning."""
    while at < len(tokens) and tokens[at].type != "link_close":
        yield tokens[at].content
        at += 1


def _listed(names: Sequence[str]) -> str:
    named = "; ".join(
        name if len(name) <= LONGEST else f"{name[:LONGEST]}…" for name in names[:NOTES]
    )
    return f"{named}; and {len(names) - NOTES:,} more" if len(names) > NOTES else named


def _missing(text: str, shown: str, named: Sequence[str]) -> list[str]:
    """Words of the text that are neither in the rendering, as often as in the text, nor named
    otherwise.
    """
    plain = re.sub(r"<[^>]*>", " ", shown)
    seen = _words(unescape(plain))
    seen |= _words(unescape(unescape(plain)))  # in code an entity stands as it is written
    for name in named:
        seen.update(_words(name) | _words(unescape(unquote(name))))
    return list(_words(unescape(NUMBERED.sub("", text))) - seen)


def unescape(text: str) -> str:
    """The text without entities; a number that no character can have stays."""
    return html.unescape(LONG_NUMBER.sub(" ", text))


def _words(text: str) -> Counter[str]:
    return Counter(WORDS.findall(text.lower()))


def _rule(show: Callable[[Token], str]) -> Callable[..., str]:
    """What markdown-it asks for the HTML of a token."""
    return lambda renderer, tokens, index, options, env: show(tokens[index])


def _text(token: Token) -> str:
    return invisible.html(token.content)


def _code(token: Token) -> str:
    return f"<code>{invisible.html(token.content)}</code>"


def _block(token: Token) -> str:
    language = token.info.strip()
    named = f'<span class="language">{invisible.html(language)}\n</span>' if language else ""
    return f"<pre>{named}<code>{invisible.html(token.content)}</code></pre>\n"


def _image(token: Token) -> str:
    return f"<em>[image: {invisible.html(token.content)}]</em>"


def _made() -> Grammar:
    grammar = Grammar()
    for name, show in (
        ("text", _text),
        ("code_inline", _code),
        ("fence", _block),
        ("code_block", _block),
        ("image", _image),
    ):
        grammar.add_render_rule(name, _rule(show))
    return grammar


_grammar = _made()


SIGNS = re.compile(
    r"^ {0,3}(?P<fence>`{3,}(?=[^`\n]*$)|~{3,})|(?P<ticks>`+)|\\(?P<sign>[!-/:-@\[-`{-~])",
    re.MULTILINE,
)
"""What begins code, or is escaped."""
FENCE_END = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t]*$", re.MULTILINE)


def unescaped(text: str) -> str:
    """Markdown to be read as it is, as in a mail of plain text: without the backslashes that kept
    signs from being markup.

    In code a backslash is one, and stays.
    """
    runs: dict[int, list[int]] = defaultdict(list)
    for run in re.finditer("`+", text):
        runs[len(run[0])].append(run.start())
    parts, at = [], 0
    while sign := SIGNS.search(text, at):
        parts.append(text[at : sign.start()])
        if sign["sign"]:
            parts.append(sign["sign"])
            at = sign.end()
            continue
        if sign["fence"]:
            at = _end_of_fence(text, sign["fence"], sign.end())
        else:
            length = len(sign["ticks"])
            later = bisect_right(runs[length], sign.start())
            closed = later < len(runs[length])
            at = (runs[length][later] if closed else sign.start()) + length
        parts.append(text[sign.start() : at])
    return "".join([*parts, text[at:]])


def _end_of_fence(text: str, fence: str, at: int) -> int:
    """Where the code ends that the fence began: behind a line of at least as many of its signs,
    else with the text.
    """
    ends = (
        end.end()
        for end in FENCE_END.finditer(text, at)
        if end[1][0] == fence[0] and len(end[1]) >= len(fence)
    )
    return next(ends, len(text))
