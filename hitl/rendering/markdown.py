"""Untrusted Markdown → safe HTML, and what its rendering leaves out of the text.

A text is approved as it is written, and programs get it so: what a reader of the rendering cannot
see (definitions, titles and addresses of links, images, cells that a table has no column for) is
named in `ReadMarkdown.notes`. They are computed from the two texts, not listed from Markdown's
rules alone: a word of the source that neither the rendering nor a note holds is a note too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Any
from urllib.parse import unquote

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

from checkpoints.text import invisible

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
WORDS = re.compile(r"[^\W_]+")
NUMBERED = re.compile(r"^[\s>*+-]*\d{1,9}[.)]", re.MULTILINE)
"""The number of a list's item, which the list shows as its own."""


@dataclass(frozen=True)
class ReadMarkdown:
    html: SafeString
    notes: Sequence[str]
    """What is in the text and not in the HTML; empty where the reader sees all of it."""


def render(text: str) -> SafeString:
    """Rendered and sanitised: no raw HTML, no images, links only to http(s) and mail, without
    referrer.
    """
    return _clean(_parser.render(text))


def read(text: str) -> ReadMarkdown:
    """The rendering of a text, with what it leaves out."""
    env: MutableMapping[str, Any] = {}
    tokens = _parser.parse(text, env)
    html = _clean(_parser.renderer.render(tokens, _parser.options, env))
    left = _Left()
    left.collect(tokens)
    left.definitions(env)
    notes = left.notes(html)
    if rest := _missing(text, html, left.texts):
        notes.append(f"Other words of the text are not in it: {_listed(rest)}.")
    if hidden := invisible.found(text):
        notes.append(
            "It holds characters that a screen does not show, marked where they stand: "
            f"{_listed(hidden)}."
        )
    return ReadMarkdown(html, notes)


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

    def __init__(self) -> None:
        self.links: list[str] = []
        self.titles: list[str] = []
        self.images: list[str] = []
        self.defined: list[str] = []
        self.labels: set[str] = set()
        """Of definitions that a link uses."""
        self.texts: list[str] = []
        """All that a note names: it is not looked for in the rendering again."""

    def collect(self, tokens: Sequence[Token]) -> None:
        for index, token in enumerate(tokens):
            if token.type == "link_open":
                self._link(token, "".join(_shown(tokens[index + 1 :])))
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
        kind.append(text)
        self.texts.append(text)

    def notes(self, html: str) -> list[str]:
        kinds = (
            ("Definitions that no link uses, such as comments: {}.", self.defined),
            ("Titles of links: {}.", self.titles),
            ("Images, which are not loaded: {}.", self.images),
            ("Links whose address is not their text: {}.", self.links),
        )
        return [sentence.format(_listed(urls)) for sentence, urls in kinds if urls]


def _shown(tokens: Sequence[Token]) -> Iterator[str]:
    """The text of a link, of what follows its beginning."""
    for token in tokens:
        if token.type == "link_close":
            return
        yield token.content


def _listed(names: Sequence[str]) -> str:
    named = "; ".join(
        name if len(name) <= LONGEST else f"{name[:LONGEST]}…" for name in names[:NOTES]
    )
    return f"{named}; and {len(names) - NOTES:,} more" if len(names) > NOTES else named


def _missing(text: str, html: str, named: Sequence[str]) -> list[str]:
    """Words of the text that are neither in the rendering, as often as in the text, nor named
    otherwise.
    """
    shown = unescape(re.sub(r"<[^>]*>", " ", html))
    seen = _words(shown) | _words(unescape(shown))  # in code an entity stands as it is written
    for one in named:
        seen += _words(one) | _words(unescape(unquote(one)))
    return list(_words(unescape(NUMBERED.sub("", text))) - seen)


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


def _made() -> MarkdownIt:
    parser = (
        MarkdownIt("commonmark", {"html": False, "linkify": False, "store_labels": True})
        .enable("table")
        .enable("strikethrough")
    )
    for name, show in (
        ("text", _text),
        ("code_inline", _code),
        ("fence", _block),
        ("code_block", _block),
        ("image", _image),
    ):
        parser.add_render_rule(name, _rule(show))
    return parser


_parser = _made()


_CODE_OR_ESCAPE = re.compile(
    (
        r"(^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\2[`~]*[ "
        r"\t]*$|\Z)|(`+)(?!`).*?(?<!`)\3(?!`))|\\([!-/:-@\[-`{-~])"
    ),
    re.MULTILINE | re.DOTALL,
)


def unescaped(text: str) -> str:
    """Markdown to be read as it is, as in a mail of plain text: without the backslashes that kept
    signs from being markup.

    In code a backslash is one, and stays.
    """
    return _CODE_OR_ESCAPE.sub(lambda found: found[1] or found[4], text)
