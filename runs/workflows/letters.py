"""Texts that a step sends, as templates: what operators may write instead (`texts` of a step
template), and how they are filled in. `{{name}}` stands for a value; a paragraph that holds nothing
but values is left out where all of them are empty.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runs.workflows.base import ConfigInvalid

LONGEST = 4_000
"""Characters of a text."""
_PLACE = re.compile(r"\{\{\s*(\w+)\s*\}\}")


@dataclass(frozen=True, kw_only=True)
class Letter:
    """A text that can be written anew."""

    title: str
    """How pages call it."""
    usual: str
    """What is sent where operators wrote nothing."""
    places: tuple[str, ...]
    """What it may name."""
    needs: str = ""
    """What it must name, or nobody would learn what is asked."""
    line: bool = False
    """Whether it is one line, a subject."""


Letters = Mapping[str, Letter]
"""By their names in the configuration."""


def fault(letters: Letters, name: str, text: Any) -> str:
    """What is wrong with a text of that name; "" where nothing is."""
    letter = letters.get(name)
    if letter is None:
        return f"There is no such text. There are {', '.join(letters)}."
    if not isinstance(text, str) or not text.strip() or len(text) > LONGEST:
        return f"A text of 1 to {LONGEST} characters."
    if letter.line and len(text.splitlines()) > 1:
        return "A subject is one line."
    named = set(_PLACE.findall(text))
    if unknown := sorted(named - set(letter.places)):
        known = ", ".join(f"{{{{{place}}}}}" for place in letter.places)
        return f"Nothing stands for {{{{{unknown[0][:60]}}}}}. There are {known}."
    if letter.needs and letter.needs not in named:
        return f"It must hold {{{{{letter.needs}}}}}: without it nobody learns what is asked."
    return ""


def check(letters: Letters, config: Mapping[str, Any]) -> None:
    """Raise ConfigInvalid for texts that could not be sent."""
    texts = config.get("texts", {})
    if not isinstance(texts, Mapping):
        raise ConfigInvalid.of("texts", f"An object of texts by name: {', '.join(letters)}.")
    if errors := {
        f"texts.{name}": [problem]
        for name, text in texts.items()
        if (problem := fault(letters, name, text))
    }:
        raise ConfigInvalid(errors)


def fill(letters: Letters, name: str, texts: Mapping[str, str], values: Mapping[str, str]) -> str:
    """That text with its values.

    What is filled in is not looked at again, so a value that looks like a place stays what it is.
    """
    text = texts.get(name) or letters[name].usual
    parts = re.split(r"\n[ \t]*\n", text.replace("\r\n", "\n").strip())
    return "\n\n".join(
        _PLACE.sub(lambda found: values[found[1]], part) for part in parts if _says(part, values)
    )


def _says(part: str, values: Mapping[str, str]) -> bool:
    return bool(_PLACE.sub("", part).strip()) or any(values[name] for name in _PLACE.findall(part))
