"""What holds of the catalogues: each marked text has its words, with the same values in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from babel.messages.catalog import Catalog, Message

from tests.languages.extraction import DOMAINS, LOCALE, catalogue, updated

VALUE = re.compile(r"%\(\w+\)[sd]|%[sd]|\{\w*\}|<[^>]+>")
"""What a translation has to keep: values, and the HTML inside a text."""
LANGUAGES = sorted(path.name for path in LOCALE.iterdir() if path.is_dir())


def files(language: str) -> Iterator[tuple[str, Path]]:
    for domain in DOMAINS:
        yield domain, LOCALE / language / "LC_MESSAGES" / f"{domain}.po"


def write() -> None:
    for domain, texts in DOMAINS.items():
        sources = catalogue(texts())
        for language in LANGUAGES:
            path = LOCALE / language / "LC_MESSAGES" / f"{domain}.po"
            path.write_bytes(updated(path, sources)[1])


def problems() -> list[str]:
    found = []
    for domain, texts in DOMAINS.items():
        sources = catalogue(texts())
        for language in LANGUAGES:
            path = LOCALE / language / "LC_MESSAGES" / f"{domain}.po"
            known, text = updated(path, sources)
            name = f"{language}/{domain}.po"
            if text != path.read_bytes():
                found.append(f"{name} is not up to date: run python -m tests.languages")
            found += [f"{name}: {line}" for line in incomplete(known)]
    return found


def incomplete(known: Catalog) -> Iterator[str]:
    for message in known:
        if not message.id:
            continue
        ids = [message.id] if isinstance(message.id, str) else list(message.id)
        string = message.string or ""
        words = [string] if isinstance(string, str) else list(string)
        if message.fuzzy:
            yield f"{ids[0]!r} is fuzzy"
        if not all(words):
            yield f"{ids[0]!r} has no words"
        elif wrong := _values_lost(message, ids, words):
            yield wrong


def _values_lost(message: Message, ids: list[str], words: list[str]) -> str:
    """Of a text for one thing the number may be left out, and said in words."""
    for id, word in zip(ids, words, strict=True):
        one, other = sorted(VALUE.findall(id)), sorted(VALUE.findall(word))
        if one != other:
            return f"{id!r} has {one}, its words {other}: {word!r}"
    edges = [(text[:1] == " ", text[-1:] == " ", text[:1] == "\n") for text in (ids[0], words[0])]
    return f"{ids[0]!r} begins or ends otherwise than its words" if edges[0] != edges[1] else ""
