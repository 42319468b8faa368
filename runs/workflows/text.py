"""Text that others wrote, in Markdown that nothing of it can break out of; and counts in words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

PLACE = re.compile(r"\{([^{}]{1,60})\}")
MARKS = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|[*_`~]{1,3}(?=\S)|(?<=\S)[*_`~]{1,3}")
ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
SENTENCE = re.compile(r"(?<=[.!?…])\s+(?=[^a-z])")
NOT_SPOKEN = ("|", "```", "~~~", "---", "***", "<")
BEGINS = re.compile(r"^\s*(?:[-*+]|\d+[.)]|>|\|)\s*|^\s*#{1,6}\s+")


def count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def bounded(lines: Sequence[str], limit: int) -> str:
    rest = [f"- … and {len(lines) - limit} more"] if len(lines) > limit else []
    return "\n".join([*lines[:limit], *rest])


def code(text: str) -> str:
    """A code span that no file name or message can break out of, in a table as well."""
    text = plain(text, 300)
    fence = "`"
    while fence in text:
        fence += "`"
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def plain(text: str, longest: int) -> str:
    """One line without anything invisible, for names and words that others wrote."""
    text = "".join(
        character if character.isprintable() else repr(character)[1:-1] for character in text
    )
    return text if len(text) <= longest else text[:longest] + "…"


def quoted(text: str) -> str:
    """An indented block inside a list item; no fence that the text could close."""
    return (
        "\n\n"
        + "\n".join(f"      {plain(line, 300)}" for line in text.removesuffix("\n").split("\n"))
        + "\n"
        if text
        else ""
    )


def last_lines(text: str, lines: int = 12) -> str:
    said = [line for line in showable(text).split("\n") if line.strip()]
    return "\n".join(said[-lines:])[-2000:]


def showable(text: str) -> str:
    """Without what a database's JSON cannot hold: NUL and lone surrogates."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("\0", "�")


def filled(words: str, *sources: Mapping[str, Any]) -> str:
    """Words with each `{name}` in them filled in from the first source that has it, whatever its
    case and with a space for each `_`; a name that none has stays as it is written.
    """
    known: dict[str, Any] = {}
    for source in sources:
        for name, value in source.items() if isinstance(source, Mapping) else ():
            known.setdefault(_name(name), value)

    def fill(place: re.Match[str]) -> str:
        value = known.get(_name(place[1]))
        plain_value = isinstance(value, str | int | float) and not isinstance(value, bool)
        return plain(str(value), 120) if plain_value else place[0]

    return PLACE.sub(fill, words)


def _name(name: object) -> str:
    return str(name).strip().casefold().replace("_", " ")


def first_sentence(markdown: str, longest: int) -> tuple[str, bool]:
    """The first sentence of a text, behind the heading that it begins with, without Markdown's
    marks; and whether that is all of the text.
    """
    lines = [line for line in markdown[:20_000].splitlines() if line.strip()]
    headed = len(lines) > 1 and lines[0].startswith("#")
    heading = _unmarked(lines.pop(0)) if headed else ""
    spoken = [line for line in lines if not line.lstrip().startswith(NOT_SPOKEN)]
    line = _unmarked(spoken[0]) if spoken else ""
    sentence = SENTENCE.split(line, maxsplit=1)[0]
    said = f"{heading}: {sentence}" if heading and sentence else heading or sentence
    # an address behind a word is seen on the card alone
    whole = (
        lines == spoken[:1] and sentence == line and "](" not in markdown and len(said) < longest
    )
    return plain(said, longest - 1), whole


def _unmarked(line: str) -> str:
    bare = MARKS.sub(lambda mark: mark[1] or "", BEGINS.sub("", line))
    return " ".join(ESCAPED.sub(r"\1", bare).split())
