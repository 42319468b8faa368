"""Characters that a screen does not show, made visible where people read what others wrote: a
marked chip in HTML, brackets in text.

Control characters, marks of writing direction, characters without width, tags and variation
selectors, fillers, and bytes that are no text. What such a character hides is approved unseen, so
every page, mail and view of reviewed content goes through `html` or `plain`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from html import escape as escape_text
from itertools import groupby

from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

CHIPS = 12
"""Kinds of characters in one stretch that are named; what is more is counted."""
SPELLED = 200
"""Characters that tags spell, shown with them."""
IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Unicode's Default_Ignorable_Code_Point, its separators of lines and paragraphs, its marks of
annotations, and the blank of Braille.
"""
STRETCH = re.compile(
    rf"(?:[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f{IGNORABLE}\ud800-\udfff]|\r(?!\n))+"
)
MARKED = re.compile(rf"""[&<>"']|{STRETCH.pattern}""")
"""What HTML shows otherwise than it is written."""
JOINER, EMOJI_STYLES = "\u200d", "\ufe0e\ufe0f"
NAMES = {
    0x08: "BACKSPACE", 0x0B: "LINE TABULATION", 0x0C: "FORM FEED", 0x0D: "CARRIAGE RETURN",
    0x1B: "ESCAPE", 0x7F: "DELETE", 0x85: "NEXT LINE",
}  # fmt: skip


@dataclass(frozen=True)
class Chip:
    """What stands for one character, or for several of a kind."""

    text: str
    label: str


def html(text: object) -> SafeString:
    """The text, escaped, with a chip in the place of each character that is not seen."""
    text = str(text)
    if MARKED.search(text) is None:  # nearly all texts
        return SafeString(text)
    if STRETCH.search(text) is None:  # as Django's `escape`, less what it asks
        return SafeString(escape_text(text))
    return mark_safe(  # noqa: S308  # each piece is escaped here or is our own chip
        "".join(
            _as_html(piece) if isinstance(piece, Chip) else escape(piece) for piece in pieces(text)
        )
    )


def plain(text: object) -> str:
    """The text with `⟦U+202E⟧` in the place of such a character: for mails, attributes and
    titles.
    """
    text = str(text)
    if STRETCH.search(text) is None:
        return text
    return "".join(
        f"⟦{piece.text}⟧" if isinstance(piece, Chip) else piece for piece in pieces(text)
    )


def found(text: str) -> list[str]:
    """Each kind of such characters in a text, once, as `U+202E RIGHT-TO-LEFT OVERRIDE`."""
    return list(dict.fromkeys(piece.label for piece in pieces(text) if isinstance(piece, Chip)))


def stretches_in(text: str) -> int:
    """How many stretches of such characters a text has: each is longer on a page than in it."""
    return sum(1 for _ in STRETCH.finditer(text))


def pieces(text: str) -> Iterator[str | Chip]:
    """The text in stretches: what is seen, and chips for what is not."""
    at = 0
    for stretch in STRETCH.finditer(text):
        begin, end = stretch.span()
        if _is_of_an_emoji(text, begin, end):
            continue
        if text[at:begin]:
            yield text[at:begin]
        hidden = stretch.group()
        # a text that hides something mostly hides the same thing again and again
        yield from _few_chips(hidden) if len(hidden) <= CHIPS else _chips(hidden)
        at = end
    if text[at:]:
        yield text[at:]


def lines_of(text: str) -> list[str]:
    """The lines of a text as git counts them: `\n` ends one, and none of the ten others that
    `str.splitlines` takes for an end.
    """
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _is_of_an_emoji(text: str, begin: int, end: int) -> bool:
    """Whether the stretch is a style of the picture before it, or joins it with the picture behind:
    that is seen.
    """
    stretch, before, after = text[begin:end], text[begin - 1 : begin], text[end : end + 1]
    if not before or not (_is_picture(before) or (before in "0123456789#*" and after == "\u20e3")):
        return False
    return stretch in EMOJI_STYLES or (
        stretch.lstrip(EMOJI_STYLES) == JOINER and len(stretch) <= 2 and _is_picture(after)
    )


def _is_picture(character: str) -> bool:
    return bool(character) and unicodedata.category(character) in {"So", "Sk", "Sm"}


@lru_cache(maxsize=512)
def _few_chips(stretch: str) -> tuple[Chip, ...]:
    return tuple(_chips(stretch))


def _chips(stretch: str) -> Iterator[Chip]:
    groups = [(kind, "".join(characters)) for kind, characters in groupby(stretch, _kind)]
    for kind, characters in groups[:CHIPS]:
        yield _chip(kind, characters)
    if left := sum(len(characters) for _, characters in groups[CHIPS:]):
        yield Chip(f"+{left:,} more", f"{left:,} more characters that are not seen")


def _kind(character: str) -> str:
    """Tags and variation selectors in a row make one chip: they spell something."""
    if "\U000e0000" <= character <= "\U000e007f":
        return "tags"
    return "selectors" if "\U000e0100" <= character <= "\U000e01ef" else character


def _chip(kind: str, characters: str) -> Chip:
    count = len(characters)
    if kind == "tags":
        spelled = "".join(
            chr(ord(character) - 0xE0000)
            for character in characters[:SPELLED]
            if 0xE0020 <= ord(character) < 0xE007F
        )
        more = "…" if count > SPELLED else ""
        return Chip(
            f"tags: {spelled}{more}",
            f"{count:,} tag characters (U+E0000–E007F), which spell “{spelled}{more}”",
        )
    if kind == "selectors":
        return Chip(f"selectors ×{count:,}", f"{count:,} variation selectors (U+E0100–E01EF)")
    times = f" ×{count:,}" if count > 1 else ""
    code = ord(kind)
    if 0xDC80 <= code <= 0xDCFF:
        return Chip(
            f"byte {code - 0xDC00:02X}{times}", f"Byte {code - 0xDC00:02X}{times}, which is no text"
        )
    name = NAMES.get(code) or unicodedata.name(
        kind, "half a character" if 0xD800 <= code <= 0xDFFF else "CONTROL CHARACTER"
    )
    # no picture such as ␛: few fonts have those
    return Chip(f"U+{code:04X}{times}", f"U+{code:04X} {name}{times}")


@lru_cache(maxsize=512)
def _as_html(chip: Chip) -> SafeString:
    return format_html(
        '<span class="unseen" role="img" aria-label="{}" title="{}">{}</span>',
        chip.label,
        chip.label,
        chip.text,
    )
