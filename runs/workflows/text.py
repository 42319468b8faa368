"""Text that others wrote, in Markdown that nothing of it can break out of; and counts in words."""

from __future__ import annotations

from collections.abc import Sequence


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
